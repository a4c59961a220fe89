"""Construction of CUDA kernels, and their comparison with plain operations.

A kernel `..._cuda` lies beside its plain definition `..._reference`. Other devices run that one, and the tests compare
with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from models.backend import mx, on_cpu

logger = logging.getLogger(__name__)

MOST_APART = 0.1  # relative; the error of bfloat16 is 0.02 at most, that of a mistake about 1


@cache
def available() -> bool:
    """Return whether these kernels run here: MLX on an NVIDIA GPU."""
    return not on_cpu() and bool(mx.cuda.is_available())


def agree(name: str, differences: Callable[[], Sequence[float]]) -> bool:
    """Return whether kernels build here and are as close to plain operations as bfloat16 is; warn where they are not.

    `differences` runs them and gives relative differences. Its exceptions pass, but for MLX's own RuntimeError.
    """
    try:
        apart = differences()
    except RuntimeError as error:
        logger.warning("%s cannot be built here, plain operations are used: %s", name, error)
        return False
    if all(each <= MOST_APART for each in apart):  # false for a NaN
        return True
    logger.warning("%s differ from plain operations by %s here, these are used", name, apart)
    return False


@cache
def kernel(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], source: str) -> Any:
    """Return the kernel of this name; MLX builds it at run time, once per template."""
    return mx.fast.cuda_kernel(name=name, input_names=list(inputs), output_names=list(outputs), source=source)
