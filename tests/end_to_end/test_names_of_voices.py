"""The house voices by the names of other services, and the languages that they refuse, on a real server."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

import httpx
import pytest

with warnings.catch_warnings():
    # Python 3.12 and older have an audioop of their own, which the client takes.
    warnings.simplefilter("ignore", DeprecationWarning)
    from wyoming.client import AsyncTcpClient
    from wyoming.info import Describe, Info

TEXT = "Good evening."


def speak(server: str, **body: object) -> httpx.Response:
    request = {"input": TEXT, "response_format": "pcm"} | body
    return httpx.post(f"{server}/v1/audio/speech", json=request, timeout=180)


@pytest.fixture(scope="module")
def spoken(server: str) -> dict[str, bytes]:
    """Audio of each of the two voices."""
    found = {voice: speak(server, voice=voice).content for voice in ("rms", "slt")}
    assert found["rms"] != found["slt"]
    return found


@pytest.mark.parametrize(
    ("name", "voice"),
    [("nova", "slt"), ("coral", "slt"), ("alloy", "slt"), ("onyx", "rms"), ("echo", "rms"), ("Rachel", "slt")],
)
def test_openai_s_names(server: str, spoken: dict[str, bytes], name: str, voice: str) -> None:
    assert speak(server, voice=name).content == spoken[voice]


@pytest.mark.parametrize(("voice_id", "voice"), [("21m00Tcm4TlvDq8ikWAM", "slt"), ("pNInz6obpgDQGcFmaJgB", "rms")])
def test_elevenlabs_ids(server: str, spoken: dict[str, bytes], voice_id: str, voice: str) -> None:
    url = f"{server}/v1/text-to-speech/{voice_id}"
    reply = httpx.post(url, params={"output_format": "pcm_24000"}, json={"text": TEXT}, timeout=180)
    assert reply.content == spoken[voice]
    assert httpx.get(f"{server}/v1/voices/{voice_id}").json()["voice_id"] == voice


@pytest.mark.parametrize(
    ("model", "voice"), [("aura-asteria-en", "slt"), ("aura-2-thalia-en", "slt"), ("aura-orion-en", "rms")]
)
def test_deepgram_s_names(server: str, spoken: dict[str, bytes], model: str, voice: str) -> None:
    query = {"model": model, "encoding": "linear16", "container": "none"}
    reply = httpx.post(f"{server}/v1/speak", params=query, json={"text": TEXT}, timeout=180)
    assert reply.content == spoken[voice]


def test_every_listing_says_who_speaks_what(server: str, wyoming_port: int) -> None:
    listed = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/audio/voices").json()["data"]}
    assert {name: (each["gender"], each["language"], each["languages"]) for name, each in listed.items()} == {
        "rms": ("male", "en-us", ["en-us"]),
        "slt": ("female", "en-us", ["en-us"]),
    }
    eleven = {entry["voice_id"]: entry for entry in httpx.get(f"{server}/v1/voices").json()["voices"]}
    assert (eleven["slt"]["labels"]["gender"], eleven["rms"]["labels"]["gender"]) == ("female", "male")
    assert eleven["slt"]["description"] == "woman, American English"
    models = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/models").json()["data"]}
    assert models["house"]["languages"] == ["en-us"]
    assert set(models["phrasebook"]["languages"]) == {"en", "es", "fr", "de"}

    async def described() -> Info:
        async with AsyncTcpClient("127.0.0.1", wyoming_port) as client:
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event is not None
            return Info.from_event(event)

    voices = {voice.name: voice for program in asyncio.run(described()).tts for voice in program.voices}
    assert voices["rms"].description == "rms (man, American English)"
    assert voices["slt"].description == "slt (woman, American English)"
    assert voices["slt"].languages == ["en-US"]


@pytest.mark.parametrize("lang", ["es", "hi", "fr-FR", "ja", "Spanish"])
def test_a_language_that_the_model_card_excludes_is_refused(server: str, lang: str) -> None:
    reply = speak(server, lang=lang)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (400, "unsupported_language", "lang")
    assert "en-us (American English)" in error["message"]
    assert "'any_language'" in error["message"]


def test_nor_is_it_spoken_to_other_services_clients(server: str) -> None:
    eleven = httpx.post(f"{server}/v1/text-to-speech/slt", json={"text": "Hola.", "language_code": "es"}, timeout=180)
    assert (eleven.status_code, eleven.json()["detail"]["code"]) == (400, "unsupported_language")
    deepgram = httpx.post(
        f"{server}/v1/speak", params={"model": "aura-2-celeste-es"}, json={"text": "Hola."}, timeout=60
    )
    assert (deepgram.status_code, deepgram.json()["err_code"]) == (400, "UNSUPPORTED_LANGUAGE")
    both = {"translate_to": "fr", "translate_model": "phrasebook", "source": "en"}
    reply = speak(server, **both)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "translate_to")


def test_unless_it_is_told_to_try(server: str) -> None:
    assert len(speak(server, input="Hola, buenos días.", lang="es", any_language=True).content) > 20_000
    error = speak(server, lang="tlh", any_language=True)
    assert error.status_code == 400


def test_a_variety_of_the_language_is_spoken_as_the_model_s_own(server: str, spoken: dict[str, bytes]) -> None:
    for lang in ("en-gb", "en_US", "en", "english"):
        assert speak(server, lang=lang, voice="slt").content == spoken["slt"]


def test_what_can_be_translated_is_what_is_listed(run_house, tmp_path: Path) -> None:
    with run_house(tmp_path, NIGHTINGALE_TRANSLATION_MODEL="phrasebook", NIGHTINGALE_WARMUP="none") as url:
        listed = httpx.get(f"{url}/languages").json()
        pairs = {(entry["code"], target) for entry in listed for target in entry["targets"] if target != entry["code"]}
        assert pairs == {("en", "es"), ("en", "fr"), ("en", "de")}
        for entry in listed:
            for target in ("en", "es", "fr", "de"):
                body = {"q": "Good night.", "source": entry["code"], "target": target}
                done = httpx.post(f"{url}/translate", json=body, timeout=180)
                assert (done.status_code == 200) == (target in entry["targets"]), (body, done.text)
