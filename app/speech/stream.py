"""One stream of speech: text in, audio in its place in time out.

While one sentence is being sent the next ones are phonemized and computed, at most AHEAD of them: a reader that is
slow, or gone, stops its own generation.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app import errors
from app.audio.pcm import LEAD, LEAD_BETWEEN, Trimmer
from app.engine.admission import StreamAdmission
from app.engine.jobs import CancelToken, Priority, Results, SpeechJob
from app.engine.service_errors import REQUEST_ERRORS, service_error
from app.observability import metrics
from app.speech.service import PreparedSpeech, SpeechService
from app.speech.verifier import ATTEMPTS, Heard, Report, Verifier
from app.text.types import Pause, Utterance
from app.translation.live import Interpreter
from models.contract import AudioChunk, Pcm, SpeechRequest
from models.timeline import Stage, Timeline

# Sentences in work besides the one being sent.
AHEAD = 2
# Smallest sample that counts as sound.
AUDIBLE = 1e-3
# Samples that are searched for it at once.
AUDIBLE_PIECE = 4096
# Seconds that the model's thread has to begin before the next sentence is planned.
GIVE_WAY = 0.001
# Longest single piece of silence, in seconds: a long pause is made as it is sent.
SILENCE_PIECE = 1.0


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the input, with the seconds of the stream in which it is spoken."""

    text: str
    start: float
    end: float
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True)
class SpokenChunk:
    """A piece of audio in its place in the stream. `pcm` is float32 [samples]; times in seconds from its start.

    `words` are those that end in this piece. A pause has no text. `source` is the client's text for the sentence, on
    its first piece, where another text is spoken; then characters are counted in the spoken text. `last`: this piece
    ends its sentence.
    """

    pcm: Pcm
    start: float
    duration: float
    text: str
    char_start: int
    char_end: int
    words: tuple[Word, ...]
    source: str | None = None
    last: bool = True


class _Sentence:
    """A sentence that the model thread has, and the times of its words.

    Its text begins at character `offset` of the client's, and its audio at second `begin` of the stream.
    """

    def __init__(
        self,
        utterance: Utterance,
        offset: int,
        source: str | None,
        request: SpeechRequest,
        results: Results[AudioChunk],
    ) -> None:
        self.text = utterance.text
        self.request = request
        self.char_start = offset + utterance.char_start
        self.char_end = offset + utterance.char_end
        self.source = source
        self.results = results
        self.begin = 0.0
        self._words = deque(utterance.words)
        self._offset = offset
        # Seconds from the start of the sentence at which its phonemes end, as far as they are known.
        self.phoneme_ends: list[float] = []

    def take_words(self, cut: float, most: float) -> tuple[Word, ...]:
        """Return the words whose ends are known; each is returned once.

        `cut` seconds were trimmed from the start of the sentence. No word ends after `most` seconds of it.
        """
        ends = self.phoneme_ends
        found = []
        while self._words and self._words[0].phoneme_end <= len(ends):
            span = self._words.popleft()
            start = ends[span.phoneme_start - 1] if span.phoneme_start else 0.0
            end = ends[span.phoneme_end - 1] if span.phoneme_end else start
            start, end = (self.begin + min(max(0.0, each - cut), most) for each in (start, end))
            found.append(Word(span.text, start, end, self._offset + span.char_start, self._offset + span.char_end))
        return tuple(found)


