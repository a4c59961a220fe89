"""The conformer encoder: its parts against their definitions in double precision, and what padding may change."""

from __future__ import annotations

import numpy as np
import pytest

from models.chatterbox.s3gen.relative_attention import RelativeAttention, relative_positions
from models.contract import ModelRequestError
from tests.models.chatterbox.s3gen.flow_builder import PROMPT, SPOKEN, distance, flow, normal, tokens

CLOSE = 1e-5


def test_positions_are_of_distances_that_fall() -> None:
    """ESPnet's order: the farthest earlier key first, sine and cosine in turns."""
    table = relative_positions(5, 8)
    assert table.shape == (9, 8)
    for row, distance_ in zip(table, range(4, -5, -1), strict=True):
        phases = [distance_ * 10_000 ** (-2 * i / 8) for i in range(4)]
        assert np.allclose(row[0::2], np.sin(phases), atol=1e-6)
        assert np.allclose(row[1::2], np.cos(phases), atol=1e-6)


def _attention(width: int, heads: int) -> RelativeAttention:
    made = RelativeAttention(width, heads)
    for seed, name in enumerate(("pos_bias_u", "pos_bias_v")):
        made[name] = normal(seed, *made[name].shape) * 0.5
    made.linear_pos.weight = normal(2, *made.linear_pos.weight.shape) * 0.5
    for seed, linear in enumerate((made.linear_qkv, made.linear_out)):
        linear.weight = normal(10 + seed, *linear.weight.shape) * 0.3
        linear.bias = normal(20 + seed, *linear.bias.shape) * 0.3
    return made


def test_attention_hears_the_distance_between_query_and_key() -> None:
    """Transformer-XL's four terms, one query and key at a time."""
    width, heads, length = 12, 3, 7
    size = width // heads
    attention, x = _attention(width, heads), normal(5, 1, length, width)
    attention.reserve(16)
    given = {name: np.array(attention[name], np.float64) for name in ("pos_bias_u", "pos_bias_v")}
    q, k, v = np.split(np.array(attention.linear_qkv(x), np.float64)[0].reshape(length, 3 * heads, size), 3, axis=1)
    projected = (
        relative_positions(length, width).astype(np.float64) @ np.array(attention.linear_pos.weight, np.float64).T
    )
    made = np.zeros((length, heads, size))
    for h in range(heads):
        p = projected.reshape(-1, heads, size)[:, h]
        for i in range(length):
            logits = [
                (q[i, h] + given["pos_bias_u"][h]) @ k[j, h]
                + (q[i, h] + given["pos_bias_v"][h]) @ p[length - 1 - (i - j)]
                for j in range(length)
            ]
            weights = np.exp(np.array(logits) / size**0.5)
            made[i, h] = weights @ v[:, h] / weights.sum()
    wanted = made.reshape(1, length, width) @ np.array(attention.linear_out.weight).T + np.array(
        attention.linear_out.bias
    )
    assert distance(attention(x, None), wanted) < CLOSE


def test_attention_refuses_more_rows_than_it_has_positions_for() -> None:
    attention = _attention(8, 2)
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
