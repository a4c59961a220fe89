"""The network's parts on a tiny random checkpoint, where other ports went wrong; and the ids that it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.backend import mx
from models.kokoro import source
from models.kokoro.network import Kokoro
from models.kokoro.text import tokenize
from models.layers import adain
from models.layers.kernels import agreement
from models.layers.kernels.device import Device
from models.native import kernels as native
from tests.golden.layer_cases import ATTENTION
from tests.models.emulator import DEVICES, launcher
from tests.models.kokoro.builder import TINY, build, official_arrays, tiny_config, to_mx, voice_pack
from tests.models.kokoro.house import decode, distance, prosody
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    return official_arrays(TINY, seed=5)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]) -> Kokoro:
    return build(tiny_config(tmp_path_factory.mktemp("config")), to_mx(arrays))


@pytest.mark.parametrize("length", [1, 2, 9, 31])
def test_padding_changes_nothing_before_the_decoder(network: Kokoro, length: int) -> None:
    """Traps: attention to padding, statistics over padding, the backward LSTM begun in the padding."""
    ids = [0, *np.random.RandomState(length).randint(1, 20, length).tolist(), 0]
    style, frames = voice_pack(TINY, 0, 1), np.random.RandomState(0).randint(1, 5, length + 2)
    exact, padded = (prosody(network, ids, style, frames, padded=how) for how in (False, True))
    for name, a, b in zip(("durations", "F0", "energy", "text"), padded, exact, strict=True):
        assert distance(a, b) < 1e-5, name


def decoder_inputs(frames: int = 30) -> tuple[np.ndarray, ...]:
    """Text [1, F, 16], F0 and energy [2F], a style and noise, for `decode`."""
    rng = np.random.RandomState(0)
    text = rng.standard_normal((1, frames, 16)).astype(np.float32)
    f0, energy = (rng.uniform(low, high, 2 * frames).astype(np.float32) for low, high in ((90, 200), (-1, 1)))
    return text, f0, energy, voice_pack(TINY, 1, 1), rng.standard_normal(600 * frames).astype(np.float32)


@pytest.mark.parametrize(("frames", "bucket"), [(2, 100), (7, 8), (30, 31), (41, 100), (90, 91)])
def test_padding_changes_nothing_in_the_decoder(network: Kokoro, frames: int, bucket: int) -> None:
    """Given equal F0; the padding holds rubbish. Lengths on both sides of where the CPU splits the time axis."""
    given = decoder_inputs(frames)
    exact = decode(network, *given)
    assert exact.shape == (600 * frames,)
    assert distance(decode(network, *given, bucket), exact) < 1e-4


def test_parts_of_the_time_axis_join_without_a_seam(network: Kokoro, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU residual blocks are computed in as many parts as there are cores: one, two or five give one result."""
    stream = mx.default_stream(mx.default_device())
    found = []
    for parts in (1, 2, 5):
        monkeypatch.setattr("models.layers.vocoder.cpu_streams", lambda count=parts: [stream] * count)
        found.append(decode(network, *decoder_inputs(40)))
    assert distance(found[1], found[0]) < 1e-5
    assert distance(found[2], found[0]) < 1e-5


@pytest.mark.parametrize("bucket", [None, 31])
def test_wider_blocks_give_the_same(
    tmp_path: Path, network: Kokoro, arrays: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch, bucket: int | None
) -> None:
    """A GPU's decoder joins its inputs by sums: its blocks have more channels, and the new ones are zero."""
    given = decoder_inputs()
    plain = decode(network, *given, bucket)
    monkeypatch.setattr(native, "module", lambda: None)
    monkeypatch.setattr("models.kokoro.network.on_cpu", lambda: False)
    wide = build(tiny_config(tmp_path), to_mx(arrays))
    assert [block.norm1.fc.bias.size // 2 for block in (wide.decoder.encode, *wide.decoder.decode)] == [56] + [64] * 4
    assert distance(decode(wide, *given, bucket), plain) < 1e-4
    wide.lower()
    assert distance(decode(wide, *given, bucket), plain) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_a_gpu_of_either_kind_runs_its_kernels(
    device: Device, tmp_path: Path, arrays: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emulated one: the kernels agree with plain operations when they are first wanted, and then make the audio."""
    monkeypatch.setattr(native, "module", lambda: None)
    network = build(tiny_config(tmp_path), to_mx(arrays))
    given = decoder_inputs(5)
    plain, seen = decode(network, *given, 7), []
    monkeypatch.setattr(agreement, "gpu", lambda: device)
    monkeypatch.setattr(agreement, "_found", {})
    for module in (adain, source):
        monkeypatch.setattr(module, "launch", launcher(device, seen=seen))
    assert distance(decode(network, *given, 7), plain) < 1e-4
    assert {each.name: each.used for each in agreement.report()} == {
        "AdaIN's kernels (float32)": True,
        "the harmonic source's kernel": True,
    }
    assert seen.count("nightingale_harmonics") == 2
    assert seen.count("nightingale_adain_whole") > 20


@pytest.mark.parametrize("extra", [0, 6])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_equals_torch(name: str, extra: int) -> None:
    """Padded keys count for nothing, however many."""
    assert checks.attention(ATTENTION[name], golden("attention", name), extra) < TOLERANCE


LETTERS = {"a": 5, "b": 6, " ": 16}


def test_boundaries_and_places() -> None:
    assert tokenize("ab a", LETTERS, 10) == ([0, 5, 6, 16, 5, 0], [1, 2, 3, 4])


def test_unknown_characters_are_dropped_and_share_the_place_before() -> None:
    """Before the first known one that is the opening boundary."""
    assert tokenize("?a?!b", LETTERS, 10) == ([0, 5, 6, 0], [0, 1, 1, 1, 2])
