"""Every layer against live PyTorch on random shapes (`make parity`)."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from tests.golden import layer_cases
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE
from tests.parity import sample_or_all

pytestmark = pytest.mark.parity

SEEDS = range(sample_or_all(5, 25))


@pytest.fixture
def reference(request: pytest.FixtureRequest) -> ModuleType:
    """PyTorch's layers, seeded by the test's own seed."""
    import torch

    from tests.golden import torch_layers

    torch.manual_seed(request.node.callspec.params["seed"])
    return torch_layers


@pytest.mark.parametrize("seed", SEEDS)
def test_conv(reference: ModuleType, seed: int) -> None:
    case = layer_cases.random_conv(random.Random(seed))
    assert checks.conv(case, reference.conv(case)) < TOLERANCE, case


@pytest.mark.parametrize("seed", SEEDS)
def test_transposed(reference: ModuleType, seed: int) -> None:
    case = layer_cases.random_transposed(random.Random(seed))
    assert checks.transposed(case, reference.transposed(case)) < TOLERANCE, case


@pytest.mark.parametrize("seed", SEEDS)
def test_lstm(reference: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    case = layer_cases.Lstm(rng.randint(1, 40), rng.randint(1, 30), layer_cases.random_lengths(rng, 30))
    assert checks.lstm(case, reference.lstm(case), rng.randint(0, 9)) < TOLERANCE, case


@pytest.mark.parametrize("seed", SEEDS)
def test_adain(reference: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    # Over one row the variance is zero and the result beta; over few, rounding shows.
    lengths = tuple(n + 3 for n in layer_cases.random_lengths(rng, 300))
    case = layer_cases.Adain(rng.randint(1, 40), lengths, rng.uniform(-2, 2))
    assert checks.adain_layer(case, reference.adain(case), rng.randint(0, 99)) < 1e-5, case


@pytest.mark.parametrize("seed", SEEDS)
def test_attention(reference: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    heads = rng.randint(1, 6)
    case = layer_cases.Attention(heads * rng.randint(1, 16), heads, layer_cases.random_lengths(rng, 60))
    assert checks.attention(case, reference.attention(case), rng.randint(0, 9)) < TOLERANCE, case


@pytest.mark.parametrize("seed", SEEDS)
def test_stft(reference: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    case, extra = layer_cases.Stft(4 * rng.randint(2, 16), rng.randint(3, 200)), rng.choice([0, 1, 50])
    magnitude, phase, ends = checks.analysis(case, reference.analysis(case), extra)
    assert magnitude < TOLERANCE, case
    assert phase < 2e-4, case
    assert ends < 1e-6, case
    assert checks.synthesis(case, reference.synthesis(case), extra) < TOLERANCE, case
