"""Residual block with AdaIN and LeakyReLU, of Kokoro's predictor and decoder (`AdainResBlk1d` of the reference)."""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.layers.adain import adain_leaky
from models.layers.conv import Conv1d, ConvTranspose1d, PaddingMask, with_zeros
from models.layers.norm import AdaIN
from models.native import kernels


class AdainResBlock(nn.Module):
    """Residual block with AdaIN and LeakyReLU, optionally doubling the length (`AdainResBlk1d`).

    The first convolution's bias is constant over time, and the second AdaIN removes it: it is left out.
    """

    def __init__(self, inputs: int, outputs: int, style_dim: int, *, upsample: bool = False) -> None:
        super().__init__()
        self._arrays: tuple[mx.array, ...] = ()
        self.norm1 = AdaIN(style_dim, inputs)
        self.norm2 = AdaIN(style_dim, outputs)
        self.conv1 = Conv1d(inputs, outputs, 3, padding=1, spread=True)
        self.conv2 = Conv1d(outputs, outputs, 3, padding=1, spread=True)
        if inputs != outputs:
            self.conv1x1 = Conv1d(inputs, outputs, 1, bias=False, spread=True)
        if upsample:
            self.pool = ConvTranspose1d(
                inputs, inputs, 3, stride=2, padding=1, output_padding=1, groups=inputs, bias=True
            )

    def lower(self) -> None:
        """Bring the weights into the device's order, once, after loading; for the native kernel, into its own."""
        for module in (self.conv1, self.conv2, self.get("conv1x1"), self.get("pool")):
            if module is not None:
                module.lower()
        first, second = self.conv1.packed, self.conv2.packed
        short = self.conv1x1.packed if "conv1x1" in self else None
        if first is None or second is None or (short is None and "conv1x1" in self):
            return
        none = mx.zeros((1,))
        shortcut = none if short is None else short.weights
        taps, bias = none, none
        if "pool" in self:
            folded = self.pool.weight  # [2, 2, I]: taps 2 and 3 (of which there is none), then 0 and 1
            taps, bias = mx.stack([folded[1, 0], folded[1, 1], folded[0, 0]]), self.pool.bias
        self._arrays = (first.weights, second.weights, self.conv2.bias, shortcut, taps, bias)

    def widen(self, inputs: int, outputs: int) -> None:
        """Take and give so many channels, once, before `lower`: weights of zero leave the last ones without effect."""
        self.norm1.fc.widen(inputs)
        self.conv1.weight = with_zeros(self.conv1.weight, 2, inputs)
        self.conv2.weight = with_zeros(self.conv2.weight, 0, outputs)
        self.conv2.bias = with_zeros(self.conv2.bias, 0, outputs)
        self.conv1x1.weight = with_zeros(with_zeros(self.conv1x1.weight, 2, inputs), 0, outputs)
        if "pool" in self:
            self.pool.weight = with_zeros(self.pool.weight, 0, inputs)
            self.pool.bias = with_zeros(self.pool.bias, 0, inputs)

    def _native(self, x: mx.array, styled: mx.array, valid: PaddingMask) -> mx.array:
        """Compute `__call__` in one native kernel."""
        block = kernels.PackedAdainBlock(
            arrays=self._arrays,
            affines=(self.norm1.fc.start, self.norm2.fc.start),
            outputs=self.conv2.bias.shape[0],
            upsample="pool" in self,
            shortcut="conv1x1" in self,
            bfloat16=self.conv1.bfloat16 and kernels.has_bfloat16(),
        )
        return kernels.adain_block(block, x, styled, valid.counts)

    def __call__(self, x: mx.array, styled: mx.array, valid: PaddingMask) -> mx.array:
        if self._arrays:
            return self._native(x, styled, valid)
        batch, length, _ = x.shape
        residual = adain_leaky(x, self.norm1(styled), valid)
        if "pool" in self:
            valid = valid.doubled(2 * length)
            residual = self.pool(residual, valid)
        residual = self.conv1.valid(residual, 1, 1)
        residual = self.conv2.valid(adain_leaky(residual, self.norm2(styled), valid), 1, 1)
        if "conv1x1" in self:
            x = self.conv1x1(x)
        shape = residual.shape
        if "pool" in self:  # each row of x is the shortcut of two
            residual, x = residual.reshape(batch, length, 2, -1), x[:, :, None]
        result: mx.array = (residual + self.conv2.bias + x) * 0.5**0.5
        return result.reshape(shape)
