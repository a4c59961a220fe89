"""pipecat-ai's own speech-to-text services in real pipelines, against a real server process with a stand-in model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import aiohttp
import numpy as np
import pytest
from pipecat.frames import frames
from pipecat.services.deepgram.stt import DeepgramSTTService
from pipecat.services.elevenlabs.stt import ElevenLabsSTTService
from pipecat.services.openai.stt import OpenAISTTService
from pipecat.services.stt_service import STTService

from tests.agents.test_pipecat import PATIENCE, Agent, Listener, agent

RATE = 16_000
Make = Callable[[str, aiohttp.ClientSession], STTService]


def openai(url: str, _: aiohttp.ClientSession, model: str = "gpt-transcribe") -> STTService:
    settings = OpenAISTTService.Settings(model=model)
    return OpenAISTTService(api_key="none", base_url=f"{url}/v1", include_prob_metrics=True, settings=settings)


def elevenlabs(url: str, session: aiohttp.ClientSession, model: str = "scribe_v2") -> STTService:
    settings = ElevenLabsSTTService.Settings(model=model)
    return ElevenLabsSTTService(api_key="none", base_url=url, aiohttp_session=session, settings=settings)


def deepgram(url: str, _: aiohttp.ClientSession, model: str = "nova-3-general") -> STTService:
    settings = DeepgramSTTService.Settings(model=model, endpointing=800, smart_format=True)
    return DeepgramSTTService(api_key="none", base_url=url.replace("http", "ws", 1), settings=settings)


async def say(speaking: Agent, voice: np.ndarray) -> None:
    """Speak as a microphone with voice activity detection does, faster than in real time."""
    await speaking.put(frames.VADUserStartedSpeakingFrame())
    for start in range(0, voice.size, RATE // 50):
        audio = voice[start : start + RATE // 50].tobytes()
        await speaking.put(frames.InputAudioRawFrame(audio=audio, sample_rate=RATE, num_channels=1))
        if start % (RATE // 5) == 0:
            await asyncio.sleep(0.02)
    await speaking.put(frames.VADUserStoppedSpeakingFrame())


async def until_finalized(ear: Listener, count: int) -> None:
    """Wait for so many turns: Deepgram's service may have several transcripts in one."""
    async with asyncio.timeout(PATIENCE), ear._news:
        await ear._news.wait_for(lambda: sum(frame.finalized for frame in ear.of(frames.TranscriptionFrame)) >= count)


@pytest.mark.parametrize("make", [openai, elevenlabs, deepgram])
async def test_two_turns_are_written_down(make: Make, listening: str, voice: np.ndarray) -> None:
    async with agent(make, listening, audio_in_sample_rate=RATE) as speaking:
        for turn in (1, 2):
            await say(speaking, voice)
            await until_finalized(speaking.ear, turn)
    finals = speaking.ear.of(frames.TranscriptionFrame)
    texts = [frame.text.strip() for frame in finals]
    assert sum(text.startswith("en second 0.") for text in texts) >= 2, texts
    assert all(frame.result for frame in finals)
    assert bool(speaking.ear.of(frames.InterimTranscriptionFrame)) == (make is deepgram)


@pytest.mark.parametrize("make", [openai, elevenlabs])
async def test_errors_are_told(make: Callable[..., STTService], listening: str, voice: np.ndarray) -> None:
    wrong = partial(make, model="nothing")
    async with agent(wrong, listening, complains=True, audio_in_sample_rate=RATE) as speaking:
        await say(speaking, voice)
        await speaking.complaints.until(frames.ErrorFrame)
    assert "nothing" in speaking.complaints.of(frames.ErrorFrame)[0].error
