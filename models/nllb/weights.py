"""From the official checkpoint's arrays to the network's: pure renaming and joining, strict.

The layout is transformers' M2M100ForConditionalGeneration, as safetensors or pytorch_model.bin, in any float type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlx.utils import tree_unflatten

from models.backend import mx
from models.checkpoint import check_shapes, raise_problems
from models.nllb.config import NllbConfig
from models.nllb.network import Nllb

_SHARED = "model.shared.weight"
_TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
# Tables that are computed, which early releases saved all the same.
_COMPUTED = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")

Names = tuple[str, ...]


def load_weights(network: Nllb, arrays: Mapping[str, mx.array], source: str, dtype: mx.Dtype = mx.float32) -> None:
    """Put `arrays` into `network`, as `dtype`. Raises WeightsError naming what is missing, extra or misshapen."""
    check(arrays, shapes(network.config), source)
    # The checkpoint's arrays are read lazily: each is cast and joined before the next is touched.
    ready = []
    for ours, (names, _) in _layout(network.config).items():
        parts = [arrays[name].astype(dtype) for name in names]
        joined = parts[0] if len(parts) == 1 else mx.concatenate(parts)
        mx.eval(joined)
        ready.append((ours, joined))
    network.update(tree_unflatten(ready))
    network.freeze()


def shapes(config: NllbConfig) -> dict[str, tuple[int, ...]]:
    """Every array of an official checkpoint, and its shape."""
    return {name: shape for names, shape in _layout(config).values() for name in names}


def check(arrays: Mapping[str, mx.array], wanted: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Raise WeightsError unless `arrays` has exactly the `wanted` shapes, but for copies of the tied embedding."""
    problems = [
        f"{name} differs from {_SHARED}: only tied embeddings are read"
        for name in _TIED
        if _SHARED in arrays and name in arrays and not bool(mx.array_equal(arrays[name], arrays[_SHARED]))
    ]
    check_shapes({name: arrays[name] for name in set(arrays) - set(_TIED) - set(_COMPUTED)}, wanted, source)
    raise_problems(problems, source)


def _layout(config: NllbConfig) -> dict[str, tuple[Names, tuple[int, ...]]]:
    """The network's name -> the official arrays that are joined to make it, and the shape each has."""
    found: dict[str, tuple[Names, tuple[int, ...]]] = {
        "vocabulary.weight": ((_SHARED,), (config.vocab_size, config.d_model))
    }
    found |= dict(_encoder(config))
    found |= dict(_decoder(config))
    return found


Entry = tuple[str, tuple[Names, tuple[int, ...]]]


def _linear(ours: str, names: list[str], inputs: int, outputs: int) -> Iterator[Entry]:
    yield f"{ours}.weight", (tuple(f"{name}.weight" for name in names), (outputs, inputs))
    yield f"{ours}.bias", (tuple(f"{name}.bias" for name in names), (outputs,))


def _norm(ours: str, name: str, width: int) -> Iterator[Entry]:
    for leaf in ("weight", "bias"):
        yield f"{ours}.{leaf}", ((f"{name}.{leaf}",), (width,))


def _shared_parts(ours: str, name: str, width: int, inner: int) -> Iterator[Entry]:
    """What a layer of either stack has."""
    yield from _norm(f"{ours}.attention_norm", f"{name}.self_attn_layer_norm", width)
    yield from _linear(f"{ours}.qkv", [f"{name}.self_attn.{kind}_proj" for kind in "qkv"], width, width)
    yield from _linear(f"{ours}.out", [f"{name}.self_attn.out_proj"], width, width)
    yield from _norm(f"{ours}.ffn_norm", f"{name}.final_layer_norm", width)
    yield from _linear(f"{ours}.ffn.fc1", [f"{name}.fc1"], width, inner)
    yield from _linear(f"{ours}.ffn.fc2", [f"{name}.fc2"], inner, width)


def _encoder(config: NllbConfig) -> Iterator[Entry]:
    width = config.d_model
    for i in range(config.encoder_layers):
        yield from _shared_parts(f"encoder.layers.{i}", f"model.encoder.layers.{i}", width, config.encoder_ffn_dim)
    yield from _norm("encoder.norm", "model.encoder.layer_norm", width)


def _decoder(config: NllbConfig) -> Iterator[Entry]:
    width = config.d_model
    for i in range(config.decoder_layers):
        ours, name = f"decoder.layers.{i}", f"model.decoder.layers.{i}"
        yield from _shared_parts(ours, name, width, config.decoder_ffn_dim)
        yield from _norm(f"{ours}.cross_norm", f"{name}.encoder_attn_layer_norm", width)
        yield from _linear(f"{ours}.cross_q", [f"{name}.encoder_attn.q_proj"], width, width)
        yield from _linear(f"{ours}.cross_out", [f"{name}.encoder_attn.out_proj"], width, width)
    read = [f"model.decoder.layers.{i}.encoder_attn.{kind}_proj" for i in range(config.decoder_layers) for kind in "kv"]
    yield from _linear("decoder.memory", read, width, width)
    yield from _norm("decoder.norm", "model.decoder.layer_norm", width)
