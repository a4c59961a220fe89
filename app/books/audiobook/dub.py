"""Speech in the times of subtitles: each cue begins at its start, and is spoken faster where it is too long."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.audio.subtitles import Cue

Float32 = npt.NDArray[np.float32]
Synthesize = Callable[[str, float], Awaitable[Float32]]
"""Speech of a text at a speed (1: as usual): float32 samples."""

MAX_SPEED: Final = 1.5
# A model's speed is not exact: so much more than is needed.
_MARGIN: Final = 1.03
# Seconds of silence before the next cue, where there is room.
_PAUSE: Final = 0.05
# A model may need two tries to be fast enough.
_TRIES: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class DubbedCue:
    """Cue as it is spoken: `cue` with the times of its speech, in seconds, the speed, and float32 samples.

    `silence` samples come before. `late`: seconds after the start that was asked for, as the cue before was too long.
    """

    cue: Cue
    pcm: Float32
    silence: int
    speed: float
    late: float


async def dub(
    cues: Sequence[Cue], synthesize: Synthesize, sample_rate: int, *, max_speed: float = MAX_SPEED, position: int = 0
) -> AsyncGenerator[DubbedCue]:
    """Yield the cues in order of their starts, as they are spoken. They never overlap.

    A cue may last until the next one begins. One that is longer is spoken faster, at most at `max_speed`. Where that is
    not enough, nothing is cut: the next cue is late. A cue whose speech is empty has no silence. At most one is held.

    Args:
        cues: Cues with their times in seconds; they may overlap.
        synthesize: Speaks a text at a speed.
        sample_rate: Rate of its samples, in Hz.
        max_speed: Highest speed, from 1.
        position: Samples of the track before the first cue, from an earlier call.

    Yields:
        The cues. Their silence and samples, one after the other, are the track.

    Raises:
        ValueError: `max_speed` is below 1.
    """
    if max_speed < 1:
        raise ValueError(f"The highest speed is {max_speed:g}; accepted is 1 or more.")
    ordered = sorted(cues, key=lambda cue: cue.start)
    for index, cue in enumerate(ordered):
        start = max(position, round(cue.start * sample_rate))
        following = ordered[index + 1].start if index + 1 < len(ordered) else None
        seconds = None
        if following is not None:
            # Of cues with the same start each has its own time; the later ones are late.
            until = following if following > cue.start else cue.end
            seconds = max(0.0, until - start / sample_rate)
        pcm, speed = await _speak(cue.text, seconds, synthesize, sample_rate, max_speed)
        if not pcm.size:
            start = position
        begin, end = start / sample_rate, (start + pcm.size) / sample_rate
        yield DubbedCue(Cue(begin, end, cue.text), pcm, start - position, speed, max(0.0, begin - cue.start))
        position = start + pcm.size


async def _speak(
    text: str, seconds: float | None, synthesize: Synthesize, sample_rate: int, max_speed: float
) -> tuple[Float32, float]:
    """Return the speech of a text in `seconds` (None: any) as far as `max_speed` allows, and its speed."""
    speed = 1.0
    pcm = await synthesize(text, speed)
    for _ in range(_TRIES - 1):
        if seconds is None or pcm.size <= seconds * sample_rate or speed >= max_speed:
            break
        room = max(seconds - _PAUSE, 1 / sample_rate)
        speed = min(max_speed, speed * _MARGIN * pcm.size / sample_rate / room)
        faster = await synthesize(text, speed)
        pcm = faster if 0 < faster.size < pcm.size else pcm
    return pcm, speed
