"""Phonemes as people say them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from training.ear.liberties import loosened

LINE = "ˌɪt wʌz ðə fˈɜɹst ɡɹˈAt sˈɔɹO ʌv hɪz lˈIf, ænd ðə bˈɛTəɹ wˈɔTəɹ wʌz nˈʌθɪŋ əbˈWt hɜɹ ˈɪntɹəstɪŋ θˈɪŋ ɪt."


def test_a_line_is_said_otherwise_each_time_and_stays_one() -> None:
    rng = np.random.default_rng(3)
    found = {loosened(LINE, rng) for _ in range(40)}
    assert len(found) > 30
    assert any(" əv" in each for each in found)
    assert all(abs(len(each) - len(LINE)) < 25 for each in found)
    assert LINE != loosened(LINE, np.random.default_rng(4)) == loosened(LINE, np.random.default_rng(4))


def test_the_teacher_knows_all_sounds() -> None:
    vocabulary = json.loads(Path("models/house/config.json").read_text(encoding="utf-8"))["vocab"]
    rng = np.random.default_rng(3)
    said = set("".join(loosened(LINE.replace("ɪ", "i").replace("ʌ", "æ"), rng) for _ in range(200)))
    assert said <= set(vocabulary)
