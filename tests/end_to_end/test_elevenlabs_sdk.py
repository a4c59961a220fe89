"""ElevenLabs' own SDK against a real server process, and a recognizer on what it receives."""

from __future__ import annotations

import asyncio
import base64
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import soundfile
from elevenlabs import VoiceSettings
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from elevenlabs.realtime.connection import RealtimeEvents
from elevenlabs.realtime.scribe import AudioFormat, CommitStrategy, ScribeRealtime
from elevenlabs.types import ExportOptions_Srt

from tests.clients import websocket

# The SDK reads properties that websockets has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:ConnectionClosed.(code|reason) is deprecated:DeprecationWarning")

TEXT = "The weather is fine today, and the train leaves in the morning. Please open the window and close the door."


@contextmanager
def elevenlabs(url: str) -> Iterator[ElevenLabs]:
    made = ElevenLabs(base_url=url, api_key="anything")
    # Its realtime call insists on TLS, which a proxy in front of this server ends.
    made.text_to_speech._ws_base_url = websocket(url, "")
    yield made
    made._client_wrapper.httpx_client.httpx_client.close()


@pytest.fixture
def client(server: str) -> Iterator[ElevenLabs]:
    with elevenlabs(server) as made:
        yield made


def test_convert_is_heard(client: ElevenLabs, share_heard: Callable[..., float]) -> None:
    audio = b"".join(client.text_to_speech.convert("af_heart", text=TEXT, model_id="eleven_multilingual_v2"))
    assert soundfile.info(io.BytesIO(audio)).samplerate == 44_100
    assert share_heard(TEXT, audio) >= 0.7


def test_stream_is_heard_as_pcm(client: ElevenLabs, share_heard: Callable[..., float]) -> None:
    audio = b"".join(client.text_to_speech.stream("af_heart", text=TEXT, output_format="pcm_22050"))
    assert share_heard(TEXT, audio, 22_050) >= 0.7


def test_speed_and_seed_reach_the_model(client: ElevenLabs) -> None:
    def speak(**options: object) -> bytes:
        return b"".join(client.text_to_speech.convert("af_heart", text=TEXT, output_format="pcm_24000", **options))

    fast = speak(voice_settings=VoiceSettings(speed=1.2, stability=0.5, style=0.1, similarity_boost=0.7))
    normal = speak(seed=3)
    assert 0.75 < len(fast) / len(normal) < 0.92
    assert speak(seed=3) == normal
    assert speak(seed=4) != normal


def test_every_character_has_its_time(client: ElevenLabs) -> None:
    reply = client.text_to_speech.convert_with_timestamps("af_heart", text=TEXT, output_format="pcm_24000")
    assert reply.alignment is not None
    starts = reply.alignment.character_start_times_seconds
    assert "".join(reply.alignment.characters) == TEXT
    # The second sentence begins half a second after the sound of the first, of whose silence 100 ms are there already.
    first = TEXT[: TEXT.index(" Please")]
    alone = b"".join(client.text_to_speech.convert("af_heart", text=first, output_format="pcm_24000"))
    assert starts[TEXT.index("Please")] == pytest.approx(len(alone) / 2 / 24_000 + 0.4, abs=0.05)
    # In pieces there are the same audio and times.
    pieces = list(client.text_to_speech.stream_with_timestamps("af_heart", text=TEXT, output_format="pcm_24000"))
    assert b"".join(base64.b64decode(piece.audio_base_64) for piece in pieces) == base64.b64decode(reply.audio_base_64)
    timed = [piece.alignment for piece in pieces if piece.alignment is not None]
    assert [at for piece in timed for at in piece.character_start_times_seconds] == pytest.approx(starts, abs=1e-3)


def test_realtime_is_heard(client: ElevenLabs, share_heard: Callable[..., float]) -> None:
    fragments = iter(re.findall(r"\S+\s*", TEXT))
    ways = {"model_id": "eleven_flash_v2_5", "output_format": "pcm_24000", "voice_settings": VoiceSettings(speed=1.0)}
    audio = b"".join(client.text_to_speech.convert_realtime("af_heart", text=fragments, **ways))
    assert share_heard(TEXT, audio, 24_000) >= 0.7


