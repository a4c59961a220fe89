"""Architecture of a Whisper checkpoint: OpenAI's `dims`, and config.json of the hub or of the MLX community."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from models.contract import WeightsError
from models.files import build_config, check_values, read_config

MULTILINGUAL = 51865  # least size of a vocabulary with languages

# Field of `WhisperConfig` -> key of transformers' WhisperConfig.
HUB_KEYS = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}


@dataclass(frozen=True, slots=True)
class WhisperConfig:
    """Widths, depths and lengths, by the names of openai-whisper's ModelDimensions.

    `n_audio_ctx` positions of 20 ms are the longest audio, `n_text_ctx` tokens the longest text with its prompt.
    `n_ctc` counts the outputs of a CTC head on the encoder, the blank last; 0: there is none, as in OpenAI's models.
    """

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int
    n_ctc: int = 0

    @property
    def multilingual(self) -> bool:
        """Return whether the model knows more languages than English."""
        return self.n_vocab >= MULTILINGUAL

    @property
    def window(self) -> int:
        """Return the mel frames of the longest audio; the second convolution halves them."""
        return 2 * self.n_audio_ctx


@dataclass(frozen=True, slots=True)
class Quantization:
    """Layout of quantized weights: numbers of `bits` with a scale and an offset for each `group_size` of inputs."""

    group_size: int
    bits: int


# Sizes of OpenAI's models: width, layers of the decoder and mel bands.
_OFFICIAL = {
    (384, 4, 80): "tiny", (512, 6, 80): "base", (768, 12, 80): "small", (1024, 24, 80): "medium",
    (1280, 32, 128): "large-v3", (1280, 4, 128): "large-v3-turbo",
}  # fmt: skip


def official_name(config: WhisperConfig) -> str | None:
    """Return the name of OpenAI's model of these sizes, such as base.en; None: there is none that the catalog has."""
    name = _OFFICIAL.get((config.n_audio_state, config.n_text_layer, config.n_mels))
    return name if name is None or config.multilingual else f"{name}.en"


def load_config(path: str | Path) -> WhisperConfig:
    """Read config.json, of either layout. Raises WeightsError where a key is missing or the network is not Whisper's.

    Keys that inference does not read (dropout, suppressed tokens, versions) differ between releases and are ignored.
    """
    values = read_config(path, "Whisper")
    if "n_mels" in values:
        return read_dims(values, str(path))
    required = {"model_type": "whisper", "activation_function": "gelu", "scale_embedding": False}
    width = values.get("d_model")
    if isinstance(width, int):
        required |= {"encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width}
    check_values(values, required, path)
    return read_dims({name: values[key] for name, key in HUB_KEYS.items() if key in values}, str(path))


def load_quantization(path: str | Path) -> Quantization | None:
    """Read config.json's `quantization`, of the MLX community's layout; None: the weights are floating point.

    Raises WeightsError where it is not one that MLX has.
    """
    found = read_config(path, "Whisper").get("quantization")
    if found is None:
        return None
    values = found if isinstance(found, dict) else {}
    group_size, bits, mode = values.get("group_size"), values.get("bits"), values.get("mode", "affine")
    if group_size not in (32, 64, 128) or bits not in (2, 3, 4, 5, 6, 8) or mode != "affine":
        raise WeightsError(f"{path}: quantization must be affine, of 2 to 8 bits in groups of 32 to 128, not {found!r}")
    return Quantization(group_size, bits)


def read_dims(values: Mapping[str, Any], source: str) -> WhisperConfig:
    """Return the configuration of openai-whisper's `dims`. Raises WeightsError naming `source`."""
    known = {field.name: values[field.name] for field in fields(WhisperConfig) if field.name in values}
    for key, value in known.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < (key != "n_ctc"):
            raise WeightsError(f"{source}: {key} must be a positive whole number, not {value!r}")
    config = build_config(WhisperConfig, known, source)
    if config.n_audio_state != config.n_text_state:
        raise WeightsError(f"{source}: encoder and decoder must have one width")
    for side, heads in (("audio", config.n_audio_head), ("text", config.n_text_head)):
        if config.n_text_state % heads:
            raise WeightsError(f"{source}: width {config.n_text_state} is not a multiple of n_{side}_head {heads}")
    return config
