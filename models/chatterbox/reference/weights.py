"""From the official files' arrays to the three networks: renaming, joining and folding, strict.

`ve.safetensors` (or `ve.pt`) holds the voice encoder; `s3gen.safetensors` (or `.pt`) the speaker encoder and the speech
tokenizer, under `speaker_encoder.` and `tokenizer.`, beside S3Gen's own arrays. Which buffers a file carries differs:
the reference reads the English files leniently, Turbo's strictly. Counters of batches, which only training reads, may
be there or not; so may the tokenizer's window and filters, which are computed, and must then be the computed ones.

A table says what each array of a network is made of: the official names, their shapes, and how they are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.chatterbox.config import ChatterboxConfig, SpeakerConfig, TokenizerConfig, VoiceEncoderConfig
from models.chatterbox.reference.mel import hann, slaney_filters
from models.chatterbox.reference.speaker import HEAD, SpeakerEncoder
from models.chatterbox.reference.tokenizer import DIMENSIONS, SpeechTokenizer
from models.chatterbox.reference.voice_encoder import VoiceEncoder
from models.checkpoint import check_shapes
from models.contract import WeightsError

SPEAKER, TOKENIZER = "speaker_encoder.", "tokenizer."  # prefixes in S3Gen's file
_EPS = 1e-5  # of batch normalization
_COMPUTED = 1e-3  # of the largest value, between a file's buffer and ours

Shape = tuple[int, ...]
# Of a similarity that only training computes; always there.
_SIMILARITY: dict[str, Shape] = {"similarity_weight": (1,), "similarity_bias": (1,)}

Arrays = Mapping[str, mx.array]
Make = Callable[..., mx.array]


@dataclass(frozen=True, slots=True)
class Source:
    """One array of a network: `make` of the official arrays `parts`, name to shape, in that order."""

    parts: Mapping[str, Shape]
    make: Make


Table = dict[str, Source]


def shapes(config: ChatterboxConfig) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """Every array that must be in the voice encoder's file and, of these networks, in S3Gen's; and its shape."""
    s3gen = {f"{SPEAKER}{name}": shape for name, shape in _wanted(dict(_speaker(config.speaker))).items()}
    s3gen |= {f"{TOKENIZER}{name}": shape for name, shape in _wanted(dict(_tokenizer(config.tokenizer))).items()}
    return _wanted(dict(_voice_encoder(config.voice_encoder))) | _SIMILARITY, s3gen


def load_voice_encoder(network: VoiceEncoder, arrays: Arrays, config: VoiceEncoderConfig, source: str) -> None:
    """Put the arrays of `ve.safetensors` into `network`. Raises WeightsError naming what does not fit."""
    _load(network, arrays, dict(_voice_encoder(config)), source, _SIMILARITY)


def load_speaker(network: SpeakerEncoder, arrays: Arrays, config: SpeakerConfig, source: str) -> None:
    """Put the `speaker_encoder.` arrays of S3Gen's file into `network`. Raises WeightsError as the others do."""
    own = {
        name: array
        for name, array in _below(arrays, SPEAKER).items()
        if not (name.endswith(".num_batches_tracked") and array.shape == ())
    }
    _load(network, own, dict(_speaker(config)), f"{source}: {SPEAKER[:-1]}")


def load_tokenizer(network: SpeechTokenizer, arrays: Arrays, config: TokenizerConfig, source: str) -> None:
    """Put the `tokenizer.` arrays of S3Gen's file into `network`. Raises WeightsError as the others do."""
    own = _below(arrays, TOKENIZER)
    computed = {"_mel_filters": slaney_filters(16_000, 400, config.mels, 8000.0).T, "window": hann(400)}
    for name, wanted in computed.items():
        if name in own:
            found = np.array(own.pop(name).astype(mx.float32))
            if found.shape != wanted.shape or np.abs(found - wanted).max() > _COMPUTED * wanted.max():
                raise WeightsError(f"{source}: {TOKENIZER}{name} is not what this tokenizer computes")
    _load(network, own, dict(_tokenizer(config)), f"{source}: {TOKENIZER[:-1]}")


def _below(arrays: Arrays, prefix: str) -> dict[str, mx.array]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _wanted(table: Table) -> dict[str, Shape]:
    return {name: shape for entry in table.values() for name, shape in entry.parts.items()}


