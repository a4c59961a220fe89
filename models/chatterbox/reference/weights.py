"""Loading of the three networks that hear a recording from the official files, strict.

`ve.safetensors` (or `ve.pt`) holds the voice encoder; `s3gen.safetensors` (or `.pt`) the speaker encoder and the speech
tokenizer, under `speaker_encoder.` and `tokenizer.`, beside S3Gen's own arrays. Files differ in the buffers they carry:
the reference reads the English files leniently, Turbo's strictly. Counters of batches, which only training reads, may
be there. So may the tokenizer's window and filters; they must then equal the computed ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from mlx import nn

from models.backend import mx
from models.chatterbox.config import ChatterboxConfig
from models.chatterbox.reference.speaker import SpeakerEncoder
from models.chatterbox.reference.tokenizer import SpeechTokenizer
from models.chatterbox.reference.voice_encoder import VoiceEncoder
from models.chatterbox.weights import (
    Arrays,
    ArraySource,
    Rule,
    Shape,
    channels_last,
    joined,
    load_arrays,
    official_shapes,
    pointwise,
    sources,
    transposed,
    turn_taps,
)
from models.checkpoint import check_shapes
from models.contract import WeightsError
from models.layers.conv import Conv1d
from models.layers.linear import Linear
from models.layers.mel import hann, slaney_filters

SPEAKER, TOKENIZER = "speaker_encoder.", "tokenizer."  # prefixes in S3Gen's file
_EPS = 1e-5  # of batch normalization
_COMPUTED = 1e-3  # largest difference between a file's buffer and the computed one, over the largest value

# Parameters of a similarity that only training computes; always there.
_SIMILARITY: dict[str, Shape] = {"similarity_weight": (1,), "similarity_bias": (1,)}


def shapes(config: ChatterboxConfig) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """Return all arrays of the voice encoder's file, and those of the other networks in S3Gen's, with their shapes."""
    voice = official_shapes(_voice_encoder(VoiceEncoder(config.voice_encoder)))
    speaker = official_shapes(_speaker(SpeakerEncoder(config.speaker)))
    tokenizer = official_shapes(_tokenizer(SpeechTokenizer(config.tokenizer)))
    s3gen = {f"{SPEAKER}{name}": shape for name, shape in speaker.items()}
    s3gen |= {f"{TOKENIZER}{name}": shape for name, shape in tokenizer.items()}
    return voice | _SIMILARITY, s3gen


def load_voice_encoder(network: VoiceEncoder, arrays: Arrays, source: str) -> None:
    """Put the arrays of `ve.safetensors` into `network`. Raises WeightsError naming the arrays that do not fit."""
    found = _voice_encoder(network)
    check_shapes(arrays, official_shapes(found) | _SIMILARITY, source)
    _load(network, {name: array for name, array in arrays.items() if name not in _SIMILARITY}, found, source)


def load_speaker(network: SpeakerEncoder, arrays: Arrays, source: str) -> None:
    """Put the `speaker_encoder.` arrays of S3Gen's file into `network`. Raises WeightsError as the others do."""
    own = {
        name: array
        for name, array in _below(arrays, SPEAKER).items()
        if not (name.endswith(".num_batches_tracked") and array.shape == ())
    }
    _load(network, own, _speaker(network), f"{source}: {SPEAKER[:-1]}")


def load_tokenizer(network: SpeechTokenizer, arrays: Arrays, source: str) -> None:
    """Put the `tokenizer.` arrays of S3Gen's file into `network`. Raises WeightsError as the others do."""
    own = _below(arrays, TOKENIZER)
    computed = {"_mel_filters": slaney_filters(16_000, 400, network.mels, 8000.0).T, "window": hann(400)}
    for name, wanted in computed.items():
        if name in own:
            found = np.array(own.pop(name).astype(mx.float32))
            if found.shape != wanted.shape or np.abs(found - wanted).max() > _COMPUTED * wanted.max():
                raise WeightsError(f"{source}: {TOKENIZER}{name} is not what this tokenizer computes")
    _load(network, own, _tokenizer(network), f"{source}: {TOKENIZER[:-1]}")


def _below(arrays: Arrays, prefix: str) -> dict[str, mx.array]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _load(network: nn.Module, arrays: Arrays, found: Mapping[str, ArraySource], source: str) -> None:
    load_arrays(network, arrays, found, source)
    for _, module in network.named_modules():
        if isinstance(module, (Conv1d, Linear)):
            module.exact = True  # steep gates and means over time multiply what is rounded before
        if hasattr(module, "lower"):
            module.lower()
    mx.eval(network.parameters())


def _voice_encoder(network: VoiceEncoder) -> dict[str, ArraySource]:
    def biases(match: re.Match[str], shape: Shape) -> ArraySource:
        return ArraySource({f"lstm.bias_{side}_l{match[1]}": shape for side in ("ih", "hh")}, mx.add)

    rules = (
        transposed(r"layers\.(\d+)\.wx", r"lstm.weight_ih_l\1"),
        transposed(r"layers\.(\d+)\.wh", r"lstm.weight_hh_l\1"),
        Rule(r"layers\.(\d+)\.bias", biases),
    )
    return sources(network, rules)


