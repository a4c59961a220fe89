"""The layout that the product loads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from training.export import CONFIG, MODEL, VOICE_FILE, VOICE_TABLE, main, pack, unpack
from training.voices import VOICES

HOUSE = Path(__file__).parents[2] / "models/house"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"style_dim": 4}), encoding="utf-8")
    return path


def test_three_files_are_written(tmp_path: Path, config: Path) -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((len(VOICES), 8)).astype(np.float32)
    weight = rng.standard_normal((3, 5, 2)).astype(np.float32)
    pack({"decoder.x.weight_v": weight, VOICE_TABLE: table}, config, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [CONFIG, MODEL, VOICE_FILE]
    weights = mx.load(str(tmp_path / "out" / MODEL))
    assert list(weights) == ["decoder.x.weight_v"]
    assert weights["decoder.x.weight_v"].dtype == mx.float16
    assert np.array_equal(np.array(weights["decoder.x.weight_v"]), weight.astype(np.float16))
    voices = mx.load(str(tmp_path / "out" / VOICE_FILE))
    assert sorted(voices) == sorted(VOICES)
    assert voices["am_michael"].dtype == mx.float32
    assert np.array_equal(np.array(voices["am_michael"]), table[1:2])
    assert json.loads((tmp_path / "out" / CONFIG).read_text(encoding="utf-8")) == {"style_dim": 4}


@pytest.mark.parametrize("shape", [(2, 6), (1, 8), None])
def test_a_wrong_voice_table_is_named(tmp_path: Path, config: Path, shape: tuple[int, int] | None) -> None:
    arrays = {} if shape is None else {VOICE_TABLE: np.zeros(shape, np.float32)}
    with pytest.raises(ValueError, match=r"voices.weight must be \(8, 8\) for af_heart, am_michael"):
        pack(arrays, config, tmp_path / "out")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6])
def test_what_float16_cannot_hold_is_refused(tmp_path: Path, config: Path, value: float) -> None:
    arrays = {VOICE_TABLE: np.zeros((len(VOICES), 8), np.float32), "x": np.array([1.0, value], np.float32)}
    with pytest.raises(ValueError, match="x is not finite in float16"):
        pack(arrays, config, tmp_path / "out")


def test_the_shipped_voice_survives_the_round_trip(tmp_path: Path) -> None:
    npz, out = tmp_path / "init.npz", tmp_path / "out"
    main(["--unpack", str(HOUSE), str(npz)])
    main(["--config", str(HOUSE / CONFIG), str(npz), str(out)])
    before, after = unpack(HOUSE), unpack(out)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert (out / CONFIG).read_bytes() == (HOUSE / CONFIG).read_bytes()


def test_exporting_beside_its_own_config_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(HOUSE, folder)
    pack(unpack(folder), folder / CONFIG, folder)
    assert (folder / CONFIG).read_bytes() == (HOUSE / CONFIG).read_bytes()
