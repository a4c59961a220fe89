"""The engine of a command, in its own process."""

from __future__ import annotations

import asyncio
from typing import Any

from app.cli.local import open_speech
from app.config import load_settings
from app.speech.options import SpeechOptions
from models.timeline import Timeline


async def test_the_sentences_of_a_command_wait_for_each_other_as_long_as_they_take(
    catalog: Any, monkeypatch: Any
) -> None:
    """Nobody else uses its thread: the `queue_seconds` of a server would only make its own work fail."""
    monkeypatch.setenv("NIGHTINGALE_QUEUE_SECONDS", "0.05")
    async with open_speech(load_settings(None), "tone") as speech:

        async def samples(voice: str) -> int:
            options = SpeechOptions(model="tone", voice=voice)
            return sum([pcm.size async for pcm in speech.speak("Hello there.", options, Timeline())])

        first = asyncio.create_task(samples("gated"))
        while not catalog.tone.begun:  # noqa: ASYNC110  (the thread of the models changes it)
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.4, catalog.tone.gate.set)
        assert await samples("steady")
        assert await first
