"""A stage of the flow's estimator in few CUDA kernels: launches, not the chip, bound it on an NVIDIA GPU.

A transformer block of MLX's operations is ten launches, a resnet block fourteen. Here a transformer block is one:
attention to keys and values that the kernel before has written, everything to the block's end, and the next block's
queries, keys and values; a resnet block is two, since its second convolution hears its neighbours' first. The plain
definition is `estimator.Stage`, which this agrees with but for rounding: sums between layers stay float32.
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
    from models.chatterbox.s3gen.estimator import ResnetBlock, TransformerBlock

logger = logging.getLogger(__name__)

HEAD = 64
THREADS = 256
KEYS = 64  # that attention takes at a time: sequences are multiples of it
TAPS = 3
_FEW_ROWS = 132 * 16  # beyond which tiles of 32 rows keep an H100's multiprocessors busy, and halve what they read
_STAGE_BYTES = 8 * 8 * 32 * 16  # of weights underway: three in a product, of keys and values four in attention
_MOST_SHARED = 227 << 10  # of a block, on Hopper; a GPU that has less refuses the launch
_PLACES = 16  # MLX keeps arrays of 8 bytes in host memory: reading them there would take microseconds a kernel
_CHECKED = (128, 1088)  # frames, of two rows: tiles of 16 and of 32
_MOST_APART = 0.1  # bfloat16's own error is a tenth of it, a mistake's ten times it

Blocks = Sequence["TransformerBlock"]
Plain = Callable[[mx.array, mx.array, mx.array], mx.array]
"""x [B, F, I], the time's vector [C] and a mask [1, 1, 1, F] through the same stage."""
Sizes = tuple[int, int, int]
"""Channels, heads, and channels within the feed-forward."""

# The kernels take all registers that a block of 256 threads may have.
_BOUNDS = """
#undef __global__
#define __global__ __attribute__((global)) __launch_bounds__(THREADS, 1)
"""
ROOM = "extern __shared__ __align__(16) unsigned char room[];"
_MADE = "{(ushort*)y, (ushort*)queries, (ushort*)keys, (ushort*)values}"
_NEXT = ("gain1", "shift1", "qkv")
_INPUTS = {
    "block": (
        "x", "q", "k", "v", "mask", "out", "out_bias", "gain2", "shift2", "fc1", "fc1_bias", "fc2", "fc2_bias", *_NEXT,
    ),
    "resnet": ("x", "conv", "conv_bias", "gain", "shift", "time", "before", "res", "res_bias", *_NEXT),
}  # fmt: skip
_ARGUMENTS = {
    "block": "x_shape[1], mode[0] != 0, mode[1] != 0",
    "resnet": "x_shape[1], x_shape[2], before_shape[2], mode[0] != 0",
}
_GIVEN = {"block": "Given", "resnet": "Half"}


def header(name: str, sizes: Sizes) -> str:
    """The source of the kernel `name` before its body, but for the device's words (cuda.h)."""
    numbers = "".join(f"#define {n} {v}\n" for n, v in zip(("CHANNELS", "HEADS", "WIDE"), sizes, strict=True))
    return numbers + _read("tiles.h") + _read(f"{name}.h")


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def body(name: str) -> str:
    """The kernel's body."""
    given = ", ".join(f"(const ushort*){each}" for each in _INPUTS[name])
    call = f"{name}<TILES>(threadIdx.x, blockIdx.x, {_ARGUMENTS[name]}, of, to, room);"
    return f"{ROOM}\nconst {_GIVEN[name]} of = {{{given}}};\nconst Made to = {_MADE};\n{call}\n"


def shared_bytes(name: str, tiles: int, sizes: Sizes) -> int:
    """Of shared memory: weights underway, the stream, what is normalised of it, and the widest rows that are read."""
    channels, heads, wide = sizes
    rows = 16 * tiles
    fixed = rows * 4 * (channels + 4)
    normal = rows * 2 * (channels + 8)
    if name == "resnet":
        return fixed + 3 * _STAGE_BYTES + normal + 2 * (rows + TAPS - 1) * (2 * channels + 8)
    inner = heads * HEAD
    widest = rows * 2 * (max(inner, wide) + 8)
    return fixed + max(3 * _STAGE_BYTES + normal + widest, 4 * _STAGE_BYTES + rows * 2 * (inner + 8))


