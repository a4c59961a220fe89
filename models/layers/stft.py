"""Short-time Fourier transform with a periodic Hann window, and its inverse, as convolutions.

The values are those of torch.stft / torch.istft with center=True and hop = n_fft / 4. The transform is a convolution
with the windowed Fourier basis at a stride of one hop, the inverse a transposed convolution.
"""

from __future__ import annotations

import math

import numpy as np
from mlx import nn

from models.backend import mx
from models.layers.activation import sine
from models.layers.conv import Conv1d, ConvTranspose1d

_OVERLAP = 1.5  # sum of four squared periodic Hann windows a quarter apart


class Stft(nn.Module):
    """Analysis and synthesis at `n_fft` points and hop n_fft / 4. Holds no parameters."""

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        if n_fft != 4 * hop:
            raise ValueError(f"hop must be n_fft / 4, not {hop} for {n_fft}")
        self.n_fft, self.hop, self.bins = n_fft, hop, n_fft // 2 + 1
        n, k = np.arange(n_fft)[:, None], np.arange(self.bins)[None]
        window = 0.5 - 0.5 * np.cos(2 * math.pi * n / n_fft)
        angle = 2 * math.pi * ((n * k) % n_fft) / n_fft
        once = (k == 0) | (k == n_fft // 2)
        cosine, sine = np.cos(angle), np.where(once, 0.0, -np.sin(angle))
        forward = np.concatenate([cosine, sine], 1) * window
        weight = np.where(once, 1.0, 2.0) / (n_fft * _OVERLAP)
        inverse = np.concatenate([cosine * weight, sine * weight], 1) * window
        self._analysis = Conv1d(1, 2 * self.bins, n_fft, stride=hop, bias=False)
        self._analysis.weight = mx.array(forward.T[:, :, None].astype(np.float32))
        self._synthesis = ConvTranspose1d(2 * self.bins, 1, n_fft, stride=hop, padding=n_fft // 2, bias=False)
        self._synthesis.weight = mx.array(inverse.T[:, :, None].astype(np.float32))
        self._analysis.lower()
        self._synthesis.lower()
        # The first and last hop of the result lack the frame that would lie beyond the signal.
        squares = window[:, 0] ** 2
        self._head = mx.array((_OVERLAP / (_OVERLAP - squares[-hop:])).astype(np.float32))
        self._tail = mx.array((_OVERLAP / (_OVERLAP - squares[:hop])).astype(np.float32))

    def spectrum(self, x: mx.array, samples: mx.array | None = None) -> mx.array:
        """Return real, then imaginary parts, [B, N / hop + 1, 2 * bins], of x [B, N], reflected at both ends.

        `samples` [B, 1] gives the valid lengths of padded signals: the right reflection is about their last sample.
        """
        half = self.n_fft // 2
        if samples is None:
            x = mx.concatenate([x[:, half:0:-1], x, x[:, -2 : -half - 2 : -1]], axis=1)
        else:
            at = mx.abs(mx.arange(-half, x.shape[1] + half))[None]
            at = mx.where(at < samples, at, mx.maximum(2 * (samples - 1) - at, 0))
            x = mx.take_along_axis(x, at, axis=1)
        return self._analysis(x[:, :, None])

    def analyze(self, x: mx.array, samples: mx.array | None = None) -> tuple[mx.array, mx.array]:
        """Return magnitude and phase, each [B, N / hop + 1, bins], of x [B, N]; `samples` as in `spectrum`.

        The phase of a negative real bin is +pi, as torch's.
        """
        spectrum = self.spectrum(x, samples)
        real, imaginary = spectrum[:, :, : self.bins], spectrum[:, :, self.bins :]
        # Reflection makes the first frame symmetric: its imaginary part is rounding noise, whose sign would choose
        # between +pi and -pi.
        imaginary = mx.concatenate([mx.zeros_like(imaginary[:, :1]), imaginary[:, 1:]], axis=1)
        inner = mx.arctan2(imaginary[:, :, 1:-1], real[:, :, 1:-1])
        ends = mx.where(real[:, :, :: self.bins - 1] < 0, math.pi, 0.0)
        phase = mx.concatenate([ends[:, :, :1], inner, ends[:, :, 1:]], axis=2)
        return mx.sqrt(real * real + imaginary * imaginary), phase

    def synthesize(
        self, magnitude: mx.array, phase: mx.array, mask: mx.array | None = None, samples: mx.array | None = None
    ) -> mx.array:
        """Return the signal [B, (F - 1) * hop] of magnitude and phase [B, F, bins].

        `mask` [B, F, 1] is 1 on valid frames and `samples` [B, 1] the valid length, (valid frames - 1) * hop.
        """
        spectrum = mx.concatenate([magnitude * sine(phase + math.pi / 2), magnitude * sine(phase)], axis=2)
        if mask is not None:
            spectrum = spectrum * mask
        y = self._synthesis(spectrum)[:, :, 0]
        hop = self.hop
        if samples is None:
            return mx.concatenate([y[:, :hop] * self._head, y[:, hop:-hop], y[:, -hop:] * self._tail], axis=1)
        at = mx.arange(y.shape[1])[None]
        tail = self._tail[mx.clip(at - (samples - hop), 0, hop - 1)]
        y = mx.concatenate([y[:, :hop] * self._head, y[:, hop:]], axis=1)
        return mx.where(at < samples, mx.where(at >= samples - hop, y * tail, y), 0.0)
