"""The native kernels, under the names that `models.layers` has for the plain definitions.

They are MLX primitives: part of its lazy graph, evaluated on the CPU stream that is the default where they are called.
`NIGHTINGALE_NATIVE=0` turns them off; `NIGHTINGALE_CPU` (avx512, avx2, baseline) bounds the instructions that they use.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from functools import cache
from typing import Any

from models.backend import mx, on_cpu
from models.native import build

logger = logging.getLogger(__name__)


@cache
def module() -> Any:
    """Return the module of kernels, built on first use; None on a GPU and where it cannot be built, with a warning."""
    if not on_cpu() or os.environ.get("NIGHTINGALE_NATIVE") == "0":
        return None
    started = time.monotonic()
    try:
        path = build.library()
        spec = importlib.util.spec_from_file_location("_native", path)
        assert spec is not None and spec.loader is not None  # noqa: S101  (a file that exists)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    except (OSError, ImportError) as error:
        logger.warning("The native kernels are not in use (%s): speech takes about twice as long on this CPU", error)
        return None
    if (seconds := time.monotonic() - started) > 1:
        logger.info("The native kernels were compiled in %.0f s; they are kept for the next start", seconds)
    return found


def available() -> bool:
    """Return whether the native kernels are in use."""
    return module() is not None


def description() -> str:
    """Return the instructions and threads of the kernels, or "MLX" where they are not in use."""
    found = module()
    return "MLX" if found is None else f"native kernels ({found.instructions()}, {found.threads()} threads)"
