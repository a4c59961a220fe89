"""Power, use, memory and temperature of this machine's NVIDIA GPUs, from NVML (extra `cuda`).

macOS tells these figures to root alone, so there are none on a Mac.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from prometheus_client import Gauge

logger = logging.getLogger(__name__)


def _gauge(name: str, text: str) -> Gauge:
    return Gauge(f"nightingale_gpu_{name}", text, ("gpu", "name"))


# Each gauge, and its value from NVML's module and a GPU's handle.
_READS: tuple[tuple[Gauge, Callable[[Any, Any], float]], ...] = (
    (
        _gauge("power_watts", "Power that a GPU draws"),
        lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    ),
    (
        _gauge("utilization_ratio", "Share of the last moments in which a GPU computed"),
        lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
    ),
    (
        _gauge("memory_used_bytes", "Bytes of a GPU in use, by every process"),
        lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used,
    ),
    (
        _gauge("temperature_celsius", "Temperature of a GPU"),
        lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    ),
)


@cache
def _library() -> Any:
    """Return NVML's module; None where models compute on the CPU or on a Mac, and where NVML cannot be had."""
    from models.backend import mx, on_cpu

    if on_cpu() or not mx.cuda.is_available():
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # the package, the driver's library or the right to ask it may be missing
        logger.info("no metrics of the GPU: %s", error)
        return None
    return pynvml


def read() -> None:
    """Set the gauges of every GPU. Takes milliseconds: call it outside the event loop."""
    nvml = _library()
    if nvml is None:
        return
    with suppress(nvml.NVMLError):
        for index in range(nvml.nvmlDeviceGetCount()):
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            name = nvml.nvmlDeviceGetName(gpu)
            for gauge, ask in _READS:
                with suppress(nvml.NVMLError):  # a divided GPU (MIG) does not tell everything
                    value = ask(nvml, gpu)
                    gauge.labels(str(index), name).set(value)
