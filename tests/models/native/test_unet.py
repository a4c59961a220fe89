"""The native U-Net block against its plain definition, for every set of instructions that this processor has."""

from __future__ import annotations

import numpy as np
import pytest
from mlx.utils import tree_map

from models.backend import mx
from models.chatterbox.config import ENGLISH, FlowConfig
from models.chatterbox.s3gen.estimator import UNetBlock
from models.native import kernels, unet
from tests.models.native.checks import CLOSE, apart

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no native kernels on this device")

HERE = [mx.default_stream(mx.default_device())]
# Odd widths and heads; whole vectors with a rest; and the true sizes.
CONFIGS = {
    "odd": FlowConfig(width=19, head_size=5, heads=4, blocks=2),
    "wide": FlowConfig(width=72, head_size=24, heads=2, blocks=1),
    "full": FlowConfig(blocks=1),
}


def block_of(config: FlowConfig, inputs: int) -> UNetBlock:
    block = UNetBlock(inputs, config)

    def drawn(array: mx.array) -> mx.array:
        scale = (array.size / array.shape[0]) ** -0.5 if array.ndim > 1 else 0.2
        return scale * mx.random.normal(array.shape) + (0.0 if array.ndim > 1 else 0.5)

    block.update(tree_map(drawn, block.parameters()))
    mx.eval(block.parameters())
    return block


def both(
    config: FlowConfig, inputs: int, shape: tuple[int, int], *, biased: bool, started: bool
) -> tuple[mx.array, mx.array]:
    """Result of the kernel, and of the plain definition."""
    mx.random.seed(sum(shape) + inputs)
    (batch, frames), block = shape, block_of(config, inputs)
    packed = unet.pack(block.resnet, block.transformers)
    x, shift = mx.random.normal((batch, frames, inputs)), mx.random.normal((config.width,))
    bias = mx.where(mx.arange(frames) < max(1, frames - 3), 0.0, float("-inf"))[None, None, None] if biased else None
    starts = tuple(mx.random.normal((2, batch, frames, config.width))) if started else None
    expected = block([x], shift, bias, HERE, [starts] if starts else None)[0]
    found = unet.unet_block(packed, x, shift, bias, starts)
    mx.eval(found, expected)
    return found, expected


@pytest.mark.parametrize(
    ("config", "inputs", "batch", "frames"),
    [
        ("odd", 16, 1, 1),
        ("odd", 21, 2, 7),
        ("odd", 19, 1, 65),
        ("wide", 72, 2, 50),
        ("wide", 144, 3, 131),
        ("full", 80, 1, 33),
        ("full", 512, 2, 150),
        ("full", 256, 1, 700),
    ],
)
@pytest.mark.parametrize("given", [False, True])
def test_block(config: str, inputs: int, batch: int, frames: int, given: bool) -> None:
    found, expected = both(CONFIGS[config], inputs, (batch, frames), biased=given, started=given)
    assert apart(found, expected) < 2 * CLOSE


def test_large_logits() -> None:
    """The softmax subtracts the largest logit of each query."""
    block = block_of(CONFIGS["wide"], 72)
    block.transformers[0].to_qkv.weight = 30 * block.transformers[0].to_qkv.weight
    packed = unet.pack(block.resnet, block.transformers)
    x, shift = mx.random.normal((1, 40, 72)), mx.zeros((72,))
    expected = block([x], shift, None, HERE)[0]
    assert apart(unet.unet_block(packed, x, shift, None), expected) < 1e-3


def test_what_does_not_fit_is_refused() -> None:
    block = block_of(CONFIGS["wide"], 72)
    packed = unet.pack(block.resnet, block.transformers)
    x, shift = mx.zeros((1, 9, 72)), mx.zeros((72,))
    with pytest.raises(ValueError, match="weights do not fit"):
        unet.unet_block(packed, mx.zeros((1, 9, 71)), shift, None)
    with pytest.raises(ValueError, match="do not fit"):
        unet.unet_block(packed, x[0], shift, None)
    with pytest.raises(ValueError, match="do not fit"):
        unet.unet_block(packed, x, shift, mx.zeros((8,)))
    with pytest.raises(ValueError, match="added does not fit"):
        unet.unet_block(packed, x, shift, None, (shift, mx.zeros((1, 8, 72))))


def test_narrow_blocks_stay_with_mlx() -> None:
    block = block_of(CONFIGS["wide"], kernels.MIN_INPUTS - 1)
    assert unet.pack(block.resnet, block.transformers) is None


def test_products_in_bfloat16_are_near() -> None:
    """Compare products in bfloat16; they are in float32 where the processor has none."""
    mx.random.seed(1)
    block = block_of(ENGLISH.flow, 256)
    packed, exact = (unet.pack(block.resnet, block.transformers, bfloat16=half) for half in (True, False))
    assert packed.bfloat16 == kernels.has_bfloat16()
    x, shift = mx.random.normal((2, 90, 256)), mx.random.normal((256,))
    found, expected = (np.array(unet.unet_block(each, x, shift, None)) for each in (packed, exact))
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert (1e-4 < error < 2e-2) if packed.bfloat16 else error == 0
