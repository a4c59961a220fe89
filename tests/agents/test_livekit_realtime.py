"""livekit-agents' realtime model of OpenAI, unchanged, against a real server process with a stand-in model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from livekit import rtc
from livekit.agents import llm
from livekit.plugins import openai

PATIENCE = 60
RATE = 24_000


@llm.function_tool
async def clock(city: str) -> str:
    """Tell the time."""
    return f"noon in {city}"


@asynccontextmanager
async def talking(url: str) -> AsyncIterator[Any]:
    """A session without an error."""
    model = openai.realtime.RealtimeModel(base_url=f"{url}/v1", api_key="none", voice="alloy")
    session = model.session()
    failures: list[Any] = []
    session.on("error", failures.append)
    try:
        async with asyncio.timeout(PATIENCE):
            yield session
    finally:
        await session.aclose()
        await model.aclose()
    assert failures == []


async def ask(session: Any, text: str) -> Any:
    context = session.chat_ctx.copy()
    context.add_message(role="user", content=text)
    await session.update_chat_ctx(context)
    return await session.generate_reply()


async def read(generation: Any) -> tuple[str, float, list[Any]]:
    """Return the text, the seconds of audio and the calls of an answer."""
    text, seconds = "", 0.0
    async for message in generation.message_stream:
        text += "".join([str(part) async for part in message.text_stream])
        seconds += sum([frame.duration async for frame in message.audio_stream])
    return text, seconds, [call async for call in generation.function_stream]


async def test_turns_are_answered_aloud_and_kept(listening: str) -> None:
    async with talking(listening) as session:
        await session.update_instructions("Be brief.")
        for asked, answered in (("good morning", "GOOD MORNING"), ("and good night", "AND GOOD NIGHT")):
            text, seconds, _ = await read(await ask(session, asked))
            assert text.strip() == answered
            assert seconds > 0.2
        roles = [item.role for item in session.chat_ctx.items if item.type == "message"]
        assert [role for role in roles if role != "system"] == ["user", "assistant"] * 2


async def test_a_tool_is_called_and_its_result_is_spoken(listening: str) -> None:
    async with talking(listening) as session:
        await session.update_tools([clock])
        _, _, calls = await read(await ask(session, "call"))
        assert [(call.name, call.arguments) for call in calls] == [("clock", '{"city": "Zürich"}')]
        context = session.chat_ctx.copy()
        output = llm.FunctionCallOutput(name="clock", call_id=calls[0].call_id, output="noon it is", is_error=False)
        context.insert([calls[0], output])
        await session.update_chat_ctx(context)
        text, _, _ = await read(await session.generate_reply())
        assert text.strip() == "NOON IT IS"


async def test_a_voice_interrupts_and_its_turn_is_answered(listening: str, voice: np.ndarray) -> None:
    async with talking(listening) as session:
        heard: list[str] = []
        answers: asyncio.Queue[Any] = asyncio.Queue()
        for name in ("input_speech_started", "input_speech_stopped"):
            session.on(name, lambda _, name=name: heard.append(name))
        long = await ask(session, "one two three. " * 30)
        session.on("generation_created", answers.put_nowait)
        padded = np.concatenate([voice, np.zeros(RATE, np.int16)])
        for start in range(0, padded.size, 2_400):
            piece = padded[start : start + 2_400]
            session.push_audio(rtc.AudioFrame(piece.tobytes(), RATE, 1, piece.size))
        text, _, _ = await read(long)
        assert len(text) < 15 * 30
        answer, seconds, _ = await read(await answers.get())
        assert answer.startswith("EN SECOND 0.")
        assert seconds > 1
        assert heard[:2] == ["input_speech_started", "input_speech_stopped"]
