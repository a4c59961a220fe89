"""Transcriptions by the ear in the box: speech behind silence, times of first words, and voices that it cannot know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from app.config import Settings
from app.engine.catalog import Catalog
from app.main import main
from tests.app.audio.recordings import written
from tests.app.conftest import Running, ToneCatalog, start, stop

RATE = 16_000
PERSON = Path(__file__).parents[3] / "golden" / "person.ogg"
TEXT = "Please open the window and close the door. She has been in the city for twenty years."


@pytest.fixture(scope="module")
def hears() -> Iterator[Running]:
    running = start(Settings(), ToneCatalog(recognizer="ear", load_ear=lambda: Catalog(Settings()).load("ear")))
    yield running
    stop(running)


@pytest.fixture(scope="module")
def person() -> np.ndarray:
    return soundfile.read(PERSON, dtype="float32")[0]


def ask(server: Any, pcm: np.ndarray, response_format: str = "verbose_json", **fields: object) -> httpx.Response:
    data = {"response_format": response_format, "timestamp_granularities[]": ["word", "segment"]} | fields
    if response_format != "verbose_json":
        del data["timestamp_granularities[]"]
    files = {"file": ("a.wav", written(pcm, RATE))}
    found = httpx.post(server.url + "/v1/audio/transcriptions", data=data, files=files, timeout=60)
    assert found.status_code == 200, found.text
    return found


def heard(body: dict[str, Any]) -> str:
    """The text, of which one word may be another that sounds the same."""
    return str(body["text"]).replace("four", "for")


def silence(seconds: float, level: float = 0.0) -> np.ndarray:
    return (level * np.random.default_rng(0).standard_normal(round(seconds * RATE))).astype(np.float32)


@pytest.mark.parametrize("strategy", [{}, {"chunking_strategy": "auto"}], ids=["whole", "cut"])
@pytest.mark.parametrize(("seconds", "level"), [(1.0, 0.0), (3.0, 0.0), (8.0, 0.0), (10.0, 0.001), (27.0, 0.0)])
def test_speech_behind_silence_is_heard_and_begins_where_it_sounds(
    hears: Running, spoken: np.ndarray, seconds: float, level: float, strategy: dict[str, str]
) -> None:
    pcm = np.concatenate([silence(seconds, level), spoken])
    body = ask(hears, pcm, **strategy).json()
    assert heard(body) == TEXT
    first, second = body["words"][:2]
    assert first["start"] == pytest.approx(seconds, abs=0.15)
    assert first["start"] < first["end"] <= second["start"]
    assert body["segments"][0]["start"] == first["start"]
    cue = ask(hears, pcm, "srt", **strategy).text.split("\n")[1]
    assert float(cue[6:12].replace(",", ".")) == pytest.approx(seconds, abs=0.15)


@pytest.mark.parametrize("strategy", [{}, {"chunking_strategy": "auto"}], ids=["whole", "cut"])
@pytest.mark.parametrize("gap", [4.0, 12.0, 40.0])
def test_speech_behind_a_gap_is_heard(hears: Running, spoken: np.ndarray, gap: float, strategy: dict[str, str]) -> None:
    body = ask(hears, np.concatenate([spoken, silence(gap), spoken, silence(15)]), **strategy).json()
    assert heard(body) == f"{TEXT} {TEXT}"
    assert body["segments"][2]["start"] == pytest.approx(spoken.size / RATE + gap, abs=0.15)


def test_channels_of_opposite_phase_are_heard(hears: Running, spoken: np.ndarray) -> None:
    assert heard(ask(hears, np.stack([spoken, -spoken], axis=1), "json").json()) == TEXT


def test_a_person_is_not_written_down_but_told_how(hears: Running, person: np.ndarray, spoken: np.ndarray) -> None:
    for form in ("json", "verbose_json"):
        found = ask(hears, person, form)
        assert found.json()["text"] == ""
        assert "install whisper-base" in found.json()["warning"]
        assert found.headers["x-warning"] == found.json()["warning"]
    for form, empty in (("text", "\n"), ("vtt", "WEBVTT\n")):
        found = ask(hears, person, form)
        assert (found.text, "people" in found.headers["x-warning"]) == (empty, True)
    # Comments that keep the connection may come before the event.
    done = json.loads(ask(hears, person, "json", stream="true").text.partition("data: ")[2].partition("\n\n")[0])
    assert (done["type"], done["text"], "people" in done["warning"]) == ("transcript.text.done", "", True)
    listened = httpx.post(hears.url + "/v1/listen", content=written(person, RATE), timeout=60)
    assert "people" in listened.headers["x-warning"]
    sure = ask(hears, spoken)
    assert "warning" not in sure.json()
    assert "x-warning" not in sure.headers
    # Where only a part is a person's, the rest is written down.
    both = ask(hears, np.concatenate([spoken, silence(4), person]), "json").json()
    assert heard(both) == TEXT
    assert "people" in both["warning"]


def test_the_command_line_warns_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("NIGHTINGALE_DATA_DIR", str(tmp_path))
    assert main(["transcribe", str(PERSON)]) == 0
    out, error = capsys.readouterr()
    assert out == "\n"
    assert "hf download openai/whisper-base config.json" in error
    assert error.count("\n") == 1
