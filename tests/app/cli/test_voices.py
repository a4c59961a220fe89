"""`nightingale voices` as a person uses it, and a server beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from tests.app.cli.conftest import one_line


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "ada.flac"
    soundfile.write(path, 0.4 * np.sin(2 * np.pi * 700 * np.arange(48_000) / 16_000), 16_000)
    return str(path)


def test_a_voice_is_added_listed_spoken_in_and_removed(
    call: Any, recording: str, start_server: Any, tmp_path: Path
) -> None:
    added = call("voices", "add", "Ada", recording, "--consent", "--lang", "en", "--gender", "female")
    assert (added.returncode, added.stderr) == (0, b"")
    voice = added.stdout.decode().strip()
    assert re.fullmatch("voice_[0-9a-f]{24}", voice)
    assert call("voices", "list").stdout.decode() == f"{voice} Ada (3 s, en-us, female)\n"
    (listed,) = json.loads(call("voices", "list", "--json").stdout)
    assert listed.pop("created") > 1_700_000_000
    said = {"name": "Ada", "seconds": 3.0, "language": "en-us", "gender": "female", "owner": None}
    assert listed == {"id": voice, **said}
    # A server that runs already sees it, and that it is gone.
    server = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",))
    body = {"input": "Hello there.", "model": "parrot", "voice": voice, "response_format": "pcm"}
    assert httpx.post(server.url + "/v1/audio/speech", json=body).status_code == 200
    assert call("voices", "remove", voice).returncode == 0
    assert httpx.post(server.url + "/v1/audio/speech", json=body).status_code == 400
    assert call("voices", "list").stdout == b""


def test_what_is_too_long_is_cut_and_said(call: Any, recording: str) -> None:
    added = call("voices", "add", "Ada", recording, "--consent", NIGHTINGALE_VOICE_SECONDS="2")
    assert added.returncode == 0
    assert b"first 2 seconds" in added.stderr


@pytest.mark.parametrize(
    ("arguments", "variables", "status", "says"),
    [
        (["voices", "add", "Ada", "{file}"], {}, 2, "--consent"),
        (["voices", "add", "", "{file}", "--consent"], {}, 2, "'name'"),
        (["voices", "add", "Ada", "{file}", "--consent", "--lang", "klingon"], {}, 2, "accepted are"),
        (["voices", "add", "Ada", "{file}", "--consent", "--gender", "robot"], {}, 2, "--gender"),
        (["voices", "add", "Ada", "{file}.none", "--consent"], {}, 1, "No such file"),
        (["voices", "add", "Ada", __file__, "--consent"], {}, 2, "cannot be read"),
        (["voices", "add", "Ada", "{file}", "--consent"], {"NIGHTINGALE_MAX_UPLOAD_BYTES": "1024"}, 2, "1024 bytes"),
        (["voices", "add", "Ada", "{file}", "--consent"], {"NIGHTINGALE_MAX_VOICES": "0"}, 2, "kept already"),
        (["voices", "remove", "voice_1", "../x"], {}, 2, "no such voice: voice_1, ../x"),
        (["voices"], {}, 2, "ACTION"),
        (["say", "Hi.", "--temperature", "9"], {}, 2, "'9' is not a number from 0 to 5"),
        (["say", "Hi.", "--repetition-penalty", "0"], {}, 2, "from 1 to 3"),
        (["say", "Hi.", "--model", "house", "--exaggeration", "0.5", "-o", "-"], {}, 2, "takes no 'exaggeration'"),
    ],
)  # fmt: skip
def test_failures_are_one_line(
    call: Any, recording: str, arguments: list[str], variables: dict[str, str], status: int, says: str
) -> None:
    done = call(*(argument.replace("{file}", recording) for argument in arguments), **variables)
    assert done.stdout == b""
    assert says in one_line(done, status)
