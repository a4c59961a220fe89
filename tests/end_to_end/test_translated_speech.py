"""The whole way: text or a language model's tokens in, another language's speech out, from a real server process.

The translator is the bundled phrase book, and the voices are the bundled ones: what is said in Spanish and French is
checked by its text, length, level and silence.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from websockets.sync.client import connect

from tests.clients import RATE, samples, speak, websocket
from tests.processes import run, serve

SENTENCES = (
    "Where is the train station?",
    "The museum is next to the bridge.",
    "Turn left after the church.",
    "Thank you very much.",
)
ANSWER = (
    "Where is the **train station**? The museum is next to the bridge. Turn left after the church. Thank you very much."
)


@pytest.fixture(scope="module")
def translating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that has loaded the phrase book beside the house voice."""
    with serve(tmp_path_factory.mktemp("translating"), NIGHTINGALE_TRANSLATION_MODEL="phrasebook") as process:
        yield process.url


def translate(url: str, texts: list[str], target: str) -> list[str]:
    body = {"text": texts, "source": "en", "target": target}
    response = httpx.post(f"{url}/v1/translate", json=body, timeout=180)
    assert response.status_code == 200, response.text
    return [entry["text"] for entry in response.json()["translations"]]


def check_audio(pcm: np.ndarray, least: float, most: float) -> None:
    """Speech of a length in [least, most] seconds: loud enough, not clipped, centered, quiet at its ends."""
    assert least <= pcm.size / RATE <= most
    assert 0.02 < np.sqrt(np.mean(pcm**2)) < 0.3
    assert np.abs(pcm).max() < 0.999
    assert abs(pcm.mean()) < 2e-3
    edge = RATE // 50
    assert np.abs(pcm[:edge]).max() < 0.02
    assert np.abs(pcm[-edge:]).max() < 0.02


def tokens(text: str) -> list[str]:
    """About as a language model cuts it."""
    return re.findall(r"\s*[^\s\w]+|\s*\w{1,4}", text)


def replay(url: str, text: str, rate: float, *, early: bool = False, **start: object) -> dict[str, Any]:
    """Send `text` token by token, the last one after the first audio where that must be `early`; return what came."""
    heard = threading.Event()
    with connect(websocket(url)) as socket:
        socket.send(json.dumps({"type": "start", "input": "llm", **start}))
        assert json.loads(socket.recv(timeout=180))["type"] == "ready"

        def send() -> None:
            *others, last = tokens(text)
            for token in others:
                time.sleep(1 / rate)
                socket.send(json.dumps({"type": "text", "text": token}))
            assert not early or heard.wait(60), "nothing was heard before the text had ended"
            socket.send(json.dumps({"type": "text", "text": last}))
            socket.send(json.dumps({"type": "end"}))

        with ThreadPoolExecutor(1) as threads:
            sending = threads.submit(send)
            chunks, audio, done = [], b"", None
            while done is None:
                message = socket.recv(timeout=180)
                if isinstance(message, bytes):
                    heard.set()
                    audio += message
                elif (event := json.loads(message))["type"] == "chunk":
                    chunks.append(event)
                else:
                    done = event
            sending.result()
    assert done["type"] == "done", done
    pcm = np.frombuffer(audio, "<i2").astype(np.float32) / 32_768
    assert pcm.size == round(sum(chunk["duration"] for chunk in chunks) * RATE)
    return {"chunks": chunks, "pcm": pcm, "done": done}


def said(chunks: list[dict[str, Any]]) -> str:
    return " ".join(chunk["text"].strip() for chunk in chunks if chunk["text"])


