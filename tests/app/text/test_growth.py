"""Linear time for any text. The long form is in tests/faults."""

from __future__ import annotations

import pytest

from tests.app.text.growth import FRAGMENTS, STEPS, Step, grows, long_clause, long_sentence

# Small and fast: quadratic time shows in a thousand characters.
SIZE = 700


@pytest.mark.parametrize("name", STEPS)
def test_twice_the_text_takes_about_twice_the_time(name: str) -> None:
    step = STEPS[name]
    step("The cat sat on the mat. ")  # load the parts of the step
    found = [said for unit in FRAGMENTS if (said := grows(step, unit, SIZE)) is not None]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "unit",
    ["[" * 3000 + "x" + "]" * 3000, "a|b\n" + " " * 900 + "-" + " " * 900 + "x|\n", "a " * 3000 + "\n", "<code>" * 900],
)
def test_markdown_of_long_lines(unit: str) -> None:
    said = grows(STEPS["markdown"], unit, len(unit))
    assert said is None, said


@pytest.mark.parametrize(
    ("step", "unit"),
    [(long_sentence, "\n"), (long_sentence, "x"), (long_clause, "(a, "), (long_clause, "%"), (long_clause, "\n")],
)
def test_what_a_buffer_s_limit_hides(step: Step, unit: str) -> None:
    said = grows(step, unit, 1_500)
    assert said is None, said
