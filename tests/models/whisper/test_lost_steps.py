"""A decoding step whose kernel was given up is an error in every search: its outputs are no numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from models.backend import mx
from models.whisper.decoding import DecodingOptions, decode, detect_language
from models.whisper.steps import Memory, Steps
from tests.models.whisper.builder import config, drain, network, tokenizer


def lost(good: int) -> Callable[..., tuple[mx.array, mx.array]]:
    """A step with any outputs in the first `good` calls, and none after."""
    left = iter(range(good))

    def step(ids: mx.array, place: mx.array, *_: object) -> tuple[mx.array, mx.array]:
        numbers = mx.random.normal((*ids.shape, config().n_text_state), key=mx.random.key(0))
        return numbers if next(left, None) is not None else numbers * float("nan"), place + ids.shape[1]

    return step


@pytest.fixture(scope="module")
def steps() -> Steps:
    return Steps(network(config(), seed=2))


@pytest.fixture(scope="module")
def memory(steps: Steps) -> Memory:
    return drain(steps.encode(np.random.RandomState(0).standard_normal((1, 40, 80)).astype(np.float32)))


def break_down(steps: Steps, good: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "kernel", lost(good))
    monkeypatch.setattr(steps, "_head", cast(Any, object()))  # a step that ends with its outputs does not read it


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("good", [0, 2])
@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(),
        DecodingOptions(timestamps=False),
        DecodingOptions(beams=3),
        DecodingOptions(temperature=0.7, best_of=2),
        DecodingOptions(draft=(300, 301, 302)),
    ],
    ids=["greedy", "text", "beams", "samples", "draft"],
)
def test_a_search(
    steps: Steps, memory: Memory, options: DecodingOptions, good: int, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "ahead", ahead)
    break_down(steps, good, monkeypatch)
    with pytest.raises(RuntimeError, match="given up"):
        drain(decode(steps, tokenizer(), memory, options, lambda: False))


def test_the_detection_of_a_language(steps: Steps, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    break_down(steps, 0, monkeypatch)
    with pytest.raises(RuntimeError, match="given up"):
        detect_language(steps, tokenizer(), memory)
