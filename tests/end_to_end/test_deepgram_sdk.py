"""Deepgram's own SDK against a real server process, and a recognizer on what it receives."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import soundfile
from websockets.exceptions import InvalidStatus

with warnings.catch_warnings():
    # The SDK imports the part of websockets that is on its way out.
    warnings.simplefilter("ignore", DeprecationWarning)
    import deepgram.speak.v1.client  # noqa: F401  (the SDK imports it late)
    from deepgram import DeepgramClient
    from deepgram.core.api_error import ApiError
    from deepgram.environment import DeepgramClientEnvironment
    from deepgram.speak.v1.types import SpeakV1Cleared, SpeakV1Flushed, SpeakV1Metadata, SpeakV1Text, SpeakV1Warning

SENTENCES = ["Please open the window and close the door.", "She has lived in the city for twenty years."]


@pytest.fixture
def client(server: str) -> Iterator[DeepgramClient]:
    live = server.replace("http", "ws", 1)
    environment = DeepgramClientEnvironment(base=server, production=live, agent=live, agent_rest=server)
    # The SDK closes no client of its own making.
    with httpx.Client(timeout=180) as connections:
        yield DeepgramClient(api_key="none", environment=environment, httpx_client=connections)


def share_found(heard: str, said: str) -> float:
    words = re.findall(r"[a-z']+", said.lower())
    return sum(word in heard.split() for word in words) / len(words)


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


@pytest.mark.parametrize(("encoding", "rate"), [("linear16", 48_000), ("mulaw", 8_000)])
def test_the_websocket(client, recognize, encoding, rate):
    text = " ".join(SENTENCES)
    connection = client.speak.v1.connect(model="aura-2-thalia-en", encoding=encoding, sample_rate=rate)
    with connection as socket:
        assert isinstance(socket.recv(), SpeakV1Metadata)
        for word in text.split(" "):
            socket.send_text(SpeakV1Text(text=word + " "))
        socket.send_flush()
        audio, told = until(socket, SpeakV1Flushed)
        assert told[-1].type == "Flushed"
        assert told[-1].sequence_id == 0
        socket.send_close()
    if encoding == "mulaw":
        pcm, _ = soundfile.read(
            io.BytesIO(audio), samplerate=rate, channels=1, format="RAW", subtype="ULAW", dtype="float32"
        )
    else:
        pcm = np.frombuffer(audio, "<i2")
    assert 3 < pcm.size / rate < 12
    # The recognizer was trained on wide-band speech: half of a telephone's words is what it finds.
    assert share_found(recognize(pcm, rate), text) >= (0.4 if rate == 8_000 else 0.6)


def test_clear_and_warning(client):
    with client.speak.v1.connect(encoding="linear16") as socket:
        assert isinstance(socket.recv(), SpeakV1Metadata)
        socket.send_text(SpeakV1Text(text=" ".join(SENTENCES * 20)))
        socket.send_clear()
        # The SDK has one type for both answers.
        message = socket.recv()
        while isinstance(message, bytes):
            message = socket.recv()
        assert isinstance(message, (SpeakV1Cleared, SpeakV1Flushed))
        assert message.type == "Cleared"
        socket.send_text(SpeakV1Text(text="?!"))
        socket.send_flush()
        warning = socket.recv()
        assert isinstance(warning, SpeakV1Warning)
        assert warning.code == "NOTHING_TO_SPEAK"
        assert warning.description
        assert socket.recv().type == "Flushed"
        socket.send_close()


@pytest.mark.parametrize("options", [{}, {"encoding": "mulaw", "sample_rate": 16_000}])
def test_the_rest_call(client, recognize, options):
    audio = b"".join(client.speak.v1.audio.generate(text=SENTENCES[0], model="aura-asteria-en", **options))
    assert share_found(recognize(audio), SENTENCES[0]) >= 0.5


@pytest.mark.parametrize(("encoding", "rates"), [("mp3", (32_000, 48_000)), ("opus", (12_000, 64_000))])
def test_bit_rates_through_the_sdk(client, recognize, encoding, rates):
    sizes = []
    for bit_rate in rates:
        audio = b"".join(client.speak.v1.audio.generate(text=SENTENCES[0], encoding=encoding, bit_rate=bit_rate))
        assert share_found(recognize(audio), SENTENCES[0]) >= 0.5
        sizes.append(len(audio))
    assert sizes == sorted(set(sizes))
    with pytest.raises(ApiError) as caught:
        b"".join(client.speak.v1.audio.generate(text=SENTENCES[0], encoding=encoding, bit_rate=999_000))
    assert caught.value.status_code == 400
    assert caught.value.body["err_code"] == "UNSUPPORTED_FORMAT"
    assert "bit rate" in caught.value.body["err_msg"]


def test_errors_reach_the_sdk_s_own(client):
    with pytest.raises(ApiError) as caught:
        b"".join(client.speak.v1.audio.generate(text="?!"))
    assert caught.value.status_code == 400
    assert caught.value.body["err_code"] == "NOTHING_TO_SPEAK"
    # The SDK's release 7 lets this one through as websockets raises it.
    with pytest.raises((ApiError, InvalidStatus), match="400"), client.speak.v1.connect(model="nobody"):
        pass
