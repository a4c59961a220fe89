"""From text to sentences that the model has: a text is translated, divided, phonemized and submitted, in order.

At most AHEAD sentences are in work besides the one that is being sent: a reader that is slow, or gone, stops its own
generation.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from app import errors
from app.engine.admission import StreamAdmission
from app.engine.jobs import CancelToken, Priority, Results, SpeechJob
from app.observability import metrics
from app.speech.cache import CachedSentence, RecordedSentence
from app.speech.options import PreparedSpeech
from app.speech.sentence import Origin, SentenceResults, SubmittedSentence, take_translated
from app.speech.service import SpeechService
from app.speech.variants import Variants
from app.text import marks
from app.text.types import Bookmark, Pause, Script
from app.translation.live import Interpreter
from models.contract import AudioChunk, SpeechRequest
from models.timeline import Timeline

AHEAD: Final = 2
"""Sentences in work besides the one being sent."""
MAX_SILENCE_SECONDS: Final = 600.0
"""Seconds of silence that a text of any length may have."""
SILENCE_PER_CHARACTER: Final = 0.2
"""Seconds that it may have for each of its characters but spaces. More is left out."""
# Phonemes that a character of a text has at most on average: what a lexicon makes longer costs more.
PHONEMES = 2
# Seconds that the model's thread has to begin before the next sentence is planned.
GIVE_WAY = 0.001

Planned = SubmittedSentence | Pause | Bookmark
"""What is played in its turn."""


class SentencePlanner:
    """Texts in (`feed`, `finish`), submitted sentences, pauses and bookmarks out (`get`), in their order."""

    def __init__(
        self,
        service: SpeechService,
        speech: PreparedSpeech,
        timeline: Timeline,
        cancelled: CancelToken,
        *,
        variants: Variants,
        interpreter: Interpreter | None,
        admission: StreamAdmission | None,
        priority: Priority,
    ) -> None:
        """Plan nothing yet; `run` does.

        `cancelled` stops the model's work for the stream. `interpreter` translates the text first; None: it is spoken
        as it is. `admission` pays for the text as it is spoken; None: it is paid for. `priority`: that of the first
        sentence.
        """
        # Whether the first sentence was spoken before. None: the cache was not asked.
        self.cached: Literal["hit", "miss"] | None = None
        # Sentences of which the audio was not read to its end.
        self.unfinished: set[SentenceResults] = set()
        # Set once it is known whether a second sentence or a pause follows; `whole`: none does.
        self.looked_ahead = asyncio.Event()
        self.whole = False
        # Seconds of silence that the texts so far may have.
        self.max_silence = MAX_SILENCE_SECONDS
        self._service = service
        self._speech = speech
        self._timeline = timeline
        self._cancelled = cancelled
        self._variants = variants
        self._interpreter = interpreter
        self._admission = admission
        self._priority = priority
        # As `feed` takes them. Unbounded: callers bound the characters of one stream.
        self._fed: asyncio.Queue[tuple[str, Origin] | errors.ServiceError | None] = asyncio.Queue()
        # Unbounded by type, bounded by _room.
        self._planned: asyncio.Queue[Planned | BaseException | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(1 + AHEAD)
        self._count = 0
        self._pauses = False
        self._space = ""  # white space at the end of the last text
        self._translated_characters = 0

    def feed(self, text: str, origin: Origin) -> None:
        """Plan `text`, which may be blank only with a script."""
        self.max_silence += SILENCE_PER_CHARACTER * len("".join(text.split()))
        self._fed.put_nowait((text, origin))

    def refuse(self, error: errors.ServiceError) -> None:
        """Plan nothing more: `get` raises `error`."""
        self._fed.put_nowait(error)

    def finish(self) -> None:
        """End the text: no more follows."""
        self._fed.put_nowait(None)

    @property
    def backlog(self) -> int:
        """Texts that were fed and are not planned yet."""
        return self._fed.qsize()

    async def get(self) -> Planned | None:
        """Return what is played next; None: that was all. Raises the error that ended the planning."""
        planned = await self._planned.get()
        if isinstance(planned, BaseException):
            raise planned
        return planned

    def played(self) -> None:
        """Note that what `get` returned was played: the next sentence is submitted."""
        self._room.release()

    async def run(self) -> None:
        """Plan the texts until `finish`. `get` raises an error that ends it."""
        try:
            await self._plan_all()
            self._planned.put_nowait(None)
        except Exception as error:
            self._planned.put_nowait(error)
        finally:
            self.looked_ahead.set()

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
        self.whole = self._count == 1 and not self._pauses

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
            speech = await self._variants.prepare(style, marked=self._speech.marker is not None)
            try:
                await self._plan_words(text[start:end], part, speech, deque())
                origin = replace(origin, source=None)
            except errors.NothingToSpeakError as error:
                nothing = error
                for pause in marks.pauses(text[start:end]) if self._count else ():
                    await self._room.acquire()
                    self._put(Pause(pause.seconds))
        if nothing is not None:
            raise nothing

    async def _plan_words(self, text: str, origin: Origin, speech: PreparedSpeech, bookmarks: deque[Bookmark]) -> None:
        """Plan a text in one voice, translated if the stream is."""
        if self._interpreter is None:
            await self._plan(text, origin, speech, bookmarks)
        else:
            await self._translate(self._interpreter, text, origin, speech, bookmarks)

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
            speech = await self._variants.prepare(script.style, marked=self._speech.marker is not None)
            for language in {span.language for span in script.spans if span.language is not None}:
                await self._service.phonemizer(language)
            try:
                await self._plan_words(text, origin, speech, left)
            except errors.NothingToSpeakError as error:
                nothing = error
        await self._put_bookmarks(left)
        if nothing is not None:
            raise nothing

    async def _put_bookmarks(self, bookmarks: deque[Bookmark]) -> None:
        for mark in bookmarks:
            await self._room.acquire()
            self._put(mark)

    async def _plan(self, text: str, origin: Origin, speech: PreparedSpeech, bookmarks: deque[Bookmark]) -> None:
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
        next_segment = self._service.in_turns(begin, self._timeline)
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
                priority, self._priority = self._priority, self._priority.after_first()
                request = speech.request(segment, first=priority is Priority.FIRST_AUDIO)
                results = await self._results(speech, request, priority)
                sentence = SubmittedSentence(segment, origin, speech, request, results)
                while bookmarks and bookmarks[0].position <= segment.char_end:
                    sentence.bookmarks.append(bookmarks.popleft())
                self._put(sentence)
                origin = replace(origin, source=None)
                if not isinstance(results, CachedSentence):
                    # The model's thread goes first: nobody waits for the next plans, and both need Python's lock.
                    await asyncio.sleep(GIVE_WAY)

    def _charge(self, characters: int) -> None:
        """Pay for words that a lexicon says in place of shorter ones. Raises QuotaExceededError."""
        if characters > 0 and self._admission is not None:
            self._admission.charge(characters)
        elif characters > 0:
            self._service.admission.charge_client(characters)

    async def _results(self, speech: PreparedSpeech, request: SpeechRequest, priority: Priority) -> SentenceResults:
        """Return the audio of a sentence: what was spoken before, or what the model speaks now."""
        cache = self._service.cache
        if speech.scope is None:
            return self.submit(speech, request, priority)
        scopes = dict.fromkeys((speech.scope, speech.scope.common()))
        keys = [scope.key(request, reads_text=speech.synthesizer.reads == "text") for scope in scopes]
        for key in keys:
            spoken, where = await cache.find(key, stored=speech.scope.stored)
            if spoken is None:
                continue
            metrics.cache_hits.labels(speech.model, where).inc()
            self.cached = self.cached or "hit"
            self._timeline.computed(sum(chunk.pcm.size for chunk in spoken) / speech.synthesizer.sample_rate)
            return CachedSentence(spoken)
        metrics.cache_misses.labels(speech.model).inc()
        self.cached = self.cached or "miss"
        results = self.submit(speech, request, priority)
        return RecordedSentence(results, cache, keys[0], stored=speech.scope.stored)

    def submit(
        self, speech: PreparedSpeech, request: SpeechRequest, priority: Priority | None = None
    ) -> Results[AudioChunk]:
        """Have the model speak a request, by default with the priority of the sentences that follow the first."""
        priority = self._priority if priority is None else priority
        job = SpeechJob(speech.model, speech.synthesizer, request, self._timeline, self._cancelled, priority)
        results = self._service.worker.submit(job)
        self.unfinished.add(results)
        return results

    def _put(self, planned: Planned) -> None:
        self._pauses = self._pauses or isinstance(planned, Pause)
        self._count += not isinstance(planned, Bookmark)
        if self._count > 1:
            self.looked_ahead.set()
        self._planned.put_nowait(planned)

    def finished(self, sentence: SubmittedSentence) -> None:
        """Note that all audio of a sentence was read."""
        results = sentence.results
        self.unfinished.discard(results.results if isinstance(results, RecordedSentence) else results)
