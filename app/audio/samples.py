"""Raw samples that come over a socket: 16-bit, float or G.711 bytes, to mono float32 at another rate."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from app.audio.resample import Mixer, Resampler, Samples

SampleCoding = Literal["pcm16", "float32", "mulaw", "alaw"]

_WIDTHS: Final[dict[SampleCoding, int]] = {"pcm16": 2, "float32": 4, "mulaw": 1, "alaw": 1}
_LINEAR: Final[dict[SampleCoding, str]] = {"pcm16": "<i2", "float32": "<f4"}


class SampleReader:
    """Reader of bytes cut anywhere: those of a sample that is not whole wait for the rest."""

    def __init__(self, coding: SampleCoding, rate: int, target: int, channels: int = 1) -> None:
        """Read samples of `coding` at `rate` Hz, of interleaved channels, which are mixed; make them at `target` Hz."""
        self._coding: SampleCoding = coding
        self._channels, self._mixer = channels, Mixer()
        self._frame = _WIDTHS[coding] * channels
        self._rest = b""
        self._resampler = Resampler(rate, target)

    def push(self, data: bytes, *, last: bool = False) -> Samples:
        """Return the samples [n] in [-1, 1] that are ready; with `last` all. NaN and infinity become silence."""
        data = self._rest + data
        whole = len(data) - len(data) % self._frame
        self._rest = data[whole:]
        samples = decode(data[:whole], self._coding)
        if self._channels > 1:
            samples = self._mixer.mix(samples.reshape(-1, self._channels))
        return self._resampler.push(samples, last=last)


def decode(data: bytes, coding: SampleCoding) -> Samples:
    """Return the samples [n] of whole bytes, in [-1, 1]."""
    if coding in _LINEAR:
        samples = np.frombuffer(data, _LINEAR[coding])
        if coding == "pcm16":
            return samples.astype(np.float32) / np.float32(32_768)
        return np.clip(np.nan_to_num(samples.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0)
    return (_MULAW if coding == "mulaw" else _ALAW)[np.frombuffer(data, np.uint8)]


def _mulaw() -> Samples:
    """Return the sample of each byte of mu-law (ITU-T G.711, table 2)."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4 & 7).astype(np.int32), (code & 15).astype(np.int32)
    size = ((mantissa << 3) + 132 << exponent) - 132
    return (np.where(code & 128, -size, size) / 32_768).astype(np.float32)


def _alaw() -> Samples:
    """Return the sample of each byte of A-law (ITU-T G.711, table 1)."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4 & 7).astype(np.int32), (code & 15).astype(np.int32)
    size = np.where(exponent == 0, (mantissa << 4) + 8, (mantissa << 4) + 264 << np.maximum(exponent - 1, 0))
    return (np.where(code & 128, size, -size) / 32_768).astype(np.float32)


_MULAW: Final = _mulaw()
_ALAW: Final = _alaw()
