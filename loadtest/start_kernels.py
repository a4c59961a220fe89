"""Time that the project's CUDA kernels add to a start: compiled by MLX, compiled and kept, or taken from the cache.

    python -m loadtest.start_kernels [--models kokoro,nllb,t3,flow] [--json FILE]

Each start is a process of its own, with random weights at full size. It loads one model and warms it, or compares its
kernels with plain operations as loading does. All start with the machine's kernels of MLX itself, in a copy of their
folder. The first start of a model compiles those that are missing (`first`; `in kernels` counts the project's alone).
`kept` is any later start. `MLX` is a later start too, but leaves the project's kernels to MLX, which keeps none.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models.backend import device_name, mx
from models.layers.kernels import nvrtc
from models.layers.kernels.agreement import report
from models.layers.kernels.device import gpu

STARTS = ("first", "kept", "MLX")
OWN = "custom_kernel_nightingale_*"


def kokoro(folder: Path) -> Callable[[], Any]:
    """Return the whole start of Kokoro-82M."""
    from loadtest import fake_kokoro
    from models.contract import ModelSpec
    from models.kokoro.pipeline import load

    if not (folder / "kokoro").exists():
        fake_kokoro.write(folder / "kokoro")
    names = {"config": "config.json", "weights": "model.safetensors", "voices": "voices.safetensors"}
    files = {key: str(folder / "kokoro" / name) for key, name in names.items()}
    return lambda: load(ModelSpec("random", "kokoro", files)).warm(lambda _: None)


def nllb(_: Path) -> Callable[[], Any]:
    """Return the choice of NLLB's kernels."""
    from loadtest.nllb_peers import random_arrays
    from loadtest.official import NLLB
    from models.nllb.config import NllbConfig
    from models.nllb.network import Nllb
    from models.nllb.steps import CompiledM2M100
    from models.nllb.weights import load_weights

    network = Nllb(NllbConfig(**NLLB))
    load_weights(network, random_arrays(network.config), "random", mx.bfloat16)
    network.lower(0)
    mx.eval(network.parameters())
    return lambda: CompiledM2M100(network, padded=True)


def t3(_: Path) -> Callable[[], Any]:
    """Return the choice of T3's kernels."""
    from loadtest.t3_kernels import network, random_arrays
    from models.chatterbox.config import VARIANTS
    from models.chatterbox.t3.kernels.choice import choose_attend, choose_draw, choose_step

    config = VARIANTS["chatterbox"].t3
    model = network(config, random_arrays(config), mx.bfloat16)
    mx.eval(model.parameters())
    return lambda: (choose_step(model), choose_draw(config), choose_attend(model))


def flow(_: Path) -> Callable[[], Any]:
    """Return the loading of S3Gen's flow, which chooses its kernels."""
    from loadtest.s3gen_steps import random_weights
    from models.chatterbox.config import VARIANTS
    from models.chatterbox.s3gen.flow import Flow
    from models.chatterbox.s3gen.weights import load_flow

    config = VARIANTS["chatterbox"]
    arrays = random_weights(config)
    return lambda: load_flow(Flow(config), arrays, "random", bfloat16=True)


MODELS: dict[str, Callable[[Path], Callable[[], Any]]] = {"kokoro": kokoro, "nllb": nllb, "t3": t3, "flow": flow}


def child(name: str, start: str, folder: Path) -> dict[str, Any]:
    """Start one model in this process, and tell what it took."""
    seconds, kernels = 0.0, 0
    keep = nvrtc.keep

    def timed(function: str, text: str) -> bool:
        nonlocal seconds, kernels
        began = time.perf_counter()
        done = start != "MLX" and keep(function, text)
        seconds, kernels = seconds + time.perf_counter() - began, kernels + done
        return done

    nvrtc.keep = timed
    work = MODELS[name](folder)
    began = time.perf_counter()
    kept_alive = work()
    mx.synchronize()
    took = time.perf_counter() - began
    del kept_alive
    left_out = [f"{found.name}: {found.reason}" for found in report() if not found.used]
    return {"seconds": took, "in kernels": seconds, "kernels": kernels, "left out": left_out}


def measure(names: list[str], scratch: Path) -> dict[str, Any]:
    """Return what each start of each model took."""
    compiled, machine = scratch / "ptx", Path(os.environ["MLX_PTX_CACHE_DIR"])
    if machine.exists():
        shutil.copytree(machine, compiled)
    found: dict[str, Any] = {}
    for name in names:
        for start in STARTS:
            if start != "kept":
                for path in compiled.glob(OWN):
                    path.unlink()
            command = [sys.executable, "-m", "loadtest.start_kernels", "--start", start, "--models", name]
            environment = os.environ | {"MLX_PTX_CACHE_DIR": str(compiled)}
            done = subprocess.run(
                [*command, "--folder", str(scratch)], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                found[f"{name}, {start}"] = {"error": done.stderr.strip().splitlines()[-3:]}
            else:
                found[f"{name}, {start}"] = json.loads(done.stdout.splitlines()[-1])
            print(f"{name:8} {start:6} {found[f'{name}, {start}']}", flush=True)
    return found


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--start", choices=STARTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.start:
        print(json.dumps(child(options.models, options.start, options.folder)))
        return
    if gpu() != "cuda":
        parser.error("needs an NVIDIA GPU")
    with tempfile.TemporaryDirectory() as scratch:
        found = {"machine": device_name(), "starts": measure(options.models.split(","), Path(scratch))}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
