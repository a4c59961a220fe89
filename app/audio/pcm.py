"""Samples of speech: 16-bit integers, WAV headers, frames, and the silence before and after a sentence."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from models.contract import Pcm

# Value for "unknown" in the size fields of a WAV header that is sent before its audio.
UNKNOWN_SIZE = 0xFFFFFFFF
# Level from which louder speech is bent.
KNEE = 0.8
# Smallest sample that counts as sound, and samples that are searched for it at once.
AUDIBLE, AUDIBLE_PIECE = 1e-3, 4096
# Longest single piece of silence, in seconds: a long pause is made as it is sent.
SILENCE_CHUNK_SECONDS = 1.0


def to_int16(pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Scale by 32767, round to nearest and clip: full scale is symmetric and nothing wraps. NaN becomes silence."""
    scaled = pcm * np.float32(32767)
    np.clip(np.rint(scaled, out=scaled), -32767, 32767, out=scaled)
    # After clipping only NaN is not finite, and looking for it costs less than replacing it.
    if np.isnan(np.add.reduce(scaled)):
        np.nan_to_num(scaled, copy=False)
    samples: npt.NDArray[np.int16] = scaled.astype("<i2")
    return samples


def silence(seconds: float, sample_rate: int) -> Iterator[Pcm]:
    """Yield pieces of silence, float32 [samples], that together have a length."""
    left, piece = round(seconds * sample_rate), round(SILENCE_CHUNK_SECONDS * sample_rate)
    while left > 0:
        yield np.zeros(min(left, piece), np.float32)
        left -= piece


def first_audible(pcm: Pcm) -> int | None:
    """Return the number of the first audible sample. Speech begins early, so the rest is not looked at."""
    for start in range(0, pcm.size, AUDIBLE_PIECE):
        loud = np.flatnonzero(np.abs(pcm[start : start + AUDIBLE_PIECE]) > AUDIBLE)
        if loud.size:
            return start + int(loud[0])
    return None


Coding = Literal["pcm", "pcm24", "pcm32", "float32", "mulaw", "alaw"]
# Format tag and bits of a sample.
_CODINGS: dict[Coding, tuple[int, int]] = {
    "pcm": (1, 16),
    "pcm24": (1, 24),
    "pcm32": (1, 32),
    "float32": (3, 32),
    "alaw": (6, 8),
    "mulaw": (7, 8),
}


def frame_bytes(coding: Coding, channels: int = 1) -> int:
    """Return the bytes of one sample of all channels."""
    return _CODINGS[coding][1] // 8 * channels


def wav_header(sample_rate: int, samples: int | None, coding: Coding = "pcm", channels: int = 1) -> bytes:
    """Return a 44-byte RIFF header; `samples` of a channel: None writes UNKNOWN_SIZE, as streams do.

    Source: "Multimedia Programming Interface and Data Specifications 1.0" (1991), chapter 3; RFC 2361 for the tags.

    Args:
        sample_rate: samples of a channel in a second.
        samples: length of the audio.
        coding: form of a sample.
        channels: channels of the audio, interleaved.
    """
    tag, bits = _CODINGS[coding]
    frame = frame_bytes(coding, channels)
    data = None if samples is None else samples * frame
    riff_size = UNKNOWN_SIZE if data is None else 36 + data
    data_size = UNKNOWN_SIZE if data is None else data
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        riff_size,
        b"WAVE",
        b"fmt ",
        16,
        tag,
        channels,
        sample_rate,
        sample_rate * frame,
        frame,
        bits,
        b"data",
        data_size,
    )


def frames(data: bytes, size: int) -> Iterator[bytes]:
    """Yield `data` in pieces of at most `size` bytes."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


# Seconds kept before the first sound of a stream, and after the last sound of a sentence.
LEAD: Final = 0.020
TRAIL: Final = 0.100
# Sound is a short window whose root mean square exceeds this part of the loudest sample, -46 dB. The bounds are for a
# silent piece and a quiet voice. An f or h rises slowly: it begins at _ONSET of that level.
_PART: Final = 0.005
_ONSET: Final = 0.4
_MIN_LEVEL, _MAX_LEVEL = 5e-4, 2e-3
# It ends below this part of the loudest window, -32 dB: voices breathe out after their last word, some at -50 dBFS. A
# consonant that fades goes on within TRAIL.
_END_PART: Final = 0.025
_MAX_END_LEVEL: Final = 5e-3
_WINDOW: Final = 0.005


class Trimmer:
    """Trimmer of one sentence's silence, piece by piece. A sentence without any sound stays whole."""

    def __init__(self, sample_rate: int, lead: float = LEAD, *, fill: bool = False) -> None:
        """`lead`: seconds of silence to keep before the first sound. `fill`: to make, where there is less."""
        self.cut = 0
        """Samples that were cut from the beginning; negative: that were added."""
        self.lead = self.tail = 0
        """Samples of silence that were sent before the first sound and after the last; 0 without any sound."""
        self._loudest = 0.0
        self._fill = fill
        self._window = max(1, round(_WINDOW * sample_rate))
        self._most, self._trail = round(lead * sample_rate), round(TRAIL * sample_rate)
        self._begun = False
        self._held: Pcm = np.zeros(0, np.float32)

    def push(self, pcm: Pcm, *, last: bool) -> Pcm:
        """Return the samples that can be sent, perhaps none: silence is held back until sound or the end follows it."""
        piece = np.concatenate((self._held, pcm)) if self._held.size else pcm
        sound = self._sound(piece)
        if sound is None:
            end, keep = 0, piece.size if not self._begun else self._trail
        else:
            start, end = sound
            if not self._begun:
                self._begun = True
                self.cut = start - self._most if self._fill else max(0, start - self._most)
                self.lead = start - self.cut
                added: Pcm = np.zeros(max(0, -self.cut), np.float32)
                piece, end = np.concatenate((added, piece[max(0, self.cut) :])), end - self.cut
            keep = end + self._trail
        if last:
            self.tail = min(keep, piece.size) - end if self._begun else 0
            return piece[:keep]
        self._held = piece[end:]
        return piece[:end]

    def _sound(self, pcm: Pcm) -> tuple[int, int] | None:
        """Return the first sample of sound in `pcm` and the end of the last, to a window; None if there is no sound."""
        if not pcm.size:
            return None
        level = float(np.clip(_PART * np.abs(pcm).max(), _MIN_LEVEL, _MAX_LEVEL))
        power = np.add.reduceat(np.square(pcm), np.arange(0, pcm.size, self._window))
        self._loudest = max(self._loudest, math.sqrt(power.max() / self._window))
        end_level = max(level, min(_END_PART * self._loudest, _MAX_END_LEVEL))
        loud, last = (np.flatnonzero(power > each * each * self._window) for each in (level, end_level))
        if not last.size:
            return None
        start = int(loud[0])
        while start and power[start - 1] > (_ONSET * level) ** 2 * self._window:
            start -= 1
        return start * self._window, min(pcm.size, (int(last[-1]) + 1) * self._window)


def amplify(pcm: Pcm, gain: float) -> Pcm:
    """Return float32 [samples] times `gain`. Peaks that would pass KNEE are bent, so that none passes 1."""
    if gain == 1.0:
        return pcm
    louder = pcm * np.float32(gain)
    if gain < 1.0:
        return louder
    size = np.abs(louder)
    bent = KNEE + (1.0 - KNEE) * np.tanh((size - KNEE) / (1.0 - KNEE))
    return np.where(size > KNEE, np.copysign(bent, louder), louder).astype(np.float32)
