"""Samples and frames: float32 in [-1, 1] to 16-bit little-endian integers, and WAV headers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

# Value for "unknown" in the size fields of a WAV header that is sent before its audio.
UNKNOWN_SIZE = 0xFFFFFFFF


def to_int16(pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Scale by 32767, round to nearest and clip: full scale is symmetric and nothing wraps. NaN becomes silence."""
    scaled = pcm * np.float32(32767)
    np.clip(np.rint(scaled, out=scaled), -32767, 32767, out=scaled)
    # After clipping only NaN is not finite, and looking for it costs less than replacing it.
    if np.isnan(np.add.reduce(scaled)):
        np.nan_to_num(scaled, copy=False)
    samples: npt.NDArray[np.int16] = scaled.astype("<i2")
    return samples


Coding = Literal["pcm", "mulaw", "alaw"]
# Format tag and bits of a sample.
_CODINGS: dict[Coding, tuple[int, int]] = {"pcm": (1, 16), "alaw": (6, 8), "mulaw": (7, 8)}


def wav_header(sample_rate: int, samples: int | None, coding: Coding = "pcm") -> bytes:
    """Return a 44-byte RIFF header for mono audio; `samples` None writes UNKNOWN_SIZE, as streams do.

    Source: "Multimedia Programming Interface and Data Specifications 1.0" (1991), chapter 3; RFC 2361 for the tags.
    """
    tag, bits = _CODINGS[coding]
    data = None if samples is None else samples * bits // 8
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
        1,
        sample_rate,
        sample_rate * bits // 8,
        bits // 8,
        bits,
        b"data",
        data_size,
    )


def frames(data: bytes, size: int) -> Iterator[bytes]:
    """Yield `data` in pieces of at most `size` bytes."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
