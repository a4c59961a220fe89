"""Models that translate: requests, results, and their methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from models.contract.calls import IsCancelled, Progress
from models.timeline import Timeline


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One sentence to translate. `source` and `target` are FLORES-200 codes that the model lists.

    `beams` in [1, 8] hypotheses are kept; `alternatives` (below `beams`) further ones are returned. `draft` holds the
    tokens of an earlier translation of the sentence's beginning: they are verified in one pass, and never change the
    translation (greedy only).
    """

    text: str
    source: str
    target: str
    beams: int = 1
    alternatives: int = 0
    draft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation. `score` is its mean log-probability per token; NaN if it was not computed."""

    text: str
    score: float
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """Translation of request `index` of its batch: the best hypothesis, then the alternatives.

    `source_tokens` counts the tokens that the encoder read, `accepted` those of the draft that were right.
    """

    index: int
    best: Hypothesis
    alternatives: tuple[Hypothesis, ...] = ()
    source_tokens: int = 0
    accepted: int = 0


@runtime_checkable
class Translator(Protocol):
    """A loaded translation model."""

    @property
    def languages(self) -> Sequence[str]:
        """FLORES-200 codes of the languages that it translates between."""

    @property
    def max_batch(self) -> int:
        """Most requests in one call of `translate`."""

    def targets(self, source: str) -> Sequence[str]:
        """Return the languages to which it translates from `source`, without `source` itself."""

    def check(self, request: TranslationRequest) -> None:
        """Raise ModelRequestError for a request that it cannot serve. Safe on any thread; touches no array."""

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""

    def translate(
        self, batch: Sequence[TranslationRequest], timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Translation | None]:
        """Translate a batch at once, of any pairs of languages; yield each translation as soon as it is whole.

        Yields None every few steps, where the thread may turn to other work. Raises ModelRequestError before the first
        item, Cancelled between steps.
        """
