"""T3's weights as the kernels read them: all layers of a kind in one array."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from mlx import nn

from models.backend import mx
from models.chatterbox.t3.backbone import Gpt2, rope_wavelengths
from models.chatterbox.t3.network import T3
from models.layers.projection import GROUP, Projection

_CHUNK = 256  # weights that a warp reads at once

FLOATS = ("gains", "rope", "terms")  # fp32
TABLES = ("speech", "learned")  # bfloat16, whatever the products are


@dataclass(frozen=True, slots=True)
class Weights:
    """What a step reads, all layers in one array: products [layers, O, I] bfloat16, what follows the head fp32.

    Products of 8 bits are uint8 [layers, O, I / 256, 272]: 256 bytes, then the scales and offsets of their four groups.
    `gate_up` is GPT-2's one product; what a network does not have is one zero.
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

    def arrays(self) -> list[mx.array]:
        """In the order of step.h."""
        return [getattr(self, field.name) for field in fields(self)]


def pack(network: T3, positions: int) -> Weights:
    """The network's weights in one array a kind, and rope for `positions`.

    Where the network computes in bfloat16 its own products become slices of these: nothing is held twice. Products of
    8 bits are: the network's prefill reads them as MLX has them.
    """
    backbone, none = network.backbone, mx.zeros(1)
    learned, rope, terms = (
        (backbone.positions, none, _terms(network, backbone))
        if isinstance(backbone, Gpt2)
        else (network.speech_positions, _rope(network, positions), none)
    )
    first = "up" if isinstance(backbone, Gpt2) else "gate_up"
    qkv, out, gate_up, down = (_stacked(network, kind) for kind in ("qkv", "out", first, "down"))
    norms = [norm.weight for layer in backbone.layers for norm in (layer.attention_norm, layer.ffn_norm)]
    weights = Weights(
        speech=network.speech.astype(mx.bfloat16),
        learned=learned.astype(mx.bfloat16),
        qkv=qkv,
        out=out,
        gate_up=gate_up,
        down=down,
        head=_ready(network.head),
        gains=mx.stack([*norms, backbone.norm.weight]).astype(mx.float32),
        rope=rope,
        terms=terms,
    )
    mx.eval(weights.arrays())
    return weights


def _stacked(network: T3, kind: str) -> mx.array:
    """A product of all layers, [layers, O, I] bfloat16."""
    products = [getattr(layer, kind) for layer in network.backbone.layers]
    stacked = mx.stack([_ready(product) for product in products])
    mx.eval(stacked)
    if network.bits:
        return stacked
    for product, weight in zip(products, stacked, strict=True):
        if len(product._parts) == 1 and network.dtype == mx.bfloat16:
            product.weight = weight
            product._parts = [(weight,)]
    return stacked


def _rope(network: T3, positions: int) -> mx.array:
    angle = np.arange(positions)[:, None] / rope_wavelengths(network.config).astype(np.float64)
    return mx.array(np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32))


def _terms(network: T3, backbone: Gpt2) -> mx.array:
    """What rows.h calls Terms, of all layers and the head, and the biases that no norm precedes; fp32 [n]."""
    found = []
    for layer in backbone.layers:
        found += [*_moved(layer.attention_norm, layer.qkv), layer.out.bias.astype(mx.float32)]
        found += [*_moved(layer.ffn_norm, layer.up), layer.down.bias.astype(mx.float32)]
    found += _moved(backbone.norm, network.head)
    return mx.concatenate(found)


def _moved(norm: nn.LayerNorm, product: Projection) -> tuple[mx.array, mx.array]:
    """Slopes and offsets [O]: the product of the norm's gains; that of its biases, plus the product's own."""
    weight = _whole(product).astype(mx.float32)
    # Not by `@`, which may round its factors on a GPU.
    slope = mx.sum(weight * norm.weight.astype(mx.float32), axis=1)
    offset = mx.sum(weight * norm.bias.astype(mx.float32), axis=1) + product.bias.astype(mx.float32)
    mx.eval(slope, offset)  # a layer's weights in fp32 at a time
    return slope, offset


def _ready(product: Projection) -> mx.array:
    """As the kernels read it."""
    if not product.bits:
        return _whole(product)
    packed, scales, offsets = _joined(product)
    bytes_ = mx.view(packed, mx.uint8).reshape(packed.shape[0], -1, _CHUNK)
    shared = mx.view(mx.stack([scales, offsets], axis=-1).astype(mx.bfloat16), mx.uint8)
    return mx.concatenate([bytes_, shared.reshape(packed.shape[0], -1, _CHUNK // GROUP * 4)], axis=-1)


def _whole(product: Projection) -> mx.array:
    """[O, I] bfloat16; what 8 bits stand for, in fp32."""
    weight, *shared = _joined(product)
    if not product.bits:
        return weight.astype(mx.bfloat16)
    scales, offsets = (each.astype(mx.float32) for each in shared)
    return mx.dequantize(weight, scales, offsets, group_size=GROUP, bits=product.bits)


def _joined(product: Projection) -> list[mx.array]:
    """Weight, or weight, scales and offsets, whether the lanes share them or not."""
    parts = product._parts or [(product.weight,)]
    return [mx.concatenate(list(kind)) for kind in zip(*parts, strict=True)]
