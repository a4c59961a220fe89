"""The vocoder on a narrow network: parts, padding, what is carried, limits. test_parity_vocoder.py has its numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen import vocoder as module
from models.chatterbox.s3gen.noise import Draw, frame_noise, random_phases
from models.chatterbox.s3gen.source import PITCH_REACH
from models.chatterbox.s3gen.vocoder import Carried, Spoken, Vocoder
from models.layers.conv import PaddingMask
from tests.models.chatterbox.s3gen import narrow

TOLERANCE = 2e-5  # of the samples' norm: float32 through sixty layers


def distance(ours: mx.array, reference: np.ndarray) -> float:
    found = np.array(ours, dtype=np.float64)
    assert found.shape == reference.shape
    return float(np.linalg.norm(found - reference) / np.linalg.norm(reference))


def speak(vocoder: Vocoder, mel: mx.array, seed: int = 1, carried: Carried | None = None) -> Spoken:
    known = 0 if carried is None else carried.source.shape[1] // 480
    noise = frame_noise(seed, Draw.EXCITATION, known, mel.shape[1] - known, 480)
    return vocoder(mel, random_phases(seed, vocoder.harmonics), noise, carried)


def test_parts_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting the time axis for the lanes and their caches changes no sample beyond rounding."""
    mel, network = narrow.mel(40), narrow.lowered()
    monkeypatch.setattr(module, "_PART_BYTES", 1 << 14)
    cut = speak(Vocoder(network, padded=False), mel)
    monkeypatch.setattr("models.layers.vocoder.MIN_ROWS", 1 << 30)
    assert distance(cut.pcm, np.array(speak(Vocoder(network, padded=False), mel).pcm)) < TOLERANCE


@pytest.mark.parametrize("frames", [1, 31, 32, 57])
@pytest.mark.parametrize("known", [0, 20])
def test_padding_changes_nothing(frames: int, known: int) -> None:
    """As a GPU computes it, with a carried excitation and without."""
    if known >= frames:
        known = frames - 1
    network, mel = narrow.lowered(), narrow.mel(frames)
    carried = None
    if known:
        before = speak(Vocoder(network, padded=False), mel)
        carried = Carried(before.source[:, : known * 480] * 0.5, before.turns[:, known : known + 1])
    plain, padded = (speak(Vocoder(network, padded=padded), mel, carried=carried) for padded in (False, True))
    assert plain.pcm.shape == padded.pcm.shape == (1, frames * 480)
    assert plain.turns.shape == padded.turns.shape == (1, frames - known + 1)
    assert distance(padded.source, np.array(plain.source)) < 1e-3
    assert distance(padded.pcm, np.array(plain.pcm)) < 1e-3
    assert known == 0 or np.array_equal(np.array(padded.source[:, : known * 480]), np.array(carried.source))  # type: ignore[union-attr]


def test_carrying_what_was_made_changes_nothing() -> None:
    vocoder, mel = Vocoder(narrow.lowered()), narrow.mel(40)
    whole = speak(vocoder, mel)
    carried = Carried(whole.source[:, : 15 * 480], whole.turns[:, 15:16])
    again = speak(vocoder, mel, carried=carried)
    assert np.array_equal(np.array(again.source), np.array(whole.source))
    assert np.array_equal(np.array(again.pcm), np.array(whole.pcm))


def test_limits() -> None:
    """Magnitudes are held at 100 before the inverse transform, and samples at 0.99 after it."""
    mel, source, found = narrow.mel(10), mx.zeros((1, 10 * 480)), []
    for logarithm in (math.log(100), 9.0, math.log(90)):
        network = narrow.small()
        network.conv_post.weight = network.conv_post.weight * (mx.arange(18) >= 9)[:, None, None]
        network.conv_post.bias = mx.where(mx.arange(18) < 9, logarithm, network.conv_post.bias)
        network.lower()
        found.append(np.array(network.decode(mel, source)))
    assert np.allclose(found[0], found[1], atol=1e-5)
    assert not np.allclose(found[0], found[2], atol=1e-3)
    assert np.abs(found[1]).max() == pytest.approx(0.99)


@pytest.mark.parametrize("known", [0, 13])
def test_warming_runs_the_shape(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vocoder = Vocoder(narrow.lowered(), padded=True)
    shapes = []
    run = vocoder._run
    monkeypatch.setattr(
        vocoder, "_run", lambda *given: shapes.append([getattr(g, "shape", g) for g in given]) or run(*given)
    )
    vocoder.warm(32, known)
    mel = narrow.mel(30)
    carried = Carried(mx.zeros((1, known * 480)), mx.zeros((1, 1), dtype=mx.uint32)) if known else None
    speak(vocoder, mel, carried=carried)
    assert shapes[0] == shapes[1]


def test_reach_of_the_pitch() -> None:
    """A frame's pitch depends on exactly PITCH_REACH frames on either side."""
    network, mel = narrow.lowered(), np.array(narrow.mel(41))
    changed = mel.copy()
    changed[0, 20] += 1
    differs = np.array(
        network.f0_predictor(mx.array(mel), PaddingMask()) != network.f0_predictor(mx.array(changed), PaddingMask())
    )[0]
    assert np.flatnonzero(differs).tolist() == list(range(20 - PITCH_REACH, 21 + PITCH_REACH))


def test_padding_changes_no_pitch() -> None:
    network, mel = narrow.lowered(), narrow.mel(30)
    padded = mx.concatenate([mel, mx.full((1, 9, narrow.MELS), 7.0)], axis=1)
    found = np.array(network.f0_predictor(padded, PaddingMask.of(mx.array([[[30]]]), 39)))[:, :30]
    assert np.allclose(found, np.array(network.f0_predictor(mel, PaddingMask())), rtol=1e-5, atol=1e-4)
