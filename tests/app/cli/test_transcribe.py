"""`nightingale transcribe`, with a recognizer that hears a segment a second."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.main import main
from tests.app.audio.recordings import tone, written

TEXT = "en second 0. en second 1. en second 2."


@pytest.fixture
def catalog(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Models without a gate: a tone is heard."""
    monkeypatch.setenv("NIGHTINGALE_RECOGNITION_GATE", "false")
    return catalog


@pytest.fixture
def recording(tmp_path: Path) -> str:
    file = tmp_path / "a.wav"
    file.write_bytes(written(tone(2.5, 16_000), 16_000))
    return str(file)


def test_a_file_is_written_down(catalog: Any, recording: str, capsys: Any) -> None:
    assert main(["transcribe", recording]) == 0
    assert capsys.readouterr().out == TEXT + "\n"
    (request,) = catalog.ear.requests
    assert (request.language, request.task, request.word_times) == (None, "transcribe", False)


def test_the_options_reach_the_model(catalog: Any, recording: str, capsys: Any) -> None:
    options = ["--model", "ear", "--language", "French", "--task", "translate", "--prompt", "A talk.", "--words"]
    assert main(["transcribe", recording, *options, "--temperature", "0.5", "--format", "verbose_json"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n")
    body = json.loads(out)
    assert (body["task"], body["language"], len(body["words"]), len(body["segments"])) == ("translate", "english", 9, 3)
    (request,) = catalog.ear.requests
    assert (request.language, request.prompt, request.temperature) == ("fr", "A talk.", 0.5)


def test_standard_input(catalog: Any, recording: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(recording).read_bytes())))
    assert main(["transcribe", "-"]) == 0
    assert capsys.readouterr().out == TEXT + "\n"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["absent.wav"], 1, "absent.wav: No such file"),
        (["{}", "--model", "absent-ear"], 1, "nightingale models pull absent-ear"),
        (["{}", "--model", "tone"], 2, "speaks"),
        (["{}", "--model", "hal"], 2, "'hal'"),
        (["{}", "--language", "klingon"], 2, "klingon"),
        ([__file__], 2, "cannot be read"),
        (["{}", "--prompt", "broken"], 1, "failed"),
    ],
)
def test_failures_are_one_line(
    catalog: Any, recording: str, capsys: Any, arguments: list[str], status: int, says: str
) -> None:
    assert main(["transcribe", *(each.format(recording) for each in arguments)]) == status
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_the_microphone_until_the_first_pause(
    catalog: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch, microphone: Callable[..., None], spoken: np.ndarray
) -> None:
    """It hears a sentence after a second, then silence without end."""
    left = [np.concatenate([np.zeros(16_000, np.float32), spoken, np.zeros(100 * 16_000, np.float32)])]

    def read(size: int) -> np.ndarray:
        piece, left[0] = left[0][:size], left[0][size:]
        return piece

    microphone(read)
    assert main(["transcribe", "--mic"]) == 0
    assert capsys.readouterr().out.startswith("en second 0.")
    (request,) = catalog.ear.requests
    # A second of silence, 5.6 of speech, and the pause.
    assert request.pcm.size / 16_000 == pytest.approx(1 + 5.6 + 1, abs=0.4)

    def fail(**_: object) -> None:
        raise RuntimeError("no such device")

    monkeypatch.setattr(sys.modules["sounddevice"], "InputStream", fail)
    assert main(["transcribe", "--mic"]) == 1
    assert "cannot record from the microphone: no such device" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert main(["transcribe", "--mic"]) == 1
    assert "nightingale extras install play" in capsys.readouterr().err
    for wrong in (["transcribe"], ["transcribe", "--mic", "a.wav"]):
        assert main(wrong) == 2
        assert "either FILE or --mic" in capsys.readouterr().err


def test_a_file_that_is_too_large(catalog: Any, recording: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTINGALE_MAX_RECORDING_BYTES", "2048")
    assert main(["transcribe", recording]) == 2
    assert "at most 2048 bytes" in capsys.readouterr().err
