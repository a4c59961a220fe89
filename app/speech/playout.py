"""From computed chunks to one stream of audio: sentences in order, pauses between them, one sample rate."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np

from app.audio.pcm import LEAD, Trimmer, amplify, silence
from app.audio.resample import Resampler
from app.config import PauseKind
from app.engine.admission import key_name
from app.engine.service_errors import service_error
from app.speech.options import PreparedSpeech
from app.speech.planner import SentencePlanner
from app.speech.sentence import MarkTime, SpokenChunk, SubmittedSentence, Word
from app.speech.service import SpeechService
from app.speech.verifier import ATTEMPTS, Heard, Verifier
from app.text.types import Bookmark, Pause
from models.contract import AudioChunk, ModelRequestError, Pcm
from models.timeline import Stage, Timeline


class Playout:
    """Audio of a stream, each piece in its place. `silence`: seconds of pauses so far."""

    def __init__(
        self,
        service: SpeechService,
        speech: PreparedSpeech,
        planner: SentencePlanner,
        timeline: Timeline,
        verifier: Verifier | None,
    ) -> None:
        """Play nothing yet. The stream has the sample rate of `speech`. Without a `verifier` nothing is verified."""
        self._planner, self._timeline, self._verifier = planner, timeline, verifier
        self._leveller = service.leveller
        self._rate = speech.synthesizer.sample_rate
        self._marking = None if speech.marker is None else service.watermark.mark(speech.marker, self._rate)
        self._pause_seconds: dict[PauseKind, float] = {**service.settings.pauses, **speech.options.pauses}
        self._position = 0
        self._after_speech = False  # no pause since the last sentence
        self._tail = 0.0  # seconds of silence at the end of the last sentence
        self._speed = 1.0  # of the last sentence
        self.silence = 0.0

    async def __aiter__(self) -> AsyncIterator[SpokenChunk]:
        """Yield the audio of what the planner planned. Raises ServiceError."""
        marks: tuple[MarkTime, ...] = ()
        try:
            while (planned := await self._planner.get()) is not None:
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
                self._planner.played()
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
        if self._leveller is not None:
            voice = sentence.speech.model, sentence.speech.voice
            results = self._leveller.level(results, key_name(), voice, sentence.rate)
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
                self._planner.finished(sentence)
            pcm = amplify(pcm, sentence.gain)
            if self._marking is not None:
                with self._timeline.measure(Stage.WATERMARK):
                    pcm = await self._marking.push(pcm)
            placed = self._place(pcm, sentence.text, sentence.char_start, sentence.char_end, words)
            yield replace(placed, source=source, last=chunk.last, marks=marks)
            source = None
        self._tail, self._speed = trimmer.tail / self._rate, sentence.speech.speed
        self._planner.finished(sentence)

    def _due(self, kind: PauseKind) -> float:
        """Return the seconds of silence that are missing before the next sentence or paragraph, at least LEAD.

        The one between paragraphs is never shorter than that between sentences. Faster speech pauses less.
        """
        seconds = max(self._pause_seconds["sentence"], self._pause_seconds[kind])
        return max(LEAD, seconds / self._speed - self._tail)

    def _allowed(self, seconds: float) -> float:
        """Return how much of a silence the text may still have, and count it."""
        seconds = min(seconds, self._planner.max_silence - self.silence)
        self.silence += seconds
        return seconds

    async def _best(self, sentence: SubmittedSentence, verifier: Verifier) -> AsyncIterator[AudioChunk]:
        """Yield the audio of a sentence once it is heard as it is written, or the best of ATTEMPTS, each of a seed."""
        best: tuple[Heard, list[AudioChunk]] | None = None
        for attempt in range(1, ATTEMPTS + 1):
            chunks = [chunk async for chunk in sentence.results]
            self._planner.finished(sentence)
            whole = np.concatenate([chunk.pcm for chunk in chunks])
            heard = await verifier.hear(sentence.expected, whole, sentence.rate, sentence.speech.model)
            if best is None or heard.better_than(best[0]):
                best = heard, chunks
            if heard.verdict != "failed" or attempt == ATTEMPTS:
                verifier.note(best[0], attempt)
                break
            again = replace(sentence.request, seed=sentence.request.seed + attempt)
            sentence.results = self._planner.submit(sentence.speech, again)
        for chunk in best[1] if best is not None else ():
            yield chunk

    def _place(self, pcm: Pcm, text: str, char_start: int, char_end: int, words: tuple[Word, ...]) -> SpokenChunk:
        start = self._position / self._rate
        self._position += pcm.size
        return SpokenChunk(pcm, start, pcm.size / self._rate, text, char_start, char_end, words)
