"""pipecat-ai's own text-to-speech services in real pipelines, against a real server process."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import aiohttp
import httpx
import pytest
from loguru import logger

with warnings.catch_warnings():
    # Of audioop, which Python 3.13 has no more.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pipecat.frames.frames import (
        EndFrame,
        ErrorFrame,
        Frame,
        InterruptionFrame,
        LLMFullResponseEndFrame,
        LLMFullResponseStartFrame,
        LLMTextFrame,
        TTSAudioRawFrame,
        TTSSpeakFrame,
        TTSStoppedFrame,
        TTSTextFrame,
    )
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineParams, PipelineWorker
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
    from pipecat.services.deepgram.tts import DeepgramHttpTTSService, DeepgramTTSService
    from pipecat.services.elevenlabs.tts import ElevenLabsHttpTTSService, ElevenLabsTTSService
    from pipecat.services.openai.stt import OpenAISTTService
    from pipecat.services.openai.tts import OpenAITTSService
    from pipecat.services.tts_service import TextAggregationMode, TTSService
    from pipecat.workers.runner import WorkerRunner

RATE = 24_000
PATIENCE = 60
# How long pipecat waits for a context's next audio before it takes it for ended: 3 s, too little for a busy machine.
QUIET: dict[str, Any] = {"stop_frame_timeout_s": 10.0}
OTHER = "She has lived in the city for twenty years."

Make = Callable[[str, aiohttp.ClientSession], TTSService]


def openai(url: str, _: aiohttp.ClientSession, model: str = "gpt-4o-mini-tts") -> TTSService:
    return OpenAITTSService(
        api_key="none", base_url=f"{url}/v1", settings=OpenAITTSService.Settings(model=model), **QUIET
    )


def elevenlabs(url: str, _: aiohttp.ClientSession, voice: str = "af_heart", **options: Any) -> TTSService:
    settings = ElevenLabsTTSService.Settings(voice=voice, speed=1.0)
    return ElevenLabsTTSService(api_key="none", url=url.replace("http", "ws", 1), settings=settings, **QUIET, **options)


def elevenlabs_tokens(url: str, session: aiohttp.ClientSession) -> TTSService:
    return elevenlabs(url, session, text_aggregation_mode=TextAggregationMode.TOKEN)


def elevenlabs_http(url: str, session: aiohttp.ClientSession, voice: str = "af_heart") -> TTSService:
    settings = ElevenLabsHttpTTSService.Settings(voice=voice)
    return ElevenLabsHttpTTSService(api_key="none", base_url=url, aiohttp_session=session, settings=settings, **QUIET)


def deepgram(url: str, _: aiohttp.ClientSession, voice: str = "aura-2-helena-en") -> TTSService:
    settings = DeepgramTTSService.Settings(voice=voice)
    return DeepgramTTSService(api_key="none", base_url=url.replace("http", "ws", 1), settings=settings, **QUIET)


def deepgram_http(url: str, session: aiohttp.ClientSession, voice: str = "aura-2-helena-en") -> TTSService:
    settings = DeepgramHttpTTSService.Settings(voice=voice)
    return DeepgramHttpTTSService(api_key="none", base_url=url, aiohttp_session=session, settings=settings, **QUIET)


SERVICES = [openai, elevenlabs, elevenlabs_tokens, elevenlabs_http, deepgram, deepgram_http]


class Listener(FrameProcessor):
    """Keeps what passes in one direction."""

    def __init__(self, direction: FrameDirection) -> None:
        super().__init__()
        self._listens_to = direction
        self.frames: list[Frame] = []
        self._news = asyncio.Condition()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if direction is self._listens_to:
            async with self._news:
                self.frames.append(frame)
                self._news.notify_all()
        await self.push_frame(frame, direction)

    def of(self, kind: type[Frame]) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    async def until(self, kind: type[Frame], count: int = 1, *, says: str = "") -> None:
        """Wait for so many frames of a kind, in whose error, if they have one, `says` is found."""

        def there() -> bool:
            found = [getattr(frame, "error", "") for frame in self.of(kind)]
            return sum(re.search(says, error) is not None for error in found) >= count

        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(there)


class Agent:
    """A pipeline around one service: what a language model says goes in, and what a loudspeaker would get comes out."""

    def __init__(self, worker: PipelineWorker, complaints: Listener, ear: Listener) -> None:
        self._worker = worker
        self.complaints = complaints
        self.ear = ear

    async def begin(self, tokens: list[str]) -> None:
        await self._worker.queue_frame(LLMFullResponseStartFrame())
        for token in tokens:
            await self._worker.queue_frame(LLMTextFrame(token))

    async def end(self) -> None:
        await self._worker.queue_frame(LLMFullResponseEndFrame())

    async def put(self, frame: Frame) -> None:
        await self._worker.queue_frame(frame)

    def audio(self) -> bytes:
        frames = self.ear.of(TTSAudioRawFrame)
        assert {frame.sample_rate for frame in frames} == {RATE}
        return b"".join(frame.audio for frame in frames)

    def after_interruption(self) -> tuple[bytes, str]:
        """Audio and text of what the last context said."""
        context = self.ear.of(TTSStoppedFrame)[-1].context_id
        audio = [frame.audio for frame in self.ear.of(TTSAudioRawFrame) if frame.context_id == context]
        said = [frame.text for frame in self.ear.of(TTSTextFrame) if frame.context_id == context]
        return b"".join(audio), " ".join(said)


@asynccontextmanager
async def agent(make: Callable[..., Any], url: str, **rates: int) -> AsyncIterator[Agent]:
    """A pipeline around one service of speech in either direction."""
    async with aiohttp.ClientSession() as session:
        complaints, ear = Listener(FrameDirection.UPSTREAM), Listener(FrameDirection.DOWNSTREAM)
        service = make(url, session)
        worker = PipelineWorker(
            Pipeline([complaints, service, ear]),
            params=PipelineParams(**(rates or {"audio_out_sample_rate": RATE})),
            cancel_on_idle_timeout=False,
            enable_rtvi=False,
        )
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        try:
            yield Agent(worker, complaints, ear)
        finally:
            await worker.queue_frame(EndFrame())
            async with asyncio.timeout(PATIENCE):
                await running
            if isinstance(service, OpenAITTSService | OpenAISTTService):
                # pipecat leaves its connections open, of which the next test would be told.
                await service._client.close()


@pytest.mark.parametrize("make", SERVICES)
def test_a_turn_is_heard(make: Make, server: str, text: str, tokens: list[str], share_heard: Any) -> None:
    async def talk() -> None:
        async with agent(make, server) as speaking:
            await speaking.begin(tokens)
            await speaking.end()
            await speaking.ear.until(TTSStoppedFrame)
        assert speaking.complaints.of(ErrorFrame) == []
        assert " ".join(frame.text.strip() for frame in speaking.ear.of(TTSTextFrame)) == text
        assert share_heard(text, speaking.audio(), RATE) >= 0.6

    asyncio.run(talk())


@pytest.mark.parametrize("make", SERVICES)
def test_two_utterances_come_in_turn(make: Make, server: str, share_heard: Any) -> None:
    said = ["Please open the window and close the door.", OTHER]

    async def talk() -> None:
        async with agent(make, server) as speaking:
            for sentence in said:
                await speaking.put(TTSSpeakFrame(sentence))
            await speaking.ear.until(TTSStoppedFrame, 2)
        assert speaking.complaints.of(ErrorFrame) == []
        assert len(speaking.ear.of(TTSStoppedFrame)) == 2
        assert share_heard(" ".join(said), speaking.audio(), RATE) >= 0.6

    asyncio.run(talk())


@pytest.mark.parametrize("make", [elevenlabs, elevenlabs_tokens, elevenlabs_http])
def test_words_have_their_times(make: Make, server: str, text: str, tokens: list[str]) -> None:
    """Every word its own, the second sentence's after the whole of the first."""
    alone = {"input": text[: text.index(" Please")], "voice": "af_heart", "response_format": "pcm"}
    first_sentence = len(httpx.post(f"{server}/v1/audio/speech", json=alone).raise_for_status().content) / 2 / RATE

    async def talk() -> None:
        async with agent(make, server) as speaking:
            await speaking.begin(tokens)
            await speaking.end()
            await speaking.ear.until(TTSStoppedFrame)
        words = speaking.ear.of(TTSTextFrame)
        assert [frame.text for frame in words] == text.split()
        seconds = [(frame.pts - words[0].pts) / 1e9 for frame in words]
        if make is elevenlabs_tokens:
            # pipecat waits for a space after the last word, which nobody wrote: it gets the time of the one before.
            assert seconds.pop() == seconds[-1]
        assert all(earlier < later for earlier, later in pairwise(seconds)), seconds
        assert seconds[text.split().index("Please")] == pytest.approx(first_sentence, abs=0.4)
        assert seconds[-1] < len(speaking.audio()) / 2 / RATE

    asyncio.run(talk())