def _load(
    network: nn.Module, arrays: Arrays, table: Table, source: str, unread: Mapping[str, Shape] | None = None
) -> None:
    check_shapes(arrays, _wanted(table) | dict(unread or {}), source)
    ready = []
    for ours, entry in table.items():
        array = entry.make(*(arrays[name].astype(mx.float32) for name in entry.parts))
        mx.eval(array)
        ready.append((ours, array))
    places: dict[str, mx.array] = dict(tree_flatten(network.parameters()))
    check_shapes(dict(ready), {name: array.shape for name, array in places.items()}, source)
    network.update(tree_unflatten(ready))
    for _, module in network.named_modules():
        if hasattr(module, "lower"):
            module.lower()
    network.freeze()
    mx.eval(network.parameters())


Entries = Iterator[tuple[str, Source]]


def _same(array: mx.array) -> mx.array:
    return array


def _joined(*arrays: mx.array) -> mx.array:
    return mx.concatenate(list(arrays))


def _turned(array: mx.array) -> mx.array:
    """A convolution's [O, I, K] as [O, K, I]; its [O, I, F, T] as [O, T, F, I]."""
    return mx.contiguous(array.swapaxes(1, -1))


def _flat(array: mx.array) -> mx.array:
    """A convolution of one tap as a matrix."""
    return array.reshape(array.shape[0], -1)


def _plain(ours: str, name: str, shape: Shape, make: Make = _same, bias: bool = True) -> Entries:
    yield f"{ours}.weight", Source({f"{name}.weight": shape}, make)
    if bias:
        yield f"{ours}.bias", Source({f"{name}.bias": shape[:1]}, _same)


def _statistics(name: str, width: int, affine: bool = True) -> dict[str, Shape]:
    leaves = ("running_var", "weight", "running_mean", "bias") if affine else ("running_var", "running_mean")
    return {f"{name}.{leaf}": (width,) for leaf in leaves}


def _scale(variance: mx.array, weight: mx.array | None = None) -> mx.array:
    scale = mx.rsqrt(variance + _EPS)
    return scale if weight is None else scale * weight


def _shift(variance: mx.array, weight: mx.array | None, mean: mx.array, bias: mx.array | None = None) -> mx.array:
    shift = -mean * _scale(variance, weight)
    return shift if bias is None else shift + bias


def _affine(ours: str, name: str, width: int) -> Entries:
    """Batch normalization that is not folded into a product."""
    parts = _statistics(name, width)
    yield f"{ours}.scale", Source(dict(list(parts.items())[:2]), _scale)
    yield f"{ours}.shift", Source(parts, _shift)


def _folded(ours: str, name: str, shape: Shape, norm: str, make: Make, affine: bool = True) -> Entries:
    """A product without bias and the batch normalization after it."""
    parts = _statistics(norm, shape[0], affine)
    scale = dict(list(parts.items())[: 2 if affine else 1])

    def weight(array: mx.array, *statistics: mx.array) -> mx.array:
        return make(array * _scale(*statistics).reshape(-1, *[1] * (array.ndim - 1)))

    def bias(variance: mx.array, *rest: mx.array) -> mx.array:
        return _shift(variance, *rest) if affine else _shift(variance, None, *rest)

    yield f"{ours}.weight", Source({f"{name}.weight": shape} | scale, weight)
    yield f"{ours}.bias", Source(parts, bias)


def _voice_encoder(config: VoiceEncoderConfig) -> Entries:
    rows = 4 * config.hidden
    for k in range(config.layers):
        inputs = config.hidden if k else config.mels
        turn: Make = mx.transpose
        yield f"layers.{k}.wx", Source({f"lstm.weight_ih_l{k}": (rows, inputs)}, turn)
        yield f"layers.{k}.wh", Source({f"lstm.weight_hh_l{k}": (rows, config.hidden)}, turn)
        yield f"layers.{k}.bias", Source({f"lstm.bias_{side}_l{k}": (rows,) for side in ("ih", "hh")}, mx.add)
    yield from _plain("proj", "proj", (config.size, config.hidden))