class SpeechStream:
    """Text in (`feed`, `finish`), SpokenChunks out (`async for`). `close` must be called in the end.

    A stream takes no slot of `Admission`: requests and sockets do.
    """

    def __init__(
        self,
        service: SpeechService,
        speech: PreparedSpeech,
        timeline: Timeline,
        labels: metrics.Labels,
        admitted: StreamAdmission | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        """Open a stream; call on the event loop.

        Args:
            service: the parts of the server that the stream uses.
            speech: the checked options.
            timeline: record of the stream's time.
            labels: labels of its metrics; `streaming` may be set later.
            admitted: admission of the stream, whose client pays for its text as it is spoken. None: the stream is
                admitted here, or ends with the error, and the client paid for its text as it was received.
            verifier: hears the sentences; None: they are not verified.
        """
        self.speech = speech
        self.timeline = timeline
        self.labels = labels
        self.cancelled = CancelToken()
        self._service = service
        self._verifier = verifier
        self._rate = speech.synthesizer.sample_rate
        self._interpreter = None
        if speech.route is not None:
            translating = replace(labels, model=speech.route.model or "none")
            self._interpreter = Interpreter(service.translation, speech.route, timeline, translating)
        self._marking = None if speech.marker is None else service.watermark.mark(speech.marker, self._rate)
        self._playback = metrics.Playback()
        # (text, offset, source) as `feed` takes them. Unbounded: callers bound the characters of one stream.
        self._fed: asyncio.Queue[tuple[str, int, str | None] | errors.ServiceError | None] = asyncio.Queue()
        if admitted is None:
            try:
                admitted = service.admission.open(speech.model, None)
            except errors.OverloadedError as error:
                self.refuse(error)
        self._admission = admitted
        # Unbounded by type, bounded by _room.
        self._planned: asyncio.Queue[_Sentence | Pause | BaseException | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(1 + AHEAD)
        self._looked_ahead = asyncio.Event()
        self._unfinished: set[Results[AudioChunk]] = set()
        self._priority = Priority.FIRST_AUDIO
        self._count = 0
        self._whole = False
        self._pauses = False
        self._position = 0
        self._after_speech = False  # no pause since the last sentence
        self._translated_characters = 0
        self._recorded = False
        self._unheard: SpokenChunk | None = None
        self._producer = asyncio.create_task(self._produce())
        self._chunks = self._consume()

    def feed(self, text: str, offset: int = 0, source: str | None = None) -> None:
        """Speak `text`, which begins at character `offset` of the client's.

        `source`: the client's own text, where `text` was made of it.
        """
        self._fed.put_nowait((text, offset, source))

    def anticipate(self, partial: str) -> None:
        """Translate ahead of time, if there is time: the text that is fed next begins with `partial`."""
        if self._interpreter is not None and partial:
            self._interpreter.speculate(partial)

    def refuse(self, error: errors.ServiceError) -> None:
        """Speak nothing more: the stream ends with `error`."""
        self._fed.put_nowait(error)

    def finish(self) -> None:
        """End the text: no more follows."""
        self._fed.put_nowait(None)

    @property
    def backlog(self) -> int:
        """Texts that were fed and are not planned yet: a sender without end waits while there are many."""
        return self._fed.qsize()

    def __aiter__(self) -> AsyncIterator[SpokenChunk]:
        return self._chunks

    async def is_whole(self) -> bool:
        """Whether the first chunk, which was read, is all. Waits until the next sentence is known."""
        await self._looked_ahead.wait()
        return self._whole and not self._unfinished

    @property
    def verified(self) -> bool:
        """Whether the sentences are verified."""
        return self._verifier is not None

    async def verification(self) -> Report | None:
        """Return the result of verification once all is spoken and heard; None: none was asked for."""
        return None if self._verifier is None else await self._verifier.report(self.speech.model)

    def begun(self) -> bool:
        """Whether audio was handed to the transport."""
        return self.timeline.first_audio is not None

    def delivered(self, chunk: SpokenChunk, sent: bool = True) -> None:
        """Note that `chunk` was handed to the transport; `sent` is False while the codec holds all of it back."""
        self.timeline.audio_seconds += chunk.duration
        if not sent:
            return
        self.timeline.mark_first_audio()
        self._playback.delivered(chunk.duration)
        self._find_first_audible()
        if self.timeline.first_audible is None:
            # Once it is on its way: nobody waits for this.
            self._unheard = chunk
            asyncio.get_running_loop().call_soon(self._find_first_audible)

    def _find_first_audible(self) -> None:
        """Look for the first audible sample in the chunk that was delivered last."""
        chunk, self._unheard = self._unheard, None
        if chunk is not None and (first := _first_audible(chunk.pcm)) is not None:
            begun = self.timeline.first_audio or 0.0
            self.timeline.mark_first_audible(begun + chunk.start + first / self._rate)

    def close(self, outcome: metrics.Outcome) -> None:
        """Stop everything that still works for this stream and record it. Later calls change nothing."""
        if self._recorded:
            return
        self._recorded = True
        self._find_first_audible()
        if outcome != "ok":
            self.cancelled.cancel()
        self._producer.cancel()
        if self._interpreter is not None:
            self._interpreter.close()
        for results in self._unfinished:
            results.close()
        if self._verifier is not None:
            self._verifier.close()
        if self._admission is not None:
            self._admission.close(self.timeline.busy, self.timeline.audio_seconds, whole=outcome == "ok")
        metrics.record(self.timeline, self.labels, outcome, self._playback)

    # From text to submitted sentences.

    async def _produce(self) -> None:
        try:
            await self._plan_all()
            self._planned.put_nowait(None)
        except Exception as error:
            self._planned.put_nowait(error)
        finally:
            self._looked_ahead.set()

    async def _plan_all(self) -> None:
        nothing: errors.NothingToSpeakError | None = None
        while (fed := await self._fed.get()) is not None:
            if isinstance(fed, errors.ServiceError):
                raise fed
            text, offset, source = fed
            if self._admission is not None:
                self._admission.charge(len(text))
            try:
                if self._interpreter is None:
                    await self._plan(text, offset, source)
                else:
                    await self._translate(self._interpreter, text, source)
            except errors.NothingToSpeakError as error:
                nothing = error
        if self._count == 0:
            raise nothing or errors.NothingToSpeakError("The input holds nothing that can be spoken.")
        self._whole = self._count == 1 and not self._pauses

    async def _translate(self, interpreter: Interpreter, text: str, source: str | None) -> None:
        """Plan `text` translated, sentence by sentence. Without a `source` each sentence is its own."""
        given = source is not None
        async with aclosing(interpreter.interpret(text)) as found:
            async for each in found:
                if isinstance(each, Pause):
                    await self._room.acquire()
                    self._put(each)
                    continue
                await self._plan(each.text, self._translated_characters, source if given else each.source)
                self._translated_characters += len(each.text) + 1
                source = None

    async def _plan(self, text: str, offset: int, source: str | None) -> None:
        model = self.speech.synthesizer
        begin = partial(self.speech.planner.segments, text, symbols=model.symbols, max_phonemes=model.max_phonemes)
        next_segment = self._service.in_turns(begin, self.timeline)
        while True:
            await self._room.acquire()
            try:
                segment = await next_segment()
            except errors.NothingToSpeakError:
                # The texts after this one need its place.
                self._room.release()
                raise
            if segment is None:
                self._room.release()
                return
            if isinstance(segment, Pause):
                if segment.seconds:
                    self._put(segment)
                else:  # others had their turn
                    self._room.release()
            else:
                self._put(self._submit(segment, offset, source))
                source = None
                # The model's thread goes first: nobody waits for the next plans, and both threads need Python's lock.
                await asyncio.sleep(GIVE_WAY)

    def _submit(self, utterance: Utterance, offset: int, source: str | None) -> _Sentence:
        speech = self.speech
        priority, self._priority = self._priority, Priority.CONTINUATION
        request = speech.request(utterance, first=priority is Priority.FIRST_AUDIO)
        return _Sentence(utterance, offset, source, request, self._submit_request(request, priority))

    def _submit_request(self, request: SpeechRequest, priority: Priority) -> Results[AudioChunk]:
        speech = self.speech
        job = SpeechJob(speech.model, speech.synthesizer, request, self.timeline, self.cancelled, priority)
        results = self._service.worker.submit(job)
        self._unfinished.add(results)
        return results

    def _put(self, planned: _Sentence | Pause) -> None:
        self._pauses = self._pauses or isinstance(planned, Pause)
        self._count += 1
        if self._count > 1:
            self._looked_ahead.set()
        self._planned.put_nowait(planned)

    # From computed chunks to chunks in place.

    async def _consume(self) -> AsyncIterator[SpokenChunk]:
        try:
            while (planned := await self._planned.get()) is not None:
                if isinstance(planned, BaseException):
                    raise planned
                if isinstance(planned, Pause):
                    if self._marking is not None:
                        self._marking.reset()
                    self._after_speech = False
                    for pcm in self._silence(planned.seconds):
                        yield self._place(pcm, "", 0, 0, ())
                else:
                    async for chunk in self._speak(planned):
                        yield chunk
                self._room.release()
        except REQUEST_ERRORS as error:
            raise service_error(error) from error

    async def _speak(self, sentence: _Sentence) -> AsyncIterator[SpokenChunk]:
        source = sentence.source
        trimmer = Trimmer(self._rate, LEAD_BETWEEN if self._after_speech else LEAD)
        self._after_speech = True
        sentence.begin = self._position / self._rate
        sent = 0
        verifier, kept = self._verifier, []
        async for chunk in self._best(sentence, verifier) if verifier and verifier.retries else sentence.results:
            if verifier is not None and not verifier.retries:
                kept.append(chunk.pcm)
                if chunk.last:
                    await verifier.follow(sentence.text, np.concatenate(kept), self._rate)
            sentence.phoneme_ends.extend(chunk.phoneme_ends)
            pcm = trimmer.push(chunk.pcm, last=chunk.last)
            if not (pcm.size or chunk.last):
                continue
            sent += pcm.size
            most = sent / self._rate if chunk.last else math.inf
            words = sentence.take_words(trimmer.cut / self._rate, most)
            if chunk.last:
                self._unfinished.discard(sentence.results)
            placed = self._place(await self._mark(pcm), sentence.text, sentence.char_start, sentence.char_end, words)
            yield replace(placed, source=source, last=chunk.last)
            source = None
        self._unfinished.discard(sentence.results)

    async def _best(self, sentence: _Sentence, verifier: Verifier) -> AsyncIterator[AudioChunk]:
        """Yield the audio of a sentence once it is heard as it is written, or the best of ATTEMPTS, each of a seed."""
        best: tuple[Heard, list[AudioChunk]] | None = None
        for attempt in range(1, ATTEMPTS + 1):
            chunks = [chunk async for chunk in sentence.results]
            self._unfinished.discard(sentence.results)
            heard = await verifier.hear(sentence.text, np.concatenate([chunk.pcm for chunk in chunks]), self._rate)
            if best is None or heard.better_than(best[0]):
                best = heard, chunks
            if heard.verdict != "failed" or attempt == ATTEMPTS:
                verifier.note(best[0], attempt)
                break
            again = replace(sentence.request, seed=sentence.request.seed + attempt)
            sentence.results = self._submit_request(again, Priority.CONTINUATION)
        for chunk in best[1] if best is not None else ():
            yield chunk

    async def _mark(self, pcm: Pcm) -> Pcm:
        if self._marking is None:
            return pcm
        with self.timeline.measure(Stage.WATERMARK):
            return await self._marking.push(pcm)

    def _place(self, pcm: Pcm, text: str, char_start: int, char_end: int, words: tuple[Word, ...]) -> SpokenChunk:
        start = self._position / self._rate
        self._position += pcm.size
        return SpokenChunk(pcm, start, pcm.size / self._rate, text, char_start, char_end, words)

    def _silence(self, seconds: float) -> Iterator[Pcm]:
        left = round(seconds * self._rate)
        piece = round(SILENCE_PIECE * self._rate)
        while left > 0:
            yield np.zeros(min(left, piece), np.float32)
            left -= piece


def _first_audible(pcm: Pcm) -> int | None:
    """Return the number of the first audible sample. Speech begins early, so the rest is not looked at."""
    for start in range(0, pcm.size, AUDIBLE_PIECE):
        loud = np.flatnonzero(np.abs(pcm[start : start + AUDIBLE_PIECE]) > AUDIBLE)
        if loud.size:
            return start + int(loud[0])
    return None
