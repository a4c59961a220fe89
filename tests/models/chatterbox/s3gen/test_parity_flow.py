"""S3Gen's encoder, estimator and mel at full size against the reference, on shared random weights (`make parity`).

The noise is given to both. Differences are relative to the reference's root mean square: the largest of any element,
as single-precision sums in another order make it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import ENGLISH, TURBO
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.weights import load_flow
from models.checkpoint import read_arrays
from tests.parity import sample_or_all

torch = pytest.importorskip("torch")
reference = pytest.importorskip("tests.models.chatterbox.s3gen.flow_reference")

pytestmark = [pytest.mark.parity, pytest.mark.timeout(1_200)]

RELATIVE = 1e-4
PROMPT, SPOKEN = 25, 15
VARIANT = "english"  # that of this file; test_parity_flow_turbo.py has the other one


class Pair(NamedTuple):
    """The reference and ours, with one voice and one sentence."""

    reference: Any
    ours: Flow
    prompt: np.ndarray
    tokens: np.ndarray
    prompt_mel: np.ndarray
    speaker: np.ndarray
    noise: np.ndarray


def distance(found: mx.array, wanted: np.ndarray) -> float:
    """Largest difference over the root mean square of `wanted`."""
    scale = float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64))))
    assert scale > 1e-2, "silence would compare to anything"
    assert found.shape == wanted.shape
    return float(np.abs(np.array(found) - wanted).max()) / scale


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    mean_flow = request.module.VARIANT == "turbo"
    theirs = reference.build(mean_flow=mean_flow, seed=3)
    path = tmp_path_factory.mktemp("flow") / "s3gen.safetensors"
    reference.save(theirs, path)
    ours = Flow(TURBO if mean_flow else ENGLISH)
    load_flow(ours, read_arrays(path), str(path))
    path.unlink()
    rng = np.random.default_rng(4)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    prompt, tokens = rng.integers(0, 6561, PROMPT), rng.integers(0, 6561, SPOKEN)
    frames = 2 * (PROMPT + SPOKEN)
    yield Pair(theirs, ours, prompt, tokens, normal(2 * PROMPT, 80), normal(192) * 3, normal(1, frames, 80))


def encoded(pair: Pair) -> np.ndarray:
    """The reference's mu [1, F, mels]."""
    with torch.inference_mode():
        ids = torch.from_numpy(np.concatenate([pair.prompt, pair.tokens]))[None]
        h, _ = pair.reference.encoder(pair.reference.input_embedding(ids), torch.tensor([ids.shape[1]]))
        found: np.ndarray = pair.reference.encoder_proj(h).numpy()
    return found


def test_encoder(pair: Pair) -> None:
    wanted = encoded(pair)
    error = distance(pair.ours.encode(pair.prompt, pair.tokens), wanted)
    early = distance(pair.ours.encode(pair.prompt, pair.tokens, finalize=False), wanted[:, :-6])
    print(f"\nencoder {error:.1e}")
    assert error < RELATIVE
    assert early < RELATIVE


def test_estimator(pair: Pair) -> None:
    """One call, two rows that have nothing in common but the times."""
    rng = np.random.default_rng(5)
    x, mu, cond = (rng.standard_normal((2, 64, 80), dtype=np.float32) for _ in range(3))
    speaker = rng.standard_normal((2, 80), dtype=np.float32)
    start, end = np.array([0.3137], np.float32), np.array([0.7713], np.float32)
    mean_flow = pair.ours.config.flow.mean_flow
    with torch.inference_mode():
        turned = [torch.from_numpy(a.swapaxes(1, 2).copy()) for a in (x, mu, cond)]
        wanted = pair.reference.decoder.estimator(
            x=turned[0],
            mask=torch.ones(2, 1, 64),
            mu=turned[1],
            t=torch.from_numpy(start).repeat(2),
            spks=torch.from_numpy(speaker),
            cond=turned[2],
            r=torch.from_numpy(end).repeat(2) if mean_flow else None,
        ).numpy()
    estimator = pair.ours.estimator
    given = estimator.condition(mx.array(mu), mx.array(speaker), mx.array(cond))
    found = estimator(mx.array(x), given, estimator.times(start, end)[0])
    error = distance(found, wanted.swapaxes(1, 2))
    print(f"\nestimator {error:.1e}")
    assert error < RELATIVE


def test_mel(pair: Pair) -> None:
    """Two of the mean flow's steps; three guided ones, and with `PARITY=full` the model's ten."""
    steps = min(pair.ours.config.flow.steps, sample_or_all(3, 10))
    wanted = reference.mel(pair.reference, pair.prompt, pair.tokens, pair.prompt_mel, pair.speaker, pair.noise, steps)
    mu = pair.ours.encode(pair.prompt, pair.tokens)
    found = pair.ours.solve(mu, *(mx.array(a) for a in (pair.prompt_mel, pair.speaker, pair.noise)), steps)
    error = distance(found, wanted)
    print(f"\nmel, {steps} steps: {error:.1e}")
    assert error < RELATIVE
