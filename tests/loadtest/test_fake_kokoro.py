"""A checkpoint of random numbers is one that the server takes for Kokoro-82M."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.config import Settings
from app.engine.catalog import Catalog
from loadtest.fake_checkpoints import main
from loadtest.official import KOKORO
from models.contract import SpeechRequest, Translator
from models.timeline import Timeline

FRAME = 0.025


@pytest.mark.timeout(1_200)
def test_the_catalog_loads_it_and_every_token_lasts_as_long(tmp_path: Path) -> None:
    assert main(["--data-dir", str(tmp_path), "--model", "kokoro-82m"]) == 0
    folder = tmp_path / "models/kokoro-82m"
    config = json.loads((folder / "config.json").read_text())
    assert {name: value for name, value in config.items() if name != "vocab"} == {
        name: value for name, value in KOKORO.items() if name != "vocab"
    }
    assert 320e6 < (folder / "model.safetensors").stat().st_size < 340e6
    model = Catalog(Settings(data_dir=tmp_path)).load("kokoro-82m")
    assert not isinstance(model, Translator)
    phonemes = "hɛlˈO wˈɜɹld"
    (chunk,) = model.stream(SpeechRequest("Hello world.", phonemes, "af_heart"), Timeline(), lambda: False)
    assert chunk is not None
    # Two tokens of silence stand around the phonemes.
    assert chunk.pcm.size == round((len(phonemes) + 2) * 3 * FRAME * model.sample_rate)
    assert chunk.phoneme_ends == pytest.approx([(place + 2) * 3 * FRAME for place in range(len(phonemes))])
    assert np.isfinite(chunk.pcm).all()
    assert 0.001 < np.abs(chunk.pcm).max() <= 1


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "models/kokoro-82m"
    folder.mkdir(parents=True)
    (folder / "mine").write_text("kept")
    assert main(["--data-dir", str(tmp_path), "--model", "kokoro-82m"]) == 1
    assert "stays as it is" in capsys.readouterr().err
    assert [file.name for file in folder.iterdir()] == ["mine"]


def test_it_has_one_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--data-dir", str(tmp_path), "--model", "kokoro-82m", "--size", "small"])
    assert left.value.code == 2
    assert "one size" in capsys.readouterr().err
