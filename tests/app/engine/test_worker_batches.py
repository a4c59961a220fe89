"""Sentences that wait are spoken in one batch: the model thread with a scripted synthesizer."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from app.engine.jobs import CancelToken, Priority
from app.engine.worker import ModelWorker
from app.errors import ModelFailedError
from models.contract import AudioChunk, BatchItem, Cancelled, ModelError, SpeechRequest, UnknownVoiceError
from models.timeline import Stage, Timeline
from tests.app.engine.test_worker import Script, collect, end, release, settle, submit, working


class BatchScript(Script):
    """Script that speaks up to four requests of equal voice at once; the text decides failures."""

    max_batch = 4

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    def batch_key(self, request: SpeechRequest) -> str | None:
        return None if request.text == "long" else request.voice

    def speak(self, batch: Sequence[BatchItem]) -> Iterator[tuple[int, AudioChunk | ModelError]]:
        self.batches.append([item.request.text for item in batch])
        if any(item.request.text == "boom" for item in batch):
            raise ValueError("boom")
        for number, item in reversed(list(enumerate(batch))):
            item.timeline.add(Stage.DECODER, 0.5)
            if item.request.text == "unknown":
                yield number, UnknownVoiceError("no such voice")
                continue
            while not self.gate.acquire(timeout=0.002):
                if item.cancelled():
                    break
            if item.cancelled():
                yield number, Cancelled()
                continue
            yield number, AudioChunk(np.full(10, ord(item.request.text[0]), np.float32))


@pytest.fixture
def script() -> BatchScript:
    return BatchScript()


@pytest.fixture
def worker(script: BatchScript) -> Iterator[ModelWorker]:
    with working(script) as worker:
        yield worker


def submit_all(texts: str, worker: ModelWorker, **timelines: Timeline) -> list[asyncio.Task[list[float]]]:
    """Submit one request a letter, or word, behind one that is under way."""
    return [asyncio.create_task(collect(submit(worker, text, timeline=timelines.get(text)))) for text in texts.split()]


async def under_way(script: BatchScript, worker: ModelWorker) -> asyncio.Task[list[float]]:
    """A request that has the thread until its one chunk is released."""
    long = asyncio.create_task(collect(submit(worker, "long", 1)))
    await settle(lambda: bool(script.threads))
    return long


async def results_behind(script: BatchScript, worker: ModelWorker, texts: str, **timelines: Timeline) -> list[object]:
    """Return the results of `texts`, which are submitted while another request has the thread."""
    long = await under_way(script, worker)
    waiting = submit_all(texts, worker, **timelines)
    await settle(lambda: worker.depth()[Priority.FIRST_AUDIO] == len(waiting))
    release(script, 20)
    await long
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_who_waits_is_spoken_together_and_hears_its_own(script: BatchScript, worker: ModelWorker) -> None:
    timelines = {name: Timeline() for name in "abcde"}
    heard = await results_behind(script, worker, "a b c d e", **timelines)
    await end(script, worker)
    assert heard == [*([float(ord(name))] for name in "abcd"), [0.0]]
    assert script.batches == [["a", "b", "c", "d"]]  # and the fifth alone, as it would be without a batch
    assert script.order == ["long0", "e0"]
    for name in "abcd":
        assert timelines[name].stages[Stage.QUEUE] > 0
        assert timelines[name].stages[Stage.DECODER] == 0.5
        assert timelines[name].plays_until is not None
    busy = [timelines[name].busy for name in "abcd"]
    assert all(seconds > 0 for seconds in busy)


async def test_what_one_is_refused_concerns_no_other(script: BatchScript, worker: ModelWorker) -> None:
    a, refused, c = await results_behind(script, worker, "a unknown c")
    assert (a, c) == ([97.0], [99.0])
    assert isinstance(refused, UnknownVoiceError)


async def test_a_batch_that_fails_is_tried_one_by_one(script: BatchScript, worker: ModelWorker, caplog: Any) -> None:
    timelines = {"a": Timeline()}
    a, boom, c = await results_behind(script, worker, "a boom c", **timelines)
    await end(script, worker)
    assert script.batches == [["a", "boom", "c"]]
    assert (a, c) == ([0.0], [0.0])
    assert isinstance(boom, ModelFailedError)
    assert [stage for stage, _, _ in timelines["a"].spans] == [Stage.QUEUE]
    assert "failed on a batch of 3" in caplog.text


async def test_one_of_a_batch_can_be_cancelled_under_way(script: BatchScript, worker: ModelWorker) -> None:
    long = await under_way(script, worker)
    token = CancelToken()
    gone = asyncio.create_task(collect(submit(worker, "b", token=token)))
    stays = asyncio.create_task(collect(submit(worker, "a")))
    await settle(lambda: worker.depth()[Priority.FIRST_AUDIO] == 2)
    release(script, 1)
    await long
    await settle(lambda: script.batches == [["b", "a"]])
    token.cancel()
    release(script, 1)
    assert await stays == [97.0]
    with pytest.raises(Cancelled):
        await gone


async def test_who_was_cancelled_in_the_queue_is_not_in_the_batch(script: BatchScript, worker: ModelWorker) -> None:
    long = await under_way(script, worker)
    tokens = {name: CancelToken() for name in "abc"}
    waiting = [asyncio.create_task(collect(submit(worker, name, token=tokens[name]))) for name in "abc"]
    await settle(lambda: worker.depth()[Priority.FIRST_AUDIO] == 3)
    tokens["b"].cancel()
    release(script, 9)
    await long
    a, b, c = await asyncio.gather(*waiting, return_exceptions=True)
    assert (a, c) == ([97.0], [99.0])
    assert isinstance(b, Cancelled)
    await end(script, worker)
    assert script.batches == [["a", "c"]]


async def test_stopping_ends_a_batch(script: BatchScript, worker: ModelWorker) -> None:
    long = await under_way(script, worker)
    waiting = submit_all("a b", worker)
    await settle(lambda: worker.depth()[Priority.FIRST_AUDIO] == 2)
    release(script, 1)
    await long
    await settle(lambda: bool(script.batches))
    await asyncio.to_thread(worker.stop)
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ended] == [Cancelled, Cancelled]
