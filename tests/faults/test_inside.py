"""Faults inside the server: a failing model, one that cannot be loaded, a full disk, a clock that jumps."""

from __future__ import annotations

import io
import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from websockets.sync.client import connect

from tests.clients import clone, converse, speak
from tests.faults.server import FAIL_FIRST, FAIL_SECOND
from tests.processes import metric

TWO = "The kettle is on. The tea is nearly ready."


def test_the_model_fails_in_the_middle_of_a_chunk(victim: Any, undisturbed: Any) -> None:
    with undisturbed():
        for _ in range(2):
            failed = speak(victim.url, TWO, response_format="pcm", seed=FAIL_FIRST)
            assert (failed.status_code, failed.json()["error"]["code"]) == (500, "model_failed")
            # After the first byte the connection breaks: it never looks like a whole reply.
            with pytest.raises(httpx.RemoteProtocolError):
                speak(victim.url, TWO, response_format="pcm", seed=FAIL_SECOND)
            for seed in (FAIL_FIRST, FAIL_SECOND):
                messages = ({"type": "start", "seed": seed}, {"type": "text", "text": TWO}, {"type": "end"})
                _, (*_, last) = converse(victim.socket_url, *messages, compression=None)
                assert (last["type"], last["error"]["code"], last["fatal"]) == ("error", "model_failed", False)


def test_a_model_that_cannot_be_loaded(victim: Any, undisturbed: Any) -> None:
    listing = httpx.get(f"{victim.url}/v1/models").json()["data"]
    absent = next(entry["id"] for entry in listing if entry["id"].startswith("kokoro"))
    from app.engine.catalog import read_entries

    folder = victim.folder / "data" / "models" / absent
    for paths in read_entries()[absent].roles.values():
        path = folder / paths[0]
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\x00 these are no weights \xff" * 100)
        else:
            path.mkdir(parents=True, exist_ok=True)
            (path / "nobody.safetensors").write_bytes(b"\x00")
    with undisturbed():
        # It is tried when nobody waits for the thread; who waits longer than `queue_seconds` is told that it loads.
        while (answer := speak(victim.url, model=absent)).json()["error"]["code"] == "model_loading":
            pass
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_failed")
        assert speak(victim.url, model=absent).json()["error"]["code"] == "model_failed"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prlimit is Linux's")
def test_no_room_on_the_disk(victim: Any, undisturbed: Any) -> None:
    rng = np.random.default_rng(1)
    recording = io.BytesIO()
    soundfile.write(recording, rng.uniform(-0.5, 0.5, 24_000 * 8).astype(np.float32), 24_000, format="WAV")

    def files() -> set[Path]:
        return {path for path in (victim.folder / "data").rglob("*") if path.is_file() and path.name != ".lock"}

    kept = files()
    # No file may grow any more, the log included: the kernel says so in the middle of a write.
    soft, hard = resource.prlimit(victim.popen.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(victim.popen.pid, resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with undisturbed():
            for _ in range(5):
                refused = clone(victim.url, recording.getvalue())
                assert (refused.status_code, refused.json()["error"]["code"]) == (507, "storage_full"), refused.text
        assert files() == kept
    finally:
        resource.prlimit(victim.popen.pid, resource.RLIMIT_FSIZE, (soft, hard))
    with undisturbed():
        accepted = clone(victim.url, recording.getvalue())
        assert accepted.status_code == 200, accepted.text
        deleted = httpx.delete(f"{victim.url}/v1/audio/voices/{accepted.json()['id']}", timeout=180)
        assert deleted.status_code == 200
    assert files() == kept


def test_the_clock_jumps(victim: Any, undisturbed: Any) -> None:
    # An idle socket must live on: it was silent for a second, not for a day.
    with connect(victim.socket_url, compression=None) as idle:
        idle.send(json.dumps({"type": "start"}))
        assert json.loads(idle.recv())["type"] == "ready"
        # Leaving before `undisturbed` ends, which counts descriptors.
        victim.popen.send_signal(signal.SIGUSR1)
        victim.popen.send_signal(signal.SIGUSR2)
        idle.send(json.dumps({"type": "text", "text": "Hello world."}))
        idle.send(json.dumps({"type": "end"}))
        kinds = [json.loads(message)["type"] for message in idle if isinstance(message, str)]
        assert kinds[-1] == "done"
        assert idle.close_code == 1000
    with undisturbed():
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            victim.popen.send_signal(number)
            assert speak(victim.url, seed=3).status_code == 200
    assert metric(victim.url, "faults_clock") == -86_400
