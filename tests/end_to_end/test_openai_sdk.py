"""OpenAI's own SDK against a real server process, what Open WebUI and others ask, and a recognizer on all of it."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator

import av
import httpx
import numpy as np
import openai
import pytest

SENTENCES = ["Please open the window and close the door.", "She has lived in the city for twenty years."]
TEXT = " ".join(SENTENCES)


@pytest.fixture
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server + "/v1", api_key="none", max_retries=0) as made:
        yield made


def share_found(heard, said):
    words = re.findall(r"[a-z']+", said.lower())
    return sum(word in heard.split() for word in words) / len(words)


@pytest.mark.parametrize("name", ["mp3", "flac"])
def test_speech_in_every_format_a_file_can_have(client, recognize, name):
    reply = client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, response_format=name)
    # By FFmpeg: libsndfile reads no FLAC whose header does not know its length, as a streamed one's cannot.
    with av.open(io.BytesIO(reply.read())) as container:
        rate = container.streams.audio[0].rate
        planes = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    assert share_found(recognize(np.concatenate(planes), rate), TEXT) >= 0.6


@pytest.mark.parametrize("voice", ["onyx", {"id": "slt"}])
def test_streamed_pcm(client, recognize, voice):
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice=voice, input=TEXT, response_format="pcm", instructions="calmly", speed=0.9
    ) as reply:
        assert reply.headers["content-type"] == "audio/pcm"
        pieces = list(reply.iter_bytes(4096))
    assert share_found(recognize(np.frombuffer(b"".join(pieces), "<i2"), 24_000), TEXT) >= 0.6


@pytest.mark.parametrize("name", ["wav", "opus"])
def test_the_deltas_join_to_one_file(client, recognize, name):
    audio, usage = b"", None
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="nova", input=TEXT, response_format=name, stream_format="sse"
    ) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        for line in reply.iter_lines():
            if not line:
                continue
            assert usage is None, "something came after the end"
            event = json.loads(line.removeprefix("data: "))
            if event["type"] == "speech.audio.delta":
                audio += base64.b64decode(event["audio"])
            else:
                assert event["type"] == "speech.audio.done"
                usage = event["usage"]
    assert share_found(recognize(audio), TEXT) >= 0.6
    assert usage["input_tokens"] == len(TEXT)
    assert usage["output_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_openai_s_newer_voice_names_are_spoken(client):
    for voice in ("ash", "ballad", "coral", "sage", "verse", "marin", "cedar"):
        reply = client.audio.speech.create(model="tts-1", voice=voice, input="Hi there.", response_format="pcm")
        assert len(reply.read()) > 12_000


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
    assert {"rms", "slt"} <= {voice["id"] for voice in voices}
    assert all(voice["name"] for voice in voices)
