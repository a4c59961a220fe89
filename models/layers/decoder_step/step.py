"""A decoding step by kernels, as search asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.backend import mx
from models.layers.linear import Part

ENDINGS = TOKENS, OUTPUTS = range(2)  # what a step ends with: see step.h


@dataclass(frozen=True, slots=True)
class OutputRows:
    """Rows [V, C] of the projection onto tokens.

    `banned` [V] is added to their products: minus infinity where a token may not come out. `entries` int32 [V] are the
    tokens of the rows.
    """

    part: Part
    banned: mx.array
    entries: mx.array


class Step(Protocol):
    """A decoding step of one token a row, or of a few."""

    def __call__(
        self,
        ids: mx.array,
        place: mx.array,
        past: list[mx.array],
        memory: list[mx.array],
        mask: mx.array,
        origin: mx.array,
        head: OutputRows,
        ending: int,
    ) -> tuple[mx.array, mx.array]:
        """Read each row's tokens, and write their keys and values into `past`.

        Args:
            ids: int32 [B, n], at most 32 of them.
            place: int32 [1], the position of the first of each row.
            past: Keys and values [B, 2 * heads, T, C / heads] of what was decoded, bfloat16; each array belongs to the
                caller alone.
            memory: Keys and values [M, 2 * heads, S, C / heads] of the encoder's output; B is a multiple of M.
            mask: [M, 1, 1, S], minus infinity on padding.
            origin: int32 [B, T], the row of `past` that has a row's keys and values at each place.
            head: Rows that compete.
            ending: TOKENS or OUTPUTS.

        Returns:
            The likeliest token after each, int32 [B, n], -1 where the step failed; or the last layer's output
            [B, n, C]; and the next place [1].
        """


def own_rows(rows: int, length: int) -> mx.array:
    """Return the `origin` of rows that have all their keys and values themselves, int32 [rows, length]."""
    return mx.array(np.repeat(np.arange(rows, dtype=np.int32)[:, None], length, axis=1))
