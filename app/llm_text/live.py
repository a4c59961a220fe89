"""Text of a language model, cleaned and cut at the boundaries of the policy, for speech or translation."""

from __future__ import annotations

from dataclasses import replace

from app.llm_text.clean import Cleaner
from app.llm_text.hidden import HiddenParts
from app.llm_text.output import CleanText, Origins
from app.llm_text.policy import BoundaryPolicy
from app.llm_text.sources import Speakable, TextSource


class LiveText(TextSource):
    """`HiddenParts` and a `Cleaner` before a `BoundaryPolicy`.

    No text is blank, except that the last of a stream is empty if nothing more is to be spoken.
    """

    def __init__(self, policy: BoundaryPolicy, cleaner: Cleaner | None = None) -> None:
        self._policy = policy
        self._cleaner = cleaner if cleaner is not None else Cleaner()
        self._hidden = HiddenParts(markdown=False)
        self._origins = Origins()
        self._original = ""  # from character _start on
        self._start = 0

    @property
    def pending(self) -> str:
        return self._policy.pending

    @property
    def covered(self) -> int:
        return self._hidden.covered

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        self._original += fragment
        return self._clean(self._cleaner.feed(self._hidden.feed(fragment)), now)

    def tick(self, now: float) -> list[Speakable]:
        return self._with_original(self._policy.tick(now))

    def next_deadline(self) -> float | None:
        return self._policy.next_deadline()

    def queued(self, seconds: float, now: float) -> None:
        self._policy.queued(seconds, now)

    def flush(self, now: float) -> list[Speakable]:
        rest = [*self._cleaner.feed(self._hidden.flush()), *self._cleaner.flush()]
        out = self._clean(rest, now) + self._with_original(self._policy.flush(now))
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
        return self._with_original(self._policy.feed("".join(piece.text for piece in pieces), now))

    def _with_original(self, cleaned: list[Speakable]) -> list[Speakable]:
        """Give texts of the policy their place in the original. That of a blank text goes to the next text."""
        out: list[Speakable] = []
        for piece in cleaned:
            _, end = self._origins.take(len(piece.text))
            if not piece.text.strip():
                continue
            count = end - self._start
            original, self._original = self._original[:count], self._original[count:]
            out.append(replace(piece, original=original, start=self._start, end=end))
            self._start = end
        return out
