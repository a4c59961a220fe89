"""Kokoro-82M, phonemes to samples: this project beside PyTorch and ONNX Runtime, same weights, same run.

    python loadtest/kokoro_peers.py --phonemes 4,14,50 --runs 7 [--onnx] [--bfloat16] [--json FILE]

Random weights at full size, four frames a token, so that every peer computes the same shapes. Rounds alternate between
the peers, so that a noisy machine troubles all of them; medians are printed, and the ratio to PyTorch.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from models.backend import device_name, limit_cache, memory, on_cpu  # before torch: BLAS order
from models.contract import ModelSpec
from models.kokoro.pipeline import KokoroSynthesizer, load
from models.timeline import Timeline

import torch  # isort: skip

from loadtest.kokoro_reference import Reference, random_ids  # isort: skip

Run = Callable[[list[int]], int]


def ours(files: dict[str, str], *, profile: bool, dtype: str = "float32") -> tuple[KokoroSynthesizer, Run]:
    """This project's synthesizer, and a function from ids to the number of samples."""
    model = load(ModelSpec("random", "kokoro", files, profile=profile, dtype=dtype))
    row = next(iter(model._packs.values()))

    def run(ids: list[int]) -> int:
        pcm, _ = model.synthesise(ids, row, 1.0, 0, Timeline(), lambda: False)
        return len(pcm)

    return model, run


def pytorch(reference: Reference, device: str, *, autocast: bool) -> Run:
    """The reference on `device`, optionally under bfloat16 autocast."""
    style = torch.randn(1, 256, generator=torch.Generator().manual_seed(2)) * 0.5
    style = style.to(device)

    def run(ids: list[int]) -> int:
        with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            return len(reference(torch.tensor([ids], device=device), style).float().cpu().numpy())

    return run


def onnx(reference: Reference, folder: Path, threads: int) -> Run:
    """ONNX Runtime on the CPU, the decoder (nine tenths of the work) exported at each length it is given.

    The reference's text side does not export with dynamic lengths without changes, so it stays in PyTorch here, which
    favours this peer where its own runtime would be slower and costs it nothing where it would be faster by little.
    """
    import onnxruntime

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
            options.intra_op_num_threads = threads
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


def measure(peers: dict[str, Run], ids: list[int], runs: int) -> dict[str, dict[str, float]]:
    """Median, least and most milliseconds of each peer over alternating rounds, after two warm ones."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    samples: dict[str, int] = {}
    for round_number in range(runs + 2):
        for name, run in peers.items():
            start = time.perf_counter()
            samples[name] = run(ids)
            if round_number >= 2:
                times[name].append((time.perf_counter() - start) * 1e3)
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


def stages(model: KokoroSynthesizer, ids: list[int], runs: int) -> dict[str, float]:
    """Median milliseconds of each stage with profiling on."""
    model._profile = True
    row = next(iter(model._packs.values()))
    seen: dict[str, list[float]] = {}
    for _ in range(runs):
        timeline = Timeline()
        model.synthesise(ids, row, 1.0, 0, timeline, lambda: False)
        for stage, seconds in timeline.stages.items():
            seen.setdefault(stage.value, []).append(seconds * 1e3)
    model._profile = False
    return {name: statistics.median(values) for name, values in seen.items()}


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phonemes", default="4,14,50")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--onnx", action="store_true", help="add ONNX Runtime (CPU)")
    parser.add_argument("--bfloat16", action="store_true", help="add bfloat16: PyTorch autocast, ours on a GPU")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    limit_cache(2 << 30)
    device = "cpu" if on_cpu() else "cuda"
    reference = Reference()
    report: dict[str, Any] = {"machine": f"{platform.machine()}, {device_name()}", "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as scratch:
        files = reference.save(Path(scratch) / "checkpoint")
        reference.to(device)
        model, run = ours(files, profile=False)
        peers: dict[str, Run] = {"nightingale fp32": run, "pytorch fp32": pytorch(reference, device, autocast=False)}
        if options.bfloat16:
            peers["pytorch bf16"] = pytorch(reference, device, autocast=True)
            if device == "cuda":
                peers["nightingale bf16"] = ours(files, profile=False, dtype="bfloat16")[1]
        if options.onnx:
            peers["onnxruntime fp32"] = onnx(reference, Path(scratch), torch.get_num_threads())
        print(f"{report['machine']}; torch {torch.__version__}, {torch.get_num_threads()} threads")
        for phonemes in map(int, options.phonemes.split(",")):
            ids = random_ids(phonemes)
            rows = measure(peers, ids, options.runs)
            base = rows["pytorch fp32"]["median_ms"]
            print(f"\n{phonemes} phonemes, {next(iter(rows.values()))['audio_s']:.2f} s of audio")
            for name, row in rows.items():
                spread = f"{row['min_ms']:8.1f} {row['median_ms']:8.1f} {row['max_ms']:8.1f} ms (min, median, max)"
                print(f"  {name:18s} {spread}  RTF {row['rtf']:.3f}  {base / row['median_ms']:.2f}x PyTorch fp32")
            shown = stages(model, ids, options.runs)
            print("  stages:", ", ".join(f"{k} {v:.1f}" for k, v in shown.items()), "ms")
            report[str(phonemes)] = {"peers": rows, "stages_ms": shown}
    use = memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    report["memory"] = {"mlx_active_mb": use.active >> 20, "mlx_peak_mb": use.peak >> 20, "process_peak_mb": peak}
    print(f"\nmemory: {report['memory']}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
