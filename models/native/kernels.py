"""The native kernels, under the names that `models.layers` has for the plain definitions.

They are MLX primitives: part of its lazy graph, evaluated on the CPU stream that is the default where they are called.
The environment variable NATIVE_KERNELS bounds the instructions that they use (amx, vnni, avx512, avxvnni, avx2,
baseline), or turns them off (off).
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from models.backend import mx, on_cpu
from models.native import build

logger = logging.getLogger(__name__)


@cache
def module() -> Any:
    """Return the module of kernels, built on first use; None on a GPU and where it cannot be built, with a warning."""
    if not on_cpu() or os.environ.get("NATIVE_KERNELS") == "off":
        return None
    started = time.monotonic()
    try:
        path = build.library()
        spec = importlib.util.spec_from_file_location("_native", path)
        assert spec is not None and spec.loader is not None  # noqa: S101  (a file that exists)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    except (OSError, ImportError) as error:
        logger.warning("The native kernels are not in use (%s): speech takes about twice as long on this CPU", error)
        return None
    if (seconds := time.monotonic() - started) > 1:
        logger.info("The native kernels were compiled in %.0f s; they are kept for the next start", seconds)
    return found


def available() -> bool:
    """Return whether the native kernels are in use."""
    return module() is not None


def description() -> str:
    """Return the instructions and threads of the kernels, or "MLX" where they are not in use."""
    found = module()
    return "MLX" if found is None else f"native kernels ({found.instructions()}, {found.threads()} threads)"


# Narrower convolutions gain nothing, and the transforms of their few inputs must keep the last bits.
LEAST_INPUTS = 16


@dataclass(frozen=True, slots=True)
class PackedConv:
    """Weights of a convolution in the kernels' order, a flat array."""

    weights: mx.array
    kernel: int
    outputs: int


def pack_conv(taps: mx.array) -> PackedConv | None:
    """Return taps [K, I, O] in the kernels' order, or None where a convolution of them stays with MLX."""
    if not available() or taps.dtype != mx.float32 or taps.shape[1] < LEAST_INPUTS:
        return None
    return PackedConv(module().pack_conv(taps.transpose(2, 0, 1)), taps.shape[0], taps.shape[2])


def conv1d(
    x: mx.array, packed: PackedConv, *, dilation: int = 1, left: int = 0, right: int = 0, start: mx.array | None = None
) -> mx.array:
    """Return the convolution of x [B, L, I], with rows of zeros on both sides, plus `start`: [B, L', O]."""
    result: mx.array = module().conv1d(
        x, packed.weights, None, start, packed.outputs, packed.kernel, dilation, left, right
    )
    return result


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """Residual block of AdaIN, Snake and convolutions (`models.kokoro.generator.ResBlock`).

    `rates` [2 * convolutions, C] are alpha / pi and 1 / alpha of each; `affines` its places in the style bank's result.
    """

    convs: tuple[PackedConv, ...]
    rates: mx.array
    dilations: tuple[int, ...]
    affines: tuple[int, ...]


def res_blocks(
    blocks: Sequence[PackedBlock],
    x: mx.array,
    styled: mx.array,
    bias: mx.array,
    count: mx.array | None,
    slope: float,
) -> mx.array:
    """Return LeakyReLU of the mean of the blocks' results plus `bias`, [B, L, C].

    Args:
        blocks: All of one width.
        x: [B, L, C].
        styled: The style bank's result [B, S].
        bias: [C].
        count: Valid rows of each sequence, int32 [B]; zero follows them. None: all rows.
        slope: Of LeakyReLU; 1 leaves the mean as it is.
    """
    shapes = [(block.convs[0].kernel, (list(block.dilations), list(block.affines))) for block in blocks]
    arrays = [[block.rates, *(conv.weights for conv in block.convs)] for block in blocks]
    result: mx.array = module().res_blocks(x, styled, bias, count, arrays, shapes, slope)
    return result


@dataclass(frozen=True, slots=True)
class PackedAdainBlock:
    """Residual block of AdaIN and LeakyReLU (`models.kokoro.network.AdainResBlock`), arrays in the kernel's order."""

    arrays: tuple[mx.array, ...]
    affines: tuple[int, int]
    outputs: int
    upsample: bool
    shortcut: bool


def adain_block(block: PackedAdainBlock, x: mx.array, styled: mx.array, count: mx.array | None) -> mx.array:
    """Return the block's result for x [B, L, I]: [B, L or 2 L, O]; `count` as of `res_blocks`."""
    result: mx.array = module().adain_block(
        x, styled, count, list(block.arrays), list(block.affines), block.outputs, block.upsample, block.shortcut
    )
    return result


def pack_bilstm(wh: mx.array) -> mx.array | None:
    """Return recurrent weights [2, H, 4H] in the kernel's order, or None where the loop stays with MLX."""
    if not available() or wh.shape[1] % module().recurrence_units():
        return None
    packed: mx.array = module().pack_bilstm(wh)
    return packed


def bilstm(xp: mx.array, packed: mx.array, count: mx.array | None) -> mx.array:
    """Compute `models.layers.lstm.bilstm_reference`; `count` as of `res_blocks`."""
    result: mx.array = module().bilstm(xp, packed, count)
    return result


def spectrum(x: mx.array) -> mx.array:
    """Return exp(m) cos(sin a), then exp(m) sin(sin a), of x [B, T, 2 * bins]: m, then a."""
    result: mx.array = module().spectrum(x)
    return result
