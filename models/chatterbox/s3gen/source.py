"""Pitch from mel frames, and harmonic-plus-noise excitation: F0 to the signal that drives the vocoder.

Pitch takes five convolutions and a dense layer. Reference: `ConvRNNF0Predictor` in chatterbox 0.1.7,
models/s3gen/f0_predictor.py (there is no recurrence in it).

Wang et al. 2019 (neural source-filter, arXiv:1904.12088); reference: `SourceModuleHnNSF` and `SineGen` in chatterbox
0.1.7, models/s3gen/hifigan.py.

The reference sums F0 over samples in float32, whose rounding reaches 1e-3 of a turn within ten seconds. Here phase is a
whole number of 2^-32 turns that wraps by itself: sums and multiples are exact, equal on every device, and one number
carries the oscillators from one piece of speech to the next.
"""

from __future__ import annotations

import math

from mlx import nn

from models.backend import compiled, mx
from models.chatterbox.config import SAMPLE_RATE
from models.layers.activation import sine
from models.layers.conv import Conv1d, PaddingMask
from models.layers.vocoder import HarmonicSource, excitation

PITCH_REACH = 5  # frames on either side that change a frame's pitch: one a convolution
_TURN = 2.0**32


@compiled
def _elu(x: mx.array, bias: mx.array, mask: mx.array | None) -> mx.array:
    """Add the bias, apply ELU and mask. exp(x) - 1 replaces the CPU's slow expm1 (absolute error 6e-8)."""
    y = x + bias
    y = mx.where(y > 0, y, mx.exp(mx.minimum(y, 0.0)) - 1)
    return y if mask is None else y * mask


class F0Predictor(nn.Module):
    """Mel [B, F, mels] to F0 [B, F] in Hz, never negative; at or below 10 Hz the frame is unvoiced."""

    def __init__(self, mels: int, width: int, layers: int) -> None:
        super().__init__()
        self.condnet = [Conv1d(width if i else mels, width, 3, padding=1, spread=True) for i in range(layers)]
        for conv in self.condnet:
            conv.exact = True  # the phase is the sum of F0 over seconds
        self.classifier = nn.Linear(width, 1)

    def __call__(self, mel: mx.array, valid: PaddingMask) -> mx.array:
        x = valid.zero(mel)
        for conv in self.condnet:
            x = _elu(conv.valid(x, 1, 1), conv.bias, valid.mask)
        return mx.abs(self.classifier(x))[:, :, 0]


@compiled
def _excitation(waves: mx.array, noise: mx.array, gain: mx.array, bias: mx.array, f0: mx.array) -> mx.array:
    return excitation(waves, noise * gain, bias, f0)


class FixedPointSource(HarmonicSource):
    """F0 and its multiples as sines of fixed-point phases, and noise, merged into one signal."""

    def __init__(self, harmonics: int, samples_per_frame: int) -> None:
        super().__init__(harmonics + 1)
        self.harmonics, self.samples_per_frame = harmonics, samples_per_frame

    def __call__(
        self, f0: mx.array, phases: mx.array, noise: mx.array, start: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Make the excitation of F frames. All phases are in 2^-32 of a turn, uint32.

        Args:
            f0: [B, F] in Hz, held over a frame.
            phases: [harmonics + 1], of each oscillator at the start.
            noise: [B, F, samples_per_frame], unit normal.
            start: [B, 1], the fundamental's phase so far; 0 by default.

        Returns:
            The excitation [B, F * samples_per_frame], and the fundamental's phase before each frame and after the last,
            [B, F + 1], each of which may be a later `start`.
        """
        batch, frames = f0.shape
        size = self.samples_per_frame
        cycles = f0 / SAMPLE_RATE
        step = ((cycles - mx.floor(cycles)) * _TURN).astype(mx.uint32)
        if start is None:
            start = mx.zeros((batch, 1), dtype=mx.uint32)
        turns = mx.concatenate([start, start + mx.cumsum(step * size, axis=1)], axis=1)
        at = turns[:, :-1, None] + step[:, :, None] * mx.arange(1, size + 1).astype(mx.uint32)
        places = at[..., None] * mx.arange(1, self.harmonics + 2).astype(mx.uint32) + phases
        waves = sine(places.view(mx.int32) * (2 * math.pi / _TURN)) @ self.l_linear.weight[0]
        y = _excitation(waves, noise, self.noise_gain(), self.l_linear.bias, f0[:, :, None])
        return y.reshape(batch, frames * size), turns
