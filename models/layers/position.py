"""Sinusoidal positions: Vaswani et al. 2017, arXiv:1706.03762, in tensor2tensor's order (sines, then cosines)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def sinusoids(count: int, width: int, first: int = 0) -> npt.NDArray[np.float32]:
    """Return rows [count, width] for positions first, first + 1, ...: frequencies 10000^(-i / (width / 2 - 1)).

    All steps are in float32, as in the checkpoints' training: at position 1000 the phase's rounding is 6e-5.
    """
    return sinusoids_at(np.arange(first, first + count, dtype=np.float32), width)


def sinusoids_at(positions: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """Return the same at any positions [count], whole or not."""
    half = width // 2
    frequency = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10_000) / max(half - 1, 1)))
    phase = positions.astype(np.float32)[:, None] * frequency
    table = np.concatenate([np.sin(phase), np.cos(phase)], axis=1)
    return np.pad(table, ((0, 0), (0, width % 2)))
