"""Tiny random Kokoro checkpoints in every layout that is read, and a runner for networks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mlx.utils import tree_flatten

from loadtest.official import KOKORO
from models.backend import mx
from models.kokoro.config import KokoroConfig, load_config
from models.kokoro.network import Kokoro
from models.kokoro.weights import load_weights

Arrays = dict[str, np.ndarray]

VOCAB = {character: token for token, character in enumerate("abcdefghijklmnop ,.ˈ", 1)}

# The keys and the depth of the official config.json; widths as small as the structure allows.
TINY: dict[str, Any] = KOKORO | {
    "hidden_dim": 16,
    "style_dim": 6,
    "n_layer": 2,
    "max_dur": 8,
    "n_token": 24,
    "decoder_dim": 20,
    "residual_dim": 4,
    "plbert": KOKORO["plbert"]
    | {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "dropout": 0.1,
        "embedding_size": 8,
    },
    "istftnet": KOKORO["istftnet"] | {"upsample_initial_channel": 16},
    "vocab": VOCAB,
}


def write_config(folder: Path, values: Mapping[str, Any] = TINY) -> Path:
    """config.json of `values` in `folder`."""
    path = folder / "config.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def tiny_config(folder: Path) -> KokoroConfig:
    """TINY as the loader reads it."""
    return load_config(write_config(folder))


def voice_pack(values: Mapping[str, Any], seed: int, rows: int) -> np.ndarray:
    """A voice pack [rows, 2 * style_dim]."""
    return np.random.RandomState(seed).standard_normal((rows, 2 * values["style_dim"])).astype(np.float32)


class _Writer:
    """Collects arrays under the official file's names (without `module.`): weight norm unfolded, torch's LSTMs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.RandomState(seed)
        self.arrays: Arrays = {}

    def put(self, name: str, *shape: int, scale: float | None = None, offset: float = 0.0) -> None:
        scale = 1 / math.sqrt(shape[-1] if len(shape) > 1 else 4) if scale is None else scale
        values = offset + scale * self.rng.standard_normal(shape)
        # Rounded as a half-precision file would round them, so that both hold the same weights.
        self.arrays[name] = values.astype(np.float16).astype(np.float32)

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        self.put(f"{name}.weight", outputs, inputs)
        self.put(f"{name}.bias", outputs, scale=0.1)

    def norm(self, name: str, width: int, leaves: tuple[str, str] = ("weight", "bias")) -> None:
        self.put(f"{name}.{leaves[0]}", width, scale=0.1, offset=1.0)
        self.put(f"{name}.{leaves[1]}", width, scale=0.1)

    def conv(self, name: str, first: int, second: int, kernel: int, *, bias: int | None = None) -> None:
        """Weight-normed, [first, second, kernel]; `bias` outputs."""
        self.put(f"{name}.weight_v", first, second, kernel)
        self.put(f"{name}.weight_g", first, 1, 1, scale=0.05, offset=0.7)
        if bias:
            self.put(f"{name}.bias", bias, scale=0.1)

    def lstm(self, name: str, inputs: int, hidden: int) -> None:
        for suffix in ("", "_reverse"):
            self.put(f"{name}.weight_ih_l0{suffix}", 4 * hidden, inputs)
            self.put(f"{name}.weight_hh_l0{suffix}", 4 * hidden, hidden)
            self.put(f"{name}.bias_ih_l0{suffix}", 4 * hidden, scale=0.1)
            self.put(f"{name}.bias_hh_l0{suffix}", 4 * hidden, scale=0.1)

    def block(self, name: str, inputs: int, outputs: int, style: int, *, upsample: bool = False) -> None:
        self.conv(f"{name}.conv1", outputs, inputs, 3, bias=outputs)
        self.conv(f"{name}.conv2", outputs, outputs, 3, bias=outputs)
        self.linear(f"{name}.norm1.fc", style, 2 * inputs)
        self.linear(f"{name}.norm2.fc", style, 2 * outputs)
        if inputs != outputs:
            self.conv(f"{name}.conv1x1", outputs, inputs, 1)
        if upsample:
            self.conv(f"{name}.pool", inputs, 1, 3, bias=inputs)

    def residual(self, name: str, width: int, kernel: int, style: int) -> None:
        for pair in (1, 2):
            for i in range(3):
                self.conv(f"{name}.convs{pair}.{i}", width, width, kernel, bias=width)
                self.linear(f"{name}.adain{pair}.{i}.fc", style, 2 * width)
                self.put(f"{name}.alpha{pair}.{i}", 1, width, 1, scale=0.1, offset=1.0)


