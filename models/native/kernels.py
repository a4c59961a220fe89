"""The native kernels, under the names that `models.layers` has for the plain definitions.

They are MLX primitives: part of its lazy graph, evaluated on the CPU stream that is the default where they are called.
The environment variable NATIVE_KERNELS bounds the instructions that they use (`CHOICES`), or turns them off (off).
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from platform import machine
from typing import Any

from models.backend import cpu_count, mx, on_cpu
from models.native import build

logger = logging.getLogger(__name__)


# The environment variable's values: the latest instructions to use, or none of these kernels at all.
CHOICES = ("amx", "vnni", "avx512", "avxvnni", "avx2", "bf16", "dotprod", "baseline", "off")


@cache
def module() -> Any:
    """Return the module of kernels, built on first use; None on a GPU and where it cannot be had, with a warning."""
    chosen = os.environ.get("NATIVE_KERNELS", "")
    if sys.platform != "linux" or not on_cpu() or chosen == "off":
        return None
    if chosen and chosen not in CHOICES:
        logger.warning("NATIVE_KERNELS is '%s', which means nothing; it may be %s", chosen, ", ".join(CHOICES))
    started = time.monotonic()
    try:
        found = load(build.library())
    except Exception as error:  # whatever is wrong with this machine's compiler or Python: MLX alone computes the same
        logger.warning("%s", cost(error))
        return None
    if (seconds := time.monotonic() - started) > 1:
        logger.info("The native kernels were compiled in %.0f s; they are kept for the next start", seconds)
    return found


def load(path: Path | str) -> Any:
    """Return the module in the file `path`, with as many threads as this process may use processors.

    Raises ImportError for a file that is no such module, and TypeError where it does not know MLX's arrays.
    """
    spec = importlib.util.spec_from_file_location("_native", path)
    assert spec is not None and spec.loader is not None  # noqa: S101  (the suffix is .so)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    found.log_sum_exp(mx.zeros((1,)))
    found.resize_pool(cpu_count())
    return found


def cost(error: Exception) -> str:
    """Return the warning that the kernels are not in use because of `error`: the reason, the effect, the remedy."""
    reason = str(error) or type(error).__name__
    return (
        f"The native kernels are not in use ({reason}): speech takes about four times as long on this CPU. "
        "To try again: python -m models.native.build"
    )


def available() -> bool:
    """Return whether the native kernels are in use."""
    return module() is not None


def description() -> str:
    """Return the instructions and threads of the kernels, such as "vnni, bfloat16 by amx, 2 threads"; "mlx": MLX's."""
    found = module()
    if found is None:
        return "mlx"
    threads = found.threads()
    products = f", bfloat16 by {'amx' if machine() == 'x86_64' else 'bf16'}" if found.has_bfloat16() else ""
    return f"{found.instructions()}{products}, {threads} thread{'s' if threads > 1 else ''}"


def compute(name: str, *given: Any) -> mx.array:
    """Return what the kernel `name` of the module makes of the given arrays and numbers."""
    result: mx.array = getattr(module(), name)(*given)
    return result


# Narrower convolutions gain nothing, and the transforms of their few inputs must keep the last bits.
MIN_INPUTS = 16


@dataclass(frozen=True, slots=True)
class PackedConv:
    """Weights of a convolution in the kernels' order, a flat array; `bfloat16` products have sums in float32."""

    weights: mx.array
    kernel: int
    outputs: int
    bfloat16: bool


def has_bfloat16() -> bool:
    """Return whether this processor multiplies in bfloat16 by the native kernels."""
    return available() and bool(module().has_bfloat16())


def pack_conv(taps: mx.array, *, bfloat16: bool = False) -> PackedConv | None:
    """Return taps [K, I, O] in the kernels' order, or None where a convolution of them stays with MLX.

    `bfloat16` asks for products in bfloat16, where this processor has them.
    """
    if not available() or taps.dtype != mx.float32 or taps.shape[1] < MIN_INPUTS:
        return None
    bfloat16 = bfloat16 and has_bfloat16()
    weights = module().pack_conv(taps.transpose(2, 0, 1), bfloat16)
    return PackedConv(weights, taps.shape[0], taps.shape[2], bfloat16)


