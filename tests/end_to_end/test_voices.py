"""Cloned voices and the memory of models, in a real server process with real models."""

from __future__ import annotations

import re
from pathlib import Path

import httpx


def test_models_that_are_loaded_say_how_much_they_hold(house_server: str) -> None:
    entries = {entry["id"]: entry for entry in httpx.get(f"{house_server}/v1/models").json()["data"]}
    weights = Path(__file__).parents[2] / "models" / "house" / "model.safetensors"
    held = entries["house"]["memory_bytes"]
    assert weights.stat().st_size * 0.5 < held < weights.stat().st_size * 4
    assert entries["phrasebook"]["memory_bytes"] > 0
    assert entries["house"]["preloaded"] and entries["phrasebook"]["preloaded"]
    assert not entries["chatterbox"]["preloaded"]
    assert entries["chatterbox"]["memory_bytes"] is None
    metrics = httpx.get(f"{house_server}/metrics").text
    (shown,) = re.findall(r'nightingale_model_memory_bytes\{model="house"\} (\S+)', metrics)
    assert float(shown) == held
