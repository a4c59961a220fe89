"""Speech of the ear's texts: real voices of espeak-ng and of the house, and the shards."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from training.ear.record import Job, Utterance, jobs_for, read_shard, speak, trimmed, write_shard
from training.ear.speakers import HELD_OUT, RATE, TRAINED, speaker


@pytest.mark.parametrize("name", ["espeak:en-us+f2", "espeak:en-gb-scotland+f2", "house:slt"])
def test_a_speaker_speaks(name: str) -> None:
    said = speak(Job("Where is the train station?", name, 5))
    assert said is not None
    assert (said.text, said.speaker, said.audio.dtype) == ("Where is the train station?", name, np.int16)
    assert 0.8 < said.audio.size / RATE < 3.5
    assert np.abs(said.audio).max() > 3000
    again = speak(Job("Where is the train station?", name, 5))
    assert again is not None
    assert again.audio.size == said.audio.size  # espeak-ng's phases are other ones each time
    other = speak(Job("Where is the train station?", name, 6))
    assert other is not None
    assert other.audio.size != said.audio.size


@pytest.mark.parametrize("name", [name for name in (*TRAINED, *HELD_OUT) if name.startswith("espeak")])
def test_espeak_has_each_voice(name: str) -> None:
    said = speak(Job("Where is the train station?", name, 5))
    assert said is not None
    assert 0.8 < said.audio.size / RATE < 3.5


def test_a_speaker_that_fails_leaves_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert speak(Job("Hello.", "espeak:xx-none", 1)) is None
    assert "espeak:xx-none: espeak-ng has no voice" in capsys.readouterr().err


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
    run = subprocess.run([sys.executable, "-c", _TOGETHER], check=False, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")


def test_held_out_speakers_are_never_trained_on() -> None:
    assert not set(TRAINED) & set(HELD_OUT)
    drawn = {job.speaker for job in islice(jobs_for(["One.", "Two."], TRAINED, 3), 4000)}
    assert drawn == set(TRAINED)


def test_silence_at_the_ends_is_cut() -> None:
    audio = np.zeros(RATE * 3, np.int16)
    audio[RATE : RATE * 2] = 1000
    assert abs(trimmed(audio).size - 1.2 * RATE) <= 2
    assert trimmed(audio[:RATE]).size == 0


def test_a_shard_gives_back_what_was_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    written = [
        Utterance(text, name, rng.integers(-99, 99, size).astype(np.int16))
        for text, name, size in (("One, two.", "flite:rms", 500), ("It's it?", "house:slt", 90))
    ]
    write_shard(tmp_path / "00000.npz", written)
    for before, after in zip(written, read_shard(tmp_path / "00000.npz"), strict=True):
        assert (before.text, before.speaker) == (after.text, after.speaker)
        assert np.array_equal(before.audio, after.audio)
