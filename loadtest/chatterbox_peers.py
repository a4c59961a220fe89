"""Chatterbox beside its reference package on the same random weights, in one run.

    python -m loadtest.chatterbox_peers [--model chatterbox-turbo] [--dtype bfloat16] [--bits 8] [--runs 5]
        [--tokens 102] [--without pytorch] [--checkpoint FOLDER] [--json FILE]

Forced to TOKENS speech tokens, with guidance where the model has it. Each peer runs in a process of its own. The
reference (`pip install --no-deps chatterbox-tts==0.1.7 ...`, see the Makefile) computes as its package does.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from loadtest.peers import Commands, Peer

TEXT = "The weather is fine today, and the train leaves in the morning."
ROWS = {
    "t3": "T3, ms a token",
    "whole": "sentence to full audio, ms",
    "first": "first audio, ms",
    "s3gen": "of which S3Gen, ms",
}

Figures = dict[str, list[float]]


def nightingale(folder: Path, options: argparse.Namespace) -> tuple[str, Figures]:
    """This project, warm."""
    from models.backend import device_name, limit_cache, memory
    from models.chatterbox.pipeline import load
    from models.contract import ModelSpec, Sampling
    from models.timeline import Stage, Timeline

    limit_cache(4 << 30)
    catalog = Path(__file__).parents[1] / "app/engine/catalog.toml"
    roles = tomllib.loads(catalog.read_text(encoding="utf-8"))[options.model]["roles"]
    found = {
        role: next((folder / path for path in paths if (folder / path).exists()), None) for role, paths in roles.items()
    }
    files = {role: str(path) for role, path in found.items() if path is not None}
    spec = ModelSpec(
        options.model, "chatterbox", files, dtype=options.dtype, bits=options.bits, cache_bits=options.cache_bits,
        steps=options.steps,
    )  # fmt: skip
    start = time.perf_counter()
    model = load(spec)
    loaded = time.perf_counter()
    print(f"nightingale: loaded in {loaded - start:.1f} s", file=sys.stderr)
    if options.warm:
        model.warm(lambda step: print(f"  {step.name}: {step.seconds:.2f} s", file=sys.stderr))
        print(f"nightingale: warm in {time.perf_counter() - loaded:.1f} s", file=sys.stderr)
    sampling = Sampling()
    figures: Figures = {row: [] for row in ROWS}
    for run in range(options.runs + 1):
        timeline, start = Timeline(), time.perf_counter()
        samples = 0
        for chunk in model.forced(TEXT, options.tokens, sampling, run, timeline, whole=True):
            samples += 0 if chunk is None else chunk.pcm.size
        whole = time.perf_counter() - start
        if timeline.tokens != options.tokens or samples == 0:
            raise SystemExit(f"{timeline.tokens} tokens and {samples} samples, not what was asked for")
        stages = timeline.stages
        t3 = (stages[Stage.T3_PREFILL] + stages[Stage.T3_DECODE]) / options.tokens
        s3gen = stages[Stage.S3GEN_ENCODE] + stages[Stage.S3GEN_FLOW] + stages[Stage.VOCODER]
        start = time.perf_counter()
        chunks = model.forced(TEXT, options.tokens, sampling, run, Timeline())
        next(chunk for chunk in chunks if chunk is not None)
        first = time.perf_counter() - start
        chunks.close()
        if run:
            for row, value in (("t3", t3), ("whole", whole), ("first", first), ("s3gen", s3gen)):
                figures[row].append(value * 1e3)
        # A run that is cut short has said this much; the first compiles what it needs.
        print(f"  run {run}: t3 {t3 * 1e3:.2f}, whole {whole * 1e3:.0f}, first {first * 1e3:.0f} ms", file=sys.stderr)
    use = memory()
    print(f"  memory {use.active / 1e9:.2f} GB, at most {use.peak / 1e9:.2f} GB", file=sys.stderr)
    return device_name(), figures


def pytorch(folder: Path, options: argparse.Namespace) -> tuple[str, Figures]:
    """The reference package, on the GPU if there is one."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests/models/chatterbox"))
    import reference_packages  # makes the package importable
    import torch
    from chatterbox.models.s3gen import S3Gen
    from chatterbox.models.t3 import T3
    from chatterbox.models.t3.modules.cond_enc import T3Cond
    from chatterbox.models.t3.modules.t3_config import T3Config
    from safetensors.torch import load_file

    device = "cuda" if torch.cuda.is_available() else "cpu"
    turbo = options.model == "chatterbox-turbo"
    hp = reference_packages.turbo_parameters() if turbo else T3Config()
    t3 = T3(hp)
    t3.load_state_dict(load_file(folder / ("t3_turbo_v1.safetensors" if turbo else "t3_cfg.safetensors")), strict=False)
    t3.to(device).eval()
    # No token ends speech, so that there are as many as asked for.
    hp.stop_speech_token = -1
    s3gen = S3Gen(meanflow=turbo)
    name = "s3gen_meanflow.safetensors" if turbo else "s3gen.safetensors"
    s3gen.load_state_dict(load_file(folder / name), strict=False)
    s3gen.to(device).eval()
    voice = torch.load(folder / "conds.pt", weights_only=True, map_location=device)
    ids = torch.tensor([[3 + (7 * k) % 600 for k in range(len(TEXT))]], device=device)
    if not turbo:
        ids = torch.nn.functional.pad(torch.nn.functional.pad(ids, (1, 0), value=255), (0, 1), value=0).repeat(2, 1)

    def synchronized() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    figures: Figures = {row: [] for row in ROWS}
    for run in range(options.runs + 1):
        condition = T3Cond(**voice["t3"])
        begin = synchronized()
        with torch.inference_mode():
            if turbo:
                said = t3.inference_turbo(t3_cond=condition, text_tokens=ids, max_gen_len=options.tokens - 1)
            else:
                said = t3.inference(t3_cond=condition, text_tokens=ids, max_new_tokens=options.tokens)
            middle = synchronized()
            if said.numel() != options.tokens:
                raise SystemExit(f"{said.numel()} tokens, not what was asked for")
            spoken = said.flatten()
            spoken = torch.where(spoken < 6561, spoken, 0)
            s3gen.inference(speech_tokens=spoken, ref_dict=dict(voice["gen"]), n_cfm_timesteps=2 if turbo else None)
        end = synchronized()
        if run:
            for row, value in (
                ("t3", (middle - begin) / options.tokens),
                ("whole", end - begin),
                ("s3gen", end - middle),
            ):
                figures[row].append(value * 1e3)
            # It does not stream: nothing is heard before everything is there.
            figures["first"].append((end - begin) * 1e3)
    return f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if device == 'cuda' else 'cpu'}", figures


