"""Synthesizers that judge the ear: real voices of espeak-ng and of the house."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from tests.processes import run
from training.ear.speakers import HELD_OUT, RATE, TRAINED, Audio, speaker, trimmed

TEXT = "Where is the train station?"


def said(name: str, seed: int) -> Audio:
    return trimmed(speaker(name)(TEXT, random.Random(seed)))


@pytest.mark.parametrize("name", ["espeak:en-us+f2", "espeak:en-gb-scotland+f2", "house:af_heart"])
def test_a_speaker_speaks(name: str) -> None:
    audio = said(name, 5)
    assert audio.dtype == np.int16
    assert 0.8 < audio.size / RATE < 3.5
    assert np.abs(audio).max() > 3000
    assert said(name, 5).size == audio.size  # espeak-ng's phases are other ones each time
    assert said(name, 6).size != audio.size


@pytest.mark.parametrize("name", [name for name in (*TRAINED, *HELD_OUT) if name.startswith("espeak")])
def test_espeak_has_each_voice(name: str) -> None:
    assert 0.8 < said(name, 5).size / RATE < 3.5


def test_what_is_unknown_is_named() -> None:
    with pytest.raises(ValueError, match="'festival:slt'"):
        speaker("festival:slt")
    with pytest.raises(OSError, match="no voice 'xx-none'"):
        speaker("espeak:xx-none")("Hello.", random.Random(1))


# In a process of its own: two users of one library write over each other's memory.
_TOGETHER = """
import random, threading
from app.text.espeak import get_espeak
from training.ear.speakers import espeak_words
phonemizer, done = get_espeak("fr-fr"), threading.Event()
expected = phonemizer.phonemes("nation")
def phonemize():
    while not done.is_set():
        assert phonemizer.phonemes("nation") == expected
thread = threading.Thread(target=phonemize)
thread.start()
try:
    for number in range(40):
        assert 0 in espeak_words("en-us+f4", "The captain is here.", random.Random(number))[1]
finally:
    done.set()
    thread.join()
"""


def test_the_phonemizer_of_the_product_works_beside_a_speaker() -> None:
    done = run(sys.executable, "-c", _TOGETHER)
    assert (done.returncode, done.stderr) == (0, "")


def test_held_out_speakers_are_never_trained_on() -> None:
    assert not set(TRAINED) & set(HELD_OUT)


def test_silence_at_the_ends_is_cut() -> None:
    audio = np.zeros(RATE * 3, np.int16)
    audio[RATE : RATE * 2] = 1000
    assert abs(trimmed(audio).size - 1.2 * RATE) <= 2
    assert trimmed(audio[:RATE]).size == 0
