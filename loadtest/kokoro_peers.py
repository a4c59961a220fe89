"""Kokoro-82M, phonemes to samples: this project beside PyTorch and ONNX Runtime, same weights, same run.

    python loadtest/kokoro_peers.py --phonemes 4,14,50 --runs 7 [--onnx] [--bfloat16] [--json FILE]

Random weights at full size, four frames a token, so that every peer computes the same shapes. Each peer is a process of
its own, so that neither its threads nor its allocator trouble another; rounds alternate between them, so that a noisy
machine troubles all. Medians are printed, the ratio to PyTorch, and each process's peak memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

# Peers import what they measure inside their own processes: MLX and PyTorch do not meet.

Run = Callable[[list[int]], int]
CompiledNetwork = Callable[[list[int], int], dict[str, float]]

OURS = "nightingale fp32"
BASE = "pytorch fp32"


def ours(files: dict[str, str], dtype: str) -> tuple[Run, CompiledNetwork]:
    """This project's synthesizer as a function from ids to the number of samples, and its stages' milliseconds."""
    from models.backend import limit_cache
    from models.contract import ModelSpec
    from models.kokoro.pipeline import load
    from models.timeline import Timeline

    limit_cache(1 << 30)
    model = load(ModelSpec("random", "kokoro", files, dtype=dtype))
    row = next(iter(model._packs.values()))

    def run(ids: list[int]) -> int:
        pcm, _ = model.synthesize(ids, row, 1.0, 0, Timeline(), lambda: False)
        return len(pcm)

    def stages(ids: list[int], runs: int) -> dict[str, float]:
        model._profile = True
        seen: dict[str, list[float]] = {}
        for _ in range(runs):
            timeline = Timeline()
            model.synthesize(ids, row, 1.0, 0, timeline, lambda: False)
            for stage, seconds in timeline.stages.items():
                seen.setdefault(stage.value, []).append(seconds * 1e3)
        model._profile = False
        return {name: statistics.median(values) for name, values in seen.items()}

    return run, stages


def pytorch(device: str, *, autocast: bool) -> Run:
    """The reference on `device`, optionally under bfloat16 autocast."""
    import torch

    from loadtest.kokoro_reference import Reference

    reference = Reference().to(device)
    style = torch.randn(1, 256, generator=torch.Generator().manual_seed(2)) * 0.5
    style = style.to(device)

    def run(ids: list[int]) -> int:
        with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            return len(reference(torch.tensor([ids], device=device), style).float().cpu().numpy())

    return run


def onnx(folder: Path) -> Run:
    """ONNX Runtime on the CPU, the decoder (nine tenths of the work) exported at each length it is given.

    The reference's text side does not export with dynamic lengths without changes, so it stays in PyTorch here, which
    favors this peer where its own runtime would be slower and costs it nothing where it would be faster by little.
    """
    import onnxruntime
    import torch

    from loadtest.kokoro_reference import Reference

    reference = Reference()
    sessions: dict[int, Any] = {}
    exportable = reference.without_complex()
    style = torch.randn(1, 256, generator=torch.Generator().manual_seed(2)) * 0.5

    def session(text: torch.Tensor, f0: torch.Tensor, energy: torch.Tensor) -> Any:
        frames = text.shape[2]
        if frames not in sessions:
            path = folder / f"decoder-{frames}.onnx"
            torch.onnx.export(
                exportable,
                (text, f0, energy, style[:, :128]),
                str(path),
                input_names=["text", "f0", "energy", "style"],
                dynamo=False,
            )
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            sessions[frames] = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return sessions[frames]

    def run(ids: list[int]) -> int:
        held: dict[str, torch.Tensor] = {}

        class Stop(Exception):  # noqa: N818
            pass

        def catch(_module: Any, arguments: tuple[torch.Tensor, ...]) -> None:
            held.update(zip(("text", "f0", "energy", "style"), arguments, strict=True))
            raise Stop

        hook = reference.decoder.register_forward_pre_hook(catch)
        try:
            with torch.inference_mode():
                reference(torch.tensor([ids]), style)
        except Stop:
            pass
        finally:
            hook.remove()
        decoder = session(held["text"].clone(), held["f0"].clone(), held["energy"].clone())
        feed = {name: tensor.numpy() for name, tensor in held.items()}
        wanted = {i.name for i in decoder.get_inputs()}
        return int(np.size(decoder.run(None, {k: v for k, v in feed.items() if k in wanted})[0]))

    return run


def serve_peer(name: str, folder: str, device: str, pipe: Connection) -> None:
    """The life of one peer's process: answer requests of ids until None comes."""
    files = json.loads((Path(folder) / "files.json").read_text())
    stages: CompiledNetwork | None = None
    if name.startswith("nightingale"):
        run, stages = ours(files, "bfloat16" if name.endswith("bf16") else "float32")
    elif name.startswith("pytorch"):
        run = pytorch(device, autocast=name.endswith("bf16"))
    else:
        run = onnx(Path(folder))
    pipe.send("ready")
    while (asked := pipe.recv()) is not None:
        kind, ids, runs = asked
        if kind == "stages":
            pipe.send({} if stages is None else stages(ids, runs))
        elif kind == "memory":
            pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
        else:
            start = time.perf_counter()
            samples = run(ids)
            pipe.send(((time.perf_counter() - start) * 1e3, samples))


