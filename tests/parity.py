"""How much is compared with a reference implementation: a sample of the inputs, or with `PARITY=full` all of them."""

from __future__ import annotations

import os
from typing import TypeVar

Amount = TypeVar("Amount")

FULL = os.environ.get("PARITY") == "full"


def sample_or_all(sample: Amount, everything: Amount) -> Amount:
    """Return what this run compares: `sample`, but `everything` where `PARITY=full` asks for it."""
    return everything if FULL else sample