def available(sizes: Sizes, size: int, dtype: mx.Dtype) -> bool:
    """Whether such stages can run here: MLX on an NVIDIA GPU. One too old (before Ampere) does not build them."""
    return not on_cpu() and bool(mx.cuda.is_available()) and fits(sizes, size, dtype)


def fits(sizes: Sizes, size: int, dtype: mx.Dtype) -> bool:
    """Whether the kernels are written for stages so wide; `size` of a head."""
    whole = size == HEAD and sizes[0] % 64 == 0 and sizes[2] % 64 == 0 and dtype == mx.bfloat16
    return whole and max(shared_bytes(name, 2, sizes) for name in _INPUTS) <= _MOST_SHARED


def fits_rows(frames: int) -> bool:
    """Whether sequences so long can be computed."""
    return frames % KEYS == 0


@cache
def _kernel(name: str, sizes: Sizes, tiles: int) -> Any:
    return mx.fast.cuda_kernel(
        name=f"nightingale_flow_{name}",
        input_names=[*_INPUTS[name], "mode"],
        output_names=["y", "queries", "keys", "values"],
        source=body(name),
        header=_read("cuda.h") + header(name, sizes) + _BOUNDS,
        shared_memory=shared_bytes(name, tiles, sizes),
    )


def _launch(
    name: str,
    inputs: Mapping[str, mx.array],
    outputs: Mapping[str, tuple[int, ...]],
    blocks: int,
    sizes: Sizes,
    tiles: int,
) -> list[mx.array]:
    """Run the kernel `name` with `blocks` of THREADS."""
    result: list[mx.array] = _kernel(name, sizes, tiles)(
        inputs=list(inputs.values()),
        output_shapes=list(outputs.values()),
        output_dtypes=[mx.bfloat16] * len(outputs),
        grid=(blocks * THREADS, 1, 1),
        threadgroup=(THREADS, 1, 1),
        template=[("TILES", tiles)],
    )
    return result


@cache
def _mode(first: bool, second: bool = False) -> mx.array:
    mode = mx.array([int(first), int(second)] + [0] * (_PLACES - 2), dtype=mx.int32)
    mx.eval(mode)
    return mode


def tiles(rows: int) -> int:
    """Of 16 rows each, that a block of threads takes."""
    return 1 if rows <= _FEW_ROWS else 2


def sizes_of(block: TransformerBlock) -> Sizes:
    """Of a stage with such blocks."""
    wide, channels = block.fc1.shape
    return channels, block.heads, wide


class _Run:
    """The stage's launches for x [B, F, ...]."""

    def __init__(self, blocks: Blocks, x: mx.array) -> None:
        batch, frames, _ = x.shape
        self.sizes = channels, heads, _ = sizes_of(blocks[0])
        self.tiles = tiles(batch * frames)
        self._count = batch * frames // (16 * self.tiles)
        self._shapes = (
            (batch, frames, channels),
            (batch, frames, heads * HEAD),
            (batch, heads, frames, HEAD),
            (batch, heads, HEAD, frames),
        )

    def __call__(self, name: str, inputs: dict[str, mx.array], *, stream: bool, ahead: bool) -> list[mx.array]:
        """-> the stream, queries, keys and values, each of which is rubbish unless it is asked for."""
        wanted = (stream, ahead, ahead, ahead)
        shapes = [shape if asked else (_PLACES,) for shape, asked in zip(self._shapes, wanted, strict=True)]
        outputs = dict(zip(("y", "queries", "keys", "values"), shapes, strict=True))
        return _launch(name, inputs, outputs, self._count, self.sizes, self.tiles)


def _ahead(block: TransformerBlock) -> dict[str, mx.array]:
    return {"gain1": block.norm1.weight, "shift1": block.norm1.bias, "qkv": block.qkv}


