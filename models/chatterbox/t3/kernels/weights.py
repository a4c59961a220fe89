"""T3's weights in the kernels' order: one array holds the same product of all layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from mlx import nn

from models.backend import mx
from models.chatterbox.t3.backbone import Gpt2, rope_wavelengths
from models.chatterbox.t3.network import T3
from models.layers.linear import Projection
from models.native.transformer import GROUP

_CHUNK = 256  # weights that a warp reads at once

FLOATS = ("gains", "rope", "terms")  # fp32
TABLES = ("speech", "learned")  # bfloat16, whatever the products are


class Weights(NamedTuple):
    """Arrays that a step reads, in its order. Products are [layers, O, I] bfloat16; all after the head are fp32.

    Products of 8 bits are uint8 [layers, O, I / 256, 272]: 256 bytes, then the scales and offsets of their four groups.
    For GPT-2 `gate_up` is the one product. An array that a network does not have is one zero.
    """

    speech: mx.array
    learned: mx.array
    qkv: mx.array
    out: mx.array
    gate_up: mx.array
    down: mx.array
    head: mx.array
    gains: mx.array  # [2 * layers + 1, hidden]
    rope: mx.array  # [positions, 64]: cosines, then sines
    terms: mx.array  # of GPT-2, each layer's in one row and those of the head, in the order of rows.h


class Products(NamedTuple):
    """One layer's products, by the names of `Weights`."""

    qkv: Projection
    out: Projection
    gate_up: Projection
    down: Projection


def pack(network: T3, positions: int) -> Weights:
    """Return the network's weights, and rope for `positions`.

    If the network computes in bfloat16, its own products become slices of these: memory holds them once. Products of 8
    bits are held twice: the network's prefill reads them in MLX's order.
    """
    backbone, none = network.tfmr, mx.zeros(1)
    norms: list[Any]
    if isinstance(backbone, Gpt2):
        layers = [
            Products(layer.attn.c_attn, layer.attn.c_proj, layer.mlp.c_fc, layer.mlp.c_proj) for layer in backbone.h
        ]
        norms = [norm for layer in backbone.h for norm in (layer.ln_1, layer.ln_2)] + [backbone.ln_f]
        learned, rope, terms = backbone.wpe, none, _terms(layers, norms, network.speech_head)
    else:
        layers = [
            Products(layer.self_attn.qkv_proj, layer.self_attn.o_proj, layer.mlp.gate_up_proj, layer.mlp.down_proj)
            for layer in backbone.layers
        ]
        norms = [norm for each in backbone.layers for norm in (each.input_layernorm, each.post_attention_layernorm)]
        norms.append(backbone.norm)
        angle = np.arange(positions)[:, None] / rope_wavelengths(network.config).astype(np.float64)
        rope = mx.array(np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32))
        learned, terms = network.speech_pos_emb, none
    qkv, out, gate_up, down = (_stacked(network, products) for products in zip(*layers, strict=True))
    weights = Weights(
        speech=network.speech_emb.weight.astype(mx.bfloat16),
        learned=learned.weight.astype(mx.bfloat16),
        qkv=qkv,
        out=out,
        gate_up=gate_up,
        down=down,
        head=_ready(network.speech_head),
        gains=mx.stack([norm.weight for norm in norms]).astype(mx.float32),
        rope=rope,
        terms=terms,
    )
    mx.eval(*weights)
    return weights


def _stacked(network: T3, products: Sequence[Projection]) -> mx.array:
    """Return one product of all layers, [layers, O, I] bfloat16."""
    stacked = mx.stack([_ready(product) for product in products])
    mx.eval(stacked)
    if network.bits:
        return stacked
    for product, weight in zip(products, stacked, strict=True):
        if len(product._parts) == 1 and network.dtype == mx.bfloat16:
            product.weight = weight
            product._parts = [(weight,)]
    return stacked


def _terms(layers: Sequence[Products], norms: Sequence[nn.LayerNorm], head: Projection) -> mx.array:
    """Return GPT-2's Terms (rows.h) of all layers and the head, with the biases that no norm precedes; fp32 [n]."""
    found = []
    for k, layer in enumerate(layers):
        found += [*_moved(norms[2 * k], layer.qkv), layer.out.bias.astype(mx.float32)]
        found += [*_moved(norms[2 * k + 1], layer.gate_up), layer.down.bias.astype(mx.float32)]
    found += _moved(norms[-1], head)
    return mx.concatenate(found)


def _moved(norm: nn.LayerNorm, product: Projection) -> tuple[mx.array, mx.array]:
    """Return slopes and offsets [O]: the product of the norm's gains; that of its biases, plus the product's own."""
    weight = _whole(product).astype(mx.float32)
    # Not by `@`, which may round its factors on a GPU.
    slope = mx.sum(weight * norm.weight.astype(mx.float32), axis=1)
    offset = mx.sum(weight * norm.bias.astype(mx.float32), axis=1) + product.bias.astype(mx.float32)
    mx.eval(slope, offset)  # a layer's weights in fp32 at a time
    return slope, offset


def _ready(product: Projection) -> mx.array:
    """Return a product in the kernels' order."""
    if not product.bits:
        return _whole(product)
    packed, scales, offsets = _joined(product)
    bytes_ = mx.view(packed, mx.uint8).reshape(packed.shape[0], -1, _CHUNK)
    shared = mx.view(mx.stack([scales, offsets], axis=-1).astype(mx.bfloat16), mx.uint8)
    return mx.concatenate([bytes_, shared.reshape(packed.shape[0], -1, _CHUNK // GROUP * 4)], axis=-1)


def _whole(product: Projection) -> mx.array:
    """Return the weight [O, I]: bfloat16, or fp32 if it was kept in 8 bits."""
    weight, *shared = _joined(product)
    if not product.bits:
        return weight.astype(mx.bfloat16)
    scales, offsets = (each.astype(mx.float32) for each in shared)
    return mx.dequantize(weight, scales, offsets, group_size=GROUP, bits=product.bits)


def _joined(product: Projection) -> list[mx.array]:
    """Return the weight, or weight, scales and offsets, in one piece each."""
    parts = product._parts or [(product.weight,)]
    return [mx.concatenate(list(kind)) for kind in zip(*parts, strict=True)]
