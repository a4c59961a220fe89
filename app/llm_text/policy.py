"""When text that is still being written may be spoken or translated: the boundary policy, without clock or I/O."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from app.llm_text.clauses import TRIES, WITHOUT_STOPS, ClauseCutter, in_link, is_open
from app.text.languages import primary_language
from app.text.sentence_buffer import SentenceBuffer
from app.text.sentence_splitter import LONGEST_SENTENCE

Reason = Literal["sentence", "silence", "clause", "forced", "merged", "flush"]

# A number that may go on after its stop or comma: "3.", or a list item's number at the start of a line.
_UNFINISHED_NUMBER: Final = re.compile(r"\d[.,]$")
_STOPS: Final = frozenset(".!?。！？｡…։።፧፨។៕།༎།॥۔؟᱾᱿꯫;")
_CLOSERS: Final = "\"'”’»)]」』）*_"
# Characters after which a space ends a sentence in scripts that have no stops.
_SPACE_ENDS: Final = 80


@dataclass(frozen=True, slots=True)
class Commit:
    """Text that may be spoken: characters [start, end) of all that was fed.

    `waited` is the seconds from the arrival of its first visible character to the commit (Stage.BOUNDARY).
    `sentences` joined are the text: translation models want them one by one. The text may be blank.
    """

    text: str
    start: int
    end: int
    waited: float
    reason: Reason
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    reason: Reason


class BoundaryPolicy:
    """Decides when text that arrives in fragments is committed. Every time is seconds of one clock of the caller's.

    - A sentence is committed when what follows shows that it has ended, or after `silence` seconds without a fragment
      when it looks complete.
    - The first chunk after the start or a flush may be a clause: cut at a separator after `clause_words` words or
      `clause_characters`, or at a space after `forced_words`, where the order of words allows it (see `ClauseCutter`).
      Sentences shorter than that do not use the right up: their audio is too short to cover the wait for the next.
    - While at least `merge_seconds` of audio are queued, sentences wait for each other until they have
      `merge_characters` together, or the queue has run down.

    All that is fed comes out exactly once, unchanged and in order. At most `limit` characters without a boundary are
    held. `language` and `target` (None: not translated) are BCP-47 tags or FLORES-200 codes, known or not.
    """

    def __init__(
        self,
        language: str = "en",
        target: str | None = None,
        *,
        first_clause: bool = True,
        silence: float = 0.12,
        clause_words: int = 6,
        clause_characters: int = 25,
        forced_words: int = 15,
        merge_seconds: float = 3.0,
        merge_characters: int = 120,
        limit: int = LONGEST_SENTENCE,
    ) -> None:
        self._silence = silence
        self._merge_seconds = merge_seconds
        self._merge_characters = merge_characters
        self._limit = limit
        self._buffer = SentenceBuffer(language, limit=limit)
        self._cutter = ClauseCutter.between(
            language, target, words=clause_words, characters=clause_characters, forced=forced_words
        )
        self._space_ends = primary_language(language) in WITHOUT_STOPS
        self._first_clause = first_clause
        self._opening = first_clause
        self._now = float("-inf")
        self._last_fragment = 0.0
        self._played_out = float("-inf")
        self._waiting: list[_Piece] = []
        self._arrivals: deque[tuple[int, float]] = deque()
        self._fed = 0
        self._committed = 0

    @property
    def pending(self) -> str:
        """The text that waits for its boundary: what may be translated ahead of time."""
        return self._buffer.held

    @property
    def waiting(self) -> str:
        """Complete sentences before `pending` that wait to be merged."""
        return "".join(piece.text for piece in self._waiting)

    def feed(self, fragment: str, now: float) -> list[Commit]:
        """A fragment arrived, of any length. Returns what may be spoken, in order."""
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

    def tick(self, now: float) -> list[Commit]:
        """Time passed; call it at `next_deadline`. A call too early changes nothing."""
        self._now = max(self._now, now)
        commits: list[Commit] = []
        silence = self._silence_deadline()
        if silence is not None and now >= silence:
            for text in self._buffer.flush():
                commits += self._offer(_Piece(text, "silence"))
        release = self._release_deadline()
        if release is not None and now >= release:
            commits += self._release()
        return commits

    def next_deadline(self) -> float | None:
        """When `tick` is to be called unless something is fed before; None: not at all."""
        deadlines = [time for time in (self._silence_deadline(), self._release_deadline()) if time is not None]
        return min(deadlines, default=None)

    def flush(self, now: float) -> list[Commit]:
        """The text ends here: commit everything. What is fed next is a new start."""
        commits = self.tick(now)
        pieces: list[str] = []
        for text in self._buffer.flush():
            if pieces and not text.strip():
                pieces[-1] += text
            else:
                pieces.append(text)
        for text in pieces:
            commits += self._offer(_Piece(text, "flush"))
        commits += self._release()
        self._opening = self._first_clause
        return commits

    def queued(self, seconds: float, now: float | None = None) -> None:
        """`seconds` of audio are queued at `now` (default: the last time heard of); they drain in real time."""
        self._now = self._now if now is None else max(self._now, now)
        self._played_out = self._now + seconds

    # From pieces to commits.

    def _complete(self, text: str) -> list[Commit]:
        """A sentence that the buffer gave out."""
        ended = _has_ended(text) or len(text) <= self._limit // 3
        reason: Reason = "sentence" if ended else "forced"
        commits: list[Commit] = []
        if self._may_cut() and self._cutter.is_long(text):
            cut = self._cutter.find(text, forced=False)
            if cut and len(text[cut:].split()) > 2:
                commits, text = self._offer(_Piece(text[:cut], "clause")), text[cut:]
        return commits + self._offer(_Piece(text, reason))

    def _may_cut(self) -> bool:
        return self._opening and not self._waiting and not self._enough_queued()

    def _cut_clause(self) -> list[Commit]:
        held = self._buffer.held
        cut = self._cutter.find(held, forced=False)
        reason: Reason = "clause"
        if not cut:
            cut, reason = self._cutter.find(held), "forced"
        return self._offer(_Piece(self._buffer.take(cut), reason)) if cut else []

    def _cut_at_space(self) -> list[Commit]:
        commits: list[Commit] = []
        while True:
            held = self._buffer.held
            ends = (match.end() for match in re.finditer(r"(?<=\S)\s++(?=\S)", held) if match.end() >= _SPACE_ENDS)
            cut = next((end for end in islice(ends, TRIES) if not is_open(held[:end])), 0)
            if not cut:
                return commits
            commits += self._offer(_Piece(self._buffer.take(cut), "sentence"))

    def _offer(self, piece: _Piece) -> list[Commit]:
        """Commit a piece, or let it wait for others while there is enough to play."""
        if self._waiting or (piece.text.strip() and self._enough_queued()):
            self._waiting.append(piece)
            size = sum(len(waiting.text) for waiting in self._waiting)
            return self._release() if size >= self._merge_characters or not self._enough_queued() else []
        return [self._commit([piece])]

    def _release(self) -> list[Commit]:
        pieces, self._waiting = self._waiting, []
        return [self._commit(pieces)] if pieces else []

    def _commit(self, pieces: list[_Piece]) -> Commit:
        text = "".join(piece.text for piece in pieces)
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
        reason: Reason = "merged" if len(pieces) > 1 else pieces[0].reason
        return Commit(text, start, end, max(0.0, waited), reason, tuple(piece.text for piece in pieces))

    # Deadlines.

    def _enough_queued(self) -> bool:
        return self._played_out - self._now >= self._merge_seconds

    def _release_deadline(self) -> float | None:
        return self._played_out - self._merge_seconds if self._waiting else None

    def _silence_deadline(self) -> float | None:
        return self._last_fragment + self._silence if self._looks_complete() else None

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
    """Whether a stop, or the end of a line, is the last of it."""
    said = text.rstrip()
    return "\n" in text[len(said) :] or said.rstrip(_CLOSERS)[-1:] in _STOPS


def _in_quotes(text: str) -> bool:
    return text.count('"') % 2 == 1 or any(text.count(a) > text.count(b) for a, b in ("“”", "«»"))
