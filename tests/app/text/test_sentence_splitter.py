"""Cuts of texts, whole and in fragments."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.planner import get_phonemizer
from app.text.sentence_buffer import SentenceBuffer
from app.text.sentence_splitter import sentences
from app.text.types import Utterance


def cut(text: str, language: str = "en-us") -> list[str]:
    return [text[start:end].strip() for start, end in sentences(text, 0, len(text), language)]


@pytest.mark.parametrize(
    "pieces",
    [
        ["Dr. Smith paid $3.50 to J. R. Brown.", "“Is it?” he asked.", "No. 5 is alive."],
        ["It ended at 5 p.m.", "The next day came."],
        ["1. First item.", "2. Second item."],
        ["Go!", "go!", "What?!", "No."],
        ["你好。", "再见！", "好"],
        ["Things:\n", "- one\n", "- two\n", "- three"],
        ["He said it (really!).", "“Yes.”", "Ok"],
    ],
)
def test_sentences(pieces: list[str]) -> None:
    assert cut(" ".join(pieces)) == [piece.strip() for piece in pieces]


@given(st.text(max_size=80), st.sampled_from(["en-us", "es", "hi", "ja"]))
@settings(max_examples=200, deadline=None)
def test_sentences_cover_any_text(text: str, language: str) -> None:
    spans = sentences(text, 0, len(text), language)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)


def test_a_long_sentence_is_cut_at_clauses() -> None:
    text = "We walked to the river, and we sat down on the stones; " * 30
    utterances = [item for item in get_phonemizer("en").segments(text) if isinstance(item, Utterance)]
    assert len(utterances) > 3
    assert all(item.text.endswith((";", ",")) for item in utterances)
    assert sum(len(item.words) for item in utterances) == 30 * 12


def test_a_sentence_that_fits_is_not_cut() -> None:
    text = "We walked to the river, and we sat down on the stones, " * 8
    assert len(list(get_phonemizer("en").segments(text))) == 1


def test_first_sentence_comes_before_the_rest_is_looked_at() -> None:
    phonemizer = get_phonemizer("en")
    spoken: list[int] = []

    class Counting:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            spoken.append(1)
            return getattr(self.inner, name)

    original = phonemizer._pronouncer
    phonemizer._pronouncer = Counting(original)  # type: ignore[assignment]
    try:
        segments = phonemizer.segments("One is here. " * 500)
        assert not spoken
        next(segments)
        assert len(spoken) == 2
    finally:
        phonemizer._pronouncer = original


# English full stops that end a sentence and those that do not, in a whole text and in one that arrives in fragments.
TEXTS = [
    ["He lives in apt. 5C.", "She does not."],
    ["It takes approx. 5 days.", "Then it ends."],
    ["It is approx. half of it.", "The rest is ours."],
    ["See vol. 2 for more.", "It is long."],
    ["Call tel. 020 7946 0958 now.", "Ask for Ann."],
    ["Add 1 tsp. salt and 2 tbsp. sugar.", "Stir it."],
    ["We open Mon.-Fri. 9-5.", "Come by."],
    ["We like F# and .NET here.", "You may not."],
    ["It runs on ASP.NET today.", "It is fast."],
    ["We met on Wed. morning.", "It rained."],
    ["See you Thurs. at noon.", "Bring bread."],
    ["That was 3 yrs. ago.", "Time flies."],
    ["Go to 123 Main St. Apt. 5C today.", "Knock twice."],
    ["She lives on Main St.", "He lives there too."],
    ["It was founded est. 1998 by two friends.", "They left."],
    ["Use max. 10 items.", "No more."],
    ["Send it attn. Bob please.", "Thanks."],
    ["All misc. items are here.", "Take one."],
    ["The price is 5 dollars incl. tax.", "Pay now."],
    ["She said no.", "Then she left."],
    ["I saw him on Fri.", "He was well."],
    ["He sat.", "5 of us stood."],
    ["Look at the sun.", "3 birds fly."],
    ["They paid 5 dollars.", "7 was too much."],
    ["Dr. Smith met Mr. Jones.", "They left."],
    ["The U.S. Army came.", "It left."],
    ["It ended at 5 p.m.", "The next day came."],
    ["We ate apples, pears, etc. and went home.", "It was late."],
    ["The dept. of works is closed.", "Come back."],
    ["We leave Jan. 5 at dawn.", "Be there."],
    ["Acme Inc. said so.", "Nobody heard."],
]


@pytest.mark.parametrize("expected", TEXTS, ids=lambda pieces: pieces[0][:24])
def test_sentence_ends(expected: list[str]) -> None:
    text = " ".join(expected)
    assert [text[start:end].strip() for start, end in sentences(text, 0, len(text), "en-us")] == expected


@pytest.mark.parametrize("expected", TEXTS, ids=lambda pieces: pieces[0][:24])
def test_sentence_ends_in_fragments_cut_anywhere(expected: list[str]) -> None:
    text = " ".join(expected)
    for cut in range(len(text)):
        buffer = SentenceBuffer()
        out = [*buffer.feed(text[:cut]), *buffer.feed(text[cut:]), *buffer.flush()]
        assert [piece.strip() for piece in out] == expected, f"cut after {text[:cut]!r}"


@pytest.mark.parametrize("expected", TEXTS, ids=lambda pieces: pieces[0][:24])
def test_sentence_ends_in_single_characters(expected: list[str]) -> None:
    buffer = SentenceBuffer()
    out = [piece for character in " ".join(expected) for piece in buffer.feed(character)]
    assert [piece.strip() for piece in [*out, *buffer.flush()]] == expected
