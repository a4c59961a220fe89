"""Architecture of Chatterbox: English (Llama, ten guided flow steps) and Turbo (GPT-2, two mean-flow steps).

The official checkpoints carry no configuration: the variant fixes the architecture. A `config.json` beside the weights
may name the variant and change numbers, as small models for tests do.

Sources: resemble-ai/chatterbox 0.1.7, models/t3/llama_configs.py, models/t3/modules/t3_config.py,
models/s3gen/s3gen.py, models/voice_encoder/config.py, s3tokenizer 0.3.0 model_v2.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from models.contract import WeightsError
from models.files import read_config

Variant = Literal["chatterbox", "chatterbox-turbo"]

SAMPLE_RATE = 24_000  # of S3Gen's speech and mel frames
REFERENCE_RATE = 16_000  # input of the speech tokenizer and both speaker encoders
TOKEN_RATE = 25  # speech tokens a second
SAMPLES_PER_TOKEN = SAMPLE_RATE // TOKEN_RATE  # 960
FRAMES_PER_TOKEN = 2  # mel frames, 480 samples each
SPEECH_TOKENS = 6561  # 3^8; larger ids mean begin and end, and are not spoken
SILENCE_TOKEN = 4299


@dataclass(frozen=True, slots=True)
class T3Config:
    """T3, the token model. `prompt_tokens` of a recording condition it; `guided` models were trained for guidance."""

    backbone: Literal["llama", "gpt2"] = "llama"
    hidden: int = 1024
    layers: int = 30
    heads: int = 16
    inner: int = 4096
    norm_eps: float = 1e-5
    rope_theta: float = 500_000.0
    rope_factor: float = 8.0
    rope_low: float = 1.0
    rope_high: float = 4.0
    rope_original: int = 8192
    positions: int = 8196  # of GPT-2's learned table
    text_vocabulary: int = 704
    speech_vocabulary: int = 8194
    start_text: int = 255
    stop_text: int = 0
    start_speech: int = 6561
    stop_speech: int = 6562
    max_text: int = 2048
    max_speech: int = 4096
    speaker: int = 256
    prompt_tokens: int = 150
    perceiver: bool = True
    perceiver_queries: int = 32
    perceiver_heads: int = 4
    emotion: bool = True
    learned_positions: bool = True
    head_bias: bool = False
    guided: bool = True


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """S3Gen's conformer: `layers` before upsampling by two, `up_layers` after."""

    width: int = 512
    heads: int = 8
    inner: int = 2048
    layers: int = 6
    up_layers: int = 4
    lookahead: int = 3  # tokens


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """U-Net of the flow-matching decoder. With `mean_flow` it knows both ends of a step, and needs two steps only."""

    width: int = 256
    head_size: int = 64
    heads: int = 8
    blocks: int = 4
    middle: int = 12
    steps: int = 10
    guidance: float = 0.7
    mean_flow: bool = False


@dataclass(frozen=True, slots=True)
class VocoderConfig:
    """HiFT: convolutions that upsample mel frames, an excitation from the predicted pitch, a short inverse STFT."""

    width: int = 512
    rates: tuple[int, ...] = (8, 5, 3)
    kernels: tuple[int, ...] = (16, 11, 7)
    resblock_kernels: tuple[int, ...] = (3, 7, 11)
    resblock_dilations: tuple[int, ...] = (1, 3, 5)
    source_kernels: tuple[int, ...] = (7, 7, 11)
    f0_width: int = 512
    f0_layers: int = 5
    harmonics: int = 8
    n_fft: int = 16
    hop: int = 4


@dataclass(frozen=True, slots=True)
class TokenizerConfig:
    """S3TokenizerV2: log-mel frames of 16 kHz speech to tokens."""

    mels: int = 128
    width: int = 1280
    heads: int = 20
    layers: int = 6


@dataclass(frozen=True, slots=True)
class SpeakerConfig:
    """CAM++: Kaldi filterbanks of 16 kHz speech to a speaker vector for S3Gen."""

    mels: int = 80
    size: int = 192
    growth: int = 32
    bottleneck: int = 4
    width: int = 128
    blocks: tuple[int, ...] = (12, 24, 16)


@dataclass(frozen=True, slots=True)
class VoiceEncoderConfig:
    """LSTM that makes T3's speaker vector."""

    mels: int = 40
    hidden: int = 256
    layers: int = 3
    size: int = 256


@dataclass(frozen=True, slots=True)
class ChatterboxConfig:
    """A whole checkpoint. `mels` are S3Gen's."""

    variant: Variant = "chatterbox"
    mels: int = 80
    t3: T3Config = field(default_factory=T3Config)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    vocoder: VocoderConfig = field(default_factory=VocoderConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    speaker: SpeakerConfig = field(default_factory=SpeakerConfig)
    voice_encoder: VoiceEncoderConfig = field(default_factory=VoiceEncoderConfig)


ENGLISH = ChatterboxConfig()
TURBO = ChatterboxConfig(
    variant="chatterbox-turbo",
    t3=T3Config(
        backbone="gpt2",
        layers=24,
        text_vocabulary=50276,
        speech_vocabulary=6563,
        prompt_tokens=375,
        perceiver=False,
        emotion=False,
        learned_positions=False,
        head_bias=True,
        guided=False,
    ),
    flow=FlowConfig(steps=2, guidance=0.0, mean_flow=True),
)
VARIANTS: dict[Variant, ChatterboxConfig] = {"chatterbox": ENGLISH, "chatterbox-turbo": TURBO}


def load_config(path: str | Path | None, variant: Variant) -> ChatterboxConfig:
    """Return the architecture of `variant`, with the numbers that the JSON file at `path` changes, if there is one.

    Raises WeightsError naming an unknown field, a value of the wrong type, or another variant than `variant`.
    """
    base = VARIANTS[variant]
    if path is None:
        return base
    values = read_config(path, "Chatterbox")
    if values.get("variant", variant) != variant:
        raise WeightsError(f"{path}: the checkpoint is {values['variant']!r}, not {variant!r}")
    replaced: ChatterboxConfig = _replaced(base, values, str(path))
    return replaced


def _replaced(base: Any, values: Mapping[str, Any], source: str) -> Any:
    known = {each.name: getattr(base, each.name) for each in fields(base)}
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise WeightsError(f"{source}: unknown field {name!r}; known are {', '.join(known)}")
        old = known[name]
        if is_dataclass(old):
            if not isinstance(value, dict):
                raise WeightsError(f"{source}: {name} must be an object")
            changed[name] = _replaced(old, value, f"{source}: {name}")
        elif isinstance(old, tuple):
            if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
                raise WeightsError(f"{source}: {name} must be a list of whole numbers")
            changed[name] = tuple(value)
        elif isinstance(old, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
            changed[name] = float(value)
        elif type(value) is type(old):
            changed[name] = value
        else:
            raise WeightsError(f"{source}: {name} must be a {type(old).__name__}, not {value!r}")
    return replace(base, **changed)
