"""The conformer encoder: what it hears of later tokens, and what padding may change."""

from __future__ import annotations

import numpy as np
import pytest

from models.chatterbox.s3gen.relative_attention import RelativeAttention
from models.contract import ModelRequestError
from tests.models.chatterbox.s3gen.flow_builder import PROMPT, SPOKEN, distance, flow, normal, tokens

CLOSE = 1e-5


def test_attention_refuses_more_rows_than_it_has_positions_for() -> None:
    attention = RelativeAttention(8, 2)
    attention.reserve(4)
    with pytest.raises(ValueError, match="5 rows, positions are reserved for 4"):
        attention(normal(0, 1, 5, 8), None)


def test_a_row_hears_the_next_three_and_no_further() -> None:
    encoder = flow().encoder
    x = normal(0, 1, 12, 32)
    before = np.array(encoder.pre_lookahead_layer(x))
    x[:, 8] = 5.0
    # Native convolutions round four rows together.
    changed = np.abs(np.array(encoder.pre_lookahead_layer(x)) - before).max(axis=(0, 2)) > 1e-4
    assert changed.tolist() == [n in range(5, 11) for n in range(12)]


@pytest.mark.parametrize("spoken", [1, SPOKEN, 80])
def test_padding_changes_nothing(spoken: int) -> None:
    prompt, said = tokens(PROMPT), tokens(spoken, 2)
    wanted = flow(padded=False).encode(prompt, said)
    assert wanted.shape == (1, 2 * (PROMPT + spoken), 8)
    assert distance(flow(padded=True).encode(prompt, said), wanted) < CLOSE


def test_unfinished_speech_is_heard_but_not_shown() -> None:
    prompt, said = tokens(PROMPT), tokens(SPOKEN, 2)
    whole = flow().encode(prompt, said)
    early = flow().encode(prompt, said, finalize=False)
    assert np.array_equal(np.array(early), np.array(whole[:, :-6]))
    other = flow().encode(prompt, [*said[:-1], (said[-1] + 1) % 6561], finalize=False)
    assert distance(other, early) > 1e-4


def test_positions_grow_with_the_longest_sequence() -> None:
    """Past what was prepared at first, frames still equal those of the padded encoder, which prepares other lengths."""
    said = tokens(300, 3)
    assert distance(flow(padded=True).encode([], said), flow(padded=False).encode([], said)) < CLOSE


@pytest.mark.parametrize(
    ("said", "finalize", "message"),
    [
        ([], True, "no speech token"),
        ([1, 2, 3], False, "no speech token"),
        ([6561], True, "6560"),
        ([-1], True, "6560"),
    ],
)
def test_what_cannot_be_spoken_is_refused(said: list[int], finalize: bool, message: str) -> None:
    with pytest.raises(ModelRequestError, match=message):
        flow().encode(tokens(PROMPT), said, finalize=finalize)
