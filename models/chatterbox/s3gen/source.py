"""Harmonic-plus-noise excitation: F0 to the signal that drives the vocoder.

Wang et al. 2019 (neural source-filter, arXiv:1904.12088); reference: `SourceModuleHnNSF` and `SineGen` in chatterbox
0.1.7, models/s3gen/hifigan.py.

The reference sums F0 over samples in float32, whose rounding reaches 1e-3 of a turn within ten seconds. Here phase is a
whole number of 2^-32 turns that wraps by itself: sums and multiples are exact, equal on every device, and one number
carries the oscillators from one piece of speech to the next.
"""

from __future__ import annotations

import math

from mlx import nn

from models.backend import mx
from models.chatterbox.config import SAMPLE_RATE
from models.layers.activation import sine
from models.layers.compiled import compiled_cache

SINE_AMPLITUDE, VOICED_NOISE, UNVOICED_NOISE, VOICED_ABOVE_HZ = 0.1, 0.003, 0.1 / 3, 10.0
_TURN = 2.0**32


@compiled_cache
def _mix():  # type: ignore[no-untyped-def]
    def mix(waves: mx.array, noise: mx.array, gain: mx.array, bias: mx.array, f0: mx.array) -> mx.array:
        voiced = f0 > VOICED_ABOVE_HZ
        level = mx.where(voiced, VOICED_NOISE, UNVOICED_NOISE)
        return mx.tanh(waves * mx.where(voiced, SINE_AMPLITUDE, 0.0) + noise * gain * level + bias)

    return mx.compile(mix)


class HarmonicSource(nn.Module):
    """F0 and its multiples as sines, with noise, merged into one signal.

    The reference adds independent noise to each harmonic before a linear merge; a sum of weighted normals is one
    normal, so one is drawn per sample and scaled by the norm of the merge's weights.
    """

    def __init__(self, harmonics: int, samples_per_frame: int) -> None:
        super().__init__()
        self.merge = nn.Linear(harmonics + 1, 1)
        self.harmonics, self.samples_per_frame = harmonics, samples_per_frame

    def noise_gain(self) -> mx.array:
        """Standard deviation of the merged noise for unit noise on every harmonic."""
        return mx.linalg.norm(self.merge.weight)

    def __call__(
        self, f0: mx.array, phases: mx.array, noise: mx.array, start: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Excitation [B, F * samples_per_frame], and the fundamental's phase before each frame and after the last.

        f0 [B, F] Hz, held over a frame; starting `phases` uint32 [harmonics + 1] and unit `noise`
        [B, F, samples_per_frame]; `start` uint32 [B, 1] is the fundamental's phase so far. The phases that come back,
        uint32 [B, F + 1], are such starts. All phases are in 2^-32 of a turn.
        """
        batch, frames = f0.shape
        size = self.samples_per_frame
        cycles = f0 / SAMPLE_RATE
        step = ((cycles - mx.floor(cycles)) * _TURN).astype(mx.uint32)
        if start is None:
            start = mx.zeros((batch, 1), dtype=mx.uint32)
        turns = mx.concatenate([start, start + mx.cumsum(step * size, axis=1)], axis=1)
        at = turns[:, :-1, None] + step[:, :, None] * mx.arange(1, size + 1).astype(mx.uint32)
        words = at[..., None] * mx.arange(1, self.harmonics + 2).astype(mx.uint32) + phases
        waves = sine(words.view(mx.int32) * (2 * math.pi / _TURN)) @ self.merge.weight[0]
        y = _mix()(waves, noise, self.noise_gain(), self.merge.bias, f0[:, :, None])
        return y.reshape(batch, frames * size), turns


def phase_words(radians: mx.array) -> mx.array:
    """Angles in radians as phases in 2^-32 of a turn, uint32; exact to 1e-7 of a turn within [-pi, pi]."""
    turns = radians * (0.5 / math.pi)
    return (mx.minimum(turns - mx.floor(turns), 1 - 2.0**-24) * _TURN).astype(mx.uint32)
