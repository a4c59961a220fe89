"""Sentences from fragments."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.marks import parse
from app.text.sentence_buffer import SentenceBuffer

_alphabet = st.sampled_from([*"ab AB .!?,;:\n[]()'\"1\u2028😀日。", "Dr. ", "[pause:0.5s]", "[a](/b/)", ". ", "U.S. "])


@given(st.lists(st.lists(_alphabet, max_size=12).map("".join), max_size=30))
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost_added_or_moved(fragments: list[str]) -> None:
    buffer = SentenceBuffer(limit=40)
    out = []
    for fragment in fragments:
        out += buffer.feed(fragment)
        assert len(buffer.held) <= 40
    out += buffer.flush()
    assert "".join(out) == "".join(fragments)
    assert all(out)
    assert buffer.flush() == []


def cut(fragments: Iterable[str]) -> list[str]:
    buffer = SentenceBuffer()
    return [*(piece for fragment in fragments for piece in buffer.feed(fragment)), *buffer.flush()]


def letters(text: str) -> list[str]:
    return [piece.strip() for piece in cut(text)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith met Mr. Jones. They left.", ["Dr. Smith met Mr. Jones.", "They left."]),
        ("Wait [pause:0.5s] now. [Yes.](/jˈɛs/) Go on.", ["Wait [pause:0.5s] now.", "[Yes.](/jˈɛs/) Go on."]),
        ("A title\n\nThen the text goes on.", ["A title", "Then the text goes on."]),
        ("你好。再见！好", ["你好。", "再见！", "好"]),
    ],
)
def test_sentences_from_single_characters(text: str, sentences: list[str]) -> None:
    assert letters(text) == sentences


def test_a_sentence_is_out_as_soon_as_the_next_begins() -> None:
    buffer = SentenceBuffer()
    assert buffer.feed("Hello there.") == []
    assert buffer.feed(" ") == []
    assert buffer.feed("H") == ["Hello there. "]


def test_a_stop_that_may_be_an_abbreviation_waits_for_a_word() -> None:
    buffer = SentenceBuffer()
    assert buffer.feed("He saw the U.S. A") == []
    assert buffer.feed("rmy. N") == []
    assert "".join(buffer.flush()) == "He saw the U.S. Army. N"


def test_endless_text_is_cut_at_clauses_and_words() -> None:
    buffer = SentenceBuffer()
    out = buffer.feed("so we went on and on, " * 400)
    assert out
    assert all(len(piece) <= 600 for piece in out)
    assert all(piece.endswith(", ") for piece in out)
    assert len(buffer.held) <= 600


@pytest.mark.parametrize(
    "mark",
    ["[pause:10s] ", "[ pause : 10s ]", r"\{pause:0.5s\} ", '<break time="10s"/>', '<break time="1s" /> ',
     '<phoneme alphabet="ipa" ph="a b">some word</phoneme> ', "[two words](/a b/), "],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_long_runs_of_marks_are_cut_between_them(mark: str, size: int) -> None:
    text = f"Hi. {mark * 200}Bye."
    pieces = cut(text[start : start + size] for start in range(0, len(text), size))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) < 700
    assert sum(len(parse(piece)) for piece in pieces) == 200


def test_markup_is_not_cut_open() -> None:
    pieces = cut(["word " * 117, "[Kokoro](/kˈOkəɹO/) ", "more " * 50])
    assert sum("[Kokoro](/kˈOkəɹO/)" in piece for piece in pieces) == 1


@pytest.mark.parametrize(
    ("text", "ends"),
    [("We met them.", True), ("We met at the dept.", False), ("We met at the dept. ", False), ("Is that so", False)],
)
def test_the_end_of_a_sentence_is_no_abbreviation(text: str, ends: bool) -> None:
    buffer = SentenceBuffer()
    buffer.feed(text)
    assert buffer.ends_sentence() is ends
