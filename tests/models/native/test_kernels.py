"""Native kernels against their plain definitions, for every set of instructions that this processor has."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_map

from models.backend import mx, on_cpu
from models.chatterbox.s3gen import vocoder
from models.kokoro import generator, source
from models.kokoro.albert import AlbertEncoder
from models.kokoro.config import AlbertConfig
from models.kokoro.generator import AdaINResBlock
from models.kokoro.network import AdainResBlock
from models.layers.conv import Conv1d, ConvTranspose1d, PaddingMask
from models.layers.lstm import bilstm_reference
from models.layers.norm import StyleBank
from models.layers.vocoder import Stft
from models.native import kernels
from tests.models.native.checks import CLOSE, apart, conv_reference

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no native kernels on this device")


def masked(counts: Sequence[int] | None, rows: int) -> PaddingMask:
    return PaddingMask() if counts is None else PaddingMask.of(mx.array(counts)[:, None, None], rows)


@pytest.mark.parametrize(
    ("batch", "rows", "inputs", "outputs", "kernel", "dilation", "left", "right"),
    [
        (1, 1, 16, 1, 1, 1, 0, 0),
        (1, 1, 16, 17, 3, 1, 1, 1),
        (2, 7, 19, 33, 2, 1, 1, 0),
        (1, 59, 48, 48, 3, 1, 1, 1),
        (1, 60, 48, 48, 3, 1, 1, 1),
        (1, 61, 48, 48, 3, 5, 5, 5),
        (3, 137, 24, 22, 7, 1, 3, 3),
        (1, 700, 48, 48, 11, 5, 25, 25),
        (1, 241, 64, 80, 5, 3, 0, 0),
        (1, 90, 274, 208, 3, 1, 1, 1),  # weights of more than a megabyte: divided by outputs, too
        (2, 33, 600, 514, 3, 1, 2, 0),
        (1, 500, 16, 16, 4, 2, 6, 1),
        (1, 45, 64, 200, 12, 7, 77, 0),
    ],
)
def test_convolution(
    batch: int, rows: int, inputs: int, outputs: int, kernel: int, dilation: int, left: int, right: int
) -> None:
    x, taps = mx.random.normal((batch, rows, inputs)), mx.random.normal((kernel, inputs, outputs))
    packed = kernels.pack_conv(taps)
    expected = conv_reference(x, taps, dilation, left, right)
    assert apart(kernels.conv1d(x, packed, dilation=dilation, left=left, right=right), expected) < CLOSE
    for start in (mx.random.normal(expected.shape), mx.random.normal((1, 1, outputs))):
        added = kernels.conv1d(x, packed, dilation=dilation, left=left, right=right, start=start)
        assert apart(added, expected + start) < CLOSE


def test_convolution_of_a_view_reads_the_view() -> None:
    x, taps = mx.random.normal((2, 40, 64)), mx.random.normal((3, 32, 20))
    packed = kernels.pack_conv(taps)
    view = x[:, ::2, 16:48]
    assert apart(kernels.conv1d(view, packed), conv_reference(view, taps, 1, 0, 0)) < CLOSE


def test_what_does_not_fit_is_refused() -> None:
    packed = kernels.pack_conv(mx.zeros((3, 16, 16)))
    with pytest.raises(ValueError, match="do not fit"):
        kernels.conv1d(mx.zeros((1, 9, 17)), packed)
    with pytest.raises(ValueError, match="shorter than the kernel"):
        kernels.conv1d(mx.zeros((1, 2, 16)), packed)
    with pytest.raises(ValueError, match="do not fit"):
        kernels.conv1d(mx.zeros((9, 16)), packed)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        kernels.conv1d(mx.zeros((1, 9, 16)), packed, start=mx.zeros((1, 6, 16)))
    with pytest.raises(ValueError, match="do not fit"):
        kernels.bilstm(mx.zeros((1, 4, 8 * 64)), mx.zeros((5,)), None)


def test_narrow_convolutions_stay_with_mlx() -> None:
    assert kernels.pack_conv(mx.zeros((3, kernels.MIN_INPUTS - 1, 64))) is None
    assert kernels.pack_conv(mx.zeros((3, 64, 64), dtype=mx.bfloat16)) is None


def random_layer(layer: nn.Module) -> nn.Module:
    layer.update(tree_map(lambda p: 0.2 * mx.random.normal(p.shape), layer.parameters()))
    mx.eval(layer.parameters())
    return layer


@contextmanager
def plain() -> Iterator[None]:
    """Within, what is lowered and computed has no native kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "module", lambda: None)
        yield


def both(native: nn.Module, other: nn.Module, *given: object) -> tuple[mx.array, mx.array]:
    """The result of a layer with native kernels, and that of its twin without, which gets the same arrays."""
    other.update(native.parameters())
    native.lower()
    found = native(*given)
    with plain():
        other.lower()
        expected = other(*given)
        mx.eval(expected)
    return found, expected


