"""The teacher on a folder of Kokoro's layout with a narrow random network. Needs PyTorch: `make parity`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from training.model import HouseVoice
from training.teacher import SHORT, Line, Prosody, Teacher, fitted_to_grid, grid_of
from training.voices import VOICES

CONFIG = Path(__file__).parents[2] / "models/house/config.json"
PHONEMES = ("jˈɛs.", "hˈaɪ.", "ðə dˈɔɡ ɹˈʌnz, ænd ðə kˈæt slˈips.", "tˈɛl mi mˈɔɹ.")

pytestmark = pytest.mark.parity


def narrow_config() -> dict[str, Any]:
    """The house voice's configuration with few channels."""
    config: dict[str, Any] = json.loads(CONFIG.read_text(encoding="utf-8"))
    config |= {"hidden_dim": 32, "style_dim": 8, "n_layer": 1, "text_encoder_layers": 1}
    config |= {"decoder_dim": 24, "residual_dim": 8}
    config["plbert"] |= {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 1}
    config["istftnet"] |= {"upsample_initial_channel": 16}
    return config


def make_teacher(folder: Path, voices: Sequence[str] = VOICES) -> Path:
    """Write a narrow network of random weights with voices in Kokoro's layout; Kokoro's own has a dropout."""
    folder.mkdir()
    config = narrow_config()
    written = config | {"plbert": config["plbert"] | {"dropout": 0.1}}
    (folder / "config.json").write_text(json.dumps(written), encoding="utf-8")
    torch.manual_seed(1)
    network = HouseVoice(config, voices=1)
    torch.nn.init.constant_(network.predictor.duration_proj.linear_layer.bias, -2.8)  # about three frames a token
    arrays = {name: array for name, array in network.state_dict().items() if not name.startswith("voices.")}
    save_file(arrays, str(folder / "kokoro-v1_0.safetensors"))
    save_file({name: torch.randn(510, 1, 16) for name in voices}, str(folder / "voices.safetensors"))
    return folder


def test_lengths_go_to_the_grid() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        durations = rng.integers(1, 12, rng.integers(3, 90)).tolist()
        fitted = fitted_to_grid(durations)
        assert len(fitted) == len(durations)
        assert min(fitted) >= 1
        assert sum(fitted) % grid_of(sum(fitted)) == 0
        if sum(durations) <= SHORT:  # by the closing silence alone
            assert fitted[:-2] == durations[:-2]
            assert abs(sum(fitted) - sum(durations)) < 16
        else:
            assert abs(sum(fitted) / sum(durations) - 1) < 0.11


def test_a_batch_speaks_as_each_line_alone(tmp_path: Path) -> None:
    teacher = Teacher(make_teacher(tmp_path / "teacher"), torch.device("cpu"))
    lines = [
        Line(np.array([0, *(teacher.vocabulary[sign] for sign in text), 0]), voice)
        for text in PHONEMES
        for voice in (0, 3)
    ]

    def spoken(of: list[Line], prosody: Prosody | None = None) -> dict[tuple[bytes, int], torch.Tensor]:
        return {
            (line.ids.tobytes(), line.voice): each.audio[row]
            for each in teacher.speak(of, prosody)
            for row, line in enumerate(each.lines)
        }

    together, alone = spoken(lines), {}
    for line in lines:
        alone |= spoken([line])
    assert together.keys() == alone.keys()
    assert len(together) >= 4
    for key, audio in together.items():
        # Not closer: the angle of the source's spectrum jumps from pi to -pi by a rounding.
        assert (audio - alone[key]).norm() < 0.2 * audio.norm()
    torch.manual_seed(5)
    other = teacher.network.__class__(narrow_config(), voices=8).eval().requires_grad_(False)
    own = spoken(lines, Prosody(other))
    assert any(key in own and own[key].shape != audio.shape for key, audio in together.items())


def test_an_absent_voice_and_other_weights_are_named(tmp_path: Path) -> None:
    folder = make_teacher(tmp_path / "teacher")
    with pytest.raises(ValueError, match="has no voice nobody"):
        Teacher(folder, torch.device("cpu"), ["nobody"])
    path = folder / "kokoro-v1_0.safetensors"
    arrays = load_file(path)
    save_file(arrays | {"more": torch.zeros(1)}, str(path))
    with pytest.raises(ValueError, match="does not hold Kokoro's weights: more"):
        Teacher(folder, torch.device("cpu"))
