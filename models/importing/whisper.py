"""From a Whisper of CTranslate2 (faster-whisper's model.bin) to the files of the hub's layout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from models.contract import WeightsError
from models.whisper.config import HUB_KEYS, MULTILINGUAL

Array = npt.NDArray[Any]

# Names of CTranslate2 -> the hub's, in this order. What is joined in one array was split before.
_NAMES: Final = (
    (r"/(gamma|beta)$", lambda found: "/weight" if found[1] == "gamma" else "/bias"),
    (r"/layer_(\d+)/", r"/layers/\1/"),
    (r"/self_attention/layer_norm/", "/self_attn_layer_norm/"),
    (r"/attention/layer_norm/", "/encoder_attn_layer_norm/"),
    (r"/ffn/layer_norm/", "/final_layer_norm/"),
    (r"/ffn/linear_0/", "/fc1/"),
    (r"/ffn/linear_1/", "/fc2/"),
    (r"/self_attention/", "/self_attn/"),
    (r"/attention/", "/encoder_attn/"),
    (r"/position_encodings/encodings$", "/embed_positions/weight"),
    (r"/embeddings/", "/embed_tokens/"),
)
_JOINED: Final = re.compile(r"(.*/(self_attention|attention))/linear_(\d)/(weight|bias)")
# Projections that one array of an attention holds, by the attention and the number of the layer.
_PROJECTIONS: Final = {
    ("self_attention", "0"): ("q_proj", "k_proj", "v_proj"),
    ("self_attention", "1"): ("out_proj",),
    ("attention", "0"): ("q_proj",),
    ("attention", "1"): ("k_proj", "v_proj"),
    ("attention", "2"): ("out_proj",),
}
_OUTPUT: Final = "decoder/projection/weight"
_EMBEDDINGS: Final = "decoder/embeddings/weight"
# Variables that are no weights.
_OPTIONS: Final = re.compile(
    r"(en|de)coder/(num_heads|pre_norm|activation|alibi|alignment\w*|scale_\w+|start_from_\w+|\w+_only)"
)


def read_export(variables: Mapping[str, Array], source: str) -> dict[str, Array]:
    """Return the arrays by the hub's names. Raises WeightsError, which names `source`, for another form of Whisper.

    Whether the arrays are those of a whole network is not checked: the loader does that.
    """
    found: dict[str, Array] = {}
    for name, array in variables.items():
        if name == _OUTPUT and np.array_equal(array, variables.get(_EMBEDDINGS, ())):
            continue  # the hub's layout has it once
        if array.ndim:
            found |= dict(_named(name, array, source))
        elif not _OPTIONS.fullmatch(name):
            raise WeightsError(f"{source}: '{name[:80]}' is no variable of Whisper")
    return found


def _named(name: str, array: Array, source: str) -> Iterator[tuple[str, Array]]:
    if match := _JOINED.fullmatch(name):
        block, attention, number, kind = match.groups()
        parts = _PROJECTIONS.get((attention, number), ())
        if not parts or len(array) % len(parts):
            raise WeightsError(f"{source}: '{name[:80]}' is no variable of Whisper")
        for part, values in zip(parts, np.split(array, len(parts)), strict=True):
            if (part, kind) != ("k_proj", "bias"):
                yield _hub_name(f"{block}/{part}/{kind}"), values
            elif values.any():
                raise WeightsError(f"{source}: the keys of '{block[:80]}' have a bias, which Whisper's have not")
    else:
        yield _hub_name(name), array


def _hub_name(name: str) -> str:
    for pattern, replacement in _NAMES:
        name = re.sub(pattern, replacement, name)
    return f"model.{name.replace('/', '.')}"


def dims(arrays: Mapping[str, Array], variables: Mapping[str, Array]) -> dict[str, int]:
    """Return openai-whisper's dims for arrays by the hub's names. Raises WeightsError if what tells one is missing."""
    found: dict[str, int] = {}
    try:
        found["n_vocab"], found["n_text_state"] = arrays["model.decoder.embed_tokens.weight"].shape
        found["n_audio_state"], found["n_mels"] = arrays["model.encoder.conv1.weight"].shape[:2]
        for side, kind in (("encoder", "audio"), ("decoder", "text")):
            layers = {name.split(".")[3] for name in arrays if name.startswith(f"model.{side}.layers.")}
            found[f"n_{kind}_ctx"] = len(arrays[f"model.{side}.embed_positions.weight"])
            found[f"n_{kind}_head"], found[f"n_{kind}_layer"] = int(variables[f"{side}/num_heads"]), len(layers)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise WeightsError(f"the model of CTranslate2 does not tell its sizes: {error}") from None
    return found


def hub_config(dims: Mapping[str, int]) -> dict[str, object]:
    """Return the hub's config.json for openai-whisper's dims."""
    end = 50_257 if dims["n_vocab"] >= MULTILINGUAL else 50_256
    width = dims["n_text_state"]
    return {key: dims[name] for name, key in HUB_KEYS.items()} | {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "activation_function": "gelu",
        "is_encoder_decoder": True,
        "scale_embedding": False,
        "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width,
        "bos_token_id": end,
        "eos_token_id": end,
        "decoder_start_token_id": end + 1,
    }
