"""Verification of a stream: each sentence is heard by a recognizer, and said again if it went wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from app.engine.jobs import CancelToken
from app.errors import ServiceError
from app.observability import metrics
from app.speech.verification import Comparison, compare, likely, spoken_text, spoken_words
from app.text.planner import Phonemizer
from app.threads import REQUESTS
from models.contract import ModelError, Pcm

log = logging.getLogger(__name__)

Mode = Literal["off", "report", "retry"]
Verdict = Literal["passed", "failed", "unheard"]
Judge = Callable[[str, str], Awaitable[bool]]
"""Second opinion on a sentence that failed: whether what was to be spoken and what was heard say the same."""
ATTEMPTS: Final = 3
"""Most times that a sentence is spoken."""
AHEAD: Final = 8
"""Sentences whose audio is kept until it is heard."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Result for one sentence: the words that were heard, and how they differ; None: it could not be heard.

    `score` is the log-probability of what was to be spoken, less that of what was heard; None: not told. `excused`: the
    second judge found no difference.
    """

    text: str = ""
    comparison: Comparison | None = None
    score: float | None = None
    excused: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether the sentence was spoken as it was written."""
        if self.comparison is None:
            return "unheard"
        passed = self.excused or self.comparison.passed or likely(self.score, self.comparison.words)
        return "passed" if passed else "failed"

    def better_than(self, other: Heard) -> bool:
        """Whether it passed and the other did not, or fewer words are wrong in a row, or as many, and fewer in all."""
        if self.comparison is None or other.comparison is None:
            return other.comparison is None and self.comparison is not None
        one, two = self.comparison, other.comparison
        failed = self.verdict == "failed", other.verdict == "failed"
        return (failed[0], one.longest, one.errors) < (failed[1], two.longest, two.errors)


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Result for a stream. `attempts`: times that sentences were spoken; `model` heard them."""

    verdict: Verdict
    words: int
    errors: int
    attempts: int
    model: str
    heard: str

    def headers(self) -> Mapping[str, str]:
        """Return the headers of an answer. They tell no text."""
        return {
            "x-verification": self.verdict,
            "x-words": str(self.words),
            "x-word-errors": str(self.errors),
            "x-attempts": str(self.attempts),
            "x-verified-by": self.model,
        }

    def fields(self) -> dict[str, str | int]:
        """Return the fields of an event."""
        return {
            "verdict": self.verdict, "words": self.words, "word_errors": self.errors, "attempts": self.attempts,
            "verified_by": self.model, "heard": self.heard,
        }  # fmt: skip


class Listener(Protocol):
    """Recognizer of the stream's language."""

    @property
    def model(self) -> str:
        """Name of the model that recognizes."""
        ...

    @property
    def judges(self) -> Callable[[str], bool]:
        """Whether it knows the voices of a model, so that wrong words are a fault of the voice."""
        ...

    async def hear(self, pcm: Pcm, rate: int, expected: str, cancelled: CancelToken) -> tuple[str, float | None]:
        """Return the words of float32 [samples] at `rate` Hz, and the score of `expected`, which was to be spoken.

        The score is the log-probability of `expected`, less that of what was heard; None: not told.
        Raises ServiceError and ModelError.
        """
        ...


class Verifier:
    """Judge of one stream. Sentences are heard one after the other, beside their delivery."""

    def __init__(
        self, listener: Listener | None, phonemizer: Phonemizer | None, *, retries: bool, judge: Judge | None = None
    ) -> None:
        """Take the recognizer and the front end of the language; without either nothing is heard.

        Args:
            listener: The recognizer.
            phonemizer: The front end.
            retries: Sentences that went wrong are spoken again, with another seed.
            judge: Is asked about sentences that the comparison of words lets fail.
        """
        self.retries = retries and listener is not None and phonemizer is not None
        self.cancelled = CancelToken()
        self._listener, self._phonemizer, self._judge = listener, phonemizer, judge
        self._sentences: list[asyncio.Task[Heard]] = []
        self._found: list[Heard] = []
        self._spoken = 0
        self._by = "none"

    async def hear(self, text: str, pcm: Pcm, rate: int, model: str) -> Heard:
        """Return what is heard of the audio of a sentence, which is a float32 [samples] that `model` spoke at `rate`.

        Failures of the recognizer leave it unheard, and so does a voice that the recognizer does not know.
        """
        if self._listener is None or self._phonemizer is None or not self._listener.judges(model):
            return Heard()
        phonemizer, self._by = self._phonemizer, self._listener.model
        try:
            expected = await REQUESTS.run(spoken_text, text, phonemizer)
            heard, score = await self._listener.hear(pcm, rate, expected, self.cancelled)
            sides = await REQUESTS.run(lambda: [spoken_words(each, phonemizer) for each in (text, heard)])
        except (ServiceError, ModelError) as error:
            log.warning("a sentence could not be verified: %s", error)
            return Heard()
        result = Heard(heard, await REQUESTS.run(compare, *sides), score)
        if self._judge is not None and heard and result.verdict == "failed":
            result = replace(result, excused=await self._judge(text, heard))
        return result

    async def follow(self, text: str, pcm: Pcm, rate: int, model: str) -> None:
        """Hear a sentence that was spoken once, beside what follows it; at most AHEAD sentences wait for that."""
        before = self._sentences[-1] if self._sentences else None
        if len(self._sentences) >= AHEAD:
            await asyncio.wait({self._sentences[-AHEAD]})

        async def in_turn() -> Heard:
            if before is not None:
                await before
            return await self.hear(text, pcm, rate, model)

        self._spoken += 1
        self._sentences.append(asyncio.create_task(in_turn()))

    def note(self, heard: Heard, attempts: int) -> None:
        """Keep the result of a sentence that was spoken `attempts` times."""
        self._spoken += attempts
        self._found.append(heard)

    async def report(self, model: str) -> VerificationReport:
        """Wait until all was heard, and count it for the model that spoke."""
        result = [*self._found, *[await each for each in self._sentences]]
        verdicts = {each.verdict for each in result}
        verdict: Verdict = next((each for each in ("failed", "unheard") if each in verdicts), "passed")
        compared = [each.comparison for each in result if each.comparison is not None]
        for each in result:
            metrics.verified_sentences.labels(model, each.verdict).inc()
        metrics.verification_retries.labels(model).inc(self._spoken - len(result))
        return VerificationReport(
            verdict if result else "unheard",
            sum(each.words for each in compared),
            sum(each.errors for each in compared),
            self._spoken,
            self._by,
            " ".join(each.text for each in result if each.text),
        )

    def close(self) -> None:
        """Stop what still listens."""
        self.cancelled.cancel()
        for task in self._sentences:
            task.cancel()
