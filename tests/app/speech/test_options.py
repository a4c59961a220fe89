"""Choices of a speech request that a model does not have."""

from __future__ import annotations

from typing import Any

import pytest

from app.speech.options import unused_speed
from tests.app.standins import Parrot, Tone


@pytest.mark.parametrize(
    ("model", "speed", "unused"),
    [(Tone(), 2.0, ()), (Tone(), 2.1, ("speed above 2",)), (Tone(reads="text"), 2.1, ()), (Parrot(), 2.1, ())],
)
def test_a_speed_that_a_model_of_phonemes_does_not_reach_is_named(
    model: Any, speed: float, unused: tuple[str, ...]
) -> None:
    assert unused_speed(speed, model) == unused
