"""Kokoro-82M, phonemes to samples: this project beside PyTorch and ONNX Runtime, same weights, same run.

    python loadtest/kokoro_peers.py --phonemes 4,14,50 --runs 7 [--onnx] [--bfloat16] [--without torch] [--json FILE]
    python loadtest/kokoro_peers.py --real build/real --runs 7 [--onnx] [--bfloat16] [--json FILE]

Random weights at full size, four frames a token, so that every peer computes the same shapes; with `--real` those that
`make real` built, and the sentences TEXTS, for which the peers' durations may differ by little. Each peer is a process
of its own (see `peers`). Medians are printed, the ratio to PyTorch, and the memory of each process. On an NVIDIA GPU
PyTorch runs a second time with CUDA graphs (`kokoro_graphs`): the whole of it, or the sound alone where the text's side
cannot be captured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from loadtest.peers import Commands, Peer, measure, show

# Peers import what they measure inside their own processes: MLX and PyTorch do not meet.

Run = Callable[[list[int]], int]
Stages = Callable[[list[int], int], dict[str, float]]

OURS = "nightingale fp32"
BASE = "pytorch fp32"
GRAPHS = "pytorch graphs fp32"
SOUND_GRAPH = "pytorch sound graph fp32"
INT8 = "onnxruntime int8"
TEXTS = (
    "Hi.",
    "Hello world.",
    "The train to the coast leaves at nine today.",
    "She opened the old map on the kitchen table and showed us the road that her grandfather drew across the hills.",
)
VOICE = "af_heart"
# Share by which the numbers of samples of real peers may differ: rounding decides some durations.
LENGTHS = 0.05


def style_of(packs: Mapping[str, Any], ids: list[int]) -> Any:
    """Return the row of the voice, [1, 256], for ids with their two boundaries."""
    pack = packs.get(VOICE)
    pack = next(iter(packs.values())) if pack is None else pack
    return pack[min(len(ids) - 2, len(pack)) - 1].reshape(1, -1)


def reference_of(files: dict[str, str]) -> tuple[Any, Callable[[list[int]], Any]]:
    """Return the reference with the weights of `files`, and the style for ids."""
    from safetensors.torch import load_file

    from loadtest.kokoro_reference import Reference

    reference = Reference()
    missing, extra = reference.load_state_dict(load_file(files["weights"]), strict=False)
    unread = ("position_ids", "token_type_ids", "pooler.weight", "pooler.bias")
    if extra or any(".norm." not in name and not name.endswith(unread) for name in missing):
        raise SystemExit(f"{files['weights']} is not the reference's: {extra or missing}")
    packs = load_file(files["voices"])
    return reference, lambda ids: style_of(packs, ids)


def ours(files: dict[str, str], dtype: str) -> tuple[Run, Stages]:
    """This project's synthesizer as a function from ids to the number of samples, and its stages' milliseconds."""
    from models.backend import limit_cache
    from models.contract import ModelSpec
    from models.kokoro.pipeline import load
    from models.timeline import Timeline

    limit_cache(1 << 30)
    model = load(ModelSpec("kokoro-82m", "kokoro", files, dtype=dtype))

    def run(ids: list[int]) -> int:
        pcm, _ = model.synthesize(ids, style_of(model._packs, ids), 1.0, 0, Timeline(), lambda: False)
        return len(pcm)

    def stages(ids: list[int], runs: int) -> dict[str, float]:
        model._profile = True
        seen: dict[str, list[float]] = {}
        for _ in range(runs):
            timeline = Timeline()
            model.synthesize(ids, style_of(model._packs, ids), 1.0, 0, timeline, lambda: False)
            for stage, seconds in timeline.stages.items():
                seen.setdefault(stage.value, []).append(seconds * 1e3)
        model._profile = False
        return {name: statistics.median(values) for name, values in seen.items()}

    return run, stages


def pytorch(device: str, *, autocast: bool, files: dict[str, str] | None = None) -> Run:
    """The reference on `device`, optionally under bfloat16 autocast; random weights unless there are `files`."""
    import torch

    from loadtest.kokoro_reference import Reference

    if files is None:
        reference: Any = Reference()
        row = torch.randn(1, 256, generator=torch.Generator().manual_seed(2)) * 0.5
        style = lambda _: row  # noqa: E731
    else:
        reference, style = reference_of(files)
    reference = reference.to(device)

    def run(ids: list[int]) -> int:
        with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            return len(reference(torch.tensor([ids], device=device), style(ids).to(device)).float().cpu().numpy())

    return run


def onnx_int8(files: dict[str, str]) -> Run:
    """ONNX Runtime on the CPU with the int8 export, from ids to samples."""
    import onnxruntime
    from safetensors.numpy import load_file

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(files["onnx"], options, providers=["CPUExecutionProvider"])
    packs = load_file(files["voices"])
    speed = np.ones(1, np.float32)

    def run(ids: list[int]) -> int:
        feed = {"tokens": np.array([ids]), "style": style_of(packs, ids), "speed": speed}
        return int(np.size(session.run(None, feed)[0]))

    return run


def onnx(folder: Path, files: dict[str, str]) -> Run:
    """ONNX Runtime on the CPU, the decoder (nine tenths of the work) exported at each length it is given.

    The reference's text side does not export with dynamic lengths without changes, so it stays in PyTorch here, which
    favors this peer where its own runtime would be slower and costs it nothing where it would be faster by little.
    """
    import onnxruntime
    import torch

    reference, style = reference_of(files)
    sessions: dict[int, Any] = {}
    exportable = reference.without_complex()

    def session(text: torch.Tensor, f0: torch.Tensor, energy: torch.Tensor) -> Any:
        frames = text.shape[2]
        if frames not in sessions:
            path = folder / f"decoder-{frames}.onnx"
            torch.onnx.export(
                exportable,
                (text, f0, energy, held["style"]),
                str(path),
                input_names=["text", "f0", "energy", "style"],
                dynamo=False,
            )
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            sessions[frames] = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return sessions[frames]

    held: dict[str, torch.Tensor] = {}

    def run(ids: list[int]) -> int:
        class Stop(Exception):  # noqa: N818
            pass

        def catch(_module: Any, arguments: tuple[torch.Tensor, ...]) -> None:
            held.update(zip(("text", "f0", "energy", "style"), arguments, strict=True))
            raise Stop

        hook = reference.decoder.register_forward_pre_hook(catch)
        try:
            with torch.inference_mode():
                reference(torch.tensor([ids]), style(ids))
        except Stop:
            pass
        finally:
            hook.remove()
        decoder = session(held["text"].clone(), held["f0"].clone(), held["energy"].clone())
        feed = {name: tensor.numpy() for name, tensor in held.items()}
        wanted = {i.name for i in decoder.get_inputs()}
        return int(np.size(decoder.run(None, {k: v for k, v in feed.items() if k in wanted})[0]))

    return run


def commands(name: str, folder: str, device: str) -> Commands:
    """Return the commands of one peer, in its own process."""
    bfloat16 = name.endswith("bf16")
    files = json.loads((Path(folder) / "files.json").read_text())
    if name.startswith("nightingale"):
        run, stages = ours(files, "bfloat16" if bfloat16 else "float32")
        return {"run": run, "stages": stages}
    if name == INT8:
        return {"run": onnx_int8(files)}
    if name in (GRAPHS, SOUND_GRAPH):
        from loadtest.kokoro_graphs import make

        return {"run": make(text_graph=name == GRAPHS)}
    if name.startswith("pytorch"):
        return {"run": pytorch(device, autocast=bfloat16, files=files)}
    return {"run": onnx(Path(folder), files)}


def real_files(built: Path, folder: Path) -> dict[str, str]:
    """Return the files of the real model that `make real` built, with the int8 export, which `folder` gets."""
    from loadtest.real_models import unpack

    model, sources = built / "models" / "kokoro-82m", folder / "sources"
    sources.mkdir()
    unpack(built / "packages", next((built / "packages").glob("kokoro-js-*.tgz")), sources)
    names = {"config": "config.json", "weights": "kokoro-v1_0.safetensors", "voices": "voices.safetensors"}
    return {role: str(model / name) for role, name in names.items()} | {
        "onnx": str(next((sources / "kokoro").glob("*.onnx")))
    }


def real_ids(text: str, files: dict[str, str]) -> list[int]:
    """Return the ids of an English text, with their boundaries, as this project's front end reads it."""
    from app.text.planner import get_phonemizer
    from app.text.types import PhonemizedSentence
    from models.kokoro.text import tokenize

    vocabulary = json.loads(Path(files["config"]).read_text(encoding="utf-8"))["vocab"]
    found = get_phonemizer("en-us").segments(text, symbols=frozenset(vocabulary), max_phonemes=510)
    phonemes = "".join(segment.phonemes for segment in found if isinstance(segment, PhonemizedSentence))
    return tokenize(phonemes, vocabulary, 510)[0]