def _speaker(config: SpeakerConfig) -> Entries:
    plane, at = (HEAD, HEAD, 3, 3), "head"
    yield from _folded("head.first", f"{at}.conv1", (HEAD, 1, 3, 3), f"{at}.bn1", _turned)
    for k in range(4):
        ours, name = f"head.blocks.{k}", f"{at}.layer{k // 2 + 1}.{k % 2}"
        yield from _folded(f"{ours}.first", f"{name}.conv1", plane, f"{name}.bn1", _turned)
        yield from _folded(f"{ours}.second", f"{name}.conv2", plane, f"{name}.bn2", _turned)
        if k % 2 == 0:
            point, theirs = (HEAD, HEAD, 1, 1), f"{name}.shortcut"
            yield from _folded(f"{ours}.shortcut", f"{theirs}.0", point, f"{theirs}.1", _turned)
    yield from _folded("head.last", f"{at}.conv2", plane, f"{at}.bn2", _turned)

    def norm(name: str) -> str:
        return f"xvector.{name}.batchnorm"

    inputs = HEAD * (config.mels // 8)
    yield from _folded("tdnn", "xvector.tdnn.linear", (config.width, inputs, 5), norm("tdnn.nonlinear"), _turned)
    width, inner = config.width, config.bottleneck * config.growth
    for b, count in enumerate(config.blocks):
        for k in range(count):
            ours, name = f"blocks.{b}.{k}", f"block{b + 1}.tdnnd{k + 1}"
            full, cam = f"xvector.{name}", f"xvector.{name}.cam_layer"
            yield from _affine(f"{ours}.before", norm(f"{name}.nonlinear1"), width)
            yield f"{ours}.reduce", Source({f"{full}.linear1.weight": (inner, width, 1)}, _flat)
            yield from _affine(f"{ours}.after", norm(f"{name}.nonlinear2"), inner)
            yield from _plain(f"{ours}.local", f"{cam}.linear_local", (config.growth, inner, 3), _turned, bias=False)
            yield from _plain(f"{ours}.context", f"{cam}.linear1", (inner // 2, inner, 1), _flat)
            yield from _plain(f"{ours}.gate", f"{cam}.linear2", (config.growth, inner // 2, 1), _flat)
            width += config.growth
        ours, name = f"transits.{b}", f"transit{b + 1}"
        yield from _affine(f"{ours}.before", norm(f"{name}.nonlinear"), width)
        yield from _plain(ours, f"xvector.{name}.linear", (width // 2, width, 1), _flat, bias=False)
        width //= 2
    yield from _affine("after", norm("out_nonlinear"), width)
    shape = (config.size, 2 * width, 1)
    yield from _folded("dense", "xvector.dense.linear", shape, norm("dense.nonlinear"), _flat, affine=False)


def _tokenizer(config: TokenizerConfig) -> Entries:
    width = config.width
    yield from _plain("conv1", "encoder.conv1", (width, config.mels, 3), _turned)
    yield from _plain("conv2", "encoder.conv2", (width, width, 3), _turned)
    for k in range(config.layers):
        ours, name = f"blocks.{k}", f"encoder.blocks.{k}"
        for norm, theirs in (("attention_norm", "attn_ln"), ("ffn_norm", "mlp_ln")):
            yield from _plain(f"{ours}.{norm}", f"{name}.{theirs}", (width,))
        own, attention = f"{ours}.attention", f"{name}.attn"
        weights = {f"{attention}.{part}.weight": (width, width) for part in ("query", "key", "value")}
        biases = {f"{attention}.{part}.bias": (width,) for part in ("query", "value")}
        yield f"{own}.qkv.weight", Source(weights, _joined)
        # Keys have no bias.
        yield f"{own}.qkv.bias", Source(biases, lambda q, v: _joined(q, mx.zeros_like(q), v))
        yield from _plain(f"{own}.memory", f"{attention}.fsmn_block", (width, 1, 31), _turned, bias=False)
        yield from _plain(f"{own}.out", f"{attention}.out", (width, width))
        yield from _plain(f"{ours}.fc1", f"{name}.mlp.0", (4 * width, width))
        yield from _plain(f"{ours}.fc2", f"{name}.mlp.2", (width, 4 * width))
    yield from _plain("project", "quantizer._codebook.project_down", (DIMENSIONS, width))
