"""Live recognition: utterances by voice activity and by commits, hypotheses that only grow, bounds and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from app.audio.vad import SAMPLE_RATE, VoiceOptions
from app.engine.worker import ModelWorker
from app.errors import InvalidRequestError, QuotaExceededError
from app.observability.metrics import Labels
from app.recognition.events import (
    LiveEvent,
    LiveHypothesis,
    LiveOptions,
    LiveUtterance,
    SpeechStarted,
    SpeechStopped,
    UtteranceFailed,
)
from app.recognition.live import MAX_UTTERANCE_SECONDS, LiveRecognition
from app.recognition.passes import Passes
from app.text.executor import RoundRobinThread
from models.contract import RecognitionRequest, RecognizedSegment, RecognizedWord
from models.timeline import Timeline
from tests.app.standins import Ear

MANUAL = LiveOptions(detection=None)


@dataclass
class Counter(Ear):
    """Hears a word in every half second that has passed, a sentence in four of them, in its place in the recording."""

    whole: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    wrong: int = 0

    def recognize(self, request: RecognitionRequest, *_: Any) -> Iterator[RecognizedSegment | None]:
        self.requests.append(request)
        first = place(request.pcm, self.whole)
        seconds = request.pcm.size / SAMPLE_RATE
        words = [
            RecognizedWord(f" {self.name(count)}", begin, begin + 0.5, 0.9)
            for count in range(-(-first // 8_000), 2_000)
            if (begin := count / 2 - first / SAMPLE_RATE) + 0.5 <= seconds
        ]
        if self.wrong and words:
            # The end of the audio is misheard.
            self.wrong -= 1
            words[-1] = replace(words[-1], text=" mistake.")
        if words:
            yield RecognizedSegment(
                words[0].start,
                words[-1].end,
                "".join(word.text for word in words),
                request.language or "en",
                words=tuple(words) if request.word_times else (),
            )

    @staticmethod
    def name(count: int) -> str:
        return f"w{count}{'.' if count % 4 == 3 else ''}"


def place(pcm: np.ndarray, whole: np.ndarray) -> int:
    """Place of a piece in the recording, every sample of which is another."""
    return int(np.searchsorted(whole, pcm[0])) if pcm.size else 0


def ramp(seconds: float) -> np.ndarray:
    return np.linspace(0.1, 0.9, round(seconds * SAMPLE_RATE), dtype=np.float32)


@pytest.fixture(scope="module")
def parts() -> Iterator[SimpleNamespace]:
    worker = ModelWorker(lambda name: Ear())
    worker.start()
    charged: list[float] = []
    yield SimpleNamespace(
        worker=worker,
        thread=RoundRobinThread("vad"),
        settings=SimpleNamespace(recognition_gate=True),
        charge=charged.append,
        charged=charged,
        advice=lambda model: f"install another than {model}",
    )
    worker.stop()


def listen(
    parts: Any,
    ear: Ear,
    act: Callable[[LiveRecognition], Awaitable[object]],
    options: LiveOptions = MANUAL,
    **request: Any,
) -> list[LiveEvent]:
    """Events while `act` pushes, and until all is recognized."""

    async def run() -> list[LiveEvent]:
        passes = Passes(parts.worker, "ear", ear, ())
        empty = RecognitionRequest(np.empty(0, np.float32), **request)
        live = LiveRecognition(parts, passes, options, empty, Timeline(), Labels("ear", "openai", True))
        try:

            async def speak() -> None:
                await act(live)
                await live.finish()

            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                group.create_task(speak())
                return [event async for event in live]
        finally:
            live.close("ok")

    return asyncio.run(run())


def pushing(pcm: np.ndarray, size: float = 0.1, pause: float = 0.0) -> Callable[[LiveRecognition], Awaitable[None]]:
    async def act(live: LiveRecognition) -> None:
        step = round(size * SAMPLE_RATE)
        for start in range(0, pcm.size, step):
            await live.push(pcm[start : start + step])
            await asyncio.sleep(pause)

    return act


def test_speech_and_speech_after_a_pause_are_two_utterances(parts: Any, spoken: np.ndarray) -> None:
    ear = Ear()
    speech = np.tile(np.pad(spoken, SAMPLE_RATE), 2)
    found = listen(parts, ear, pushing(speech, pause=0.001), LiveOptions(detection=VoiceOptions(min_silence=0.8)))
    kinds = [type(event) for event in found if not isinstance(event, LiveHypothesis)]
    assert kinds.count(SpeechStarted) == kinds.count(SpeechStopped) == kinds.count(LiveUtterance) == 2
    starts = [event.start for event in found if isinstance(event, SpeechStarted)]
    ends = [event.end for event in found if isinstance(event, SpeechStopped)]
    assert 0.8 < starts[0] < 1.3
    assert starts[0] < ends[0] < starts[1] < ends[1] < speech.size / SAMPLE_RATE
    texts = [event for event in found if isinstance(event, LiveUtterance)]
    assert [event.item for event in texts] == [0, 1]
    assert all(event.text and event.language == "en" for event in texts)
    assert [(event.start, event.end) for event in texts] == list(zip(starts, ends, strict=True))


def test_silence_says_nothing(parts: Any) -> None:
    silence = np.zeros(3 * SAMPLE_RATE, np.float32)
    assert listen(parts, Ear(), pushing(silence), LiveOptions()) == []
    ear = Ear()
    found = listen(parts, ear, pushing(silence))
    assert found == [SpeechStopped(0, 3.0, committed=True), LiveUtterance(0, 0.0, 3.0, "", None, ())]
    assert ear.requests == []


class Follower(Counter):
    """Tells to what it listens: the end of each word."""

    takes_prefix = True

    def recognize(self, request: RecognitionRequest, *rest: Any) -> Iterator[RecognizedSegment | None]:
        for segment in super().recognize(request, *rest):
            assert segment is not None
            words = tuple(replace(word, heard=word.end) for word in segment.words)
            assert request.prefix is None or len(request.prefix) <= len(words)
            yield replace(segment, words=words)


@pytest.mark.parametrize("kind", [Counter, Follower])
@pytest.mark.parametrize("wrong", [0, 12])
def test_committed_text_only_grows_and_begins_the_final_one(
    parts: Any, wrong: int, kind: type[Counter], monkeypatch: Any
) -> None:
    heard_all(monkeypatch)
    whole = ramp(40)
    ear = kind(whole=whole, wrong=wrong)
    found = listen(parts, ear, pushing(whole, size=0.5, pause=0.02))
    hypotheses = [event for event in found if isinstance(event, LiveHypothesis)]
    final = found[-1]
    assert isinstance(final, LiveUtterance)
    committed = ""
    for event in hypotheses:
        assert event.committed.startswith(committed)
        committed = event.committed
    assert len(hypotheses) > 5
    assert final.text.startswith(committed)
    assert len(committed) > len(final.text) / 2
    assert final.text == " ".join(Counter.name(count) for count in range(80))
    # Old audio is not read again and again.
    assert max(request.pcm.size for request in ear.requests) < 25 * SAMPLE_RATE
    assert "".join(segment.text for segment in final.segments).split() == final.text.split()
    assert [round(segment.start * 2) for segment in final.segments[:1]] == [0]
    assert final.segments[-1].end == pytest.approx(40)


def heard_all(monkeypatch: Any) -> None:
    """Have the detector take everything for a voice."""
    monkeypatch.setattr("app.audio.vad.VoiceDetector._probability", lambda *_: 1.0)


def test_silence_before_the_first_voice_is_not_read(parts: Any, spoken: np.ndarray) -> None:
    ear = Ear()
    found = listen(parts, ear, pushing(np.pad(spoken, (8 * SAMPLE_RATE, 0)), size=0.5), replace(MANUAL, partials=False))
    (request,) = ear.requests
    assert request.pcm.size == pytest.approx(spoken.size + 0.3 * SAMPLE_RATE, abs=0.1 * SAMPLE_RATE)
    assert request.voices[0][0] == pytest.approx(0.3 * SAMPLE_RATE, abs=0.05 * SAMPLE_RATE)
    assert isinstance(found[-1], LiveUtterance)
    assert found[-1].start == 0
    assert found[-1].segments[0].start == pytest.approx(7.7, abs=0.1)


def test_commits_divide_the_audio(parts: Any, monkeypatch: Any) -> None:
    heard_all(monkeypatch)
    commits: list[bool] = []

    async def act(live: LiveRecognition) -> None:
        commits.append(await live.commit())
        for seconds in (1.0, 2.5):
            await live.push(np.full(round(seconds * SAMPLE_RATE), 0.5, np.float32))
            commits.append(await live.commit())
        commits.append(await live.commit())
        await live.push(np.full(SAMPLE_RATE, 0.5, np.float32))
        await asyncio.sleep(0.1)
        live.clear()
        commits.append(await live.commit())

    found = listen(parts, Ear(), act, replace(MANUAL, partials=False))
    assert commits == [False, True, True, False, False]
    texts = [event for event in found if isinstance(event, LiveUtterance)]
    assert [(event.item, event.start, event.end) for event in texts] == [(0, 0.0, 1.0), (1, 1.0, 3.5)]


def test_tiny_utterances_wait_for_the_model(parts: Any, monkeypatch: Any) -> None:
    heard_all(monkeypatch)
    monkeypatch.setattr("app.recognition.live.WAITING", 4)
    most: list[int] = []

    async def act(live: LiveRecognition) -> None:
        for _ in range(100):
            await live.push(np.full(1, 0.5, np.float32))
            await live.commit()
            most.append(len(live._items))

    found = listen(parts, Ear(), act, replace(MANUAL, partials=False))
    assert len([event for event in found if isinstance(event, LiveUtterance)]) == 100
    assert max(most) <= 5


def test_a_failure_concerns_one_utterance(parts: Any, monkeypatch: Any) -> None:
    heard_all(monkeypatch)

    class Failing(Ear):
        def recognize(self, request: RecognitionRequest, *rest: Any) -> Any:
            if request.pcm.size == SAMPLE_RATE:
                raise RuntimeError("a failure inside the model")
            return super().recognize(request, *rest)

    async def act(live: LiveRecognition) -> None:
        for seconds in (1, 2):
            await live.push(np.full(seconds * SAMPLE_RATE, 0.5, np.float32))
            await live.commit()

    found = listen(parts, Failing(), act, replace(MANUAL, partials=False))
    assert [event.committed for event in found if isinstance(event, SpeechStopped)] == [True, True]
    failed, heard = (event for event in found if not isinstance(event, SpeechStopped))
    assert isinstance(failed, UtteranceFailed)
    assert failed.error.code == "model_failed"
    assert isinstance(heard, LiveUtterance)
    assert heard.text


def test_words_of_which_none_agree_do_not_keep_out_what_follows(parts: Any, monkeypatch: Any) -> None:
    class Rambler(Ear):
        """Hears another word at the end of the audio each time."""

        def recognize(self, request: RecognitionRequest, *_: Any) -> Iterator[RecognizedSegment | None]:
            self.requests.append(request)
            end = request.pcm.size / SAMPLE_RATE
            word = RecognizedWord(f" w{len(self.requests)}", end - 0.2, end, 0.9)
            yield RecognizedSegment(word.start, word.end, word.text, "en", words=(word,))

    heard_all(monkeypatch)
    ear = Rambler()
    found = listen(parts, ear, pushing(ramp(150), size=1.0, pause=0.005))
    assert isinstance(found[-1], LiveUtterance) and found[-1].end == 150
    assert max(request.pcm.size for request in ear.requests) <= 60 * SAMPLE_RATE


def test_what_is_never_committed_has_an_end(parts: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("app.recognition.live.MAX_UTTERANCE_SECONDS", 5.0)
    refused: list[str] = []

    async def act(live: LiveRecognition) -> None:
        try:
            for _ in range(200):
                await live.push(np.zeros(SAMPLE_RATE, np.float32))
        except InvalidRequestError as error:
            refused.append(error.message)

    listen(parts, Ear(), act)
    assert refused
    assert "5 seconds" in refused[0]
    assert MAX_UTTERANCE_SECONDS > 60


def test_a_quota_ends_the_audio(parts: Any) -> None:
    def charge(seconds: float) -> None:
        raise QuotaExceededError("no more")

    async def act(live: LiveRecognition) -> None:
        with pytest.raises(QuotaExceededError):
            await live.push(np.zeros(3 * SAMPLE_RATE, np.float32))

    listen(SimpleNamespace(**{**vars(parts), "charge": charge}), Ear(), act)


class Stranger(Ear):
    """Is sure of no word of audio that begins loud."""

    def recognize(self, request: RecognitionRequest, *rest: Any) -> Any:
        for segment in super().recognize(request, *rest):
            yield replace(segment, confidence=-0.9 if request.pcm[0] > 0.6 else -0.1)


def test_a_voice_that_the_model_does_not_know_has_a_warning_and_no_text(parts: Any, monkeypatch: Any) -> None:
    heard_all(monkeypatch)

    async def act(live: LiveRecognition) -> None:
        for level in (0.8, 0.5):
            await live.push(np.full(2 * SAMPLE_RATE, level, np.float32))
            await live.commit()

    unknown, known = (event for event in listen(parts, Stranger(), act) if isinstance(event, LiveUtterance))
    assert (unknown.text, unknown.language, unknown.warning) == ("", None, "install another than ear")
    assert known.text
    assert known.warning is None


@pytest.mark.parametrize("live_speech", [True, False])
def test_live_speech_far_behind_is_told_and_skipped(parts: Any, monkeypatch: Any, live_speech: bool) -> None:
    heard_all(monkeypatch)
    monkeypatch.setattr("app.recognition.live.AHEAD", 100.0 if live_speech else 3.0)
    skipped = "nightingale_skipped_audio_seconds_total", {"model": "ear", "surface": "openai", "streaming": "true"}
    before = REGISTRY.get_sample_value(*skipped) or 0.0
    ear = Ear()

    async def act(live: LiveRecognition) -> None:
        for _ in range(8):
            await live.push(np.full(5 * SAMPLE_RATE, 0.5, np.float32))
            await live.commit()
        ear.gate.set()

    options = replace(MANUAL, partials=False)
    texts = [event for event in listen(parts, ear, act, options, prompt="gated") if isinstance(event, LiveUtterance)]
    assert [event.start for event in texts] == [0, 5, 10, 15, 20, 25, 30, 35]
    told = [(bool(event.text), event.warning is not None) for event in texts]
    late, lost, prompt = (True, True), (False, True), (True, False)
    # The first was under way. A file is late by nature.
    assert told == ([late, lost, lost, late, late, late, prompt, prompt] if live_speech else [prompt] * 8)
    assert ["not heard" in (event.warning or "") for event in texts] == [each == lost for each in told]
    assert (REGISTRY.get_sample_value(*skipped) or 0.0) - before == (10.0 if live_speech else 0.0)


async def test_audio_waits_for_a_slow_model_and_a_closed_one_ends(parts: Any, monkeypatch: Any) -> None:
    heard_all(monkeypatch)
    ear = Ear()
    passes = Passes(parts.worker, "ear", ear, ())
    request = RecognitionRequest(np.empty(0, np.float32), prompt="gated")
    live = LiveRecognition(parts, passes, LiveOptions(), request, Timeline(), Labels("ear", "openai", True))
    push = asyncio.create_task(live.push(np.full(200 * SAMPLE_RATE, 0.5, np.float32)))
    events = aiter(live)
    await asyncio.sleep(1.0)
    assert not push.done()
    assert live._audio.end + live._waiting <= 62 * SAMPLE_RATE
    assert isinstance(await anext(events), SpeechStarted)
    live.close("cancelled")
    async with asyncio.timeout(2):
        await push
        assert [event async for event in live] == []
        assert not await live.commit()
