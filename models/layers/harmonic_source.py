"""Merge of a harmonic-plus-noise source: sines at multiples of F0, and noise, become one excitation signal.

Wang et al. 2019 (neural source-filter, arXiv:1904.12088); reference: `SourceModuleHnNSF` of `kokoro/istftnet.py` and
of chatterbox 0.1.7, models/s3gen/hifigan.py. Each family computes the phases as its own reference does.
"""

from __future__ import annotations

from mlx import nn

from models.backend import mx

SINE_AMPLITUDE, VOICED_NOISE, UNVOICED_NOISE, VOICED_ABOVE_HZ = 0.1, 0.003, 0.1 / 3, 10.0


class HarmonicSource(nn.Module):
    """Linear merge `l_linear` of `harmonics` sines and their noise.

    The reference adds independent noise to each harmonic before the merge. A sum of weighted normals is one normal, so
    one is drawn per sample; its standard deviation is `noise_gain`.
    """

    def __init__(self, harmonics: int) -> None:
        super().__init__()
        self.l_linear = nn.Linear(harmonics, 1)

    def noise_gain(self) -> mx.array:
        """Return the standard deviation of the merged noise for unit noise on every harmonic."""
        return mx.linalg.norm(self.l_linear.weight)


def excitation(waves: mx.array, noise: mx.array, bias: mx.array, f0: mx.array) -> mx.array:
    """Return tanh of merged sines `waves` [B, T, S], merged `noise` of the same shape and the merge's `bias` [1].

    `f0` [B, T, 1] in Hz is that of each step of S samples. Up to 10 Hz a step is unvoiced: no sines, and more noise.
    """
    voiced = f0 > VOICED_ABOVE_HZ
    level = mx.where(voiced, VOICED_NOISE, UNVOICED_NOISE)
    return mx.tanh(waves * mx.where(voiced, SINE_AMPLITUDE, 0.0) + noise * level + bias)
