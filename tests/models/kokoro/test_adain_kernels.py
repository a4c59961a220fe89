"""The kernels of Kokoro's residual blocks, their own source run by an emulated GPU, against plain blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from models.backend import mx
from models.kokoro import adain_kernels
from models.kokoro.adain_block import AdainResBlock
from models.layers.conv import PaddingMask
from models.layers.norm import StyleBank
from tests.models.activated_conv import Launched, emulated

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

STYLE = 16
# Products are of float16s: each rounds by 2^-11 at most.
TOLERANCE = 2e-3


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launched]:
    """Turns the emulated GPU on; notes the launches' blocks of threads."""
    return partial(emulated, monkeypatch, adain_kernels)


def block(inputs: int, outputs: int, seed: int, *, upsample: bool = False, wider: int = 0) -> AdainResBlock:
    """Block with every array such that it matters, lowered; it may give more channels."""
    draw = np.random.default_rng(seed)
    made = AdainResBlock(inputs, outputs, STYLE, upsample=upsample)

    def random(array: mx.array, scale: float = 1.0) -> mx.array:
        return mx.array((draw.standard_normal(array.shape) * scale).astype(np.float32))

    for conv in (made.conv1, made.conv2):
        conv.weight = random(conv.weight, (3 * inputs) ** -0.5)
    made.conv2.bias = random(made.conv2.bias)
    for norm in (made.norm1, made.norm2):
        norm.fc.weight, norm.fc.bias = random(norm.fc.weight, 0.1), random(norm.fc.bias, 0.5)
    if upsample:
        made.pool.weight, made.pool.bias = random(made.pool.weight), random(made.pool.bias)
    if inputs != outputs:
        made.conv1x1.weight = random(made.conv1x1.weight, inputs**-0.5)
    if wider:
        made.widen(inputs, wider)
        made.conv1x1.weight = random(made.conv1x1.weight, inputs**-0.5)
    made.lower()
    return made


def curves() -> list[list[AdainResBlock]]:
    """Pairs of blocks, as the predictor has them."""
    return [
        [block(64, 64, 0), block(64, 64, 1)],
        [block(64, 128, 2, upsample=True), block(64, 128, 3, upsample=True)],
        [block(128, 128, 4), block(128, 128, 5)],
    ]


def decoder() -> list[list[AdainResBlock]]:
    """Blocks of one chain, as the decoder has it; 320 columns are no divisor of a block's threads."""
    return [[block(64, 128, 0, wider=320)], [block(320, 64, 1, wider=320)], [block(320, 64, 2, upsample=True)]]


class Blocks:
    """Levels with their bank of styles, and their plain definition."""

    def __init__(self, levels: Sequence[Sequence[AdainResBlock]], after: int = 0) -> None:
        self.levels, self.after = levels, after
        self.bank = StyleBank.of(*(each for level in levels for each in level))

    def prepare(self) -> adain_kernels.ChainPlan | None:
        return adain_kernels.prepare("blocks", self.levels, self.bank.width, self.plain, after=self.after)

    def plain(self, x: mx.array, styled: mx.array, valid: PaddingMask, after: mx.array) -> list[mx.array]:
        chains = []
        for chain in range(len(self.levels[0])):
            y, now = x, valid
            for number, level in enumerate(self.levels):
                y = level[chain](y, styled, now)
                if y.shape[1] != x.shape[1]:
                    now = valid.doubled(y.shape[1])
                if self.after and number + 1 < len(self.levels):
                    y = y + after
            chains.append(y)
        return chains

    def difference(self, rows: int, valid: Sequence[int], tiles: int | None = None) -> float:
        """Norm of the kernels' difference from plain blocks on valid rows, over that of the plain results."""
        prepared = self.prepare()
        assert prepared is not None
        mask = PaddingMask.of(mx.array(list(valid), dtype=mx.int32)[:, None, None], rows)
        x = mx.random.normal((len(valid), rows, prepared.levels[0].first.form.inputs), key=mx.random.key(rows)) + 3
        x = mx.where(mask.mask == 0, 1e3, x)  # padding, which is not to be heard
        after = mx.random.normal((len(valid), rows, max(self.after, 1)), key=mx.random.key(5))
        styled = self.bank(mx.random.normal((len(valid), STYLE), key=mx.random.key(3)))
        found = np.array(
            mx.stack(adain_kernels.compute(prepared, x, mask.number(x), styled, after if self.after else None, tiles))
        )
        wanted = np.array(mx.stack(self.plain(x, styled, mask, after)))
        assert found.shape == wanted.shape
        apart = total = 0.0
        for row, count in enumerate(valid):
            assert not found[:, row, 2 * count :].any()
            apart += float(np.square(found[:, row, : 2 * count] - wanted[:, row, : 2 * count]).sum())
            total += float(np.square(wanted[:, row, : 2 * count]).sum())
        return (apart / total) ** 0.5


@pytest.mark.parametrize(
    ("rows", "valid", "tiles", "backward"),
    [
        (24, (22, 9), 1, False),
        pytest.param(5, (5,), 1, True, marks=proof),
        pytest.param(21, (21,), 1, False, marks=proof),
        pytest.param(40, (37, 11), 2, True, marks=proof),
        pytest.param(140, (139,), 1, True, marks=proof),
    ],
)
def test_parallel_chains_equal_plain_blocks(
    gpu: Callable[..., Launched], rows: int, valid: tuple[int, ...], tiles: int, backward: bool
) -> None:
    launched = gpu(backward=backward)
    assert Blocks(curves()).difference(rows, valid, tiles) < TOLERANCE
    tall, planes = [-(-size // (16 * tiles)) for size in (rows, rows, 2 * rows, 2 * rows)], 2 * len(valid)
    parts = [1, 1, 2, 2, 2, 2]
    assert [blocks[1:] for blocks in launched] == [(each, planes) for each in parts]
    assert [blocks[0] for blocks in launched] == [tall[0], tall[0], *tall[2:3] * 4]


@pytest.mark.parametrize(
    ("rows", "valid", "tiles", "backward"),
    [
        (24, (22, 9), 1, False),
        pytest.param(16, (16,), 1, True, marks=proof),
        pytest.param(40, (40,), 2, True, marks=proof),
    ],
)
def test_a_chain_with_more_inputs_equals_plain_blocks(
    gpu: Callable[..., Launched], rows: int, valid: tuple[int, ...], tiles: int, backward: bool
) -> None:
    gpu(backward=backward)
    assert Blocks(decoder(), after=320).difference(rows, valid, tiles) < TOLERANCE


@proof
def test_the_kernels_are_compared_with_the_blocks(gpu: Callable[..., Launched]) -> None:
    gpu()
    for blocks in (Blocks(curves()), Blocks(decoder(), after=320)):
        prepared = blocks.prepare()
        assert prepared is not None
        found = adain_kernels.differences(prepared, blocks.plain, blocks.bank.width)
        assert len(found) == len(prepared.tiles)
        assert max(found) < TOLERANCE
        conv = blocks.levels[1][0].conv2
        conv.weight = conv.weight * 1.5  # (AdaIN hides a factor of the first)
        assert min(adain_kernels.differences(prepared, blocks.plain, blocks.bank.width)) > TOLERANCE


def test_others_are_left_to_plain_operations(gpu: Callable[..., Launched], monkeypatch: pytest.MonkeyPatch) -> None:
    gpu()
    assert Blocks(curves()).prepare() is not None
    assert Blocks([[block(48, 48, 0)]]).prepare() is None  # no whole runs of 64 terms
    monkeypatch.setattr(adain_kernels, "usable", lambda *_: False)
    assert Blocks(curves()).prepare() is None