def attend(blocks: Blocks, x: mx.array, mask: mx.array, made: Sequence[mx.array] = ()) -> mx.array:
    """x [B, F, C] bfloat16 through the transformer blocks; `mask` [1, 1, 1, F] is added to the logits.

    `made` are the first block's queries, keys and values, where these are there already.
    """
    run = _Run(blocks, x)
    q, k, v = made or (x, x, x)
    for block, following in zip([None, *blocks], [*blocks, None], strict=True):
        if block is None and made:
            continue
        here, there = block or blocks[0], following or blocks[0]
        inputs = {"x": x, "q": q, "k": k, "v": v, "mask": mask, "out": here.out, "out_bias": here.out_bias}
        inputs |= {"gain2": here.norm2.weight, "shift2": here.norm2.bias}
        inputs |= {"fc1": here.fc1, "fc1_bias": here.fc1_bias, "fc2": here.fc2, "fc2_bias": here.fc2_bias}
        inputs |= {**_ahead(there), "mode": _mode(block is not None, following is not None)}
        y, q, k, v = run("block", inputs, stream=block is not None, ahead=following is not None)
        x = x if block is None else y
    return x


def convolve(resnet: ResnetBlock, blocks: Blocks, x: mx.array, shift: mx.array) -> list[mx.array]:
    """x [B, F, I] bfloat16 through the resnet block, I at most 2C and a multiple of 64; `shift` [C] is the time's.

    -> [B, F, C], and the first transformer block's queries, keys and values.
    """
    run = _Run(blocks, x)
    inputs = {"x": x, "conv": resnet.conv1.conv.weight, "conv_bias": resnet.conv1.bias}
    inputs |= {"gain": resnet.norm1.weight, "shift": resnet.norm1.bias, "time": shift}
    inputs |= {"before": x, "res": resnet.res, "res_bias": resnet.res_bias, **_ahead(blocks[0])}
    half = run("resnet", {**inputs, "mode": _mode(False)}, stream=True, ahead=False)[0]
    inputs |= {"x": half, "conv": resnet.conv2.conv.weight, "conv_bias": resnet.conv2.bias}
    inputs |= {"gain": resnet.norm2.weight, "shift": resnet.norm2.bias}
    return run("resnet", {**inputs, "mode": _mode(True)}, stream=True, ahead=True)


def run(resnet: ResnetBlock, blocks: Blocks, x: mx.array, shift: mx.array, mask: mx.array) -> mx.array:
    """The whole stage: x [B, F, I] -> [B, F, C]."""
    x, *made = convolve(resnet, blocks, x, shift)
    return attend(blocks, x, mask, made)


def difference(resnet: ResnetBlock, blocks: Blocks, plain: Plain, frames: int) -> float:
    """Norm of what `run` and `plain` make of random rows, apart, over that of `plain`."""
    dtype = blocks[0].fc1.dtype
    x = mx.random.normal((2, frames, resnet.res.shape[1]), key=mx.random.key(0)).astype(dtype)
    shift = mx.random.normal((resnet.res.shape[0],), key=mx.random.key(1)).astype(dtype)
    mask = mx.where(mx.arange(frames) < frames - 5, 0.0, float("-inf")).astype(dtype)[None, None, None]
    real = slice(0, frames - 5)
    wanted = plain(x, shift, mask)[:, real].astype(mx.float32)
    found = run(resnet, blocks, x, shift, mask)[:, real].astype(mx.float32)
    return float(np.linalg.norm(np.array(found - wanted)) / np.linalg.norm(np.array(wanted)))


def checked(resnet: ResnetBlock, blocks: Blocks, plain: Plain) -> bool:
    """Whether the kernels build here and agree with `plain`; where not, a warning says so."""
    try:
        apart = [difference(resnet, blocks, plain, frames) for frames in _CHECKED]
    except RuntimeError as error:
        logger.warning("the flow's kernels cannot be built here, plain operations are used: %s", error)
        return False
    if all(each <= _MOST_APART for each in apart):  # not of a NaN
        return True
    logger.warning("the flow's kernels differ from plain operations by %s here, these are used", apart)
    return False
