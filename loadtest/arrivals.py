"""Arrival times of an open loop, and the mix of texts, models and surfaces that it sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Pattern = Literal["poisson", "burst", "even"]
Surface = Literal["http", "sse", "websocket"]
SURFACES: tuple[Surface, ...] = ("http", "sse", "websocket")

# From a greeting to a paragraph: 1, 1, 1, 4, 3 and 6 sentences.
TEXTS = (
    "Hello world.",
    "The kettle is on, and the tea is nearly ready.",
    "Before the shop opens, the baker lays out bread, rolls and cakes, and writes the prices on a board.",
    "The last bus was late again. We walked along the river instead. It was quiet. Nobody minded, because the "
    "night was warm.",
    "Your parcel has arrived. Please bring a card with your name on it. The office closes at six.",
    "The garden behind the house is small. In spring the old apple tree is full of flowers. My sister reads under it "
    "when the weather is fine. The cat sleeps on the wall. In autumn we make juice from the apples. There is "
    "enough for the whole street.",
)
# Texts of several sentences: only these can fall silent in the middle.
LONG_TEXTS = TEXTS[3:]


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `due` in seconds since the run began; None for the model means the server's default."""

    due: float
    surface: Surface
    text: str
    model: str | None
    seed: int


def arrivals(pattern: Pattern, rate: float, count: int, rng: np.random.Generator, burst: int = 8) -> list[float]:
    """Return `count` arrival times in seconds, ascending, `rate` a second on average.

    `poisson`: independent of each other. `burst`: `burst` at the same moment, such moments being a Poisson process of
    rate / burst. `even`: at equal distances. Raises ValueError for a rate or a burst that is not positive.
    """
    if not (rate > 0 and burst > 0):
        raise ValueError("the rate and the size of a burst must be positive")
    if pattern == "even":
        return [index / rate for index in range(count)]
    size = burst if pattern == "burst" else 1
    moments = np.cumsum(rng.exponential(size / rate, -(-count // size)))
    return [float(moment) for moment in np.repeat(moments, size)[:count]]


def mix(
    due: Sequence[float],
    surfaces: Sequence[Surface],
    texts: Sequence[str],
    models: Sequence[str | None],
    rng: np.random.Generator,
) -> list[Request]:
    """Return a request for each of the times. Surfaces take turns; each gets the same random mix."""
    requests = []
    for number, when in enumerate(due):
        turn = number % len(surfaces)
        if turn == 0:
            text, model = texts[int(rng.integers(len(texts)))], models[int(rng.integers(len(models)))]
            seed = int(rng.integers(1 << 16))
        requests.append(Request(when, surfaces[turn], text, model, seed))
    return requests


@dataclass(frozen=True, slots=True)
class Knee:
    """`holds` is the highest level that was kept up, `breaks` the lowest that was not; None: there was none."""

    holds: float | None
    breaks: float | None


def find_knee(
    good: Callable[[float], bool], start: float, *, factor: float = 1.5, precision: float | None = None,
    whole: bool = False, most: float = 10_000.0,
) -> Knee:  # fmt: skip
    """Raise a level by `factor` from `start` until it is not `good`, then halve the interval.

    Ends when the interval is less than `precision` (a tenth, if None) of what holds; in whole numbers (`whole`) when it
    cannot be halved, if not before. A first level that is not good is lowered until one is, five times at most.
    """
    if precision is None:
        precision = 0.0 if whole else 0.1
    holds: float | None = None
    breaks: float | None = None
    level = start
    lowered = 0
    while level <= most:
        if good(level):
            holds = level
            if breaks is None:
                level = max(level * factor, level + 1) if whole else level * factor
        else:
            breaks = level
            if holds is None:
                lowered += 1
                level /= 2
                if lowered > 5 or (whole and level < 1):
                    break
        if whole:
            level = float(round(level))
        if holds is None or breaks is None:
            continue
        if breaks - holds <= max(float(whole), precision * holds):
            break
        level = float(round((holds + breaks) / 2)) if whole else (holds + breaks) / 2
    return Knee(holds, breaks)
