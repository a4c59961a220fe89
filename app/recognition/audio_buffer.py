"""Audio of a live recognition: the samples that are still needed, and where in them somebody speaks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from app.audio.vad import FRAME, SAMPLE_RATE, Samples, VoiceDetector, VoiceOptions
from app.text.executor import Steps

# Frames besides the options' times that the start of a voice may lie back when it is known.
_FRAMES_BACK: Final = 4


class AudioBuffer:
    """Samples of a stream from `begin` to `end`, counted from its first one."""

    def __init__(self) -> None:
        self.begin = self.end = 0
        self._pieces: deque[Samples] = deque()

    def append(self, pcm: Samples) -> None:
        """Add samples [n] at the end."""
        if pcm.size:
            self._pieces.append(pcm)
            self.end += pcm.size

    def read(self, begin: int, end: int) -> Samples:
        """Return the samples [end - begin], less those that are gone."""
        pcm = np.concatenate([np.empty(0, np.float32), *self._pieces])
        return pcm[max(0, begin - self.begin) : max(0, end - self.begin)]

    def forget(self, before: int) -> None:
        """Drop the whole pieces before a sample."""
        while self._pieces and self.begin + self._pieces[0].size <= before:
            self.begin += self._pieces.popleft().size


@dataclass(frozen=True, slots=True)
class Mark:
    """Sample at which a voice starts, or ends."""

    sample: int
    starts: bool


@dataclass(slots=True)
class Scan:
    """Voices in one piece of audio: their marks, and the sample at which the last one ended."""

    marks: list[Mark] = field(default_factory=list)
    heard: int = 0


class VoiceMarks:
    """Voice activity detection whose samples count from `base` on. Its parts are made and used on one thread."""

    def __init__(self, options: VoiceOptions, base: int) -> None:
        self._options, self._base = options, base
        # Seconds of the shortest voice, from the next scan on.
        self.min_speech = options.min_speech
        self._detector: VoiceDetector | None = None
        self._open = False

    @property
    def lookback(self) -> int:
        """Samples before the last one in which the start of the next voice may lie."""
        times = self._options.padding + self.min_speech + self._options.min_silence
        return round(times * SAMPLE_RATE) + _FRAMES_BACK * FRAME

    def scan(self, pcm: Samples) -> Steps[Scan]:
        """Take samples [n], and return what they tell. Each step takes less than a millisecond."""
        if self._detector is None:
            self._detector = VoiceDetector(self._options)
        detector, found = self._detector, Scan()
        detector.min_speech = self.min_speech
        for begin in range(0, pcm.size, FRAME):
            for span in detector.push(pcm[begin : begin + FRAME]):
                self._start(found, span.start)
                found.marks.append(Mark(self._base + span.end, starts=False))
                self._open = False
            if detector.started is not None:
                self._start(found, detector.started)
            yield
        found.heard = self._base + detector.heard
        return found

    def _start(self, found: Scan, sample: int) -> None:
        if not self._open:
            found.marks.append(Mark(self._base + sample, starts=True))
            self._open = True