def test_a_text_is_translated_and_spoken(translating: str) -> None:
    """It is the speech of the translation: the same samples as when that is spoken by itself."""
    found = samples(speak(translating, " ".join(SENTENCES), source="en", translate_to="es"))
    check_audio(found, 4, 14)
    whole = " ".join(translate(translating, list(SENTENCES), "es"))
    assert whole.startswith("¿Dónde está la estación de tren?")
    again = samples(speak(translating, whole, lang="es"))
    assert np.array_equal(found, again)
    named = samples(speak(translating, whole, voice="em_alex"))
    assert np.array_equal(found, named)
    english = samples(speak(translating, " ".join(SENTENCES)))
    assert found.size != english.size


def test_a_language_models_tokens_are_translated_and_spoken_as_they_come(translating: str) -> None:
    """At 50 tokens a second: the first sentence is heard before the last is written."""
    text = " ".join([ANSWER] * 3)
    found = replay(translating, text, 50, early=True, translate_to="es", source="en")
    assert said(found["chunks"]) == " ".join(translate(translating, list(SENTENCES), "es") * 3)
    assert "".join(chunk["source_text"] or "" for chunk in found["chunks"]) == text
    check_audio(found["pcm"], 12, 42)
    assert {"boundary", "translate_encode", "translate_decode", "g2p", "decoder"} <= set(found["done"]["stages"])


def test_what_is_said_does_not_depend_on_what_was_translated_ahead(translating: str) -> None:
    """Slowly enough that partial sentences are translated, and without that: the same words and samples."""
    plain = replay(translating, ANSWER, 25, translate_to="fr", source="en", anticipate=False)
    ahead = replay(translating, ANSWER, 25, translate_to="fr", source="en")
    assert said(ahead["chunks"]) == said(plain["chunks"])
    assert np.array_equal(ahead["pcm"], plain["pcm"])


def test_many_clients_get_what_each_asked_for(translating: str) -> None:
    """Speech and translations share the one model thread."""

    def ask(number: int) -> bytes:
        more = {"source": "en", "translate_to": "es"} if number % 2 else {}
        reply = speak(translating, SENTENCES[number % 4], response_format="pcm", **more)
        return reply.raise_for_status().content

    with ThreadPoolExecutor(12) as clients:
        spoken = list(clients.map(ask, range(12)))
    assert spoken[:4] * 3 == spoken


def say(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "app", "say", "--model", "house", *arguments, input=stdin)


def test_the_command_translates_too(translating: str, tmp_path: Path) -> None:
    given = ("--translate-to", "es", "--source", "en", "--translate-model", "phrasebook")
    done = say(*given, "Good night.", "-o", tmp_path / "one.wav")
    assert done.returncode == 0, done.stderr
    one, _ = soundfile.read(tmp_path / "one.wav", dtype="float32")
    assert np.allclose(one, samples(speak(translating, "Good night.", source="en", translate_to="es")), atol=1e-4)
    deltas = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in tokens(ANSWER)]
    lines = "".join(json.dumps(delta) + "\n" for delta in deltas)
    done = say(*given, "--from", "stream-json", "-o", tmp_path / "all.wav", stdin=lines)
    assert done.returncode == 0, done.stderr
    whole, _ = soundfile.read(tmp_path / "all.wav", dtype="float32")
    expected = samples(speak(translating, " ".join(SENTENCES), source="en", translate_to="es"))
    assert whole.size == expected.size
    done = say("--translate-to", "nl", "--translate-model", "phrasebook", "Good night.", "-o", "x.wav")
    assert done.returncode == 2
    assert "does not translate Dutch" in done.stderr


def test_what_can_be_translated_is_what_is_listed(translating: str) -> None:
    listed = httpx.get(f"{translating}/languages").json()
    pairs = {(entry["code"], target) for entry in listed for target in entry["targets"] if target != entry["code"]}
    assert pairs == {("en", "es"), ("en", "fr"), ("en", "de")}
    for entry in listed:
        for target in ("en", "es", "fr", "de"):
            body = {"q": "Good night.", "source": entry["code"], "target": target}
            done = httpx.post(f"{translating}/translate", json=body, timeout=180)
            assert (done.status_code == 200) == (target in entry["targets"]), (body, done.text)
