"""Times of characters, for any chunks: complete, in order, without gaps."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.server.elevenlabs.alignment import Aligner
from app.speech.sentence import SpokenChunk, Word

TEXT = "One, two.  Three four!\n"


def chunk(
    start: float, duration: float, span: tuple[int, int], words: list[tuple[str, float, float]], last: bool = True
) -> SpokenChunk:
    placed = []
    for text, begin, end in words:
        at = TEXT.index(text)
        placed.append(Word(text, begin, end, at, at + len(text)))
    return SpokenChunk(np.zeros(0, np.float32), start, duration, TEXT[slice(*span)], *span, tuple(placed), last=last)


def test_words_have_their_times_and_what_is_between_them_the_rest() -> None:
    aligner = Aligner(TEXT, timed=True)
    first = aligner.push(chunk(0.0, 1.0, (0, 9), [("One", 0.1, 0.4), ("two", 0.6, 0.9)]))
    assert first.text == "One, two.  "
    assert first.starts[:3] == pytest.approx((0.1, 0.2, 0.3))
    assert first.starts[3:5] == pytest.approx((0.4, 0.5))
    assert first.starts[5] == pytest.approx(0.6)
    assert first.end == 1.0
    second = aligner.push(chunk(1.0, 1.0, (11, 22), [("Three", 1.1, 1.5), ("four", 1.6, 1.9)]))
    assert second.text == "Three four!\n"
    assert second.ends[-1] == 2.0
    assert aligner.finish().text == ""


def test_a_pause_has_no_characters() -> None:
    aligner = Aligner(TEXT, timed=True)
    assert aligner.push(chunk(0.0, 0.5, (0, 0), [])).text == ""
    assert aligner.push(chunk(0.5, 1.0, (0, 9), [("One", 0.6, 0.8)])).text == "One, two.  "


def test_what_is_not_spoken_comes_at_the_end() -> None:
    aligner = Aligner(TEXT, timed=True)
    aligner.push(chunk(0.0, 1.0, (0, 9), [("One", 0.1, 0.4)]))
    rest = aligner.finish()
    assert rest.text == "Three four!\n"
    assert set(rest.starts) == {1.0} == set(rest.ends)


@given(
    st.lists(st.tuples(st.floats(0, 3), st.lists(st.tuples(st.integers(-3, 40), st.floats(-1, 9)), max_size=4),
                       st.integers(0, 40), st.booleans()), max_size=6),
    st.booleans(),
)  # fmt: skip
def test_any_chunks_give_every_character_once_and_in_order(pieces: list, timed: bool) -> None:
    aligner = Aligner(TEXT, timed=timed)
    found, clock = [], 0.0
    for duration, marks, end, last in pieces:
        words = tuple(Word("w", second, second + 0.2, at, at + 3) for at, second in marks)
        spoken = SpokenChunk(np.zeros(0, np.float32), clock, duration, "text", 0, end, words, last=last)
        alignment = aligner.push(spoken)
        if alignment.text:
            assert alignment.starts[0] >= clock
            assert alignment.end == clock + duration
        clock += duration
        found.append(alignment)
    found.append(aligner.finish())
    assert "".join(each.text for each in found) == TEXT
    starts = [second for each in found for second in each.starts]
    assert len(starts) == len(TEXT)
    assert all(earlier <= later + 1e-9 for earlier, later in itertools.pairwise(starts))
