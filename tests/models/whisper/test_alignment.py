"""Tokens' times and words of one window; medians and paths of all sizes are compared by `make parity`."""

from __future__ import annotations

import numpy as np
import pytest

from models.whisper.alignment import follow, median_filter, token_times, warp


def test_few_frames_have_no_median() -> None:
    x = np.random.RandomState(0).standard_normal((2, 3, 3)).astype(np.float32)
    assert np.array_equal(median_filter(x), x)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
def test_one_row_or_one_column_is_the_path(shape: tuple[int, int]) -> None:
    rows, columns = warp(np.random.RandomState(0).standard_normal(shape))
    assert (rows.tolist(), columns.tolist()) == tuple(each.ravel().tolist() for each in np.indices(shape))


def test_tokens_begin_where_their_attention_begins() -> None:
    """Six tokens between a start sequence of 3 and the end, each listening to ten positions."""
    logits = np.zeros((2, 3 + 1 + 6 + 1, 100), np.float32)
    for token in range(7):
        logits[:, 3 + token, 10 * token : 10 * token + 10] = 8
    begins = token_times(follow(logits, 70, 3))
    assert len(begins) == 7
    assert np.abs(begins - np.arange(7) * 0.2).max() < 0.05
