"""Pitch from mel frames: five convolutions and a dense layer.

Reference: `ConvRNNF0Predictor` in chatterbox 0.1.7, models/s3gen/f0_predictor.py (there is no recurrence in it).
"""

from __future__ import annotations

from mlx import nn

from models.backend import compiled_cache, mx
from models.layers.conv import Conv1d, PaddingMask

REACH = 5  # frames on either side that change a frame's pitch: one a convolution


@compiled_cache
def _elu():  # type: ignore[no-untyped-def]
    """Return bias, ELU and mask, compiled. exp(x) - 1 replaces the CPU's slow expm1 (absolute error 6e-8)."""

    def elu(x: mx.array, bias: mx.array, mask: mx.array | None) -> mx.array:
        y = x + bias
        y = mx.where(y > 0, y, mx.exp(mx.minimum(y, 0.0)) - 1)
        return y if mask is None else y * mask

    return mx.compile(elu)


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
            x = _elu()(conv.valid(x, 1, 1), conv.bias, valid.mask)
        return mx.abs(self.classifier(x))[:, :, 0]
