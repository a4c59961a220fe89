"""Weights that a run begins with: another run's, or the product's files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

Arrays = dict[str, npt.NDArray[np.float32]]


def read_initial(path: Path) -> Arrays:
    """Return float32 arrays by the run's names: of `weights*.npz`, of a folder of them, or of the product's folder.

    The product's folder has no positions of the encoder. Raises FileNotFoundError where there are no weights.
    """
    if (path / "model.safetensors").exists():
        return _product(path)
    pieces = [path] if path.is_file() else sorted(path.glob("weights*.npz"))
    if not pieces:
        raise FileNotFoundError(f"{path} has neither weights*.npz nor model.safetensors")
    found: Arrays = {}
    for piece in pieces:
        with np.load(piece) as data:
            found |= {name: data[name].astype(np.float32) for name in data.files}
    return found


def _product(folder: Path) -> Arrays:
    arrays = load_file(str(folder / "model.safetensors"))
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    group = config["quantization"]["group_size"]
    found: Arrays = {}
    for name, array in arrays.items():
        base = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        wide = array
        if array.dtype == np.uint32:
            values = array.view(np.uint8).reshape(len(array), -1, group).astype(np.float32)  # little-endian: 8 bits
            scales, offsets = (arrays[f"{base}.{part}"].astype(np.float32)[..., None] for part in ("scales", "biases"))
            wide = (values * scales + offsets).reshape(len(array), -1)
        theirs = re.sub(r"\.mlp([12])\.", lambda place: f".mlp.{2 * int(place[1]) - 2}.", name)
        found[theirs] = (wide.swapaxes(1, 2) if wide.ndim == 3 else wide).astype(np.float32).copy()
    return found
