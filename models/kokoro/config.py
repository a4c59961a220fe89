"""Architecture of a Kokoro checkpoint, read from its config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.contract import WeightsError
from models.files import build_config, read_json

SAMPLE_RATE = 24_000
SAMPLES_PER_FRAME = 600  # one duration unit: 25 ms


@dataclass(frozen=True, slots=True)
class AlbertConfig:
    """PL-BERT: an ALBERT whose one layer is applied `num_hidden_layers` times."""

    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    num_hidden_layers: int
    embedding_size: int = 128


@dataclass(frozen=True, slots=True)
class IstftNetConfig:
    """Widths of the generator: upsampling, residual blocks of several kernels, and the final iSTFT."""

    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    upsample_initial_channel: int
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilation_sizes: tuple[tuple[int, ...], ...]
    gen_istft_n_fft: int
    gen_istft_hop_size: int

    @property
    def samples_per_step(self) -> int:
        """Return the audio samples per F0 value (half a frame): 300 in the official checkpoint."""
        return math.prod(self.upsample_rates) * self.gen_istft_hop_size


@dataclass(frozen=True, slots=True)
class KokoroConfig:
    """Widths of the whole network, its symbols, languages and voices.

    `languages` are the BCP-47 tags that a checkpoint declares, the usual one first. Empty stands for all languages of
    Kokoro-82M. `voices` holds the declared properties of a voice, by name: `gender` ("female" or "male").

    `decoder_dim`, `residual_dim` and `text_encoder_layers` are constants in the reference package (1024, 64 and
    n_layer). Here they are fields, so that smaller checkpoints run by the same code.
    """

    hidden_dim: int
    style_dim: int
    n_layer: int
    max_dur: int
    n_token: int
    text_encoder_kernel_size: int
    plbert: AlbertConfig
    istftnet: IstftNetConfig
    vocab: dict[str, int]
    decoder_dim: int = 1024
    residual_dim: int = 64
    text_encoder_layers: int = 0
    languages: tuple[str, ...] = ()
    voices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def max_phonemes(self) -> int:
        """Return the positions less the two boundary tokens: 510 in the official checkpoint."""
        return self.plbert.max_position_embeddings - 2


# Keys of the official file that only training reads.
_UNUSED = {"dim_in", "dropout", "max_conv_dim", "multispeaker", "n_mels"}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _build(cls: type, values: dict[str, Any], where: str, ignore: set[str]) -> Any:
    fields = cls.__dataclass_fields__  # type: ignore[attr-defined]
    known = {key: _tuples(value) for key, value in values.items() if key in fields}
    extra = sorted(set(values) - set(fields) - ignore)
    if extra:
        raise WeightsError(f"{where}: unknown keys {', '.join(extra)}")
    return build_config(cls, known, where)


def load_config(path: str | Path) -> KokoroConfig:
    """Read `path`. Raises WeightsError where a key is missing, unknown, or the file is not JSON."""
    try:
        values = read_json(path)
        plbert, istftnet = dict(values["plbert"]), dict(values["istftnet"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{path}: not a Kokoro configuration: {error!r}") from error
    values["plbert"] = _build(AlbertConfig, plbert, f"{path}: plbert", {"dropout"})
    values["istftnet"] = _build(IstftNetConfig, istftnet, f"{path}: istftnet", set())
    values.setdefault("text_encoder_layers", values.get("n_layer", 0))
    config: KokoroConfig = _build(KokoroConfig, values, str(path), _UNUSED)
    _check_declared(config, path)
    return config


def _check_declared(config: KokoroConfig, path: str | Path) -> None:
    if not (isinstance(config.languages, tuple) and all(isinstance(tag, str) for tag in config.languages)):
        raise WeightsError(f"{path}: languages is not a list of tags")
    voices = config.voices
    if not isinstance(voices, dict) or not all(isinstance(declared, dict) for declared in voices.values()):
        raise WeightsError(f"{path}: voices is not an object of objects")
    for name, declared in voices.items():
        if set(declared) - {"gender"} or declared.get("gender", "female") not in ("female", "male"):
            raise WeightsError(f"{path}: voice {name} declares {declared}; a gender, female or male, is all it may")
