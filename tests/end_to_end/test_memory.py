"""The memory of a server process: that of models that come and go returns, and little is left behind by requests."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest

from tests.clients import SPOKEN
from tests.processes import metric, serve, wait_until

WAIT = {"prefer": "wait"}
SPEECH = {"input": "The kettle is on, and the tea is nearly ready."}
TEXT = {"text": "Where is the train station?", "target": "fr", "model": "phrasebook"}
RESIDENT = "process_resident_memory_bytes"
# Most bytes of MLX's arrays without a model: constants of its layers.
CONSTANTS = 1 << 20
# Least bytes of the process that come back with the house voice, and most that may be left behind later.
MIN_FREED, LEFT = 8 << 20, 15 << 20
# Most bytes of a process that has nothing to do.
MAX_RESIDENT = 350 << 20
SHORT = ["Hello.", "Yes, please.", "Where did you put the keys?", "The kettle is on, and the tea is nearly ready."]
LONG = (
    "When the old bridge was closed for repairs last winter, the people of both villages took the ferry instead, and "
    "some of them found that they liked the slow crossing better than the drive. "
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process does not report its memory")


def post(url: str, path: str, **content: object) -> httpx.Response:
    answer = httpx.post(url + path, headers=WAIT, timeout=200, **content)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return answer


def until_unloaded(url: str) -> None:
    """Wait until no model is in memory, and the memory is back."""
    wait_until(
        lambda: (
            not metric(url, "nightingale_models_loaded")
            and metric(url, "nightingale_mlx_active_memory_bytes") <= CONSTANTS
        ),
        lambda: httpx.get(f"{url}/v1/models").text,
    )


@linux
@pytest.mark.timeout(600)
def test_memory_returns_when_models_go(tmp_path: Path) -> None:
    with serve(tmp_path, NIGHTINGALE_IDLE_UNLOAD_SECONDS="1") as server:
        url = server.url
        until_unloaded(url)  # those that are loaded at the start
        spoken = []
        resident = []
        for _ in range(4):
            spoken.append(post(url, "/v1/audio/speech", json=SPEECH).content)
            # On a busy machine the voice goes before the translator comes: its memory is read while it is there.
            with_voice = metric(url, RESIDENT)
            post(url, "/v1/translate", json=TEXT)
            full = max(with_voice, metric(url, RESIDENT))
            until_unloaded(url)
            resident.append(metric(url, RESIDENT))
            assert resident[-1] < full - MIN_FREED
        assert spoken[1:] == spoken[:-1]
        # Nothing more is left behind each time. The first round is apart: where the voice goes before the translator
        # comes, what remains of both together appears in the second.
        assert resident[3] < resident[1] + LEFT, resident
        assert httpx.get(f"{url}/readyz").status_code == 200


@linux
@pytest.mark.timeout(1_800)
def test_a_budget_for_one_model_and_a_mix_that_leaves_little_behind(tmp_path: Path) -> None:
    with serve(tmp_path, NIGHTINGALE_MEMORY_BUDGET="60 MB") as server:
        url = server.url
        for _ in range(2):
            post(url, "/v1/audio/speech", json=SPEECH)
            assert httpx.get(f"{url}/v1/models/house").json()["status"] == "ready"
            answer = post(url, "/v1/audio/transcriptions", data={"model": "ear"}, files={"file": SPOKEN.read_bytes()})
            assert "close the door" in answer.json()["text"]
            entries = {entry["id"]: entry for entry in httpx.get(f"{url}/v1/models").json()["data"]}
            assert (entries["house"]["status"], entries["ear"]["status"]) == ("available", "ready")
            assert 0 < metric(url, "nightingale_mlx_active_memory_bytes") < 60e6
        # The house voice comes again, and stays.
        texts = [*SHORT, LONG, *SHORT, LONG * 2, *SHORT, *(f"{LONG[:90]} {text}" for text in SHORT), *SHORT[:3]]
        assert len(texts) > 20
        for at, text in enumerate(texts):
            body = {"voice": ("am_michael", "af_heart")[at % 2], "response_format": ("wav", "mp3", "opus")[at % 3]}
            post(url, "/v1/audio/speech", json={"input": text} | body)
        wait_until(lambda: 0 < metric(url, RESIDENT) <= MAX_RESIDENT, lambda: f"{metric(url, RESIDENT)} bytes are left")
