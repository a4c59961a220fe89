"""The check of weights for NaN and infinity, in parts by several threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from models import finite
from models.loading import steps

NUMBERS = 1000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite, "_CHUNK_SAMPLES", 64)
    monkeypatch.setattr(finite, "_PART", 300)


def bits_of(value: float) -> int:
    """Return bfloat16's bits."""
    return int(np.float32(value).view(np.uint32)) >> 16


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 63, 64, 299, 300, 777, NUMBERS - 1])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.uint16])
def test_one_number_anywhere(kind: type[Any], at: int, value: float) -> None:
    good = np.full((NUMBERS // 10, 10), bits_of(-1.5) if kind is np.uint16 else -1.5, kind)
    bad = good.copy()
    bad.reshape(-1)[at] = bits_of(value) if kind is np.uint16 else value
    assert finite.broken({"b": good, "a": good[:0], "c": np.array(good[0, 0])}) == []
    assert finite.broken({"b": bad, "a": bad, "c": good}) == ["a holds NaN or infinity", "b holds NaN or infinity"]


def test_greatest_and_least_numbers_are_finite() -> None:
    for kind in (np.float16, np.float32, np.float64):
        found = np.finfo(kind)
        assert finite.broken({"a": np.array([found.max, found.min, found.smallest_subnormal, -0.0], kind)}) == []


def test_whole_numbers_are_not_looked_at() -> None:
    assert finite.broken({"a": np.full(NUMBERS, -1, np.int32), "b": np.full(NUMBERS, 0xFFFFFFFF, np.uint32)}) == []


def test_an_error_of_a_step_ends_the_check() -> None:
    told: list[int] = []

    def stop() -> None:
        told.append(1)
        if len(told) == 2:
            raise InterruptedError

    before = threading.active_count()
    with pytest.raises(InterruptedError), steps(stop):
        finite.broken({"a": np.zeros(100 * 300, np.float32)})
    assert len(told) == 2
    assert threading.active_count() == before
