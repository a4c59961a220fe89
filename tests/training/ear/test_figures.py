"""Sentences with figures for the ear."""

from __future__ import annotations

import random
import re

from training.ear.figures import FigureWriter
from training.ear.lines import target


def test_sentences_are_words_alone_and_the_seeds() -> None:
    one, other, third = (FigureWriter(random.Random(seed)) for seed in (1, 1, 2))
    made = [one.sentence() for _ in range(400)]
    assert made == [other.sentence() for _ in range(400)]
    assert made[:20] != [third.sentence() for _ in range(20)]
    assert all(re.fullmatch(r"[A-Za-z .,?!']+", text) and target(text) == text for text in made)
    assert len(set(made)) > 390
