"""Texts put together at random: none costs more than linear time."""

from __future__ import annotations

import random

import pytest

from tests.app.text.growth import MORE, STEPS, grows

pytestmark = pytest.mark.nightly

SIZE = 2_000
TEXTS = 250


@pytest.mark.parametrize("name", STEPS)
def test_no_mixture_grows_faster_than_its_length(name: str) -> None:
    step = STEPS[name]
    step("The cat sat on the mat. ")
    # Another seed finds other texts; this one finds the same everywhere.
    rng = random.Random(f"growth {name}")
    units = list(MORE) + ["".join(rng.choices(MORE, k=rng.randint(2, 6))) for _ in range(TEXTS)]
    found = [said for unit in units if (said := grows(step, unit, SIZE)) is not None]
    assert not found, "\n".join(found)
