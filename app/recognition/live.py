"""Live recognition: audio in as it is spoken, events with text out. It knows no protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.audio.vad import SAMPLE_RATE, SPEECH, Samples, has_voice
from app.engine.jobs import CancelToken, Priority
from app.errors import InvalidRequestError, ModelFailedError, ServiceError, UnavailableError
from app.observability import metrics
from app.recognition.agreement import POLICIES, PolicyName
from app.recognition.audio_buffer import AudioBuffer, Scan, VoiceMarks
from app.recognition.events import (
    LiveEvent,
    LiveHypothesis,
    LiveOptions,
    LiveUtterance,
    SpeechStarted,
    SpeechStopped,
    UtteranceFailed,
)
from app.recognition.passes import Passes
from app.recognition.utterance import MAX_WINDOW_SECONDS, OpenUtterance, is_plausible
from models.contract import Cancelled, RecognitionRequest, RecognizedSegment
from models.timeline import Stage, Timeline

if TYPE_CHECKING:
    from app.recognition.service import RecognitionService

log = logging.getLogger(__name__)

# Most seconds of audio that wait: `push` waits where there are more.
BUFFER: Final = 60.0
# Most seconds of one utterance. A longer one is ended, or refused if the client ends utterances.
MAX_UTTERANCE_SECONDS: Final = 300.0
# Most utterances that wait for their text: `commit` waits where there are more.
WAITING: Final = 32
# Seconds of new audio after which there is another hypothesis. One that takes the model longer waits longer.
STEP: Final = 0.5
# Seconds of silence after which the hypothesis is as good as the final text, and is made without waiting for more.
PAUSE: Final = 0.2
# Seconds of audio that are searched for voices in one turn.
CHUNK_SECONDS: Final = 0.5
# Seconds by which a text may be late before that is told, and before what is left of its utterance is not heard.
LATE: Final = 5.0
SKIP: Final = 20.0
# Seconds that a client may be ahead of the clock before its audio is no live speech: a file is late by nature.
AHEAD: Final = 3.0
# Seconds of an utterance that is being spoken that are heard again with what follows; fewer than BUFFER.
HELD: Final = 2 * MAX_WINDOW_SECONDS
# Most events that wait for their reader before the next pass.
UNREAD: Final = 64


@dataclass(slots=True, eq=False)
class _Commit:
    """Request of the client to end the utterance, at its place among the samples."""

    done: asyncio.Future[bool]


class LiveRecognition:
    """Utterances of one stream of audio. Push samples, and iterate over the events meanwhile. `close` it in the end.

    One task searches the audio for voices, another recognizes, one pass at a time. All is bounded: audio that waits
    makes `push` wait, and unread events make recognition wait. Use it on the event loop that made it.
    """

    def __init__(
        self,
        service: RecognitionService,
        passes: Passes,
        options: LiveOptions,
        request: RecognitionRequest,
        timeline: Timeline,
        labels: metrics.Labels,
    ) -> None:
        """Start the tasks. `request` has the language and the prompt, without audio."""
        self.timeline = timeline
        self.labels = labels
        self._service, self._passes, self._options, self._request = service, passes, options, request
        # Samples pushed so far, and those in `_input`, which holds pieces, commits, and None for the end.
        self._pushed = self._waiting = 0
        # Moment of the first sample, and whether the audio came as it was spoken so far.
        self._first: float | None = None
        self._spoken_live = True
        self._uncharged = 0.0
        self._input: deque[Samples | _Commit | None] = deque()
        self._policy: PolicyName = options.policy or ("attention" if passes.continues else "agreement")
        self._audio = AudioBuffer()
        self._cleared = 0
        self._marks = self._new_marks(0)
        self._items: deque[OpenUtterance] = deque()
        self._next_item = 0
        self._pass: CancelToken | None = None
        self._pass_end = 0
        self._pass_seconds = 0.0
        self._events: deque[LiveEvent | ServiceError] = deque()
        self._finished = self._detected = self._ended = self._recorded = False
        self._sleepers: list[asyncio.Future[None]] = []
        self._tasks = [asyncio.create_task(self._run(work)) for work in (self._detect, self._recognize)]

    async def push(self, pcm: Samples) -> None:
        """Add float32 mono samples [n] in [-1, 1] at SAMPLE_RATE. Waits while too much audio waits already.

        Raises QuotaExceededError, and InvalidRequestError for an utterance of more than MAX_UTTERANCE_SECONDS that the
        client does not commit.
        """
        size = round(CHUNK_SECONDS * SAMPLE_RATE)
        for start in range(0, pcm.size, size):
            piece = np.ascontiguousarray(pcm[start : start + size], dtype=np.float32)
            # Audio is taken from the client's quota by the second.
            self._uncharged += piece.size / SAMPLE_RATE
            if whole := int(self._uncharged):
                self._service.charge(whole)
                self._uncharged -= whole
            await self._until(lambda: self._ended or self._buffered < BUFFER * SAMPLE_RATE)
            if self._ended or self._finished:
                return
            item = self._open_item
            if self._options.detection is None and item and self._seconds(item) > MAX_UTTERANCE_SECONDS:
                raise InvalidRequestError(
                    f"The audio buffer has {MAX_UTTERANCE_SECONDS:g} seconds, its maximum; commit it or clear it."
                )
            self._pushed += piece.size
            self._first = time.perf_counter() if self._first is None else self._first
            ahead = self._pushed / SAMPLE_RATE - (time.perf_counter() - self._first)
            self._spoken_live = self._spoken_live and ahead <= AHEAD
            self._waiting += piece.size
            self._put(piece)

    async def commit(self) -> bool:
        """End the current utterance after all that was pushed. Return False if there is none."""
        commit = _Commit(asyncio.get_running_loop().create_future())
        # Utterances may be shorter than the work for one.
        await self._until(lambda: self._ended or len(self._items) < WAITING)
        if self._ended or self._finished:
            return False
        self._put(commit)
        return await commit.done

    @property
    def utterances(self) -> int:
        """Number of utterances that have begun."""
        return self._next_item

    def clear(self) -> None:
        """Drop the audio of the current utterance: it has no text."""
        item = self._open_item
        if item is not None:
            self._items.remove(item)
            if self._pass is not None and not self._items:
                self._pass.cancel()
        # Pieces before this one that still wait are not searched for voices.
        self._cleared = self._pushed
        self._marks = self._new_marks(self._pushed)
        self._wake()

    async def finish(self) -> None:
        """End the audio. The last utterance is recognized, then the iteration ends."""
        if not self._finished:
            self._finished = True
            self._put(None)

    def __aiter__(self) -> AsyncIterator[LiveEvent]:
        return self._read()

    def close(self, outcome: metrics.Outcome) -> None:
        """Stop everything and record it. Later calls change nothing."""
        if self._recorded:
            return
        self._recorded = self._ended = True
        if self._pass is not None:
            self._pass.cancel()
        self._passes.close()
        for task in self._tasks:
            task.cancel()
        self._release()
        metrics.record_session(self.timeline, self.labels, outcome)

    @property
    def busy(self) -> bool:
        """Whether anything waits for its text."""
        return bool(self._waiting or any(item.end is not None for item in self._items))

    @property
    def idle(self) -> bool:
        """Whether every utterance that began has its text, and the text was read."""
        return not (self._items or self._input or self._events)

    # Events.

    async def _read(self) -> AsyncIterator[LiveEvent]:
        while True:
            await self._until(lambda: self._events or self._ended)
            if not self._events or self._recorded:
                return
            event = self._events.popleft()
            self._wake()
            if isinstance(event, ServiceError):
                raise event
            yield event

    def _send(self, event: LiveEvent | ServiceError) -> None:
        last = self._events[-1] if self._events else None
        if isinstance(event, LiveHypothesis) and isinstance(last, LiveHypothesis) and last.item == event.item:
            # Nobody read the one before.
            self._events.pop()
        self._events.append(event)
        self._wake()

    async def _until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds."""
        while not condition():
            sleeper = asyncio.get_running_loop().create_future()
            self._sleepers.append(sleeper)
            await sleeper

    def _wake(self) -> None:
        """Have all that wait look again."""
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run one of the tasks. An error ends the iteration."""
        try:
            await work()
        except ServiceError as error:
            self._fail(error)
        except Exception as error:
            log.exception("a live recognition failed")
            self._fail(ModelFailedError(f"Recognition failed: {type(error).__name__}."))

    def _fail(self, error: ServiceError) -> None:
        self._ended = True
        self._send(error)
        self._release()

    def _release(self) -> None:
        """Have nobody wait any more."""
        for entry in self._input:
            if isinstance(entry, _Commit) and not entry.done.done():
                entry.done.set_result(False)
        self._wake()

    def _put(self, entry: Samples | _Commit | None) -> None:
        self._input.append(entry)
        self._wake()

    # Audio.

    @property
    def _buffered(self) -> int:
        return self._waiting + self._audio.end - self._needed_from()

    @property
    def _open_item(self) -> OpenUtterance | None:
        return self._items[-1] if self._items and self._items[-1].end is None else None

    def _behind(self, sample: int) -> float:
        """Return the seconds of live speech that came after a sample."""
        return (self._pushed - sample) / SAMPLE_RATE if self._spoken_live else 0.0

    def _seconds(self, item: OpenUtterance) -> float:
        return (self._audio.end - item.start) / SAMPLE_RATE

    def require_speech(self, seconds: float | None) -> None:
        """Have a voice begin an utterance once it lasts so many seconds; None: those of the options."""
        self._marks.min_speech = (self._options.detection or SPEECH).min_speech if seconds is None else seconds

    def _new_marks(self, base: int) -> VoiceMarks:
        return VoiceMarks(self._options.detection or SPEECH, base)

    def _needed_from(self) -> int:
        """Return the first sample that may yet be read."""
        if self._items:
            return min(self._items[0].begin, self._audio.end)
        lookback = self._marks.lookback if self._options.detection else 0
        return max(self._audio.begin, self._audio.end - lookback)

    async def _detect(self) -> None:
        """Take the input piece by piece: append it to the audio, and open and end utterances."""
        while True:
            await self._until(lambda: self._input)
            entry = self._input.popleft()
            if entry is None:
                self._end_item(self._audio.end)
                self._detected = True
                self._wake()
                return
            if isinstance(entry, _Commit):
                ended = self._end_item(self._audio.end, committed=True)
                if ended:
                    self._marks = self._new_marks(self._audio.end)
                if not entry.done.done():
                    entry.done.set_result(ended)
            else:
                await self._search(entry)

    async def _search(self, piece: Samples) -> None:
        """Find voices in the next piece."""
        start, marks = self._audio.end, self._marks
        scan = Scan()
        if start >= self._cleared:
            with (self._open_item or self).timeline.measure(Stage.VAD):
                scan = await self._service.thread.run_steps(marks.scan(piece))
        self._audio.append(piece)
        self._waiting -= piece.size
        if start >= self._cleared:
            self._apply(scan, start)
        self._audio.forget(self._needed_from())
        self._wake()

    def _apply(self, scan: Scan, start: int) -> None:
        """Open and end utterances as the voices of a piece that began at sample `start` tell."""
        detection = self._options.detection
        if detection is None and self._open_item is None:
            self._open(start)
        padding = round((detection or SPEECH).padding * SAMPLE_RATE)
        for mark in scan.marks:
            item = self._open_item
            if mark.starts:
                if item is None:
                    item = self._open(max(mark.sample, self._audio.begin))
                    self._send(SpeechStarted(item.number, item.start / SAMPLE_RATE))
                item.speak(mark.sample, mark.sample + padding)
            elif item is not None:
                item.pause(mark.sample - padding)
                if detection is not None:
                    self._end_item(mark.sample)
        item = self._open_item
        if item is not None:
            item.heard = max(item.heard, scan.heard)
            if detection is not None and self._seconds(item) > MAX_UTTERANCE_SECONDS:
                self._end_item(self._audio.end)
                self._marks = self._new_marks(self._audio.end)

    def _open(self, start: int) -> OpenUtterance:
        item = OpenUtterance(self._next_item, start, POLICIES[self._policy]())
        self._next_item += 1
        self._items.append(item)
        return item

    def _end_item(self, end: int, *, committed: bool = False) -> bool:
        """End the utterance that is open. Return whether there is one."""
        item = self._open_item
        if item is None:
            return False
        item.end = end
        if self._options.detection is not None:
            # The last voice may be in the piece of audio that is searched now.
            item.heard = max(item.heard, end - round(self._options.detection.padding * SAMPLE_RATE))
        if self._pass is not None and item is self._items[0] and not item.covers(self._pass_end):
            self._pass.cancel()
        item.ended = time.perf_counter()
        committed = committed or self._options.detection is None
        self._send(SpeechStopped(item.number, end / SAMPLE_RATE, committed))
        self._wake()
        return True

    # Recognition.

    async def _recognize(self) -> None:
        """Recognize the utterances in their order, the first of them again and again while it is spoken."""
        while True:
            await self._until(lambda: self._has_work() or (self._detected and not self._items))
            if not self._items:
                break
            item = self._items[0]
            if self._ends_sentence(item):
                self._end_item(self._audio.end)
                self._marks = self._new_marks(self._audio.end)
            elif item.end is None:
                end = self._audio.end
                await self._recognize_open(item, end)
                if item.covered >= end > item.begin + HELD * SAMPLE_RATE:
                    # No words tell where to cut. Audio that stays would in the end keep out what is new.
                    item.skip(end)
            else:
                await self._recognize_ended(item, item.end)
        self._ended = True
        self._wake()

    def _has_work(self) -> bool:
        if not self._items or len(self._events) >= UNREAD:
            return False
        item, end = self._items[0], self._audio.end
        if item.end is not None or self._ends_sentence(item):
            return True
        if end - item.begin > MAX_WINDOW_SECONDS * SAMPLE_RATE and end - item.covered > STEP * SAMPLE_RATE:
            return True
        if not self._options.partials or not item.voiced or item.covers(item.covered):
            return False
        new = (end - max(item.covered, item.begin)) / SAMPLE_RATE
        paused = end - item.heard >= PAUSE * SAMPLE_RATE
        return new >= max(STEP, self._pass_seconds) or (paused and new >= PAUSE)

    def _ends_sentence(self, item: OpenUtterance) -> bool:
        """Whether a pause after a sentence ends the utterance."""
        pause = self._options.sentence_pause
        if pause is None or item.end is not None or self._options.detection is None:
            return False
        return self._audio.end - item.heard >= pause * SAMPLE_RATE and item.ends_sentence

    async def _recognize_open(self, item: OpenUtterance, end: int) -> None:
        """Make the next hypothesis of the utterance that is being spoken, from its audio to sample `end`."""
        if not item.voiced or item.covers(item.covered):
            # There is much audio, and nothing was heard in what is new of it. It may be too quiet for the detector.
            if not await self._has_voice(max(item.begin, item.covered), end):
                item.skip(end)
                return
            item.voiced, item.heard = True, end
        try:
            # One temperature: hypotheses that are drawn at random never agree.
            segments = await self._segments(item, end, Priority.CONTINUATION, temperature=0.0)
        except Cancelled:
            return
        except ServiceError as error:
            log.warning("a hypothesis failed: %s", error)
            item.covered = end
            return
        if not is_plausible(segments) and end - item.begin <= MAX_WINDOW_SECONDS * SAMPLE_RATE:
            item.covered = end
            return
        item.take(segments, end)
        if item.end is None and item in self._items and self._options.partials:
            words = item.words if self._options.word_times else ()
            start, until = item.start / SAMPLE_RATE, end / SAMPLE_RATE
            self._send(LiveHypothesis(item.number, start, until, item.committed, item.pending, words))

    async def _recognize_ended(self, item: OpenUtterance, end: int) -> None:
        """Make the final text of an utterance."""
        if self._behind(end) > SKIP:
            metrics.skipped_audio.labels(*self.labels.values()).inc((end - max(item.begin, item.covered)) / SAMPLE_RATE)
            self._finish_item(item, end, (), skipped=True)
            return
        try:
            segments = item.last
            if segments is None:
                speaks = item.voiced or await self._has_voice(item.begin, end)
                segments = await self._segments(item, end, Priority.FIRST_AUDIO) if speaks else ()
        except (ServiceError, Cancelled) as failure:
            self._items.popleft()
            error = failure if isinstance(failure, ServiceError) else UnavailableError("The server is stopping.")
            self._send(UtteranceFailed(item.number, item.start / SAMPLE_RATE, end / SAMPLE_RATE, error))
            return
        self._finish_item(item, end, segments)

    def _finish_item(
        self, item: OpenUtterance, end: int, segments: Sequence[RecognizedSegment], *, skipped: bool = False
    ) -> None:
        self._items.popleft()
        self.timeline.busy += item.timeline.busy
        for stage, seconds in item.timeline.stages.items():
            self.timeline.add(stage, seconds)
        metrics.record_utterance(
            item.timeline, self.labels, (end - item.start) / SAMPLE_RATE, time.perf_counter() - item.ended
        )
        text, found = item.finish(segments)
        language = item.language if text else None
        start, until, warning = item.start / SAMPLE_RATE, end / SAMPLE_RATE, self._warning(item, end, skipped=skipped)
        self._send(LiveUtterance(item.number, start, until, text, language, found, warning))

    def _warning(self, item: OpenUtterance, end: int, *, skipped: bool) -> str | None:
        behind = self._behind(end)
        if behind > LATE:
            lost = "; what was left of this utterance was not heard" if skipped else ""
            return f"Recognition is {behind:.0f} seconds behind: this computer is too slow for the model{lost}."
        return self._service.advice(self._passes.model) if item.unsure else None

    async def _has_voice(self, begin: int, end: int) -> bool:
        """Whether somebody speaks between two samples: a recognizer writes words for silence, too."""
        if not self._service.settings.recognition_gate:
            return True
        with self.timeline.measure(Stage.VAD):
            return await self._service.thread.run_steps(has_voice(self._audio.read(begin, end)))

    async def _segments(
        self, item: OpenUtterance, end: int, priority: Priority, temperature: float | None = None
    ) -> list[RecognizedSegment]:
        """Recognize the audio of an utterance up to sample `end`. Raises ServiceError, and Cancelled."""
        pcm = self._audio.read(item.begin, end)
        offset = item.begin / SAMPLE_RATE
        whole = replace(
            self._request,
            pcm=pcm,
            temperature=temperature,
            word_times=self._options.word_times,
            voices=item.voices(end),
        )
        request = item.request(whole, self._passes.recognizer)
        self._pass, self._pass_end = CancelToken(), end
        begun = time.perf_counter()
        try:
            async with aclosing(self._passes.segments(request, self._pass, priority, item.timeline)) as found:
                return [segment.moved(offset) async for segment in found]
        finally:
            item.unsure = self._passes.unsure
            self._pass = None
            self._pass_seconds = time.perf_counter() - begun
