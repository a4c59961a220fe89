"""The house voices by the names of other services, and the languages that they refuse, on a real server."""

from __future__ import annotations

import asyncio
import warnings

import httpx
import pytest

with warnings.catch_warnings():
    # Python 3.12 and older have an audioop of their own, which the client takes.
    warnings.simplefilter("ignore", DeprecationWarning)
    from wyoming.client import AsyncTcpClient
    from wyoming.info import Describe, Info

from tests.processes import Process

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


def test_names_of_other_services_are_voices(server: str, spoken: dict[str, bytes]) -> None:
    """The table of names is tested in tests/app/voices; here each surface takes one of a woman and one of a man."""
    for name, voice in (("nova", "slt"), ("onyx", "rms"), ("Rachel", "slt")):
        assert speak(server, voice=name).content == spoken[voice], name
    for name, voice in (("21m00Tcm4TlvDq8ikWAM", "slt"), ("pNInz6obpgDQGcFmaJgB", "rms")):
        url = f"{server}/v1/text-to-speech/{name}"
        reply = httpx.post(url, params={"output_format": "pcm_24000"}, json={"text": TEXT}, timeout=180)
        assert reply.content == spoken[voice], name
        assert httpx.get(f"{server}/v1/voices/{name}").json()["voice_id"] == voice
    for name, voice in (("aura-2-thalia-en", "slt"), ("aura-orion-en", "rms")):
        query = {"model": name, "encoding": "linear16", "container": "none"}
        reply = httpx.post(f"{server}/v1/speak", params=query, json={"text": TEXT}, timeout=180)
        assert reply.content == spoken[voice], name


def test_every_listing_says_who_speaks_what(server: str, house: Process) -> None:
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
        async with AsyncTcpClient(*house.wyoming) as client:
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event is not None
            return Info.from_event(event)

    voices = {voice.name: voice for program in asyncio.run(described()).tts for voice in program.voices}
    assert voices["rms"].description == "rms (man, American English)"
    assert voices["slt"].description == "slt (woman, American English)"
    assert voices["slt"].languages == ["en-US"]


@pytest.mark.parametrize("lang", ["es", "Spanish", "ja"])
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
