"""Voice service: the cache of conditionings, their making on the worker, and the checks of a new voice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from app.config import Settings
from app.engine.jobs import CancelToken, ConditioningJob
from app.engine.model_loader import ModelStatus
from app.engine.worker import ModelWorker
from app.errors import ConsentMissingError, ModelFailedError, UnavailableError, UnknownVoiceError, WrongModelKindError
from app.voices import service as cloning
from app.voices.service import ConditioningCache, VoiceService, new_voice
from app.voices.store import SAMPLE_RATE, StoredVoice
from models.contract import Conditioning
from models.timeline import Stage, Timeline

Until = Callable[[Callable[[], bool]], Awaitable[None]]

PCM = (0.4 * np.sin(2 * np.pi * 600 * np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE)).astype(np.float32)


def made(size: int) -> Conditioning:
    return Conditioning({"a": np.zeros(size, np.uint8)})


def cached_bytes() -> float:
    return REGISTRY.get_sample_value("nightingale_voice_cache_bytes") or 0.0


def test_the_cache_lets_go_of_what_was_not_used_for_longest() -> None:
    cache = ConditioningCache(100)
    for name in "abc":
        cache.put((name, "m"), made(30))
    assert cache.get(("a", "m")) is not None
    cache.put(("d", "m"), made(30))
    assert [name for name in "abcd" if cache.get((name, "m"))] == ["a", "c", "d"]
    assert cache.nbytes == 90 == cached_bytes()


def test_the_cache_keeps_to_its_bytes_whatever_is_put() -> None:
    cache = ConditioningCache(100)
    cache.put(("a", "m"), made(60))
    cache.put(("a", "m"), made(70))  # again, not besides
    assert cache.nbytes == 70
    cache.put(("b", "m"), made(101))
    assert cache.get(("b", "m")) is None
    assert cache.get(("a", "m")) is not None
    cache.put(("a", "other"), made(30))
    cache.forget("a")
    assert cache.nbytes == 0 == cached_bytes()


def test_the_cache_drops_what_was_made_for_a_model_that_was_unloaded() -> None:
    cache = ConditioningCache(100)
    for model in ("gone", "stays"):
        cache.put(("a", model), made(30))
    cache.forget("gone")
    assert (cache.get(("a", "gone")), cache.nbytes) == (None, 30)
    assert cache.get(("a", "stays")) is not None


def test_consent_is_asked_for_first() -> None:
    with pytest.raises(ConsentMissingError, match="consent"):
        new_voice("", consent=False)
    assert new_voice(" Zoë ", consent=True, language="EN_us").name == "Zoë"


@pytest.fixture
def until(wait_until: Callable[..., bool]) -> Until:
    """Wait, beside the event loop, until a condition holds."""

    async def wait(condition: Callable[[], bool]) -> None:
        assert await asyncio.to_thread(wait_until, condition)

    return wait


@pytest.fixture
async def worker(parrot: Any, until: Until) -> AsyncIterator[ModelWorker]:
    """A worker with `parrot` loaded, and a model that clones nothing."""
    tone = SimpleNamespace(voices=(), watermarked=False, languages=(), parameters=frozenset())

    def load(name: str) -> Any:
        if name == "parrot":
            return parrot
        if name == "tone":
            return tone
        raise RuntimeError("no such model")

    worker = ModelWorker(load, warmup=False)
    worker.start()
    try:
        states = [worker.request_load(name) for name in ("parrot", "tone")]
        await until(lambda: all(state.status is ModelStatus.READY for state in states))
        yield worker
    finally:
        parrot.gate.set()
        await asyncio.to_thread(worker.stop)


@pytest.fixture
async def voices(worker: ModelWorker, tmp_path: Path) -> AsyncIterator[VoiceService]:
    catalog = SimpleNamespace(models=lambda: [SimpleNamespace(name="parrot", cloning=True)])
    voices = VoiceService(Settings(data_dir=tmp_path), catalog, worker)
    yield voices
    voices.close()


@pytest.fixture
def voice(voices: VoiceService) -> StoredVoice:
    return voices.store.add("Ada", PCM)


async def test_one_of_two_who_wait_may_go(voice: StoredVoice, voices: VoiceService, parrot: Any, until: Until) -> None:
    parrot.gate.clear()
    first, second = (asyncio.create_task(voices.conditioning("parrot", voice, Timeline())) for _ in range(2))
    await until(lambda: len(parrot.heard) == 1)
    first.cancel()
    await asyncio.wait({first})
    parrot.gate.set()
    assert (await second).arrays["pitch"] == pytest.approx(600, abs=1)
    assert (parrot.given_up, len(parrot.heard)) == (0, 1)


async def test_when_the_last_goes_the_making_is_given_up_and_may_begin_again(
    voice: StoredVoice, voices: VoiceService, parrot: Any, until: Until
) -> None:
    parrot.gate.clear()
    waiting = [asyncio.create_task(voices.conditioning("parrot", voice, Timeline())) for _ in range(2)]
    await until(lambda: len(parrot.heard) == 1)
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    await until(lambda: parrot.given_up == 1)
    parrot.gate.set()
    timeline = Timeline()
    await voices.conditioning("parrot", voice, timeline)
    assert Stage.CONDITION in timeline.stages
    assert len(parrot.heard) == 2


async def test_a_process_waits_for_the_first_recording(voices: VoiceService, until: Until, monkeypatch: Any) -> None:
    monkeypatch.setattr(cloning, "DECODER_AFTER", 0.0)
    await voices.start()
    await until(lambda: voices._decoder._waiting is not None and voices._decoder._waiting._process is not None)


async def test_a_voice_deleted_while_it_is_made_leaves_nothing(
    voice: StoredVoice, voices: VoiceService, parrot: Any, tmp_path: Path, until: Until
) -> None:
    parrot.gate.clear()
    making = asyncio.create_task(voices.conditioning("parrot", voice, Timeline()))
    await until(lambda: len(parrot.heard) == 1)
    await voices.remove(voice.id)
    parrot.gate.set()
    await making  # whoever began before goes on
    assert [path.name for path in (tmp_path / "voices").iterdir()] == [".lock"]
    with pytest.raises(UnknownVoiceError):
        await voices.get(voice.id)


async def test_a_recording_that_vanishes(voice: StoredVoice, voices: VoiceService, parrot: Any) -> None:
    voices.store.remove(voice.id)
    with pytest.raises(UnknownVoiceError, match="gone"):
        await voices.conditioning("parrot", voice, Timeline())


async def test_failures_inside_the_model_are_told_and_not_kept(
    voice: StoredVoice, voices: VoiceService, worker: ModelWorker, parrot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(np.fft, "rfft", lambda *_: 1 / 0)
        with pytest.raises(ModelFailedError, match="ZeroDivisionError"):
            await voices.conditioning("parrot", voice, Timeline())
    with monkeypatch.context() as empty:
        empty.setattr(type(parrot), "condition", lambda *_: iter([None]))
        with pytest.raises(ModelFailedError, match="nothing"):
            await voices.conditioning("parrot", voice, Timeline())
    assert (await voices.conditioning("parrot", voice, Timeline())).nbytes == 4
    with pytest.raises(WrongModelKindError, match="'tone'"):
        worker.state("tone").ready_cloner()
    await asyncio.to_thread(worker.stop)
    with pytest.raises(UnavailableError):
        cloner = worker.state("parrot").ready_cloner()
        worker.submit(ConditioningJob("parrot", cloner, (PCM, SAMPLE_RATE), Timeline(), CancelToken()))


async def test_a_model_that_does_not_load_is_not_told_of(
    voices: VoiceService, worker: ModelWorker, parrot: Any, until: Until
) -> None:
    loaded: list[object] = []
    worker.loader.on_loaded = lambda name, model: loaded.append(model)
    worker.request_load("other")
    await until(lambda: worker.state("other").status is ModelStatus.FAILED)
    assert loaded == []
    assert worker.state("other").memory is None
    assert voices.cloners() == ["parrot"]
