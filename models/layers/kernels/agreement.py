"""Comparison of kernels with their plain definitions on the device there is, and the record of what was found.

A kernel lies beside its plain definition, `..._reference`. Devices without kernels run that one, and so does a device
where the kernel does not build or gives other numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from models.backend import mx, on_cpu
from models.layers.kernels.device import gpu

logger = logging.getLogger(__name__)

MAX_RELATIVE_ERROR = 0.1  # relative; the error of bfloat16 is 0.02 at most, that of a mistake about 1
MAX_RELATIVE_ERROR_FLOAT32 = 0.01  # of float32; plain products may be TF32's, with errors of 1e-3

Differences = Callable[[], Sequence[float]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether kernels are in use, and if not, why."""

    name: str
    used: bool
    reason: str


_found: dict[str, Finding] = {}


def report() -> list[Finding]:
    """Return the findings of this process, in the order in which kernels were first wanted. Empty on a CPU."""
    return list(_found.values())


def agree(name: str, differences: Differences, most: float = MAX_RELATIVE_ERROR) -> bool:
    """Return whether kernels build here and are as close to plain operations as expected; warn where they are not.

    Args:
        name: What is compared, for `report` and the warning.
        differences: Runs them, and returns relative differences.
        most: The largest difference that is accepted.

    Returns:
        False too where `differences` raises anything: no kernel may keep a server from starting.
    """
    # MLX would fuse plain operations into kernels that nobody uses later, and compile each for some five seconds.
    mx.disable_compile()
    try:
        found = [float(each) for each in differences()]
    except Exception as error:
        reason = f"cannot be built here: {error}"
    else:
        same = all(each <= most for each in found)  # false for a NaN
        reason = "" if same else f"differ from plain operations by {found}"
    finally:
        if not on_cpu():  # where MLX compiles
            mx.enable_compile()
    _found[name] = Finding(name, not reason, reason)
    if reason:
        logger.warning("kernels left out, plain operations are used: %s %s", name, reason)
    return not reason


def choose(name: str, kernel: T | None, differences: Callable[[T], Sequence[float]]) -> T | None:
    """Return a kernel that agrees with plain operations; None where it does not, or where the device has none."""
    return kernel if kernel is not None and agree(name, lambda: differences(kernel)) else None


def usable(name: str, differences: Differences, most: float = MAX_RELATIVE_ERROR) -> bool:
    """Return whether there is a GPU on which these kernels agree; compare them once per process."""
    if gpu() is None:
        return False
    if name not in _found:
        agree(name, differences, most)
    return _found[name].used


def relative_difference(found: mx.array, wanted: mx.array) -> float:
    """Return the norm of the difference, over the norm of what is wanted."""
    found, wanted = found.astype(mx.float32), wanted.astype(mx.float32)
    return float(np.linalg.norm(np.array(found - wanted)) / np.linalg.norm(np.array(wanted)))
