"""HiFT at full size against the reference package, on shared random weights (`make parity`).

Compared, with the same noise and phases: pitch; the excitation of the reference's pitch; the waveform of the
reference's mel and excitation; and the waveform end to end. The reference adds phase up in float32: its excitation is
compared with its phases summed in double precision (`pytest -s` prints how far its own float32 is from them).
Roundings of pitch add up to phase without bound, and differ between processors. So pitch has a bound of its own, and
end to end the reference continues from our pitch: then both sum the same frequencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import VocoderConfig
from models.chatterbox.s3gen.vocoder import Carried, HiFT, Vocoder
from models.chatterbox.s3gen.weights import load_vocoder
from models.checkpoint import read_arrays
from tests.models.chatterbox.s3gen.narrow import fixed_point
from tests.parity import sample_or_all

pytestmark = [pytest.mark.parity, pytest.mark.timeout(1_200)]

PITCH, WAVEFORM = 1e-4, 1e-3
FRAMES = sample_or_all([1, 7, 50, 101], [1, 2, 7, 24, 50, 101, 204])


@pytest.fixture(scope="module")
def reference() -> Any:
    from tests.models.chatterbox.s3gen.reference_hift import reference_vocoder

    return reference_vocoder(1)


@pytest.fixture(scope="module")
def checkpoint(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    from safetensors.torch import save_file

    from tests.models.chatterbox.s3gen.reference_hift import official

    path = tmp_path_factory.mktemp("official") / "s3gen.safetensors"
    save_file(official(reference), path)
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def ours(checkpoint: Path) -> HiFT:
    network = HiFT(VocoderConfig(), 80)
    load_vocoder(network, read_arrays(checkpoint), str(checkpoint))
    return network


def distance(ours: Any, reference: np.ndarray) -> float:
    """|ours - reference| / |reference|, shapes equal."""
    found = np.asarray(ours, dtype=np.float64)
    assert found.shape == reference.shape
    return float(np.linalg.norm(found - reference) / np.linalg.norm(reference))


def merged(network: HiFT, noise: np.ndarray) -> mx.array:
    """The unit normal that the noise on nine harmonics is after the merge, a frame a row."""
    weight = np.array(network.m_source.l_linear.weight)[0]
    return mx.array((noise @ weight / np.linalg.norm(weight)).astype(np.float32).reshape(1, -1, 480))


@pytest.mark.parametrize("frames", FRAMES)
def test_full_size(reference: Any, ours: HiFT, frames: int) -> None:
    import torch

    from tests.models.chatterbox.s3gen.reference_hift import excite, given, inputs

    mel, phases, noise = inputs(frames, seed=frames)
    turned = torch.from_numpy(mel).transpose(1, 2).contiguous()
    with torch.no_grad(), given(phases, noise):
        f0 = reference.f0_predictor(turned).numpy()
        wave, source = reference.inference(turned)
    source = source[:, 0].numpy()
    exact = excite(reference, f0, phases, noise)
    words, unit = fixed_point(mx.array(phases)), merged(ours, noise)
    pitch = np.array(ours.f0_predictor(mx.array(mel), _everything()))
    with torch.no_grad():
        exactly = reference.decode(turned, torch.from_numpy(exact)[:, None]).numpy()
        onward = torch.from_numpy(excite(reference, pitch, phases, noise))[:, None]
        continued = reference.decode(turned, onward).numpy()

    pcm, _, turns = ours(mx.array(mel), words, unit)
    assert turns.shape == (1, frames + 1)
    made, _ = ours.m_source(mx.array(f0), words, unit)
    valid = f0 > 10
    errors = {
        "F0": distance(pitch, f0),
        "source": distance(made, exact),
        "decoder": distance(ours.decode(mx.array(mel), mx.array(source)), wave.numpy()),
        "end to end": distance(pcm, continued),
    }
    rounding = distance(wave.numpy(), exactly)
    shown = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    print(f"\n{frames} frames, {valid.mean():.0%} voiced: {shown}; the reference in float32 {rounding:.1e}")
    assert errors["F0"] < PITCH, shown
    assert errors["source"] < WAVEFORM, shown
    assert errors["decoder"] < WAVEFORM, shown
    assert errors["end to end"] < WAVEFORM, shown
    level = np.sqrt(np.mean(exactly**2))
    assert 0.01 < level < 0.7, "a silent or clipped reference would compare to anything"
    assert frames < 20 or 0.2 < valid.mean() < 0.98, "voiced and unvoiced frames must both occur"


def _everything() -> Any:
    from models.layers.conv import PaddingMask

    return PaddingMask()


def test_carried_source_as_the_reference_does(reference: Any, ours: HiFT) -> None:
    """`cache_source` replaces the beginning of the excitation; phases go on as if it had been made there."""
    import torch

    from tests.models.chatterbox.s3gen.reference_hift import excite, given, inputs

    frames, known = 40, 8
    mel, phases, noise = inputs(frames, seed=5)
    cached = 0.1 * np.random.RandomState(6).standard_normal((1, known * 480)).astype(np.float32)
    turned = torch.from_numpy(mel).transpose(1, 2).contiguous()
    with torch.no_grad(), given(phases, noise):
        f0 = reference.f0_predictor(turned).numpy()
        _, source = reference.inference(turned, torch.from_numpy(cached)[:, None])

    def replaced(pitch: np.ndarray) -> np.ndarray:
        """The reference's excitation of this pitch, its beginning replaced."""
        return np.concatenate([cached, excite(reference, pitch, phases, noise)[:, known * 480 :]], axis=1)

    assert distance(source[:, 0].numpy(), replaced(f0)) < WAVEFORM
    expected = replaced(np.array(ours.f0_predictor(mx.array(mel), _everything())))
    with torch.no_grad():
        wave = reference.decode(turned, torch.from_numpy(expected)[:, None])
    words, unit = fixed_point(mx.array(phases)), merged(ours, noise)
    whole = Vocoder(ours)(mx.array(mel), words, unit)
    carried = Carried(mx.array(cached), whole.turns[:, known : known + 1])
    spoken = Vocoder(ours)(mx.array(mel), words, unit[:, known:], carried)
    assert distance(spoken.source, expected) < WAVEFORM
    assert distance(spoken.pcm, wave.numpy()) < WAVEFORM
    assert distance(spoken.pcm, np.array(whole.pcm)) > 10 * WAVEFORM, "the carried source must be heard"


@pytest.mark.parametrize("frames", [1, 30, 77])
def test_padded_to_a_bucket(ours: HiFT, frames: int) -> None:
    """Padding, as on a GPU, changes only roundings (of pitch, so of phase: 1e-4 of a turn)."""
    from tests.models.chatterbox.s3gen.reference_hift import inputs

    mel, phases, noise = inputs(frames, seed=frames)
    words, unit = fixed_point(mx.array(phases)), merged(ours, noise)
    plain = Vocoder(ours, padded=False)(mx.array(mel), words, unit)
    padded = Vocoder(ours, padded=True)(mx.array(mel), words, unit)
    assert distance(padded.pcm, np.array(plain.pcm)) < 1e-4
    assert padded.turns.shape == plain.turns.shape
    assert np.abs((np.array(padded.turns) - np.array(plain.turns)).view(np.int32)).max() < 1e-4 * 2**32
