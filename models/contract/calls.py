"""Parts of every call of a model: PCM, whether its caller left, and the progress of warming."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.float32]
IsCancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class WarmupStep:
    """Progress of `warm`: bucket `done` of `total`, named, and the seconds it took."""

    name: str
    done: int
    total: int
    seconds: float


Progress = Callable[[WarmupStep], None]


def warm_up(steps: Sequence[tuple[str, Callable[[], object]]], progress: Progress) -> None:
    """Run named steps of warming one after the other, and report each."""
    for done, (name, run) in enumerate(steps, 1):
        start = time.perf_counter()
        run()
        progress(WarmupStep(name, done, len(steps), time.perf_counter() - start))
