"""Cuts of texts, whole and in fragments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.planner import get_phonemizer
from app.text.sentence_buffer import SentenceBuffer
from app.text.sentence_splitter import sentences
from app.text.types import PhonemizedSentence


def cut(text: str, language: str = "en-us") -> list[str]:
    return [text[start:end].strip() for start, end in sentences(text, 0, len(text), language)]


@pytest.mark.parametrize(
    "pieces",
    [
        ["Dr. Smith paid $3.50 to J. R. Brown.", "“Is it?” he asked.", "No. 5 is alive."],
        ["He said it (really!).", "“Yes.”", "Ok"],
        ["你好。", "再见！", "好"],
        ["Things:\n", "- one\n", "- two\n", "- three"],
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
    utterances = [item for item in get_phonemizer("en").segments(text) if isinstance(item, PhonemizedSentence)]
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
TABLE = Path(__file__).with_name("sentence_ends.tsv").read_text(encoding="utf-8")
TEXTS = [line.split("\t") for line in TABLE.splitlines()[1:]]


@pytest.mark.parametrize("expected", TEXTS, ids=lambda pieces: pieces[0][:24])
def test_sentence_ends_whole_cut_anywhere_and_in_single_characters(expected: list[str]) -> None:
    text = " ".join(expected)
    assert cut(text) == expected
    for fragments in (*([text[:place], text[place:]] for place in range(len(text))), [*text]):
        buffer = SentenceBuffer()
        out = [piece for fragment in fragments for piece in buffer.feed(fragment)]
        assert [piece.strip() for piece in [*out, *buffer.flush()]] == expected, fragments
