"""OpenAI's own SDK speaks to a server process over `WS /v1/realtime`: sessions of transcription and client secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
from openai.types import realtime

from app.audio.resample import Resampler
from tests.clients import websocket

# The SDK holds the connection in a way that newer releases of `websockets` call deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
INTENT = {"intent": "transcription"}
COMPLETED = "conversation.item.input_audio_transcription.completed"


@pytest.fixture
def client(listening: str) -> Iterator[openai.OpenAI]:
    # The older protocol's client makes no `ws` of `http`.
    address = websocket(listening, "/v1")
    with openai.OpenAI(base_url=listening + "/v1", websocket_base_url=address, api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def speech(spoken: np.ndarray) -> bytes:
    """5.6 seconds of speech, a second of silence before and after it, as 16-bit samples at 24 kHz."""
    pcm = Resampler(16_000, 24_000).push(np.pad(spoken, 16_000), last=True)
    return (pcm * 32_767).astype("<i2").tobytes()


def pieces(data: bytes, size: int = 2_400) -> Iterator[str]:
    for start in range(0, len(data), size):
        yield base64.b64encode(data[start : start + size]).decode()


def until_completed(connection: Any) -> list[Any]:
    found = []
    for event in connection:
        assert event.type != "error", event
        found.append(event)
        if event.type == COMPLETED:
            break
    return found


def test_server_vad(client: openai.OpenAI, speech: bytes) -> None:
    with client.realtime.connect(model="gpt-4o-transcribe", extra_query=INTENT) as connection:
        created = connection.recv()
        assert isinstance(created, realtime.SessionCreatedEvent)
        assert isinstance(created.session, realtime.RealtimeTranscriptionSessionCreateRequest)
        heard = {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "transcription": {"model": "gpt-4o-transcribe", "language": "en"},
            "noise_reduction": {"type": "near_field"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 350},
        }
        include = ["item.input_audio_transcription.logprobs"]
        connection.session.update(session={"type": "transcription", "audio": {"input": heard}, "include": include})
        assert connection.recv().type == "session.updated"
        for piece in pieces(speech):
            connection.input_audio_buffer.append(audio=piece)
        events = until_completed(connection)
    assert events[0].type == "input_audio_buffer.speech_started"
    order = [event.type for event in events if "delta" not in event.type]
    buffer = [f"input_audio_buffer.{what}" for what in ("speech_started", "speech_stopped", "committed")]
    assert order == [*buffer, "conversation.item.added", "conversation.item.done", COMPLETED]
    done = events[-1]
    assert isinstance(done, realtime.ConversationItemInputAudioTranscriptionCompletedEvent)
    assert done.transcript.startswith("en second 0.")
    assert done.usage.type == "tokens"
    assert [entry.token for entry in done.logprobs or ()][:2] == [" en", " second"]
    assert [language.code for language in done.languages or ()] == ["en"]
    deltas = [event for event in events if event.type.endswith("transcription.delta")]
    assert "".join(event.delta for event in deltas) == done.transcript
    assert {event.item_id for event in deltas} == {done.item_id} == {events[0].item_id}


def test_the_older_protocol(client: openai.OpenAI, speech: bytes) -> None:
    with client.beta.realtime.connect(model="whisper-1", extra_query=INTENT) as connection:
        connection.recv()
        connection.transcription_session.update(
            session={"input_audio_format": "pcm16", "input_audio_transcription": {"model": "whisper-1"}}
        )
        assert connection.recv().type == "transcription_session.updated"
        for piece in pieces(speech):
            connection.input_audio_buffer.append(audio=piece)
        kinds = [event.type for event in until_completed(connection)]
    assert "conversation.item.created" in kinds


def test_client_secrets(listening: str, client: openai.OpenAI, speech: bytes) -> None:
    secret = client.realtime.client_secrets.create(
        expires_after={"anchor": "created_at", "seconds": 60},
        session={"type": "transcription", "audio": {"input": {"turn_detection": None}}},
    )
    assert secret.value.startswith("ek_")
    assert secret.session.type == "transcription"
    with (
        openai.OpenAI(base_url=listening + "/v1", api_key=secret.value) as page,
        page.realtime.connect(model="gpt-realtime") as connection,
    ):
        created: Any = connection.recv()
        assert created.session.audio.input.turn_detection is None
