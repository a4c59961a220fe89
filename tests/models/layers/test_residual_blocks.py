"""The kernels of vocoders' residual blocks, their own source run by an emulated GPU, against plain blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen import vocoder
from models.chatterbox.s3gen.vocoder import LAST_SLOPE, HiFTResBlock, MeanOfBlocks
from models.kokoro import generator
from models.layers import residual_blocks
from models.layers import vocoder as vocoders
from models.layers.conv import PaddingMask
from models.layers.kernels import agreement
from models.layers.kernels.device import Device
from models.layers.norm import StyleBank
from tests.models import emulator
from tests.models.activated_conv import Launched, emulated

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

WIDTH, STYLE = 64, 16
TAPS = (3, 7, 11)
# Products are of float16s: each rounds by 2^-11 at most. The residual hides some of it.
TOLERANCE = 2e-3


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launched]:
    """Turns the emulated GPU on; notes the launches' blocks of threads."""
    return partial(emulated, monkeypatch, residual_blocks)


def blocks(taps: Sequence[int] = TAPS, width: int = WIDTH) -> MeanOfBlocks:
    """Blocks with every array such that it matters, lowered."""
    draw = np.random.default_rng(0)
    made = []
    for each in taps:
        block = HiFTResBlock(width, each, (1, 3, 5))
        for conv in (*block.convs1, *block.convs2):
            conv.weight = mx.array(draw.standard_normal(conv.weight.shape, dtype=np.float32) / np.sqrt(each * width))
            conv.bias = mx.array(draw.standard_normal(width, dtype=np.float32))
            conv.bfloat16 = True
        for snake in (*block.activations1, *block.activations2):
            snake.alpha = mx.array(draw.uniform(0.5, 2, width).astype(np.float32))
        block.lower()
        made.append(block)
    mean = MeanOfBlocks(made)
    mean.lower()
    return mean


def given(rows: int, valid: int, width: int = WIDTH) -> tuple[mx.array, PaddingMask]:
    """Rows of which the last are padding; no activation is to hear what stands there."""
    x = mx.random.normal((1, rows, width), key=mx.random.key(rows))
    mask = PaddingMask.of(mx.array(valid).reshape(1, 1, 1), rows)
    return mx.where(mask.mask == 0, 1e3, x), mask


def difference(mean: MeanOfBlocks, rows: int, valid: int, width: int = WIDTH) -> float:
    """Norm of the kernels' difference from plain blocks on valid rows, over that of the plain result."""
    assert mean.uses_kernels
    x, mask = given(rows, valid, width)
    found = mean(x, mask, LAST_SLOPE)[:, :valid]
    prepared, mean._prepared = mean._prepared, None
    wanted = mean(x, mask, LAST_SLOPE)[:, :valid]
    mean._prepared = prepared
    return agreement.relative_difference(found, wanted)


