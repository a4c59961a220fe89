"""Constants of the audio, and the mel filters of losses (PyTorch)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

SAMPLE_RATE = 24000
FRAME = 600  # samples of one duration frame; F0 and energy have two values a frame


def mel_filters(n_fft: int, bands: int, high: float = SAMPLE_RATE / 2) -> Tensor:
    """Triangular mel filters (HTK's scale) from 0 Hz to `high`, [bands, n_fft // 2 + 1], each summing to 1."""

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    points = 700 * (10 ** (np.linspace(0, mel(high), bands + 2) / 2595) - 1)
    bins = np.arange(n_fft // 2 + 1) * SAMPLE_RATE / n_fft
    low, center, top = points[:-2, None], points[1:-1, None], points[2:, None]
    filters = np.maximum(0, np.minimum((bins - low) / (center - low), (top - bins) / (top - center)))
    # A narrow low band may hold no bin at all; its row then stays zero.
    filters /= np.maximum(filters.sum(1, keepdims=True), 1e-3)
    return torch.tensor(filters, dtype=torch.float32)
