"""The estimator's transformer blocks as one CUDA kernel each: launches, not the chip, bound them on an NVIDIA GPU.

A block of MLX's operations is ten launches. Here it is one: attention to keys and values that the kernel before has
written, everything to the block's end, and the next block's queries, keys and values. The plain definition is
`estimator.TransformerBlock`, which this agrees with but for rounding: the sums between a block's layers stay float32.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from models.backend import mx, on_cpu

if TYPE_CHECKING:
    from models.chatterbox.s3gen.estimator import TransformerBlock

logger = logging.getLogger(__name__)

HEAD = 64
THREADS = 256
_FEW_ROWS = 132 * 16  # beyond which tiles of 32 rows keep an H100's multiprocessors busy, and halve what they read
_MODES = 16  # ints: MLX keeps arrays of 8 bytes in host memory
_CHECKED = (128, 1088)  # frames, of two rows: tiles of 16 and of 32
_MOST_APART = 0.1  # bfloat16's own error is a tenth of it, a mistake's ten times it

Blocks = Sequence["TransformerBlock"]
Plain = Callable[[mx.array, mx.array], mx.array]
"""x [B, F, C] and a mask [1, 1, 1, F] through the same blocks."""

# The kernel takes all registers that a block of 256 threads may have.
_BOUNDS = """
#undef __global__
#define __global__ __attribute__((global)) __launch_bounds__(THREADS, 1)
"""
BODY = """
  extern __shared__ __align__(16) unsigned char room[];
  const Given of = {GIVEN};
  const Made to = {(ushort*)y, (ushort*)queries, (ushort*)keys, (ushort*)values};
  block<TILES>(threadIdx.x, blockIdx.x, x_shape[1], mode[0] != 0, mode[1] != 0, of, to, room);
"""
_GIVEN = (
    "x", "q", "k", "v", "mask", "out", "out_bias", "gain2", "shift2", "fc1", "fc1_bias", "fc2", "fc2_bias",
    "gain1", "shift1", "qkv",
)  # fmt: skip


def header(channels: int, heads: int, wide: int) -> str:
    """The kernel's source before its body, but for the device's words (cuda.h)."""
    sizes = f"#define CHANNELS {channels}\n#define HEADS {heads}\n#define WIDE {wide}\n"
    return sizes + Path(__file__).with_name("block.h").read_text(encoding="utf-8")


def body() -> str:
    """The kernel's body."""
    return BODY.replace("GIVEN", ", ".join(f"(const ushort*){name}" for name in _GIVEN))


def shared_bytes(tiles: int, channels: int, inner: int, wide: int) -> int:
    """Of shared memory, as block.h lays it out."""
    return 16 * tiles * (4 * (channels + 4) + 2 * (channels + 8) + 2 * (max(inner, wide) + 8))


def available(channels: int, heads: int, size: int, dtype: mx.Dtype) -> bool:
    """Whether such blocks can run here: MLX on an NVIDIA GPU. One too old (before Ampere) does not build them."""
    return not on_cpu() and bool(mx.cuda.is_available()) and fits(channels, heads, size, dtype)


def fits(channels: int, heads: int, size: int, dtype: mx.Dtype) -> bool:
    """Whether the kernel is written for blocks so wide; `size` of a head."""
    inner_fits = (heads * size) % 64 == 0 and shared_bytes(2, channels, heads * size, 4 * channels) <= 160 << 10
    return size == HEAD and channels % 64 == 0 and inner_fits and dtype == mx.bfloat16


@cache
def _kernel(channels: int, heads: int, wide: int, tiles: int) -> Any:
    words = Path(__file__).with_name("cuda.h").read_text(encoding="utf-8")
    return mx.fast.cuda_kernel(
        name="nightingale_flow_block",
        input_names=[*_GIVEN, "mode"],
        output_names=["y", "queries", "keys", "values"],
        source=body(),
        header=words + header(channels, heads, wide) + _BOUNDS,
        shared_memory=shared_bytes(tiles, channels, heads * HEAD, wide),
    )


