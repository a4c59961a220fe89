"""OpenAI's own SDK against a real server process, what Open WebUI and others ask, and a recognizer on all of it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import openai
import pytest

SENTENCES = ["Please open the window and close the door.", "She has lived in the city for twenty years."]
TEXT = " ".join(SENTENCES)


@pytest.fixture
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server + "/v1", api_key="none", max_retries=0) as made:
        yield made


def test_a_file_is_heard(client, share_heard):
    reply = client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, response_format="mp3")
    assert share_heard(TEXT, reply.read()) >= 0.6


def test_streamed_pcm_is_heard(client, share_heard):
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts",
        voice={"id": "af_heart"},
        input=TEXT,
        response_format="pcm",
        instructions="calmly",
        speed=0.9,
    ) as reply:
        assert reply.headers["content-type"] == "audio/pcm"
        pieces = list(reply.iter_bytes(4096))
    assert share_heard(TEXT, b"".join(pieces), 24_000) >= 0.6


def test_errors_are_the_sdk_s_own(client):
    with pytest.raises(openai.BadRequestError) as bad:
        client.audio.speech.create(model="tts-1", voice="nobody", input="Hi")
    assert (bad.value.code, bad.value.param) == ("unknown_voice", "voice")
    assert bad.value.request_id
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("hal")


def test_the_listings_that_open_webui_reads(client, server):
    assert {model.id for model in client.models.list()} >= {"house", "phrasebook"}
    models = httpx.get(server + "/v1/audio/models").json()["models"]
    voices = httpx.get(server + "/v1/audio/voices").json()["voices"]
    assert "house" in [model["id"] for model in models]
    assert {"am_michael", "af_heart"} <= {voice["id"] for voice in voices}
    assert all(voice["name"] for voice in voices)


# Without a stored key the header is "Bearer ", of which HTTP keeps no space.
@pytest.mark.parametrize(("voice", "key", "speed"), [("af_heart", "Bearer", 1), ("alloy", "Bearer none", 1.05)])
def test_a_request_of_sillytavern_is_heard(server, share_heard, voice, key, speed):
    """As its provider "OpenAI Compatible" sends it (src/endpoints/openai.js)."""
    body = {"input": SENTENCES[0], "response_format": "mp3", "voice": voice, "speed": speed, "model": "tts-1"}
    reply = httpx.post(f"{server}/v1/audio/speech", json=body, headers={"Authorization": key, "User-Agent": "node"})
    assert reply.headers["content-type"] == "audio/mpeg", reply.text
    assert share_heard(SENTENCES[0], reply.content) >= 0.5
