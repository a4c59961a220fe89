"""Small random T3 checkpoints by their official names, and networks of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from models.backend import mx
from models.chatterbox.config import TURBO, T3Config
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights, shapes

SIZES: dict[str, int] = {
    "hidden": 64, "layers": 3, "heads": 2, "text_vocabulary": 40, "start_speech": 90, "stop_speech": 91,
    "max_text": 60, "max_speech": 220, "speaker": 16, "prompt_tokens": 12,
}  # fmt: skip
LLAMA = T3Config(
    **SIZES, inner=128, speech_vocabulary=96, start_text=39, stop_text=0, perceiver_queries=5, perceiver_heads=2
)
GPT2 = replace(TURBO.t3, **SIZES, inner=256, positions=320, speech_vocabulary=93)
CONFIGS = {"llama": LLAMA, "gpt2": GPT2}


def official_arrays(config: T3Config, seed: int = 0, loudness: float = 1.0) -> dict[str, mx.array]:
    """Random weights; norms around one, tables and heads lively enough that tokens and positions matter.

    The end of speech is `loudness` times as loud as other tokens.
    """
    rng = np.random.RandomState(seed)
    found: dict[str, mx.array] = {}
    for name, shape in shapes(config).items():
        array = rng.standard_normal(shape).astype(np.float32)
        if "norm" in name or ".ln_" in name:
            array = array * 0.1 + (1 if name.endswith("weight") else 0)
        elif name.endswith("bias"):
            array *= 0.05
        elif "emb" in name or "wpe" in name or "query" in name:
            array *= 0.5
        elif name == "speech_head.weight":
            array *= 2.0 / math.sqrt(config.hidden)
            array[config.stop_speech] *= loudness
        else:
            fan = shape[0] if name.startswith("tfmr.h.") else shape[-1]
            array *= 1.2 / math.sqrt(fan)
        found[name] = mx.array(array)
    return found


def network(config: T3Config, seed: int = 0, bits: int = 0, loudness: float = 1.0, dtype: mx.Dtype = mx.float32) -> T3:
    """A network with random weights."""
    found = T3(config)
    load_weights(found, official_arrays(config, seed, loudness), "arrays", dtype)
    found.lower(bits)
    return found


def conditioned(model: T3, seed: int = 0, exaggeration: float = 0.5) -> mx.array:
    """Conditioning rows of a random voice."""
    rng = np.random.RandomState(seed)
    config = model.config
    speaker = mx.array(rng.standard_normal(config.speaker).astype(np.float32))
    prompt = mx.array(rng.randint(0, config.start_speech, config.prompt_tokens).astype(np.int32))
    return model.condition(speaker, prompt, exaggeration)
