"""Loudness of voices, each brought to a target."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from app.audio.loudness import Leveller
from models.contract import AudioChunk

RATE = 24_000


def sentence(level: float) -> AudioChunk:
    return AudioChunk((level * np.sin(2 * np.pi * 440 * np.arange(2 * RATE) / RATE)).astype(np.float32))


async def test_what_one_client_has_a_voice_speak_changes_nothing_for_another() -> None:
    async def run(work: Callable[[], None]) -> None:
        work()

    leveller = Leveller(-19.0, run)

    async def level(client: str, chunk: AudioChunk) -> float:
        async def chunks() -> AsyncIterator[AudioChunk]:
            yield chunk

        found = [each.pcm async for each in leveller.level(chunks(), client, ("house", "am_michael"), RATE)]
        return float(np.abs(np.concatenate(found)).max())

    await level("bob", sentence(0.02))
    first, second, bob = [await level(client, sentence(0.2)) for client in ("alice", "alice", "bob")]
    assert first == pytest.approx(second, rel=0.02)
    assert bob > 2 * first
