"""Continuity of streams under the order of `Queues`, on a clock that only computing moves.

Costs are those that `nightingale bench` measured for the house voice on two cores. The assertions follow from them and
from the order alone. `slower` stands for a machine that has other work.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from app.engine.jobs import CancelToken, ModelJob, Priority, Queues
from app.speech.planner import AHEAD
from loadtest.arrivals import LONG_TEXTS
from loadtest.playback import TOLERANCE
from models.timeline import Timeline
from tests.app.standins import IdleJob

# Largest share of a sentence's work between two places where it can be interrupted.
PIECE = 0.2
# Characters, seconds of audio and of work: the table of docs/performance.md.
MEASURED = ((12, 1.15, 0.139), (46, 3.17, 0.235), (99, 6.78, 0.460), (187, 11.15, 0.766))


def audio(sentence: str) -> float:
    """Return the seconds of a sentence's audio."""
    characters, seconds, _ = zip(*MEASURED, strict=True)
    return float(np.interp(len(sentence), characters, seconds))


def work(sentence: str) -> float:
    """Return the seconds that a sentence takes to compute."""
    characters, _, seconds = zip(*MEASURED, strict=True)
    return float(np.interp(len(sentence), characters, seconds))


@dataclass(eq=False)
class Listener:
    """A stream that came at `at`. Its player starts with the first sentence."""

    at: float
    sentences: list[str]
    timeline: Timeline = field(default_factory=Timeline)
    submitted: int = 0
    computed: int = 0
    first: float = 0.0
    silence: float = 0.0

    def hear(self, now: float, seconds: float) -> None:
        """Take the audio of one sentence."""
        until = self.timeline.plays_until
        if until is None:
            self.first = now - self.at
        elif now - until > TOLERANCE:
            self.silence += now - until
        self.timeline.plays_until = max(now, until or now) + seconds
        self.computed += 1


class Thread:
    """Model thread and its listeners. `again`: listeners that come once another one has heard all.

    A stream's first sentence is computed in one turn, a later one gives way after every `piece` of its work.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        comes: list[float],
        *,
        again: int = 0,
        slower: float = 1.0,
        seed: int = 0,
        piece: float = PIECE,
    ) -> None:
        self._loop = loop
        self._coming = sorted(comes)
        self._again = again
        self._slower = slower
        self._draw = np.random.default_rng(seed)
        self._queues = Queues()
        self._piece = piece
        self._jobs: dict[ModelJob[Any], tuple[Listener, str]] = {}
        self._left: dict[ModelJob[Any], float] = {}
        self.listeners: list[Listener] = []

    def run(self) -> Thread:
        """Run until every listener has heard everything."""
        now = 0.0
        while True:
            while self._coming and self._coming[0] <= now:
                text = LONG_TEXTS[int(self._draw.integers(len(LONG_TEXTS)))]
                listener = Listener(heapq.heappop(self._coming), re.split(r"(?<=\.) ", text))
                self.listeners.append(listener)
                for _ in range(1 + AHEAD):
                    self._submit(listener, now)
            job = self._queues.pop(now)
            if job is None:
                if not self._coming:
                    return self
                now = self._coming[0]
                continue
            listener, sentence = self._jobs[job]
            whole = work(sentence) * self._slower
            left = self._left.pop(job, whole)
            turn = left if job.priority is Priority.FIRST_AUDIO else min(left, whole * self._piece)
            now += turn
            if left - turn > 1e-9:
                self._left[job] = left - turn
                job.items = iter(())
                self._queues.push(job)
                continue
            del self._jobs[job]
            listener.hear(now, audio(sentence))
            self._submit(listener, now)
            if listener.computed == len(listener.sentences) and self._again:
                self._again -= 1
                heapq.heappush(self._coming, listener.timeline.plays_until or now)

    def _submit(self, listener: Listener, now: float) -> None:
        if listener.submitted < len(listener.sentences):
            priority = Priority.CONTINUATION if listener.submitted else Priority.FIRST_AUDIO
            job = IdleJob("house", listener.timeline, CancelToken(), priority, loop=self._loop)
            job.submitted = now
            self._jobs[job] = listener, listener.sentences[listener.submitted]
            self._queues.push(job)
            listener.submitted += 1

    @property
    def continuity(self) -> float:
        """Share of the streams that never fell silent."""
        return sum(not listener.silence for listener in self.listeners) / len(self.listeners)

    def first(self, percentile: float) -> float:
        """Return a percentile of the seconds to the first audio."""
        return float(np.percentile([listener.first for listener in self.listeners], percentile))


def live(
    loop: asyncio.AbstractEventLoop, streams: int, slower: float = 1.0, seed: int = 0, piece: float = PIECE
) -> Thread:
    """Run `streams` listeners, who come within five seconds and ask again at their end: 200 streams in all."""
    comes = np.random.default_rng(seed).uniform(0, 5, streams).tolist()
    return Thread(loop, comes, again=200 - streams, slower=slower, seed=seed, piece=piece).run()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slower", [1.0, 1.25])
def test_eight_live_streams_are_continuous_and_begin_soon(
    loop: asyncio.AbstractEventLoop, slower: float, seed: int
) -> None:
    one, eight = live(loop, 1, slower, seed), live(loop, 8, slower, seed)
    assert len(eight.listeners) == 200
    assert one.continuity == 1
    assert eight.continuity >= 0.99
    assert eight.first(99) < 3 * one.first(99)


@pytest.mark.parametrize("seed", range(4))
def test_eight_that_come_at_once_are_continuous(loop: asyncio.AbstractEventLoop, seed: int) -> None:
    """Each begins after those before it, and is spoken on before it falls silent."""
    burst = Thread(loop, [0.0] * 8, seed=seed).run()
    firsts = [work(listener.sentences[0]) for listener in burst.listeners]
    assert burst.continuity == 1
    assert [listener.first for listener in burst.listeners] == pytest.approx(np.cumsum(firsts))


def test_more_than_the_thread_can_do_is_heard(loop: asyncio.AbstractEventLoop) -> None:
    """No order serves them all in time: the assertions above can fail. The order keeps their beginnings short."""
    crowd = Thread(loop, [0.0] * 24).run()
    assert crowd.continuity < 0.5
    assert crowd.first(100) < 1.5 * sum(work(listener.sentences[0]) for listener in crowd.listeners)
    overload = live(loop, 8, slower=3.0)
    assert overload.continuity < 0.5
