"""Sources of speakable text: their interface, and the one for plain text, which cuts sentences and cleans nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from app.llm_text.hidden import HiddenParts
from app.text.sentence_buffer import SentenceBuffer
from app.text.types import Script

Reason = Literal["sentence", "silence", "clause", "forced", "merged", "flush"]


@dataclass(frozen=True, slots=True)
class Speakable:
    """Text that may be spoken, for characters [start, end) of the stream, which are `original`.

    The originals of one stream, joined, are the stream. `text` may be blank. `sentences` joined are the text, one by
    one for translation models. `waited` is the time in seconds from the arrival of the first visible character until
    the text may be spoken (Stage.BOUNDARY), and `reason` says why it may. With a `script`, which maps the text to the
    stream, `original` is empty, and a blank text may still have a pause or a bookmark.
    """

    text: str
    original: str
    start: int
    end: int
    waited: float
    reason: Reason
    sentences: tuple[str, ...]
    script: Script | None = None


class TextSource(Protocol):
    """Turns fragments into text that may be spoken. Times are in seconds of the caller's clock."""

    @property
    def pending(self) -> str:
        """Text that waits for its boundary. It may be translated ahead of time."""
        ...

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        """Add a fragment, cut anywhere. Return the text that may be spoken, in order."""
        ...

    def tick(self, now: float) -> list[Speakable]:
        """Return the text that may be spoken at `now`. Call at `next_deadline`; an early call changes nothing."""
        return []

    def next_deadline(self) -> float | None:
        """Return the time of the next call of `tick` if nothing is fed before, or None."""
        return None

    def queued(self, seconds: float, now: float) -> None:
        """Note that `seconds` of audio are queued at `now`. They drain in real time."""

    def flush(self, now: float) -> list[Speakable]:
        """End the text and return the rest of it. A later fragment begins another text."""
        ...

    def take_ignored(self) -> list[str]:
        """Return the parts of the markup that change nothing here, and were not returned before."""
        return []

    @property
    def covered(self) -> int:
        """Characters since the last flush that are known not to be spoken, such as those of a model's thoughts."""
        return 0


class PlainText(TextSource):
    """A `SentenceBuffer` as a TextSource: no timer, no clause cuts. `hides`: see `HiddenParts`."""

    def __init__(self, language: str, *, hides: bool = False) -> None:
        self._buffer = SentenceBuffer(language)
        self._hidden = HiddenParts() if hides else None
        self._position = 0

    @property
    def pending(self) -> str:
        return self._buffer.held

    @property
    def covered(self) -> int:
        return 0 if self._hidden is None else self._hidden.covered

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        shown = fragment if self._hidden is None else self._hidden.feed(fragment)
        return [self._speakable(sentence) for sentence in self._buffer.feed(shown)]

    def queued(self, seconds: float, now: float) -> None:
        """Ignore the queue."""

    def flush(self, now: float) -> list[Speakable]:
        shown = "" if self._hidden is None else self._hidden.flush()
        rest = [self._speakable(sentence) for sentence in [*self._buffer.feed(shown), *self._buffer.flush()]]
        self._position = 0
        return rest

    def _speakable(self, text: str) -> Speakable:
        start, self._position = self._position, self._position + len(text)
        return Speakable(text, text, start, self._position, 0.0, "sentence", (text,))
