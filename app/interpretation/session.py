"""One session of interpretation: audio in, sentences of text and speech in another language out.

Three tasks work side by side, joined by bounded queues. One takes what is recognized and cuts sentences out of it, one
translates them, one speaks them in turn. A reader that is slow stops speech, that stops translation, and that stops
recognition, whose `push` waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from app import errors
from app.audio.vad import SAMPLE_RATE
from app.errors import UnsupportedLanguageError
from app.interpretation.clock import SessionClock
from app.interpretation.cutter import SentenceCutter
from app.interpretation.events import Ending, Event, Reached, Sentence, SentenceDone, SpeechPart, TranslatedPart
from app.interpretation.options import PreparedInterpretation
from app.interpretation.speaker import SpeakerVoice
from app.llm_text.sources import Speakable
from app.observability import metrics
from app.recognition.events import LiveEvent, LiveHypothesis, LiveUtterance
from app.recognition.live import LiveRecognition
from app.speech.options import PreparedSpeech
from app.speech.service import SpeechService
from app.speech.stream import SpeechStream
from app.text.types import Pause
from app.translation.live import Interpreted, Interpreter
from app.translation.text import codes
from models.contract import Pcm, VoiceCloner
from models.timeline import Stage, Timeline

# Events that wait for a reader, sentences that wait for translation, and translated ones that wait to be spoken.
EVENTS: Final = 64
WAITING: Final = 16
AHEAD: Final = 2
# Seconds of queued audio from which on speech is faster, and those at which it is as fast as it may be.
HURRY_FROM: Final = 1.0
HURRY_TO: Final = 6.0

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Passage:
    """Sentence on its way. `moment`: time of the session at which it had been spoken."""

    sentence: Sentence
    language: str | None
    moment: float
    timeline: Timeline
    labels: metrics.Labels
    stream: SpeechStream | None = None
    speed: float = 1.0
    characters: int = 0
    ending: Ending = "spoken"
    error: errors.ServiceError | None = None
    latency: dict[Reached, float] = field(default_factory=dict)
    delay: float | None = None


class Interpretation:
    """Audio in (`push`, `commit`, `finish`), events out (`async for`). `close` must be called in the end.

    A session takes no slot of `Admission`: sockets do.
    """

    def __init__(
        self,
        speech: SpeechService,
        live: LiveRecognition,
        prepared: PreparedInterpretation,
        recognizer: str,
        surface: metrics.SurfaceName,
    ) -> None:
        """Open a session; call on the event loop. `live` recognizes its audio by the model `recognizer`."""
        self.prepared = prepared
        self.recognizer = recognizer
        self.clock = SessionClock()
        self.muted = False
        self._speech = speech
        self._live = live
        self._surface = surface
        cloner = prepared.speech.synthesizer
        self._speaker: SpeakerVoice | None = None
        if prepared.options.clone_voice and isinstance(cloner, VoiceCloner):
            self._speaker = SpeakerVoice(speech.voices, cloner)
        self._cloning: set[asyncio.Task[None]] = set()
        self._cutter = SentenceCutter(prepared.route.source, prepared.route.target, clauses=prepared.options.clauses)
        self._interpreter = self._new_interpreter(prepared)
        self._interpreter_of = prepared
        # Sentences that are under way, by their numbers.
        self._passages: dict[int, _Passage] = {}
        self._count = 0
        self._language: str | None = None
        self._agreed: asyncio.Queue[_Passage | None] = asyncio.Queue(WAITING)
        self._spoken: asyncio.Queue[_Passage | None] = asyncio.Queue(AHEAD)
        self._events: asyncio.Queue[tuple[Event, _Passage | None] | Exception | None] = asyncio.Queue(EVENTS)
        self._closed = False
        self._listening = asyncio.create_task(self._guard(self._listen()))
        self._working = self._begin_work()
        self._iterator = self._run()

    # Audio in.

    async def push(self, pcm: Pcm) -> None:
        """Take float32 mono [samples] at SAMPLE_RATE; wait while enough of them are not recognized yet."""
        if self._speaker is not None:
            self._speaker.push(pcm)
        await self._live.push(pcm)
        self.clock.pushed(pcm.size / SAMPLE_RATE)

    async def commit(self) -> bool:
        """End the utterance now; return False if nothing was being said."""
        return await self._live.commit()

    async def finish(self) -> None:
        """End the audio: iteration ends once all of it is interpreted."""
        await self._live.finish()

    # Orders.

    def retarget(self, prepared: PreparedInterpretation) -> None:
        """Translate and speak the sentences that are recognized from now on as `prepared` says."""
        self.prepared = prepared
        self._clone_voice()

    async def mute(self, muted: bool) -> None:
        """Speak nothing from now on, or again. Text goes on."""
        self.muted = muted
        if muted:
            await self.drop()

    async def drop(self) -> None:
        """Drop every sentence that was recognized and not spoken to its end."""
        if self._closed:
            return
        for task in self._working:
            task.cancel()
        await asyncio.wait(self._working)
        last = None in _emptied(self._agreed) + _emptied(self._spoken)
        dropped, self._passages = self._passages, {}
        for passage in dropped.values():
            passage.error = None
            passage.ending = "cancelled"
            self._record(passage)
        self.clock.drop()
        for each in _emptied(self._events):
            if not (isinstance(each, tuple) and isinstance(each[0], SpeechPart | SentenceDone) and each[1] is not None):
                self._events.put_nowait(each)
        if last:
            self._agreed.put_nowait(None)
        for passage in dropped.values():
            await self._emit(_done(passage))
        self._working = self._begin_work()

    # Events out.

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._iterator

    async def _run(self) -> AsyncIterator[Event]:
        while (found := await self._events.get()) is not None:
            if isinstance(found, Exception):
                raise found
            event, passage = found
            if passage is not None and isinstance(event, SentenceDone):
                # The reader has handled all of it by now.
                self._passages.pop(event.number, None)
                self._record(passage)
                event = _done(passage)
            yield event

    def delivered(self, part: SpeechPart, sent: bool = True) -> None:
        """Note that `part` was handed to the transport; `sent` is False while the codec holds all of it back."""
        part.stream.delivered(part.chunk, sent=sent)
        if sent and (passage := self._passages.get(part.number)) is not None:
            self._reach(passage, "spoken")

    def close(self, outcome: metrics.Outcome) -> None:
        """Stop everything that still works for this session and record it. Later calls change nothing."""
        if self._closed:
            return
        self._closed = True
        for task in (self._listening, *self._working, *self._cloning):
            task.cancel()
        self._interpreter.close()
        for passage in self._passages.values():
            passage.error = None
            passage.ending = "cancelled"
            self._record(passage)
        self._passages.clear()
        self._live.close(outcome)

    # From audio to sentences.

    async def _listen(self) -> None:
        async with aclosing(self._recognized()) as events:
            async for event in events:
                pieces = self._cutter.take(event, time.monotonic())
                if isinstance(event, LiveUtterance) and event.language is not None:
                    with suppress(UnsupportedLanguageError):
                        self._language = None
                        self._language = codes.resolve(event.language, codes.FLORES)
                    if self._speaker is not None and event.text.strip():
                        self._speaker.said(event.start, event.end)
                        self._clone_voice()
                await self._emit(event)
                await self._agree(pieces)
                if isinstance(event, LiveHypothesis) and self.prepared.options.anticipate:
                    self._interpreter.speculate(self._cutter.expected)
        self._live.close("ok")
        await self._agreed.put(None)

    async def _recognized(self) -> AsyncGenerator[LiveEvent]:
        """Yield what is recognized. Sentences that look complete are agreed while nothing more is heard."""
        iterator = aiter(self._live)
        coming: asyncio.Future[LiveEvent | None] = asyncio.ensure_future(anext(iterator, None))
        try:
            while True:
                deadline = self._cutter.next_deadline()
                patience = None if deadline is None else max(0.0, deadline - time.monotonic())
                await asyncio.wait({coming}, timeout=patience)
                if not coming.done():
                    await self._agree(self._cutter.tick(time.monotonic()))
                    continue
                event = coming.result()
                if event is None:
                    return
                yield event
                coming = asyncio.ensure_future(anext(iterator, None))
        finally:
            coming.cancel()

    async def _agree(self, pieces: list[tuple[Speakable, float, float]]) -> None:
        for piece, start, end in pieces:
            sentence = Sentence(self._count, self._cutter.item, piece.text.strip(), start, end)
            self._count += 1
            labels = metrics.Labels(self.prepared.speech.model, self._surface, True)
            moment = self.clock.moment(end)
            passage = _Passage(sentence, self._language, moment, Timeline(), labels, ending="spoken")
            passage.timeline.add(Stage.BOUNDARY, piece.waited)
            self._reach(passage, "recognized")
            self._passages[sentence.number] = passage
            await self._emit(sentence, passage)
            await self._agreed.put(passage)

    # From audio to the voice of who speaks.

    def _clone_voice(self) -> None:
        """Begin to make the voice of who speaks for the model that speaks, if it can be and is not made."""
        speech = self.prepared.speech
        if self._speaker is not None and self._speaker.lacks(speech) and not self._closed:
            task = asyncio.create_task(self._guard(self._make_voice(self._speaker, speech)))
            self._cloning.add(task)
            task.add_done_callback(self._cloning.discard)

    async def _make_voice(self, speaker: SpeakerVoice, speech: PreparedSpeech) -> None:
        await self._emit(await speaker.make(speech))

    # From sentences to translations.

    async def _translate_all(self) -> None:
        while (passage := await self._agreed.get()) is not None:
            if passage.ending == "cancelled":  # dropped while it waited for its place
                continue
            await self._translate(passage)
            if passage.stream is None:
                await self._spoken.put(passage)
        await self._spoken.put(None)

    async def _translate(self, passage: _Passage) -> None:
        if self._interpreter_of is not self.prepared:
            self._interpreter.close()
            self._interpreter, self._interpreter_of = self._new_interpreter(self.prepared), self.prepared
        interpreter = self._interpreter
        if self.prepared.route.source is None and passage.language is not None:
            interpreter.source = passage.language
        interpreter.timeline = passage.timeline
        passage.ending = "muted" if self.muted else "unchanged"
        try:
            async with aclosing(interpreter.interpret(passage.sentence.text)) as found:
                async for each in found:
                    if not isinstance(each, Pause):
                        self._reach(passage, "translated")
                        part = TranslatedPart(passage.sentence.number, each.source, each.text, each.translated)
                        await self._emit(part, passage)
                        await self._speak_part(passage, each)
        except errors.ServiceError as error:
            passage.error = error
        finally:
            if passage.stream is not None:
                passage.stream.finish()

    async def _speak_part(self, passage: _Passage, part: Interpreted) -> None:
        if self.muted or not part.translated:
            return
        stream = passage.stream
        if stream is None:
            # A player that heard all until then would begin at once, if the sentence were ready.
            soonest = max(self.clock.now(), passage.moment)
            behind = max(0.0, self.clock.played_out - soonest)
            if soonest + behind - passage.moment > self.prepared.options.max_delay:
                passage.ending = "late"
                return
            passage.ending = "spoken"
            passage.labels = replace(passage.labels, model=self.prepared.speech.model)
            speech = self.prepared.speech.at_rate(self._rate(behind))
            passage.speed = speech.speed
            if self._speaker is not None:
                speech = self._speaker.speak(speech)
            stream = passage.stream = SpeechStream(self._speech, speech, passage.timeline, passage.labels)
            await self._spoken.put(passage)
        stream.feed(part.text, passage.characters, part.source)
        passage.characters += len(part.text) + 1

    def _rate(self, behind: float) -> float:
        """Return how much faster a sentence is that begins when `behind` seconds of audio before it were played."""
        options = self.prepared.options
        hurry = min(1.0, max(0.0, (behind - HURRY_FROM) / (HURRY_TO - HURRY_FROM)))
        return 1.0 + hurry * max(0.0, options.max_speed - 1.0)

    def _new_interpreter(self, prepared: PreparedInterpretation) -> Interpreter:
        labels = metrics.Labels(prepared.route.model or "none", self._surface, True)
        return Interpreter(self._speech.translation, prepared.route, Timeline(), labels)

    # From translations to audio.

    async def _speak_all(self) -> None:
        while (passage := await self._spoken.get()) is not None:
            if passage.stream is not None:
                await self._speak(passage, passage.stream)
            await self._emit(_done(passage), passage)
        await self._events.put(None)

    async def _speak(self, passage: _Passage, stream: SpeechStream) -> None:
        try:
            async for chunk in stream:
                begin = max(self.clock.now(), passage.moment) if passage.delay is None else 0.0
                start = self.clock.place(chunk.duration, begin)
                if passage.delay is None:
                    passage.delay = start - passage.moment
                part = SpeechPart(passage.sentence.number, chunk, start, passage.speed, stream)
                await self._emit(part, passage)
        except errors.NothingToSpeakError:
            passage.ending = "unspoken"
        except errors.ServiceError as error:
            passage.error = passage.error or error

    # Parts of all of them.

    def _begin_work(self) -> tuple[asyncio.Task[None], ...]:
        return tuple(asyncio.create_task(self._guard(each)) for each in (self._translate_all(), self._speak_all()))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of this session; the reader is told of the error that ends it."""
        try:
            await work
        except Exception as error:
            await self._events.put(error)

    async def _emit(self, event: Event, passage: _Passage | None = None) -> None:
        await self._events.put((event, passage))

    def _reach(self, passage: _Passage, point: Reached) -> None:
        if point not in passage.latency:
            seconds = max(0.0, self.clock.now() - self.clock.arrival(passage.sentence.end))
            passage.latency[point] = seconds
            metrics.interpretation_latency.labels(self._surface, point).observe(seconds)

    def _record(self, passage: _Passage) -> None:
        """Close what works for a sentence, and feed the metrics."""
        if passage.error is not None:
            passage.ending = "failed"
        outcome = _OUTCOMES.get(passage.ending, "ok")
        if passage.error is not None and passage.error.status < 500 and passage.delay is None:
            outcome = "rejected"
        if passage.stream is not None:
            passage.stream.close(outcome)
        else:
            metrics.record_translation(passage.timeline, passage.labels, outcome, metrics.Volume())
        metrics.record_interpretation(self._surface, passage.ending, passage.delay)


_OUTCOMES: Final[dict[Ending, metrics.Outcome]] = {"cancelled": "cancelled", "failed": "failed"}


def _emptied(queue: asyncio.Queue[T]) -> list[T]:
    """Return what waited in `queue`."""
    return [queue.get_nowait() for _ in range(queue.qsize())]


def _done(passage: _Passage) -> SentenceDone:
    latency, number = dict(passage.latency), passage.sentence.number
    return SentenceDone(number, passage.ending, latency, passage.delay, passage.timeline, passage.error)
