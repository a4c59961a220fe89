"""Live translation for a stream that speaks: text in one language in, sentences in another out, one by one.

The beginning of a sentence that is still being written is translated ahead of time (`speculate`). Its tokens serve as
a draft of the whole sentence: the model verifies them in one pass and goes on at the first wrong one. So the draft
never changes the translation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace

from app import errors
from app.engine.jobs import CancelToken, Priority, TranslationJob
from app.engine.worker import ModelWorker
from app.observability import metrics
from app.text import marks
from app.text.types import Pause
from app.translation.plan import Plan, TranslationOptions, request_for
from app.translation.service import AUTO, TranslationService
from app.translation.stream import TranslationStream
from models.contract import ModelRequestError
from models.timeline import Timeline

# Words that a partial sentence must gain before it is translated ahead of time (again).
MIN_WORDS = 3


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A sentence and its translation, both as the client sees them. Not `translated`: it needed none."""

    source: str
    text: str
    translated: bool = True


@dataclass(frozen=True, slots=True)
class _Draft:
    source: str
    tokens: tuple[int, ...]


class Interpreter:
    """Translator of the texts of one stream, in turn. `close` it in the end.

    A source language that is not given is detected on the first text.
    """

    def __init__(
        self,
        service: TranslationService,
        options: TranslationOptions,
        timeline: Timeline,
        labels: metrics.Labels,
        priority: Priority = Priority.FIRST_AUDIO,
    ) -> None:
        """Make a translator of a stream.

        Args:
            service: the parts of the server that it uses.
            options: languages and model.
            timeline: record of the stream's time.
            labels: labels of its metrics.
            priority: that of the first sentence of each text.
        """
        self.cancelled = CancelToken()
        self.timeline = timeline
        self._service = service
        self._worker: ModelWorker = service.worker
        self._options = options
        self._given = self.source is not None
        self._labels = labels
        self._priority = priority
        self._draft: _Draft | None = None
        self._speculated = ""
        self._speculating: asyncio.Task[None] | None = None

    @property
    def source(self) -> str | None:
        """Language of the text, FLORES-200 or as the client named it; None until it is known."""
        named = self._options.source
        return None if named is None or named.strip().lower() == AUTO else named

    @source.setter
    def source(self, language: str | None) -> None:
        if language != self._options.source:
            self._options = replace(self._options, source=language)
            self._draft = None

    async def interpret(
        self, text: str, *, marked: bool = True, named: str | None = None
    ) -> AsyncGenerator[Interpreted | Pause, None]:
        """Yield the sentences of `text`, each as soon as it is translated. Explicit pauses stay in their places.

        A text that is not `marked` has no marks: its brackets are text. `named` is the language that a document gives
        for the text. It counts where the options name none and the model translates from it.
        Raises ServiceError as TranslationService.prepare does, and for text that the model refuses.
        """
        task, self._speculated = self._speculating, ""
        if task is not None:  # the model thread is for a whole sentence now
            task.cancel()
            await asyncio.wait({task})
        language = await self._translatable(named)
        for stretch, seconds in _stretches(text) if marked else [(text, 0.0)]:
            async for interpreted in self._translate(stretch, language):
                yield interpreted
            if seconds:
                yield Pause(seconds)

    async def _translatable(self, named: str | None) -> str | None:
        if named is None or self._given:
            return None
        route = await self._service.route(self._options.model, self._options.target)
        with suppress(errors.UnsupportedLanguageError):
            return self._service.language(named, route.translator, "source")
        return None

    async def _translate(self, text: str, language: str | None) -> AsyncGenerator[Interpreted | Pause, None]:
        if not any(map(str.isalnum, text)):
            return
        options = self._options if language is None else replace(self._options, source=language)
        plan = await self._service.prepare([text], options, self.timeline)
        planned = plan.texts[0]
        if options.source is None and planned.language is not None:
            self._options = replace(self._options, source=planned.language)
        if planned.document is None:
            yield Interpreted(text, text, translated=False)  # in the right language already
            return
        if self._draft is not None and text.lstrip().startswith(self._draft.source):
            plan = replace(plan, draft=self._draft.tokens)
        self._draft = None
        stream = TranslationStream(
            self._service,
            plan,
            self.timeline,
            self._labels,
            in_order=True,
            cancelled=self.cancelled,
            priority=self._priority,
        )
        outcome: metrics.Outcome = "cancelled"
        position = 0
        try:
            async for sentence in stream:
                start = text.find(sentence.source, position)
                if start >= 0:
                    if position and "\n\n" in text[position:start].replace(" ", ""):
                        yield Pause(None)
                    position = start + len(sentence.source)
                yield Interpreted(sentence.source, sentence.translation.text)
            outcome = "ok"
        finally:
            stream.close(outcome, whole=False)

    # Ahead of time.

    def speculate(self, partial: str) -> None:
        """Translate the beginning of a sentence, unless that is being done or would not help. Returns at once."""
        partial = partial.strip()
        gained = len(partial.split()) - len(self._speculated.split())
        if self.source is None or self._options.beams > 1 or self._options.glossary or gained < MIN_WORDS:
            return
        if self._speculating is not None or self._worker.depth()[Priority.FIRST_AUDIO]:
            return
        self._speculated = partial
        self._speculating = asyncio.create_task(self._translate_ahead(partial))

    async def _translate_ahead(self, partial: str) -> None:
        try:
            plan = await self._service.prepare([partial], self._options, self.timeline)
            await self._fetch_draft(plan, partial)
        except (errors.ServiceError, ModelRequestError):
            pass  # an error of the text is reported once it is whole
        finally:
            self._speculating = None

    async def _fetch_draft(self, plan: Plan, partial: str) -> None:
        planned = plan.texts[0]
        if planned.document is None or planned.language is None or len(planned.document.segments) != 1:
            return
        request = request_for(plan, planned.document.segments[0].text, planned.language)
        if self._draft is not None and partial.startswith(self._draft.source):
            request = replace(request, draft=self._draft.tokens)
        # Its own record of time: nobody waits for these seconds.
        route = plan.route
        job = TranslationJob(
            route.model, route.translator, [request], Timeline(), self.cancelled, Priority.CONTINUATION
        )
        running = self._worker.submit(job)
        try:
            async for translation in running:
                self._draft = _Draft(partial, translation.best.tokens)
        finally:
            running.close()

    def close(self) -> None:
        """Stop everything."""
        self.cancelled.cancel()
        if self._speculating is not None:
            self._speculating.cancel()


def _stretches(text: str) -> list[tuple[str, float]]:
    """Return the texts between explicit pauses, each with the seconds of the pause after it (0: none).

    A word replaces its pronunciation, which belongs to another language. Raises errors.MarkupError.
    """
    found = marks.parse(text, english=False)
    stretches: list[tuple[str, float]] = []
    stretch, position = "", 0
    for mark in found:
        stretch += text[position : mark.start]
        position = mark.end
        if isinstance(mark, marks.PauseMark):
            stretches.append((stretch, mark.seconds))
            stretch = ""
        else:
            stretch += text[mark.word_start : mark.word_end]
    return [*stretches, (stretch + text[position:], 0.0)]
