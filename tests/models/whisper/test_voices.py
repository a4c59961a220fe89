"""Where windows begin and end by the voices of a recording, and where its first words do."""

from __future__ import annotations

import pytest

from models.whisper.alignment import AlignedWord
from models.whisper.voices import VoiceSpans
from models.whisper.words import WindowSegment


def voices(*spans: tuple[float, float], content: int = 10_000) -> VoiceSpans:
    """Voices of spans in seconds, read in windows of 30."""
    return VoiceSpans([(round(a * 16_000), round(b * 16_000)) for a, b in spans], content, 3_000)


@pytest.mark.parametrize(
    ("spans", "frame", "begin"),
    [
        ([], 0, 0),
        ([], 9_999, 9_999),
        ([], 10_000, None),
        ([(8, 10)], 0, 770),
        ([(0.1, 2)], 0, 0),
        ([(8, 10)], 900, 900),
        ([(8, 10)], 990, None),  # a tenth of a second is left of the voice: its last word was heard
        ([(8, 10), (50, 50.15)], 990, 4_970),  # a short one of its own is heard
        ([(8, 10)], 1_000, None),
        ([(99, 100.3)], 10_000, None),  # nothing is left of the recording
    ],
)
def test_a_window_begins_with_a_voice(spans: list[tuple[float, float]], frame: int, begin: int | None) -> None:
    assert voices(*spans).begin(frame) == begin


@pytest.mark.parametrize(
    ("spans", "frame", "left"),
    [
        ([], 4_000, 6_000),
        ([(1, 5)], 70, 460),  # to the end of the last voice
        ([(1, 5), (10.9, 20)], 70, 1_960),  # a sixth of a window is no end
        ([(1, 5), (11, 20)], 70, 460),
        ([(1, 5), (11, 20)], 1_070, 960),
        ([(1, 99.9)], 70, 9_930),
    ],
)
def test_a_window_ends_before_a_long_pause(spans: list[tuple[float, float]], frame: int, left: int) -> None:
    assert voices(*spans).left(frame) == left


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([(0.0, 0.04), (1.12, 1.5)], [(1.0, 1.12), (1.12, 1.5)]),
        ([(0.0, 1.2), (1.2, 1.5)], [(1.0, 1.2), (1.2, 1.5)]),
        ([(0.5, 0.6)], [(1.0, 1.2)]),
        ([(1.1, 1.5), (2.2, 5.3)], [(1.1, 1.5), (4.97, 5.3)]),  # a word that begins in a pause
        ([(1.1, 1.5), (2.05, 2.3)], [(1.1, 1.5), (2.05, 2.3)]),  # one that ends late stays
    ],
)
def test_words_begin_with_a_voice(words: list[tuple[float, float]], expected: list[tuple[float, float]]) -> None:
    timed = [AlignedWord("a", [1], start, end, 1.0) for start, end in words]
    segment = WindowSegment(words[0][0], words[-1][1], [1], words=timed)
    plain = WindowSegment(*words[0], [1])
    known = voices((1.03, 2), (5, 6))
    known.place([segment], 0, 3_000)
    known.place([plain], 0, 3_000)
    assert [(word.start, word.end) for word in timed] == expected
    assert (segment.start, segment.end) == (expected[0][0], expected[-1][1])
    assert plain.start == expected[0][0]
    voices().place([unplaced := WindowSegment(0, 2, [1])], 0, 3_000)
    assert unplaced.start == 0


def test_no_window_has_more_text_than_can_be_spoken() -> None:
    known = voices((0, 0.7), content=72)
    assert known.allow("And so.", 50)
    assert known.allow("That's what I want to know.", 100)
    assert not known.allow("Helps you spend a vivid promise.", 72)
    assert voices(content=72).allow("Helps you spend a vivid promise.", 72)  # nothing is known of voices
