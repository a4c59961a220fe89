"""An ear of random weights: a tokenizer of single bytes whose special tokens have other ids than Whisper's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from models.contract import ModelSpec
from models.whisper.pipeline import WhisperRecognizer, load
from tests.models.whisper.builder import config, openai_arrays
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
    rng, width = np.random.RandomState(seed), SIZES["n_audio_state"]
    found = openai_arrays(config(**SIZES), seed)
    found |= {"ctc.ln.weight": np.ones(width, np.float32), "ctc.ln.bias": np.zeros(width, np.float32)}
    found["ctc.out.weight"] = (rng.standard_normal((257, width)) / np.sqrt(width) * 1.5).astype(np.float32)
    found["ctc.out.bias"] = (rng.standard_normal(257) * 0.1).astype(np.float32)
    return found


def ear(folder: Path, seed: int = 1) -> WhisperRecognizer:
    """Export random weights, and load them as the product does."""
    run = folder / "run"
    run.mkdir()
    np.savez(run / "weights.npz", **arrays(seed))
    (run / "sizes.json").write_text(json.dumps(SIZES), encoding="utf-8")
    model = folder / "model"
    export(run, tokenizer_file(folder / "tokenizer.json"), model)
    files = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
    return load(ModelSpec("ear", "whisper", {role: str(model / name) for role, name in files.items()}))
