"""Write trained weights in the layout that the product loads, or unpack that layout to begin a run from.

    python -m training.export build/house/run/weights.npz build/house/model
    python -m training.export --unpack models/house build/house/init.npz

The layout: `config.json`; `model.safetensors`, float16 under the reference's parameter names, weight norm not
folded; `voices.safetensors`, a float32 [1, 2 style] array a voice, which stands for every length of utterance.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from training.voices import VOICES

VOICE_TABLE = "voices.weight"
CONFIG, MODEL, VOICE_FILE = "config.json", "model.safetensors", "voices.safetensors"

Arrays = Mapping[str, npt.NDArray[np.floating]]


def pack(arrays: Arrays, config: Path, folder: Path) -> None:
    """Write the three files of a checkpoint to `folder`.

    `arrays` are the network's parameters and its voice table [voices, 2 style]. Raises ValueError when the table is
    missing or has another shape, or when an array is not finite in float16.
    """
    style = json.loads(config.read_text(encoding="utf-8"))["style_dim"]
    shape = arrays[VOICE_TABLE].shape if VOICE_TABLE in arrays else None
    if shape != (len(VOICES), 2 * style):
        raise ValueError(f"{VOICE_TABLE} must be {(len(VOICES), 2 * style)} for {', '.join(VOICES)}, but is {shape}")
    weights = {}
    with np.errstate(over="ignore"):
        for name in sorted(arrays.keys() - {VOICE_TABLE}):
            half = arrays[name].astype(np.float16)
            if not np.isfinite(half).all():
                raise ValueError(f"{name} is not finite in float16")
            weights[name] = mx.array(half)
    table = arrays[VOICE_TABLE].astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / MODEL), weights)
    mx.save_safetensors(str(folder / VOICE_FILE), {voice: mx.array(table[i : i + 1]) for i, voice in enumerate(VOICES)})
    if config.resolve() != (folder / CONFIG).resolve():
        shutil.copyfile(config, folder / CONFIG)


def unpack(folder: Path) -> dict[str, npt.NDArray[np.floating]]:
    """The parameters and the voice table of the checkpoint in `folder`, as `pack` takes them."""
    weights, voices = mx.load(str(folder / MODEL)), mx.load(str(folder / VOICE_FILE))
    arrays = {name: np.array(array) for name, array in weights.items()}
    arrays[VOICE_TABLE] = np.concatenate([np.array(voices[voice]) for voice in VOICES])
    return arrays


def main(argv: Sequence[str] | None = None) -> None:
    """Export or unpack."""
    parser = argparse.ArgumentParser(description="Write trained weights in the product's layout, or unpack them.")
    parser.add_argument("--unpack", action="store_true", help="from a checkpoint folder to an .npz")
    parser.add_argument("--config", type=Path, default=Path("models/house/config.json"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args(argv)
    if options.unpack:
        arrays = unpack(options.source)
        options.target.parent.mkdir(parents=True, exist_ok=True)
        np.savez(options.target, **arrays)
    else:
        with np.load(options.source) as data:
            arrays = {name: data[name] for name in data.files}
        pack(arrays, options.config, options.target)
    count = sum(array.size for array in arrays.values())
    print(f"{len(arrays)} arrays, {count / 1e6:.2f} M numbers -> {options.target}")


if __name__ == "__main__":
    main()
