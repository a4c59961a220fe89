"""Steps of a load."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from models.backend import mx
from models.checkpoint import read_arrays
from models.loading import step, steps


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "a.safetensors"
    mx.save_safetensors(str(path), {name: mx.ones((3,)) for name in "abc"})
    return path


def test_each_array_is_a_step(weights: Path) -> None:
    told: list[int] = []
    with steps(lambda: told.append(1)):
        read_arrays(weights)
    read_arrays(weights)
    assert len(told) == 3


def test_an_error_between_two_steps_ends_the_load(weights: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError), steps(stop):
        read_arrays(weights)
    step()


def test_steps_belong_to_their_thread() -> None:
    told: list[int] = []
    with steps(lambda: told.append(1)):
        other = threading.Thread(target=step)
        other.start()
        other.join()
    assert told == []
