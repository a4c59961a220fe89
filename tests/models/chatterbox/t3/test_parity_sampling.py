"""Processor by processor against transformers, which the reference uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.t3 import sampling
from tests.parity import sample_or_all

pytestmark = pytest.mark.parity

SIZES = [(1, 8194), (3, 6563), (2, 17)]


def sized(*values: float) -> list[tuple[tuple[int, int], float]]:
    """Each of `values` with one of SIZES in turn, and with `PARITY=full` with each of them."""
    return sample_or_all(list(zip(cycle(SIZES), values, strict=False)), list(product(SIZES, values)))


def scores(shape: tuple[int, int], seed: int) -> np.ndarray:
    return (np.random.RandomState(seed).standard_normal(shape) * 4).astype(np.float32)


def compare(ours: mx.array, theirs: np.ndarray) -> None:
    found = np.array(ours)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(theirs))
    kept = np.isfinite(theirs)
    np.testing.assert_allclose(found[kept], theirs[kept], rtol=1e-6)
    assert kept.any(-1).all()


@pytest.mark.parametrize(("shape", "penalty"), sized(1.0, 1.2, 3.0))
def test_repetition_penalty(shape: tuple[int, int], penalty: float) -> None:
    """Each token once, however often it came."""
    import torch
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    x = scores(shape, 1)
    said = np.random.RandomState(2).randint(0, shape[1], (shape[0], 60))
    said[:, 1] = said[:, 0]
    theirs = RepetitionPenaltyLogitsProcessor(penalty)(torch.from_numpy(said), torch.from_numpy(x)).numpy()
    seen = np.zeros(shape, bool)
    np.put_along_axis(seen, said, True, axis=1)
    compare(sampling.penalize(mx.array(x), mx.array(seen), mx.array(penalty)), theirs)


# The name in transformers -> ours, and the seed of the scores.
WARPERS: dict[str, tuple[Callable[[mx.array, Any], mx.array], int]] = {
    "MinP": (lambda x, least: sampling.keep_min_p(x, mx.array(math.log(least) if least else -math.inf)), 3),
    "TopP": (lambda x, share: sampling.keep_top_p(x, mx.array(share, dtype=mx.float32)), 4),
    "TopK": (sampling.keep_top_k, 5),
}
VALUES = {"MinP": (0.0, 0.05, 0.5, 1.0), "TopP": (0.01, 0.3, 0.8, 0.95, 0.999), "TopK": (1, 5, 1000, 10_000)}


@pytest.mark.parametrize(
    ("name", "shape", "value"), [(name, *case) for name, values in VALUES.items() for case in sized(*values)]
)
def test_what_is_kept(name: str, shape: tuple[int, int], value: float) -> None:
    import torch
    from transformers.generation import logits_process

    ours, seed = WARPERS[name]
    x = scores(shape, seed)
    warper = getattr(logits_process, f"{name}LogitsWarper")(value)
    compare(ours(mx.array(x), value), warper(torch.zeros(1, 0), torch.from_numpy(x)).numpy())
