"""Segments and seek on scripted tokens, and a whole recording by a scripted model."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import pytest

from models.whisper.alignment import AlignedWord
from models.whisper.decoding import Decoded, DecodingOptions, Thresholds
from models.whisper.transcribe import Transcriber, TranscriptionOptions, WindowTranscript, cut_segments
from tests.models.whisper.builder import tokenizer

TOKENIZER = tokenizer()
FIRST = TOKENIZER.first_timestamp
A, B, C = (TOKENIZER.encode(letter)[0] for letter in "abc")


def at(seconds: float) -> int:
    return FIRST + round(seconds / 0.02)


def decoded(*tokens: int, logprob: float = -0.1, silence: float = 0.0, temperature: float = 0.0) -> Decoded:
    logprobs = tuple(-0.1 * k for k in range(len(tokens)))
    return Decoded(tokens, logprobs, TOKENIZER.decode(tokens), logprob, silence, temperature, 1.0)


Expected = list[tuple[float, float, list[int]]]


@pytest.mark.parametrize(
    ("tokens", "segments", "advance"),
    [
        # Two segments and an unfinished third, which the next window hears again.
        (
            [at(0), A, at(2), at(2), B, at(5), at(6), C],
            [(10.0, 12.0, [at(0), A, at(2)]), (12.0, 15.0, [at(2), B, at(5)])],
            500,
        ),
        # Text, then one timestamp at the end: nothing is spoken after it.
        ([at(0), A, at(2), at(3), B, at(5)], [(10.0, 12.0, [at(0), A, at(2)]), (13.0, 15.0, [at(3), B, at(5)])], 2000),
        # Two timestamps at the end: the next window begins there.
        ([at(0), A, at(2), at(2)], [(10.0, 12.0, [at(0), A, at(2)])], 200),
        # No pair: one segment, until the last timestamp or to the window's end.
        ([at(0), A, at(7)], [(10.0, 17.0, [at(0), A, at(7)])], 2000),
        ([at(0), A, B], [(10.0, 30.0, [at(0), A, B])], 2000),
        ([A, B], [(10.0, 30.0, [A, B])], 2000),
    ],
)
def test_segments(tokens: list[int], segments: Expected, advance: int) -> None:
    cut = cut_segments(decoded(*tokens), FIRST, 1000, 2000)
    assert [(one.start, one.end, one.tokens) for one in cut.segments] == segments
    assert cut.advance == advance
    assert all(len(one.logprobs) == len(one.tokens) for one in cut.segments)
    assert cut.ends_with_speech == (tokens[-2] < FIRST <= tokens[-1])


class Scripted:
    """Model that answers with one transcript after the other, or with one for each temperature."""

    def __init__(self, *answers: Decoded, words: Sequence[Sequence[AlignedWord]] = ()) -> None:
        self.answers, self.words = list(answers), list(words)
        self.heard: list[tuple[int, int]] = []
        self.prompts: list[tuple[int, ...]] = []
        self.temperatures: list[float] = []

    def hear(self, seek: int, size: int) -> Iterator[None]:
        self.heard.append((seek, size))
        yield

    def decode(self, options: DecodingOptions) -> Generator[None, None, Decoded]:
        yield
        self.prompts.append(options.prompt)
        self.temperatures.append(options.temperature)
        return self.answers.pop(0)

    def align(self, tokens: Sequence[int], size: int) -> list[AlignedWord]:
        return list(self.words.pop(0))


def run(model: Scripted, content: int, **options: object) -> list[WindowTranscript]:
    chosen = TranscriptionOptions(**options)  # type: ignore[arg-type]
    items = list(Transcriber(model, TOKENIZER, chosen, content=content, window=3000).run())
    assert None in items
    return [item for item in items if item is not None]


def test_windows_follow_the_timestamps_and_hear_the_text_before_them() -> None:
    first = decoded(at(0), A, at(25), at(25), B)
    second = decoded(at(0), B, at(4), at(4))
    third = decoded(at(0), C, at(1))
    model = Scripted(first, second, third)
    found = run(model, 4000, decoding=DecodingOptions(prompt=(7, 8)))
    assert model.heard == [(0, 3000), (2500, 1500), (2900, 1100)]
    assert [item.seek for item in found] == [0, 2500, 2900]
    assert model.prompts == [(7, 8), (7, 8, at(0), A, at(25)), (7, 8, at(0), A, at(25), at(0), B, at(4))]
    assert [(one.start, one.end) for item in found for one in item.segments] == [(0, 25), (25, 29), (29, 30)]


@pytest.mark.parametrize(("options", "warm"), [({"previous_text": False}, 0.0), ({}, 0.6)])
def test_text_that_is_no_prompt(options: dict[str, bool], warm: float) -> None:
    model = Scripted(decoded(at(0), A, at(5), temperature=warm), decoded(at(0), B, at(5)))
    run(model, 6000, **options)
    assert model.prompts == [(), ()]


def test_a_moderate_temperature_keeps_the_prompt() -> None:
    model = Scripted(decoded(at(0), A, at(5), temperature=0.4), decoded(at(0), B, at(5)))
    run(model, 6000)
    assert model.prompts[1] == (at(0), A, at(5))


def test_silent_windows_are_skipped() -> None:
    silent = decoded(at(0), A, at(2), logprob=-2, silence=0.9)
    model = Scripted(silent, decoded(at(0), B, at(5)))
    found = run(model, 6000)
    assert model.heard == [(0, 3000), (3000, 3000)]
    assert [item.seek for item in found] == [3000]
    assert model.prompts == [(), ()]


def test_untrusted_text_is_tried_again() -> None:
    model = Scripted(decoded(at(0), A, at(5), logprob=-3), decoded(at(0), B, at(5)))
    found = run(model, 3000)
    assert (model.temperatures, found[0].decoded.tokens) == ([0.0, 0.2], (at(0), B, at(5)))


def test_segments_without_length_or_text_are_emptied() -> None:
    blank = TOKENIZER.encode(" ")[0]
    model = Scripted(decoded(at(1), A, at(1), at(1), blank, at(4), at(4), B, at(6)))
    assert [one.tokens for one in run(model, 3000)[0].segments] == [[], [], [at(4), B, at(6)]]


def test_a_window_that_ends_where_it_begins_is_left() -> None:
    model = Scripted(decoded(at(0), A, at(0), at(0)), decoded(at(0), B, at(2)))
    run(model, 4000)
    assert model.heard == [(0, 3000), (3000, 1000)]


def word(text: str, token: int, start: float, end: float, probability: float = 0.9) -> AlignedWord:
    return AlignedWord(text, [token], start, end, probability)


def test_with_word_times_the_next_window_begins_after_the_last_word() -> None:
    model = Scripted(
        decoded(at(0), A, at(5), at(5), B),
        decoded(at(0), B, at(2)),
        words=[[word(" a", A, 1.0, 1.5)], [word(" b", B, 0.5, 1.0)]],
    )
    found = run(model, 3100, word_times=True)
    assert [seek for seek, _ in model.heard] == [0, 150]
    assert [one.word for one in found[0].segments[0].words] == [" a"]
    assert found[1].segments[0].words[0].start == 2.0


def test_thresholds_of_none_take_everything() -> None:
    model = Scripted(decoded(at(0), A, at(2), logprob=-9, silence=0.99))
    assert len(run(model, 2000, thresholds=Thresholds(None, None, None))) == 1
