"""Parts of every call of a model: PCM, whether its caller left, and the progress of warming."""

from __future__ import annotations

from collections.abc import Callable
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
