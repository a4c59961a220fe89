"""The reference's HiFT vocoder at full size on random weights. Needs torch: import inside parity tests only.

Noise and starting phases are given instead of drawn. Weights are such that every parameter matters and signals keep
a sound level: gains, biases and Snake's alphas are random (their defaults hide wiring bugs), pitch varies around 150 Hz
with unvoiced frames between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from tests.models.chatterbox import reference_packages  # noqa: F401  (makes the package importable)

HARMONICS = 8
SAMPLES_PER_FRAME = 480


def reference_vocoder(seed: int) -> Any:
    """HiFTGenerator as S3Gen builds it, evaluating, with random weights."""
    from chatterbox.models.s3gen.f0_predictor import ConvRNNF0Predictor
    from chatterbox.models.s3gen.hifigan import HiFTGenerator

    network = HiFTGenerator(
        sampling_rate=24_000,
        upsample_rates=[8, 5, 3],
        upsample_kernel_sizes=[16, 11, 7],
        source_resblock_kernel_sizes=[7, 7, 11],
        source_resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        f0_predictor=ConvRNNF0Predictor(),
    ).eval()
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in network.named_parameters():
            if name.endswith("alpha"):
                p.copy_(torch.rand(p.shape, generator=rng) * 1.5 + 0.3)
            elif name.endswith("bias"):
                p.copy_(0.05 * torch.randn(p.shape, generator=rng))
            elif name.endswith("original0"):
                spread, least = (0.5, 0.5) if "ups" in name else (0.4, 0.3)
                p.copy_(torch.rand(p.shape, generator=rng) * spread + least)
            else:
                p.copy_(torch.randn(p.shape, generator=rng) / p[0].numel() ** 0.5)
        predictor = network.f0_predictor
        for index in range(0, 10, 2):
            predictor.condnet[index].parametrizations.weight.original0.mul_(2.0)
        predictor.classifier.weight.mul_(150.0)
        predictor.classifier.bias.fill_(90.0)
        network.m_source.l_linear.weight.copy_(0.4 * torch.randn(1, HARMONICS + 1, generator=rng))
        network.conv_post.parametrizations.weight.original0.mul_(0.6)
    return network


def official(network: Any) -> dict[str, torch.Tensor]:
    """The state dict under the names of s3gen.safetensors."""
    return {f"mel2wav.{name}": value.contiguous() for name, value in network.state_dict().items()}


def inputs(frames: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A mel that moves like speech [1, F, 80], phases [9] in radians, noise on the harmonics [samples, 9]."""
    rng = np.random.RandomState(seed)
    slow = np.repeat(rng.standard_normal((frames // 6 + 2, 80)), 6, axis=0)[:frames]
    mel = (-4 + 2 * slow + 0.5 * rng.standard_normal((frames, 80))).astype(np.float32)[None]
    phases = np.concatenate([[0], rng.uniform(-np.pi, np.pi, HARMONICS)]).astype(np.float32)
    noise = rng.standard_normal((frames * SAMPLES_PER_FRAME, HARMONICS + 1)).astype(np.float32)
    return mel, phases, noise


@contextmanager
def given(phases: np.ndarray, noise: np.ndarray) -> Iterator[None]:
    """Within the context the source draws these phases and this noise."""
    from chatterbox.models.s3gen import hifigan

    drawn, original = torch.from_numpy(noise.T.copy())[None], torch.randn_like

    class Phases:
        def __init__(self, low: float, high: float) -> None:
            assert (low, high) == (-np.pi, np.pi)

        def sample(self, sample_shape: tuple[int, ...]) -> torch.Tensor:
            assert tuple(sample_shape) == (1, len(phases), 1)
            return torch.from_numpy(phases.copy()).reshape(sample_shape)

    uniform = hifigan.Uniform
    hifigan.Uniform = Phases
    torch.randn_like = lambda like, **options: (
        drawn.to(like) if like.shape == drawn.shape else original(like, **options)
    )
    try:
        yield
    finally:
        hifigan.Uniform, torch.randn_like = uniform, original


def excite(network: Any, f0: np.ndarray, phases: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The source of f0 [1, F] -> [1, samples], its phases summed in double precision instead of single."""
    source = network.m_source.double()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), given(phases, noise):
            up = network.f0_upsamp(torch.from_numpy(f0).double()[:, None]).transpose(1, 2)
            found, _, _ = source(up)
    finally:
        torch.set_default_dtype(torch.float32)
        network.m_source.float()
    return found[:, :, 0].float().numpy()
