"""Rules for the unloading of models, and the worker that applies them."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from app.engine.jobs import CancelToken, SpeechJob
from app.engine.model_loader import ModelState, ModelStatus
from app.engine.unloading import GRACE, UnloadRules, used
from app.engine.worker import ModelWorker
from app.errors import ModelFailedError, ModelMemoryError, ModelTooLargeError, ServiceError
from models.contract import SpeechRequest, WeightsError
from models.loading import step
from models.timeline import Timeline
from tests.app.standins import Tone
from tests.processes import wait_until

NOW = 1_000.0


def loaded(name: str, *, used_at: float = 0.0, memory: int = 100, **values: Any) -> ModelState:
    state = ModelState(name, status=ModelStatus.READY, memory=memory, last_used=used_at, **values)
    state.model = Tone()
    return state


def test_a_model_that_was_not_used_for_long_is_due() -> None:
    rules = UnloadRules(idle_seconds=60, idle_by_model={"kept": 0, "soon": 5})
    kept, busy, fresh = loaded("kept"), loaded("busy", requests=1), loaded("fresh", used_at=NOW - 59)
    assert rules.due([kept, busy, fresh], NOW) is None
    old = loaded("old", used_at=NOW - 60)
    assert rules.due([kept, busy, fresh, old], NOW) == (old, "idle")
    soon = loaded("soon", used_at=NOW - 6)
    assert rules.due([kept, soon], NOW) == (soon, "idle")


@pytest.mark.parametrize(("rules", "jobs"), [(UnloadRules(), 0), (UnloadRules(idle_seconds=1), 1)])
def test_nothing_is_due_without_limits_or_while_jobs_use_it(rules: UnloadRules, jobs: int) -> None:
    assert rules.due([loaded("a", jobs=jobs)], NOW) is None


def test_models_beyond_the_budget_go_least_recently_used_first() -> None:
    rules = UnloadRules(budget=250)
    first, second, third = (loaded(name, used_at=at) for name, at in (("a", 3), ("b", 1), ("c", 2)))
    assert rules.due([first, second, third], NOW) == (second, "memory")
    second.requests = 1
    assert rules.due([first, second, third], NOW) == (third, "memory")


def test_room_is_made_by_as_few_as_needed() -> None:
    rules = UnloadRules(budget=300)
    states = [loaded("a", used_at=3), loaded("b", used_at=1), loaded("c", used_at=2)]
    wanted = ModelState("wanted", size=150)
    assert rules.victims(states, wanted, NOW) == [states[1], states[2]]
    assert rules.victims(states[:1], wanted, NOW) == []


def test_there_is_no_room_beside_models_in_use() -> None:
    rules = UnloadRules(budget=300)
    states = [loaded("a", requests=1), loaded("b", jobs=1), loaded("c")]
    wanted = ModelState("wanted", size=150)
    assert rules.victims(states, wanted, NOW) is None
    told = rules.refuse_room(wanted, states).message
    assert "a, b, c" in told and "150" not in told  # in MB
    assert UnloadRules().victims(states, wanted, NOW) == []


def test_a_model_that_a_request_comes_back_for_is_kept_for_a_while() -> None:
    rules = UnloadRules(budget=150)
    awaited = loaded("a", used_at=NOW, awaited=True)
    wanted = ModelState("wanted", size=100)
    assert rules.victims([awaited], wanted, NOW + GRACE - 0.1) is None
    assert rules.victims([awaited], wanted, NOW + GRACE) == [awaited]


def test_only_loaded_models_count() -> None:
    assert used([loaded("a"), ModelState("b", memory=500)]) == 100


class Workers:
    """Workers with models that are counted: `alive` are those that something refers to."""

    def __init__(self) -> None:
        self.started: list[ModelWorker] = []
        self.made: list[weakref.ref[Tone]] = []
        self.sizes = {"large": 1_000}
        self.fails = False
        self.warm_gate: threading.Semaphore | None = None

    def load(self, name: str) -> Tone:
        if self.fails:
            raise WeightsError("/srv/x/broken.safetensors: damaged")
        model = Tone(warm_gate=self.warm_gate)
        self.made.append(weakref.ref(model))
        return model

    def begin(self, rules: UnloadRules) -> ModelWorker:
        worker = ModelWorker(self.load, rules=rules, size_of=lambda name: self.sizes.get(name, 100))
        worker.start()
        self.started.append(worker)
        return worker

    @property
    def alive(self) -> int:
        gc.collect()
        return sum(each() is not None for each in self.made)


@pytest.fixture
def workers() -> Iterator[Workers]:
    found = Workers()
    yield found
    for worker in found.started:
        if found.warm_gate is not None:
            found.warm_gate.release(10)
        worker.stop()


def until(worker: ModelWorker, name: str, status: ModelStatus) -> ModelState:
    wait_until(lambda: worker.state(name).status is status, lambda: str(worker.state(name)))
    return worker.state(name)


def load(worker: ModelWorker, name: str, **options: bool) -> ModelState:
    worker.request_load(name, **options)
    return until(worker, name, ModelStatus.READY)


def refused(state: ModelState) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        state.ready_model()
    return caught.value


def test_an_idle_model_is_unloaded_and_loaded_again(workers: Workers) -> None:
    worker = workers.begin(UnloadRules(idle_seconds=1))
    state = load(worker, "a")
    assert len(workers.made) == 1  # a halted machine may find it idle for long enough already
    until(worker, "a", ModelStatus.IDLE)
    assert workers.alive == 0
    assert (state.model, state.synthesizer, state.step) == (None, None, None)
    assert state.served and state.available
    assert load(worker, "a") is state
    assert len(workers.made) == 2


def test_a_model_in_use_is_unloaded_when_the_last_use_ends(workers: Workers) -> None:
    worker = workers.begin(UnloadRules())
    state = load(worker, "a")
    assert worker.hold(state) and worker.hold(state)
    worker.request_unload("a")
    worker.release(state)
    time.sleep(0.1)
    assert state.status is ModelStatus.UNLOADING
    assert not worker.hold(state), "a new request may not keep it"
    assert state.ready_model() is state.model, "those that hold it go on"
    worker.release(state)
    until(worker, "a", ModelStatus.IDLE)
    assert workers.alive == 0


def test_a_load_takes_an_unload_back(workers: Workers) -> None:
    worker = workers.begin(UnloadRules())
    state = load(worker, "a")
    worker.hold(state)
    worker.request_unload("a")
    assert worker.request_load("a").status is ModelStatus.UNLOADING, "a request does not"
    assert worker.request_load("a", again=True).status is ModelStatus.READY
    worker.release(state)
    assert len(workers.made) == 1


def test_the_least_recently_used_model_makes_room(workers: Workers) -> None:
    worker = workers.begin(UnloadRules(budget=250))
    for name in "ab":
        load(worker, name)
    worker.hold(worker.state("a"))
    worker.release(worker.state("a"))
    load(worker, "c")
    assert [worker.state(name).status for name in "abc"] == [ModelStatus.READY, ModelStatus.IDLE, ModelStatus.READY]
    assert workers.alive == 2


def test_a_model_without_room_is_refused_until_there_is_some(workers: Workers) -> None:
    worker = workers.begin(UnloadRules(budget=100))
    held = load(worker, "a")
    worker.hold(held)
    worker.request_load("b")
    state = until(worker, "b", ModelStatus.IDLE)
    error = refused(state)
    assert isinstance(error, ModelMemoryError) and error.headers()["retry-after"] == "5"
    worker.release(held)
    load(worker, "b")
    assert worker.state("a").status is ModelStatus.IDLE


def test_a_model_that_cannot_fit_is_refused_and_takes_nobodys_place(workers: Workers) -> None:
    worker = workers.begin(UnloadRules(budget=500))
    load(worker, "a")
    worker.request_load("large")
    error = refused(until(worker, "large", ModelStatus.FAILED))
    assert isinstance(error, ModelTooLargeError) and "retry-after" not in error.headers()
    assert worker.state("a").status is ModelStatus.READY


def test_a_failed_load_can_be_tried_again(workers: Workers) -> None:
    worker = workers.begin(UnloadRules())
    workers.fails = True
    worker.request_load("a")
    assert isinstance(refused(until(worker, "a", ModelStatus.FAILED)), ModelFailedError)
    workers.fails = False
    assert worker.request_load("a").status is ModelStatus.FAILED, "a request does not try it again"
    load(worker, "a", again=True)
    assert worker.state("a").error is None


def test_two_loads_at_once_are_one(workers: Workers) -> None:
    worker = workers.begin(UnloadRules())
    for _ in range(5):
        worker.request_load("a", again=True)
    until(worker, "a", ModelStatus.READY)
    assert len(workers.made) == 1


def test_a_load_is_broken_off(workers: Workers) -> None:
    workers.warm_gate = threading.Semaphore(1)
    worker = workers.begin(UnloadRules())
    worker.request_load("a")
    until(worker, "a", ModelStatus.WARMING)
    worker.request_unload("a")
    workers.warm_gate.release(5)
    until(worker, "a", ModelStatus.IDLE)
    assert workers.alive == 0 and not worker.state("a").served


def test_the_last_word_counts(workers: Workers) -> None:
    workers.warm_gate = threading.Semaphore(0)
    worker = workers.begin(UnloadRules())
    worker.request_load("a")
    until(worker, "a", ModelStatus.WARMING)
    worker.request_unload("a")
    worker.request_load("a", again=True)
    workers.warm_gate.release(10)
    until(worker, "a", ModelStatus.READY)


class Steps:
    """Load of a model in two steps. Between them it waits for `go`; `spoken` are the sentences spoken by then."""

    def __init__(self, other: Tone) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.spoken: list[str] = []
        self._other = other

    def load(self, name: str) -> Tone:
        if name == "other":
            return self._other
        self.begun.set()
        assert self.go.wait(30)
        step()
        self.spoken = list(self._other.computed)
        return Tone()


@pytest.fixture
def stepping() -> Iterator[tuple[Steps, ModelWorker]]:
    found = Steps(Tone())
    worker = ModelWorker(found.load)
    worker.start()
    load(worker, "other")
    worker.request_load("a")
    assert found.begun.wait(30)
    yield found, worker
    found.go.set()
    worker.stop()


async def test_other_models_speak_between_two_steps_of_a_load(stepping: tuple[Steps, ModelWorker]) -> None:
    steps, worker = stepping
    speaker = worker.state("other").ready_synthesizer()
    request = SpeechRequest(text="Hi.", phonemes="Hi.", voice="steady")
    results = worker.submit(SpeechJob("other", speaker, request, Timeline(), CancelToken()))
    steps.go.set()
    assert len([chunk async for chunk in results]) == 1
    until(worker, "a", ModelStatus.READY)
    assert steps.spoken == ["Hi."]


def test_a_load_is_broken_off_between_two_steps(stepping: tuple[Steps, ModelWorker]) -> None:
    steps, worker = stepping
    worker.request_unload("a")
    steps.go.set()
    until(worker, "a", ModelStatus.IDLE)
    assert steps.spoken == [] and worker.state("a").model is None
