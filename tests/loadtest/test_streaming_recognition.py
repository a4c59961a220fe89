"""Figures of live recognition, on events that are known."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.recognition.events import LiveHypothesis, LiveOptions, LiveUtterance
from loadtest.streaming_recognition import Result, Spoken, changed, measure, parse, report


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [("", "a b", 0), ("a b", "a b c", 0), ("a b", "a c", 1), ("a b c", "x", 3), ("a b", "", 2), ("a b", "a", 1)],
)
def test_changed(old: str, new: str, count: int) -> None:
    assert changed(old.split(), new.split()) == count


def test_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Live:
        async def push(self, pcm: object) -> None: ...

        async def finish(self) -> None: ...

        def close(self, outcome: str) -> None: ...

        async def __aiter__(self) -> Any:
            yield LiveHypothesis(0, 0.0, 1.0, "", "the dig", ())
            yield LiveHypothesis(0, 0.0, 1.0, "The", " dog", ())
            await asyncio.sleep(0.2)
            yield LiveUtterance(0, 0.0, 2.0, "The dog barks", "en", ())

    async def live(*_: object) -> Live:
        return Live()

    async def model(*_: object) -> tuple[str, None]:
        return "ear", None

    service: Any = SimpleNamespace(live=live, model=model)
    spoken = Spoken(np.zeros(1_600, np.float32), ["the", "old", "dog", "barks"], [0.0, 0.0, 0.0, 0.0])
    result = Result()
    asyncio.run(measure(service, spoken, LiveOptions(), 1.0, result))
    assert (result.flicker, result.lost, result.wrong, result.words, result.written) == (1, 1, 1, 4, 3)
    assert len(result.lags) == 3
    assert result.lags[0] < 0.15 < result.lags[1] <= result.lags[2]
    assert "lost  25.0%" in report("agreement", result)
    assert parse(["--policies", "attention"]).policies == ["attention"]