@pytest.mark.parametrize(
    ("kind", "stride", "kernel", "padding"),
    [
        *((Conv1d, *shape) for shape in ((1, 5, 2), (6, 12, 3), (2, 3, 1))),
        *((ConvTranspose1d, *shape) for shape in ((10, 20, 5), (6, 12, 3), (5, 20, 10))),
    ],
)
def test_layer_of_convolution(kind: type[Conv1d | ConvTranspose1d], stride: int, kernel: int, padding: int) -> None:
    native, other = (kind(24, 40, kernel, stride=stride, padding=padding) for _ in range(2))
    found, expected = both(random_layer(native), other, mx.random.normal((2, 99, 24)))
    assert native.packed is not None
    assert apart(found, expected) < CLOSE


@pytest.mark.parametrize(("batch", "rows", "counts"), [(1, 300, None), (3, 70, (70, 41, 1)), (1, 1, None)])
@pytest.mark.parametrize("kernels_of", [(3,), (3, 7, 11)])
def test_residual_blocks(batch: int, rows: int, counts: Sequence[int] | None, kernels_of: Sequence[int]) -> None:
    def made() -> nn.Module:
        holder = nn.Module()
        holder.blocks = [AdaINResBlock(32, kernel, (1, 3, 5), 8) for kernel in kernels_of]
        return holder

    native, other = made(), made()
    random_layer(native)
    for block in native.blocks:
        for alphas in (block.alpha1, block.alpha2):
            alphas[:] = [mx.abs(alpha) + 0.5 for alpha in alphas]
    other.update(native.parameters())
    valid = masked(counts, rows)
    bank = StyleBank.of(native)
    StyleBank.of(other)
    styled, x = bank(mx.random.normal((batch, 8))), valid.zero(mx.random.normal((batch, rows, 32)))
    for block in native.blocks:
        block.lower()
        assert block.native is not None
    *_, (found,) = generator.mean_of_blocks(native.blocks, generator.mean_bias(native.blocks), x, styled, valid, 0.1)
    with plain():
        for block in other.blocks:
            block.lower()
            assert block.native is None
        *_, (expected,) = generator.mean_of_blocks(
            other.blocks, generator.mean_bias(other.blocks), x, styled, valid, 0.1
        )
        mx.eval(expected)
    # One row has no deviation: AdaIN divides by the root of 1e-5, which multiplies the rounding of its mean.
    assert apart(found, expected) < (CLOSE if rows > 1 and (counts is None or min(counts) > 1) else 1e-3)


def mean_of(blocks: Sequence[vocoder.HiFTResBlock]) -> vocoder.MeanOfBlocks:
    mean = vocoder.MeanOfBlocks(blocks)
    mean.lower()
    return mean


@pytest.mark.parametrize(("rows", "count"), [(300, None), (70, 41), (1, None)])
@pytest.mark.parametrize("kernels_of", [(3,), (3, 7, 11)])
def test_residual_blocks_without_norm(rows: int, count: int | None, kernels_of: Sequence[int]) -> None:
    """Those of S3Gen's vocoder: each convolution's bias is added before the next Snake."""
    native, other = ([vocoder.HiFTResBlock(32, kernel, (1, 3, 5)) for kernel in kernels_of] for _ in range(2))
    for block, twin in zip(native, other, strict=True):
        random_layer(block)
        for snake in (*block.activations1, *block.activations2):
            snake.alpha = mx.abs(snake.alpha) + 0.5
        twin.update(block.parameters())
        block.lower()
        assert block.packed is not None
    valid = masked(None if count is None else (count,), rows)
    x = valid.zero(mx.random.normal((1, rows, 32)))
    found = mean_of(native)(x, valid, 0.1)
    with plain():
        for block in other:
            block.lower()
            assert block.packed is None
        expected = mean_of(other)(x, valid, 0.1)
        mx.eval(expected)
    assert apart(valid.zero(found), valid.zero(expected)) < CLOSE


@pytest.mark.parametrize(("inputs", "outputs", "upsample"), [(40, 40, False), (66, 32, False), (40, 24, True)])
@pytest.mark.parametrize(("batch", "counts"), [(1, None), (2, (83, 40))])
def test_adain_block(inputs: int, outputs: int, upsample: bool, batch: int, counts: Sequence[int] | None) -> None:
    native, other = (AdainResBlock(inputs, outputs, 8, upsample=upsample) for _ in range(2))
    random_layer(native)
    bank, valid = StyleBank.of(native), masked(counts, 83)
    StyleBank.of(other)
    styled, x = bank(mx.random.normal((batch, 8))), valid.zero(mx.random.normal((batch, 83, inputs)))
    after = valid.doubled(2 * 83) if upsample else valid
    found, expected = both(native, other, x, styled, valid)
    assert apart(after.zero(found), after.zero(expected)) < CLOSE


