"""Tokens that may come next in a transcript (openai-whisper's logit filters)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.layers.mel import Floats
from models.whisper.text import TIMESTAMP_SECONDS, WhisperTokenizer

_NEVER = -np.inf


def log_sum_exp(x: Floats) -> Floats:
    """Return log(sum(exp(x))) of x [..., N]: [..., 1]; minus infinity where all of x is."""
    top = x.max(axis=-1, keepdims=True)
    shift = np.where(np.isfinite(top), top, np.float32(0))
    with np.errstate(divide="ignore"):
        found: Floats = shift + np.log(np.exp(x - shift).sum(axis=-1, keepdims=True))
    return found


@dataclass(frozen=True, slots=True)
class TimestampRules:
    """Order of timestamps: they come in pairs, from the first token on, and never go back.

    The end of a segment and the start of the next make a pair. `end` is the end's token, `first` that of 0.00, and
    `latest` the greatest index of the first timestamp; None: any.
    """

    end: int
    first: int
    no_timestamps: int
    latest: int | None

    def apply(self, logits: Floats, sampled: Sequence[Sequence[int]]) -> None:
        """Forbid tokens in logits [R, V], in place, after the `sampled` tokens of each row."""
        logits[:, self.no_timestamps] = _NEVER
        for row, tokens in zip(logits, sampled, strict=True):
            self._pair(row, tokens)
            if not tokens:
                row[: self.first] = _NEVER
                if self.latest is not None:
                    row[self.first + self.latest + 1 :] = _NEVER
            # A timestamp comes where all of them together are likelier than the likeliest text.
            if log_sum_exp(row[self.first :])[0] > row[: self.first].max():
                row[: self.first] = _NEVER

    def _pair(self, row: Floats, tokens: Sequence[int]) -> None:
        closing = bool(tokens) and tokens[-1] >= self.first
        paired = len(tokens) < 2 or tokens[-2] >= self.first
        if closing and paired:
            row[self.first :] = _NEVER
        elif closing:
            row[: self.end] = _NEVER
        last = next((token for token in reversed(tokens) if token >= self.first), None)
        if last is not None:
            # Only the start of a segment may repeat the time at which the one before it ended.
            row[self.first : last if closing and not paired else last + 1] = _NEVER


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Tokens that never come out, those that do not come first, and the order of timestamps, if there are any."""

    suppressed: Sequence[int]
    blank: Sequence[int]
    timestamps: TimestampRules | None

    @staticmethod
    def of(tokenizer: WhisperTokenizer, *, timestamps: bool, suppress_blank: bool, latest: float | None) -> TokenRules:
        """Return the rules of a transcript.

        Args:
            tokenizer: Of the model.
            timestamps: Whether the transcript has timestamps.
            suppress_blank: Forbid that the transcript begins with a space or its end.
            latest: Seconds; the greatest first timestamp. None: any.
        """
        order = None
        if timestamps:
            index = None if latest is None else round(latest / TIMESTAMP_SECONDS)
            order = TimestampRules(tokenizer.end, tokenizer.first_timestamp, tokenizer.no_timestamps, index)
        return TokenRules(tokenizer.suppressed, tokenizer.blank if suppress_blank else (), order)

    def apply(self, logits: Floats, sampled: Sequence[Sequence[int]]) -> None:
        """Forbid tokens in logits [R, V], in place, after the `sampled` tokens of each row."""
        if not sampled[0]:
            logits[:, list(self.blank)] = _NEVER
        logits[:, list(self.suppressed)] = _NEVER
        if self.timestamps is not None:
            self.timestamps.apply(logits, sampled)
