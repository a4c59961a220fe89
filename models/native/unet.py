"""The native kernel of a U-Net block of S3Gen's flow: causal convolutions, attention and feed-forward layers at once.

`models.chatterbox.s3gen.blocks` has the plain definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.backend import mx
from models.native import kernels


@dataclass(frozen=True, slots=True)
class PackedUNet:
    """A U-Net block's arrays in the kernel's order; `starts` are the two biases that a call may replace."""

    arrays: tuple[mx.array, ...]
    starts: tuple[mx.array, mx.array]
    heads: int
    inner: int
    wide: int
    bfloat16: bool


def pack(resnet: Any, transformers: Sequence[Any], *, bfloat16: bool = False) -> PackedUNet | None:
    """Return a `ResnetBlock` and its `TransformerBlock`s packed, or None where they stay with MLX.

    `bfloat16` asks for products in bfloat16, where this processor has them.
    """
    bfloat16 = bfloat16 and kernels.has_bfloat16()

    def taps(weight: mx.array) -> mx.array | None:
        """Pack weight [O, K, I] or [O, I]."""
        weight = weight[:, None] if weight.ndim == 2 else weight
        packed = kernels.pack_conv(weight.transpose(1, 2, 0), bfloat16=bfloat16)
        return None if packed is None else packed.weights

    first, second = resnet.block1, resnet.block2
    found = [taps(first.conv.weight), first.norm.weight, first.norm.bias]
    found += [taps(second.conv.weight), second.conv.bias, second.norm.weight, second.norm.bias]
    found += [taps(resnet.res_conv.weight)]
    for block in transformers:
        found += [block.norm1.weight, block.norm1.bias, taps(block.to_qkv.weight)]
        found += [taps(block.to_out.weight), block.to_out.bias, block.norm3.weight, block.norm3.bias]
        found += [taps(block.fc1.weight), block.fc1.bias, taps(block.fc2.weight), block.fc2.bias]
    arrays = tuple(array for array in found if array is not None)
    if len(arrays) < len(found):
        return None
    tested = transformers[0]
    inner, wide = tested.to_out.weight.shape[1], tested.fc1.weight.shape[0]
    return PackedUNet(arrays, (first.conv.bias, resnet.res_conv.bias), tested.heads, inner, wide, bfloat16)


def unet_block(
    block: PackedUNet,
    x: mx.array,
    shift: mx.array,
    bias: mx.array | None,
    starts: tuple[mx.array, mx.array] | None = None,
) -> mx.array:
    """Return the block's result for x [B, F, I]: [B, F, C].

    `shift` [C] is of the step's time, `bias` [1, 1, 1, F] is added to attention's logits, and `starts`, [C] or
    [B, F, C] each, replace the two biases.
    """
    start, end = block.starts if starts is None else starts
    shape = block.heads, block.inner, block.wide, block.bfloat16
    return kernels.compute("unet_block", x, shift, bias, start, end, list(block.arrays), *shape)
