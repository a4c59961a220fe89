"""The training network against its parts' definitions and the shipped checkpoint. Needs PyTorch: `make parity`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

HOUSE = Path(__file__).parents[2] / "models/house"

pytestmark = pytest.mark.parity


def test_parameters_have_the_shipped_names_and_shapes() -> None:
    from training.export import unpack
    from training.model import HouseVoice

    network = HouseVoice(json.loads((HOUSE / "config.json").read_text(encoding="utf-8")))
    ours = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    shipped = {name: array.shape for name, array in unpack(HOUSE).items()}
    assert ours == shipped


def test_inverse_stft_is_torchs() -> None:
    import torch

    from training.generator import inverse_stft

    window = torch.hann_window(20)
    spectrum = torch.stft(torch.randn(3, 1200), 20, 5, window=window, return_complex=True)
    ours = inverse_stft(spectrum.abs(), spectrum.angle(), window, 5)
    assert torch.allclose(ours, torch.istft(spectrum, 20, 5, window=window), atol=1e-5)


@pytest.mark.parametrize("hertz", [90.0, 137.0, 201.0])
def test_f0_of_a_tone_is_found(hertz: float) -> None:
    import torch

    from training.features import VOICE_FACTS, track_f0

    time = torch.arange(16000) / 16000
    pulse = sum(torch.sin(2 * torch.pi * hertz * k * time) / k for k in range(1, 6))
    f0 = track_f0(0.1 * pulse[None], VOICE_FACTS["rms"], 80)[0, 8:-8]
    assert torch.allclose(f0, torch.full_like(f0, hertz), rtol=5e-3)


def test_silence_and_noise_are_unvoiced() -> None:
    import torch

    from training.features import VOICE_FACTS, track_f0

    torch.manual_seed(0)
    quiet, noise = torch.zeros(1, 8000), 0.1 * torch.randn(1, 8000)
    assert (track_f0(quiet, VOICE_FACTS["slt"], 40) == 0).all()
    assert (track_f0(noise, VOICE_FACTS["slt"], 40) == 0).float().mean() > 0.9


def test_resampling_keeps_a_tone() -> None:
    import torch

    from training.features import to_24k

    time = torch.arange(16000) / 16000
    made = to_24k(torch.sin(2 * torch.pi * 1000 * time)[None])[0]
    true = torch.sin(2 * torch.pi * 1000 * torch.arange(24000) / 24000)
    assert made.shape == true.shape
    assert (made - true)[200:-200].abs().max() < 2e-3


def test_the_offset_goes_and_silence_stays_silent() -> None:
    import torch

    from training.features import without_offset

    torch.manual_seed(0)
    audio = torch.zeros(1, 16000)
    audio[:, 4000:12000] = 0.1 * torch.randn(1, 8000) + 0.005
    clean = without_offset(audio)
    assert clean.mean().abs() < 1e-6
    assert clean[:, :3700].abs().max() == 0


def test_lengths_go_to_the_grid_by_the_closing_silence() -> None:
    from training.data import on_grid

    rng = np.random.default_rng(0)
    for _ in range(200):
        durations = rng.integers(1, 12, rng.integers(3, 30)).tolist()
        fitted = on_grid(durations)
        assert sum(fitted) % 16 == 0
        assert fitted[:-2] == durations[:-2]
        assert min(fitted) >= 1
        assert abs(sum(fitted) - sum(durations)) < 16


def test_training_runs_resumes_and_exports(tmp_path: Path) -> None:
    """One step of a tiny network on synthetic recordings, one more after a restart, then the product's files."""
    from training import train
    from training.export import CONFIG, MODEL, VOICE_FILE
    from training.export import main as export
    from training.teacher import Recording, write_shard

    config = json.loads((HOUSE / CONFIG).read_text(encoding="utf-8"))
    config |= {"hidden_dim": 16, "style_dim": 8, "n_layer": 1, "text_encoder_layers": 1}
    config |= {"decoder_dim": 16, "residual_dim": 8}
    config["plbert"] |= {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 1}
    config["istftnet"] |= {"upsample_initial_channel": 16}
    path = tmp_path / CONFIG
    path.write_text(json.dumps(config), encoding="utf-8")
    rng = np.random.default_rng(0)
    made = [
        Recording(
            rng.integers(1, 178, 8).astype(np.int16),
            np.full(8, 4, np.int16),
            (3000 * np.sin(np.arange(32 * 400) * 0.05)).astype(np.int16),
            voice,
        )
        for voice in (0, 1)
    ]
    (tmp_path / "shards").mkdir()
    write_shard(tmp_path / "shards/00000.npz", made)
    common = [str(tmp_path / "shards"), str(tmp_path / "run"), "--config", str(path), "--device", "cpu"]
    common += ["--no-compile", "--frames", "64", "--log-every", "1", "--adversarial-start", "0"]
    train.main([*common, "--steps", "1"])
    first = train.read_weights(tmp_path / "run/weights.npz")
    train.main([*common, "--steps", "2"])
    second = train.read_weights(tmp_path / "run/weights.npz")
    assert first.keys() == second.keys()
    assert any(not np.array_equal(first[name], second[name]) for name in first)
    rows = (tmp_path / "run/curves.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "1", "2"]
    assert "resumed at step 1" in (tmp_path / "run/train.log").read_text(encoding="utf-8")
    export(["--config", str(path), str(tmp_path / "run/weights.npz"), str(tmp_path / "model")])
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [CONFIG, MODEL, VOICE_FILE]
