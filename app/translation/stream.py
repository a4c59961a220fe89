"""A stream of translated sentences: batches to the model thread, and what comes back put in its places."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace

from app.engine.scheduler import CancelToken, Priority, Translations
from app.engine.worker import ModelWorker
from app.observability import metrics
from app.text.executor import RoundRobinThread, Steps
from app.translation.plan import Alternative, Plan, TranslatedSentence, TranslatedText, as_service_errors, request_for
from app.translation.text import codes
from app.translation.text.glossary import Glossary, Protected
from app.translation.text.segment import Segment
from models.contract import Hypothesis, Translation
from models.timeline import Timeline

# Sentences that are placed in less time than the way to a thread and back takes.
FEW = 100
# Seconds after which others on the event loop have their turn.
AT_A_TIME = 0.005


class _Phrase:
    """Words to be translated together, with terms and addresses as placeholders.

    When the model loses a placeholder, the text between them is translated by itself: then the terms are certain, and
    their order is the source's.
    """

    def __init__(self, language: str, protected: Protected) -> None:
        self.language = language
        self.sentences: list[_Sentence] = []
        self.best: Alternative | None = None
        self.alternatives: tuple[Alternative, ...] = ()
        self._protected = protected
        self._runs: list[str] | None = None
        self._found: dict[int, Translation] = {}

    def pieces(self) -> list[tuple[int, str]]:
        """What is to be translated now, numbered."""
        if self._runs is None:
            return [(0, self._protected.text)]
        return [(number, run.strip()) for number, run in enumerate(self._runs) if any(map(str.isalpha, run))]

    def take(self, number: int, translation: Translation) -> bool:
        """Note the translation of a piece; whether more pieces are needed now."""
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
        """Put the runs and the terms between them together, with the white space that was around each run."""
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


class _Sentence:
    """A segment of a text. Its markup travels as placeholders, too; when one is lost, its parts are translated."""

    def __init__(self, text_index: int, index: int, segment: Segment, whole: _Phrase) -> None:
        self.text_index, self.index, self.segment = text_index, index, segment
        self._whole = whole
        self._parts: list[_Phrase] | None = None
        # What Document.join takes.
        self.result: str | tuple[str, ...] | None = None
        self.score: float | None = None
        self.alternatives: tuple[Alternative, ...] = ()

    def missing(self) -> tuple[str, ...]:
        """Take what is known now; return the texts that have to be translated besides."""
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
        """Be made of `parts`."""
        self._parts = parts
        for phrase in parts:
            phrase.sentences.append(self)


@dataclass(slots=True)
class _Work:
    """What is still to be sent to the model, and every phrase there ever was, by language and text."""

    glossary: Glossary
    protected: Mapping[tuple[str, str], Protected]
    phrases: dict[tuple[str, str], _Phrase] = field(default_factory=dict)
    pieces: deque[tuple[_Phrase, int, str]] = field(default_factory=deque)

    def phrase(self, text: str, language: str) -> tuple[_Phrase, bool]:
        """The phrase for `text`, and whether it is new and has to be queued."""
        found = self.phrases.get((language, text))
        if found is not None:
            return found, False
        # The others are parts of the plan's sentences.
        protected = self.protected.get((language, text)) or self.glossary.protect(text)
        found = self.phrases[language, text] = _Phrase(language, protected)
        return found, True

    def last(self, phrase: _Phrase) -> None:
        """Have `phrase` translated after all others."""
        self.pieces.extend((phrase, number, piece) for number, piece in phrase.pieces())

    def first(self, *phrases: _Phrase) -> None:
        """Have `phrases` translated next: their sentence is waited for."""
        pieces = [(phrase, number, piece) for phrase in phrases for number, piece in phrase.pieces()]
        self.pieces.extendleft(reversed(pieces))


class TranslationStream:
    """Translated sentences in their order (`async for`, if `in_order`), then whole texts. `close` it in the end.

    One batch is with the model at a time: others have their turn between its steps, and two of one request would only
    slow each other down.
    """

    def __init__(
        self,
        worker: ModelWorker,
        thread: RoundRobinThread,
        plan: Plan,
        timeline: Timeline,
        labels: metrics.Labels,
        *,
        in_order: bool,
        cancelled: CancelToken | None = None,
    ) -> None:
        self.timeline = timeline
        self.labels = labels
        self.cancelled = CancelToken() if cancelled is None else cancelled
        self.volume = metrics.Volume(characters=sum(len(planned.text) for planned in plan.texts))
        self._worker = worker
        self._thread = thread
        self._plan = plan
        self._in_order = in_order
        self._work = _Work(plan.glossary, plan.protected)
        self._sentences: list[_Sentence] = []
        self._turn = time.perf_counter()
        self._spaced = codes.spaces_words(plan.route.target)
        self._batch: Translations | None = None
        self._recorded = False
        self._translated = self._run()

    def __aiter__(self) -> AsyncIterator[TranslatedSentence]:
        return self._translated

    async def texts(self) -> list[TranslatedText]:
        """Every text, translated. Translates what was not iterated over yet."""
        async for _ in self._translated:
            pass
        return await self._thread.run_steps(self._join())

    def close(self, outcome: metrics.Outcome, *, whole: bool = True) -> None:
        """Stop what still works for this stream and record it. Later calls change nothing.

        Not `whole`: it is a part of a request that is recorded elsewhere, and of which other parts may go on.
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
                phrase, new = self._work.phrase(segment.text, planned.language)
                if new:
                    self._work.last(phrase)
                sentence = _Sentence(text_index, index, segment, phrase)
                phrase.sentences.append(sentence)
                self._sentences.append(sentence)
        if not self._in_order:
            # Sentences of a length waste no padding.
            self._work.pieces = deque(sorted(self._work.pieces, key=lambda piece: -len(piece[2])))

    async def _give_way(self) -> None:
        """One phrase may stand for any number of sentences: let others have their turn meanwhile."""
        if time.perf_counter() - self._turn > AT_A_TIME:
            await asyncio.sleep(0)
            self._turn = time.perf_counter()

    async def _run(self) -> AsyncIterator[TranslatedSentence]:
        if sum(len(planned.document.segments) for planned in self._plan.texts if planned.document) <= FEW:
            for _ in self._place():
                pass
        else:
            await self._thread.run_steps(self._place())
        route = self._plan.route
        # The first sentence alone is there soonest; after it there is something to read.
        size = 1 if self._in_order else route.translator.max_batch
        priority = Priority.FIRST
        position = 0
        while self._work.pieces:
            pieces = [self._work.pieces.popleft() for _ in range(min(size, len(self._work.pieces)))]
            requests = [request_for(self._plan, text, phrase.language) for phrase, _, text in pieces]
            if position == 0 and self._plan.draft and self._in_order:
                requests[0] = replace(requests[0], draft=self._plan.draft)
            with as_service_errors():
                self._batch = self._worker.submit_batch(route.model, requests, self.timeline, self.cancelled, priority)
                async for translation in self._batch:
                    phrase, number, _ = pieces[translation.index]
                    self._count(translation)
                    if phrase.take(number, translation):
                        self._work.first(phrase)
                    elif phrase.best is not None:
                        await self._advance(phrase)
                    while position < len(self._sentences) and self._sentences[position].result is not None:
                        self.volume.sentences += 1
                        if self._in_order:
                            yield self._finished(self._sentences[position])
                        position += 1
                        await self._give_way()
            size, priority = min(2 * size, route.translator.max_batch), Priority.LATER

    async def _advance(self, phrase: _Phrase) -> None:
        for sentence in tuple(phrase.sentences):
            await self._give_way()
            parts = [self._work.phrase(text, phrase.language) for text in sentence.missing()]
            if parts:
                self._work.first(*(part for part, new in parts if new))
                sentence.wait_for([part for part, _ in parts])
                # Parts may all be known from elsewhere.
                sentence.missing()

    def _count(self, translation: Translation) -> None:
        if self.volume.first is None:
            self.volume.first = time.perf_counter()
        self.volume.source_tokens += translation.source_tokens
        self.volume.target_tokens += len(translation.best.tokens)

    def _finished(self, sentence: _Sentence) -> TranslatedSentence:
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
        by_text: dict[int, list[_Sentence]] = {}
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


def _ranked(sentence: _Sentence, rank: int) -> tuple[str | tuple[str, ...], float | None]:
    """The alternative of that rank, or the best where the sentence has no such alternative."""
    if rank < len(sentence.alternatives):
        return sentence.alternatives[rank].text, sentence.alternatives[rank].score
    return sentence.result or "", sentence.score


def _alternative(text: str, hypothesis: Hypothesis) -> Alternative:
    return Alternative(text, None if math.isnan(hypothesis.score) else hypothesis.score)


def _mean(scores: list[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if len(known) == len(scores) else None
