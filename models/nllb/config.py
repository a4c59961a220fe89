"""Architecture of an NLLB (M2M100) checkpoint, read from its config.json."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from models.contract import WeightsError
from models.files import build_config, check_values, read_config


@dataclass(frozen=True, slots=True)
class NllbConfig:
    """Widths, depths and special tokens, by the names of transformers' M2M100Config."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    max_position_embeddings: int = 1024
    scale_embedding: bool = True
    bos_token_id: int = 0
    pad_token_id: int = 1
    eos_token_id: int = 2
    unk_token_id: int = 3
    decoder_start_token_id: int = 2

    @property
    def embedding_scale(self) -> float:
        """Return the factor on token embeddings: sqrt(d_model), 32 in NLLB-600M."""
        return self.d_model**0.5 if self.scale_embedding else 1.0


def load_config(path: str | Path) -> NllbConfig:
    """Read `path`. Raises WeightsError where a key is missing or the network described is not NLLB's.

    Keys that inference does not read (dropout, initial scales, versions) differ between releases and are ignored.
    """
    values = read_config(path, "NLLB")
    check_values(values, {"model_type": "m2m_100", "activation_function": "relu", "tie_word_embeddings": True}, path)
    known = {field.name: values[field.name] for field in fields(NllbConfig) if values.get(field.name) is not None}
    for key, value in known.items():
        if not isinstance(value, bool if key == "scale_embedding" else int) or value < 0:
            raise WeightsError(f"{path}: {key} must be a whole number, not {value!r}")
    config = build_config(NllbConfig, known, path)
    for side, heads in (("encoder", config.encoder_attention_heads), ("decoder", config.decoder_attention_heads)):
        if heads < 1 or config.d_model % heads:
            raise WeightsError(f"{path}: d_model {config.d_model} is not a multiple of {side}_attention_heads {heads}")
    return config
