"""A decoding step by kernels, as search asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from models.backend import mx
from models.layers.linear import Part

ENDINGS = TOKENS, OUTPUTS = range(2)  # what a step ends with: see step.h

T = TypeVar("T", np.int32, np.float32)


@dataclass(frozen=True, slots=True)
class OutputRows:
    """Rows [V, C] of the projection onto tokens.

    `banned` [V] is added to their products: minus infinity where a token may not come out. `entries` int32 [V] are the
    tokens of the rows.
    """

    part: Part
    banned: mx.array
    entries: mx.array


StepInput = tuple[mx.array, mx.array, list[mx.array], list[mx.array], mx.array, mx.array, OutputRows, int]
"""What a step of one token a row, or of a few, takes:

- ids: int32 [B, n], at most 32 of them.
- place: int32 [1], the position of the first of each row.
- past: Keys and values [B, 2 * heads, T, C / heads] of what was decoded, bfloat16, into which the step writes those of
  the tokens; each array belongs to the caller alone.
- memory: Keys and values [M, 2 * heads, S, C / heads] of the encoder's output; B is a multiple of M.
- mask: [M, 1, 1, S], minus infinity on padding.
- origin: int32 [B, T], the row of `past` that has a row's keys and values at each place.
- head: Rows that compete.
- ending: TOKENS or OUTPUTS.
"""
Step = Callable[[*StepInput], tuple[mx.array, mx.array]]
"""Returns the likeliest token after each, int32 [B, n], or the last layer's output [B, n, C]; and the next place [1].

A step that was given up has tokens of -1, outputs that are no numbers, and a next place without room, so that those
that follow it are given up, too.
"""


def checked(made: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return tokens, or numbers made of outputs, that were read. Raises RuntimeError if their step was given up."""
    if np.any(made < 0 if made.dtype.kind == "i" else np.isnan(made)):
        raise RuntimeError(
            "a decoding step has no result: it was given up because something else held the GPU's processors for "
            "seconds, or the model's numbers do not fit its type"
        )
    return made


def own_rows(rows: int, length: int) -> mx.array:
    """Return the `origin` of rows that have all their keys and values themselves, int32 [rows, length]."""
    return mx.array(np.repeat(np.arange(rows, dtype=np.int32)[:, None], length, axis=1))
