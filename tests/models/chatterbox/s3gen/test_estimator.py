"""The estimator: causality, time, what is taken out of the steps, and lanes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen import estimator
from models.chatterbox.s3gen.estimator import Estimator
from models.native import kernels
from tests.models.chatterbox.s3gen.flow_builder import SMALL, arrays, distance, flow, loaded, normal

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


def test_the_first_block_is_given_everything_side_by_side() -> None:
    """conv1 and the linear map of noise | mu | speaker | prompt, in double precision."""
    own, official, frames = flow().estimator, arrays(flow().config), 6
    x, mu, speaker, prompt = normal(0, 1, frames, 8), normal(1, 1, frames, 8), normal(2, 1, 8), normal(3, 1, frames, 8)
    start, end = own.condition(mu, speaker, prompt)
    resnet = own.down_block.resnet
    found = resnet.block1.conv.pieces([x], HERE, [start])[0], x @ resnet.res_conv.weight.T + end
    parts = (x[0], mu[0], mx.broadcast_to(speaker, (frames, 8)), prompt[0])
    wide = np.concatenate([np.array(a, np.float64) for a in parts], axis=1)
    padded = np.pad(wide, ((2, 0), (0, 0)))
    name = "flow.decoder.estimator.down_blocks.0.0"
    weight, bias = (np.array(official[f"{name}.block1.block.0.{leaf}"], np.float64) for leaf in ("weight", "bias"))
    conv = np.stack([np.einsum("oik,ki->o", weight, padded[n : n + 3]) for n in range(frames)]) + bias
    weight, bias = (np.array(official[f"{name}.res_conv.{leaf}"], np.float64) for leaf in ("weight", "bias"))
    assert distance(found[0], conv[None]) < CLOSE
    assert distance(found[1], (wide @ weight[:, :, 0].T + bias)[None]) < CLOSE


def test_no_condition_is_one_of_zeros() -> None:
    own = flow().estimator
    zeros = own.condition(mx.zeros((2, 7, 8)), mx.zeros((2, 8)), mx.zeros((2, 7, 8)))
    for found, wanted in zip(own.unconditioned(2, 7), zeros, strict=True):
        assert distance(found, wanted) < 1e-6


@pytest.mark.parametrize("variant", ["english", "turbo"])
def test_times(variant: str) -> None:
    """sin and cos of 1000 t, two layers with SiLU, the mean flow's mixer, and each block's layer after Mish."""
    official = {name: np.array(array, np.float64) for name, array in arrays(flow(variant).config).items()}
    name = "flow.decoder.estimator"
    starts, ends = np.array([0.0, 0.25, 0.5], np.float32), np.array([0.25, 0.5, 1.0], np.float32)

    def linear(x: np.ndarray, layer: str) -> np.ndarray:
        return x @ official[f"{name}.{layer}.weight"].T + official[f"{name}.{layer}.bias"]

    def embedded(times: np.ndarray) -> np.ndarray:
        phase = 1000.0 * times[:, None] * np.exp(-math.log(10_000) / 15 * np.arange(16))
        x = linear(np.concatenate([np.sin(phase), np.cos(phase)], axis=1), "time_mlp.linear_1")
        return linear(x / (1 + np.exp(-x)), "time_mlp.linear_2")

    x = embedded(starts)
    if variant == "turbo":
        x = np.concatenate([x, embedded(ends)], axis=1) @ official[f"{name}.time_embed_mixer.weight"].T
    x = x * np.tanh(np.logaddexp(x, 0))
    blocks = ["down_blocks.0", "mid_blocks.0", "mid_blocks.1", "up_blocks.0"]
    wanted = np.stack([linear(x, f"{block}.0.mlp.1") for block in blocks], axis=1)
    assert distance(flow(variant).estimator.times(starts, ends), wanted) < 1e-4  # phases of 1000 in single precision


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
