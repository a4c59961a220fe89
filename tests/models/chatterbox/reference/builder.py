"""Small networks, random arrays in the official names, and something to listen to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from models.backend import mx
from models.chatterbox.config import (
    ChatterboxConfig,
    SpeakerConfig,
    T3Config,
    TokenizerConfig,
    Variant,
    VoiceEncoderConfig,
)
from models.chatterbox.reference.conditioning import ReferenceEncoder
from models.chatterbox.reference.weights import shapes

Arrays = dict[str, np.ndarray]

# The reference fixes the size of the tokenizer's heads at 64, and how many layers CAM++ has.
SMALL: dict[str, object] = {
    "tokenizer": TokenizerConfig(width=64, heads=1, layers=2),
    "speaker": SpeakerConfig(growth=4, bottleneck=2, width=8, size=24),
    "voice_encoder": VoiceEncoderConfig(hidden=16, size=256),
}


def small(variant: Variant = "chatterbox") -> ChatterboxConfig:
    """A configuration of either variant with small networks."""
    t3 = T3Config(prompt_tokens=375 if variant == "chatterbox-turbo" else 150)
    return ChatterboxConfig(variant=variant, t3=t3, **SMALL)  # type: ignore[arg-type]


def official(config: ChatterboxConfig, seed: int = 0) -> tuple[Arrays, Arrays]:
    """The voice encoder's file and S3Gen's: random in every array, also in what training measures."""
    draw = np.random.RandomState(seed)
    files = ({name: _values(name, shape, draw) for name, shape in sorted(wanted.items())} for wanted in shapes(config))
    voice, s3gen = files
    # Spread over all levels: otherwise most tokens are alike.
    s3gen["tokenizer.quantizer._codebook.project_down.weight"] *= 1.5
    return voice, s3gen


def _values(name: str, shape: tuple[int, ...], draw: np.random.RandomState) -> np.ndarray:
    values = draw.standard_normal(shape).astype(np.float32)
    if name.endswith("running_var"):
        return np.abs(values) * 0.5 + 0.5
    if name.endswith(("running_mean", "bias")) or "bias_" in name:
        return values * np.float32(0.1)
    if len(shape) == 1:
        return values * np.float32(0.2) + 1
    return values * np.float32(1.4 / math.sqrt(math.prod(shape[1:])))


def as_mlx(arrays: Mapping[str, np.ndarray]) -> dict[str, mx.array]:
    return {name: mx.array(array) for name, array in arrays.items()}


@cache
def encoder(variant: Variant = "chatterbox", prompt_seconds: float = 10.0) -> ReferenceEncoder:
    """A small one, loaded."""
    config = small(variant)
    voice, s3gen = official(config)
    made = ReferenceEncoder(config, prompt_seconds)
    made.load(as_mlx(voice), as_mlx(s3gen), "test")
    return made


def speech(seconds: float, rate: int, seed: int = 0) -> np.ndarray:
    """Pcm that is loud and quiet, voiced and not, as speech is: syllables of gliding harmonics, and noise."""
    draw = np.random.RandomState(seed)
    t = np.arange(round(seconds * rate)) / rate
    pitch = 140 + 40 * np.sin(2 * np.pi * 0.7 * t) + 15 * np.sin(2 * np.pi * 3.1 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voiced = sum(np.sin(k * phase + k) / k * (k * 240 < rate / 2) for k in range(1, 30))
    syllables = np.clip(np.sin(2 * np.pi * 1.9 * t + 3 * np.sin(t)), 0, 1) ** 2
    hiss = np.clip(-np.sin(2 * np.pi * 1.9 * t), 0, 1) ** 8
    noise = draw.standard_normal(len(t))
    return (0.15 * syllables * voiced + 0.03 * hiss * noise + 0.0005 * noise).astype(np.float32)


@cache
def golden() -> Arrays:
    """Return the arrays that make_golden wrote; `pcm` is float32 at 24 kHz."""
    with np.load(Path(__file__).parent / "golden.npz") as file:
        found = {name: file[name] for name in file.files}
    return found | {"pcm": found["pcm"].astype(np.float32) / 32768}


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    assert found.shape == wanted.shape
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))
