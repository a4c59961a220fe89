"""Inputs of nllb.npz, for the tiny network of tests/models/nllb/builder."""

from __future__ import annotations

import random

SEED, LOUDNESS = 4, 2.5
LIMIT, BEAMS = 12, 4
TARGETS = (184, 186, 189, 191)


def inputs() -> list[tuple[list[int], int]]:
    """Source ids with the language before and the end after them, and the target language's id."""
    rng = random.Random(0)
    return [([186, *(rng.randrange(4, 184) for _ in range(2 + 2 * k)), 2], TARGETS[k % len(TARGETS)]) for k in range(8)]