def test_errors_are_the_sdks(client: ElevenLabs) -> None:
    with pytest.raises(ApiError) as caught:
        b"".join(client.text_to_speech.convert("nobody", text=TEXT))
    assert caught.value.status_code == 404
    assert caught.value.body["detail"]["status"] == "voice_not_found"
    assert "af_heart" in caught.value.body["detail"]["message"]
    with pytest.raises(ApiError) as caught:
        list(client.text_to_speech.convert_realtime("nobody", text=iter(["Hello."]), output_format="pcm_24000"))
    # Its body is our message, or the close reason when the socket is closed before the SDK's first word.
    assert caught.value.status_code == 1008
    assert "nobody" in str(caught.value.body)


def test_voices_are_listed(client: ElevenLabs) -> None:
    found = client.voices.get_all().voices
    assert {"af_heart", "am_michael"} <= {voice.voice_id for voice in found}
    assert client.voices.get("af_heart").labels["language"].startswith("en")
    assert [voice.voice_id for voice in client.voices.search().voices] == [voice.voice_id for voice in found]
    with pytest.raises(ApiError) as caught:
        client.voices.get("nobody")
    assert caught.value.body["detail"]["status"] == "voice_not_found"


@pytest.fixture
def listener(listening: str) -> Iterator[ElevenLabs]:
    """Client of a server whose recognizer is a stand-in."""
    with elevenlabs(listening) as made:
        yield made


def test_a_recording_is_written_down(listener: ElevenLabs, speech: bytes) -> None:
    found = listener.speech_to_text.convert(
        model_id="scribe_v2",
        file=("a.ogg", speech),
        language_code="eng",
        tag_audio_events=True,
        timestamps_granularity="character",
        keyterms=["window", "door"],
        additional_formats=[ExportOptions_Srt(max_characters_per_line=40)],
    )
    assert found.text == " ".join(f"en second {number}." for number in range(6))
    assert (found.language_code, found.language_probability) == ("en", 1.0)
    assert "".join(word.text for word in found.words) == found.text
    assert found.words[1].type == "spacing"
    assert found.words[2].characters[0].text == "s"
    assert found.words[2].start == pytest.approx(1 / 3, abs=0.01)
    assert found.additional_formats[0].content.startswith("1\n00:00:00,000 --> ")
    assert found.audio_duration_secs == 5.63


def test_speech_is_written_down_as_it_is_spoken(listening: str, speech: bytes) -> None:
    told = asyncio.run(speak_to_scribe(listening, speech))
    text = " ".join(f"en second {number}." for number in range(6))
    assert told["committed_transcript"]["text"] == text
    assert "".join(word["text"] for word in told["committed_transcript_with_timestamps"]["words"]) == text
    assert "error" not in told


async def speak_to_scribe(listening: str, speech: bytes) -> dict[str, dict[str, Any]]:
    """Return the last message of each kind, after one segment."""
    pcm, rate = soundfile.read(io.BytesIO(speech), dtype="int16")
    scribe = ScribeRealtime(api_key="anything", base_url=websocket(listening, ""))
    sound = {"model_id": "scribe_v2_realtime", "audio_format": AudioFormat.PCM_16000, "sample_rate": rate}
    ways = {"commit_strategy": CommitStrategy.MANUAL, "include_timestamps": True, "language_code": "en"}
    connection = await scribe.connect(sound | ways)
    told: dict[str, dict[str, Any]] = {}
    done = asyncio.Event()
    for event in RealtimeEvents:
        connection.on(event, lambda data=None, kind=event: told.__setitem__(kind.value, data))
    connection.on(RealtimeEvents.COMMITTED_TRANSCRIPT_WITH_TIMESTAMPS, lambda data: done.set())
    for start in range(0, len(pcm), 4_000):
        await connection.send({"audio_base_64": base64.b64encode(pcm[start : start + 4_000].tobytes()).decode()})
    await connection.commit()
    await asyncio.wait_for(done.wait(), 60)
    await connection.close()
    return told