def official_arrays(values: Mapping[str, Any], seed: int) -> Arrays:
    """Random weights of a configuration, named as in the official file but for its `module.` prefixes."""
    w, bert, istft = _Writer(seed), values["plbert"], values["istftnet"]
    hidden, style, half = values["hidden_dim"], values["style_dim"], values["hidden_dim"] // 2
    embedding, width = bert["embedding_size"], bert["hidden_size"]
    for kind, rows in (
        ("word", values["n_token"]),
        ("position", bert["max_position_embeddings"]),
        ("token_type", 2),
    ):
        w.put(f"bert.embeddings.{kind}_embeddings.weight", rows, embedding)
    w.norm("bert.embeddings.LayerNorm", embedding)
    w.linear("bert.encoder.embedding_hidden_mapping_in", embedding, width)
    layer = "bert.encoder.albert_layer_groups.0.albert_layers.0"
    for name in ("query", "key", "value", "dense"):
        w.linear(f"{layer}.attention.{name}", width, width)
    w.norm(f"{layer}.attention.LayerNorm", width)
    w.norm(f"{layer}.full_layer_layer_norm", width)
    w.linear(f"{layer}.ffn", width, bert["intermediate_size"])
    w.linear(f"{layer}.ffn_output", bert["intermediate_size"], width)
    w.linear("bert.pooler", width, width)  # no inference reads it
    w.linear("bert_encoder", width, hidden)

    w.put("text_encoder.embedding.weight", values["n_token"], hidden)
    for i in range(values["n_layer"]):
        w.conv(f"text_encoder.cnn.{i}.0", hidden, hidden, values["text_encoder_kernel_size"], bias=hidden)
        w.norm(f"text_encoder.cnn.{i}.1", hidden, ("gamma", "beta"))
    w.lstm("text_encoder.lstm", hidden, half)

    for i in range(values["n_layer"]):
        w.lstm(f"predictor.text_encoder.lstms.{2 * i}", hidden + style, half)
        w.linear(f"predictor.text_encoder.lstms.{2 * i + 1}.fc", style, 2 * hidden)
    w.lstm("predictor.lstm", hidden + style, half)
    w.lstm("predictor.shared", hidden + style, half)
    w.linear("predictor.duration_proj.linear_layer", hidden, values["max_dur"])
    for curve, level, middle in (("F0", 60.0, 120.0), ("N", 1.0, 0.0)):
        w.block(f"predictor.{curve}.0", hidden, hidden, style)
        w.block(f"predictor.{curve}.1", hidden, half, style, upsample=True)
        w.block(f"predictor.{curve}.2", half, half, style)
        w.put(f"predictor.{curve}_proj.weight", 1, half, 1, scale=level)
        w.put(f"predictor.{curve}_proj.bias", 1, scale=0.0, offset=middle)

    inner, joined = values["decoder_dim"], values["decoder_dim"] + 2 + values["residual_dim"]
    channels = istft["upsample_initial_channel"]
    w.block("decoder.encode", hidden + 2, inner, style)
    for i in range(3):
        w.block(f"decoder.decode.{i}", joined, inner, style)
    w.block("decoder.decode.3", joined, channels, style, upsample=True)
    for curve in ("F0_conv", "N_conv"):
        w.conv(f"decoder.{curve}", 1, 1, 3, bias=1)
    w.put("decoder.F0_conv.weight_g", 1, 1, 1, scale=0.0, offset=0.01)
    w.conv("decoder.asr_res.0", values["residual_dim"], hidden, 1, bias=values["residual_dim"])
    w.linear("decoder.generator.m_source.l_linear", 9, 1)
    bins = istft["gen_istft_n_fft"] + 2
    for i, (rate, kernel) in enumerate(zip(istft["upsample_rates"], istft["upsample_kernel_sizes"], strict=True)):
        last = i + 1 == len(istft["upsample_rates"])
        stride, now = math.prod(istft["upsample_rates"][i + 1 :]), channels >> (i + 1)
        w.conv(f"decoder.generator.ups.{i}", channels >> i, now, kernel, bias=now)
        assert rate < kernel
        w.put(f"decoder.generator.noise_convs.{i}.weight", now, bins, 1 if last else 2 * stride, scale=0.1)
        w.put(f"decoder.generator.noise_convs.{i}.bias", now, scale=0.1)
        w.residual(f"decoder.generator.noise_res.{i}", now, 11 if last else 7, style)
        for j, size in enumerate(istft["resblock_kernel_sizes"]):
            w.residual(f"decoder.generator.resblocks.{i * 3 + j}", now, size, style)
    w.conv("decoder.generator.conv_post", bins, channels >> len(istft["upsample_rates"]), 7, bias=bins)
    return w.arrays


def to_mx(arrays: Mapping[str, np.ndarray]) -> dict[str, mx.array]:
    """numpy to MLX."""
    return {name: mx.array(array) for name, array in arrays.items()}


def community_arrays(official: Mapping[str, np.ndarray]) -> Arrays:
    """The MLX community's layout: LSTMs as Wx / Wh by direction, LayerNorm's names, some convolutions channels-last."""
    found: Arrays = {}
    for name, array in official.items():
        if "_l0" in name:
            direction = "backward" if name.endswith("_reverse") else "forward"
            leaf = name.split(".")[-1].removesuffix("_reverse").removesuffix("_l0")
            leaf = {"weight_ih": "Wx", "weight_hh": "Wh"}.get(leaf, leaf)
            found[f"{name.rsplit('.', 1)[0]}.{leaf}_{direction}"] = array
        elif ".1.gamma" in name or ".1.beta" in name:
            found[name.replace("gamma", "weight").replace("beta", "bias")] = array
        elif array.ndim == 3 and not name.startswith(("text_encoder", "decoder.generator.ups")) and "alpha" not in name:
            found[name] = np.ascontiguousarray(array.swapaxes(1, 2))
        else:
            found[name] = array
    return found


class _Unlowered(Kokoro):
    """Keeps the loaded order of weights, to be written to a file."""

    def lower(self) -> None:
        """Leave everything as it is."""


def own_arrays(config: KokoroConfig, official: Mapping[str, np.ndarray]) -> dict[str, mx.array]:
    """This project's own layout: the network's names and shapes."""
    network = _Unlowered(config)
    load_weights(network, to_mx(official), "official")
    return dict(tree_flatten(network.parameters()))


def build(config: KokoroConfig, arrays: Mapping[str, mx.array]) -> Kokoro:
    """A network with these weights."""
    network = Kokoro(config)
    load_weights(network, arrays, "arrays")
    return network
