"""One stream of speech: text in, audio in its place in time out.

While one sentence is being sent the next ones are phonemized and computed, at most AHEAD of them: a reader that is
slow, or gone, stops its own generation.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from app import errors
from app.audio.silence import LEAD, LEAD_BETWEEN, Trimmer
from app.audio.watermark import Marker, Marking, Name
from app.engine.admission import StreamAdmission
from app.engine.scheduler import CancelToken, Priority
from app.engine.scheduler import Utterance as Spoken
from app.engine.worker import ModelWorker
from app.observability import metrics
from app.text.errors import (
    MarkupError,
    NothingToSpeakError,
    PhonemizerUnavailableError,
    TextError,
    UnsupportedLanguageError,
)
from app.text.executor import TurnThread
from app.text.phonemizer import Pause, Utterance
from app.text.types import Planner
from app.translation.live import Interpreter
from app.translation.plan import TranslationOptions
from models.contract import (
    Conditioning,
    InputTooLongError,
    ModelRequestError,
    Pcm,
    Sampling,
    SpeechRequest,
    Synthesizer,
)
from models.contract import UnknownVoiceError as ModelUnknownVoiceError
from models.timeline import Stage, Timeline

# Sentences in work besides the one being sent.
AHEAD = 2
# The least sample that counts as sound.
AUDIBLE = 1e-3
# Samples that are searched for it at once.
AUDIBLE_PIECE = 4096
# Seconds that the model's thread has to begin before the next sentence is planned.
GIVE_WAY = 0.001
# Longest single piece of silence, in seconds: a long pause is made as it is sent.
SILENCE_PIECE = 1.0


@dataclass(frozen=True, slots=True)
class Speaker:
    """Options that were checked against a loaded model. `route` says how to translate first, if at all.

    `conditioning` is what makes a cloned `voice`: a stream that has it goes on when the voice is deleted. `marker`
    puts a watermark into what is spoken.
    """

    model: str
    synthesizer: Synthesizer
    planner: Planner
    voice: str
    language: str
    speed: float
    seed: int
    route: TranslationOptions | None = None
    sampling: Sampling = field(default_factory=Sampling)
    conditioning: Conditioning | None = None
    marker: Marker | None = None

    @property
    def watermark(self) -> Name:
        """What the speech is marked with."""
        return "none" if self.marker is None else "perth"

    def request(self, utterance: Utterance, *, first: bool) -> SpeechRequest:
        """One utterance as the model is asked for it; `first` of its stream."""
        reads_text = self.synthesizer.reads == "text"
        return SpeechRequest(
            text=utterance.phonemes if reads_text else utterance.text,
            phonemes="" if reads_text else utterance.phonemes,
            voice=self.voice,
            speed=self.speed,
            seed=self.seed,
            sampling=self.sampling,
            conditioning=self.conditioning,
            first=first,
        )


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

    `words` are those this piece finishes. A pause has no text. `source` is what the client sent for the sentence, on
    its first piece, where that is not the text that is spoken; then characters are counted in what is spoken. `last`
    says that it ends its sentence.
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


@dataclass(frozen=True, slots=True)
class Passage:
    """Some text to speak, which begins at character `offset` of the client's. `source`: what was sent for it."""

    text: str
    offset: int = 0
    source: str | None = None


@dataclass(frozen=True, slots=True)
class _Sentence:
    utterance: Utterance
    offset: int
    spoken: Spoken
    source: str | None


