"""Bundled models that come and go in a server process: their memory returns, and they work again."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

WAIT = {"prefer": "wait"}
SPEECH = {"input": "The kettle is on, and the tea is nearly ready."}
TEXT = {"text": "Where is the train station?", "target": "fr", "model": "phrasebook"}
SOUND = {"file": (Path(__file__).parents[1] / "golden" / "spoken.ogg").read_bytes()}
# Most bytes of MLX's arrays without a model: constants of its layers.
CONSTANTS = 1 << 20
# Least bytes of the process that the house voice needs.
LEAST = 15 << 20


def gauge(url: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)", httpx.get(f"{url}/metrics").text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def until_unloaded(url: str) -> None:
    """Wait until no model is in memory, and the memory is back."""
    deadline = time.monotonic() + 60
    while gauge(url, "nightingale_models_loaded") or gauge(url, "nightingale_mlx_active_memory_bytes") > CONSTANTS:
        assert time.monotonic() < deadline, httpx.get(f"{url}/v1/models").text
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process does not report its memory")
@pytest.mark.timeout(600)
def test_memory_returns_when_models_go(run_house: Callable[..., AbstractContextManager[str]], tmp_path: Path) -> None:
    with run_house(tmp_path, NIGHTINGALE_IDLE_UNLOAD_SECONDS="1") as url:
        until_unloaded(url)  # those that are loaded at the start
        spoken = []
        resident = []
        for _ in range(4):
            answer = httpx.post(f"{url}/v1/audio/speech", json=SPEECH, headers=WAIT, timeout=200)
            assert answer.status_code == 200, answer.text
            spoken.append(answer.content)
            translated = httpx.post(f"{url}/v1/translate", json=TEXT, headers=WAIT, timeout=200)
            assert translated.status_code == 200, translated.text
            full = gauge(url, "process_resident_memory_bytes")
            until_unloaded(url)
            resident.append(gauge(url, "process_resident_memory_bytes"))
            assert resident[-1] < full - LEAST
        assert spoken[1:] == spoken[:-1]
        # Nothing more is left behind each time. The first round is apart: on a busy machine the voice goes before the
        # translator comes, and what remains of both together appears in the second.
        assert resident[3] < resident[1] + LEAST, resident
        assert httpx.get(f"{url}/readyz").status_code == 200


@pytest.mark.timeout(600)
def test_a_budget_for_one_model(run_house: Callable[..., AbstractContextManager[str]], tmp_path: Path) -> None:
    with run_house(tmp_path, NIGHTINGALE_MEMORY_BUDGET="60 MB") as url:
        for _ in range(2):
            answer = httpx.post(f"{url}/v1/audio/speech", json=SPEECH, headers=WAIT, timeout=200)
            assert answer.status_code == 200, answer.text
            assert httpx.get(f"{url}/v1/models/house").json()["status"] == "ready"
            answer = httpx.post(f"{url}/v1/audio/transcriptions", data={"model": "ear"}, files=SOUND, headers=WAIT)
            assert answer.status_code == 200, answer.text
            assert "close the door" in answer.json()["text"]
            entries = {entry["id"]: entry for entry in httpx.get(f"{url}/v1/models").json()["data"]}
            assert (entries["house"]["status"], entries["ear"]["status"]) == ("available", "ready")
            assert 0 < gauge(url, "nightingale_mlx_active_memory_bytes") < 60e6
