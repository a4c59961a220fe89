"""Bound on the compiled functions that MLX keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.contract import ModelSpec
from models.kokoro.pipeline import load
from models.layers import compiled, norm
from models.timeline import Timeline

HOUSE = Path(__file__).parents[3] / "models/house"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST_SHAPES", 3)
    monkeypatch.setattr(compiled, "_seen", set())


def test_functions_are_made_once_until_many_shapes_were_seen() -> None:
    made = []

    @compiled.compiled_cache
    def factory() -> object:
        made.append(object())
        return made[-1]

    first = factory()
    for length in (1, 2, 3, 2, 1):
        compiled.note_shape("test", length)
        assert factory() is first
    compiled.note_shape("test", 4)
    assert factory() is not first
    assert len(made) == 2


def test_sentences_of_many_lengths_leave_no_more_than_some_traces() -> None:
    """Trap: on the CPU each length left a megabyte behind. What is spoken stays the same."""
    files = {"config": "config.json", "weights": "model.safetensors", "voices": "voices.safetensors"}
    model = load(ModelSpec("house", "kokoro", {role: str(HOUSE / name) for role, name in files.items()}))
    row = next(iter(model._packs.values()))
    row = np.asarray(row).reshape(-1, 2 * model.config.style_dim)[:1]
    symbol = max(model.config.vocab.values())

    def speak(count: int) -> np.ndarray:
        return model.synthesize([0, *[symbol] * count, 0], row, 1.0, 0, Timeline(), lambda: False)[0]

    before = speak(4)
    held = norm._squared_deviation()
    for count in (5, 6):
        speak(count)
    assert norm._squared_deviation() is held
    speak(7)
    assert norm._squared_deviation() is not held
    np.testing.assert_array_equal(speak(4), before)
