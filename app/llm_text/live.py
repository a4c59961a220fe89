"""A language model's text as it is to be spoken or translated: cleaned, and cut at the boundaries of the policy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.llm_text.clean import Cleaner
from app.llm_text.output import Clean, Origins
from app.llm_text.policy import BoundaryPolicy, Commit, Reason


@dataclass(frozen=True, slots=True)
class Speakable:
    """`text` may be spoken; it stands for `original`, characters [start, end) of all that was fed.

    The originals of one stream, joined, are what was fed. `text` is empty where a stream's end holds nothing to
    say. `sentences` joined are the text, one by one for a translator; `waited` and `reason` are those of `Commit`.
    """

    text: str
    original: str
    start: int
    end: int
    waited: float
    reason: Reason
    sentences: tuple[str, ...]


class LiveText:
    """A `Cleaner` before a `BoundaryPolicy`. Like them it has no clock: times are the caller's, in seconds."""

    def __init__(self, policy: BoundaryPolicy, cleaner: Cleaner | None = None) -> None:
        self._policy = policy
        self._cleaner = cleaner if cleaner is not None else Cleaner()
        self._origins = Origins()
        self._original = ""  # from character _start on
        self._start = 0

    @property
    def pending(self) -> str:
        """Cleaned text that waits for its boundary: what may be translated ahead of time."""
        return self._policy.pending

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        """A fragment arrived, cut anywhere."""
        self._original += fragment
        return self._clean(self._cleaner.feed(fragment), now)

    def tick(self, now: float) -> list[Speakable]:
        """Time passed; call it at `next_deadline`."""
        return self._speakable(self._policy.tick(now))

    def next_deadline(self) -> float | None:
        """When `tick` is to be called unless something is fed before; None: not at all."""
        return self._policy.next_deadline()

    def queued(self, seconds: float, now: float) -> None:
        """`seconds` of audio are queued at `now`."""
        self._policy.queued(seconds, now)

    def flush(self, now: float) -> list[Speakable]:
        """The text ends here; what is fed next is another one."""
        out = self._clean(self._cleaner.flush(), now) + self._speakable(self._policy.flush(now))
        if self._original:
            end = self._start + len(self._original)
            if out:
                out[-1] = replace(out[-1], original=out[-1].original + self._original, end=end)
            else:
                out.append(Speakable("", self._original, self._start, end, 0.0, "flush", ()))
            self._original, self._start = "", end
        return out

    def _clean(self, pieces: list[Clean], now: float) -> list[Speakable]:
        self._origins.add(pieces)
        return self._speakable(self._policy.feed("".join(piece.text for piece in pieces), now))

    def _speakable(self, commits: list[Commit]) -> list[Speakable]:
        out: list[Speakable] = []
        for commit in commits:
            _, end = self._origins.take(len(commit.text))
            if not commit.text.strip():
                continue  # its original goes with the next
            count = end - self._start
            original, self._original = self._original[:count], self._original[count:]
            out.append(
                Speakable(commit.text, original, self._start, end, commit.waited, commit.reason, commit.sentences)
            )
            self._start = end
        return out
