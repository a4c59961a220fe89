"""livekit-agents' own speech-to-text plugins against a real server process with a stand-in model. They need no room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiohttp
import numpy as np
import pytest
from livekit import rtc
from livekit.agents import APIStatusError, stt
from livekit.plugins import deepgram, elevenlabs, openai

from tests.agents.test_livekit import ONCE, opened

RATE = 16_000
Make = Callable[..., stt.STT]


def frame(pcm: np.ndarray) -> rtc.AudioFrame:
    return rtc.AudioFrame(pcm.tobytes(), RATE, 1, pcm.size)


def with_openai(url: str, _: aiohttp.ClientSession, **options: Any) -> stt.STT:
    return openai.STT(base_url=f"{url}/v1", api_key="none", **options)


def with_elevenlabs(url: str, session: aiohttp.ClientSession, **options: Any) -> stt.STT:
    given = {"model": "scribe_v2", **options}
    return elevenlabs.STT(base_url=f"{url}/v1", api_key="none", http_session=session, **given)


def with_deepgram(url: str, session: aiohttp.ClientSession, **options: Any) -> stt.STT:
    return deepgram.STT(base_url=f"{url}/v1/listen", api_key="none", http_session=session, **options)


MAKERS = pytest.mark.parametrize(
    "make", [with_openai, with_elevenlabs, with_deepgram], ids=["openai", "elevenlabs", "deepgram"]
)


@MAKERS
async def test_a_recording_is_written_down(make: Make, listening: str, voice: np.ndarray) -> None:
    async with opened(make, listening) as made:
        event = await made.recognize(frame(voice), conn_options=ONCE)
        assert event.type == stt.SpeechEventType.FINAL_TRANSCRIPT
        assert event.alternatives[0].text == " ".join(f"en second {number}." for number in range(6))
        assert str(event.alternatives[0].language).startswith("en")


@pytest.mark.parametrize("options", [{}, {"endpointing_ms": 800, "utterance_end_ms": 1_000, "smart_format": True}])
async def test_a_stream_has_the_beginning_the_text_and_the_end_of_speech(
    listening: str, voice: np.ndarray, options: dict[str, Any]
) -> None:
    async with opened(with_deepgram, listening, **options) as made:
        kinds, texts = [], []
        async with made.stream(conn_options=ONCE) as stream:
            pieces = np.pad(voice, (0, 2 * RATE))
            for start in range(0, pieces.size, RATE // 20):
                stream.push_frame(frame(pieces[start : start + RATE // 20]))
            stream.end_input()
            async for event in stream:
                kinds.append(event.type)
                if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                    texts.append(event.alternatives[0])
        assert kinds.index(stt.SpeechEventType.START_OF_SPEECH) < kinds.index(stt.SpeechEventType.FINAL_TRANSCRIPT)
        assert stt.SpeechEventType.END_OF_SPEECH in kinds
        assert texts[0].text.startswith("en second 0.")
        assert 0 < texts[0].confidence <= 1
        assert texts[0].start_time < texts[0].end_time


@pytest.mark.parametrize("make", [with_openai, with_elevenlabs], ids=["openai", "elevenlabs"])
async def test_errors_are_the_frameworks(make: Make, listening: str, voice: np.ndarray) -> None:
    """Deepgram's plugin does not look at the status: it misses the transcript, and leaves its connection open."""
    async with opened(make, listening, model="nothing") as made:
        with pytest.raises(APIStatusError) as caught:
            await made.recognize(frame(voice), conn_options=ONCE)
        assert caught.value.status_code == 404
