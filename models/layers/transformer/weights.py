"""Weights as the kernels read them: one array holds the same product of all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlx import nn

from models.backend import mx
from models.layers.linear import Part, Projection
from models.layers.transformer.shape import TransformerShape

DECODER_PRODUCTS = ("qkv", "out", "query", "cross", "fc1", "fc2")
ENCODER_PRODUCTS = ("qkv", "out", "fc1", "fc2")


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer: norms before its attentions and its feed-forward; products in the order of their names above."""

    norms: tuple[nn.LayerNorm, ...]
    products: tuple[Projection, ...]


@dataclass(frozen=True, slots=True)
class TransformerWeights:
    """A lowered decoder or encoder: sizes, layers, last norm; the table of token embeddings, and positions [P, C].

    An encoder has `memory`, the keys and values [2 C a layer] that its decoder's layers make of its output.
    """

    shape: TransformerShape
    dtype: mx.Dtype
    layers: Sequence[LayerWeights]
    norm: nn.LayerNorm
    table: Part
    positions: mx.array
    memory: Projection | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the products' names."""
        return DECODER_PRODUCTS if self.memory is None else ENCODER_PRODUCTS


def pack(given: TransformerWeights) -> dict[str, mx.array]:
    """Return the arrays of Weights in step.h, or in encoder.h, by name, but for the projection onto tokens.

    Products are [layers, O, I]; of 8 or 4 bits each comes with its scales and offsets. The network's own products
    become slices of these: memory holds them once.
    """
    found = dict[str, mx.array]()
    for name, same in zip(given.names, zip(*(layer.products for layer in given.layers), strict=True), strict=True):
        found |= named(name, _stacked(given.dtype, same))
    found |= named("table", given.table)
    vectors = [vector.astype(mx.bfloat16) for layer in given.layers for vector in _vectors(layer)]
    vectors += [given.norm.weight.astype(mx.bfloat16), given.norm.bias.astype(mx.bfloat16)]
    if given.memory is not None:
        found |= named("memory", _stacked(given.dtype, [given.memory]))
        vectors.append(given.memory.bias.astype(mx.bfloat16))
    found["vectors"] = mx.concatenate(vectors)
    found["positions"] = given.positions.astype(mx.bfloat16)
    mx.eval(found)
    return found


def named(name: str, part: Part) -> dict[str, mx.array]:
    """Return the arrays of one matrix by the kernels' names; weights that are not quantized are bfloat16."""
    if len(part) == 1:
        return {name: part[0].astype(mx.bfloat16)}
    weight, scales, offsets = part
    return {name: weight, f"{name}_scales": scales.astype(mx.bfloat16), f"{name}_offsets": offsets.astype(mx.bfloat16)}


def _stacked(dtype: mx.Dtype, same: Sequence[Projection]) -> Part:
    """Return a product of all layers in one array, and make each layer's a slice of it."""
    each = [[mx.concatenate(list(kind)) for kind in zip(*product._parts, strict=True)] for product in same]
    stacked = tuple(mx.stack(list(kind)) for kind in zip(*each, strict=True))
    mx.eval(stacked)
    for product, *slices in zip(same, *stacked, strict=True):
        if len(product._parts) == 1 and dtype == mx.bfloat16:
            product.weight, product._parts = slices[0], [tuple(slices)]
    return stacked


def _vectors(layer: LayerWeights) -> list[mx.array]:
    """Return a layer's vectors in the order of products.h or encoder.h."""
    norms = [vector for norm in layer.norms for vector in (norm.weight, norm.bias)]
    return norms + [each.bias for each in layer.products]
