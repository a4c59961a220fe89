"""Text of a language model, cleaned and cut at the boundaries of the policy, for speech or translation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.llm_text.clean import Cleaner
from app.llm_text.output import CleanText, Origins
from app.llm_text.policy import BoundaryPolicy, Commit, Reason


@dataclass(frozen=True, slots=True)
class Speakable:
    """Text that may be spoken, for characters [start, end) of the stream, which are `original`.

    The originals of one stream, joined, are the stream. `text` is empty if the end of a stream has nothing to speak.
    `sentences` joined are the text. `waited` and `reason` are those of `Commit`.
    """

    text: str
    original: str
    start: int
    end: int
    waited: float
    reason: Reason
    sentences: tuple[str, ...]


class LiveText:
    """`Cleaner` before a `BoundaryPolicy`. Times are in seconds of the caller's clock."""

    def __init__(self, policy: BoundaryPolicy, cleaner: Cleaner | None = None) -> None:
        self._policy = policy
        self._cleaner = cleaner if cleaner is not None else Cleaner()
        self._origins = Origins()
        self._original = ""  # from character _start on
        self._start = 0

    @property
    def pending(self) -> str:
        """Cleaned text that waits for its boundary. It may be translated ahead of time."""
        return self._policy.pending

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        """Add a fragment, cut anywhere. Return the text that may be spoken."""
        self._original += fragment
        return self._clean(self._cleaner.feed(fragment), now)

    def tick(self, now: float) -> list[Speakable]:
        """Return the text that may be spoken at `now`. Call at `next_deadline`."""
        return self._speakable(self._policy.tick(now))

    def next_deadline(self) -> float | None:
        """Return the time of the next call of `tick` if nothing is fed before, or None."""
        return self._policy.next_deadline()

    def queued(self, seconds: float, now: float) -> None:
        """Note that `seconds` of audio are queued at `now`."""
        self._policy.queued(seconds, now)

    def flush(self, now: float) -> list[Speakable]:
        """End the text and return the rest of it. A later fragment begins another text."""
        out = self._clean(self._cleaner.flush(), now) + self._speakable(self._policy.flush(now))
        if self._original:
            end = self._start + len(self._original)
            if out:
                out[-1] = replace(out[-1], original=out[-1].original + self._original, end=end)
            else:
                out.append(Speakable("", self._original, self._start, end, 0.0, "flush", ()))
            self._original, self._start = "", end
        return out

    def _clean(self, pieces: list[CleanText], now: float) -> list[Speakable]:
        self._origins.add(pieces)
        return self._speakable(self._policy.feed("".join(piece.text for piece in pieces), now))

    def _speakable(self, commits: list[Commit]) -> list[Speakable]:
        out: list[Speakable] = []
        for commit in commits:
            _, end = self._origins.take(len(commit.text))
            if not commit.text.strip():
                continue  # its original goes to the next text
            count = end - self._start
            original, self._original = self._original[:count], self._original[count:]
            out.append(
                Speakable(commit.text, original, self._start, end, commit.waited, commit.reason, commit.sentences)
            )
            self._start = end
        return out
