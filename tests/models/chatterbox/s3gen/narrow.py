"""Narrow HiFT networks of random weights, their official arrays, and mel frames to speak."""

from __future__ import annotations

import math
import re

import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.chatterbox.config import VocoderConfig
from models.chatterbox.s3gen.vocoder import HiFT

MELS = 8
SMALL = VocoderConfig(width=32, f0_width=12, f0_layers=5)


def small(seed: int = 0) -> HiFT:
    """A narrow network, not lowered, on random weights with alphas and biases away from their defaults."""
    network = HiFT(SMALL, MELS)
    rng = np.random.RandomState(seed)
    arrays = []
    for name, array in tree_flatten(network.parameters()):
        if name.endswith("alpha"):
            value = rng.uniform(0.3, 1.8, array.shape)
        elif name.endswith("bias"):
            value = 0.1 * rng.standard_normal(array.shape)
        else:
            fan = array.size // array.shape[1 if name.startswith("ups") else 0]
            value = (0.4 if "blocks" in name else 0.6) * rng.standard_normal(array.shape) / fan**0.5
        arrays.append((name, mx.array(value.astype(np.float32))))
    network.update(tree_unflatten(arrays))
    network.f0_predictor.classifier.weight = network.f0_predictor.classifier.weight * 900
    network.conv_post.bias = network.conv_post.bias - 1.5
    network.f0_predictor.classifier.bias = mx.array([90.0])
    mx.eval(network.parameters())
    return network


def lowered(seed: int = 0) -> HiFT:
    """The same, ready for use."""
    network = small(seed)
    network.lower()
    return network


def mel(frames: int, seed: int = 0) -> mx.array:
    """Log-mel frames that move [1, frames, MELS]."""
    rng = np.random.RandomState(seed)
    slow = np.repeat(rng.standard_normal((frames // 6 + 2, MELS)), 6, axis=0)[:frames]
    return mx.array((-3 + 1.5 * slow + 0.4 * rng.standard_normal((frames, MELS))).astype(np.float32)[None])


def fixed_point(radians: mx.array) -> mx.array:
    """Angles as phases in 2^-32 of a turn, uint32; exact to 1e-7 of a turn within [-pi, pi]."""
    turns = radians * (0.5 / math.pi)
    return (mx.minimum(turns - mx.floor(turns), 1 - 2.0**-24) * 2.0**32).astype(mx.uint32)


def official_arrays() -> dict[str, mx.array]:
    """The arrays of `small` under the checkpoint's names: weight norm unfolded, channels first."""
    found: dict[str, mx.array] = {}
    for ours, value in tree_flatten(small().parameters()):
        name = re.sub(r"condnet\.(\d+)", lambda m: f"condnet.{2 * int(m[1])}", ours)
        array = value.swapaxes(1, 2) if value.ndim == 3 else value
        if array.ndim == 3 and not name.startswith("source_downs"):
            norm = mx.sqrt(mx.sum(array * array, axis=(1, 2), keepdims=True))
            owner = name.removesuffix(".weight")
            found[f"mel2wav.{owner}.parametrizations.weight.original0"] = norm
            found[f"mel2wav.{owner}.parametrizations.weight.original1"] = array * 3.0
        else:
            found[f"mel2wav.{name}"] = array
    return found
