"""Times of words: cross-attention of the heads that follow the audio, and the cheapest path through it.

Sources: openai-whisper's timing.py; dynamic time warping: Giorgino 2009, doi:10.18637/jss.v031.i07.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.backend import mx
from models.layers.mel import Floats
from models.whisper.ctc import token_spans
from models.whisper.network import Whisper
from models.whisper.steps import Memory
from models.whisper.text import WhisperTokenizer

POSITIONS_A_SECOND = 50  # of the encoder's output
_MEDIAN = 7  # positions
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class AlignedWord:
    """A word with its tokens, its times in seconds from the window's start, and the mean probability of its tokens.

    `heard`: second to which the heads that follow the audio looked at most while the tokens were written.
    """

    word: str
    tokens: list[int]
    start: float
    end: float
    probability: float
    heard: float = 0.0


def median_filter(x: Floats, width: int = _MEDIAN) -> Floats:
    """Return the medians of `width` neighbors along the last axis of x, mirrored at both ends."""
    reach = width // 2
    if x.shape[-1] <= reach:
        return x
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(reach, reach)], mode="reflect")
    views = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    found: Floats = np.partition(views, reach, axis=-1)[..., reach]
    return found


def warp(cost: npt.NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Return rows and columns of the cheapest path through cost [N, M], from its first corner to its last.

    A step goes down, right or, only if that is cheaper than both, diagonally. Sums are rounded to single precision, as
    in the reference. Anti-diagonals are computed at once.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    trace = np.zeros((rows + 1, columns + 1), np.int8)
    trace[0, :], trace[:, 0] = 2, 1
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        both, down, right = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        step = np.where((both < down) & (both < right), 0, np.where((down < both) & (down < right), 1, 2))
        total[i, j] = cost[i - 1, j - 1] + np.choose(step, (both, down, right))
        trace[i, j] = step
    path = []
    at, to = rows, columns
    while at > 0 or to > 0:
        path.append((at - 1, to - 1))
        step_back = trace[at, to]
        at -= step_back != 2
        to -= step_back != 1
    found = np.array(path[::-1], np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def follow(logits: Floats, positions: int, first: int) -> Floats:
    """Return how much each text token, and the end, looks at each position [tokens + 1, positions].

    Args:
        logits: Of the cross-attention [heads, tokens, S]: of the start sequence, "no timestamps", text and end.
        positions: Of the encoder's output that hold audio, at most S.
        first: Tokens before "no timestamps".
    """
    cut = logits[:, :, :positions].astype(np.float32)
    weights = np.exp(cut - cut.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a head that looks at one place has no deviation, and NaN counts for nothing
        weights = (weights - weights.mean(axis=1, keepdims=True)) / weights.std(axis=1, keepdims=True)
    found: Floats = median_filter(weights).mean(axis=0)[first:-1]
    return found


def token_times(matrix: Floats) -> Floats:
    """Return the seconds at which each text token, and the end, begin, by the matrix of `follow`."""
    rows, columns = warp(-matrix.astype(np.float64))
    jumps = np.concatenate([[True], np.diff(rows) != 0])
    found: Floats = columns[jumps] / POSITIONS_A_SECOND
    return found


def ctc_words(
    scores: Floats, tokenizer: WhisperTokenizer, tokens: Sequence[int], language: str, positions: int
) -> list[AlignedWord]:
    """Return the words of text `tokens`, where the CTC head's `scores` [S, n_ctc] place them.

    Where these have too few positions for the tokens, the words share the time of all `positions` of audio.
    """
    words, grouped = tokenizer.split_words(tokens, language)
    spans = token_spans(scores, tokens)
    if spans is None:
        edges = np.linspace(0, positions, len(tokens) + 1).astype(np.int64)
        spans = np.stack([edges[:-1], edges[1:]], axis=1)
    spans = np.minimum(spans, positions)
    found, at = [], 0
    for word, group in zip(words, grouped, strict=True):
        own = spans[at : at + len(group)]
        likely = [float(np.exp(scores[a : max(b, a + 1), token].max())) if a < len(scores) else 0.0
                  for token, (a, b) in zip(group, own, strict=True)]  # fmt: skip
        start, end = own[0, 0] / POSITIONS_A_SECOND, own[-1, 1] / POSITIONS_A_SECOND
        found.append(AlignedWord(word, list(group), float(start), float(end), float(np.mean(likely))))
        at += len(group)
    return found


def find_words(
    network: Whisper,
    tokenizer: WhisperTokenizer,
    heads: Sequence[tuple[int, int]],
    memory: Memory,
    tokens: Sequence[int],
    spoken: tuple[str, str],
    frames: int,
) -> list[AlignedWord]:
    """Return the words of one window's transcript.

    Args:
        network: Lowered.
        tokenizer: Of the model.
        heads: Layers and heads that follow the audio.
        memory: The encoded window.
        tokens: Text tokens of the transcript.
        spoken: Language of the transcript, and "transcribe" or "translate".
        frames: Mel frames of audio in the window.
    """
    if not tokens:
        return []
    start = tokenizer.start_sequence(*spoken, timestamps=True)
    ids = [*start, tokenizer.no_timestamps, *tokens, tokenizer.end]
    past = network.allocate(1, len(ids) + -len(ids) % 8)
    hidden, attention = network.decoder.align(mx.array([ids]), past, memory, heads)
    scores = network.decoder.token_embedding.logits(hidden[0, len(start) : len(start) + len(tokens)])
    shares = mx.softmax(scores[:, : tokenizer.end], axis=-1)
    chosen = mx.take_along_axis(shares, mx.array(list(tokens))[:, None], axis=-1)[:, 0]
    mx.eval(chosen, attention)
    words, grouped = tokenizer.split_words([*tokens, tokenizer.end], spoken[0])
    if len(grouped) <= 1:
        return []
    matrix = follow(np.array(attention), frames // 2, len(start))
    begins, looks = token_times(matrix), matrix.argmax(axis=1) / POSITIONS_A_SECOND
    edges = np.cumsum([0, *(len(group) for group in grouped[:-1])])
    probability = np.array(chosen)
    return [
        AlignedWord(
            word, group, float(begins[a]), float(begins[b]), float(probability[a:b].mean()), float(looks[a:b].max())
        )
        for word, group, a, b in zip(words, grouped, edges[:-1].tolist(), edges[1:].tolist(), strict=False)
    ]
