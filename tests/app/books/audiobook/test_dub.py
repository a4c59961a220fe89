"""Speech in the times of subtitles."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from app.audio.subtitles import Cue
from app.books.audiobook.dub import DubbedCue, dub

RATE = 1_000


class Voice:
    """A voice that needs a tenth of a second for a character, and `share` of the speed that it is asked for."""

    def __init__(self, share: float = 1.0) -> None:
        self.asked: list[tuple[str, float]] = []
        self._share = share

    async def __call__(self, text: str, speed: float) -> np.ndarray:
        self.asked.append((text, speed))
        return np.ones(round(len(text) * RATE / 10 / (1 + (speed - 1) * self._share)), np.float32)


def spoken(cues: list[Cue], voice: Voice, **options: float) -> list[DubbedCue]:
    async def main() -> list[DubbedCue]:
        return [each async for each in dub(cues, voice, RATE, **options)]

    return asyncio.run(main())


def test_each_cue_begins_at_its_start() -> None:
    found = spoken([Cue(1, 2, "a" * 8), Cue(3, 4, "b" * 9), Cue(4, 5, "c" * 50)], Voice())
    assert [each.cue.start for each in found] == [1, 3, 4]
    assert [each.speed for each in found] == [1, 1, 1]
    assert found[2].cue.end == 9
    assert [each.silence for each in found] == [1000, 1200, 100]


@pytest.mark.parametrize("share", [1.0, 0.9])
def test_a_cue_that_is_too_long_is_spoken_faster(share: float) -> None:
    """Also where the model does not quite do what it is asked for."""
    found = spoken([Cue(0, 1, "a" * 12), Cue(1, 2, "b")], Voice(share))
    assert 1.2 < found[0].speed <= 1.5
    assert found[0].cue.end <= 1
    assert found[1].cue.start == 1 and found[1].late == 0


def test_a_second_try_that_fails_leaves_the_first() -> None:
    class Failing(Voice):
        async def __call__(self, text: str, speed: float) -> np.ndarray:
            return (await super().__call__(text, speed))[: None if speed == 1.0 else 0]

    found = spoken([Cue(0, 1, "a" * 12), Cue(1, 2, "b")], Failing())
    assert [each.pcm.size for each in found] == [1200, 100]


def test_nothing_is_cut_and_nothing_overlaps() -> None:
    found = spoken([Cue(0, 1, "a" * 30), Cue(1, 2, "b" * 5), Cue(4, 5, "c")], Voice(), max_speed=1.5)
    assert found[0].speed == 1.5 and found[0].cue.end == 2
    assert found[1].cue.start == 2 and found[1].late == 1
    assert found[2].cue.start == 4 and found[2].late == 0


def test_cues_that_overlap_or_are_out_of_order() -> None:
    cues = [Cue(3, 4, "c" * 5), Cue(0, 5, "a" * 10), Cue(0, 5, "b" * 10), Cue(0.5, 0.5, "")]
    found = spoken(cues, Voice())
    assert [each.cue.text[:1] for each in found] == ["a", "b", "", "c"]
    assert found[2].silence == 0
    assert all(before.cue.end <= after.cue.start for before, after in pairwise(found))


def test_speed_has_its_limit() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        spoken([Cue(0, 1, "a")], Voice(), max_speed=0.5)
    voice = Voice()
    spoken([Cue(0, 1, "a" * 50), Cue(1, 2, "b")], voice, max_speed=1.2)
    assert max(speed for _, speed in voice.asked) == 1.2


def test_a_track_goes_on_where_an_earlier_call_ended() -> None:
    cues = [Cue(0, 1, "a" * 12), Cue(1, 2, ""), Cue(1, 2, "b" * 12), Cue(9, 10, "c")]
    whole = spoken(cues, Voice())
    position = sum(each.silence + each.pcm.size for each in whole[:2])
    assert [each.cue for each in spoken(cues[2:], Voice(), position=position)] == [each.cue for each in whole[2:]]
