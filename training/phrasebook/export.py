"""Write a trained phrase book in the layout that the product loads.

    python -m training.phrasebook.export build/phrasebook/run build/phrasebook/tokenizer.json build/phrasebook/model

The layout is M2M100's: `config.json`, `model.safetensors` (float16, transformers' names, the tied embedding once),
`tokenizer.json`, and `coverage.json` beside them.
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

from training.phrasebook import coverage

HEADS = 4


def config_of(arrays: Mapping[str, npt.NDArray[np.floating]]) -> dict[str, object]:
    """config.json, from the arrays' shapes. Raises KeyError where one is missing."""
    vocabulary, width = arrays["model.shared.weight"].shape

    def depth(side: str) -> int:
        return 1 + max(int(name.split(".")[3]) for name in arrays if name.startswith(f"model.{side}.layers."))

    inner = arrays["model.encoder.layers.0.fc1.weight"].shape[0]
    return {
        "architectures": ["M2M100ForConditionalGeneration"],
        "model_type": "m2m_100",
        "vocab_size": vocabulary,
        "d_model": width,
        "encoder_layers": depth("encoder"),
        "decoder_layers": depth("decoder"),
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": inner,
        "decoder_ffn_dim": inner,
        "max_position_embeddings": 128,
        "activation_function": "relu",
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "unk_token_id": 3,
        "decoder_start_token_id": 2,
        "dtype": "float16",
    }


def pack(arrays: Mapping[str, npt.NDArray[np.floating]], tokenizer: Path, folder: Path) -> None:
    """Write the files of a checkpoint to `folder`. Raises ValueError when an array is not finite in float16."""
    weights = {}
    for name in sorted(arrays):
        with np.errstate(over="ignore"):
            half = arrays[name].astype(np.float16)
        if not np.isfinite(half).all():
            raise ValueError(f"{name} is not finite in float16")
        weights[name] = mx.array(half)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config_of(arrays), indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    coverage.main([str(folder / "coverage.json")])


def main(argv: Sequence[str] | None = None) -> None:
    """Export."""
    parser = argparse.ArgumentParser(description="Write a trained phrase book in the product's layout.")
    parser.add_argument("run", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(argv)
    with np.load(options.run / "weights.npz") as data:
        arrays = {name: data[name] for name in data.files}
    pack(arrays, options.tokenizer, options.folder)
    size = sum(path.stat().st_size for path in options.folder.iterdir())
    print(f"{sum(a.size for a in arrays.values()) / 1e6:.2f} M numbers, {size / 1e6:.1f} MB -> {options.folder}")


if __name__ == "__main__":
    main()
