"""pipecat-ai's realtime service of OpenAI, unchanged, in real pipelines, against a server with a stand-in model."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames import frames
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

from tests.agents.test_pipecat import RATE, Agent, agent

RATES = {"audio_in_sample_rate": RATE, "audio_out_sample_rate": RATE}
CLOCK = FunctionSchema(name="clock", description="Tell the time.", properties={}, required=[])


def realtime(url: str, _: Any) -> OpenAIRealtimeLLMService:
    settings = OpenAIRealtimeLLMService.Settings(system_instruction="Be brief.")
    address = url.replace("http", "ws", 1) + "/v1/realtime"
    return OpenAIRealtimeLLMService(api_key="none", base_url=address, settings=settings)


async def ask(talking: Agent, text: str, **context: Any) -> None:
    await talking.put(frames.LLMContextFrame(LLMContext([{"role": "user", "content": text}], **context)))


def transcript(talking: Agent) -> str:
    return "".join(frame.text for frame in talking.ear.of(frames.TTSTextFrame))


async def test_a_context_is_answered_aloud(listening: str) -> None:
    async with agent(realtime, listening, **RATES) as talking:
        await ask(talking, "good morning. and good night.")
        await talking.ear.until(frames.LLMFullResponseEndFrame)
        assert transcript(talking).split() == ["GOOD", "MORNING.", "AND", "GOOD", "NIGHT."]
        assert len(talking.audio()) > RATE // 2


async def test_a_tool_is_called(listening: str) -> None:
    calls: asyncio.Queue[Any] = asyncio.Queue()

    def make(url: str, session: Any) -> OpenAIRealtimeLLMService:
        made = realtime(url, session)
        made.register_function("clock", calls.put)
        return made

    async with agent(make, listening, **RATES) as talking:
        await ask(talking, "call", tools=ToolsSchema(standard_tools=[CLOCK]))
        called = await asyncio.wait_for(calls.get(), 60)
        assert (called.function_name, called.arguments) == ("clock", {"city": "Zürich"})
        await called.result_callback({"time": "noon"})


async def test_a_voice_interrupts_and_its_turn_is_answered(listening: str, voice: np.ndarray) -> None:
    async with agent(realtime, listening, **RATES) as talking:
        await ask(talking, "one two three. " * 30)
        await talking.ear.until(frames.TTSAudioRawFrame)
        padded = np.concatenate([voice, np.zeros(RATE, np.int16)])
        for start in range(0, padded.size, 2_400):
            await talking.put(frames.InputAudioRawFrame(padded[start : start + 2_400].tobytes(), RATE, 1))
        await talking.ear.until(frames.ProposedUserStartedSpeakingFrame)
        await talking.ear.until(frames.LLMFullResponseEndFrame, 2)
        assert transcript(talking).count("THREE") < 30
        assert "EN SECOND 0." in transcript(talking)