class Peer:
    """A peer's process, seen from here."""

    def __init__(self, name: str, folder: Path, device: str) -> None:
        self.name = name
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=serve_peer, args=(name, str(folder), device, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def ask(self, kind: str, ids: list[int] | None = None, runs: int = 0) -> Any:
        """One answer of the peer; raises EOFError if it died."""
        self._pipe.send((kind, ids, runs))
        return self._pipe.recv()

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join(30)


def measure(peers: list[Peer], ids: list[int], runs: int) -> dict[str, dict[str, float]]:
    """Median, least and most milliseconds of each peer over alternating rounds, after two warm ones."""
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    samples: dict[str, int] = {}
    for round_number in range(runs + 2):
        for peer in peers:
            milliseconds, samples[peer.name] = peer.ask("run", ids)
            if round_number >= 2:
                times[peer.name].append(milliseconds)
    if len(set(samples.values())) != 1:
        raise SystemExit(f"peers disagree on the number of samples: {samples}")
    seconds = next(iter(samples.values())) / 24_000
    return {
        name: {
            "median_ms": statistics.median(t),
            "min_ms": min(t),
            "max_ms": max(t),
            "rtf": statistics.median(t) / 1e3 / seconds,
            "audio_s": seconds,
        }
        for name, t in times.items()
    }


def names(*, bfloat16: bool, onnx: bool, device: str) -> list[str]:
    """The peers to start."""
    from models.native.kernels import has_bfloat16

    more = ["pytorch bf16"] if bfloat16 else []
    more += ["nightingale bf16"] if bfloat16 and (device == "cuda" or has_bfloat16()) else []
    return [OURS, BASE, *more, *(["onnxruntime fp32"] if onnx else [])]


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phonemes", default="4,14,50")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--onnx", action="store_true", help="add ONNX Runtime (CPU)")
    parser.add_argument("--bfloat16", action="store_true", help="add bfloat16: PyTorch autocast, and ours where it can")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    from models.backend import device_name, on_cpu  # before torch: BLAS order

    from loadtest.kokoro_reference import Reference, random_ids  # isort: skip

    device = "cpu" if on_cpu() else "cuda"
    machine = f"{platform.machine()}, {device_name()}"
    report: dict[str, Any] = {"machine": machine, "torch": version("torch")}
    print(f"{machine}; torch {report['torch']}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = Reference().save(folder / "checkpoint")
        (folder / "files.json").write_text(json.dumps(files))
        asked = names(bfloat16=options.bfloat16, onnx=options.onnx, device=device)
        peers = [Peer(name, folder, device) for name in asked]
        for phonemes in map(int, options.phonemes.split(",")):
            ids = random_ids(phonemes)
            rows = measure(peers, ids, options.runs)
            base = rows[BASE]["median_ms"]
            print(f"\n{phonemes} phonemes, {rows[BASE]['audio_s']:.2f} s of audio")
            for name, row in rows.items():
                spread = f"{row['min_ms']:8.1f} {row['median_ms']:8.1f} {row['max_ms']:8.1f} ms (min, median, max)"
                print(f"  {name:18s} {spread}  RTF {row['rtf']:.3f}  {base / row['median_ms']:.2f}x PyTorch fp32")
            shown = peers[0].ask("stages", ids, options.runs)
            print("  stages:", ", ".join(f"{k} {v:.1f}" for k, v in shown.items()), "ms")
            report[str(phonemes)] = {"peers": rows, "stages_ms": shown}
        report["peak_memory_mb"] = {peer.name: peer.ask("memory") for peer in peers}
        for peer in peers:
            peer.close()
    print("\npeak memory of the processes, MB:", report["peak_memory_mb"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