@pytest.mark.parametrize("whole", [False, True], ids=["while it is written", "after it was written"])
@pytest.mark.parametrize("make", [elevenlabs, elevenlabs_tokens, deepgram])
def test_an_interruption_stops_the_server_and_the_next_turn_is_heard(
    make: Make, whole: bool, server: str, tokens: list[str], share_heard: Any, cancelled: Callable[[str], float]
) -> None:
    surface = "deepgram" if make is deepgram else "elevenlabs"
    before = cancelled(surface)

    async def talk() -> None:
        async with agent(make, server) as speaking:
            await speaking.begin(tokens * 20)
            if whole:
                await speaking.end()
            await speaking.ear.until(TTSAudioRawFrame)
            await speaking.put(InterruptionFrame())
            await speaking.ear.until(InterruptionFrame)
            await speaking.begin([OTHER])
            await speaking.end()
            await speaking.ear.until(TTSStoppedFrame)
        assert speaking.complaints.of(ErrorFrame) == []
        audio, said = speaking.after_interruption()
        assert said == OTHER
        assert len(audio) / 2 / RATE < 6
        assert share_heard(OTHER, audio, RATE) >= 0.6

    asyncio.run(talk())
    assert cancelled(surface) == before + 1


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda url, session: openai(url, session, "nothing"), "nothing"),
        # A socket that is closed at once is tried three times; the reason it was closed with is in pipecat's log.
        (lambda url, session: elevenlabs(url, session, "nobody"), "3 (times|attempts)"),
        (lambda url, session: elevenlabs_http(url, session, "nobody"), "voice_not_found"),
        (lambda url, session: deepgram(url, session, "nobody"), "400"),
        (lambda url, session: deepgram_http(url, session, "nobody"), "UNKNOWN_VOICE"),
    ],
    ids=["openai", "elevenlabs", "elevenlabs_http", "deepgram", "deepgram_http"],
)
def test_errors_reach_the_pipeline(make: Make, told: str, server: str) -> None:
    logged: list[str] = []

    async def talk() -> None:
        async with agent(make, server) as speaking:
            await speaking.put(TTSSpeakFrame("Hello."))
            await speaking.complaints.until(ErrorFrame, says=told)
        assert speaking.ear.of(TTSAudioRawFrame) == []

    handler = logger.add(logged.append, level="WARNING")
    try:
        asyncio.run(talk())
    finally:
        logger.remove(handler)
    assert any("nobody" in line or "nothing" in line for line in logged)
