"""Phonemes as people say them."""

import json
from pathlib import Path

import numpy as np

from training.ear.liberties import loosened

LINE = "ˌɪt wʌz ðə fˈɜɹst ɡɹˈAt sˈɔɹO ʌv hɪz lˈIf, ænd ðə bˈɛTəɹ wˈɔTəɹ wʌz nˈʌθɪŋ əbˈWt hɜɹ ˈɪntɹəstɪŋ θˈɪŋ ɪt."


def test_a_line_is_said_otherwise_each_time_in_sounds_that_the_teacher_knows() -> None:
    rng = np.random.default_rng(3)
    found = {loosened(LINE, rng) for _ in range(40)}
    assert len(found) > 30
    assert all(abs(len(each) - len(LINE)) < 25 for each in found)
    assert set("".join(found)) <= set(json.loads(Path("models/house/config.json").read_text(encoding="utf-8"))["vocab"])