@pytest.mark.parametrize(("batch", "rows", "counts"), [(1, 1, None), (1, 60, None), (3, 40, (40, 13, 1))])
@pytest.mark.parametrize("hidden", [32, 64, 256])
def test_lstm(batch: int, rows: int, counts: Sequence[int] | None, hidden: int) -> None:
    xp, wh = mx.random.normal((batch, rows, 8 * hidden)), 0.1 * mx.random.normal((2, hidden, 4 * hidden))
    expected = bilstm_reference(xp, wh, masked(counts, rows).mask)
    valid = None if counts is None else mx.array(counts, dtype=mx.int32)
    assert apart(kernels.bilstm(xp, kernels.pack_bilstm(wh), valid), expected) < CLOSE


@pytest.mark.parametrize(("batch", "rows", "counts"), [(1, 1, None), (1, 190, None), (3, 21, (21, 13, 1))])
@pytest.mark.parametrize(("width", "heads", "wide"), [(32, 4, 80), (96, 3, 160), (400, 5, 600)])
def test_encoder(batch: int, rows: int, counts: Sequence[int] | None, width: int, heads: int, wide: int) -> None:
    """PL-BERT's layer, three times; every valid row sees the valid rows alone."""
    config = AlbertConfig(width, heads, wide, 512, 3, 24)
    x, valid = mx.random.normal((batch, rows, 24)), masked(counts, rows)
    found, expected = both(random_layer(AlbertEncoder(config)), AlbertEncoder(config), x, valid)
    assert apart(valid.zero(found), valid.zero(expected)) < 2 * CLOSE


@pytest.mark.parametrize("hop", [1, 4, 5, 9])
@pytest.mark.parametrize(("batch", "hops", "counts"), [(1, 2, None), (1, 700, None), (3, 60, (60, 41, 3))])
def test_fourier_transform(hop: int, batch: int, hops: int, counts: Sequence[int] | None) -> None:
    """Both directions against matrix products; phases count as much as their bins are loud."""
    native = Stft(4 * hop, hop)
    x, rows = mx.random.normal((batch, max(hops, 3) * hop)), 2 * mx.random.normal((batch, hops + 1, 2 * native.bins))
    samples = None if counts is None else mx.array(counts)[:, None] * hop
    frames = masked(None if counts is None else [count + 1 for count in counts], hops + 1)
    mx.eval(x, rows)
    found = native.spectrum(x, samples), native.analyze(x, samples), native.head(rows, None, samples, most=9.0)
    mx.eval(found)
    with plain():
        other = Stft(4 * hop, hop)
        expected = (
            other.spectrum(x, samples),
            other.analyze(x, samples),
            other.head(rows, frames.mask, samples, most=9.0),
        )
        mx.eval(expected)
    frames = masked(None if counts is None else [count + 1 for count in counts], found[0].shape[1])
    assert apart(found[0], frames.zero(expected[0])) < CLOSE
    loud, phase = mx.split(frames.zero(expected[1]), 2, axis=2)
    found_loud, found_phase = mx.split(found[1], 2, axis=2)
    assert apart(found_loud, loud) < CLOSE
    for part in (mx.sin, mx.cos):  # relative to the loudest bin: all sines may be small
        assert float(mx.abs(loud * (part(found_phase) - part(phase))).max() / loud.max()) < CLOSE
    assert apart(found[2], expected[2]) < CLOSE


@pytest.mark.parametrize(("batch", "steps", "counts"), [(1, 1, None), (1, 130, None), (3, 40, (40, 13, 1))])
@pytest.mark.parametrize("size", [60, 300, 7])
def test_harmonic_source(batch: int, steps: int, counts: Sequence[int] | None, size: int) -> None:
    """Voiced and unvoiced steps; the phase is that of the reference to the last bits, however long it has run."""
    f0 = mx.maximum(300 * mx.random.normal((batch, steps)), 0)
    noise, weight, bias = mx.random.normal((batch, steps * size)), mx.random.normal((1, 9)), mx.array([0.01])
    valid = None if counts is None else mx.array(counts)[:, None]
    expected = source.harmonics_reference(f0, noise, valid, weight, bias, size)
    found = kernels.excite(f0, noise, valid, weight, bias, 24_000)
    kept = masked(None if counts is None else [count * size for count in counts], steps * size)
    assert apart(found[:, :, None], kept.zero(expected[:, :, None])) < CLOSE


def test_equal_bits_on_any_number_of_threads() -> None:
    """Callers on two threads at once: one has the pool, the other works alone."""
    x, taps = mx.random.normal((1, 3000, 48)), mx.random.normal((7, 48, 48))
    packed = kernels.pack_conv(taps)
    mx.eval(x)
    expected = np.array(kernels.conv1d(x, packed))
    wrong: list[int] = []

    def compute() -> None:
        with mx.stream(mx.new_stream(mx.cpu)):
            wrong.extend(k for k in range(30) if not np.array_equal(np.array(kernels.conv1d(x, packed)), expected))
        mx.clear_streams()

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_description_names_what_is_in_use() -> None:
    assert on_cpu()
    threads = kernels.module().threads()
    named, *products, last = kernels.description().split(", ")
    assert (named, last) == (kernels.module().instructions(), f"{threads} thread{'s' if threads > 1 else ''}")
    assert len(products) == kernels.has_bfloat16()
