"""pipecat-ai's own speech-to-text services in real pipelines, against a real server process with a stand-in model."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import soundfile

from tests.agents.test_pipecat import PATIENCE, Listener

with warnings.catch_warnings():
    # Of audioop, which Python 3.13 has no more.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pipecat.frames.frames import (
        EndFrame,
        ErrorFrame,
        InputAudioRawFrame,
        InterimTranscriptionFrame,
        TranscriptionFrame,
        VADUserStartedSpeakingFrame,
        VADUserStoppedSpeakingFrame,
    )
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineParams, PipelineWorker
    from pipecat.processors.frame_processor import FrameDirection
    from pipecat.services.deepgram.stt import DeepgramSTTService
    from pipecat.services.elevenlabs.stt import ElevenLabsSTTService
    from pipecat.services.openai.stt import OpenAISTTService
    from pipecat.services.stt_service import STTService
    from pipecat.workers.runner import WorkerRunner

RATE = 16_000
# Deepgram's SDK imports the part of websockets that is on its way out, when it connects.
pytestmark = pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")
Make = Callable[[str, aiohttp.ClientSession], STTService]


@pytest.fixture(scope="session")
def voice() -> np.ndarray:
    """5.63 seconds of speech, int16 [samples] at RATE."""
    pcm, rate = soundfile.read(Path(__file__).parents[1] / "golden" / "spoken.ogg", dtype="int16")
    assert rate == RATE
    return pcm


def openai(url: str, _: aiohttp.ClientSession, model: str = "gpt-transcribe") -> STTService:
    return OpenAISTTService(
        api_key="none",
        base_url=f"{url}/v1",
        include_prob_metrics=True,
        settings=OpenAISTTService.Settings(model=model),
    )


def elevenlabs(url: str, session: aiohttp.ClientSession, model: str = "scribe_v2") -> STTService:
    settings = ElevenLabsSTTService.Settings(model=model)
    return ElevenLabsSTTService(api_key="none", base_url=url, aiohttp_session=session, settings=settings)


def deepgram(url: str, _: aiohttp.ClientSession, model: str = "nova-3-general") -> STTService:
    settings = DeepgramSTTService.Settings(model=model, endpointing=800, smart_format=True)
    return DeepgramSTTService(api_key="none", base_url=url.replace("http", "ws", 1), settings=settings)


@asynccontextmanager
async def agent(make: Make, url: str) -> AsyncIterator[tuple[PipelineWorker, Listener, Listener]]:
    """A pipeline around one service; what goes up and what comes out."""
    async with aiohttp.ClientSession() as session:
        complaints, ear = Listener(FrameDirection.UPSTREAM), Listener(FrameDirection.DOWNSTREAM)
        service = make(url, session)
        worker = PipelineWorker(
            Pipeline([complaints, service, ear]),
            params=PipelineParams(audio_in_sample_rate=RATE),
            cancel_on_idle_timeout=False,
            enable_rtvi=False,
        )
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        try:
            yield worker, complaints, ear
        finally:
            await worker.queue_frame(EndFrame())
            async with asyncio.timeout(PATIENCE):
                await running
            if isinstance(service, OpenAISTTService):
                # pipecat leaves its connections open, of which the next test would be told.
                await service._client.close()


async def say(worker: PipelineWorker, voice: np.ndarray) -> None:
    """Speak as a microphone with voice activity detection does, faster than in real time."""
    await worker.queue_frame(VADUserStartedSpeakingFrame())
    for start in range(0, voice.size, RATE // 50):
        audio = voice[start : start + RATE // 50].tobytes()
        await worker.queue_frame(InputAudioRawFrame(audio=audio, sample_rate=RATE, num_channels=1))
        if start % (RATE // 5) == 0:
            await asyncio.sleep(0.02)
    await worker.queue_frame(VADUserStoppedSpeakingFrame())


async def until_finalized(ear: Listener, count: int) -> None:
    """Wait for so many turns: Deepgram's service may have several transcripts in one."""
    async with asyncio.timeout(PATIENCE), ear._news:
        await ear._news.wait_for(lambda: sum(frame.finalized for frame in ear.of(TranscriptionFrame)) >= count)


@pytest.mark.parametrize("make", [openai, elevenlabs, deepgram])
def test_two_turns_are_written_down(make: Make, listening: str, voice: np.ndarray) -> None:
    async def talk() -> tuple[list[Any], list[Any], list[Any]]:
        async with agent(make, listening) as (worker, complaints, ear):
            for turn in (1, 2):
                await say(worker, voice)
                await until_finalized(ear, turn)
        return complaints.of(ErrorFrame), ear.of(TranscriptionFrame), ear.of(InterimTranscriptionFrame)

    errors, finals, interim = asyncio.run(talk())
    assert errors == []
    texts = [frame.text.strip() for frame in finals]
    assert sum(text.startswith("en second 0.") for text in texts) >= 2, texts
    assert all(frame.result for frame in finals)
    assert bool(interim) == (make is deepgram)


@pytest.mark.parametrize("make", [openai, elevenlabs])
def test_errors_are_told(make: Callable[..., STTService], listening: str, voice: np.ndarray) -> None:
    async def talk() -> list[Any]:
        async with agent(lambda url, session: make(url, session, model="nothing"), listening) as (worker, heard, _):
            await say(worker, voice)
            await heard.until(ErrorFrame)
        return heard.of(ErrorFrame)

    assert "nothing" in asyncio.run(talk())[0].error
