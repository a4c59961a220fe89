"""The house voices by the names of other services, in their languages and in no other, on a real server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests import clients
from tests.clients import converse, websocket

TEXT = "Good evening."


def speak(server: str, text: str = TEXT, **fields: Any) -> httpx.Response:
    return clients.speak(server, text, response_format="pcm", **fields)


def to_elevenlabs(server: str, voice: str, text: str = TEXT, **fields: Any) -> httpx.Response:
    return clients.speak(server, text, path=f"/v1/text-to-speech/{voice}?output_format=pcm_24000", **fields)


def to_deepgram(server: str, model: str, text: str = TEXT) -> httpx.Response:
    return clients.speak(server, text, path=f"/v1/speak?model={model}&encoding=linear16&container=none")


# Languages and genders of the voices, the default first.
VOICES = {
    "af_heart": ("female", "en-us"),
    "am_michael": ("male", "en-us"),
    "bf_emma": ("female", "en-gb"),
    "bm_fable": ("male", "en-gb"),
    "em_alex": ("male", "es"),
    "ff_siwis": ("female", "fr-fr"),
    "if_sara": ("female", "it"),
    "pm_alex": ("male", "pt-br"),
}
LANGUAGES = ["en-us", "en-gb", "es", "fr-fr", "it", "pt-br"]


@pytest.fixture(scope="module")
def spoken(server: str) -> dict[str, bytes]:
    """Audio of each English voice."""
    found = {voice: speak(server, voice=voice).content for voice in list(VOICES)[:4]}
    assert len(set(found.values())) == 4
    assert speak(server).content == found["af_heart"]
    return found


def test_names_of_other_services_are_voices(server: str, spoken: dict[str, bytes]) -> None:
    """The table of names is tested in tests/app/voices; here each surface takes some."""
    for name, voice in (("nova", "af_heart"), ("onyx", "am_michael"), ("fable", "bm_fable"), ("Lily", "bf_emma")):
        assert speak(server, voice=name).content == spoken[voice], name
    for name, voice in (("21m00Tcm4TlvDq8ikWAM", "af_heart"), ("onwK4e9ZLuTAKqWW03F9", "bm_fable")):
        assert to_elevenlabs(server, name).content == spoken[voice], name
        assert httpx.get(f"{server}/v1/voices/{name}").json()["voice_id"] == voice
    aura = (("aura-2-thalia-en", "af_heart"), ("aura-2-draco-en", "bm_fable"), ("house/bf_emma", "bf_emma"))
    for name, voice in aura:
        assert to_deepgram(server, name).content == spoken[voice], name


def test_names_from_before_are_voices_and_x_ignored_says_so(server: str, spoken: dict[str, bytes]) -> None:
    for name, voice in (("rms", "am_michael"), ("slt", "af_heart"), ("house/slt", "af_heart")):
        old = name.removeprefix("house/")
        for reply in (speak(server, voice=name), to_elevenlabs(server, old), to_deepgram(server, name)):
            assert (reply.content, reply.headers["x-ignored"]) == (spoken[voice], f"voice {old} (now {voice})")
        assert httpx.get(f"{server}/v1/audio/voices/{old}").json()["id"] == voice
    both = "voice slt (now af_heart), voice rms (now am_michael)"
    assert speak(server, voice="slt+rms").headers["x-ignored"] == both
    assert speak(server, "[voice:slt] One. [voice:rms] Two.").headers["x-ignored"] == both
    lines = [{"text": "One.", "voice": "slt"}, {"text": "Two.", "voice": "rms"}]
    assert httpx.post(f"{server}/v1/audio/dialogue", json={"inputs": lines}).headers["x-ignored"] == both
    assert "x-ignored" not in speak(server, voice="af_heart").headers
    _, (ready, warning, *_) = converse(websocket(server), {"type": "start", "voice": "slt"}, {"type": "end"})
    assert (ready["voice"], warning["ignored"]) == ("af_heart", ["voice slt (now af_heart)"])


def test_listings_say_who_speaks_what(server: str) -> None:
    listed = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/audio/voices").json()["data"]}
    assert list(listed) == list(VOICES)
    for name, each in listed.items():
        assert (each["gender"], each["language"]) == VOICES[name]
        assert each["languages"] == LANGUAGES
    models = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/models").json()["data"]}
    assert models["house"]["languages"] == LANGUAGES
    assert set(models["phrasebook"]["languages"]) == {"en", "es", "fr", "de"}


@pytest.mark.parametrize(
    ("lang", "voice", "text"),
    [
        ("es", "em_alex", "Hola, buenos días."),
        ("fr", "ff_siwis", "Bonjour, où est la gare ?"),
        ("it", "if_sara", "Buongiorno, dov'è la stazione?"),
        ("pt", "pm_alex", "Bom dia, onde fica a estação?"),
    ],
)
def test_each_language_has_its_voice(server: str, lang: str, voice: str, text: str) -> None:
    own = speak(server, text, voice=voice)
    assert own.status_code == 200
    assert 20_000 < len(own.content) < 300_000
    assert speak(server, text, lang=lang).content == own.content
    # Another service's client, with a voice of no language.
    assert to_elevenlabs(server, voice, text, language_code=lang).content == own.content
    # It is that language and no English reading of its letters.
    assert speak(server, text, lang="en-us", voice=voice).content != own.content


def test_a_british_voice_reads_as_such(server: str) -> None:
    bath = speak(server, "The bath.", voice="bf_emma").content
    for lang, same in (("en", True), ("en-gb", True), ("en-us", False)):
        assert (speak(server, "The bath.", voice="bf_emma", lang=lang).content == bath) == same, lang


@pytest.mark.parametrize("lang", ["de", "German", "ja"])
def test_a_language_that_the_model_card_excludes_is_refused(server: str, lang: str) -> None:
    reply = speak(server, lang=lang)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (400, "unsupported_language", "lang")
    assert "en-us (American English)" in error["message"]
    assert "'any_language'" in error["message"]


def test_nor_is_it_spoken_to_other_services_clients(server: str) -> None:
    eleven = to_elevenlabs(server, "af_heart", "Hallo.", language_code="de")
    assert (eleven.status_code, eleven.json()["detail"]["code"]) == (400, "unsupported_language")
    deepgram = to_deepgram(server, "aura-2-viktoria-de", "Hallo.")
    assert (deepgram.status_code, deepgram.json()["err_code"]) == (400, "UNSUPPORTED_LANGUAGE")
    reply = speak(server, translate_to="de", translate_model="phrasebook", source="en")
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "translate_to")


def test_unless_it_is_told_to_try(server: str) -> None:
    assert len(speak(server, "Guten Tag, wie geht's?", lang="de", any_language=True).content) > 20_000
    assert speak(server, lang="tlh", any_language=True).status_code == 400


def test_a_variety_of_the_language_is_spoken_as_the_model_s_own(server: str, spoken: dict[str, bytes]) -> None:
    for lang in ("en_US", "en", "english"):
        assert speak(server, lang=lang, voice="af_heart").content == spoken["af_heart"]
