"""Kokoro-82M at full size against the reference package, on shared random weights (`make parity`).

The reference is ill-conditioned in its harmonic source: phase reaches thousands of radians in float32, so that a
relative difference of 1e-6 in F0 moves the phase of near-silent STFT bins across +-pi. The reference in float32 differs
from itself in float64 by 8e-2 relative. So durations (identical), F0 and energy (1e-4) are compared end to end, and the
waveform (1e-3) for the decoder given the reference's own text features, F0 and energy and the same noise; the
difference of the waveforms end to end is printed (`pytest -s`), not judged.

Even then a bin whose phase is within rounding of pi may come out at the other end of (-pi, pi], and one of no magnitude
at any angle; the network, which reads the phase as a number, hears that: a bin in a hundred thousand, 1e-2 of the
waveform. Such bins are counted, must be rare, and get the reference's phase before the waveforms are compared.

The noise is one merged normal a sample: noise9 @ l_linear.weight. The STFT's first frame has the imaginary part +0 on
both sides (see `reference`). Weights go through files as the official ones do: torch.save of five state dicts with
`module.` prefixes, and a folder of voices.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from loadtest.official import KOKORO
from models.backend import mx
from models.contract import ModelSpec
from models.kokoro.pipeline import KokoroSynthesizer, load
from models.kokoro.voices import style
from models.layers.vocoder import Stft
from models.timeline import Timeline
from tests.models.kokoro.house import HOUSE, UTTERANCES, VOICES, decode, distance, house, prosody, style_row, tokens
from tests.parity import sample_or_all

if TYPE_CHECKING:
    from tests.models.kokoro.reference import Reference, Spoken

pytestmark = [pytest.mark.parity, pytest.mark.timeout(2_400)]

CURVES, WAVEFORM = 1e-4, 1e-3

# Phonemes, and speeds: long inputs are spoken fast, to bound the time of two processors.
INPUTS = sample_or_all(
    [(1, 1.0), (14, 1.0), (62, 2.0), (126, 4.0), (510, 4.0)],
    [
        *((n, 1.0) for n in (1, 2, 3, 4, 5, 7, 9, 12, 14, 17, 21, 26, 30)),
        *((n, 2.0) for n in (38, 50, 62, 63, 90)),
        *((n, 4.0) for n in (126, 180, 255, 510)),
    ],
)


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    import torch

    from tests.models.kokoro.reference import Reference

    threads = torch.get_num_threads()
    torch.manual_seed(0)
    found = Reference(KOKORO)
    found.randomize(seed=1)
    yield found
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def ours(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> KokoroSynthesizer:
    """Loaded from a .pth of 82 million weights and a folder of .pt voices."""
    import torch

    folder: Path = tmp_path_factory.mktemp("official")
    vocab = json.loads((HOUSE / "config.json").read_text(encoding="utf-8"))["vocab"]
    (folder / "config.json").write_text(json.dumps({**KOKORO, "vocab": vocab}), encoding="utf-8")
    state = reference.official()
    assert 80e6 < sum(array.numel() for part in state.values() for array in part.values()) < 84e6
    torch.save(state, folder / "kokoro-v1_0.pth")
    (folder / "voices").mkdir()
    generator = torch.Generator().manual_seed(2)
    for voice in ("af_heart", "bm_george"):
        torch.save(torch.randn(510, 1, 256, generator=generator) * 0.5, folder / f"voices/{voice}.pt")
    files = {"config": "config.json", "weights": "kokoro-v1_0.pth", "voices": "voices"}
    model = load(ModelSpec("kokoro-82m", "kokoro", {role: str(folder / name) for role, name in files.items()}))
    (folder / "kokoro-v1_0.pth").unlink()
    assert [voice.id for voice in model.voices] == ["af_heart", "bm_george"]
    return model


class Branches:
    """Within the context, phases far from the reference's are replaced by its own, and counted.

    Far is 0.01 or more: a whole turn at the cut, half a turn at a real bin (DC, Nyquist) that is zero but for rounding.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, phase: np.ndarray) -> None:
        self.turned, self.bins, original = 0, phase.size, Stft.analyze
        expected = phase.swapaxes(1, 2)

        def analyze(stft: Stft, x: mx.array, samples: mx.array | None = None) -> mx.array:
            magnitude, found = mx.split(original(stft, x, samples), 2, axis=2)
            far = np.abs(np.array(found) - expected) > 0.01
            self.turned = int(np.count_nonzero(far))
            return mx.concatenate([magnitude, mx.where(mx.array(far), mx.array(expected), found)], axis=2)

        monkeypatch.setattr(Stft, "analyze", analyze)


def compare(
    model: KokoroSynthesizer,
    spoken: Spoken,
    ids: list[int],
    row: np.ndarray,
    speed: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours against what the reference computed from the same tokens and style row."""
    network = model.network
    expected, f0, energy, _ = prosody(network, ids, row, durations=spoken.durations)
    scaled = np.concatenate([expected[:1], expected[1:-1] / np.float32(speed), expected[-1:]])
    assert np.maximum(np.rint(scaled), 1).tolist() == spoken.durations.tolist()
    merged = spoken.noise @ np.array(network.decoder.generator.m_source.l_linear.weight)[0]
    text = np.ascontiguousarray(spoken.text.swapaxes(1, 2))
    with monkeypatch.context() as patch:
        branches = Branches(patch, spoken.phase)
        given = decode(network, text, spoken.f0, spoken.energy, row, merged)
    pcm, frames = model.synthesize(ids, row, speed, 0, Timeline(), lambda: False, noise=merged)
    assert frames.tolist() == spoken.durations.tolist()
    errors = {
        "F0": distance(f0, spoken.f0),
        "energy": distance(energy, spoken.energy),
        "waveform": distance(given, spoken.waveform),
    }
    shown = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    whole = f"end to end {distance(pcm, spoken.waveform):.1e}, bins turned {branches.turned} of {branches.bins}"
    print(f"\n{len(ids) - 2} phonemes, {frames.sum()} frames: {shown}, {whole}")
    assert errors["F0"] < CURVES, shown
    assert errors["energy"] < CURVES, shown
    assert errors["waveform"] < WAVEFORM, shown
    assert branches.turned <= 3 + 3e-5 * branches.bins
    assert np.sqrt(np.mean(spoken.waveform**2)) > 1e-3, "a silent reference would compare to anything"


@pytest.mark.parametrize(("count", "speed"), INPUTS)
def test_full_size(
    reference: Reference, ours: KokoroSynthesizer, monkeypatch: pytest.MonkeyPatch, count: int, speed: float
) -> None:
    """Inputs from 1 to 510 phonemes: five lengths, and more than twenty with `PARITY=full`."""
    rng = random.Random(count)
    ids = [0, *(rng.randint(16, 160) for _ in range(count)), 0]
    row = style("af_heart" if count % 2 else "bm_george", ours._packs, count)
    spoken = reference.speak(ids, row, seed=count, speed=speed)
    assert count < 12 or len(set(spoken.durations.tolist())) > 1, "durations all alike would prove little"
    compare(ours, spoken, ids, row, speed, monkeypatch)


@pytest.mark.parametrize("voice", VOICES)
def test_the_house_model(monkeypatch: pytest.MonkeyPatch, voice: str) -> None:
    """Real speech: the house model's weights in the reference's modules."""
    from tests.models.kokoro.reference import house_reference

    reference, _ = house_reference(HOUSE)
    ids, row = tokens(UTTERANCES["morning"]), style_row(voice)
    compare(house(), reference.speak(ids, row, seed=0), ids, row, 1.0, monkeypatch)
