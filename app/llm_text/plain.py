"""Sources of speakable text: their interface, and the one for plain text, which cuts sentences and cleans nothing."""

from __future__ import annotations

from typing import Protocol

from app.llm_text.live import Speakable
from app.text.sentence_buffer import SentenceBuffer


class TextSource(Protocol):
    """Turns fragments into text that may be spoken. Times are in seconds of the caller's clock."""

    @property
    def pending(self) -> str:
        """Text that waits for its boundary."""
        ...

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        """Add a fragment, cut anywhere. Return the text that may be spoken."""
        ...

    def tick(self, now: float) -> list[Speakable]:
        """Return the text that may be spoken at `now`. Call at `next_deadline`."""
        ...

    def next_deadline(self) -> float | None:
        """Return the time of the next call of `tick` if nothing is fed before, or None."""
        ...

    def queued(self, seconds: float, now: float) -> None:
        """Note that `seconds` of audio are queued at `now`."""
        ...

    def flush(self, now: float) -> list[Speakable]:
        """End the text and return the rest of it. A later fragment begins another text."""
        ...


class PlainText:
    """A `SentenceBuffer` as a TextSource: no cleaning, no timer, no clause cuts."""

    def __init__(self, language: str) -> None:
        self._buffer = SentenceBuffer(language)
        self._position = 0

    @property
    def pending(self) -> str:
        """Text of the sentence that is not complete."""
        return self._buffer.held

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        """Return the sentences that `fragment` completes."""
        return self._speakable(self._buffer.feed(fragment))

    def tick(self, now: float) -> list[Speakable]:
        """Return nothing: only text ends a sentence."""
        return []

    def next_deadline(self) -> None:
        """Return None: no call of `tick` is needed."""

    def queued(self, seconds: float, now: float) -> None:
        """Ignore the queue."""

    def flush(self, now: float) -> list[Speakable]:
        """Return the text that is held, complete or not."""
        pieces = self._speakable(self._buffer.flush())
        self._position = 0
        return pieces

    def _speakable(self, sentences: list[str]) -> list[Speakable]:
        pieces = []
        for text in sentences:
            start, self._position = self._position, self._position + len(text)
            pieces.append(Speakable(text, text, start, self._position, 0.0, "sentence", (text,)))
        return pieces
