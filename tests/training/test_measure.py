"""Measures of speech."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.measure import dbfs, levels_of, log_spectral_distance, pauses, word_errors, words_of

WORDS = st.lists(st.sampled_from("abcd"), max_size=8)


@pytest.mark.parametrize(
    ("spoken", "heard", "errors"),
    [
        ("the cat sat", "the cat sat", 0),
        ("the cat sat", "the mat sat", 1),
        ("the cat sat", "cat sat", 1),
        ("the cat sat", "the the cat sat down", 2),
        ("the cat sat", "", 3),
        ("", "the cat", 2),
    ],
)
def test_word_errors(spoken: str, heard: str, errors: int) -> None:
    assert word_errors(spoken.split(), heard.split()) == errors


@given(WORDS, WORDS)
def test_word_errors_are_a_distance(one: list[str], other: list[str]) -> None:
    errors = word_errors(one, other)
    assert errors == word_errors(other, one)
    assert (errors == 0) == (one == other)
    assert abs(len(one) - len(other)) <= errors <= max(len(one), len(other))


def test_words_lose_case_and_punctuation_but_not_apostrophes() -> None:
    assert words_of("Please, don’t STOP—it's late!") == ["please", "don't", "stop", "it's", "late"]


def test_levels() -> None:
    rate = 24000
    tone = (0.5 * np.sin(2 * np.pi * 200 * np.arange(rate) / rate)).astype(np.float32)
    assert dbfs(tone) == pytest.approx(-9.03, abs=0.01)
    assert dbfs(np.zeros(10, np.float32)) == -120
    assert dbfs(np.zeros(0, np.float32)) == -120
    found = levels_of([tone, tone + 0.01], [np.full(50, 0.001, np.float32)])
    assert found.peak == pytest.approx(0.51, abs=1e-3)
    assert found.dc == pytest.approx(0.01, abs=1e-4)
    assert found.clipped == 0
    assert found.pause_loudest == pytest.approx(-60, abs=0.01)
    assert levels_of([tone * 2], []).clipped > 0


def test_pauses_are_the_lead_and_the_inner_punctuation() -> None:
    rate = 1000
    audio = np.arange(2000, dtype=np.float32)
    phonemes = "a, b."
    found = pauses(audio, rate, phonemes, [0.5, 0.9, 1.0, 1.4, 2.0])
    assert len(found) == 2
    assert found[0].tolist() == audio[:100].tolist()
    assert found[1].tolist() == audio[600:800].tolist()


def test_a_comma_without_a_pause_is_none() -> None:
    assert len(pauses(np.zeros(2000, np.float32), 1000, "a, b.", [0.5, 0.55, 1.0, 1.4, 2.0])) == 1


def test_log_spectral_distance_of_a_louder_signal_is_its_gain() -> None:
    audio = np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    assert log_spectral_distance(audio, audio) == 0
    assert log_spectral_distance(audio, 2 * audio) == pytest.approx(20 * np.log10(2), abs=0.01)
    with pytest.raises(ValueError, match="24000 and 23999 samples"):
        log_spectral_distance(audio, audio[:-1])
