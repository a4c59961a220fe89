"""Model thread on a real event loop, with a scripted synthesizer."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from app import errors
from app.engine.jobs import CancelToken, Priority, Results, SpeechJob, TranslationJob
from app.engine.model_loader import ModelStatus
from app.engine.worker import ModelWorker
from models import contract
from models.timeline import Stage, Timeline


class Script:
    """Synthesizer that yields as many chunks as `phonemes` says, each through `gate`; the text decides failures."""

    sample_rate = 1000
    voices = ()
    default_voice = "v"
    max_phonemes = 100
    symbols = frozenset("a")
    reads: contract.Reads = "phonemes"
    parameters = frozenset[str]()
    changes_speed = True
    watermarked = False

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.order: list[str] = []
        self.closed: list[str] = []
        self.threads: set[int] = set()

    def check_voice(self, voice: str) -> None: ...

    def warm(self, progress: Callable[[contract.WarmupStep], None]) -> None:
        progress(contract.WarmupStep("only", 1, 1, 0.0))

    def stream(
        self, request: contract.SpeechRequest, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.AudioChunk]:
        self.threads.add(threading.get_ident())
        if request.text == "unknown":
            raise contract.UnknownVoiceError("no such voice")
        try:
            for index in range(int(request.phonemes)):
                while not self.gate.acquire(timeout=0.002):
                    if cancelled():
                        raise contract.Cancelled
                if request.text == "boom":
                    raise ValueError("boom")
                self.order.append(f"{request.text}{index}")
                yield contract.AudioChunk(np.full(10, index, np.float32), last=index == int(request.phonemes) - 1)
        finally:
            self.closed.append(request.text)


@pytest.fixture
def queue_size() -> int:
    return 8


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def worker(script: Script, queue_size: int) -> Iterator[ModelWorker]:
    """A worker with two models: `script` by the name of m, and `Steps` of it by the name of t."""
    with working(script, queue_size) as worker:
        yield worker


@contextmanager
def working(script: Script, queue_size: int = 8) -> Iterator[ModelWorker]:
    steps = Steps(script)
    worker = ModelWorker(lambda name: steps if name == "t" else script, queue_size=queue_size)
    worker.start()
    for name in "mt":
        worker.request_load(name)
        while worker.state(name).status is not ModelStatus.READY:
            time.sleep(0.001)
    try:
        yield worker
    finally:
        release(script, 100)
        worker.stop()
        assert not worker.alive


async def end(script: Script, worker: ModelWorker) -> None:
    """Open the gate for all that is left, and wait for the end of the thread."""
    release(script, 100)
    await asyncio.to_thread(worker.stop)


def submit(
    worker: ModelWorker,
    text: str,
    chunks: int = 1,
    *,
    token: CancelToken | None = None,
    priority: Priority = Priority.FIRST_AUDIO,
    timeline: Timeline | None = None,
) -> Results[contract.AudioChunk]:
    request = contract.SpeechRequest(text, str(chunks), "v")
    model = worker.state("m").ready_synthesizer()
    return worker.submit(SpeechJob("m", model, request, timeline or Timeline(), token or CancelToken(), priority))


async def collect(utterance: Results[contract.AudioChunk]) -> list[float]:
    return [float(chunk.pcm[0]) async for chunk in utterance]


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the condition is another thread's
            await asyncio.sleep(0.002)


def release(script: Script, count: int) -> None:
    for _ in range(count):
        script.gate.release()


async def test_chunks_arrive_in_order_from_one_thread_that_is_not_this_one(script: Script, worker: ModelWorker) -> None:
    release(script, 12)
    results = await asyncio.gather(*(collect(submit(worker, name, 4)) for name in "abc"))
    assert results == [[0.0, 1.0, 2.0, 3.0]] * 3
    await end(script, worker)
    assert len(script.threads) == 1
    assert threading.get_ident() not in script.threads


async def test_a_short_request_does_not_wait_out_a_long_one(script: Script, worker: ModelWorker) -> None:
    long = asyncio.create_task(collect(submit(worker, "long", 6)))
    release(script, 1)
    await settle(lambda: script.order == ["long0"])
    short = asyncio.create_task(collect(submit(worker, "short", 1)))
    release(script, 20)
    assert await short == [0.0]
    assert len(await long) == 6
    await end(script, worker)
    # One chunk of the long one was under way already when the short one came.
    assert script.order.index("short0") <= 2


@pytest.mark.parametrize("queue_size", [20])
async def test_first_chunks_go_before_later_ones_and_later_ones_do_not_starve(
    script: Script, worker: ModelWorker
) -> None:
    blocker = submit(worker, "blocker")
    # Their audio has run out: only clients that have heard nothing are more urgent.
    silent = Timeline()
    silent.computed(0.0)
    later = [submit(worker, f"later{n}", priority=Priority.CONTINUATION, timeline=silent) for n in range(2)]
    first = [submit(worker, f"first{n}") for n in range(7)]
    release(script, 20)
    await asyncio.gather(*(collect(utterance) for utterance in [blocker, *later, *first]))
    await end(script, worker)
    order = [name.removesuffix("0") if name.count("0") > 1 else name[:-1] for name in script.order]
    assert order.index("first0") < order.index("later0")
    assert order.index("later0") < order.index("first6")


async def test_an_unread_utterance_is_parked_and_others_go_on(script: Script, worker: ModelWorker) -> None:
    unread = submit(worker, "unread", 10)
    release(script, 30)
    await settle(lambda: len(script.order) >= 2)
    assert await collect(submit(worker, "other", 3)) == [0.0, 1.0, 2.0]
    assert sum(name.startswith("unread") for name in script.order) == 2
    assert len(await collect(unread)) == 10


async def test_work_cancelled_in_the_queue_is_never_begun(script: Script, worker: ModelWorker) -> None:
    blocker = submit(worker, "blocker")
    token = CancelToken()
    doomed = submit(worker, "doomed", token=token)
    token.cancel()
    release(script, 5)
    await collect(blocker)
    with pytest.raises(contract.Cancelled):
        await collect(doomed)
    await end(script, worker)
    assert script.order == ["blocker0"]


async def test_cancelling_stops_a_chunk_under_way(script: Script, worker: ModelWorker) -> None:
    token = CancelToken()
    utterance = submit(worker, "stuck", 3, token=token)
    await settle(lambda: bool(script.threads))
    token.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(contract.Cancelled):
            await collect(utterance)
    await end(script, worker)
    assert script.order == []
    assert script.closed == ["stuck"]


async def test_closing_a_parked_utterance_closes_the_model_s_generator(script: Script, worker: ModelWorker) -> None:
    utterance = submit(worker, "left", 10)
    release(script, 10)
    await settle(lambda: len(script.order) == 2)
    utterance.close()
    await settle(lambda: script.closed == ["left"])
    await end(script, worker)
    assert script.order == ["left0", "left1"]


async def test_a_failing_request_fails_alone(script: Script, worker: ModelWorker) -> None:
    release(script, 10)
    results = await asyncio.gather(
        collect(submit(worker, "boom")),
        collect(submit(worker, "unknown")),
        collect(submit(worker, "fine", 2)),
        return_exceptions=True,
    )
    assert isinstance(results[0], errors.ModelFailedError)
    assert "ValueError" in results[0].message
    assert isinstance(results[1], contract.UnknownVoiceError)
    assert results[2] == [0.0, 1.0]
    assert worker.alive


@pytest.mark.parametrize("queue_size", [2])
async def test_the_queue_is_bounded_for_first_chunks(script: Script, worker: ModelWorker) -> None:
    running = submit(worker, "running")
    await settle(lambda: bool(script.threads))
    waiting = [submit(worker, f"w{n}") for n in range(2)]
    with pytest.raises(errors.OverloadedError, match="2 requests are waiting"):
        submit(worker, "one too many")
    late = submit(worker, "later", priority=Priority.CONTINUATION)
    release(script, 10)
    await asyncio.gather(*(collect(utterance) for utterance in [running, *waiting, late]))


async def test_waiting_is_recorded_as_queue_time(script: Script, worker: ModelWorker) -> None:
    timeline = Timeline()
    begin = time.perf_counter()
    blocker = submit(worker, "blocker")
    waiting = submit(worker, "waiting", timeline=timeline)
    await asyncio.sleep(0.05)
    release(script, 5)
    await collect(blocker)
    await collect(waiting)
    assert 0.045 < timeline.stages[Stage.QUEUE] <= time.perf_counter() - begin


async def test_stopping_cancels_what_runs_and_fails_what_waits(script: Script, worker: ModelWorker) -> None:
    running = submit(worker, "running")
    waiting = submit(worker, "waiting")
    await settle(lambda: bool(script.threads))
    async with asyncio.timeout(60):
        await asyncio.to_thread(worker.stop)
        with pytest.raises(contract.Cancelled):
            await collect(running)
        with pytest.raises(errors.UnavailableError):
            await collect(waiting)
    with pytest.raises(errors.UnavailableError):
        submit(worker, "late")


def test_models_that_cannot_be_loaded_say_why_and_the_thread_survives() -> None:
    def load(name: str) -> Script:
        if name == "absent":
            raise contract.WeightsMissingError("not here")
        raise OSError("disk on fire")

    worker = ModelWorker(load)
    with pytest.raises(errors.ModelLoadingError):
        worker.state("absent").ready_model()
    worker.start()
    try:
        for name in ("absent", "bad"):
            worker.request_load(name)
        while worker.state("bad").status is ModelStatus.LOADING:
            time.sleep(0.001)
        with pytest.raises(errors.ModelAbsentError, match="not here"):
            worker.state("absent").ready_model()
        with pytest.raises(errors.ModelFailedError, match="disk on fire"):
            worker.state("bad").ready_model()
        assert worker.alive
        assert worker.heartbeat_age < 60
    finally:
        worker.stop()


def test_warm_up_is_visible_and_can_be_left_out() -> None:
    script = Script()
    worker = ModelWorker(lambda name: script, warmup=False)
    worker.start()
    try:
        worker.request_load("m")
        while worker.state("m").status is not ModelStatus.READY:
            time.sleep(0.001)
        assert worker.state("m").step is None
    finally:
        worker.stop()
    with working(script) as warm:
        step = warm.state("m").step
        assert step is not None
        assert (step.name, step.done, step.total) == ("only", 1, 1)


class Steps:
    """Translator that needs `n` steps for a sentence of `n` words, with one pass of the gate per step of the batch."""

    languages = ("eng_Latn", "fra_Latn")
    max_batch = 8

    def __init__(self, script: Script) -> None:
        self.gate = script.gate
        self.order = script.order
        self.closed = script.closed

    def targets(self, source: str) -> list[str]:
        return [language for language in self.languages if language != source]

    def check(self, request: contract.TranslationRequest) -> None: ...

    def warm(self, progress: Callable[[contract.WarmupStep], None]) -> None:
        progress(contract.WarmupStep("only", 1, 1, 0.0))

    def translate(
        self, batch: Sequence[contract.TranslationRequest], timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.Translation | None]:
        if any(request.text == "unknown" for request in batch):
            raise contract.OutsideCoverageError("not in the phrase book")
        left = {index: len(request.text.split()) for index, request in enumerate(batch)}
        step = 0
        try:
            while left:
                while not self.gate.acquire(timeout=0.002):
                    if cancelled():
                        raise contract.Cancelled
                step += 1
                self.order.append(f"step{step}")
                for index in [index for index, words in left.items() if words <= step]:
                    del left[index]
                    yield contract.Translation(index, contract.Hypothesis(batch[index].text.upper(), -0.5))
                yield None
        finally:
            self.closed.append("batch")


def batch_of(*texts: str) -> list[contract.TranslationRequest]:
    return [contract.TranslationRequest(text, "eng_Latn", "fra_Latn") for text in texts]


def submit_batch(
    worker: ModelWorker, batch: list[contract.TranslationRequest], timeline: Timeline, token: CancelToken
) -> Results[contract.Translation]:
    model = worker.state("t").ready_translator()
    return worker.submit(TranslationJob("t", model, batch, timeline, token))


async def test_translations_arrive_as_they_are_finished(script: Script, worker: ModelWorker) -> None:
    release(script, 10)
    timeline = Timeline()
    results = submit_batch(worker, batch_of("a b c", "d", "e f"), timeline, CancelToken())
    assert [(item.index, item.best.text) async for item in results] == [(1, "D"), (2, "E F"), (0, "A B C")]
    assert Stage.QUEUE in timeline.stages
    await end(script, worker)
    assert script.closed == ["batch"]


async def test_a_batch_ends_with_its_last_translation(script: Script, worker: ModelWorker) -> None:
    """Its end takes no turn of the model."""

    class Last(Steps):
        def translate(
            self, batch: Sequence[contract.TranslationRequest], timeline: Timeline, cancelled: Callable[[], bool]
        ) -> Iterator[contract.Translation | None]:
            for index in (1, 0):
                yield contract.Translation(index, contract.Hypothesis(batch[index].text, -0.5))
            raise AssertionError("another turn")

    job = TranslationJob("t", Last(script), batch_of("a", "b"), Timeline(), CancelToken())
    assert [item.index async for item in worker.submit(job)] == [1, 0]


async def test_speech_has_its_turn_between_the_steps_of_a_translation(script: Script, worker: ModelWorker) -> None:
    results = submit_batch(worker, batch_of("a b c d e f"), Timeline(), CancelToken())
    release(script, 1)
    await settle(lambda: script.order == ["step1"])
    spoken = submit(worker, "spoken", 2)
    release(script, 20)
    assert await collect(spoken) == [0.0, 1.0]
    assert [item.index async for item in results] == [0]
    await end(script, worker)
    # One step was under way already when the utterance came.
    assert script.order.index("spoken0") <= 3
    assert script.order.index("spoken1") < script.order.index("step6")


async def test_cancelling_stops_a_translation_between_steps(script: Script, worker: ModelWorker) -> None:
    token = CancelToken()
    results = submit_batch(worker, batch_of("a b c"), Timeline(), token)
    waiting = submit_batch(worker, batch_of("d e f"), Timeline(), token)
    release(script, 2)
    await settle(lambda: len(script.order) == 2)
    token.cancel()
    for each in (results, waiting):
        async with asyncio.timeout(60):
            with pytest.raises(contract.Cancelled):
                await anext(each)
    await end(script, worker)
    assert len(script.order) == 2
    assert script.closed.count("batch") <= 2


async def test_an_unread_batch_is_finished_and_costs_nobody_anything(script: Script, worker: ModelWorker) -> None:
    release(script, 20)
    results = submit_batch(worker, batch_of(*"abcdefgh"), Timeline(), CancelToken())
    await settle(lambda: script.closed == ["batch"])
    results.close()
    assert [item async for item in results] == []


async def test_what_a_translator_refuses_is_raised_to_its_reader(script: Script, worker: ModelWorker) -> None:
    with pytest.raises(contract.OutsideCoverageError):
        await anext(submit_batch(worker, batch_of("fine", "unknown"), Timeline(), CancelToken()))
