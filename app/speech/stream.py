"""One stream of speech: text in, audio in its place in time out.

A task plans the sentences (`SentencePlanner`) while the reader plays them (`Playout`). The stream has the record of
both: metrics, admission, its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Literal

from app import errors
from app.audio.pcm import first_audible
from app.engine.admission import StreamAdmission
from app.engine.jobs import CancelToken, Priority
from app.observability import metrics
from app.speech.options import PreparedSpeech
from app.speech.planner import SentencePlanner
from app.speech.playout import Playout
from app.speech.sentence import Origin, SpokenChunk
from app.speech.service import SpeechService
from app.speech.variants import Variants
from app.speech.verifier import VerificationReport, Verifier
from app.text.types import PLAIN, Script, Style
from app.translation.live import Interpreter
from models.timeline import Timeline


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
        """Open a stream of the checked options `speech`; call on the event loop.

        `labels.streaming` may be set later. `admitted`: its client pays for the text as it is spoken; None: the stream
        is admitted here, or ends with the error, and the client paid for its text as it was received. `verifier`: None:
        the sentences are not verified. `variants`: voices of the text that are prepared already. `priority`: that of
        the first sentence; BACKGROUND: nobody listens yet, and no time of a listener is recorded.
        """
        self.speech = speech
        self.timeline = timeline
        self.labels = labels
        self.cancelled = CancelToken()
        self._verifier = verifier
        self._rate = speech.synthesizer.sample_rate
        self._interpreter = None
        if speech.route is not None:
            translating = replace(labels, model=speech.route.model or "none")
            self._interpreter = Interpreter(service.translation, speech.route, timeline, translating, priority)
        self._variants = variants or Variants(service, speech)
        refusal: errors.ServiceError | None = None
        if admitted is None:
            try:
                admitted = service.admission.open(speech.model, None)
            except errors.OverloadedError as error:
                refusal = error
        self._admission = admitted
        self._planner = SentencePlanner(
            service,
            speech,
            timeline,
            self.cancelled,
            variants=self._variants,
            interpreter=self._interpreter,
            admission=admitted,
            priority=priority,
        )
        if refusal is not None:
            self.refuse(refusal)
        self._playout = Playout(service, speech, self._planner, timeline, verifier)
        self._playback = metrics.Playback()
        self._background = priority is Priority.BACKGROUND
        self._recorded = False
        self._unheard: SpokenChunk | None = None
        self._planning = asyncio.create_task(self._planner.run())
        self._chunks = aiter(self._playout)

    def feed(
        self,
        text: str,
        offset: int = 0,
        source: str | None = None,
        script: Script | None = None,
        style: Style = PLAIN,
    ) -> None:
        """Speak `text`, which may be blank only with a script. It begins at character `offset` of the client's text.

        `source`: the client's own text, where `text` was made of it. `script`: the manner in which markup has it
        spoken. `style`: the manner of a text without a script.
        """
        self._planner.feed(text, Origin(offset, source, script, style))

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
        self._planner.refuse(error)

    def finish(self) -> None:
        """End the text: no more follows."""
        self._planner.finish()

    @property
    def backlog(self) -> int:
        """Texts that were fed and are not planned yet: a sender without end waits while there are many."""
        return self._planner.backlog

    def __aiter__(self) -> AsyncIterator[SpokenChunk]:
        return self._chunks

    async def is_whole(self) -> bool:
        """Whether the first chunk, which was read, is all. Waits until the next sentence is known."""
        await self._planner.looked_ahead.wait()
        return self._planner.whole and not self._planner.unfinished

    @property
    def cached(self) -> Literal["hit", "miss"] | None:
        """Whether the first sentence was spoken before. None: the cache was not asked."""
        return self._planner.cached

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
        self._planning.cancel()
        if self._interpreter is not None:
            self._interpreter.close()
        for results in self._planner.unfinished:
            results.close()
        if self._verifier is not None:
            self._verifier.close()
        if self._admission is not None:
            spoken = max(0.0, self.timeline.audio_seconds - self._playout.silence)
            self._admission.close(self.timeline.busy, spoken, whole=outcome == "ok")
        if self._background:
            metrics.record_background(self.timeline, self.labels)
        else:
            metrics.record(self.timeline, self.labels, outcome, self._playback)
