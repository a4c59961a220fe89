"""The estimator: causality, what is taken out of the steps, and lanes."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen import estimator
from models.chatterbox.s3gen.estimator import Estimator
from models.native import kernels
from tests.models.chatterbox.s3gen.flow_builder import SMALL, distance, flow, loaded, normal

CLOSE = 1e-5
HERE = [mx.default_stream(mx.default_device())]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Estimator:
    """The English flow's, without native kernels."""
    with monkeypatch.context() as without:
        without.setattr(kernels, "module", lambda: None)
        return loaded(SMALL).estimator


def _inputs(frames: int, batch: int = 1) -> tuple[mx.array, tuple[mx.array, mx.array], mx.array]:
    """x, `given` and one step's shifts, for the English flow."""
    own = flow().estimator
    given = own.condition(normal(1, batch, frames, 8), normal(2, batch, 8), normal(3, batch, frames, 8))
    return normal(0, batch, frames, 8), given, own.times(np.array([0.3], np.float32))[0]


def test_convolutions_hear_no_later_frame(plain: Estimator) -> None:
    own, frames = flow().estimator, 20
    x, shift = normal(0, 1, frames, 16), normal(1, 16)
    changed = mx.array(x)
    changed[:, 11] = 7.0
    convolution = lambda a: own.down_conv.pieces([a], HERE)[0]  # noqa: E731
    resnet = lambda a: plain.mid_blocks[0].resnet([a], shift, HERE)[0]  # noqa: E731
    for run, reach in ((convolution, 2), (resnet, 4)):
        # Native convolutions round four rows together.
        heard = np.abs(np.array(run(changed) - run(x))).max(axis=(0, 2)) > 1e-4
        assert heard.tolist() == [11 <= n <= 11 + reach for n in range(frames)]


def test_attention_hears_every_frame() -> None:
    own = flow().estimator
    x, given, shifts = _inputs(20)
    changed = mx.array(x)
    changed[:, 11] = 7.0
    heard = np.abs(np.array(own(changed, given, shifts) - own(x, given, shifts))).max(axis=(0, 2))
    assert (heard > 0).all()


def test_no_condition_is_one_of_zeros() -> None:
    own = flow().estimator
    zeros = own.condition(mx.zeros((2, 7, 8)), mx.zeros((2, 8)), mx.zeros((2, 7, 8)))
    for found, wanted in zip(own.unconditioned(2, 7), zeros, strict=True):
        assert distance(found, wanted) < 1e-6


def test_a_mean_flow_needs_ends() -> None:
    with pytest.raises(ValueError, match="ends"):
        flow("turbo").estimator.times(np.array([0.5], np.float32))


@pytest.mark.parametrize("pieces", [2, 3])
def test_pieces_of_a_sequence_make_the_whole(plain: Estimator, pieces: int) -> None:
    own = plain
    x, given, shifts = _inputs(32 * pieces + 5)
    whole = own(x, given, shifts, None, HERE)
    assert distance(own(x, given, shifts, None, HERE * pieces), whole) < CLOSE


def test_short_sequences_are_not_cut(plain: Estimator, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    original = estimator.cut
    monkeypatch.setattr(estimator, "cut", lambda x, count: counts.append(count) or original(x, count))
    x, given, shifts = _inputs(40)
    plain(x, given, shifts, None, HERE * 4)
    assert set(counts) == {1}


def test_padded_frames_change_nothing() -> None:
    """Whatever they hold."""
    own, frames, rows = flow().estimator, 33, 48
    x, given, shifts = _inputs(rows)
    bias = mx.where(mx.arange(rows) < frames, 0.0, float("-inf"))[None, None, None]
    cut = own(x[:, :frames], (given[0][:, :frames], given[1][:, :frames]), shifts)
    assert distance(own(x, given, shifts, bias)[:, :frames], cut) < CLOSE
    x[:, frames:] = 20.0
    assert distance(own(x, given, shifts, bias)[:, :frames], cut) < CLOSE
    assert distance(own(x, given, shifts)[:, :frames], cut) > 1e-2