PEERS: dict[str, Callable[[Path, argparse.Namespace], tuple[str, Figures]]] = {
    "nightingale": nightingale,
    "pytorch": pytorch,
}


def commands(peer: str, folder: Path, options: argparse.Namespace) -> Commands:
    """Return the command of one peer, in its own process."""
    return {"run": lambda: PEERS[peer](folder, options)}


def measure(peer: str, folder: Path, options: argparse.Namespace) -> tuple[str, Figures] | None:
    """The figures of one peer, from a process of its own; None if it failed, which it has then said itself."""
    process = Peer(peer, commands, peer, folder, options)
    try:
        found: tuple[str, Figures] = process.ask("run")
    except EOFError:
        return None
    process.close()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["chatterbox", "chatterbox-turbo"], default="chatterbox")
    parser.add_argument("--tokens", type=int, default=102)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="as the setting")
    parser.add_argument("--bits", type=int, choices=[0, 4, 8], default=0)
    parser.add_argument("--cache-bits", type=int, choices=[0, 4, 8], default=0)
    parser.add_argument("--steps", type=int, default=0, help="of the flow; 0: the model's own")
    parser.add_argument("--warm", action="store_true", help="every shape first, as the server does, and say how long")
    parser.add_argument("--without", default="", help="peers to leave out")
    parser.add_argument("--checkpoint", type=Path, help="of random weights; made anew if it is not there")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from loadtest.fake_checkpoints import write
    from models.chatterbox.config import VARIANTS

    with tempfile.TemporaryDirectory() as scratch:
        folder = options.checkpoint or Path(scratch) / options.model
        if not folder.exists():
            write(folder, options.model, VARIANTS[options.model])
        found = {}
        for peer in PEERS:
            if peer in options.without.split(",") or (peer == "pytorch" and find_spec("torch") is None):
                continue
            result = measure(peer, folder, options)
            if result is not None:
                found[peer] = result
    print(f"{options.model}, {options.tokens} tokens, {options.runs} runs, {platform.machine()}")
    for peer, (device, _) in found.items():
        print(f"  {peer}: {device}")
    for row, title in ROWS.items():
        medians = {peer: statistics.median(figures[row]) for peer, (_, figures) in found.items() if figures[row]}
        ours = medians.get("nightingale")
        cells = [
            f"{peer} {value:9.2f}" + (f" ({value / ours:5.2f}x)" if ours else "") for peer, value in medians.items()
        ]
        print(f"{title:30s} " + "   ".join(cells))
    if options.json:
        report = {"options": {key: str(value) for key, value in vars(options).items()}, "peers": found}
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