# A row alone, less than a tile, tiles of 16, of 32 and of 64 rows with a rest, and a block alone.
@pytest.mark.parametrize(
    ("rows", "valid", "taps", "tiles", "backward"),
    [
        (41, 36, TAPS, 1, False),
        pytest.param(1, 1, TAPS, 1, True, marks=proof),
        pytest.param(13, 9, TAPS, 1, False, marks=proof),
        pytest.param(70, 61, TAPS, 2, True, marks=proof),
        pytest.param(140, 131, TAPS, 4, False, marks=proof),
        pytest.param(41, 41, (7,), 1, True, marks=proof),
    ],
)
def test_equals_plain_blocks(
    gpu: Callable[..., Launched], rows: int, valid: int, taps: tuple[int, ...], tiles: int, backward: bool
) -> None:
    launched = gpu(processors={1: 1 << 20, 2: 9, 4: 9}[tiles], backward=backward)
    assert difference(blocks(taps), rows, valid) < TOLERANCE
    assert launched == [(-(-rows // (16 * tiles)), 1, len(taps))] * 6


@proof
def test_wide_blocks_share_their_columns(gpu: Callable[..., Launched]) -> None:
    launched = gpu(processors=1 << 20, backward=True)
    assert difference(blocks((11,), 256), 21, 20, 256) < TOLERANCE
    assert launched == [(2, 2, 1)] * 6


@proof
def test_the_kernels_are_compared_with_the_blocks(gpu: Callable[..., Launched]) -> None:
    gpu(processors=2)
    mean = blocks()
    assert mean.uses_kernels
    found = residual_blocks.differences(mean._prepared, mean._plain)
    assert len(found) == 2 * len(mean._prepared.form.tiles)
    assert max(found) < TOLERANCE
    mean._blocks[1].convs1[1].weight = mean._blocks[1].convs1[1].weight * 1.5
    assert min(residual_blocks.differences(mean._prepared, mean._plain)) > TOLERANCE


def test_others_are_left_to_plain_operations(gpu: Callable[..., Launched], monkeypatch: pytest.MonkeyPatch) -> None:
    gpu()
    assert blocks().uses_kernels
    assert not blocks(width=48).uses_kernels  # no whole runs of 64 terms
    other = HiFTResBlock(WIDTH, 3, (1, 3, 7))
    other.lower()
    same = blocks((3,))
    assert residual_blocks.fits([block.units for block in same._blocks])
    assert not residual_blocks.fits([*(block.units for block in same._blocks), other.units])
    exact = MeanOfBlocks([other])
    exact.lower()
    assert not exact.uses_kernels  # not marked for bfloat16
    launched = gpu()
    x, _ = given(41, 41)
    whole = same(x, PaddingMask(), LAST_SLOPE)  # nothing is padded
    mx.eval(whole)
    assert launched == []
    monkeypatch.setattr(residual_blocks, "usable", lambda *_: False)
    assert not blocks().uses_kernels


def test_a_vocoder_prepares_its_blocks(gpu: Callable[..., Launched]) -> None:
    """Those of a narrow network that is told to multiply in bfloat16, and only then."""
    config = vocoder.VocoderConfig(width=128, rates=(2,), kernels=(4,), source_kernels=(7,), f0_width=32, f0_layers=2)
    launched = gpu()
    networks = [vocoder.HiFT(config, 16) for _ in range(2)]
    networks[0].multiply_in_bfloat16()
    for network in networks:
        network.lower()
    prepared, exact = networks
    assert prepared.uses_kernels
    assert not any(mean.uses_kernels for mean in (*exact._excite, *exact._stages))
    exact.update(prepared.parameters())
    source, mel = mx.random.normal((1, 32 * 8)), mx.random.normal((1, 32, 16))
    found = prepared.decode(mel, source, mx.array(30).reshape(1, 1, 1))
    assert found.shape == (1, 32 * 8)
    assert len(launched) == 12


def styled_blocks(taps: Sequence[int] = TAPS, width: int = WIDTH) -> tuple[list[generator.AdaINResBlock], StyleBank]:
    """Kokoro's blocks with every array such that it matters, lowered, and the bank of their styles."""
    draw = np.random.default_rng(1)
    made = [generator.AdaINResBlock(width, each, (1, 3, 5), STYLE) for each in taps]
    for each, block in zip(taps, made, strict=True):
        for conv in (*block.convs1, *block.convs2):
            conv.weight = mx.array(draw.standard_normal(conv.weight.shape, dtype=np.float32) / np.sqrt(each * width))
        for norm in (*block.adain1, *block.adain2):
            norm.fc.weight = mx.array(draw.standard_normal(norm.fc.weight.shape, dtype=np.float32) * 0.1)
            norm.fc.bias = mx.array(draw.standard_normal(norm.fc.bias.shape, dtype=np.float32) * 0.5)
        for alphas in (block.alpha1, block.alpha2):
            alphas[:] = [mx.array(draw.uniform(0.5, 2, width).astype(np.float32)) for _ in alphas]
        block.lower()
    return made, StyleBank.of(*made)


def styled_difference(rows: int, valid: Sequence[int], taps: Sequence[int] = TAPS, width: int = WIDTH) -> float:
    """As `difference`, of Kokoro's blocks for a batch; the mean of x is far from zero, and padding is not heard."""
    made, bank = styled_blocks(taps, width)
    prepared = generator.Generator._kernels_of(made, bank.width)
    assert prepared is not None
    count = mx.array(list(valid), dtype=mx.int32)
    mask = PaddingMask.of(count[:, None, None], rows)
    x = mx.random.normal((len(valid), rows, width), key=mx.random.key(rows)) + 5
    x = mx.where(mask.mask == 0, 1e3, x)
    styled = bank(mx.random.normal((len(valid), STYLE), key=mx.random.key(3)))
    bias = generator.mean_bias(made)
    (found,), (wanted,) = (
        [*generator.mean_of_blocks(made, bias, x, styled, mask, 0.1, each)][-1] for each in (prepared, None)
    )
    assert not np.array(mx.where(mask.mask == 0, found, 0)).any()
    return agreement.relative_difference(found, wanted)


@pytest.mark.parametrize(
    ("rows", "valid", "taps", "tiles", "backward"),
    [
        (150, (100, 145), (3, 5), 1, False),
        pytest.param(1, (1,), TAPS, 1, True, marks=proof),
        pytest.param(41, (41,), (7,), 1, False, marks=proof),
        pytest.param(41, (40, 3, 17), TAPS, 1, True, marks=proof),  # rows of whole tiles are padding
        pytest.param(300, (290,), TAPS, 1, False, marks=proof),  # three runs of tiles
        pytest.param(70, (61, 33), TAPS, 2, True, marks=proof),
        pytest.param(140, (131,), TAPS, 4, False, marks=proof),
    ],
)
def test_styled_blocks_equal_plain_ones(
    gpu: Callable[..., Launched], rows: int, valid: tuple[int, ...], taps: tuple[int, ...], tiles: int, backward: bool
) -> None:
    launched = gpu(processors={1: 1 << 20, 2: 9 * len(valid), 4: 9}[tiles], backward=backward)
    assert styled_difference(rows, valid, taps) < TOLERANCE
    assert launched == [(-(-rows // (16 * tiles)), 1, len(taps) * len(valid))] * 6


@proof
def test_wide_styled_blocks_share_their_columns(gpu: Callable[..., Launched]) -> None:
    gpu(processors=1 << 20, backward=True)
    assert styled_difference(150, (149,), (3,), 256) < TOLERANCE


@pytest.mark.parametrize(("device", "adds"), [("cuda", True), ("metal", False)])
def test_the_mean_of_blocks(device: Device, adds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel against `merge`, for two sequences of three blocks."""
    monkeypatch.setattr(residual_blocks, "launch", emulator.launcher(device, backward=adds))
    draw = np.random.default_rng(4)
    chains, onto = (mx.array(draw.standard_normal(shape, np.float32)) for shape in ((3, 2, 37, 64), (2, 37, 64)))
    bias, count = mx.array(draw.standard_normal(64, np.float32)), mx.array([37, 21], dtype=mx.int32)
    ending = residual_blocks.Ending(bias, 0.1, onto if adds else None)
    mask = PaddingMask.of(count[:, None, None], 37).mask
    wanted = vocoders.merge([vocoders.split(each, 0, 1) for each in chains], bias, 0.1, mask, ending.onto)
    found = residual_blocks.mean(chains.reshape(6, 37, 64), 2, count, ending)
    assert np.abs(np.array(found) - np.array(wanted)).max() < 1e-6 * np.abs(np.array(wanted)).max()


def test_what_is_no_number_stays_none(gpu: Callable[..., Launched]) -> None:
    """A network that computes no numbers is found out by them: float16's range is not to hide them."""
    gpu()
    made, bank = styled_blocks((3,))
    prepared = generator.Generator._kernels_of(made, bank.width)
    assert prepared is not None
    styled, count = bank(mx.zeros((1, STYLE))), mx.array([40], dtype=mx.int32)
    x = mx.random.normal((1, 40, WIDTH), key=mx.random.key(0))
    ending = residual_blocks.Ending(mx.zeros(WIDTH))
    found = residual_blocks.compute(prepared, x * 1e6, count, ending, styled)
    assert np.isfinite(np.array(found)).all()
    x[0, 20, 5] = float("nan")
    found = residual_blocks.compute(prepared, x, count, ending, styled)
    assert np.isnan(np.array(found)).any()
