"""`nightingale interpret`, with models that hear what a test says, translate into capitals, and hum."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from app.cli import interpret
from app.main import main
from models.contract import OutsideCoverageError
from tests.app.conftest import wait_until

SPOKEN = Path(__file__).parents[2] / "golden" / "spoken.ogg"
RATE = 16_000


def test_a_recording_is_written_in_another_language_and_spoken_in_its_place(
    catalog: Any, capsys: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out.wav"
    assert main(["interpret", str(SPOKEN), "--to", "fr", "--source", "en", "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) % 2 == 0
    for source, target in zip(lines[::2], lines[1::2], strict=True):
        assert target == "→ " + source.upper()
    pcm, rate = soundfile.read(out, dtype="float32")
    assert rate == 24_000
    loud = np.flatnonzero(np.abs(pcm) > 0.1)
    # Nothing can be translated before the first sentence was spoken.
    assert loud[0] / rate > 0.4


def test_speech_goes_on_in_the_voice_of_the_recording(
    catalog: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spoken: np.ndarray
) -> None:
    """The last part comes once the voice is made: a busy machine may hear all of a recording before."""
    talk = tmp_path / "talk.wav"
    said = np.concatenate([spoken, np.zeros(2 * RATE, np.float32)])
    soundfile.write(talk, np.tile(said, 4), RATE)
    pieces, last = interpret._audio, 3 * said.size

    async def waiting(*given: Any) -> AsyncIterator[np.ndarray]:
        heard = 0
        async for piece in pieces(*given):
            if heard >= last:
                assert await asyncio.to_thread(wait_until, lambda: bool(catalog.parrot.heard))
            yield piece
            heard += piece.size

    monkeypatch.setattr(interpret, "_audio", waiting)
    arguments = ["--model", "parrot", "--clone-voice", "--consent", "--any-language", "-o", str(tmp_path / "out.wav")]
    assert main(["interpret", str(talk), "--to", "fr", "--source", "en", *arguments]) == 0
    assert catalog.parrot.heard == [5.0]
    voices = [request.voice for request in catalog.parrot.requests]
    assert voices[0] == "own"
    assert voices[-1] == "speaker"
    assert "From now on in the voice of who speaks." in capsys.readouterr().err


def test_text_alone(catalog: Any, capsys: Any) -> None:
    assert main(["interpret", str(SPOKEN), "--to", "fr", "--text"]) == 0
    assert "→ " in capsys.readouterr().out
    assert catalog.tone.begun == []


def test_bare_samples_of_standard_input(catalog: Any, capsys: Any, monkeypatch: Any, spoken: np.ndarray) -> None:
    data = (spoken * 32_767).astype("<i2").tobytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["interpret", "-", "--pcm", str(RATE), "--to", "fr", "--source", "en", "--text"]) == 0
    assert "→ EN SECOND 0." in capsys.readouterr().out


def test_the_microphone_until_it_fails(
    catalog: Any, capsys: Any, microphone: Callable[..., None], spoken: np.ndarray
) -> None:
    pieces = iter(np.array_split(spoken, 50))

    def read(_: int) -> np.ndarray:
        if (piece := next(pieces, None)) is None:
            raise RuntimeError("unplugged")
        return piece

    microphone(read)
    assert main(["interpret", "--to", "fr", "--source", "en", "--text"]) == 1
    said = capsys.readouterr()
    assert "→ EN SECOND 0." in said.out
    assert said.err.splitlines()[-1] == "nightingale: cannot record from the microphone: unplugged"


def test_a_sentence_that_cannot_be_translated_is_reported(catalog: Any, capsys: Any) -> None:
    def refuse(_: Any) -> None:
        raise OutsideCoverageError("not in the book")

    catalog.shout.check = refuse
    assert main(["interpret", str(SPOKEN), "--to", "fr", "--source", "en", "--text"]) == 1
    assert "not in the book" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--to", "Klingon", str(SPOKEN)], 2, "Klingon"),
        (["--to", "fr", str(SPOKEN), "--recognition-model", "absent-ear"], 1, "models pull absent-ear"),
        (["--to", "fr", str(SPOKEN), "--translate-model", "absent-translator"], 1, "models pull absent-translator"),
        (["--to", "fr", str(SPOKEN), "--voice", "nobody"], 2, "nobody"),
        (["--to", "fr", str(SPOKEN), "-o", "a.gif"], 2, "gif"),
        (["--to", "fr", str(SPOKEN), "--text", "-o", "a.wav"], 2, "--text speaks nothing"),
        (["--to", "fr", str(SPOKEN), "--format", "wav"], 2, "--format needs"),
        (["--to", "fr", str(SPOKEN), "--clone-voice"], 2, "say --consent"),
        (["--to", "fr", str(SPOKEN), "--clone-voice", "--consent"], 2, "accepted with 'clone_voice' are: parrot"),
        (["--to", "fr", "--pcm", "16000"], 2, "--pcm needs FILE"),
        (["--to", "fr", "no-such-file.wav"], 1, "No such file"),
        (["--to", "fr", __file__], 2, "recording"),
        (["--to", "fr", str(SPOKEN), "--pcm", "7"], 2, "whole number"),
    ],
)
def test_what_is_wrong_is_one_line(catalog: Any, capsys: Any, arguments: list[str], status: int, says: str) -> None:
    try:
        assert main(["interpret", *arguments]) == status
    except SystemExit as error:
        assert error.code == status
    lines = capsys.readouterr().err.splitlines()
    assert says in lines[-1]


def test_ctrl_c_ends_the_microphone_and_keeps_what_was_spoken(
    catalog: Any, microphone: Callable[..., None], tmp_path: Path, spoken: np.ndarray
) -> None:
    pieces = iter(np.array_split(np.tile(np.pad(spoken, RATE), 2), 120))

    def read(_: int) -> np.ndarray:
        if (piece := next(pieces, None)) is None:
            wait_until(lambda: bool(catalog.tone.computed))
            time.sleep(0.5)
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.5)
            return np.zeros(RATE // 10, np.float32)
        return piece

    microphone(read)
    out = tmp_path / "out.wav"
    assert main(["interpret", "--to", "fr", "--source", "en", "-o", str(out)]) == 130
    pcm, _ = soundfile.read(out)
    assert np.abs(pcm).max() > 0.1
