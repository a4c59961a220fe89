"""Stream of translated sentences: send batches to the model thread, and put the translations in their places."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace

from app.engine.jobs import CancelToken, Priority, Results, TranslationJob
from app.engine.service_errors import service_error
from app.observability import metrics
from app.text.executor import Steps
from app.translation.plan import Alternative, Plan, TranslatedSentence, TranslatedText, request_for
from app.translation.service import TranslationService
from app.translation.text import codes
from app.translation.text.glossary import Glossary, Protected
from app.translation.text.segment import SourceSentence
from models.contract import Hypothesis, ModelRequestError, Translation
from models.timeline import Timeline

# Sentences that are queued in less time than the way to a thread and back takes.
INLINE_SENTENCES = 100
# Seconds after which other tasks on the event loop have their turn.
LOOP_SLICE = 0.005


class _Phrase:
    """A text to translate as one, with terms and addresses as placeholders.

    If the model loses a placeholder, the texts between them (the runs) are translated one by one. Then the terms are
    certain, and their order is the source's.
    """

    def __init__(self, language: str, protected: Protected) -> None:
        self.language = language
        self.sentences: list[_SegmentState] = []
        self.best: Alternative | None = None
        self.alternatives: tuple[Alternative, ...] = ()
        self._protected = protected
        self._runs: list[str] | None = None
        self._found: dict[int, Translation] = {}

    def pieces(self) -> list[tuple[int, str]]:
        """Return the pieces to translate now, each with its number."""
        if self._runs is None:
            return [(0, self._protected.text)]
        return [(number, run.strip()) for number, run in enumerate(self._runs) if any(map(str.isalpha, run))]

    def take(self, number: int, translation: Translation) -> bool:
        """Note the translation of a piece; return whether more pieces are needed now."""
        self._found[number] = translation
        if self._runs is None:
            return self._take_whole(translation)
        pieces = self.pieces()
        if len(self._found) == len(pieces):
            self._join(self._runs)
        return False

    def _take_whole(self, translation: Translation) -> bool:
        restored = self._protected.restore(translation.best.text)
        if restored is None:
            self._runs = list(self._protected.runs())
            self._found.clear()
            if not self.pieces():
                self._join(self._runs)
                return False
            return True
        self.best = _alternative(restored, translation.best)
        self.alternatives = tuple(
            _alternative(text, other)
            for other in translation.alternatives
            if (text := self._protected.restore(other.text)) is not None
        )
        return False

    def _join(self, runs: list[str]) -> None:
        """Join the runs and the terms between them, with the white space that was around each run."""
        parts: list[str] = []
        for number, run in enumerate(runs):
            found = self._found.get(number)
            if number:
                parts.append(self._protected.targets[number - 1])
            if found is None:
                parts.append(run)
            else:
                inner = found.best.text.strip()
                parts.append(run[: len(run) - len(run.lstrip())] + inner + run[len(run.rstrip()) :])
        self.best = Alternative("".join(parts), None)


class _SegmentState:
    """Translation of one segment. Its markup is placeholders, too; if one is lost, its parts are translated."""

    __slots__ = ("_parts", "_whole", "alternatives", "index", "result", "score", "segment", "text_index")

    def __init__(self, text_index: int, index: int, segment: SourceSentence, whole: _Phrase) -> None:
        self.text_index, self.index, self.segment = text_index, index, segment
        self._whole = whole
        self._parts: list[_Phrase] | None = None
        # In the form that `Document.join` takes.
        self.result: str | tuple[str, ...] | None = None
        self.score: float | None = None
        self.alternatives: tuple[Alternative, ...] = ()

    def missing(self) -> tuple[str, ...]:
        """Take the translations that are known; return the texts that must be translated besides."""
        if self._parts is not None:
            done = [phrase.best for phrase in self._parts if phrase.best is not None]
            if len(done) == len(self._parts):
                self.result = tuple(each.text for each in done)
            return ()
        best = self._whole.best
        if best is None:
            return ()
        if self.segment.parts and not self.segment.keeps(best.text):
            return self.segment.parts
        self.result, self.score = best.text, best.score
        self.alternatives = tuple(
            other for other in self._whole.alternatives if not self.segment.parts or self.segment.keeps(other.text)
        )
        return ()

    def wait_for(self, parts: list[_Phrase]) -> None:
        """Make the result of the translations of `parts`."""
        self._parts = parts
        for phrase in parts:
            phrase.sentences.append(self)


@dataclass(slots=True)
class _Pending:
    """Pieces to send to the model, and all phrases of the request by language and text."""

    glossary: Glossary
    protected: Mapping[tuple[str, str], Protected]
    phrases: dict[tuple[str, str], _Phrase] = field(default_factory=dict)
    pieces: deque[tuple[_Phrase, int, str]] = field(default_factory=deque)

    def phrase(self, text: str, language: str) -> tuple[_Phrase, bool]:
        """Return the phrase for `text`, and whether it is new and must be queued."""
        result = self.phrases.get((language, text))
        if result is not None:
            return result, False
        # A text that the plan does not know is a part of one of its sentences.
        protected = self.protected.get((language, text)) or self.glossary.protect(text)
        result = self.phrases[language, text] = _Phrase(language, protected)
        return result, True

    def last(self, phrase: _Phrase) -> None:
        """Queue `phrase` after all others."""
        self.pieces.extend((phrase, number, piece) for number, piece in phrase.pieces())

    def first(self, *phrases: _Phrase) -> None:
        """Queue `phrases` before all others: their sentence is waited for."""
        pieces = [(phrase, number, piece) for phrase in phrases for number, piece in phrase.pieces()]
        self.pieces.extendleft(reversed(pieces))


class TranslationStream:
    """Translated sentences in their order (`async for`, if `in_order`), then whole texts. `close` it in the end.

    The model has one batch of a stream at a time: two of one request would only slow each other down.
    """

    def __init__(
        self,
        service: TranslationService,
        plan: Plan,
        timeline: Timeline,
        labels: metrics.Labels,
        *,
        in_order: bool = False,
        cancelled: CancelToken | None = None,
        priority: Priority = Priority.FIRST_AUDIO,
    ) -> None:
        """Open a stream; call on the event loop.

        Args:
            service: the parts of the server that the stream uses.
            plan: the checked request.
            timeline: record of the request's time.
            labels: labels of its metrics.
            in_order: sentences can be iterated over, and the first comes soon; otherwise the whole texts come soonest.
            cancelled: the token of the request that this stream is a part of, if it is one.
            priority: that of the first batch.
        """
        self.timeline = timeline
        self.labels = labels
        self.cancelled = CancelToken() if cancelled is None else cancelled
        self.volume = metrics.Volume(characters=sum(len(planned.text) for planned in plan.texts))
        self._worker = service.worker
        self._thread = service.thread
        self._turns = service.turns
        self._plan = plan
        self._in_order = in_order
        self._priority = priority
        self._pending = _Pending(plan.glossary, plan.protected)
        self._sentences: list[_SegmentState] = []
        self._turn = time.perf_counter()
        self._spaced = codes.spaces_words(plan.route.target)
        self._batch: Results[Translation] | None = None
        self._recorded = False
        self._translated = self._run()

    def __aiter__(self) -> AsyncIterator[TranslatedSentence]:
        return self._translated

    async def texts(self) -> list[TranslatedText]:
        """Return every text, translated. Translates the sentences that were not iterated over yet."""
        async for _ in self._translated:
            pass
        return await self._thread.run_steps(self._join())

    def close(self, outcome: metrics.Outcome, *, whole: bool = True) -> None:
        """Stop what still works for this stream and record it. Later calls change nothing.

        Not `whole`: the stream is a part of a request that is recorded elsewhere, and whose other parts may go on.
        """
        if self._recorded:
            return
        self._recorded = True
        if outcome != "ok" and whole:
            self.cancelled.cancel()
        if self._batch is not None:
            self._batch.close()
        if whole:
            metrics.record_translation(self.timeline, self.labels, outcome, self.volume)
        else:
            metrics.record_volume(self.timeline, self.labels, self.volume)

    def _place(self) -> Steps[None]:
        for text_index, planned in enumerate(self._plan.texts):
            if planned.document is None or planned.language is None:
                continue
            for index, segment in enumerate(planned.document.segments):
                yield
                phrase, new = self._pending.phrase(segment.text, planned.language)
                if new:
                    self._pending.last(phrase)
                sentence = _SegmentState(text_index, index, segment, phrase)
                phrase.sentences.append(sentence)
                self._sentences.append(sentence)
        if not self._in_order:
            # Sentences of equal length waste no padding.
            self._pending.pieces = deque(sorted(self._pending.pieces, key=lambda piece: -len(piece[2])))

    async def _yield_turn(self) -> None:
        """Let others have the event loop: one phrase may stand for any number of sentences, in many streams at once."""
        if time.perf_counter() - self._turn > LOOP_SLICE:
            await self._turns.pace()
            self._turn = time.perf_counter()

    async def _run(self) -> AsyncIterator[TranslatedSentence]:
        if sum(len(planned.document.segments) for planned in self._plan.texts if planned.document) <= INLINE_SENTENCES:
            for _ in self._place():
                pass
        else:
            await self._thread.run_steps(self._place())
        route = self._plan.route
        # Alone the first sentence comes soonest; then there is something to read.
        size = 1 if self._in_order else route.translator.max_batch
        priority = self._priority
        position = 0
        while self._pending.pieces:
            pieces = [self._pending.pieces.popleft() for _ in range(min(size, len(self._pending.pieces)))]
            requests = [request_for(self._plan, text, phrase.language) for phrase, _, text in pieces]
            if position == 0 and self._plan.draft and self._in_order:
                requests[0] = replace(requests[0], draft=self._plan.draft)
            job = TranslationJob(route.model, route.translator, requests, self.timeline, self.cancelled, priority)
            try:
                self._batch = self._worker.submit(job)
                self._turn = math.inf
                async for translation in self._batch:
                    self._turn = min(self._turn, time.perf_counter())
                    phrase, number, _ = pieces[translation.index]
                    self._count(translation)
                    if phrase.take(number, translation):
                        self._pending.first(phrase)
                    elif phrase.best is not None:
                        await self._advance(phrase)
                    while position < len(self._sentences) and self._sentences[position].result is not None:
                        self.volume.sentences += 1
                        if self._in_order:
                            yield self._finished(self._sentences[position])
                        position += 1
                        await self._yield_turn()
            except ModelRequestError as error:
                raise service_error(error, text_param="text") from error
            size, priority = min(2 * size, route.translator.max_batch), priority.after_first()

    async def _advance(self, phrase: _Phrase) -> None:
        for sentence in tuple(phrase.sentences):
            await self._yield_turn()
            parts = [self._pending.phrase(text, phrase.language) for text in sentence.missing()]
            if parts:
                self._pending.first(*(part for part, new in parts if new))
                sentence.wait_for([part for part, _ in parts])
                # All parts may be known already.
                sentence.missing()

    def _count(self, translation: Translation) -> None:
        if self.volume.first is None:
            self.volume.first = time.perf_counter()
        self.volume.source_tokens += translation.source_tokens
        self.volume.target_tokens += len(translation.best.tokens)

    def _finished(self, sentence: _SegmentState) -> TranslatedSentence:
        segment = sentence.segment

        def shown(translation: str | tuple[str, ...]) -> str:
            return segment.render(translation, spaced=self._spaced)

        return TranslatedSentence(
            sentence.text_index,
            sentence.index,
            shown(segment.text),
            Alternative(shown(sentence.result or ""), sentence.score),
            tuple(Alternative(shown(other.text), other.score) for other in sentence.alternatives),
            time.perf_counter() - self.timeline.started,
        )

    def _join(self) -> Steps[list[TranslatedText]]:
        by_text: dict[int, list[_SegmentState]] = {}
        for sentence in self._sentences:
            by_text.setdefault(sentence.text_index, []).append(sentence)
        texts = []
        for text_index, planned in enumerate(self._plan.texts):
            sentences = by_text.get(text_index, [])
            if planned.document is None or not sentences:
                texts.append(TranslatedText(planned.text, planned.language, planned.confidence, ()))
                continue
            target = self._plan.route.target
            yield
            best = yield from planned.document.joining([sentence.result or "" for sentence in sentences], target)
            others = []
            for rank in range(max(len(sentence.alternatives) for sentence in sentences)):
                chosen = [_ranked(sentence, rank) for sentence in sentences]
                joined = yield from planned.document.joining([text for text, _ in chosen], target)
                others.append(Alternative(joined, _mean([score for _, score in chosen])))
            texts.append(TranslatedText(best, planned.language, planned.confidence, tuple(others)))
        return texts


def _ranked(sentence: _SegmentState, rank: int) -> tuple[str | tuple[str, ...], float | None]:
    """Return the alternative of that rank, or the best translation if there is no such alternative."""
    if rank < len(sentence.alternatives):
        return sentence.alternatives[rank].text, sentence.alternatives[rank].score
    return sentence.result or "", sentence.score


def _alternative(text: str, hypothesis: Hypothesis) -> Alternative:
    return Alternative(text, None if math.isnan(hypothesis.score) else hypothesis.score)


def _mean(scores: list[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if len(known) == len(scores) else None
