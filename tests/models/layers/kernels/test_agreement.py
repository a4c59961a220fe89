"""The comparison of kernels with plain operations, and its record."""

from __future__ import annotations

import math

import pytest

from models.backend import mx
from models.layers.kernels import agreement
from models.layers.kernels.agreement import Finding, agree, relative_difference, report, usable


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "gpu", lambda: "metal")
    monkeypatch.setattr(agreement, "_found", {})


def test_kernels_that_agree_are_used(caplog: pytest.LogCaptureFixture) -> None:
    """They are compared once."""
    asked = []
    for _ in range(3):
        assert usable("these", lambda: asked.append(1) or [0.01, 0.02])
    assert len(asked) == 1
    assert report() == [Finding("these", True, "")]
    assert not caplog.text


@pytest.mark.parametrize("found", [[0.01, 0.5], [math.nan]])
def test_kernels_that_differ_are_left_out(found: list[float], caplog: pytest.LogCaptureFixture) -> None:
    """With one warning."""
    assert not any(usable("these", lambda: found) for _ in range(3))
    assert report() == [Finding("these", False, f"differ from plain operations by {found}")]
    assert caplog.text.count("these differ") == 1


@pytest.mark.parametrize("error", [RuntimeError, ValueError, TypeError, OSError])
def test_nothing_that_fails_keeps_a_model_from_loading(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """MLX raises ValueError for too many threads, RuntimeError for a source that does not compile."""

    def fails() -> list[float]:
        raise error("no such device")

    assert not usable("these", fails)
    assert report() == [Finding("these", False, "cannot be built here: no such device")]
    assert caplog.text.count("no such device") == 1


def test_a_bound_of_their_own() -> None:
    assert not agree("these", lambda: [0.05], most=0.01)
    assert agree("those", lambda: [0.05])
    assert [each.used for each in report()] == [False, True]


def test_a_cpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "gpu", lambda: None)
    assert not usable("these", lambda: pytest.fail("asked"))
    assert report() == []


def test_the_difference_is_relative() -> None:
    assert relative_difference(mx.array([3.0, 4.4]), mx.array([3.0, 4.0])) == pytest.approx(0.08)
    assert math.isnan(relative_difference(mx.array([math.nan]), mx.array([1.0])))


def test_plain_operations_are_compared_without_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "on_cpu", lambda: False)
    traced: list[int] = []

    def plus_one(x: mx.array) -> mx.array:
        traced.append(1)
        return mx.exp(x) + 1

    function = mx.compile(plus_one)

    def twice() -> list[float]:
        mx.eval([function(mx.ones(4)) for _ in range(2)])
        return [0.0]

    try:
        assert agree("these", twice)
        assert len(traced) == 2
        twice()
        assert len(traced) == 3
    finally:
        mx.disable_compile()
