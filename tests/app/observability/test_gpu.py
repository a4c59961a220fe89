"""Metrics of NVIDIA GPUs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from app.observability import gpu
from models.backend import on_cpu


class RefusedError(Exception):
    """Error of NVML."""


def refuse(*_: Any) -> Any:
    raise RefusedError


# NVML of a machine with one GPU, which does not tell its power.
NVML = SimpleNamespace(
    NVMLError=RefusedError,
    NVML_TEMPERATURE_GPU=0,
    nvmlDeviceGetCount=lambda: 1,
    nvmlDeviceGetHandleByIndex=lambda index: index,
    nvmlDeviceGetName=lambda handle: "Some GPU",
    nvmlDeviceGetPowerUsage=refuse,
    nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=25, memory=3),
    nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=1 << 30),
    nvmlDeviceGetTemperature=lambda handle, sensor: 41,
)


def sample(name: str) -> float | None:
    return REGISTRY.get_sample_value(f"nightingale_gpu_{name}", {"gpu": "0", "name": "Some GPU"})


def test_a_gpu_tells_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_library", lambda: NVML)
    gpu.read()
    assert sample("utilization_ratio") == 0.25
    assert sample("memory_used_bytes") == 1 << 30
    assert sample("temperature_celsius") == 41
    assert sample("power_watts") is None


def test_a_driver_that_fails_is_no_error_of_the_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_library", lambda: SimpleNamespace(NVMLError=RefusedError, nvmlDeviceGetCount=refuse))
    gpu.read()


@pytest.mark.skipif(not on_cpu(), reason="concerns machines without a GPU")
def test_nothing_is_asked_where_models_compute_on_the_cpu() -> None:
    assert gpu._library() is None


@pytest.mark.skipif(on_cpu(), reason="needs an NVIDIA GPU")
def test_the_real_gpu_draws_power() -> None:
    pytest.importorskip("pynvml")
    gpu.read()
    found = [
        each.value
        for metric in REGISTRY.collect()
        for each in metric.samples
        if each.name == "nightingale_gpu_power_watts" and each.labels["name"] != "Some GPU"
    ]
    assert found
    assert all(watts > 10 for watts in found)
