"""A Kokoro-82M checkpoint of random numbers: what a server with the real one has to do, without a download.

The files are the network's own parameters (config.json, model.safetensors, voices.safetensors), which the catalog
takes in place of the official ones. It hums at about 120 Hz.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from mlx.utils import tree_flatten

from loadtest.official import KOKORO
from models.backend import mx
from models.kokoro.config import load_config
from models.kokoro.network import Kokoro

HOUSE = Path(__file__).parents[1] / "models/house"
# Random durations would be seconds or nothing: each token lasts as long as speech's do.
FRAMES_PER_TOKEN = 3
VOICE = "af_heart"


def write(folder: Path, seed: int = 0, frames: float = FRAMES_PER_TOKEN) -> None:
    """Write the checkpoint to `folder`, with the house voice's symbols; every token lasts `frames` frames of 25 ms."""
    folder.mkdir(parents=True, exist_ok=False)
    vocabulary = json.loads((HOUSE / "config.json").read_text(encoding="utf-8"))["vocab"]
    (folder / "config.json").write_text(json.dumps(KOKORO | {"vocab": vocabulary}), encoding="utf-8")
    config = load_config(folder / "config.json")
    draw = np.random.default_rng(seed)
    arrays: dict[str, mx.array] = {}
    shapes: dict[str, mx.array] = dict(tree_flatten(Kokoro(config).parameters()))
    for name, array in shapes.items():
        values = draw.standard_normal(array.shape, dtype=np.float32)
        values *= np.float32(0.05 if array.ndim == 1 else 1 / math.sqrt(math.prod(array.shape[1:])))
        is_gain = ".alpha" in name or (array.ndim == 1 and name.endswith(".weight"))
        arrays[name] = mx.array(values) + float(is_gain)
    share = frames / config.max_dur
    projection = "predictor.duration_proj.linear_layer"
    arrays[f"{projection}.weight"] *= 0
    arrays[f"{projection}.bias"] = mx.full((config.max_dur,), math.log(share / (1 - share)))
    arrays["predictor.F0_proj.bias"] += 120
    # The generator's last layer says logarithms of magnitudes: far below full scale, whatever comes before.
    arrays["decoder.generator.conv_post.weight"] *= 1e-3
    arrays["decoder.generator.conv_post.bias"] -= 1
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    style = draw.standard_normal((config.max_phonemes, 1, 2 * config.style_dim), dtype=np.float32) * np.float32(0.5)
    mx.save_safetensors(str(folder / "voices.safetensors"), {VOICE: mx.array(style)})