def _speaker(network: SpeakerEncoder) -> dict[str, ArraySource]:
    renames = (
        (r"^(tdnn|dense)\.", r"xvector.\1.linear."),
        (r"^out_nonlinear", "xvector.out_nonlinear"),
        (r"^blocks\.(\d+)\.(\d+)", lambda match: f"xvector.block{int(match[1]) + 1}.tdnnd{int(match[2]) + 1}"),
        (r"^transits\.(\d+)", lambda match: f"xvector.transit{int(match[1]) + 1}"),
    )
    rules = (
        _affine(r".*nonlinear\d?"),
        # Products with the normalization after them.
        *_folded(r"(head.*)\.conv(\d)", r"\1.conv\2", r"\1.bn\2"),
        *_folded(r"(head.*\.shortcut)", r"\1.0", r"\1.1"),
        *_folded(r"(xvector\.tdnn)\.linear", r"\1.linear", r"\1.nonlinear.batchnorm"),
        *_folded(r"(xvector\.dense)\.linear", r"\1.linear", r"\1.nonlinear.batchnorm", affine=False),
        pointwise(r".*\.linear\d?\.weight"),
        channels_last(r".*\.linear_local\.weight"),
    )
    return sources(network, rules, renames)


def _tokenizer(network: SpeechTokenizer) -> dict[str, ArraySource]:
    def bias(match: re.Match[str], shape: Shape) -> ArraySource:
        parts = {f"{match[1]}.{part}.bias": (shape[0] // 3,) for part in ("query", "value")}
        # Keys have no bias.
        return ArraySource(parts, lambda q, v: mx.concatenate([q, mx.zeros_like(q), v]))

    renames = (
        (r"^(conv|blocks)", r"encoder.\1"),
        (r"^project_down", "quantizer._codebook.project_down"),
        (r"\.fc1", ".mlp.0"),
        (r"\.fc2", ".mlp.2"),
    )
    rules = (
        joined(r"(.*attn)\.qkv\.weight", *(rf"\1.{part}.weight" for part in ("query", "key", "value"))),
        Rule(r"(.*attn)\.qkv\.bias", bias),
        channels_last(r".*(conv\d|fsmn_block)\.weight"),
    )
    return sources(network, rules, renames)


def _statistics(norm: str, width: int, affine: bool = True) -> dict[str, Shape]:
    """Return the arrays of a batch normalization, in the order that `_scale` and `_shift` take."""
    leaves = ("running_var", "weight", "running_mean", "bias") if affine else ("running_var", "running_mean")
    return {f"{norm}.{leaf}": (width,) for leaf in leaves}


def _scale(variance: mx.array, weight: mx.array | None = None) -> mx.array:
    scale = mx.rsqrt(variance + _EPS)
    return scale if weight is None else scale * weight


def _shift(variance: mx.array, weight: mx.array | None, mean: mx.array, bias: mx.array | None = None) -> mx.array:
    shift = -mean * _scale(variance, weight)
    return shift if bias is None else shift + bias


def _affine(pattern: str) -> Rule:
    """Return the rule of a batch normalization that is not folded into a product: its scale and shift."""

    def source(match: re.Match[str], shape: Shape) -> ArraySource:
        parts = _statistics(f"{match[1]}.batchnorm", shape[0])
        return ArraySource(dict(list(parts.items())[:2]), _scale) if match[2] == "scale" else ArraySource(parts, _shift)

    return Rule(rf"({pattern})\.(scale|shift)", source)


def _folded(pattern: str, product: str, norm: str, affine: bool = True) -> tuple[Rule, Rule]:
    """Return the rules of a product without bias and the batch normalization after it, both templates."""

    def weight(match: re.Match[str], shape: Shape) -> ArraySource:
        # A matrix is a convolution of one tap there.
        official = (*shape, 1) if len(shape) == 2 else (shape[0], *shape[:0:-1])
        statistics = list(_statistics(match.expand(norm), shape[0], affine).items())[: 2 if affine else 1]

        def make(array: mx.array, *statistics: mx.array) -> mx.array:
            array = array * _scale(*statistics).reshape(-1, *[1] * (array.ndim - 1))
            return array[..., 0] if len(shape) == 2 else turn_taps(array)

        return ArraySource({f"{match.expand(product)}.weight": official} | dict(statistics), make)

    def bias(match: re.Match[str], shape: Shape) -> ArraySource:
        def make(variance: mx.array, *rest: mx.array) -> mx.array:
            return _shift(variance, *rest) if affine else _shift(variance, None, *rest)

        return ArraySource(_statistics(match.expand(norm), shape[0], affine), make)

    return Rule(rf"{pattern}\.weight", weight), Rule(rf"{pattern}\.bias", bias)
