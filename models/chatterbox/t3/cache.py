"""Cache of keys and values, allocated ahead. Functions take and return arrays, so that steps can be compiled.

A layer's entry is a tuple of arrays: one [B, 2 * heads, T, size] of keys, then values; or, with 8 or 4 bits, six:
packed numbers, scales and offsets of the keys, and the same of the values, [B, heads, T, ...] each, one group of `size`
(at most 64) numbers to a scale. Positions that are not written yet have no meaning: readers mask them.
"""

from __future__ import annotations

import math

from models.backend import mx
from models.layers import attention

Layer = tuple[mx.array, ...]
Cache = list[Layer]

_MAX_GROUP = 64


def allocate(layers: int, batch: int, heads: int, size: int, length: int, dtype: mx.Dtype, bits: int = 0) -> Cache:
    """Allocate `length` positions of `batch` rows in each of `layers`."""
    if not bits:
        return [(mx.zeros((batch, 2 * heads, length, size), dtype=dtype),) for _ in range(layers)]
    group = min(size, _MAX_GROUP)
    groups = (batch, heads, length, size // group)
    half = ((batch, heads, length, size * bits // 32), mx.uint32), (groups, dtype), (groups, dtype)
    return [tuple(mx.zeros(shape, dtype=kind) for shape, kind in half * 2) for _ in range(layers)]


def capacity(cache: Cache) -> int:
    """Return the number of positions that `cache` has room for."""
    return cache[0][0].shape[2]


def rows(cache: Cache) -> int:
    """Return the number of rows, B."""
    return cache[0][0].shape[0]


def grow(cache: Cache, length: int) -> Cache:
    """Return `cache` with room for `length` positions."""
    more = length - capacity(cache)
    return [tuple(mx.pad(array, [(0, 0), (0, 0), (0, more), (0, 0)]) for array in layer) for layer in cache]


def _bits(packed: mx.array, scales: mx.array, size: int) -> tuple[int, int]:
    """Return the number of values that share a scale, and the bits of each."""
    return size // scales.shape[-1], packed.shape[-1] * 32 // size


def write(layer: Layer, kv: mx.array, place: mx.array) -> Layer:
    """Write kv [B, 2 * heads, n, size], keys then values, at positions place [1] on."""
    if len(layer) == 1:
        return (mx.slice_update(layer[0], kv, place, (2,)),)
    group, bits = _bits(layer[0], layer[1], kv.shape[-1])
    new = [part for half in mx.split(kv, 2, axis=1) for part in mx.quantize(half, group_size=group, bits=bits)]
    return tuple(mx.slice_update(old, part, place, (2,)) for old, part in zip(layer, new, strict=True))


def attend(q: mx.array, layer: Layer, bias: mx.array) -> mx.array:
    """Attend with q [B, heads, n, size] -> [B, n, heads * size]; `bias` [n, T] is added to the logits."""
    batch, heads, length, size = q.shape
    scale = 1 / math.sqrt(size)
    if len(layer) == 1:
        y = attention.attend(q, layer[0][:, :heads], layer[0][:, heads:], scale, bias)
    else:
        keys, key_scales, key_offsets, values, value_scales, value_offsets = layer
        group, bits = _bits(keys, key_scales, size)
        logits = mx.quantized_matmul(
            q * scale, keys, key_scales, key_offsets, transpose=True, group_size=group, bits=bits
        )
        weights = mx.softmax(logits + bias, axis=-1, precise=True)
        y = mx.quantized_matmul(
            weights, values, value_scales, value_offsets, transpose=False, group_size=group, bits=bits
        )
    return y.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)
