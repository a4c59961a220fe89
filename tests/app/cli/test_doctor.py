"""`nightingale doctor` in a process of its own, on a machine that has everything and on one that lacks a compiler."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from app import __version__
from app.cli import doctor as doctor_module
from app.cli import model_checks
from app.cli.doctor import reference, run
from app.cli.model_checks import CHECK_SENTENCE, ModelCheck, check_models, check_recognizer, faults
from app.config import Settings
from app.engine.catalog import Catalog, FileCheck, Verification, pulled_record
from loadtest.fake_checkpoints import small, write
from models.backend import device_name, on_cpu
from models.chatterbox.pipeline import ChatterboxSynthesizer
from models.contract import Model, RecognizedSegment
from models.layers.kernels import agreement
from models.layers.kernels.agreement import Finding
from models.native import kernels
from tests.app.standins import Ear

TOKENS_A_SECOND = 25
# Bundled voices that are heard.
ENGLISH = ("af_heart", "am_michael", "bf_emma", "bm_fable")


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | environment,
    )


def test_report_names_device_kernels_and_models(tmp_path: Path) -> None:
    done = doctor("--quick", NIGHTINGALE_DATA_DIR=str(tmp_path))
    lines = dict(re.findall(r"^\| (\w+) \| (.+) \|$", done.stdout, re.MULTILINE))
    assert lines["version"].startswith(f"{__version__}, Python 3.")
    assert lines["device"] == device_name()
    assert lines["kernels"] == kernels.description()
    assert lines["data"] == str(tmp_path)
    assert lines["models"] == "house, phrasebook, ear"
    assert "## Models" not in done.stdout
    assert done.stdout.endswith("## Problems\n\nnone\n")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_models_are_tried_and_timed_and_wrong_files_are_a_problem(call: Any, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "data" / "models" / "kokoro-82m"
    (folder / "voices").mkdir(parents=True)
    for name in ("config.json", "kokoro-v1_0.pth", "voices/af_heart.pt"):
        (folder / name).write_bytes(b"{}")
    checked: list[ModelCheck] = []

    def check_once(*given: Any) -> list[ModelCheck]:
        checked.extend([] if checked else check_models(*given))
        return checked

    monkeypatch.setattr(model_checks, "check_models", check_once)
    done = call("doctor", "--json", "--seconds", "1")
    report = json.loads(done.stdout)
    (problem,) = report["problems"]
    assert re.match(r"kokoro-82m: \d\d files are not as pinned, such as config.json \(wrong size\), ", problem)
    assert problem.endswith(": nightingale models verify kokoro-82m")
    assert (done.returncode, done.stderr) == (1, b"")
    checks = {check["model"]: check for check in report["checks"]}
    house, phrasebook, ear = (checks[name] for name in ("house", "phrasebook", "ear"))
    assert not house["problems"] + phrasebook["problems"] + ear["problems"]
    assert [times["unit"] for times in ear["times"]]
    assert [(heard["voice"], heard["words"]) for heard in house["heard"]] == [(voice, 9) for voice in ENGLISH]
    assert sum(heard["errors"] for heard in house["heard"]) <= 8  # the card of the ear tells one word in ten
    assert [times["work"] for times in house["times"]] == ["4 characters", "12 characters", "44 characters"]
    assert [times["unit"] for times in phrasebook["times"]] == ["tokens"]
    assert re.fullmatch(r"\d+ to \d+ tokens", phrasebook["times"][0]["work"])
    for times in house["times"] + phrasebook["times"]:
        assert 0 < times["median"] <= times["worst"]
        assert times["first"] > 0
        assert 1 <= times["runs"] <= 50
        assert times["amount"] > 0
    plain = call("doctor", "--seconds", "1").stdout.decode()
    assert re.search(
        r"^\| house \| [\d.]+ s \| 12 characters \|( [\d.]+ \|){3} \d+ \| [\d.]+ s \|", plain, re.MULTILINE
    )


def test_a_model_that_breaks_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(catalog: Catalog, name: str) -> Model:
        raise RuntimeError(f"no kernel for {name}")

    monkeypatch.setattr(Catalog, "load", broken)
    house, phrasebook, ear = check_models(Settings(data_dir=tmp_path), 1, lambda name: None)
    assert house.problems[0].startswith("house: ")
    assert ear.problems == ("ear: RuntimeError: no kernel for ear",)
    assert phrasebook.problems == ("phrasebook: RuntimeError: no kernel for phrasebook",)


@pytest.mark.slow
def test_a_recognizer_hears_the_same_twice(make_catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = make_catalog()
    check = check_recognizer(catalog, "ear", 0.01)
    assert (check.model, check.problems) == ("ear", ())
    assert [request.pcm.size for request in catalog.ear.requests[:2]] == [48_000, 48_000]
    (times,) = check.times
    assert (times.amount, times.unit) == (3.0, "s")
    numbers = iter(range(1_000))
    monkeypatch.setattr(type(catalog.ear), "_segment", lambda *_: RecognizedSegment(0.0, 1.0, str(next(numbers)), "en"))
    assert "something else" in check_recognizer(catalog, "ear", 0.01).problems[0]


def test_a_model_of_tokens_speaks_a_known_number_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "models" / "chatterbox-turbo", "chatterbox-turbo", small("chatterbox-turbo"))
    whole = Catalog(Settings(data_dir=tmp_path)).verify("house")
    monkeypatch.setattr(Catalog, "verify", lambda catalog, name: whole)  # random numbers have no pinned checksums
    monkeypatch.setattr(model_checks, "TIMED", model_checks.TIMED[:1])  # random numbers find no end of a sentence
    monkeypatch.setattr(model_checks, "CHECK_SENTENCES", ())
    monkeypatch.setitem(ChatterboxSynthesizer._stream.__kwdefaults__, "limit", 120)
    monkeypatch.setattr(
        model_checks, "_Ear", lambda _: SimpleNamespace(judges=lambda _: False)
    )  # nobody listens to them
    checks = {check.model: check for check in check_models(Settings(data_dir=tmp_path), 0.2, lambda name: None)}
    assert "102 speech tokens" not in {times.work for times in checks["house"].times}
    times = checks["chatterbox-turbo"].times[-1]
    assert times.work == "102 speech tokens"
    assert 102 <= times.amount * TOKENS_A_SECOND <= 106  # Turbo ends in three tokens of silence
    assert times.first_audio is not None
    assert times.token is not None
    assert 0 < times.first_audio < times.worst
    assert 0 < times.token * 102 < times.worst


def test_kernels_of_a_gpu_are_told_with_the_reason(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    findings = [Finding("the BiLSTM's kernel", True, ""), Finding("T3's step", False, "cannot be built here: no room")]
    monkeypatch.setattr(agreement, "report", lambda: findings)
    run(argparse.Namespace(quick=True, json=False), Settings())
    assert (
        "| gpu kernels | the BiLSTM's kernel, T3's step: left out, cannot be built here: no room |"
        in capsys.readouterr().out.splitlines()
    )


@pytest.mark.parametrize(
    ("pcm", "fault"),
    [
        (np.zeros(0), "has no sound"),
        (np.full(24_000, np.nan), "has numbers that are not finite"),
        (np.full(24_000, 1e-4), "is almost silent (-80 dBFS)"),
        (np.full(24_000, 1.0), "is clipped"),
        (np.full(1_200, 0.1), "takes 0.1 s for 12 characters"),
        (np.full(240_000, 0.1), "takes 10.0 s for 12 characters"),
    ],
)
def test_faults_of_a_sound(pcm: npt.NDArray[np.float64], fault: str) -> None:
    assert faults(pcm.astype(np.float32), 24_000, "Hello world.") == [fault]


def test_a_good_sound_has_no_fault() -> None:
    assert faults(np.full(24_000, 0.1, np.float32), 24_000, "Hello world.") == []


def test_a_mac_is_compared_with_published_times() -> None:
    name, times = reference({"device": "gpu (Apple M3)", "processor": "Apple M3"})
    assert name == "M4 Max, published"
    assert times["kokoro-82m"] == {"4 characters": 50, "12 characters": 50, "44 characters": 91}
    assert reference({"device": "gpu (NVIDIA H200)", "processor": "Some processor"})[0] == "H200, this project"
    assert reference({"device": "cpu (x86_64, 2 cores, OpenBLAS)", "processor": "Some processor"}) == ("", {})


@pytest.mark.skipif(sys.platform != "linux" or not on_cpu(), reason="concerns MLX's CPU back end on Linux")
def test_missing_compiler_is_a_problem(tmp_path: Path) -> None:
    done = doctor("--json", "--quick", PATH="/nowhere", XDG_CACHE_HOME=str(tmp_path))
    report = json.loads(done.stdout)
    assert report["kernels"] == "mlx"
    assert [("OpenBLAS" in problem, "native kernels" in problem) for problem in report["problems"]] == [
        (True, False),
        (False, True),
    ]
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(sys.platform != "linux" or not on_cpu(), reason="concerns MLX's CPU back end on Linux")
def test_kernels_that_are_turned_off_are_no_problem() -> None:
    done = doctor("--json", "--quick", NATIVE_KERNELS="off")
    assert json.loads(done.stdout)["kernels"] == "mlx"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("pulled", "said", "expected"),
    [
        ([], (), ()),
        ([], ("is silent",), ("2 files are not as pinned, such as a.pt (wrong size), b.pt (missing); is silent",)),
        (["a.pt"], (), ("2 files are not as pinned, such as a.pt (wrong size), b.pt (missing)",)),
    ],
)
def test_what_is_installed_is_tried_pinned_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pulled: list[str], said: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    folder = tmp_path / "models" / "house"
    pulled_record(folder).parent.mkdir()
    pulled_record(folder).write_text(json.dumps(pulled))
    files = (FileCheck("a.pt", "wrong size"), FileCheck("b.pt", "missing"), FileCheck("c.pt", "ok"))
    monkeypatch.setattr(Catalog, "verify", lambda _, name: Verification(name, folder, files))
    problems = tuple(f"house: {each}" for each in said)
    monkeypatch.setattr(model_checks, "_tried", lambda _, __, model, *___: ModelCheck(model.name, 1.0, (), problems))
    house = check_models(Settings(data_dir=tmp_path), 1.0, lambda name: None)[0]
    assert house.load == 1.0
    assert house.problems == tuple(f"house: {each}: nightingale models verify house" for each in expected)


def an_ear(model: Ear) -> model_checks._Ear:
    """The only recognizer of a catalog."""
    return model_checks._Ear(
        SimpleNamespace(  # type: ignore[arg-type]
            default_recognizer=lambda: "ear",
            present=lambda name: name == "ear",
            judges=lambda name, model: True,
            load=lambda name: model,
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wrong"), [(CHECK_SENTENCE, 0), ("The train to the city.", 4), ("Nobody is here.", 9)]
)
def test_each_voice_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, wrong: int) -> None:
    ear = Ear(says=[text] * 4)
    heard = an_ear(ear)
    monkeypatch.setattr(model_checks, "_Ear", lambda _: heard)
    monkeypatch.setattr(model_checks, "TIMED", model_checks.TIMED[:1])
    monkeypatch.setattr(model_checks, "CHECK_SENTENCES", ())
    house = next(each for each in check_models(Settings(data_dir=tmp_path), 1.0, lambda name: None) if each.heard)
    assert [(one.voice, one.text, one.words, one.errors) for one in house.heard] == [
        (voice, text, 9, wrong) for voice in ENGLISH
    ]
    assert len(house.problems) == (4 if wrong == 9 else 0)
    assert all(f"ear hears voice {voice} say" in each for voice, each in zip(ENGLISH, house.problems, strict=False))
    assert [10_000 < request.pcm.size < 160_000 for request in ear.requests] == [True] * 4
    report = doctor_module._markdown({"device": "", "processor": ""}, [house], [])
    assert f"| house | af_heart | {wrong} of 9 | {text} |" in report
