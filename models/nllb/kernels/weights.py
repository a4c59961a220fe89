"""The decoder's weights as the kernels of its step read them: one array holds the same product of all layers."""

from __future__ import annotations

from collections.abc import Sequence

from models.backend import mx
from models.layers.linear import Part, Projection
from models.nllb.network import DecoderLayer, Nllb

PRODUCTS = ("qkv", "out", "query", "cross", "fc1", "fc2")


def products(layer: DecoderLayer) -> tuple[Projection, ...]:
    """Return a layer's products, in the order of PRODUCTS."""
    own, cross = layer.self_attn, layer.encoder_attn
    return own.qkv_proj, own.out_proj, cross.q_proj, cross.out_proj, layer.fc1, layer.fc2


def pack(network: Nllb) -> dict[str, mx.array]:
    """Return the arrays of Weights in step.h by name, but for those of the projection onto tokens.

    Products are [layers, O, I]; of 8 or 4 bits each comes with its scales and offsets. The network's own products
    become slices of these: memory holds them once.
    """
    decoder, found = network.decoder, dict[str, mx.array]()
    for name, same in zip(PRODUCTS, zip(*map(products, decoder.layers), strict=True), strict=True):
        found |= named(name, _stacked(network, same))
    found |= named("table", network.shared.part)
    vectors = [vector.astype(mx.bfloat16) for layer in decoder.layers for vector in _vectors(layer)]
    vectors += [decoder.layer_norm.weight.astype(mx.bfloat16), decoder.layer_norm.bias.astype(mx.bfloat16)]
    found["vectors"] = mx.concatenate(vectors)
    found["positions"] = network._positions.astype(mx.bfloat16)
    mx.eval(found)
    return found


def named(name: str, part: Part) -> dict[str, mx.array]:
    """Return the arrays of one matrix by the kernels' names; weights that are not quantized are bfloat16."""
    if len(part) == 1:
        return {name: part[0].astype(mx.bfloat16)}
    weight, scales, offsets = part
    return {name: weight, f"{name}_scales": scales.astype(mx.bfloat16), f"{name}_offsets": offsets.astype(mx.bfloat16)}


def _stacked(network: Nllb, same: Sequence[Projection]) -> Part:
    """Return a product of all layers in one array, and make each layer's a slice of it."""
    each = [[mx.concatenate(list(kind)) for kind in zip(*product._parts, strict=True)] for product in same]
    stacked = tuple(mx.stack(list(kind)) for kind in zip(*each, strict=True))
    mx.eval(stacked)
    for product, *slices in zip(same, *stacked, strict=True):
        if len(product._parts) == 1 and network.dtype == mx.bfloat16:
            product.weight, product._parts = slices[0], [tuple(slices)]
    return stacked


def _vectors(layer: DecoderLayer) -> list[mx.array]:
    """Return a layer's vectors in the order of products.h."""
    norms = (layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm)
    return [vector for norm in norms for vector in (norm.weight, norm.bias)] + [each.bias for each in products(layer)]
