"""pipecat-ai's own text-to-speech services in real pipelines, against a real server process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import aiohttp
import httpx
import pytest
from loguru import logger
from pipecat.frames import frames
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
        self.passed: list[frames.Frame] = []
        self._news = asyncio.Condition()

    async def process_frame(self, frame: frames.Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if direction is self._listens_to:
            async with self._news:
                self.passed.append(frame)
                self._news.notify_all()
        await self.push_frame(frame, direction)

    def of(self, kind: type[frames.Frame]) -> list[Any]:
        return [frame for frame in self.passed if isinstance(frame, kind)]

    async def until(self, kind: type[frames.Frame], count: int = 1, *, says: str = "") -> None:
        """Wait for so many frames of a kind, in whose error, if they have one, `says` is found."""

        def there() -> bool:
            found = [getattr(frame, "error", "") for frame in self.of(kind)]
            return sum(re.search(says, error) is not None for error in found) >= count

        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(there)


@dataclass
class Agent:
    """A pipeline around one service: what a language model says goes in, and what a loudspeaker would get comes out."""

    put: Callable[[frames.Frame], Awaitable[None]]
    complaints: Listener
    ear: Listener

    async def write(self, tokens: list[str], *, whole: bool = True) -> None:
        end = [frames.LLMFullResponseEndFrame()] if whole else []
        for frame in (frames.LLMFullResponseStartFrame(), *map(frames.LLMTextFrame, tokens), *end):
            await self.put(frame)

    def audio(self) -> bytes:
        spoken = self.ear.of(frames.TTSAudioRawFrame)
        assert {frame.sample_rate for frame in spoken} == {RATE}
        return b"".join(frame.audio for frame in spoken)


@asynccontextmanager
async def agent(make: Callable[..., Any], url: str, *, complains: bool = False, **rates: int) -> AsyncIterator[Agent]:
    """A pipeline around one service of speech in either direction, which has no complaint unless it `complains`."""
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
            yield Agent(worker.queue_frame, complaints, ear)
        finally:
            await worker.queue_frame(frames.EndFrame())
            async with asyncio.timeout(PATIENCE):
                await running
            if isinstance(service, OpenAITTSService | OpenAISTTService):
                # pipecat leaves its connections open, of which the next test would be told.
                await service._client.close()
        assert complains or complaints.of(frames.ErrorFrame) == []


@pytest.mark.parametrize("make", SERVICES)
async def test_a_turn_is_heard(make: Make, server: str, text: str, tokens: list[str], share_heard: Any) -> None:
    async with agent(make, server) as speaking:
        await speaking.write(tokens)
        await speaking.ear.until(frames.TTSStoppedFrame)
    assert " ".join(frame.text.strip() for frame in speaking.ear.of(frames.TTSTextFrame)) == text
    assert share_heard(text, speaking.audio(), RATE) >= 0.6


@pytest.mark.parametrize("make", SERVICES)
async def test_two_utterances_come_in_turn(make: Make, server: str, share_heard: Any) -> None:
    said = ["Please open the window and close the door.", OTHER]
    async with agent(make, server) as speaking:
        for sentence in said:
            await speaking.put(frames.TTSSpeakFrame(sentence))
        await speaking.ear.until(frames.TTSStoppedFrame, 2)
    assert len(speaking.ear.of(frames.TTSStoppedFrame)) == 2
    assert share_heard(" ".join(said), speaking.audio(), RATE) >= 0.6


@pytest.mark.parametrize("make", [elevenlabs, elevenlabs_tokens, elevenlabs_http])
async def test_words_have_their_times(make: Make, server: str, text: str, tokens: list[str]) -> None:
    """Every word its own, the second sentence's after the whole of the first."""
    alone = {"input": text[: text.index(" Please")], "voice": "af_heart", "response_format": "pcm"}
    answer = await asyncio.to_thread(httpx.post, f"{server}/v1/audio/speech", json=alone)
    first_sentence = len(answer.raise_for_status().content) / 2 / RATE
    async with agent(make, server) as speaking:
        await speaking.write(tokens)
        await speaking.ear.until(frames.TTSStoppedFrame)
    words = speaking.ear.of(frames.TTSTextFrame)
    assert [frame.text for frame in words] == text.split()
    seconds = [(frame.pts - words[0].pts) / 1e9 for frame in words]
    if make is elevenlabs_tokens:
        # pipecat waits for a space after the last word, which nobody wrote: it gets the time of the one before.
        assert seconds.pop() == seconds[-1]
    assert all(earlier < later for earlier, later in pairwise(seconds)), seconds
    assert seconds[text.split().index("Please")] == pytest.approx(first_sentence, abs=0.4)
    assert seconds[-1] < len(speaking.audio()) / 2 / RATE


@pytest.mark.parametrize("whole", [False, True], ids=["while it is written", "after it was written"])
@pytest.mark.parametrize("make", [elevenlabs, elevenlabs_tokens, deepgram])
async def test_an_interruption_stops_the_server_and_the_next_turn_is_heard(
    make: Make, whole: bool, server: str, tokens: list[str], share_heard: Any, cancelled: Callable[[str], float]
) -> None:
    surface = "deepgram" if make is deepgram else "elevenlabs"
    before = cancelled(surface)
    async with agent(make, server) as speaking:
        await speaking.write(tokens * 20, whole=whole)
        await speaking.ear.until(frames.TTSAudioRawFrame)
        await speaking.put(frames.InterruptionFrame())
        await speaking.ear.until(frames.InterruptionFrame)
        await speaking.write([OTHER])
        await speaking.ear.until(frames.TTSStoppedFrame)
    context = speaking.ear.of(frames.TTSStoppedFrame)[-1].context_id
    audio = b"".join(frame.audio for frame in speaking.ear.of(frames.TTSAudioRawFrame) if frame.context_id == context)
    assert (
        " ".join(frame.text for frame in speaking.ear.of(frames.TTSTextFrame) if frame.context_id == context) == OTHER
    )
    assert len(audio) / 2 / RATE < 6
    assert share_heard(OTHER, audio, RATE) >= 0.6
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
async def test_errors_reach_the_pipeline(make: Make, told: str, server: str) -> None:
    logged: list[str] = []
    handler = logger.add(logged.append, level="WARNING")
    try:
        async with agent(make, server, complains=True) as speaking:
            await speaking.put(frames.TTSSpeakFrame("Hello."))
            await speaking.complaints.until(frames.ErrorFrame, says=told)
    finally:
        logger.remove(handler)
    assert speaking.ear.of(frames.TTSAudioRawFrame) == []
    assert any("nobody" in line or "nothing" in line for line in logged)
