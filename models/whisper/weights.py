"""From the arrays of a checkpoint to the network, strictly.

Three layouts are read, in any float type: OpenAI's `.pt`, whose names the network has; transformers'
WhisperForConditionalGeneration; and the MLX community's, with convolutions in MLX's order and without the encoder's
positions, which are computed, and perhaps quantized. A network of floats comes of all of them.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping

import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.checkpoint import check_shapes, read_arrays, read_torch_parts
from models.contract import WeightsError
from models.files import read_json
from models.layers.attention import sinusoids
from models.whisper.config import Quantization, WhisperConfig, load_config, load_quantization, read_dims
from models.whisper.network import Whisper

Heads = tuple[tuple[int, int], ...]  # layers of the decoder, and heads of them

_POSITIONS = "encoder.positional_embedding"
_CONVOLUTIONS = ("encoder.conv1.weight", "encoder.conv2.weight")
_TIED, _EMBEDDING = "proj_out.weight", "decoder.token_embedding.weight"
_ALIGNMENT = "alignment_heads"  # in the MLX community's files

# Parts of the hub's names -> parts of ours, in this order.
_HUB_PARTS = (
    (r"^model\.", ""),
    (r"\.layers\.", ".blocks."),
    (r"\bencoder_attn_layer_norm\b", "cross_attn_ln"),
    (r"\bself_attn_layer_norm\b", "attn_ln"),
    (r"\bfinal_layer_norm\b", "mlp_ln"),
    (r"\bencoder_attn\b", "cross_attn"),
    (r"\bself_attn\b", "attn"),
    (r"\b(q|k|v|out)_proj\b", lambda found: {"q": "query", "k": "key", "v": "value", "out": "out"}[found[1]]),
    (r"\bfc([12])\b", r"mlp\1"),
    (r"^encoder\.layer_norm\b", "encoder.ln_post"),
    (r"^decoder\.layer_norm\b", "decoder.ln"),
    (r"\bembed_tokens\b", "token_embedding"),
    (r"\bembed_positions\.weight$", "positional_embedding"),
    (r"\.mlp\.([02])\.", lambda found: f".mlp{int(found[1]) // 2 + 1}."),
)

# Heads of the cross-attention that follow the audio, from openai-whisper: a layers x heads array of bool.
_OFFICIAL_HEADS = {
    "tiny.en": "ABzY8J1N>@0{>%R00Bk>$p{7v037`oCl~+#00",
    "tiny": "ABzY8bu8Lr0{>%RKn9Fp%m@SkK7Kt=7ytkO",
    "base.en": "ABzY8;40c<0{>%RzzG;p*o+Vo09|#PsxSZm00",
    "base": "ABzY8KQ!870{>%RzyTQH3`Q^yNP!>##QT-<FaQ7m",
    "small.en": "ABzY8>?_)10{>%RpeA61k&I|OI3I$65C{;;pbCHh0B{qLQ;+}v00",
    "small": "ABzY8DmU6=0{>%Rpa?J`kvJ6qF(V^F86#Xh7JUGMK}P<N0000",
    "medium.en": "ABzY8usPae0{>%R7<zz_OvQ{)4kMa0BMw6u5rT}kRKX;$NfYBv00*Hl@qhsU00",
    "medium": "ABzY8B0Jh+0{>%R7}kK1fFL7w6%<-Pf*t^=N)Qr&0RR9",
    "large-v1": "ABzY8r9j$a0{>%R7#4sLmoOs{s)o3~84-RPdcFk!JR<kSfC2yj",
    "large-v2": "ABzY8zd+h!0{>%R7=D0pU<_bnWW*tkYAhobTNnu$jnkEkXqp)j;w1Tzk)UH3X%SZd&fFZ2fC2yj",
    "large-v3": "ABzY8gWO1E0{>%R7(9S+Kn!D~%ngiGaR?*L!iJG9p-nab0JQ=-{D1-g00",
    "large-v3-turbo": "ABzY8j^C+e0{>%RARaKHP%t(lGR*)0g!tONPyhe`",
}


def read_checkpoint(files: Mapping[str, str], name: str) -> tuple[WhisperConfig, dict[str, mx.array], Heads]:
    """Read the configuration, the arrays by the network's names, and the heads that follow the audio.

    Args:
        files: "weights"; "config", which is not read for OpenAI's `.pt`; the hub's "generation" config, if there is
            one.
        name: The model's, which tells the heads of OpenAI's models.

    Raises:
        WeightsMissingError: A file is missing.
        WeightsError: A file is not what it claims to be.
    """
    path = files["weights"]
    if not path.endswith(".pt"):
        config, arrays = load_config(files["config"]), read_arrays(path)
        quantization = load_quantization(files["config"])
        if quantization is not None:
            arrays = dequantized(arrays, quantization, path)
    else:
        dims, arrays = read_torch_parts(path, "dims", "model_state_dict")
        config = read_dims(dims, path)
    pairs = arrays.pop(_ALIGNMENT, None)
    arrays = rename(arrays, config)
    if pairs is not None:
        heads = tuple((int(layer), int(head)) for layer, head in np.array(pairs).reshape(-1, 2))
    else:
        heads = read_heads(files.get("generation"), name, config)
    if any(layer >= config.n_text_layer or head >= config.n_text_head or min(layer, head) < 0 for layer, head in heads):
        raise WeightsError(f"{path}: alignment heads {heads} are not of this decoder")
    return config, arrays, heads


def read_heads(generation: str | None, name: str, config: WhisperConfig) -> Heads:
    """Return the heads of the hub's `generation` config, those of the official model `name`, or the upper half's."""
    if generation is not None:
        try:
            values = read_json(generation).get("alignment_heads")
            if values:
                return tuple((int(layer), int(head)) for layer, head in values)
        except (OSError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise WeightsError(f"{generation}: no alignment heads: {error!r}") from error
    official = _OFFICIAL_HEADS.get(name.removeprefix("whisper-"))
    if official is not None:
        mask = np.frombuffer(gzip.decompress(base64.b85decode(official)), bool)
        if mask.size == config.n_text_layer * config.n_text_head:
            return tuple((int(at) // config.n_text_head, int(at) % config.n_text_head) for at in np.flatnonzero(mask))
    return tuple(
        (layer, head)
        for layer in range(config.n_text_layer // 2, config.n_text_layer)
        for head in range(config.n_text_head)
    )


def dequantized(arrays: Mapping[str, mx.array], layout: Quantization, source: str) -> dict[str, mx.array]:
    """Return arrays with each `<name>.weight` that has `<name>.scales` and `<name>.biases` as floats.

    Raises WeightsError naming what does not fit together.
    """
    found = dict(arrays)
    for name in [name for name in arrays if name.endswith(".scales")]:
        base = name.removesuffix(".scales")
        weight, scales, offsets = (found.pop(f"{base}.{part}", None) for part in ("weight", "scales", "biases"))
        if weight is None or scales is None or offsets is None:
            raise WeightsError(f"{source}: {base} must have a weight, scales and biases")
        try:
            found[f"{base}.weight"] = mx.dequantize(
                weight, scales, offsets, group_size=layout.group_size, bits=layout.bits
            )
        except ValueError as error:
            raise WeightsError(f"{source}: {base} is not of {layout.bits} bits: {error}") from error
    return found


def rename(arrays: Mapping[str, mx.array], config: WhisperConfig) -> dict[str, mx.array]:
    """Return the arrays of any of the three layouts by the network's names, convolutions in MLX's order.

    Raises WeightsError for an output projection of its own.
    """
    found = {}
    for key, array in arrays.items():
        name = key
        for pattern, ours in _HUB_PARTS:
            name = re.sub(pattern, ours, name)
        found[name] = array
    tied = found.pop(_TIED, None)
    if tied is not None and not bool(mx.array_equal(tied, found.get(_EMBEDDING, mx.zeros(())))):
        raise WeightsError(f"{_TIED} differs from {_EMBEDDING}: only tied embeddings are read")
    if _POSITIONS not in found:
        found[_POSITIONS] = mx.array(sinusoids(config.n_audio_ctx, config.n_audio_state))
    for name, inputs in zip(_CONVOLUTIONS, (config.n_mels, config.n_audio_state), strict=True):
        weight = found.get(name)
        if weight is not None and weight.shape[1:] == (inputs, 3):
            found[name] = weight.swapaxes(1, 2)
    return found


def load_weights(network: Whisper, arrays: Mapping[str, mx.array], source: str, dtype: mx.Dtype = mx.float32) -> None:
    """Put `arrays`, by the network's names, into `network`, as `dtype`; `Whisper.lower` evaluates them.

    Raises WeightsError naming what is missing, extra or misshapen.
    """
    check_shapes(arrays, shapes(network), source)
    network.set_dtype(dtype)  # the zeros of what no checkpoint has, too: they would widen every product
    network.update(tree_unflatten([(name, array.astype(dtype)) for name, array in arrays.items()]))
    network.freeze()


def shapes(network: Whisper) -> dict[str, tuple[int, ...]]:
    """Return every array of a checkpoint for `network`, not lowered, and its shape."""
    found = dict(tree_flatten(network.parameters()))
    return {name: array.shape for name, array in found.items() if not name.endswith(".key.bias")}
