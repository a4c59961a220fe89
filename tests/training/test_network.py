"""The training network against its parts' definitions and the shipped checkpoint. Needs PyTorch: `make parity`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.test_teacher import PHONEMES, make_teacher, narrow_config
from training import train
from training.data import Batch
from training.discriminators import Discriminators
from training.export import CONFIG, MODEL, VOICE_FILE, unpack
from training.export import main as export
from training.generator import inverse_stft
from training.layers import bilstm, run_lstm
from training.losses import SpectralLoss
from training.model import HouseVoice
from training.train import read_weights, write_weights
from training.trainer import Trainer, load_parameters
from training.voices import READERS

HOUSE = Path(__file__).parents[2] / "models/house"

pytestmark = pytest.mark.parity


def test_parameters_have_the_shipped_names_and_shapes() -> None:
    network = HouseVoice(json.loads((HOUSE / "config.json").read_text(encoding="utf-8")))
    ours = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    shipped = {name: array.shape for name, array in unpack(HOUSE).items()}
    assert ours == shipped


def test_inverse_stft_is_torchs() -> None:
    window = torch.hann_window(20)
    spectrum = torch.stft(torch.randn(3, 1200), 20, 5, window=window, return_complex=True)
    ours = inverse_stft(spectrum.abs(), spectrum.angle(), window, 5)
    assert torch.allclose(ours, torch.istft(spectrum, 20, 5, window=window), atol=1e-5)


def test_a_row_of_a_padded_batch_is_as_if_alone() -> None:
    """The LSTM runs both ways over rows of different lengths, as over packed ones."""
    torch.manual_seed(0)
    lstm, rows, lengths = bilstm(6, 8), torch.randn(3, 7, 6), torch.tensor([7, 3, 5])
    padded = run_lstm(lstm, rows, lengths)
    for row, length in enumerate(lengths.tolist()):
        assert torch.allclose(padded[row, :length], lstm(rows[row : row + 1, :length])[0][0], atol=1e-6)
        assert (padded[row, length:] == 0).all()


def test_the_phase_counts_where_magnitudes_are_equal() -> None:
    time = torch.arange(12_000) / 24_000
    tone, turned = (0.1 * torch.sin(2 * torch.pi * 220 * time + turn)[None] for turn in (0.0, 1.5))
    same, other = SpectralLoss()(tone, tone), SpectralLoss()(turned, tone)
    assert float(same[2]) < 0.01
    assert float(other[2]) > 20 * float(same[2])
    assert float(other[0]) < 0.2


def test_training_runs_resumes_and_exports(tmp_path: Path) -> None:
    """One step of a narrow network taught by a narrow teacher, one more after a restart, then the product's files."""
    path, corpus = tmp_path / CONFIG, tmp_path / "corpus.tsv"
    path.write_text(json.dumps(narrow_config()), encoding="utf-8")
    lines = [f"{language}\ttext\t{phonemes}\n" for language in READERS for phonemes in PHONEMES]
    corpus.write_text("".join(lines), encoding="utf-8")
    common = [str(corpus), str(tmp_path / "run"), "--config", str(path), "--device", "cpu", "--no-compile"]
    common += ["--teacher", str(make_teacher(tmp_path / "teacher")), "--frames", "64", "--log-every", "1"]
    common += ["--adversarial-start", "0", "--own-start", "0.5"]
    train.main([*common, "--steps", "1"])
    first = train.read_weights(tmp_path / "run/weights.npz")
    train.main([*common, "--steps", "2"])
    second = train.read_weights(tmp_path / "run/weights.npz")
    assert first.keys() == second.keys()
    assert any(not np.array_equal(first[name], second[name]) for name in first)
    rows = (tmp_path / "run/curves.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "1", "2"]
    log = (tmp_path / "run/train.log").read_text(encoding="utf-8")
    assert "resumed at step 1" in log
    assert log.count("'af_heart'") == 3  # the teacher's prosody in both runs, the network's own in the second
    export(["--config", str(path), str(tmp_path / "run/weights.npz"), str(tmp_path / "model")])
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [CONFIG, MODEL, VOICE_FILE]


def test_discriminators_can_learn_alone_and_begin_a_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trainer = Trainer(json.loads((HOUSE / "config.json").read_text(encoding="utf-8")), torch.device("cpu"), amp=False)
    before = [[each.clone() for each in part.parameters()] for part in (trainer.network, trainer.judges)]
    batch = Batch(
        ids=torch.tensor([[0, 43, 43, 0]]),
        durations=torch.full((1, 4), 2.0),
        padding=torch.zeros(1, 4, dtype=torch.bool),
        index=torch.arange(8)[None] // 2,
        voices=torch.tensor([0]),
        lengths=torch.tensor([4]),
        audio=0.1 * torch.randn(1, 8 * 600),
        f0=torch.full((1, 16), 120.0),
        energy=torch.ones(1, 16),
        prosody=torch.tensor(1.0),
    )
    trainer.step(batch, rate=1e-3, adversarial=1.0, network_learns=False)
    network, judges = (
        [torch.equal(old, new) for old, new in zip(olds, part.parameters(), strict=True)]
        for olds, part in zip(before, (trainer.network, trainer.judges), strict=True)
    )
    assert all(network)
    assert not any(judges)
    write_weights(tmp_path / "discriminators.npz", trainer.judges)
    load_parameters(Discriminators(), read_weights(tmp_path / "discriminators.npz"))
