"""Random numbers by absolute place: the same whether drawn at once or in pieces.

Each mel frame has a key of its own (Threefry counters; Salmon et al. 2011), made of the sentence's seed, the purpose
and the frame's number. Speech may therefore be cut anywhere, and windows of it may overlap, without a change of any
noise sample. Nothing reads or reseeds a global generator.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache

from models.backend import mx

_RUN = 256  # frames that are drawn at once


class Draw(IntEnum):
    """Purposes of a sentence's draws, independent of each other."""

    PROMPT_MEL = 0
    MEL = 1
    EXCITATION = 2
    PHASE = 3


@cache
def _normals(width: int) -> Callable[[mx.array], mx.array]:
    def normals(key: mx.array) -> mx.array:
        return mx.random.normal((width,), key=key)

    many: Callable[[mx.array], mx.array] = mx.vmap(normals)
    return many


def frame_noise(seed: int, draw: Draw, first: int, frames: int, width: int) -> mx.array:
    """Return unit normal noise [1, frames, width] of frames `first`, `first` + 1, ... for the purpose `draw`."""
    if frames == 0:
        return mx.zeros((1, 0, width))
    base = _base(seed, draw)
    low = base[1] + mx.arange(first, first + frames).astype(mx.uint32)
    keys = mx.stack([mx.broadcast_to(base[0], low.shape), low], axis=1)
    return _normals(width)(keys)[None]


class NoiseAhead:
    """Noise of one purpose by absolute frame, drawn before it is needed: it depends on nothing that is said."""

    def __init__(self, seed: int, draw: Draw, width: int) -> None:
        self._seed, self._draw = seed, draw
        self._drawn = frame_noise(seed, draw, 0, 0, width)

    def reserve(self, frames: int) -> None:
        """Begin to draw, in runs of _RUN, what is missing of the first `frames`."""
        _, drawn, width = self._drawn.shape
        more = -(-(frames - drawn) // _RUN) * _RUN
        if more > 0:
            new = frame_noise(self._seed, self._draw, drawn, more, width)
            self._drawn = new if drawn == 0 else mx.concatenate([self._drawn, new], axis=1)
            mx.async_eval(self._drawn)

    def frames(self, first: int, count: int) -> mx.array:
        """Return `frame_noise` of `count` frames."""
        self.reserve(first + count)
        return self._drawn[:, first : first + count]


def random_phases(seed: int, harmonics: int) -> mx.array:
    """Return starting phases uint32 [harmonics + 1], in 2^-32 of a turn; the fundamental's is 0."""
    drawn = (mx.random.uniform(shape=(harmonics,), key=_base(seed, Draw.PHASE)) * 2.0**32).astype(mx.uint32)
    return mx.concatenate([mx.zeros((1,), dtype=mx.uint32), drawn])


def _base(seed: int, draw: Draw) -> mx.array:
    return mx.random.split(mx.random.key(seed), len(Draw))[int(draw)]
