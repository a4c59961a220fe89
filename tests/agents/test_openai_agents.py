"""openai-agents' realtime agents, unchanged, hold conversations with a real server process and a stand-in model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner

PATIENCE = 60
CALLS: list[str] = []


@function_tool
def clock(city: str) -> str:
    """Tell the time."""
    CALLS.append(city)
    return "it is noon"


@asynccontextmanager
async def talking(url: str, tools: Sequence[Any] = ()) -> AsyncIterator[Any]:
    agent = RealtimeAgent(name="Assistant", instructions="Be brief.", tools=list(tools))
    runner = RealtimeRunner(agent, config={"model_settings": {"model_name": "gpt-realtime", "voice": "alloy"}})
    address = url.replace("http", "ws", 1) + "/v1/realtime?model=gpt-realtime"
    async with asyncio.timeout(PATIENCE):
        async with await runner.run(model_config={"url": address, "api_key": "none"}) as session:
            yield session


async def until_end(session: Any, each: Callable[[Any], Awaitable[None]] | None = None) -> int:
    """Read events until the agent's turn ends; return the bytes of its audio."""
    size = 0
    async for event in session:
        assert event.type != "error", event
        if event.type == "audio":
            size += len(event.audio.data)
        if each is not None:
            await each(event)
        if event.type == "agent_end":
            return size
    raise AssertionError("the session ended")


def transcript(session: Any, role: str) -> list[str]:
    items = [item for item in session._history if getattr(item, "role", None) == role]
    return [getattr(part, "text", None) or part.transcript for item in items for part in item.content]


async def test_turns_are_answered_aloud_and_kept(listening: str) -> None:
    async with talking(listening) as session:
        for text in ("good morning", "and good night"):
            await session.send_message(text)
            assert await until_end(session) > 10_000
        assert transcript(session, "user") == ["good morning", "and good night"]
        assert [text.strip() for text in transcript(session, "assistant")] == ["GOOD MORNING", "AND GOOD NIGHT"]


async def test_a_tool_is_called_and_its_result_is_spoken(listening: str) -> None:
    CALLS.clear()
    async with talking(listening, [clock]) as session:
        await session.send_message("please call")
        while not CALLS or transcript(session, "assistant")[-1:] != ["IT IS NOON "]:
            await until_end(session)
    assert CALLS == ["Zürich"]


async def test_a_voice_interrupts_the_answer(listening: str, voice: Any) -> None:
    """The recording of somebody who speaks is sent while a long answer is being spoken."""

    seen: list[str] = []

    async def speak(event: Any) -> None:
        seen.append(event.type)
        if event.type == "audio" and seen.count("audio") == 1:
            for start in range(0, voice.size, 4_800):
                await session.send_audio(voice[start : start + 4_800].tobytes())

    async with talking(listening) as session:
        await session.send_message("one two three. " * 30)
        while "audio_interrupted" not in seen:
            await until_end(session, speak)
        assert len(transcript(session, "assistant")[0]) < 15 * 30
