"""A decoder's step in few CUDA kernels, `..._cuda`, beside the plain definitions, `..._reference`.

On an NVIDIA GPU launches bound a step, not the chip. A step of plain MLX is about 26 launches a layer, since its
attention of one query has no kernel that takes a mask. Here it is seven: normalization and projection, attention that
also writes the keys and values, projection and sum, the second attention with its normalization and projection,
projection and sum, and two for the feed-forward. `network` chooses by `available` and `fits`; the tests compare.

The sources are in `source`; one warp computes one output, in float32, from weights that are read once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from mlx import nn

from models.backend import mx
from models.layers.attention import join_heads, split_heads
from models.layers.kernels.nvrtc import cuda_kernel
from models.layers.linear import Projection
from models.native import transformer
from models.nllb.kernels import source as cuda

FEW = 4  # rows of input to which one warp an output is faster than a matrix product
_MAX_INPUTS = 4096  # of a product: eight weights of every 256 are in registers at once
_MAX_NORMALIZED = 2048
_MAX_CHANNELS = 256  # of a head
_MAX_KEYS = 128  # of `attend_cuda`; with more, MLX's kernels are faster, as their blocks share what they read
_MAX_QUERIES = 8  # a row, when the second attention projects them itself
_WARPS = 8  # a block
_BLOCKS = 264  # of the search for the likeliest token: two for each of an H100's multiprocessors
_PLACES = 16  # MLX keeps arrays of 8 bytes in host memory, where a read takes a kernel microseconds


Whole = tuple[mx.array, mx.array, mx.array]  # weight, scales, offsets: see `projection.triple`


def fits(width: int, heads: int, inner: int) -> bool:
    """Return whether the kernels support a decoder of these widths."""
    head = width // heads
    whole = not (width % 64 or inner % 64 or head % 8)
    return whole and width <= _MAX_NORMALIZED and inner <= _MAX_INPUTS and head <= _MAX_CHANNELS


@cache
def _kernel(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Callable[..., list[mx.array]]:
    return cuda_kernel(
        name=f"nightingale_nllb_{name}",
        input_names=list(inputs),
        output_names=list(outputs),
        source=cuda.BODIES[name],
        header=cuda.HEADER,
    )


def _launch(
    name: str,
    inputs: dict[str, mx.array],
    outputs: Mapping[str, tuple[tuple[int, ...], mx.Dtype]],
    blocks: tuple[int, int, int],
    template: dict[str, Any],
) -> list[mx.array]:
    """Run the kernel `name` with `blocks` of 256 threads."""
    return _kernel(name, tuple(inputs), tuple(outputs))(
        inputs=list(inputs.values()),
        output_shapes=[shape for shape, _ in outputs.values()],
        output_dtypes=[dtype for _, dtype in outputs.values()],
        grid=(blocks[0] * _WARPS * 32, blocks[1], blocks[2]),
        threadgroup=(_WARPS * 32, 1, 1),
        template=list(template.items()),
    )


def _weights(projection: Projection) -> dict[str, mx.array]:
    weight, scales, offsets = projection.whole
    return {"weight": weight, "scales": scales, "offsets": offsets, "bias": projection.bias}


def rows(x: mx.array) -> int:
    """Return the number of vectors in x [B, T, C]."""
    return x.shape[0] * x.shape[1]


def _softmax_attend(q: mx.array, kv: mx.array, bias: mx.array) -> mx.array:
    """Softmax attention of q [B, H, T, C] to kv [B, 2H, S, C] -> [B, T, H * C]; `bias` is added to the logits."""
    heads, scale = q.shape[1], 1 / math.sqrt(q.shape[-1])
    return join_heads(mx.fast.scaled_dot_product_attention(q, kv[:, :heads], kv[:, heads:], scale=scale, mask=bias))


def dense_cuda(
    x: mx.array,
    projection: Projection,
    *,
    norm: nn.LayerNorm | None = None,
    relu: bool = False,
    add: mx.array | None = None,
) -> mx.array:
    """Return add + relu(projection(norm(x))) of x [B, T, C], each part where given. For few rows."""
    inputs = {"x": x, **_weights(projection)}
    inputs |= {"gain": x if norm is None else norm.weight, "shift": x if norm is None else norm.bias}
    inputs["sum"] = x if add is None else add
    outputs = projection.bias.size
    template = {"X": x.dtype, "K": x.shape[-1], "BITS": projection.bits}
    # The outputs of one warp share the cost of normalization. Registers bound how many a warp can have.
    per = 1 if norm is None or outputs % (4 * _WARPS) else 2 if x.dtype == mx.float32 or projection.bits else 4
    template |= {"NORM": norm is not None, "RELU": relu, "ADD": add is not None, "PER": per}
    shape = (*x.shape[:2], outputs)
    return _launch("dense", inputs, {"y": (shape, x.dtype)}, (outputs // _WARPS // per, 1, 1), template)[0]


def embed_cuda(
    ids: mx.array, place: mx.array, packed: Whole, bits: int, positions: mx.array, *, scaled: bool
) -> tuple[mx.array, mx.array]:
    """Return embeddings of ids int32 [B, T] plus positions [B, T, C], and a copy of the place in the GPU's memory.

    `place` int32 [1] is the position of the first, `packed` the embedding table, whose weights have `bits` (0: they are
    not quantized), `positions` are [P, C], and `scaled` embeddings are multiplied by sqrt(C).
    """
    weight, scales, offsets = packed
    width = positions.shape[1]
    inputs = {"ids": ids, "place": place, "weight": weight, "scales": scales, "offsets": offsets}
    outputs = {"y": ((*ids.shape, width), positions.dtype), "at": ((_PLACES,), mx.int32)}
    template = {"X": positions.dtype, "K": width, "BITS": bits, "SCALED": scaled}
    inputs["positions"] = positions
    y, at = _launch("embed", inputs, outputs, (ids.size, 1, 1), template)
    return y, at


def self_attend_reference(
    qkv: mx.array, past: mx.array, place: mx.array, bias: mx.array, heads: int
) -> tuple[mx.array, mx.array]:
    """Causal attention of qkv [B, T, 3C] at place [1] to past [B, 2 * heads, L, C / heads] and to itself.

    `bias` [T, L] is minus infinity where a query may not look. Returns [B, T, C], and `past` with the new keys and
    values in it.
    """
    split = split_heads(qkv, 3, heads)
    past = mx.slice_update(past, split[:, heads:], place, (2,))
    return _softmax_attend(split[:, :heads], past, bias), past


def self_attend(
    qkv: mx.array, past: mx.array, place: mx.array, bias: mx.array, heads: int
) -> tuple[mx.array, mx.array]:
    """Compute the same, on the CPU by native kernels, which need no bias."""
    if transformer.fits(qkv):
        return transformer.step_attend(qkv, past, place, heads)
    return self_attend_reference(qkv, past, place, bias, heads)


def self_attend_cuda(qkv: mx.array, past: mx.array, at: mx.array, heads: int) -> tuple[mx.array, mx.array]:
    """Compute the same, causal without a bias; `at` is the place in the GPU's memory. `past` is copied."""
    batch, count, width = qkv.shape
    outputs = {"y": ((batch, count, width // 3), qkv.dtype), "after": (past.shape, past.dtype)}
    template = {"X": qkv.dtype, "D": past.shape[-1]}
    inputs = {"qkv": qkv, "past": past, "at": at}
    y, after = _launch("self_attend", inputs, outputs, (heads, batch, _spread(count)), template)
    return y, after


def _spread(count: int) -> int:
    """Return the blocks that share a row's `count` queries of one head."""
    return -(-count // _MAX_QUERIES)


def cross_attend_reference(q: mx.array, memory: mx.array, bias: mx.array, heads: int) -> mx.array:
    """Attention of queries [B, T, C] to the encoder's memory [B, 2 * heads, S, C / heads] -> [B, T, C].

    `bias` [B, 1, 1, S] is added to the logits.
    """
    return _softmax_attend(split_heads(q, 1, heads), memory, bias)


def cross_attend(q: mx.array, memory: mx.array, bias: mx.array, heads: int) -> mx.array:
    """Compute the same, on the CPU by a native kernel."""
    return (transformer.attend if transformer.fits(q) else cross_attend_reference)(q, memory, bias, heads)


def cross_attend_cuda(
    x: mx.array, memory: mx.array, mask: mx.array, heads: int, norm: nn.LayerNorm, projection: Projection | None = None
) -> mx.array:
    """Compute the same for queries x or, with a `projection` and few rows, for queries projection(norm(x))."""
    batch, count, width = x.shape
    none = {"weight": x, "scales": x, "offsets": x, "bias": x}
    inputs = {"x": x, **(none if projection is None else _weights(projection))}
    inputs |= {"gain": norm.weight, "shift": norm.bias, "memory": memory, "mask": mask}
    template = {"X": x.dtype, "K": width, "D": memory.shape[-1], "BITS": 0 if projection is None else projection.bits}
    template["PROJECT"] = projection is not None
    blocks = (heads, batch, _spread(count) if projection is None else 1)
    return _launch("cross_attend", inputs, {"y": (x.shape, x.dtype)}, blocks, template)[0]


def attends(length: int) -> bool:
    """Return whether `attend_cuda` and the native kernel are for rows so long."""
    return length <= _MAX_KEYS


def attend_reference(qkv: mx.array, bias: mx.array, heads: int) -> mx.array:
    """Attention of all of qkv [B, T, 3C] to all of it -> [B, T, C]; `bias` [B, 1, 1, T] is added to the logits."""
    split = split_heads(qkv, 3, heads)
    return _softmax_attend(split[:, :heads], split[:, heads:], bias)


def attend(qkv: mx.array, bias: mx.array, heads: int) -> mx.array:
    """Compute the same, on the CPU by a native kernel where rows are short."""
    if attends(qkv.shape[1]) and transformer.fits(qkv):
        return transformer.attend(qkv, None, bias, heads)
    return attend_reference(qkv, bias, heads)


def attend_cuda(qkv: mx.array, mask: mx.array, heads: int) -> mx.array:
    """Compute the same in one kernel; `mask` is `bias`."""
    batch, count, width = qkv.shape
    template = {"X": qkv.dtype, "D": width // 3 // heads}
    outputs = {"y": ((batch, count, width // 3), qkv.dtype)}
    blocks = (heads, batch, -(-count // _WARPS))
    return _launch("attend", {"qkv": qkv, "mask": mask}, outputs, blocks, template)[0]


def add_norm_cuda(x: mx.array, y: mx.array, norm: nn.LayerNorm) -> tuple[mx.array, mx.array]:
    """Return x + y and norm(x + y), for [B, T, C]."""
    inputs = {"x": x, "part": y, "gain": norm.weight, "shift": norm.bias}
    outputs = {"y": (x.shape, x.dtype), "normal": (x.shape, x.dtype)}
    blocks = (-(-rows(x) // _WARPS), 1, 1)
    total, normal = _launch("add_norm", inputs, outputs, blocks, {"X": x.dtype, "K": x.shape[-1]})
    return total, normal


def argmax_cuda(x: mx.array, packed: Whole, bits: int, banned: mx.array, table: mx.array) -> mx.array:
    """Return the entries int32 [R] of table [V] with the largest products of x [R, C] and weights [V, C], plus banned.

    Products are compared in float32; of equal ones the first wins. The plain definition is `vocabulary.argmax`.
    """
    weight, scales, offsets = packed
    count, width = x.shape
    inputs = {"x": x, "weight": weight, "scales": scales, "offsets": offsets, "banned": banned}
    shape = (count, _BLOCKS)
    template = {"X": x.dtype, "K": width, "BITS": bits, "R": count}
    parts = {"values": (shape, mx.float32), "places": (shape, mx.int32)}
    values, places = _launch("argmax_blocks", inputs, parts, (_BLOCKS, 1, 1), template)
    inputs = {"values": values, "places": places, "table": table}
    return _launch("argmax", inputs, {"y": ((count,), mx.int32)}, (count, 1, 1), {"N": _BLOCKS})[0]
