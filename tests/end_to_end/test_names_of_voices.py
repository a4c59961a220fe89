"""The house voices by the names of other services, and the languages that they refuse, on a real server."""

from __future__ import annotations

import httpx
import pytest

TEXT = "Good evening."


def speak(server: str, **body: object) -> httpx.Response:
    request = {"input": TEXT, "response_format": "pcm"} | body
    return httpx.post(f"{server}/v1/audio/speech", json=request, timeout=180)


@pytest.fixture(scope="module")
def spoken(server: str) -> dict[str, bytes]:
    """Audio of each of the two voices."""
    found = {voice: speak(server, voice=voice).content for voice in ("am_michael", "af_heart")}
    assert found["am_michael"] != found["af_heart"]
    return found


def test_names_of_other_services_are_voices(server: str, spoken: dict[str, bytes]) -> None:
    """The table of names is tested in tests/app/voices; here each surface takes one of a woman and one of a man."""
    for name, voice in (("nova", "af_heart"), ("onyx", "am_michael"), ("Rachel", "af_heart")):
        assert speak(server, voice=name).content == spoken[voice], name
    for name, voice in (("21m00Tcm4TlvDq8ikWAM", "af_heart"), ("pNInz6obpgDQGcFmaJgB", "am_michael")):
        url = f"{server}/v1/text-to-speech/{name}"
        reply = httpx.post(url, params={"output_format": "pcm_24000"}, json={"text": TEXT}, timeout=180)
        assert reply.content == spoken[voice], name
        assert httpx.get(f"{server}/v1/voices/{name}").json()["voice_id"] == voice
    for name, voice in (("aura-2-thalia-en", "af_heart"), ("aura-orion-en", "am_michael")):
        query = {"model": name, "encoding": "linear16", "container": "none"}
        reply = httpx.post(f"{server}/v1/speak", params=query, json={"text": TEXT}, timeout=180)
        assert reply.content == spoken[voice], name


def test_listings_say_who_speaks_what(server: str) -> None:
    listed = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/audio/voices").json()["data"]}
    assert {name: (each["gender"], each["language"], each["languages"]) for name, each in listed.items()} == {
        "am_michael": ("male", "en-us", ["en-us"]),
        "af_heart": ("female", "en-us", ["en-us"]),
    }
    models = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/models").json()["data"]}
    assert models["house"]["languages"] == ["en-us"]
    assert set(models["phrasebook"]["languages"]) == {"en", "es", "fr", "de"}


@pytest.mark.parametrize("lang", ["es", "Spanish", "ja"])
def test_a_language_that_the_model_card_excludes_is_refused(server: str, lang: str) -> None:
    reply = speak(server, lang=lang)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (400, "unsupported_language", "lang")
    assert "en-us (American English)" in error["message"]
    assert "'any_language'" in error["message"]


def test_nor_is_it_spoken_to_other_services_clients(server: str) -> None:
    eleven = httpx.post(
        f"{server}/v1/text-to-speech/af_heart", json={"text": "Hola.", "language_code": "es"}, timeout=180
    )
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
        assert speak(server, lang=lang, voice="af_heart").content == spoken["af_heart"]