class SpeechStream:
    """Text in (`feed`, `finish`), SpokenChunks out (`async for`). `close` must be called in the end."""

    def __init__(
        self,
        worker: ModelWorker,
        g2p: TurnThread,
        speaker: Speaker,
        timeline: Timeline,
        labels: metrics.Labels,
        interpreter: Interpreter | None = None,
        marking: Marking | None = None,
        admission: StreamAdmission | None = None,
    ) -> None:
        self.timeline = timeline
        self._admission = admission
        self.speaker = speaker
        self.cancelled = CancelToken()
        self._interpreter = interpreter
        self._marking = marking
        self._spoken_characters = 0
        self._worker = worker
        self._g2p = g2p
        self.labels = labels
        self._playback = metrics.Playback()
        # Unbounded by count: callers bound the characters of one stream.
        self._pieces: asyncio.Queue[Passage | errors.ServiceError | None] = asyncio.Queue()
        # Unbounded by type, bounded by _room.
        self._planned: asyncio.Queue[_Sentence | Pause | BaseException | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(1 + AHEAD)
        self._looked_ahead = asyncio.Event()
        self._submitted: set[Spoken] = set()
        self._priority = Priority.FIRST
        self._count = 0
        self._whole = False
        self._pauses = False
        self._position = 0
        self._speaking = False  # the sentence before has no pause after it
        self._recorded = False
        self._unheard: SpokenChunk | None = None
        self._producer = asyncio.create_task(self._produce())
        self._chunks = self._consume()

    def feed(self, text: str, offset: int = 0, source: str | None = None) -> None:
        """Speak `text`, which begins at character `offset` of the client's; `source` as in Passage."""
        self._pieces.put_nowait(Passage(text, offset, source))

    def anticipate(self, partial: str) -> None:
        """The text that will be fed next begins like this: translate it ahead of time, if there is time."""
        if self._interpreter is not None and partial:
            self._interpreter.speculate(partial)

    def refuse(self, error: errors.ServiceError) -> None:
        """Speak nothing more: the stream ends with `error`."""
        self._pieces.put_nowait(error)

    def finish(self) -> None:
        """No more text follows."""
        self._pieces.put_nowait(None)

    @property
    def backlog(self) -> int:
        """Pieces that were fed and are not planned yet: whoever feeds without end waits while there are many."""
        return self._pieces.qsize()

    def __aiter__(self) -> AsyncIterator[SpokenChunk]:
        return self._chunks

    async def is_whole(self) -> bool:
        """After the first chunk: whether it was all. Waits until the sentence after it is known, not spoken."""
        await self._looked_ahead.wait()
        return self._whole and not self._submitted

    def delivered(self, chunk: SpokenChunk, sent: bool = True) -> None:
        """Note that `chunk` was handed to the transport; `sent` is False while the codec holds all of it back."""
        self.timeline.audio_seconds += chunk.duration
        if not sent:
            return
        self.timeline.mark_first_audio()
        self._playback.delivered(chunk.duration)
        self._listen()
        if self.timeline.first_audible is None:
            # Once it is on its way: nobody waits for this.
            self._unheard = chunk
            asyncio.get_running_loop().call_soon(self._listen)

    def _listen(self) -> None:
        """Look for the first sample that can be heard in what was delivered last."""
        chunk, self._unheard = self._unheard, None
        if chunk is not None and (first := _first_audible(chunk.pcm)) is not None:
            begun = self.timeline.first_audio or 0.0
            self.timeline.mark_first_audible(begun + chunk.start + first / self._rate)

    def close(self, outcome: metrics.Outcome) -> None:
        """Stop everything that still works for this stream and record it. Later calls change nothing."""
        if self._recorded:
            return
        self._recorded = True
        self._listen()
        if outcome != "ok":
            self.cancelled.cancel()
        self._producer.cancel()
        if self._interpreter is not None:
            self._interpreter.close()
        for spoken in self._submitted:
            spoken.close()
        if self._admission is not None:
            self._admission.close(self.timeline.busy, self.timeline.audio_seconds, whole=outcome == "ok")
        metrics.record(self.timeline, self.labels, outcome, self._playback)

    # From text to submitted sentences.

    async def _produce(self) -> None:
        nothing: errors.ServiceError | None = None
        try:
            while (passage := await self._pieces.get()) is not None:
                if isinstance(passage, errors.ServiceError):
                    raise passage
                if self._admission is not None:
                    self._admission.charge(len(passage.text))
                try:
                    await self._interpret(passage)
                except errors.NothingToSpeakError as error:
                    nothing = error
            if self._count == 0:
                raise nothing or errors.NothingToSpeakError("The input holds nothing that can be spoken.")
            self._whole = self._count == 1 and not self._pauses
            self._planned.put_nowait(None)
        except Exception as error:
            self._planned.put_nowait(error)
        finally:
            self._looked_ahead.set()

    async def _interpret(self, passage: Passage) -> None:
        """Plan a passage, translated sentence by sentence if this stream is to be."""
        if self._interpreter is None:
            await self._plan(passage)
            return
        source = passage.source
        async with aclosing(self._interpreter.interpret(passage.text)) as found:
            async for each in found:
                if isinstance(each, Pause):
                    await self._room.acquire()
                    self._put(each)
                    continue
                sent = each.source if passage.source is None else source
                await self._plan(Passage(each.text, self._spoken_characters, sent))
                self._spoken_characters += len(each.text) + 1
                source = None

    async def _plan(self, passage: Passage) -> None:
        speaker = self.speaker
        segments: Iterator[Utterance | Pause] | None = None

        def step() -> Utterance | Pause | None:
            nonlocal segments
            with self.timeline.measure(Stage.G2P), as_service_errors():
                if segments is None:
                    model = speaker.synthesizer
                    segments = iter(
                        speaker.planner.segments(passage.text, symbols=model.symbols, max_phonemes=model.max_phonemes)
                    )
                return next(segments, None)

        while True:
            await self._room.acquire()
            try:
                segment = await self._g2p.run(step)
            except errors.NothingToSpeakError:
                # The passages after this one need its place.
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
                self._put(self._submit(segment, passage))
                passage = replace(passage, source=None)
                # The model's thread goes first: what is planned from here on is not waited for, and both need Python.
                await asyncio.sleep(GIVE_WAY)

    def _put(self, planned: _Sentence | Pause) -> None:
        self._pauses = self._pauses or isinstance(planned, Pause)
        self._count += 1
        if self._count > 1:
            self._looked_ahead.set()
        self._planned.put_nowait(planned)

    def _submit(self, utterance: Utterance, passage: Passage) -> _Sentence:
        speaker = self.speaker
        priority, self._priority = self._priority, Priority.LATER
        request = speaker.request(utterance, first=priority is Priority.FIRST)
        with as_service_errors():
            spoken = self._worker.submit(speaker.model, request, self.timeline, self.cancelled, priority)
        self._submitted.add(spoken)
        return _Sentence(utterance, passage.offset, spoken, passage.source)

    # From computed chunks to chunks in place.

    async def _consume(self) -> AsyncIterator[SpokenChunk]:
        while (planned := await self._planned.get()) is not None:
            if isinstance(planned, BaseException):
                raise planned
            if isinstance(planned, Pause):
                if self._marking is not None:
                    self._marking.reset()
                self._speaking = False
                for pcm in self._silence(planned.seconds):
                    yield self._place(pcm, "", 0, 0, ())
            else:
                async for chunk in self._speak(planned):
                    yield chunk
            self._room.release()

    async def _speak(self, sentence: _Sentence) -> AsyncIterator[SpokenChunk]:
        utterance, offset, source = sentence.utterance, sentence.offset, sentence.source
        begin = self._position / self._rate
        trimmer = Trimmer(self._rate, LEAD_BETWEEN if self._speaking else LEAD)
        self._speaking = True
        ends: list[float] = []
        spoken_words = 0
        sent = 0
        with as_service_errors():
            async for chunk in sentence.spoken:
                ends.extend(chunk.phoneme_ends)
                pcm = trimmer.push(chunk.pcm, last=chunk.last)
                if not (pcm.size or chunk.last):
                    continue
                sent += pcm.size
                cut, most = trimmer.cut / self._rate, sent / self._rate if chunk.last else math.inf
                words = []
                while spoken_words < len(utterance.words) and utterance.words[spoken_words].phoneme_end <= len(ends):
                    span = utterance.words[spoken_words]
                    spoken_words += 1
                    start = ends[span.phoneme_start - 1] if span.phoneme_start else 0.0
                    end = ends[span.phoneme_end - 1] if span.phoneme_end else start
                    start, end = (min(max(0.0, each - cut), most) for each in (start, end))
                    words.append(
                        Word(span.text, begin + start, begin + end, offset + span.char_start, offset + span.char_end)
                    )
                if chunk.last:
                    self._submitted.discard(sentence.spoken)
                placed = self._place(
                    await self._mark(pcm),
                    utterance.text,
                    offset + utterance.char_start,
                    offset + utterance.char_end,
                    tuple(words),
                )
                yield replace(placed, source=source, last=chunk.last)
                source = None
        self._submitted.discard(sentence.spoken)

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

    @property
    def _rate(self) -> int:
        return self.speaker.synthesizer.sample_rate


def _first_audible(pcm: Pcm) -> int | None:
    """Which sample is the first that can be heard; speech begins early, so the rest is not looked at."""
    for start in range(0, pcm.size, AUDIBLE_PIECE):
        loud = np.flatnonzero(np.abs(pcm[start : start + AUDIBLE_PIECE]) > AUDIBLE)
        if loud.size:
            return start + int(loud[0])
    return None


@contextmanager
def as_service_errors() -> Iterator[None]:
    """Say what text and models refuse in the service's own errors."""
    try:
        yield
    except NothingToSpeakError as error:
        raise errors.NothingToSpeakError(str(error)) from error
    except MarkupError as error:
        raise errors.MarkupError(str(error)) from error
    except UnsupportedLanguageError as error:
        raise errors.UnsupportedLanguageError(str(error)) from error
    except PhonemizerUnavailableError as error:
        raise errors.UnavailableError(str(error)) from error
    except TextError as error:
        raise errors.InvalidRequestError(str(error), param="input") from error
    except ModelUnknownVoiceError as error:
        raise errors.UnknownVoiceError(str(error)) from error
    except InputTooLongError as error:
        raise errors.TextTooLongError(str(error)) from error
    except ModelRequestError as error:
        raise errors.InvalidRequestError(str(error)) from error