def _launch(
    inputs: Mapping[str, mx.array],
    outputs: Mapping[str, tuple[int, ...]],
    blocks: int,
    sizes: tuple[int, int, int],
    tiles: int,
) -> list[mx.array]:
    """Run the kernel with `blocks` of THREADS; `sizes` are channels, heads and wide."""
    result: list[mx.array] = _kernel(*sizes, tiles)(
        inputs=list(inputs.values()),
        output_shapes=list(outputs.values()),
        output_dtypes=[mx.bfloat16] * len(outputs),
        grid=(blocks * THREADS, 1, 1),
        threadgroup=(THREADS, 1, 1),
        template=[("TILES", tiles)],
    )
    return result


@cache
def _mode(rest: bool, ahead: bool) -> mx.array:
    mode = mx.array([int(rest), int(ahead)] + [0] * (_MODES - 2), dtype=mx.int32)
    mx.eval(mode)
    return mode


def fits_rows(frames: int) -> bool:
    """Whether sequences so long can be computed: they divide into runs of 64 keys."""
    return frames % 64 == 0


def tiles(rows: int) -> int:
    """Of 16 rows each, that a block of threads takes."""
    return 1 if rows <= _FEW_ROWS else 2


def run(blocks: Blocks, x: mx.array, mask: mx.array) -> mx.array:
    """x [B, F, C] bfloat16 through the blocks; `mask` [1, 1, 1, F] is added to the logits. F is a multiple of 64."""
    batch, frames, channels = x.shape
    first = blocks[0]
    heads, wide = first.heads, first.fc1.shape[0]
    each = tiles(batch * frames)
    full = {
        "y": x.shape,
        "queries": (batch, frames, heads * HEAD),
        "keys": (batch, heads, frames, HEAD),
        "values": (batch, heads, HEAD, frames),
    }
    q = k = v = x  # until there are some
    for block, following in zip([None, *blocks], [*blocks, None], strict=True):
        outputs = {
            name: shape if (block if name == "y" else following) is not None else (_MODES,)
            for name, shape in full.items()
        }
        here, there = block or first, following or first
        inputs = {"x": x, "q": q, "k": k, "v": v, "mask": mask, "out": here.out, "out_bias": here.out_bias}
        inputs |= {"gain2": here.norm2.weight, "shift2": here.norm2.bias}
        inputs |= {"fc1": here.fc1, "fc1_bias": here.fc1_bias, "fc2": here.fc2, "fc2_bias": here.fc2_bias}
        inputs |= {"gain1": there.norm1.weight, "shift1": there.norm1.bias, "qkv": there.qkv}
        inputs["mode"] = _mode(block is not None, following is not None)
        made, q, k, v = _launch(inputs, outputs, batch * frames // (16 * each), (channels, heads, wide), each)
        x = made if block is not None else x
    return x


def difference(blocks: Blocks, plain: Plain, frames: int) -> float:
    """Norm of what `run` and `plain` (x, mask) change random rows by apart, over that of the change."""
    dtype = blocks[0].fc1.dtype
    x = mx.random.normal((2, frames, blocks[0].fc1.shape[1]), key=mx.random.key(0)).astype(dtype)
    mask = mx.where(mx.arange(frames) < frames - 5, 0.0, float("-inf")).astype(dtype)[None, None, None]
    real = slice(0, frames - 5)
    wanted = (plain(x, mask) - x)[:, real].astype(mx.float32)
    found = (run(blocks, x, mask) - x)[:, real].astype(mx.float32)
    return float(np.linalg.norm(np.array(found - wanted)) / np.linalg.norm(np.array(wanted)))


def checked(blocks: Blocks, plain: Plain) -> bool:
    """Whether the kernel builds here and agrees with `plain`; where not, a warning says so."""
    try:
        apart = [difference(blocks, plain, frames) for frames in _CHECKED]
    except RuntimeError as error:
        logger.warning("the flow's fused blocks cannot be built here, plain ones are used: %s", error)
        return False
    if all(each <= _MOST_APART for each in apart):  # not of a NaN
        return True
    logger.warning("the flow's fused blocks differ from plain ones by %s here, plain ones are used", apart)
    return False
