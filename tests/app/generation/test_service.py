"""Conversations that are longer than a model's context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from app.config import Settings
from app.generation.options import GenerationOptions
from app.generation.service import GenerationService
from models.contract import InputTooLongError
from tests.app.standins import Scribe


@dataclass
class Reader(Scribe):
    """Reads all messages, and not the last one alone."""

    def prompt(self, messages: Sequence[Any], tools: Sequence[Any] = (), *, reasoning: bool = False) -> tuple[int, ...]:
        self.conversations.append(list(messages))
        return tuple(b"".join(message["content"].encode() for message in messages))


async def kept(messages: list[tuple[str, str]], *, truncate: bool = True) -> list[str]:
    service = GenerationService(Settings(), None, None, None, None)  # type: ignore[arg-type]  (it asks none)
    reader = Reader(context=100)
    written = tuple({"role": role, "content": content} for role, content in messages)
    try:
        await service._prompt(reader, GenerationOptions(messages=written, truncate=truncate))
    finally:
        await service.close()
    return [message["content"] for message in reader.conversations[-1]]


async def test_the_oldest_messages_are_left_out() -> None:
    turns = [(role, f"{role}{number:05}") for number in range(20) for role in ("user", "assistant")]
    question = ("user", "user00020")
    found = await kept([("system", "system"), *turns, question])
    assert found[0] == "system"
    assert found[1].startswith("user")
    assert found[-1] == "user00020"
    assert 30 < len("".join(found)) < 75
    # What fits stays whole; a session can say that nothing is left out, and one long message is no one's to cut.
    assert await kept([("system", "system"), turns[0], question]) == ["system", "user00000", "user00020"]
    assert len(await kept([*turns, question], truncate=False)) == 41
    assert await kept([("system", "system"), ("user", "x" * 200)]) == ["system", "x" * 200]


async def test_what_no_context_can_hold_is_not_made_into_tokens() -> None:
    long = ("user", "x" * 1_000)
    assert len("".join(await kept([("system", "system"), *[long] * 8, ("user", "last")]))) <= 100
    with pytest.raises(InputTooLongError, match="8000 characters"):
        await kept([long] * 8, truncate=False)
    with pytest.raises(InputTooLongError, match="4000 characters"):
        await kept([("user", "x" * 4_000)])
