"""Text that arrives in fragments and is spoken as it is, sentence by sentence: the simplest source of pieces."""

from __future__ import annotations

from typing import Protocol

from app.llm_text.live import Speakable
from app.text.sentence_buffer import SentenceBuffer


class TextSource(Protocol):
    """Fragments in, pieces out that may be spoken. Times are seconds of one clock of the caller's."""

    @property
    def pending(self) -> str:
        """Text that waits for its boundary."""
        ...

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        """A fragment arrived, cut anywhere."""
        ...

    def tick(self, now: float) -> list[Speakable]:
        """Time passed; call it at `next_deadline`."""
        ...

    def next_deadline(self) -> float | None:
        """When `tick` is to be called unless something is fed before; None: not at all."""
        ...

    def queued(self, seconds: float, now: float) -> None:
        """`seconds` of audio are queued at `now`."""
        ...

    def flush(self, now: float) -> list[Speakable]:
        """The text ends here; what is fed next is another one."""
        ...


class PlainText:
    """A `SentenceBuffer` as a TextSource: no cleaning, no timer, no clause cuts."""

    def __init__(self, language: str) -> None:
        self._buffer = SentenceBuffer(language)
        self._position = 0

    @property
    def pending(self) -> str:
        """The sentence under way."""
        return self._buffer.held

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        """The sentences that `fragment` completes."""
        return self._speakable(self._buffer.feed(fragment))

    def tick(self, now: float) -> list[Speakable]:
        """Nothing: only text ends a sentence."""
        return []

    def next_deadline(self) -> None:
        """Never."""

    def queued(self, seconds: float, now: float) -> None:
        """Makes no difference."""

    def flush(self, now: float) -> list[Speakable]:
        """What is held, complete or not."""
        pieces = self._speakable(self._buffer.flush())
        self._position = 0
        return pieces

    def _speakable(self, sentences: list[str]) -> list[Speakable]:
        pieces = []
        for text in sentences:
            start, self._position = self._position, self._position + len(text)
            pieces.append(Speakable(text, text, start, self._position, 0.0, "sentence", (text,)))
        return pieces