def conv1d(
    x: mx.array,
    packed: PackedConv,
    *,
    dilation: int = 1,
    left: int = 0,
    right: int = 0,
    start: mx.array | None = None,
    bias: mx.array | None = None,
) -> mx.array:
    """Return the convolution of x [B, L, I], with rows of zeros on both sides, plus `start` and `bias`: [B, L', O].

    `dilation` rows are from one tap to the next. `start` broadcasts to the result; `bias` is [O].
    """
    shape = packed.outputs, packed.kernel, dilation, left, right, packed.bfloat16
    return compute("conv1d", x, packed.weights, bias, start, *shape)


def linear(x: mx.array, packed: PackedConv, bias: mx.array) -> mx.array:
    """Return x [..., I] times weights of one tap, plus `bias` [O]: [..., O]."""
    return conv1d(x.reshape(1, -1, x.shape[-1]), packed, bias=bias).reshape(*x.shape[:-1], packed.outputs)


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """Residual block of Snake and convolutions in pairs, the first of each dilated.

    `rates` [2 * convolutions, C] are alpha / pi and 1 / alpha of each. With AdaIN, `affines` are the places of each
    convolution in the style bank's result; without, `shifts` [convolutions, C] are added before each Snake.
    """

    convs: tuple[PackedConv, ...]
    rates: mx.array
    dilations: tuple[int, ...]
    affines: tuple[int, ...] = ()
    shifts: mx.array | None = None


def pack_block(
    convs: Sequence[PackedConv | None], dilations: Sequence[int], alphas: Sequence[mx.array], *, floor: float = 0.0
) -> PackedBlock | None:
    """Return a residual block without affines and shifts, or None where one of its convolutions stays with MLX.

    Args:
        convs: In the order of computation.
        dilations: Of the first convolution of each pair.
        alphas: Snake's parameter [C] before each convolution.
        floor: What is added to alpha before the division.
    """
    packed = tuple(conv for conv in convs if conv is not None)
    if len(packed) < len(convs):
        return None
    rates = mx.concatenate([rate for alpha in alphas for rate in (alpha / math.pi, 1 / (alpha + floor))])
    mx.eval(rates)
    return PackedBlock(packed, rates, tuple(dilations))


def res_block(
    block: PackedBlock,
    x: mx.array,
    styled: mx.array | None,
    count: mx.array | None,
    *,
    start: mx.array | None = None,
    bias: mx.array | None = None,
    share: float = 1.0,
    slope: float = 1.0,
) -> mx.array:
    """Return LeakyReLU of (the block's result + `start`) * `share` + `bias`, [B, L, C].

    Args:
        block: The block.
        x: [B, L, C].
        styled: The style bank's result [B, S], for AdaIN.
        count: Valid rows of each sequence, int32 [B]; zero follows them. None: all rows.
        start: [B, L, C].
        bias: [C].
        share: Factor of the sum.
        slope: Of LeakyReLU; 1 leaves the sum as it is.
    """
    weights = [conv.weights for conv in block.convs]
    styled = block.shifts if styled is None else styled
    shape = (block.convs[0].kernel, list(block.dilations), list(block.affines), share, slope, block.convs[0].bfloat16)
    return compute("res_block", x, styled, count, start, bias, block.rates, weights, *shape)


def mean_of_blocks(
    blocks: Sequence[PackedBlock],
    x: mx.array,
    styled: mx.array | None,
    count: mx.array | None,
    bias: mx.array,
    slope: float,
) -> Iterator[mx.array]:
    """Compute LeakyReLU of the mean of the blocks' results for x plus `bias`, block by block; the last is the result.

    The blocks are of one width. x, `styled`, `count`, `bias` and `slope` are as of `res_block`.
    """
    total = None
    for block in blocks[:-1]:
        total = res_block(block, x, styled, count, start=total)
        yield total
    yield res_block(blocks[-1], x, styled, count, start=total, bias=bias, share=1 / len(blocks), slope=slope)


