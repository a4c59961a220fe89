"""Parameters, languages and long texts of a model that clones voices, over a real socket."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.app.server.cloning import TEXT, cloned, error, speak


def test_parameters_reach_the_model(cloning: Any) -> None:
    assert speak(cloning, "own", temperature=0, exaggeration=1.5, seed=7).status_code == 200
    request = cloning.parrot.requests[-1]
    assert request.sampling.given() == {"exaggeration": 1.5, "temperature": 0}
    assert request.seed == 7
    assert speak(cloning, "own").status_code == 200
    assert cloning.parrot.requests[-1].sampling.given() == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("exaggeration", 2.1), ("exaggeration", -0.1), ("cfg_weight", 3), ("temperature", 5.1), ("temperature", "hot"),
     ("min_p", 1.5), ("top_p", 0), ("repetition_penalty", 0.5), ("repetition_penalty", 3.5), ("min_p", True)],
)  # fmt: skip
def test_parameters_out_of_range(cloning: Any, name: str, value: object) -> None:
    assert error(speak(cloning, "own", **{name: value}), 400, "invalid_request")["param"] == name


@pytest.mark.parametrize(("model", "takes"), [("parrot", "exaggeration, temperature"), ("tone", "none")])
def test_a_parameter_that_the_model_does_not_take(cloning: Any, model: str, takes: str) -> None:
    voice = "own" if model == "parrot" else "steady"
    found = error(speak(cloning, voice, model=model, cfg_weight=0.5), 400, "invalid_request")
    assert found["param"] == "cfg_weight"
    assert f"it takes {takes}" in found["message"]


def test_a_model_of_one_speed(cloning: Any) -> None:
    """A speed that is asked for is refused. One that a text means changes nothing, and is named."""
    found = error(speak(cloning, "own", speed=1.2), 400, "invalid_request")
    assert (found["param"], found["message"]) == ("speed", "Model 'parrot' speaks at speed 1 only, not 1.2.")
    assert speak(cloning, "own", speed=1).status_code == 200
    text = '<speak>One, <prosody rate="fast">two</prosody>, <prosody rate="slow" volume="loud">three</prosody>.</speak>'
    spoken = speak(cloning, "own", input=text)
    assert spoken.status_code == 200, spoken.text
    assert spoken.headers["x-ignored"] == "prosody rate"
    assert {request.speed for request in cloning.parrot.requests} == {1.0}
    spoken = speak(cloning, "steady", input=text, model="tone")
    assert spoken.status_code == 200
    assert "x-ignored" not in spoken.headers


def test_a_language_that_the_model_does_not_speak(running: Any) -> None:
    found = error(speak(running, "own", lang="fr"), 400, "unsupported_language")
    assert "parrot" in found["message"]
    assert "en-us" in found["message"]
    assert speak(running, "own", lang="en-GB").status_code == 200
    assert speak(running, "own", lang="fr", any_language=True).status_code == 200
    for nonsense in ("tlh", " ", "x" * 10_000, "\u0000", "en\nus"):
        for tried in (False, True):
            error(speak(running, "own", lang=nonsense, any_language=tried), 400, "unsupported_language")
    french = cloned(running, language="fr")
    assert speak(running, french).status_code == 200  # whose speaker is French, and who speaks English here


def test_nor_one_that_a_translation_is_in(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), translator="shout")
    french = speak(running, "own", translate_to="fr", source="en")
    assert error(french, 400, "unsupported_language")["param"] == "translate_to"
    english = speak(running, "own", input="Bonjour tout le monde.", translate_to="en", source="fr")
    assert english.status_code == 200
    assert [request.text for request in running.parrot.requests] == ["BONJOUR TOUT LE MONDE."]


def test_long_text_is_cut_to_what_the_model_reads(cloning: Any) -> None:
    long = "The ferry crosses the river every hour, and nobody who waits for it is ever left behind on the other bank."
    assert speak(cloning, "own", input=f"{long} [pause:0.5s] [Ada](/ˈAdə/) said so.").status_code == 200
    texts = [request.text for request in cloning.parrot.requests]
    assert all(len(text) <= 60 for text in texts)
    assert " ".join(texts) == f"{long} Ada said so."
    assert [request.first for request in cloning.parrot.requests] == [True] + [False] * (len(texts) - 1)


def test_models_say_what_they_hold_and_take(cloning: Any) -> None:
    entries = {entry["id"]: entry for entry in httpx.get(cloning.url + "/v1/models").json()["data"]}
    assert entries["parrot"]["cloning"]
    assert entries["parrot"]["preloaded"]
    assert entries["parrot"]["parameters"] == ["exaggeration", "temperature"]
    assert not entries["tone"]["cloning"]
    assert entries["tone"]["parameters"] == []
    assert entries["tone-two"]["parameters"] is None
    assert entries["tone-two"]["memory_bytes"] is None


def test_tokens_are_counted(cloning: Any, wait_until: Any) -> None:
    series = 'nightingale_t3_tokens_total{model="parrot"'  # one line for each surface that spoke
    before = cloning.count(series)
    speak(cloning, "own")
    # The client has the last byte before the server has counted.
    assert wait_until(lambda: cloning.count(series) == before + len(TEXT))
    metrics = cloning.metrics()
    for outcome, drafted in (("accepted", 4), ("rejected", 6)):
        found = re.search(rf'nightingale_t3_draft_tokens_total{{[^}}]*outcome="{outcome}"[^}}]*}} ([\d.]+)', metrics)
        assert found
        assert float(found.group(1)) % drafted == 0
    assert 'stage="t3_decode"' in metrics


@pytest.mark.parametrize("kind", ["stream-input", "multi-stream-input"])
def test_a_model_of_one_speed_on_elevenlabs_socket(cloning: Any, kind: str) -> None:
    """The speed of a context is refused when it opens, not at every sentence."""
    base = cloning.url.replace("http", "ws", 1)
    url = f"{base}/v1/text-to-speech/own/{kind}?model_id=parrot&output_format=pcm_24000"
    before = len(cloning.parrot.requests)
    with connect(url) as socket:
        socket.send(json.dumps({"text": " ", "voice_settings": {"speed": 1.2}}))
        said = json.loads(socket.recv(timeout=60))
        assert (said["error"], said["code"]) == ("invalid_request", 1008)
        assert said["message"] == "Model 'parrot' speaks at speed 1 only, not 1.2."
    assert len(cloning.parrot.requests) == before
    with connect(url) as socket:
        socket.send(json.dumps({"text": " ", "voice_settings": {"speed": 1}}))
        socket.send(json.dumps({"text": "Hello there. ", "flush": True}))
        assert json.loads(socket.recv(timeout=60))["audio"]
