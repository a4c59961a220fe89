"""Small flows with random weights, loaded by the official names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from loadtest.s3gen_steps import random_weights
from models.backend import mx
from models.chatterbox.config import ENGLISH, TURBO, ChatterboxConfig, EncoderConfig, FlowConfig, SpeakerConfig
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.weights import load_flow

SMALL = replace(
    ENGLISH,
    mels=8,
    encoder=EncoderConfig(width=32, heads=4, inner=48, layers=2, up_layers=1),
    flow=FlowConfig(width=16, head_size=8, heads=3, blocks=1, middle=2, steps=4),
    speaker=SpeakerConfig(size=12),
)
SMALL_TURBO = replace(SMALL, variant=TURBO.variant, flow=replace(SMALL.flow, steps=2, guidance=0.0, mean_flow=True))
VARIANTS = {"english": SMALL, "turbo": SMALL_TURBO}
PROMPT, SPOKEN = 9, 14
FRAMES = 2 * (PROMPT + SPOKEN)


@cache
def flow(variant: str = "english", *, padded: bool | None = None) -> Flow:
    """One flow for all tests, which change nothing in it."""
    return loaded(VARIANTS[variant], padded=padded)


def loaded(config: ChatterboxConfig, *, padded: bool | None = None, bfloat16: bool = False) -> Flow:
    """A flow of its own."""
    made = Flow(config, padded=padded)
    load_flow(made, random_weights(config), "random", bfloat16=bfloat16)
    return made


def normal(seed: int, *shape: int) -> mx.array:
    """Unit normal, float32."""
    return mx.array(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def tokens(count: int, seed: int = 1) -> list[int]:
    """Speech tokens."""
    return [int(n) for n in np.random.default_rng(seed).integers(0, 6561, count)]


def voice(config: ChatterboxConfig = SMALL) -> tuple[mx.array, mx.array]:
    """A prompt's mel [2P, mels] and a speaker's vector."""
    return normal(2, 2 * PROMPT, config.mels), 3 * normal(3, config.speaker.size)


def distance(found: mx.array, wanted: mx.array | np.ndarray) -> float:
    """Largest difference, relative to the largest element."""
    expected = np.array(wanted)
    assert found.shape == expected.shape
    return float(np.abs(np.array(found) - expected).max() / np.abs(expected).max())
