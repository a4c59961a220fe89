"""An ear of random weights: a tokenizer of single bytes whose special tokens have other ids than Whisper's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from models.contract import ModelSpec
from models.whisper.pipeline import WhisperRecognizer, load
from training.ear.export import export

SPECIAL = ("endoftext", "startoftranscript", "en", "translate", "transcribe", "startoflm", "startofprev", "nospeech")
SIZES = {
    "n_vocab": 265, "n_mels": 80, "n_audio_ctx": 100, "n_audio_state": 64, "n_audio_head": 1, "n_audio_layer": 2,
    "n_text_ctx": 64, "n_text_state": 64, "n_text_head": 1, "n_text_layer": 2,
}  # fmt: skip


def tokenizer_file(path: Path) -> Path:
    """Bytes as tokens, and the special tokens behind them."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: k for k, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in (*SPECIAL, "notimestamps")])
    made.save(str(path))
    return path


def arrays(seed: int = 1) -> dict[str, np.ndarray]:
    """Weights of SIZES by the trainer's names."""
    rng = np.random.default_rng(seed)
    width = SIZES["n_audio_state"]
    found: dict[str, np.ndarray] = {}

    def dense(name: str, outputs: int, inputs: int, *, bias: bool = True) -> None:
        found[f"{name}.weight"] = rng.standard_normal((outputs, inputs)) / np.sqrt(inputs) * 1.5
        if bias:
            found[f"{name}.bias"] = rng.standard_normal(outputs) * 0.1

    def norm(name: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = np.ones(width), np.zeros(width)

    def attention(name: str) -> None:
        for part in ("query", "key", "value", "out"):
            dense(f"{name}.{part}", width, width, bias=part != "key")
        norm(f"{name}_ln")

    for side, cross in (("encoder", False), ("decoder", True)):
        for layer in range(2):
            base = f"{side}.blocks.{layer}"
            attention(f"{base}.attn")
            if cross:
                attention(f"{base}.cross_attn")
            dense(f"{base}.mlp.0", 4 * width, width)
            dense(f"{base}.mlp.2", width, 4 * width)
            norm(f"{base}.mlp_ln")
    for number, inputs in ((1, 80), (2, width)):
        found[f"encoder.conv{number}.weight"] = rng.standard_normal((width, inputs, 3)) * 0.1
        found[f"encoder.conv{number}.bias"] = np.zeros(width)
    found["encoder.positional_embedding"] = np.zeros((SIZES["n_audio_ctx"], width))
    norm("encoder.ln_post")
    norm("decoder.ln")
    norm("ctc.ln")
    dense("ctc.out", 257, width)
    found["decoder.token_embedding.weight"] = rng.standard_normal((SIZES["n_vocab"], width)) * 0.3
    found["decoder.positional_embedding"] = rng.standard_normal((SIZES["n_text_ctx"], width)) * 0.3
    return {name: array.astype(np.float32) for name, array in found.items()}


def ear(folder: Path, seed: int = 1) -> WhisperRecognizer:
    """Export random weights, and load them as the product does."""
    import json

    run = folder / "run"
    run.mkdir()
    np.savez(run / "weights.npz", **arrays(seed))
    (run / "sizes.json").write_text(json.dumps(SIZES), encoding="utf-8")
    model = folder / "model"
    export(run, tokenizer_file(folder / "tokenizer.json"), model)
    files = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
    return load(ModelSpec("ear", "whisper", {role: str(model / name) for role, name in files.items()}))
