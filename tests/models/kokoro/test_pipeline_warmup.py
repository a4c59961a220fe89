"""Warm-up: every bucket is reported, and afterwards no length compiles anything new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from models.backend import on_cpu
from models.kokoro.pipeline import FRAME_BUCKETS, TOKEN_BUCKETS, KokoroSynthesizer
from tests.models.kokoro.builder import TINY, build, official_arrays, tiny_config, to_mx, voice_pack


def tiny(folder: Path, *, padded: bool) -> KokoroSynthesizer:
    """A synthesizer so small that a thousand frames cost little."""
    config = tiny_config(folder)
    packs = {"tiny": voice_pack(TINY, 1, 1)}
    return KokoroSynthesizer(config, build(config, to_mx(official_arrays(TINY, 0))), packs, padded=padded)


# A slow machine compiles its dozen kernels one by one.
pytestmark = [pytest.mark.slow, pytest.mark.longest, pytest.mark.timeout(900)]

# Run alone, with an empty TMPDIR, in which MLX would keep compiled kernels.
PROGRAM = """
import json, os, sys
from dataclasses import asdict
from pathlib import Path
import numpy as np
from models.contract import SpeechRequest
from models.timeline import Timeline
from tests.models.kokoro.test_pipeline_warmup import tiny

def compiled():
    return {path.name for path in Path(os.environ["TMPDIR"]).rglob("*.so")}

def serve(padded):
    before, steps, samples = compiled(), [], []
    model = tiny(Path(sys.argv[1]), padded=padded)
    model.warm(steps.append)
    warm, rng, symbols = compiled(), np.random.RandomState(0), sorted(model.symbols)
    for count in [*range(1, 49), 90, 150]:
        request = SpeechRequest("", "".join(rng.choice(symbols, count)), "tiny", speed=float(rng.uniform(0.8, 4)))
        (chunk,) = model.stream(request, Timeline(), lambda: False)
        samples.append(len(chunk.pcm))
    return {"before": len(before), "warm": len(warm - before), "new": sorted(compiled() - warm),
            "samples": samples, "steps": [asdict(step) for step in steps]}

print(json.dumps({"exact": serve(False), "padded": serve(True)}))
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Output of PROGRAM: fifty utterances after warm-up, unpadded and then padded."""
    compiled, work = tmp_path_factory.mktemp("compiled"), tmp_path_factory.mktemp("work")
    environment = {**os.environ, "TMPDIR": str(compiled), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(work)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("shapes", ["exact", "padded"])
def test_fifty_lengths_compile_nothing_new(report: dict[str, Any], shapes: str) -> None:
    """Counted in the folder where MLX's CPU compiler leaves its objects."""
    found = report[shapes]
    assert found["new"] == []
    assert len(found["samples"]) == 50
    assert len(set(found["samples"])) > 25
    assert all(samples > 0 and samples % 600 == 0 for samples in found["samples"])


def test_a_cpu_compiles_nothing(report: dict[str, Any]) -> None:
    assert report["exact"]["before"] == 0
    assert report["exact"]["warm"] + report["padded"]["warm"] == 0 or not on_cpu()


@pytest.mark.parametrize("shapes", ["exact", "padded"])
def test_every_bucket_is_reported(report: dict[str, Any], shapes: str) -> None:
    steps = report[shapes]["steps"]
    names = [step["name"] for step in steps]
    assert len(set(names)) == len(names)
    if shapes == "padded":
        buckets = [f"tokens={n}" for n in TOKEN_BUCKETS] + [f"frames={n}" for n in FRAME_BUCKETS]
        assert names == [*buckets, "utterance=1"]
    assert [step["done"] for step in steps] == list(range(1, len(steps) + 1))
    assert {step["total"] for step in steps} == {len(steps)}
    assert all(step["seconds"] > 0 for step in steps)
