"""Sentences out of recognized speech, with their places in the audio."""

from __future__ import annotations

from typing import Final

from app.llm_text.policy import BoundaryOptions, BoundaryPolicy
from app.llm_text.sources import Speakable
from app.recognition.events import LiveEvent, LiveHypothesis, SpeechStarted, SpeechStopped, UtteranceFailed
from models.contract import RecognizedWord

# Without the rules of a text that is read aloud at once: each sentence is translated by itself.
_OPTIONS: Final = BoundaryOptions(first_clause=False)
_CLAUSES: Final = BoundaryOptions(first_clause=True)

Piece = tuple[Speakable, float, float]


class SentenceCutter:
    """Cuts sentences out of the text that recognition is sure of. Times are in seconds of the caller's clock.

    `source` and `target` are FLORES-200 codes; `source` None is taken for English. With `clauses` the first clause of a
    long sentence is a sentence of its own.
    """

    def __init__(self, source: str | None, target: str, *, clauses: bool) -> None:
        self.item = 0
        self._policy = BoundaryPolicy(source or "en", target, _CLAUSES if clauses else _OPTIONS)
        self._pending = ""
        # Text of the utterance that the policy has, the letters of it that were cut out, and where the next is spoken.
        self._fed = ""
        self._letters = 0
        self._position = 0.0
        # Place of the utterance in the audio so far, the letters heard in it, and its words if they are timed.
        self._start = self._end = 0.0
        self._heard = 0
        self._words: tuple[RecognizedWord, ...] = ()

    @property
    def expected(self) -> str:
        """Text of the sentence that is being spoken, as far as it is heard, sure or not."""
        return self._policy.pending + self._pending

    def take(self, event: LiveEvent, now: float) -> list[Piece]:
        """Read an event. Return the sentences that it completes, each with its start and end in the audio."""
        if isinstance(event, SpeechStarted | SpeechStopped):
            return []
        pieces = [] if event.item == self.item else self._next_item(event.item, event.start, now)
        self._start, self._end = event.start, event.end
        self._position = max(self._position, event.start)
        if isinstance(event, LiveHypothesis):
            self._words, self._pending = event.words, event.pending
            self._heard = _letters(event.committed + event.pending)
            return pieces + self._feed(event.committed, now)
        if not isinstance(event, UtteranceFailed):
            self._words = tuple(word for segment in event.segments for word in segment.words)
            self._heard = _letters(event.text)
            pieces += self._feed(event.text, now)
        return pieces + self._next_item(event.item + 1, event.end, now)

    def tick(self, now: float) -> list[Piece]:
        """Return the sentences that are complete at `now`, because nothing followed them."""
        return self._placed(self._policy.tick(now))

    def next_deadline(self) -> float | None:
        """Return the time at which `tick` is due unless an event comes first; None: it is not due."""
        return self._policy.next_deadline()

    def _feed(self, text: str, now: float) -> list[Piece]:
        more, self._fed = text[len(self._fed) :], max(self._fed, text, key=len)
        return self._placed(self._policy.feed(more, now)) if more else []

    def _next_item(self, item: int, start: float, now: float) -> list[Piece]:
        """End the utterance: all of its text is sentences now."""
        pieces = self._placed(self._policy.flush(now))
        self.item, self._fed, self._pending, self._words = item, "", "", ()
        self._letters = self._heard = 0
        self._position = self._start = self._end = start
        return pieces

    def _placed(self, found: list[Speakable]) -> list[Piece]:
        pieces = []
        for piece in found:
            self._letters += _letters(piece.text)
            if piece.text.strip():
                end = max(self._position, self._spoken_until(self._letters))
                pieces.append((piece, self._position, end))
                self._position = end
        return pieces

    def _spoken_until(self, letters: int) -> float:
        """Return where so many letters of the utterance end in the audio: as its words say, or in proportion."""
        said = 0
        for word in self._words:
            said += _letters(word.text)
            if said >= letters:
                return word.end
        return self._start + (self._end - self._start) * min(1.0, letters / max(1, self._heard))


def _letters(text: str) -> int:
    return sum(not letter.isspace() for letter in text)
