"""Boundary policy: decides when text that is still being written may be spoken. It has no clock and no I/O."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final

from app.llm_text.clauses import TRIES, WITHOUT_STOPS, ClauseCutter, in_link, is_open
from app.llm_text.sources import Reason, Speakable, TextSource
from app.text.languages import primary_language
from app.text.sentence_buffer import SentenceBuffer
from app.text.sentence_splitter import MAX_SENTENCE_CHARACTERS

# A number that may go on after its stop or comma: "3.", or a list item's number at the start of a line.
_UNFINISHED_NUMBER: Final = re.compile(r"\d[.,]$")
_STOPS: Final = frozenset(".!?。！？｡…։።፧፨។៕།༎།॥۔؟᱾᱿꯫;")
_CLOSERS: Final = "\"'”’»)]」』）*_"
# Characters after which a space ends a sentence in scripts that have no stops.
_SPACE_ENDS: Final = 80


@dataclass(frozen=True, slots=True)
class BoundaryOptions:
    """Limits of a `BoundaryPolicy`."""

    first_clause: bool = True
    """True if the first chunk after the start or a flush may be a clause."""
    silence: float = 0.12
    """Seconds without a fragment after which text that looks complete is committed."""
    clause_words: int = 6
    clause_characters: int = 25
    """Least length of a first clause: either is enough."""
    forced_words: int = 15
    """Words after which a first clause is cut at a space."""
    merge_seconds: float = 3.0
    """Seconds of queued audio from which on sentences wait for each other."""
    merge_characters: int = 120
    """Length at which waiting sentences are committed."""
    limit: int = MAX_SENTENCE_CHARACTERS
    """Most characters that are held without a boundary."""


_DEFAULTS: Final = BoundaryOptions()


class BoundaryPolicy(TextSource):
    """Decides when text that arrives in fragments is committed. Every time is in seconds of the caller's clock.

    - A sentence is committed when the text after it shows that it has ended, or after `silence` seconds without a
      fragment when it looks complete.
    - The first chunk after the start or a flush may be a clause. It is cut at a separator after `clause_words` words or
      `clause_characters`, or at a space after `forced_words`, where the order of words allows it (see `ClauseCutter`).
      Shorter sentences leave this right unused: their audio is too short to cover the wait for the next chunk.
    - While at least `merge_seconds` of audio are queued, sentences wait for each other until they have
      `merge_characters` in all, or the queue has run down.

    All text that is fed comes out exactly once, unchanged and in order. `language` and `target` (None: not translated)
    are BCP-47 tags or FLORES-200 codes, known or not.
    """

    def __init__(self, language: str = "en", target: str | None = None, options: BoundaryOptions = _DEFAULTS) -> None:
        self._options = options
        self._buffer = SentenceBuffer(language, limit=options.limit)
        self._cutter = ClauseCutter.between(
            language,
            target,
            words=options.clause_words,
            characters=options.clause_characters,
            forced=options.forced_words,
        )
        self._space_ends = primary_language(language) in WITHOUT_STOPS
        self._opening = options.first_clause
        self._now = float("-inf")
        self._last_fragment = 0.0
        self._played_out = float("-inf")
        self._waiting: list[tuple[str, Reason]] = []
        self._arrivals: deque[tuple[int, float]] = deque()
        self._fed = 0
        self._committed = 0

    @property
    def pending(self) -> str:
        return self._buffer.held

    @property
    def waiting(self) -> str:
        """Complete sentences before `pending` that wait to be merged."""
        return "".join(text for text, _ in self._waiting)

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        commits = self.tick(now)
        if not fragment:
            return commits
        self._fed += len(fragment)
        self._arrivals.append((self._fed, now))
        self._last_fragment = now
        for text in self._buffer.feed(fragment):
            commits += self._complete(text)
        if self._space_ends:
            commits += self._cut_at_space()
        if self._may_cut():
            commits += self._cut_clause()
        return commits

    def tick(self, now: float) -> list[Speakable]:
        self._now = max(self._now, now)
        commits: list[Speakable] = []
        silence = self._silence_deadline()
        if silence is not None and now >= silence:
            for text in self._buffer.flush():
                commits += self._offer(text, "silence")
        release = self._release_deadline()
        if release is not None and now >= release:
            commits += self._release()
        return commits

    def next_deadline(self) -> float | None:
        deadlines = [time for time in (self._silence_deadline(), self._release_deadline()) if time is not None]
        return min(deadlines, default=None)

    def flush(self, now: float) -> list[Speakable]:
        commits = self.tick(now)
        parts: list[str] = []
        for text in self._buffer.flush():
            if parts and not text.strip():
                parts[-1] += text
            else:
                parts.append(text)
        for text in parts:
            commits += self._offer(text, "flush")
        commits += self._release()
        self._opening = self._options.first_clause
        return commits

    def queued(self, seconds: float, now: float) -> None:
        self._now = max(self._now, now)
        self._played_out = self._now + seconds

    # From parts to commits

    def _complete(self, text: str) -> list[Speakable]:
        """Commit a sentence of the buffer, or its first clause before the rest."""
        ended = _has_ended(text) or len(text) <= self._options.limit // 3
        reason: Reason = "sentence" if ended else "forced"
        commits: list[Speakable] = []
        if self._may_cut() and self._cutter.is_long(text):
            cut = self._cutter.find(text, forced=False)
            if cut and len(text[cut:].split()) > 2:
                commits, text = self._offer(text[:cut], "clause"), text[cut:]
        return commits + self._offer(text, reason)

    def _may_cut(self) -> bool:
        return self._opening and not self._waiting and not self._enough_queued()

    def _cut_clause(self) -> list[Speakable]:
        held = self._buffer.held
        cut = self._cutter.find(held, forced=False)
        reason: Reason = "clause"
        if not cut:
            cut, reason = self._cutter.find(held), "forced"
        return self._offer(self._buffer.take(cut), reason) if cut else []

    def _cut_at_space(self) -> list[Speakable]:
        commits: list[Speakable] = []
        while True:
            held = self._buffer.held
            ends = (match.end() for match in re.finditer(r"(?<=\S)\s++(?=\S)", held) if match.end() >= _SPACE_ENDS)
            cut = next((end for end in islice(ends, TRIES) if not is_open(held[:end])), 0)
            if not cut:
                return commits
            commits += self._offer(self._buffer.take(cut), "sentence")

    def _offer(self, text: str, reason: Reason) -> list[Speakable]:
        """Commit a text, or let it wait for others while enough audio is queued."""
        if not self._waiting and not (text.strip() and self._enough_queued()):
            return [self._commit([(text, reason)])]
        self._waiting.append((text, reason))
        wait = self._enough_queued() and len(self.waiting) < self._options.merge_characters
        return [] if wait else self._release()

    def _release(self) -> list[Speakable]:
        parts, self._waiting = self._waiting, []
        return [self._commit(parts)] if parts else []

    def _commit(self, parts: list[tuple[str, Reason]]) -> Speakable:
        sentences = tuple(text for text, _ in parts)
        text = "".join(sentences)
        start, end = self._committed, self._committed + len(text)
        self._committed = end
        first = start + len(text) - len(text.lstrip())
        while self._arrivals and self._arrivals[0][0] <= min(first, end - 1):
            self._arrivals.popleft()
        waited = self._now - self._arrivals[0][1]
        while self._arrivals and self._arrivals[0][0] <= end:
            self._arrivals.popleft()
        if self._cutter.suffices(text):
            self._opening = False
        reason: Reason = "merged" if len(parts) > 1 else parts[0][1]
        return Speakable(text, text, start, end, max(0.0, waited), reason, sentences)

    # Deadlines

    def _enough_queued(self) -> bool:
        return self._played_out - self._now >= self._options.merge_seconds

    def _release_deadline(self) -> float | None:
        return self._played_out - self._options.merge_seconds if self._waiting else None

    def _silence_deadline(self) -> float | None:
        return self._last_fragment + self._options.silence if self._looks_complete() else None

    def _looks_complete(self) -> bool:
        held = self._buffer.held
        text = held.rstrip()
        if not text or is_open(text):
            return False
        if held.count("\n", len(text)) > 1:  # a paragraph
            return True
        if not _has_ended(text) or _UNFINISHED_NUMBER.search(text) or in_link(text) or _in_quotes(text):
            return False
        return self._buffer.ends_sentence()


def _has_ended(text: str) -> bool:
    """Return whether a text ends with a stop or the end of a line."""
    said = text.rstrip()
    return "\n" in text[len(said) :] or said.rstrip(_CLOSERS)[-1:] in _STOPS


def _in_quotes(text: str) -> bool:
    return text.count('"') % 2 == 1 or any(text.count(a) > text.count(b) for a, b in ("“”", "«»"))
