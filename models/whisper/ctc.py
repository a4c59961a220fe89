"""Connectionist temporal classification over the encoder's positions: the likeliest text, and the times of tokens.

Graves et al. 2006, doi:10.1145/1143844.1143891. Scores are log-probabilities [S, V + 1] of positions; the last column
is the blank.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from models.layers.mel import Floats

Spans = npt.NDArray[np.int64]

_STAY, _NEXT, _SKIP = 0, 1, 2  # states that a path moves on by


def best_tokens(scores: Floats) -> list[int]:
    """Return the tokens of the likeliest path: repeats are one token, blanks are none."""
    best = scores.argmax(axis=-1)
    changed = np.concatenate([[True], best[1:] != best[:-1]]) if len(best) else np.zeros(0, bool)
    found: list[int] = best[changed & (best != scores.shape[-1] - 1)].tolist()
    return found


def confidence(scores: Floats, marks: Sequence[int]) -> float:
    """Return the mean log-probability of the likeliest tokens of words; blanks and `marks` do not count.

    Two certain tokens are added: a single word says little against its voice. Minus infinity where no word is heard.
    """
    best = scores.argmax(axis=-1)
    words = scores.max(axis=-1)[~np.isin(best, [*marks, scores.shape[-1] - 1])]
    return float(words.sum(dtype=np.float64) / (len(words) + 2)) if len(words) else -np.inf


def _labels(tokens: Sequence[int], blank: int) -> tuple[Spans, npt.NDArray[np.bool_]]:
    """Return the states of a text, [2N + 1], blanks around its tokens, and those that may be reached past a blank."""
    labels = np.full(2 * len(tokens) + 1, blank)
    labels[1::2] = tokens
    skips = np.zeros(len(labels), bool)  # two equal tokens need a blank between them
    skips[3::2] = labels[3::2] != labels[1:-2:2]
    return labels, skips


def draft_score(scores: Floats, tokens: Sequence[int]) -> float:
    """Return the log-probability of a text, all its paths together, less that of the likeliest path of any text.

    Above 0 where many paths share the text. Minus infinity if there are too few positions for it.
    """
    if not len(scores):
        return 0.0 if not tokens else -np.inf
    labels, skips = _labels(tokens, scores.shape[-1] - 1)
    emitted = scores[:, labels].astype(np.float64)
    total = np.full(len(labels), -np.inf)
    total[:2] = emitted[0, :2]
    for row in emitted[1:]:
        before, skipped = np.full((2, len(labels)), -np.inf)
        before[1:], skipped[2:] = total[:-1], np.where(skips, np.roll(total, 2), -np.inf)[2:]
        total = np.logaddexp(np.logaddexp(total, before), skipped) + row
    return float(np.logaddexp.reduce(total[-2:]) - scores.max(axis=-1).sum(dtype=np.float64))


def token_spans(scores: Floats, tokens: Sequence[int]) -> Spans | None:
    """Return the first position of each token, and the one behind its last, [N, 2], on the likeliest path of `tokens`.

    Returns None if there are too few positions for them.
    """
    size, blank = len(scores), scores.shape[-1] - 1
    if not tokens:
        return np.zeros((0, 2), np.int64)
    labels, skips = _labels(tokens, blank)
    emitted = scores[:, labels].astype(np.float64)
    total = np.full(len(labels), -np.inf)
    total[:2] = emitted[0, :2] if size else -np.inf
    moves = np.zeros((size, len(labels)), np.int8)
    for at in range(1, size):
        came = np.stack([total, np.roll(total, 1), np.roll(total, 2)])
        came[_NEXT, 0] = came[_SKIP, :2] = -np.inf
        came[_SKIP, ~skips] = -np.inf
        moves[at] = came.argmax(axis=0)
        total = came.max(axis=0) + emitted[at]
    state = len(labels) - 1 if total[-1] >= total[-2] else len(labels) - 2
    if not np.isfinite(total[state]):
        return None
    spans = np.zeros((len(tokens), 2), np.int64)
    for at in range(size - 1, -1, -1):
        if state % 2:
            token = state // 2
            spans[token, 0] = at
            spans[token, 1] = max(spans[token, 1], at + 1)
        state -= int(moves[at, state])
    return spans