def names(*, bfloat16: bool, onnx: bool, torch: bool, device: str) -> list[str]:
    """The peers to start."""
    from models.native.kernels import has_bfloat16

    more = [BASE, *(["pytorch bf16"] if bfloat16 else [])] if torch else []
    more += ["nightingale bf16"] if bfloat16 and (device == "cuda" or has_bfloat16()) else []
    return [OURS, *more, *(["onnxruntime fp32"] if onnx else [])]


def attempt(peer: Peer, work: list[int]) -> bool:
    """Return whether the process of `peer` survives one run of `work`. If not, it has printed why, and this says so."""
    try:
        peer.ask("run", work)
    except (EOFError, OSError):
        print(f"left out: {peer.name} failed with {len(work)} tokens, see above", flush=True)
        return False
    return True


def with_graphs(folder: Path, device: str, work: list[int]) -> list[Peer]:
    """Return the peer with CUDA graphs that can run `work`, or none, and print why."""
    for name in (GRAPHS, SOUND_GRAPH):
        try:
            peer = Peer(name, commands, name, str(folder), device)
        except (EOFError, OSError):
            print(f"left out: {name} did not start, see above", flush=True)
            return []
        if attempt(peer, work):
            return [peer]
    return []


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phonemes", default="4,14,50")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--onnx", action="store_true", help="add ONNX Runtime (CPU)")
    parser.add_argument("--bfloat16", action="store_true", help="add bfloat16: PyTorch autocast, and ours where it can")
    parser.add_argument("--without", choices=("torch",), help="leave out PyTorch without CUDA graphs")
    parser.add_argument("--real", type=Path, help="folder of `make real`, whose weights speak TEXTS")
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
        files = Reference().save(folder / "checkpoint") if options.real is None else real_files(options.real, folder)
        (folder / "files.json").write_text(json.dumps(files))
        torch = options.without != "torch"
        asked = names(bfloat16=options.bfloat16, onnx=options.onnx, torch=torch, device=device)
        if options.real is None:
            work = {f"{phonemes} phonemes": random_ids(int(phonemes)) for phonemes in options.phonemes.split(",")}
        else:
            work = {text: real_ids(text, files) for text in TEXTS}
            asked += [INT8] if options.onnx else []
        peers = [Peer(name, commands, name, str(folder), device) for name in asked]
        graphs = with_graphs(folder, device, next(iter(work.values()))) if device == "cuda" else []
        for title, ids in work.items():
            graphs = [peer for peer in graphs if attempt(peer, ids)]
            rows, samples = measure([*peers, *graphs], ids, options.runs, tolerance=LENGTHS if options.real else 0.0)
            seconds = samples / 24_000
            for row in rows.values():
                row |= {"rtf": row["median_ms"] / 1e3 / seconds, "audio_s": seconds}
            show(f"{title}, {seconds:.2f} s of audio", rows, BASE if BASE in rows else "")
            print("  real-time factors:", ", ".join(f"{row['rtf']:.3f}" for row in rows.values()))
            shown = peers[0].ask("stages", ids, options.runs)
            print("  stages:", ", ".join(f"{k} {v:.1f}" for k, v in shown.items()), "ms")
            report[title] = {"peers": rows, "stages_ms": shown}
        report["memory_mb"] = {peer.name: peer.ask("memory") for peer in (*peers, *graphs)}
        for peer in (*peers, *graphs):
            peer.close()
    print("\nmemory of the processes, MB:", report["memory_mb"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
