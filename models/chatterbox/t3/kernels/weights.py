"""T3's weights as the kernels read them: all layers of a kind in one array."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from models.backend import mx
from models.chatterbox.t3.backbone import Llama, rope_wavelengths
from models.chatterbox.t3.network import T3
from models.layers.projection import Projection


@dataclass(frozen=True, slots=True)
class Weights:
    """What a step reads, all layers in one array: products [layers, O, I] bfloat16, norms' gains and rope fp32."""

    speech: mx.array
    learned: mx.array
    qkv: mx.array
    out: mx.array
    gate_up: mx.array
    down: mx.array
    head: mx.array
    gains: mx.array  # [2 * layers + 1, hidden]
    rope: mx.array  # [positions, 64]: cosines, then sines

    def arrays(self) -> list[mx.array]:
        """In the order of step.h."""
        return [getattr(self, field.name) for field in fields(self)]


def pack(network: T3, positions: int) -> Weights:
    """The network's weights in one array a kind, and rope for `positions`.

    Where the network computes in bfloat16 its own products become slices of these: nothing is held twice.
    """
    backbone = network.backbone
    assert isinstance(backbone, Llama)  # noqa: S101  (what `fits` looked at)
    kinds: dict[str, mx.array] = {}
    for kind in ("qkv", "out", "gate_up", "down"):
        products = [getattr(layer, kind) for layer in backbone.layers]
        stacked = mx.stack([_whole(product) for product in products])
        mx.eval(stacked)
        kinds[kind] = stacked
        for product, weight in zip(products, stacked, strict=True):
            if len(product._parts) == 1 and network.dtype == mx.bfloat16:
                product.weight = weight
                product._parts = [(weight,)]
    norms = [norm.weight for layer in backbone.layers for norm in (layer.attention_norm, layer.ffn_norm)]
    angle = np.arange(positions)[:, None] / rope_wavelengths(network.config).astype(np.float64)
    weights = Weights(
        speech=network.speech.astype(mx.bfloat16),
        learned=network.speech_positions.astype(mx.bfloat16),
        head=_whole(network.head),
        gains=mx.stack([*norms, backbone.norm.weight]).astype(mx.float32),
        rope=mx.array(np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)),
        **kinds,
    )
    mx.eval(weights.arrays())
    return weights


def _whole(product: Projection) -> mx.array:
    """[O, I] bfloat16, whether the lanes share it or not."""
    parts = [part[0] for part in product._parts] or [product.weight]
    return mx.concatenate(parts).astype(mx.bfloat16)
