"""Probes and metrics over a real socket."""

import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.text import planner
from models.contract import AudioChunk, Voice


def samples(server: Any, name: str = "") -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the samples whose names begin with `name`: to parse all of them takes half a second."""
    text = "".join(f"{line}\n" for line in server.metrics().splitlines() if line.startswith(name))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(server: Any, name: str, **labels: str) -> float:
    return samples(server, name).get((name, frozenset(labels.items())), 0.0)


OPENAI = {"model": "tone", "surface": "openai", "streaming": "false"}


def speak(server: Any, prefer: str = "wait", **body: object) -> httpx.Response:
    return httpx.post(server.url + "/v1/audio/speech", json=body, headers={"prefer": prefer}, timeout=60)


def test_livez_reports_the_heartbeat(server: Any, wait_until: Any) -> None:
    def age() -> float:
        response = httpx.get(server.url + "/livez")
        assert response.status_code == 200
        return float(response.json()["heartbeat_age_seconds"])

    # An idle thread beats twice a second; a busy machine may be late for once.
    assert wait_until(lambda: 0 <= age() < 1.5)


def test_livez_fails_when_the_model_thread_is_stuck(start_server: Any, tone: Any, wait_until: Any, leave: Any) -> None:
    running = start_server(tone=tone, liveness_seconds=0.8)
    body = {"input": "Hi.", "voice": "hung"}
    leave(running.url + "/v1/audio/speech", body, lambda: tone.begun)
    assert wait_until(lambda: httpx.get(running.url + "/livez").status_code == 503)
    assert httpx.get(running.url + "/livez").json()["status"] == "stuck"
    tone.gate.set()
    assert wait_until(lambda: httpx.get(running.url + "/livez").status_code == 200)


def test_readyz_shows_the_warm_up_and_then_says_yes(start_server: Any, tone: Any, wait_until: Any) -> None:
    tone.warm_gate = threading.Semaphore(0)
    running = start_server(tone=tone, ready=False, queue_seconds=0.5)

    def model() -> dict[str, Any]:
        response = httpx.get(running.url + "/readyz")
        assert (response.status_code, response.json()["status"]) == (503, "starting")
        (found,) = response.json()["models"]
        assert isinstance(found, dict)
        return found

    for done in (1, 2):
        tone.warm_gate.release()
        assert wait_until(lambda done=done: model().get("warm", {}).get("done") == done)
        assert model()["status"] == "warming"
        assert model()["warm"] == {"done": done, "total": 3, "last": f"bucket {done - 1}", "last_seconds": 0.0}
    assert value(running, "nightingale_ready") == 0
    refused = speak(running, "wait=0", input="Hi.")
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "model_loading"
    assert "2 of 3" in refused.json()["error"]["message"]
    assert refused.headers["retry-after"]
    tone.warm_gate.release()
    assert wait_until(lambda: httpx.get(running.url + "/readyz").status_code == 200)
    assert value(running, "nightingale_ready") == 1
    assert value(running, "nightingale_warmup_seconds", model="tone") > 0
    assert speak(running, input="Hi.").status_code == 200


def test_the_languages_of_the_default_model_s_voices_are_made_ready(
    start_server: Any, tone: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "_made", {})
    tone.voices += (Voice("breton", "br", "female"), Voice("alto", "it", "female"))
    start_server(tone=tone)
    assert wait_until(lambda: planner.made_phonemizer("it") is not None)


def test_a_model_that_does_not_load_stops_readiness_and_tells_no_path(
    start_server: Any, caplog: Any, wait_until: Any
) -> None:
    running = start_server(preload=("corrupt",), ready=False)
    assert wait_until(lambda: httpx.get(running.url + "/readyz").json()["status"] == "failed")
    refused = httpx.get(running.url + "/readyz")
    assert refused.status_code == 503
    (corrupt,) = (model for model in refused.json()["models"] if model["name"] == "corrupt")
    assert corrupt["error"] == "a.safetensors: array 'a' has shape (1,), expected (2,)"
    told = speak(running, input="Hi.", model="corrupt")
    assert (told.status_code, told.json()["error"]["code"]) == (500, "model_failed")
    for answer in (refused, told, httpx.get(running.url + "/v1/models"), httpx.get(running.url + "/readyz")):
        assert "secret" not in answer.text and "/srv" not in answer.text
    assert "/srv/secret place/corrupt/a.safetensors" in caplog.text


@pytest.mark.parametrize(
    ("voice", "says"),
    [
        ("stedy", "'stedy': Unknown voice 'stedy'; accepted are: steady"),
        ("voice_" + "0" * 24, "cannot speak in a cloned"),
    ],
)
def test_a_default_voice_that_is_none_stops_readiness(
    start_server: Any, wait_until: Any, voice: str, says: str
) -> None:
    running = start_server(default_voice=voice, ready=False)
    assert wait_until(lambda: httpx.get(running.url + "/readyz").json()["status"] == "failed")
    refused = httpx.get(running.url + "/readyz")
    assert refused.status_code == 503
    (tone,) = refused.json()["models"]
    assert tone["status"] == "failed"
    assert "setting 'default_voice'" in tone["error"]
    assert says in tone["error"]


@pytest.mark.parametrize("voice", ["silky", "alloy"])
def test_a_default_voice_that_there_is(start_server: Any, voice: str) -> None:
    assert speak(start_server(default_voice=voice), input="Hi.").status_code == 200


def test_one_request_is_recorded_once_and_agrees_with_its_header(server: Any, wait_until: Any) -> None:
    stages = ("queue", "g2p", "decoder", "audio_encode")
    before = {stage: value(server, "nightingale_stage_duration_seconds_sum", stage=stage, **OPENAI) for stage in stages}
    counts = {
        stage: value(server, "nightingale_stage_duration_seconds_count", stage=stage, **OPENAI) for stage in stages
    }
    requests = value(server, "nightingale_requests_total", outcome="ok", **OPENAI)
    audio = value(server, "nightingale_audio_seconds_total", **OPENAI)
    response = speak(server, input="Hello world.")
    header = dict(part.split(";dur=") for part in response.headers["server-timing"].split(", "))
    # The client has the last byte before the server has counted.
    assert wait_until(lambda: value(server, "nightingale_requests_total", outcome="ok", **OPENAI) == requests + 1)
    for stage in stages:
        seconds = value(server, "nightingale_stage_duration_seconds_sum", stage=stage, **OPENAI) - before[stage]
        assert abs(seconds * 1e3 - float(header[stage])) < 0.02
        assert value(server, "nightingale_stage_duration_seconds_count", stage=stage, **OPENAI) == counts[stage] + 1
    assert value(server, "nightingale_requests_total", outcome="ok", **OPENAI) == requests + 1
    added = value(server, "nightingale_audio_seconds_total", **OPENAI) - audio
    assert abs(added - (len(response.content) - 44) / 48_000) < 1e-6


def test_first_audible_counts_the_silence_before_it(server: Any, wait_until: Any) -> None:
    named = OPENAI | {"streaming": "true"}

    def sums() -> list[float]:
        return [value(server, f"nightingale_{name}_sum", **named) for name in ("ttfa_seconds", "ttfa_audible_seconds")]

    before, count = sums(), value(server, "nightingale_ttfa_seconds_count", **named)
    body = {"input": "[pause:3s] Hello there.", "voice": "gated"}
    begin = time.perf_counter()
    with httpx.stream("POST", server.url + "/v1/audio/speech", json=body) as response:
        pieces = response.iter_raw()
        # The pause is sent at once: its sentence waits.
        assert next(pieces)
        server.tone.gate.set()
        assert b"".join(pieces)
    assert wait_until(lambda: value(server, "nightingale_ttfa_seconds_count", **named) == count + 1)
    elapsed = time.perf_counter() - begin
    first, audible = (after - earlier for after, earlier in zip(sums(), before, strict=True))
    # The pause lasts, or the sentence comes later than its end.
    assert audible - first >= 3.0
    assert audible <= max(first + 3.1, elapsed)


def test_labels_never_carry_voices_or_text(server: Any) -> None:
    speak(server, input="Supercalifragilistic.", voice="silky")
    text = server.metrics()
    assert "silky" not in text
    assert "Supercali" not in text


def test_the_description_names_the_errors_that_are_sent(server: Any) -> None:
    paths = httpx.get(server.url + "/openapi.json").json()["paths"]
    for operations in paths.values():
        for operation in operations.values():
            assert {"4XX", "5XX"} <= operation["responses"].keys()
            assert "422" not in operation["responses"]


def test_what_a_model_speaks_must_be_finite(start_server: Any, tone: Any) -> None:
    for value in (float("nan"), float("inf")):
        samples = np.array([0.0, value, 0.0], np.float32)
        tone.stream = lambda *_, samples=samples: iter([AudioChunk(samples)])
        refused = speak(start_server(tone=tone), input="Hi.")
        assert (refused.status_code, refused.json()["error"]["code"]) == (500, "model_failed")
