"""One stream of speech: text in, audio in its place in time out.

While one sentence is being sent the next ones are phonemized and computed, at most AHEAD of them: a reader that is
slow, or gone, stops its own generation.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from app import errors
from app.audio.pcm import LEAD, Trimmer, amplify, first_audible, silence
from app.audio.resample import Resampler
from app.config import PauseKind
from app.engine.admission import StreamAdmission, key_name
from app.engine.jobs import CancelToken, Priority, Results, SpeechJob
from app.engine.service_errors import service_error
from app.observability import metrics
from app.speech.cache import CachedSentence, RecordedSentence
from app.speech.options import PreparedSpeech
from app.speech.sentence import MarkTime, Origin, SentenceResults, SpokenChunk, SubmittedSentence, Word, take_translated
from app.speech.service import SpeechService
from app.speech.variants import Variants
from app.speech.verifier import ATTEMPTS, Heard, VerificationReport, Verifier
from app.text import marks
from app.text.types import PLAIN, Bookmark, Pause, PhonemizedSentence, Script, Style
from app.translation.live import Interpreter
from models.contract import AudioChunk, ModelRequestError, Pcm, SpeechRequest
from models.timeline import Stage, Timeline

# Sentences in work besides the one being sent.
AHEAD = 2
# Phonemes that a character of a text has at most on average: what a lexicon makes longer costs more.
PHONEMES = 2
# Seconds of silence that a text of any length may have, and those for each character but spaces. More is left out.
MAX_SILENCE_SECONDS = 600.0
SILENCE_PER_CHARACTER = 0.2
# Seconds that the model's thread has to begin before the next sentence is planned.
GIVE_WAY = 0.001


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
        variants: Variants | None = None,
        priority: Priority = Priority.FIRST_AUDIO,
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
            variants: voices of the text that are prepared already.
            priority: that of the first sentence. BACKGROUND: nobody listens yet; no time of a listener is recorded.
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
            self._interpreter = Interpreter(service.translation, speech.route, timeline, translating, priority)
        self._marking = None if speech.marker is None else service.watermark.mark(speech.marker, self._rate)
        self._playback = metrics.Playback()
        # As `feed` takes them. Unbounded: callers bound the characters of one stream.
        self._fed: asyncio.Queue[tuple[str, Origin] | errors.ServiceError | None] = asyncio.Queue()
        self._variants = variants or Variants(service, speech)
        if admitted is None:
            try:
                admitted = service.admission.open(speech.model, None)
            except errors.OverloadedError as error:
                self.refuse(error)
        self._admission = admitted
        # Unbounded by type, bounded by _room.
        self._planned: asyncio.Queue[SubmittedSentence | Pause | Bookmark | BaseException | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(1 + AHEAD)
        self._looked_ahead = asyncio.Event()
        self._unfinished: set[SentenceResults] = set()
        self._background = priority is Priority.BACKGROUND
        self._priority = priority
        self._count = 0
        self._whole = False
        self._pauses = False
        self._position = 0
        self._space = ""  # white space at the end of the last text
        self._after_speech = False  # no pause since the last sentence
        self._tail = 0.0  # seconds of silence at the end of the last sentence
        self._silence = 0.0  # seconds so far
        self._most_silence = MAX_SILENCE_SECONDS
        self._speed = 1.0  # of the last sentence
        self._pause_seconds: dict[PauseKind, float] = {**service.settings.pauses, **speech.options.pauses}
        self._translated_characters = 0
        self._recorded = False
        self.cached: Literal["hit", "miss"] | None = None  # whether the first sentence was spoken before
        self._unheard: SpokenChunk | None = None
        self._producer = asyncio.create_task(self._produce())
        self._chunks = self._consume()

    def feed(
        self,
        text: str,
        offset: int = 0,
        source: str | None = None,
        script: Script | None = None,
        style: Style = PLAIN,
    ) -> None:
        """Speak `text`.

        Args:
            text: the words to speak; it may be blank only with a script.
            offset: character of the client's text at which it begins.
            source: the client's own text, where `text` was made of it.
            script: the manner in which markup has it spoken.
            style: the manner of a text without a script.
        """
        self._most_silence += SILENCE_PER_CHARACTER * len("".join(text.split()))
        self._fed.put_nowait((text, Origin(offset, source, script, style)))

    async def prepare(self, style: Style) -> PreparedSpeech:
        """Return the voice, language and speed of a style. Raises ServiceError as `Variants.prepare` does."""
        return await self._variants.prepare(style, marked=self._marking is not None)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Marks of the text that name no voice here."""
        return tuple(self._variants.ignored)

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

    async def verification(self) -> VerificationReport | None:
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
        if chunk is not None and (first := first_audible(chunk.pcm)) is not None:
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
            spoken = max(0.0, self.timeline.audio_seconds - self._silence)
            self._admission.close(self.timeline.busy, spoken, whole=outcome == "ok")
        if self._background:
            metrics.record_background(self.timeline, self.labels)
        else:
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
            text, origin = fed
            if self._admission is not None:
                self._admission.charge(len(text))
            try:
                if origin.script is not None:
                    await self._plan_script(text, origin, origin.script)
                else:
                    await self._plan_text(text, origin)
            except errors.NothingToSpeakError as error:
                nothing = error
        if self._count == 0:
            raise nothing or errors.NothingToSpeakError("The input holds nothing that can be spoken.")
        self._whole = self._count == 1 and not self._pauses

    async def _plan_text(self, text: str, origin: Origin) -> None:
        """Plan a plain text, part by part where its marks change the voice. A blank line before it is a pause."""
        between = self._space + text[: len(text) - len(text.lstrip())]
        self._space = text[len(text.rstrip()) :]
        if self._count and between.count("\n") > 1:
            await self._room.acquire()
            self._put(Pause(None))
        nothing: errors.NothingToSpeakError | None = None
        for start, end, style in await self._variants.parts(text, origin.style):
            part = replace(origin, offset=origin.offset + start, style=style)
            speech = await self.prepare(style)
            try:
                if self._interpreter is None:
                    await self._plan(text[start:end], part, speech)
                else:
                    await self._translate(self._interpreter, text[start:end], part, speech, deque())
                origin = replace(origin, source=None)
            except errors.NothingToSpeakError as error:
                nothing = error
                for pause in marks.pauses(text[start:end]) if self._count else ():
                    await self._room.acquire()
                    self._put(Pause(pause.seconds))
        if nothing is not None:
            raise nothing

    async def _translate(
        self, interpreter: Interpreter, text: str, part: Origin, speech: PreparedSpeech, bookmarks: deque[Bookmark]
    ) -> None:
        """Plan `text` translated, sentence by sentence. Without a source each sentence is its own.

        Each sentence takes the bookmarks that lie before its end.
        """
        source = part.source
        given = source is not None
        position = 0
        named = None if part.script is None else part.script.source
        async with aclosing(interpreter.interpret(text, marked=part.script is None, named=named)) as found:
            async for each in found:
                if isinstance(each, Pause):
                    await self._room.acquire()
                    self._put(each)
                    continue
                start = max(text.find(each.source, position), position)
                position = start + len(each.source)
                left = take_translated(bookmarks, start, position, len(each.text))
                origin = part.translated(self._translated_characters, source if given else each.source)
                await self._plan(each.text, origin, speech, left)
                await self._put_bookmarks(left)
                self._translated_characters += len(each.text) + 1
                source = None

    async def _plan_script(self, text: str, origin: Origin, script: Script) -> None:
        """Plan a passage with its pause, its voice and its bookmarks."""
        if script.pause != 0.0:
            await self._room.acquire()
            self._put(Pause(script.pause))
        left = deque(script.bookmarks)
        nothing: errors.NothingToSpeakError | None = None
        if text.strip():
            speech = await self.prepare(script.style)
            for language in {span.language for span in script.spans if span.language is not None}:
                await self._service.phonemizer(language)
            try:
                if self._interpreter is None:
                    await self._plan(text, origin, speech, left)
                else:
                    await self._translate(self._interpreter, text, origin, speech, left)
            except errors.NothingToSpeakError as error:
                nothing = error
        await self._put_bookmarks(left)
        if nothing is not None:
            raise nothing

    async def _put_bookmarks(self, bookmarks: deque[Bookmark]) -> None:
        for mark in bookmarks:
            await self._room.acquire()
            self._put(mark)

    async def _plan(
        self, text: str, origin: Origin, speech: PreparedSpeech, bookmarks: deque[Bookmark] | None = None
    ) -> None:
        """Submit the sentences of `text`. Each takes the bookmarks that lie before its end."""
        model = speech.synthesizer
        begin = partial(
            speech.planner.segments,
            text,
            symbols=model.symbols,
            max_phonemes=model.max_phonemes,
            script=origin.script,
            lexicons=speech.lexicons,
        )
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
                if segment.seconds != 0.0:
                    self._put(segment)
                else:  # others had their turn
                    self._room.release()
            else:
                if speech.lexicons:
                    self._charge(len(segment.phonemes) // PHONEMES - len(segment.text))
                sentence = await self._submit(segment, origin, speech)
                while bookmarks and bookmarks[0].position <= segment.char_end:
                    sentence.bookmarks.append(bookmarks.popleft())
                self._put(sentence)
                origin = replace(origin, source=None)
                if not isinstance(sentence.results, CachedSentence):
                    # The model's thread goes first: nobody waits for the next plans, and both need Python's lock.
                    await asyncio.sleep(GIVE_WAY)

    def _charge(self, characters: int) -> None:
        """Pay for words that a lexicon says in place of shorter ones. Raises QuotaExceededError."""
        if characters > 0 and self._admission is not None:
            self._admission.charge(characters)
        elif characters > 0:
            self._service.admission.charge_client(characters)

    async def _submit(self, utterance: PhonemizedSentence, origin: Origin, speech: PreparedSpeech) -> SubmittedSentence:
        priority, self._priority = self._priority, self._priority.after_first()
        request = speech.request(utterance, first=priority is Priority.FIRST_AUDIO)
        return SubmittedSentence(utterance, origin, speech, request, await self._results(speech, request, priority))

    async def _results(self, speech: PreparedSpeech, request: SpeechRequest, priority: Priority) -> SentenceResults:
        """Return the audio of a sentence: what was spoken before, or what the model speaks now."""
        cache = self._service.cache
        if speech.scope is None:
            return self._submit_request(speech, request, priority)
        scopes = dict.fromkeys((speech.scope, speech.scope.common()))
        keys = [scope.key(request, reads_text=speech.synthesizer.reads == "text") for scope in scopes]
        for key in keys:
            spoken, where = await cache.find(key, stored=speech.scope.stored)
            if spoken is None:
                continue
            metrics.cache_hits.labels(speech.model, where).inc()
            self.cached = self.cached or "hit"
            self.timeline.computed(sum(chunk.pcm.size for chunk in spoken) / speech.synthesizer.sample_rate)
            return CachedSentence(spoken)
        metrics.cache_misses.labels(speech.model).inc()
        self.cached = self.cached or "miss"
        results = self._submit_request(speech, request, priority)
        return RecordedSentence(results, cache, keys[0], stored=speech.scope.stored)

    def _submit_request(
        self, speech: PreparedSpeech, request: SpeechRequest, priority: Priority
    ) -> Results[AudioChunk]:
        job = SpeechJob(speech.model, speech.synthesizer, request, self.timeline, self.cancelled, priority)
        results = self._service.worker.submit(job)
        self._unfinished.add(results)
        return results

    def _put(self, planned: SubmittedSentence | Pause | Bookmark) -> None:
        self._pauses = self._pauses or isinstance(planned, Pause)
        self._count += not isinstance(planned, Bookmark)
        if self._count > 1:
            self._looked_ahead.set()
        self._planned.put_nowait(planned)

    # From computed chunks to chunks in place.

    async def _consume(self) -> AsyncIterator[SpokenChunk]:
        marks: tuple[MarkTime, ...] = ()
        try:
            while (planned := await self._planned.get()) is not None:
                if isinstance(planned, BaseException):
                    raise planned
                if isinstance(planned, Bookmark):
                    marks += (MarkTime(planned.name, self._position / self._rate),)
                elif isinstance(planned, Pause):
                    if self._marking is not None:
                        self._marking.reset()
                    self._after_speech = False
                    seconds = self._due("paragraph") - LEAD if planned.seconds is None else planned.seconds
                    for pcm in silence(self._allowed(seconds), self._rate):
                        yield replace(self._place(pcm, "", 0, 0, ()), marks=marks)
                        marks = ()
                else:
                    async for chunk in self._speak(planned):
                        yield replace(chunk, marks=marks + chunk.marks) if marks else chunk
                        marks = ()
                self._room.release()
            if marks:
                yield replace(self._place(np.zeros(0, np.float32), "", 0, 0, ()), marks=marks)
        except ModelRequestError as error:
            raise service_error(error) from error

    async def _speak(self, sentence: SubmittedSentence) -> AsyncIterator[SpokenChunk]:
        source = sentence.source
        lead = max(LEAD, self._allowed(self._due("sentence"))) if self._after_speech else LEAD
        trimmer = Trimmer(self._rate, lead, fill=self._after_speech)
        self._after_speech = True
        sentence.begin = self._position / self._rate
        resampler = Resampler(sentence.rate, self._rate)
        sent = 0
        verifier, kept = self._verifier, []
        results: AsyncIterator[AudioChunk] = sentence.results
        if verifier is not None and verifier.retries:
            results = self._best(sentence, verifier)
        if self._service.leveller is not None:
            voice = sentence.speech.model, sentence.speech.voice
            results = self._service.leveller.level(results, key_name(), voice, sentence.rate)
        async for chunk in results:
            if verifier is not None and not verifier.retries:
                kept.append(chunk.pcm)
                if chunk.last:
                    whole = np.concatenate(kept)
                    await verifier.follow(sentence.expected, whole, sentence.rate, sentence.speech.model)
            sentence.phoneme_ends.extend(chunk.phoneme_ends)
            pcm = trimmer.push(resampler.push(chunk.pcm, last=chunk.last), last=chunk.last)
            if not (pcm.size or chunk.last):
                continue
            sent += pcm.size
            most = (sent - trimmer.tail) / self._rate if chunk.last else math.inf
            words = sentence.take_words(trimmer.cut / self._rate, trimmer.lead / self._rate, most)
            marks = sentence.take_marks(sent / self._rate, last=chunk.last)
            if chunk.last:
                self._finished(sentence)
            pcm = await self._mark(amplify(pcm, sentence.gain))
            placed = self._place(pcm, sentence.text, sentence.char_start, sentence.char_end, words)
            yield replace(placed, source=source, last=chunk.last, marks=marks)
            source = None
        self._tail, self._speed = trimmer.tail / self._rate, sentence.speech.speed
        self._finished(sentence)

    def _due(self, kind: PauseKind) -> float:
        """Return the seconds of silence that are missing before the next sentence or paragraph, at least LEAD.

        The one between paragraphs is never shorter than that between sentences. Faster speech pauses less.
        """
        seconds = max(self._pause_seconds["sentence"], self._pause_seconds[kind])
        return max(LEAD, seconds / self._speed - self._tail)

    def _allowed(self, seconds: float) -> float:
        """Return how much of a silence the text may still have, and count it."""
        seconds = min(seconds, self._most_silence - self._silence)
        self._silence += seconds
        return seconds

    def _finished(self, sentence: SubmittedSentence) -> None:
        """Note that all audio of a sentence was read."""
        results = sentence.results
        self._unfinished.discard(results.results if isinstance(results, RecordedSentence) else results)

    async def _best(self, sentence: SubmittedSentence, verifier: Verifier) -> AsyncIterator[AudioChunk]:
        """Yield the audio of a sentence once it is heard as it is written, or the best of ATTEMPTS, each of a seed."""
        best: tuple[Heard, list[AudioChunk]] | None = None
        for attempt in range(1, ATTEMPTS + 1):
            chunks = [chunk async for chunk in sentence.results]
            self._finished(sentence)
            whole = np.concatenate([chunk.pcm for chunk in chunks])
            heard = await verifier.hear(sentence.expected, whole, sentence.rate, sentence.speech.model)
            if best is None or heard.better_than(best[0]):
                best = heard, chunks
            if heard.verdict != "failed" or attempt == ATTEMPTS:
                verifier.note(best[0], attempt)
                break
            again = replace(sentence.request, seed=sentence.request.seed + attempt)
            sentence.results = self._submit_request(sentence.speech, again, self._priority)
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
