"""Medians, the cheapest path, and words of one window."""

from __future__ import annotations

import numpy as np
import pytest

from models.whisper.alignment import find_words, follow, median_filter, token_times, warp
from tests.models.whisper.builder import drain, recognizer


def test_median_filter() -> None:
    x = np.random.RandomState(0).standard_normal((2, 3, 20)).astype(np.float32)
    padded = np.pad(x, [(0, 0), (0, 0), (3, 3)], mode="reflect")
    wanted = np.stack([np.median(padded[..., k : k + 7], axis=-1) for k in range(20)], axis=-1)
    assert np.array_equal(median_filter(x), wanted)
    assert np.array_equal(median_filter(x[..., :3]), x[..., :3])


def plain_warp(cost: np.ndarray) -> list[tuple[int, int]]:
    """The definition, a cell at a time."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    back = {}
    for j in range(1, columns + 1):
        for i in range(1, rows + 1):
            both, down, right = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
            if both < down and both < right:
                best, back[i, j] = both, (i - 1, j - 1)
            elif down < both and down < right:
                best, back[i, j] = down, (i - 1, j)
            else:
                best, back[i, j] = right, (i, j - 1)
            total[i, j] = cost[i - 1, j - 1] + best
    at, path = (rows, columns), []
    while at != (0, 0):
        path.append((at[0] - 1, at[1] - 1))
        at = back[at] if min(at) > 0 else ((0, at[1] - 1) if at[0] == 0 else (at[0] - 1, 0))
    return path[::-1]


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (5, 30), (30, 5), (12, 12)])
@pytest.mark.parametrize("steps", [0, 3], ids=["distinct", "many ties"])
def test_cheapest_path(shape: tuple[int, int], steps: int) -> None:
    cost = np.random.RandomState(sum(shape)).standard_normal(shape)
    cost = np.round(cost * steps) if steps else cost
    rows, columns = warp(cost)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == plain_warp(cost)


def test_tokens_begin_where_their_attention_begins() -> None:
    """Six tokens between a start sequence of 3 and the end, each listening to ten positions."""
    logits = np.zeros((2, 3 + 1 + 6 + 1, 100), np.float32)
    for token in range(7):
        logits[:, 3 + token, 10 * token : 10 * token + 10] = 8
    begins = token_times(follow(logits, 70, 3))
    assert len(begins) == 7
    assert np.abs(begins - np.arange(7) * 0.2).max() < 0.05


def test_words_of_a_window() -> None:
    one = recognizer(seed=1)
    mel = np.random.RandomState(0).standard_normal((1, 200, 80)).astype(np.float32)
    memory = drain(one.steps.encode(mel))
    tokens = one.tokenizer.encode(" so it is, they say")
    options = {"language": "en", "task": "transcribe", "frames": 150}
    words = find_words(one.network, one.tokenizer, one.heads, memory, tokens, **options)  # type: ignore[arg-type]
    assert "".join(word.word for word in words) == " so it is, they say"
    assert [token for word in words for token in word.tokens] == tokens
    times = [time for word in words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= 1.5
    assert all(0 < word.probability < 1 for word in words)
    assert find_words(one.network, one.tokenizer, one.heads, memory, [], **options) == []  # type: ignore[arg-type]
