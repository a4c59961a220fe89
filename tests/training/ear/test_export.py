"""From a run's weights to the product's files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.backend import mx
from models.checkpoint import read_arrays
from models.whisper.weights import read_checkpoint
from tests.models.whisper.ear import SIZES, arrays, tokenizer_file
from training.ear.export import export, main, mean

FILES = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}


def a_run(folder: Path, pieces: int = 1) -> Path:
    folder.mkdir()
    made = arrays()
    for number in range(pieces):
        part = {name: array for at, (name, array) in enumerate(made.items()) if at % pieces == number}
        np.savez(folder / (f"weights_{number}.npz" if pieces > 1 else "weights.npz"), **part)
    (folder / "sizes.json").write_text(json.dumps(SIZES), encoding="utf-8")
    return folder


def test_the_products_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = tokenizer_file(tmp_path / "tokenizer.json")
    main([str(a_run(tmp_path / "run")), str(tokenizer), str(tmp_path / "model")])
    assert "MB" in capsys.readouterr().out
    files = {role: str(tmp_path / "model" / name) for role, name in FILES.items()}
    config, found, _ = read_checkpoint(files, "ear")
    assert (config.n_vocab, config.n_ctc, config.n_audio_ctx) == (265, 257, 100)
    for name, wanted in arrays().items():
        if name == "encoder.positional_embedding":
            continue
        ours = name.replace(".mlp.0.", ".mlp1.").replace(".mlp.2.", ".mlp2.")
        near = np.array(found[ours].astype(mx.float32))
        wide = wanted.swapaxes(1, 2) if wanted.ndim == 3 else wanted
        assert near.shape == wide.shape
        assert np.abs(near - wide).max() < 0.01 * np.abs(wide).max() + 1e-6, name
    raw = read_arrays(files["weights"])
    assert raw["encoder.blocks.0.attn.query.weight"].dtype == mx.uint32
    assert raw["ctc.ln.weight"].dtype == mx.float16


def test_pieces_are_one_run(tmp_path: Path) -> None:
    tokenizer = tokenizer_file(tmp_path / "tokenizer.json")
    export(a_run(tmp_path / "one"), tokenizer, tmp_path / "a")
    export(a_run(tmp_path / "three", 3), tokenizer, tmp_path / "b")
    one, three = (read_arrays(tmp_path / name / "model.safetensors") for name in "ab")
    assert one.keys() == three.keys()
    assert all(bool(mx.array_equal(one[name], three[name])) for name in one)


def test_the_mean_with_weights_of_fewer_blocks(tmp_path: Path) -> None:
    run, block = arrays(), "encoder.blocks.1."
    np.savez(tmp_path / "weights.npz", **{name: array for name, array in run.items() if not name.startswith(block)})
    found = mean(run, tmp_path)
    for name, share in ((f"{block}attn.query.weight", 1), (f"{block}attn.out.weight", 0.5), ("ctc.out.weight", 1)):
        assert np.allclose(found[name], run[name] * share, atol=0.01)


def test_what_cannot_be_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, run = tokenizer_file(tmp_path / "tokenizer.json"), a_run(tmp_path / "run")
    monkeypatch.setattr("training.ear.export.MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="above 1000"):
        export(run, tokenizer, tmp_path / "model")
    broken = arrays()
    broken["ctc.out.bias"][0] = 1e9
    np.savez(run / "weights.npz", **broken)
    with pytest.raises(ValueError, match=r"ctc\.out\.bias is not finite"):
        export(run, tokenizer, tmp_path / "model")
