"""Both Chatterbox models in one real server process, small and of random numbers: the official files' names and layout.

What they say is noise; that they are found, loaded strictly, cloned with, streamed, cancelled and remembered is not.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from app.voices.store import VoiceStore
from loadtest.fake_checkpoints import small, write
from models.chatterbox.config import VARIANTS
from tests.clients import clone, speak
from tests.processes import START_SECONDS, Process, metric, serve

TEXT = "This is a recording of the house voice, which lasts some seconds, and that is long enough for both of them."
PIECE = 4_800  # bytes: a tenth of a second


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chatterbox")
    for variant in VARIANTS:
        write(folder / "data" / "models" / variant, variant, small(variant))
    return folder


def begin(folder: Path) -> AbstractContextManager[Process]:
    settings = {"PRELOAD": ",".join(VARIANTS), "CHATTERBOX": "steps=2", "WARMUP": "none"}
    return serve(folder, **{f"NIGHTINGALE_{name}": value for name, value in settings.items()})


def first_audio(url: str, **body: object) -> tuple[bytes, httpx.Headers]:
    """The first piece of a reply, and its headers; the client goes then."""
    body = {"response_format": "pcm"} | body
    with httpx.stream("POST", f"{url}/v1/audio/speech", json=body, timeout=180) as response:
        assert response.status_code == 200, response.read()
        audio = b""
        for piece in response.iter_raw():
            audio += piece
            if len(audio) >= PIECE:
                break
    return audio[:PIECE], response.headers


@pytest.mark.timeout(START_SECONDS + 900)
def test_a_voice_is_cloned_spoken_in_by_both_and_remembered(folder: Path) -> None:
    said = {"input": "Hello there, how are you?", "seed": 3}
    with begin(folder) as process:
        url = process.url
        voice = clone(url, speak(url, TEXT, model="house").content).raise_for_status().json()["id"]
        own = {name: first_audio(url, model=name, **said)[0] for name in VARIANTS}
        cloned = {}
        for name in VARIANTS:
            cloned[name], headers = first_audio(url, model=name, voice=voice, **said)
            assert headers["x-watermark"] in ("perth", "none")
            assert len(cloned[name]) == PIECE
        assert len({*own.values(), *cloned.values()}) == 4
        assert first_audio(url, model="chatterbox", voice=voice, **said)[0] == cloned["chatterbox"]
        drawn = first_audio(url, model="chatterbox", voice=voice, temperature=2.0, **said)[0]
        assert drawn != cloned["chatterbox"]
        entries = {entry["id"]: entry for entry in httpx.get(f"{url}/v1/models").json()["data"]}
        assert [entries[name]["status"] for name in ("house", *VARIANTS)] == ["ready"] * 3
        assert all(entries[name]["memory_bytes"] > 1_000_000 and entries[name]["preloaded"] for name in VARIANTS)
        assert "exaggeration" in entries["chatterbox"]["parameters"]
        assert "exaggeration" not in entries["chatterbox-turbo"]["parameters"]
        refused = {"chatterbox-turbo": {"exaggeration": 1.0}, "chatterbox": {"speed": 2.0}, "house": {"voice": voice}}
        for name, more in refused.items():
            reply = speak(url, model=name, **more)
            assert reply.status_code == 400, (name, reply.text)
        scraped = httpx.get(f"{url}/metrics").text
        for stage in ("t3_prefill", "t3_decode", "s3gen_encode", "s3gen_flow", "vocoder"):
            assert f'stage="{stage}"' in scraped
        assert 'nightingale_voice_conditionings_total{source="computed"} 2.0' in scraped
    kept = sorted(path.name for path in (folder / "data" / "voices").glob("*.safetensors"))
    assert kept == [f"{voice}.chatterbox-turbo.safetensors", f"{voice}.chatterbox.safetensors", f"{voice}.safetensors"]
    assert VoiceStore(folder / "data" / "voices", max_voices=9).get(voice) is not None
    with begin(folder) as process:
        url = process.url
        for name in VARIANTS:
            assert first_audio(url, model=name, voice=voice, **said)[0] == cloned[name]
        assert 'nightingale_voice_conditionings_total{source="disk"} 2.0' in httpx.get(f"{url}/metrics").text


@pytest.mark.timeout(START_SECONDS + 900)
def test_another_model_waits_for_one_turn_of_a_paragraph_at_most(folder: Path) -> None:
    """While Chatterbox speaks a paragraph, the first audio of the house voice waits for one of its turns, no more.

    A turn is a few tokens, one step of the flow, or one stage. The server says how long its longest one was.
    """
    paragraph = " ".join([TEXT] * 12)
    body = {"input": paragraph, "model": "chatterbox", "response_format": "pcm"}
    with begin(folder) as process:
        url = process.url
        speak(url, model="house").raise_for_status()
        with httpx.stream("POST", f"{url}/v1/audio/speech", json=body, timeout=180) as speaking:
            audio = speaking.iter_raw()
            next(audio)
            waits = []
            for _ in range(8):
                reply = speak(url, model="house").raise_for_status()
                timing = dict(part.split(";dur=") for part in reply.headers["server-timing"].split(", "))
                waits.append(float(timing["queue"]) / 1e3)
            longest = metric(url, r'nightingale_longest_turn_seconds{model="chatterbox"}')
            streams = metric(url, "nightingale_active_streams")
        assert longest > 0
        assert streams == 1, "the paragraph was over before it could be in anybody's way"
        assert max(waits) > 0
        # Half of them, since a machine may halt between two turns. Who waited for a piece would wait for dozens.
        assert sorted(waits)[len(waits) // 2] <= 2 * longest + 0.05
