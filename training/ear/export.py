"""Write a run's weights in the layout that the product loads: the MLX community's, of 8 bits.

    python -m training.ear.export build/ear/run build/ear/tokenizer.json build/ear/model [--mean models/ear]

Writes `config.json`, `model.safetensors` and `tokenizer.json`. Matrices have 8 bits in groups of 64, what else there is
float16. Convolutions are in MLX's order; the encoder's positions are computed by the product.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from training.ear.initial import read_initial

BITS, GROUP = 8, 64
MAX_BYTES = 14_700_000
CONFIG, MODEL, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"

Arrays = Mapping[str, npt.NDArray[np.floating[Any]]]


def read_run(run: Path) -> tuple[dict[str, npt.NDArray[np.floating[Any]]], dict[str, int]]:
    """Return the arrays of `weights*.npz`, one file or several, and the sizes of a run."""
    arrays: dict[str, npt.NDArray[np.floating[Any]]] = {}
    for path in sorted(run.glob("weights*.npz")):
        with np.load(path) as data:
            arrays |= {name: data[name] for name in data.files}
    sizes: dict[str, int] = json.loads((run / "sizes.json").read_text(encoding="utf-8"))
    return arrays, sizes


def mean(arrays: Arrays, other: Path) -> dict[str, npt.NDArray[np.floating[Any]]]:
    """Return the mean of a run's weights and those it began with; blocks that these lack add nothing there."""
    began: dict[str, npt.NDArray[np.floating[Any]]] = {**read_initial(other)}
    found: dict[str, npt.NDArray[np.floating[Any]]] = {}
    for name, array in arrays.items():
        added = name.endswith((".out.weight", ".out.bias", ".mlp.2.weight", ".mlp.2.bias"))
        before = began.get(name, np.zeros_like(array) if ".blocks." in name and added else array)
        found[name] = ((array.astype(np.float32) + before) / 2).astype(np.float16)
    return found


def packed(arrays: Arrays) -> dict[str, mx.array]:
    """Return the arrays by the product's names, matrices quantized. Raises ValueError for a number too large."""
    found: dict[str, mx.array] = {}
    for name, given in sorted(arrays.items()):
        if name == "encoder.positional_embedding":
            continue
        ours = re.sub(r"\.mlp\.([02])\.", lambda place: f".mlp{int(place[1]) // 2 + 1}.", name)
        array = given.swapaxes(1, 2) if given.ndim == 3 else given
        with np.errstate(over="ignore"):
            half = array.astype(np.float16)
        if not np.isfinite(half).all():
            raise ValueError(f"{name} is not finite in float16")
        if array.ndim == 2 and ours.endswith(".weight"):
            matrix = mx.array(array.astype(np.float32)).astype(mx.float16)
            weight, scales, offsets = mx.quantize(matrix, group_size=GROUP, bits=BITS)
            base = ours.removesuffix(".weight")
            found |= {ours: weight, f"{base}.scales": scales, f"{base}.biases": offsets}
        else:
            found[ours] = mx.array(half)
    return found


def export(run: Path, tokenizer: Path, folder: Path, other: Path | None = None) -> int:
    """Write the product's files, of the mean with `other`; return their bytes. Raises ValueError for too large ones."""
    arrays, sizes = read_run(run)
    arrays = mean(arrays, other) if other else arrays
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "whisper", **sizes, "n_ctc": len(arrays["ctc.out.weight"])}
    config["quantization"] = {"group_size": GROUP, "bits": BITS}
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    mx.save_safetensors(str(folder / MODEL), packed(arrays), metadata={"format": "mlx"})
    if tokenizer.resolve() != (folder / TOKENIZER).resolve():
        shutil.copyfile(tokenizer, folder / TOKENIZER)
    size = sum((folder / name).stat().st_size for name in (CONFIG, MODEL, TOKENIZER))
    if size > MAX_BYTES:
        raise ValueError(f"the files have {size} bytes, above {MAX_BYTES}")
    return size


def main(argv: Sequence[str] | None = None) -> None:
    """Export the run that the arguments name."""
    parser = argparse.ArgumentParser(description="Write the ear in the product's layout.")
    parser.add_argument("run", type=Path, help="folder of weights*.npz and sizes.json")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mean", type=Path, help="weights with which the run began: the mean is written")
    options = parser.parse_args(argv)
    size = export(options.run, options.tokenizer, options.folder, options.mean)
    print(f"{size / 1e6:.2f} MB -> {options.folder}", flush=True)


if __name__ == "__main__":
    main()
