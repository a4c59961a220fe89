"""Deepgram's own SDK against a real server process, and a recognizer on what it receives."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
import soundfile

with warnings.catch_warnings():
    # The SDK imports the part of websockets that is on its way out.
    warnings.simplefilter("ignore", DeprecationWarning)
    import deepgram.listen.v1.client
    import deepgram.speak.v1.client  # noqa: F401
    from deepgram import DeepgramClient
    from deepgram.core.api_error import ApiError
    from deepgram.environment import DeepgramClientEnvironment
    from deepgram.listen.v1 import types as listen
    from deepgram.speak.v1.types import SpeakV1Flushed, SpeakV1Metadata, SpeakV1Text

from tests.clients import websocket

SENTENCES = ["Please open the window and close the door.", "She has lived in the city for twenty years."]


@contextmanager
def made(url: str) -> Iterator[DeepgramClient]:
    live = websocket(url, "")
    environment = DeepgramClientEnvironment(base=url, production=live, agent=live, agent_rest=url)
    # The SDK closes no client of its own making.
    with httpx.Client(timeout=180) as connections:
        yield DeepgramClient(api_key="none", environment=environment, httpx_client=connections)


@pytest.fixture
def client(server: str) -> Iterator[DeepgramClient]:
    with made(server) as client:
        yield client


@pytest.fixture
def listener(listening: str) -> Iterator[DeepgramClient]:
    """Client of a server whose recognizer is a stand-in."""
    with made(listening) as client:
        yield client


def until(socket, kind):
    """Audio and messages up to one of that kind."""
    audio, told = b"", []
    while not told or not isinstance(told[-1], kind):
        message = socket.recv()
        if isinstance(message, bytes):
            audio += message
        else:
            told.append(message)
    return audio, told


def test_the_websocket(client, share_heard):
    text = " ".join(SENTENCES)
    connection = client.speak.v1.connect(model="aura-2-thalia-en", encoding="linear16", sample_rate=48_000)
    with connection as socket:
        assert isinstance(socket.recv(), SpeakV1Metadata)
        for word in text.split(" "):
            socket.send_text(SpeakV1Text(text=word + " "))
        socket.send_flush()
        audio, told = until(socket, SpeakV1Flushed)
        assert told[-1].type == "Flushed"
        assert told[-1].sequence_id == 0
        socket.send_close()
    pcm = np.frombuffer(audio, "<i2")
    assert 3 < pcm.size / 48_000 < 12
    assert share_heard(text, pcm, 48_000) >= 0.6


def test_the_rest_call(client, share_heard):
    audio = b"".join(client.speak.v1.audio.generate(text=SENTENCES[0], model="aura-asteria-en"))
    assert share_heard(SENTENCES[0], audio) >= 0.5


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"text": "?!"}, "NOTHING_TO_SPEAK", ""),
        ({"text": "Hi.", "encoding": "mp3", "bit_rate": 999_000}, "UNSUPPORTED_FORMAT", "bit rate"),
    ],
)
def test_errors_reach_the_sdk_s_own(listener, options, code, says):
    with pytest.raises(ApiError) as caught:
        b"".join(listener.speak.v1.audio.generate(**options))
    assert (caught.value.status_code, caught.value.body["err_code"]) == (400, code)
    assert says in caught.value.body["err_msg"]


def test_a_recording_is_written_down(listener, speech):
    form = {"smart_format": True, "punctuate": True, "utterances": True}
    options = {"model": "nova-3", "detect_language": True, "keyterm": ["window", "door"]}
    found = listener.listen.v1.media.transcribe_file(request=speech, **form, **options)
    channel = found.results.channels[0]
    assert channel.detected_language == "en"
    alternative = channel.alternatives[0]
    assert alternative.transcript == " ".join(f"en second {number}." for number in range(6))
    assert alternative.words[1].word == alternative.words[1].punctuated_word == "second"
    assert alternative.words[2].word == "0"
    assert found.results.utterances[0].transcript == alternative.transcript
    assert (found.metadata.duration, found.metadata.channels) == (5.63, 1)
    assert found.metadata.request_id


def test_a_stream_is_written_down(listener, speech):
    pcm, rate = soundfile.read(io.BytesIO(speech), dtype="int16")
    padded = np.pad(pcm, (rate // 2, 2 * rate))
    sound = {"encoding": "linear16", "sample_rate": rate, "channels": 1}
    events = {"interim_results": True, "vad_events": True, "utterance_end_ms": 1_000, "endpointing": 600}
    form = {"language": "en", "smart_format": True, "punctuate": True}
    told = []
    with listener.listen.v1.connect(model="nova-3", **sound, **events, **form) as socket:
        socket.send_keep_alive()
        for start in range(0, padded.size, rate // 10):
            socket.send_media(padded[start : start + rate // 10].tobytes())
        while not told or not isinstance(told[-1], listen.ListenV1UtteranceEnd):
            told.append(socket.recv())
        socket.send_configure(listen.ListenV1Configure(keyterms=["window"]))
        assert isinstance(socket.recv(), listen.ListenV1ConfigureFailure)
        socket.send_media(pcm[: 2 * rate].tobytes())
        socket.send_finalize()
        while not isinstance(told[-1], listen.ListenV1Results) or not told[-1].from_finalize:
            told.append(socket.recv())
        socket.send_close_stream()
        while not isinstance(told[-1], listen.ListenV1Metadata):
            told.append(socket.recv())
    assert not any(isinstance(message, listen.ListenV1Error) for message in told)
    started = [message for message in told if isinstance(message, listen.ListenV1SpeechStarted)]
    assert len(started) == 2 or len(started) == 3
    finals = [message for message in told if isinstance(message, listen.ListenV1Results) and message.is_final]
    assert finals[0].channel.alternatives[0].transcript.startswith("en second 0.")
    assert finals[0].channel.alternatives[0].words
    assert finals[-1].from_finalize
    assert finals[0].metadata.model_info.name == "ear"
    assert told[-1].duration == pytest.approx((padded.size + 2 * rate) / rate, abs=0.01)
