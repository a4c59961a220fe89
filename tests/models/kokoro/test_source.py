"""The harmonic source's kernel, on an emulated GPU of either kind, against plain operations."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.kokoro import source
from models.layers.kernels.device import Device
from tests.models.emulator import DEVICES, launcher

pytestmark = pytest.mark.slow
proof = pytest.mark.proof


def worst(steps: int, counts: tuple[int, ...], size: int, f0: float = 150) -> float:
    """The largest difference on valid steps, of a signal whose unit is 1."""
    batch, rng = len(counts), np.random.RandomState(steps)
    pitch = mx.array(np.maximum(rng.normal(f0, 60, (batch, steps)), 0).astype(np.float32))
    pitch = pitch * mx.array((rng.uniform(0, 1, (batch, steps)) > 0.2).astype(np.float32))
    noise = mx.array(rng.standard_normal((batch, steps * size)).astype(np.float32))
    weight = mx.array(rng.uniform(-0.5, 0.5, (1, 9)).astype(np.float32))
    arguments = (pitch, noise, mx.array(counts)[:, None], weight, mx.array([0.03]), size)
    found, wanted = (np.array(of(*arguments)) for of in (source.harmonics_kernel, source.harmonics_reference))
    return max(float(np.abs(found[b, : n * size] - wanted[b, : n * size]).max()) for b, n in enumerate(counts))


@pytest.mark.parametrize(
    ("device", "backward", "steps", "counts", "size"),
    [
        ("cuda", False, 13, (13, 4, 1), 300),
        ("metal", True, 13, (13, 4, 1), 300),
        pytest.param("cuda", True, 1, (1,), 300, marks=proof),
        pytest.param("metal", True, 300, (300,), 6, marks=proof),
    ],
)
def test_kernel_equals_plain_operations(
    device: Device, backward: bool, steps: int, counts: tuple[int, ...], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phases agree to the last bits, after more steps than a block has threads too; the rest is the sines' rounding."""
    monkeypatch.setattr(source, "launch", launcher(device, backward=backward))
    assert worst(steps, counts, size) < 2e-6


@proof
@pytest.mark.parametrize("device", DEVICES)
def test_random_shapes(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "launch", launcher(device))
    rng = np.random.RandomState(0)
    for _ in range(6):
        steps = int(rng.randint(1, 40))
        counts = tuple(int(each) for each in rng.randint(1, steps + 1, rng.randint(1, 4)))
        assert worst(steps, counts, 300, f0=float(rng.uniform(50, 500))) < 5e-6, (steps, counts)