@dataclass(frozen=True, slots=True)
class PackedAdainBlock:
    """Residual block of AdaIN and LeakyReLU (`models.kokoro.network.AdainResBlock`), arrays in the kernel's order."""

    arrays: tuple[mx.array, ...]
    affines: tuple[int, int]
    outputs: int
    upsample: bool
    shortcut: bool
    bfloat16: bool


def adain_block(block: PackedAdainBlock, x: mx.array, styled: mx.array, count: mx.array | None) -> mx.array:
    """Return the block's result for x [B, L, I]: [B, L or 2 L, O]; `count` as of `res_block`."""
    shape = (block.outputs, block.upsample, block.shortcut, block.bfloat16)
    return compute("adain_block", x, styled, count, list(block.arrays), list(block.affines), *shape)


def pack_bilstm(wh: mx.array) -> mx.array | None:
    """Return recurrent weights [2, H, 4H] in the kernel's order, or None where the loop stays with MLX."""
    if not available() or wh.shape[1] % module().recurrence_units():
        return None
    return compute("pack_bilstm", wh)


def bilstm(xp: mx.array, packed: mx.array, count: mx.array | None) -> mx.array:
    """Compute `models.layers.lstm.bilstm_reference`; `count` as of `res_block`."""
    return compute("bilstm", xp, packed, count)


@dataclass(frozen=True, slots=True)
class PackedEncoder:
    """Layer of a transformer's encoder (`models.kokoro.albert.AlbertLayer`), arrays in the kernel's order."""

    arrays: tuple[mx.array, ...]
    heads: int
    depth: int
    eps: float


def encode(block: PackedEncoder, x: mx.array, count: mx.array | None) -> mx.array:
    """Return x [B, T, C] after `depth` times the layer; `count` as of `res_block`, for the keys."""
    return compute("encode", x, count, list(block.arrays), block.heads, block.depth, block.eps)


def excite(
    f0: mx.array, noise: mx.array, count: mx.array | None, weight: mx.array, bias: mx.array, rate: float
) -> mx.array:
    """Compute `models.kokoro.generator.harmonics_reference` at `rate` samples a second; `count` as of `res_block`."""
    return compute("excite", f0, noise, count, weight, bias, rate)


class Fourier:
    """Transform of `models.layers.vocoder.Stft` and its inverse, in the kernels' order.

    Args:
        forward: Windowed basis [n_fft, 2, bins]: real, then imaginary parts.
        back: Basis of the inverse [2 * bins, n_fft].
        edges: Gains of the first and of the last hop, [2, hop].
    """

    def __init__(self, forward: mx.array, back: mx.array, edges: mx.array) -> None:
        self._forward, self._back, self._edges = _padded(forward), _padded(back), edges

    def analyze(self, x: mx.array, count: mx.array | None, *, polar: bool) -> mx.array:
        """Return real and imaginary parts, or magnitudes and phases, of x [B, N]: [B, N / hop + 1, 2 * bins].

        `count` [B] are the valid samples; frames beyond them are zero.
        """
        return compute("analyze", x, count, self._forward, self._edges.shape[1], polar)

    def synthesize(self, x: mx.array, count: mx.array | None, most: float) -> mx.array:
        """Return the signal [B, (F - 1) * hop] of x [B, F, 2 * bins]; see `models.layers.vocoder.Stft.head`."""
        return compute("synthesize", x, count, self._back, self._edges, most)


def _padded(basis: mx.array) -> mx.array:
    """Return the basis with zeros up to a multiple of 16 in its last axis."""
    return mx.pad(basis, [(0, 0)] * (basis.ndim - 1) + [(0, -basis.shape[-1] % 16)])
