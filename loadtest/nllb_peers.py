"""NLLB-200-distilled-600M, greedy: this project beside PyTorch and CTranslate2, same weights, same run.

    python loadtest/nllb_peers.py [--source 20] [--target 22] [--runs 5] [--dtype bfloat16] [--bits 8]
                                  [--shortlist 16384] [--batch 32] [--without torch,ctranslate2,plain]
                                  [--speak 14,50] [--json FILE]

Random weights at full size; every peer reads as many source tokens and is held to as many target tokens. Rounds
alternate between the peers, so that a noisy machine troubles all of them; medians and ratios are printed. PyTorch and
CTranslate2 are left out where they are not installed. CTranslate2 runs on the CPU in 8 bits. On an NVIDIA GPU this
project runs a second time with MLX's own kernels alone. `--speak` adds what follows in speech-to-speech: Kokoro-82M,
random weights at full size, says so many phonemes of the translation (needs PyTorch and the reference package).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from loadtest.official import NLLB
from models.backend import cpu_count, device_name, limit_cache, memory, mx, on_cpu  # before torch: BLAS order
from models.nllb import search
from models.nllb.config import NllbConfig
from models.nllb.network import Nllb
from models.nllb.search import SearchTask
from models.nllb.steps import CompiledNetwork
from models.nllb.vocabulary import Head
from models.nllb.weights import load_weights, official_shapes

ENGLISH, FRENCH, END = 256047, 256057, 2

Run = Callable[[list[list[int]]], int]
"""Source ids of each sentence -> target tokens in all."""


def random_arrays(config: NllbConfig, seed: int = 0) -> dict[str, mx.array]:
    """Weights under the official names, of such sizes that signals neither die nor explode."""
    mx.random.seed(seed)
    found: dict[str, mx.array] = {}
    for name, shape in official_shapes(config).items():
        if name == "model.decoder.layer_norm.weight":
            found[name] = mx.random.normal(shape)  # of both signs, or a token would follow itself: embeddings are tied
        elif name.endswith("norm.weight"):
            found[name] = mx.ones(shape)
        else:
            scale = 1 / math.sqrt(shape[-1]) if len(shape) == 2 else 0.02
            if name.endswith(("q_proj.weight", "k_proj.weight", "encoder_attn.out_proj.weight")):
                scale *= 2  # attention that is sharp: what comes out depends on the source
            found[name] = mx.random.normal(shape) * scale
        mx.eval(found[name])
    return found


def sources(count: int, tokens: int) -> list[list[int]]:
    """`count` sentences of `tokens` ids, the language and the end included."""
    rng = np.random.RandomState(0)
    return [[ENGLISH, *rng.randint(4, 256000, tokens - 2).tolist(), END] for _ in range(count)]


class Ours:
    """This project's network, with the whole vocabulary or a shortlist's number of tokens. `plain`: no own kernels."""

    def __init__(self, arrays: dict[str, mx.array], options: argparse.Namespace, *, plain: bool = False) -> None:
        self.network = Nllb(NllbConfig(**NLLB))
        self.network.fused = self.network.fused and not plain
        dtype = mx.bfloat16 if options.dtype == "bfloat16" and not on_cpu() else mx.float32
        load_weights(self.network, arrays, "random", dtype)
        self.network.lower(options.bits)
        self.stages = CompiledNetwork(self.network, padded=not on_cpu())
        self.target = options.target
        ids = None
        if options.shortlist:
            ids = np.sort(np.random.RandomState(1).choice(np.arange(4, 256000), options.shortlist - 4, replace=False))
            ids = np.concatenate([np.arange(4), ids]).astype(np.int32)
        self.head: Head = self.network.shared.head(ids)

    def __call__(self, given: list[list[int]]) -> int:
        sentences = [SearchTask(source, FRENCH, self.target) for source in given]
        group = self.stages.encode(given, self.head, self.target)
        found = search.greedy(self.stages, group, sentences, lambda: False)
        return sum(len(item[1][0].tokens) for item in found if item is not None)

    def split(self, given: list[list[int]], runs: int) -> dict[str, float]:
        """Median milliseconds of encoding, and of one step."""
        encode, step = [], []
        for _ in range(runs):
            start = time.perf_counter()
            group = self.stages.encode(given, self.head, self.target)
            middle = time.perf_counter()
            sentences = [SearchTask(source, FRENCH, self.target) for source in given]
            for _ in search.greedy(self.stages, group, sentences, lambda: False):
                pass
            encode.append((middle - start) * 1e3)
            step.append((time.perf_counter() - middle) * 1e3 / self.target)
        return {"encode": statistics.median(encode), "step": statistics.median(step)}


def pytorch(arrays: dict[str, mx.array], options: argparse.Namespace) -> tuple[Any, Run]:
    """transformers' model on the same weights (shared with MLX on a CPU), and its `generate`."""
    import torch

    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]  # transformers would load it, for nothing here
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    device = "cuda" if not on_cpu() and torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if options.dtype == "bfloat16" and device == "cuda" else torch.float32
    with torch.device("meta"):
        model = M2M100ForConditionalGeneration(M2M100Config(**NLLB))
    state = {name: torch.from_numpy(np.array(array, copy=False)) for name, array in arrays.items()}
    tied = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    state |= dict.fromkeys(tied, state["model.shared.weight"])
    model.load_state_dict(state, assign=True)
    for stack in (model.model.encoder, model.model.decoder):  # computed when made: not on the meta device
        positions = stack.embed_positions
        del positions.weights
        positions.make_weights(
            positions.num_positions + positions.offset, positions.embedding_dim, positions.padding_idx
        )
    model = model.to(device=device, dtype=dtype).eval()

    def run(given: list[list[int]]) -> int:
        start = torch.tensor([[END, FRENCH]] * len(given), device=device)
        with torch.inference_mode():
            out = model.generate(
                torch.tensor(given, device=device),
                decoder_input_ids=start,
                num_beams=1,
                do_sample=False,
                min_new_tokens=options.target,
                max_new_tokens=options.target,
            )
        return int((out.shape[1] - 2) * out.shape[0])

    return model, run


def ctranslate2(model: Any, folder: Path, options: argparse.Namespace) -> Run:
    """CTranslate2 in 8 bits, converted from PyTorch's model by its own loader; tokens are named by their ids."""
    import ctranslate2
    from ctranslate2.converters.transformers import M2M100Loader

    spec = M2M100Loader().get_model_spec(model)
    names = [f"t{k}" for k in range(NLLB["vocab_size"])]
    names[:4] = ["<s>", "<pad>", "</s>", "<unk>"]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token = "</s>"  # noqa: S105
    spec.validate()
    spec.optimize(quantization="int8")
    folder.mkdir()
    spec.save(str(folder))
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="int8", intra_threads=cpu_count())

    def run(given: list[list[int]]) -> int:
        out = translator.translate_batch(
            [[names[k] for k in source] for source in given],
            target_prefix=[[names[FRENCH]]] * len(given),
            beam_size=1,
            min_decoding_length=options.target + 1,  # the prefix counts
            max_decoding_length=options.target + 1,
        )
        return sum(len(one.hypotheses[0]) - 1 for one in out)

    return run


def measure(peers: dict[str, Run], given: list[list[int]], target: int, runs: int) -> dict[str, dict[str, float]]:
    """Median, least and most milliseconds of each peer over alternating rounds, after a warm one."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    for round_number in range(runs + 1):
        for name, run in peers.items():
            start = time.perf_counter()
            tokens = run(given)
            if round_number:
                times[name].append((time.perf_counter() - start) * 1e3)
            if tokens != target * len(given):
                raise SystemExit(f"{name} made {tokens} tokens, not {target * len(given)}")
    return {name: {"median_ms": statistics.median(t), "min_ms": min(t), "max_ms": max(t)} for name, t in times.items()}


def speech(model: Run, given: list[list[int]], phonemes: list[int], runs: int) -> dict[str, dict[str, float]]:
    """Milliseconds from source tokens to the samples of the whole translation, for each number of phonemes."""
    from loadtest.kokoro_peers import ours
    from loadtest.kokoro_reference import Reference, random_ids

    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        say, _ = ours(Reference().save(Path(scratch)), "float32")
        for count in phonemes:
            ids, times = random_ids(count), []
            for round_number in range(runs + 2):
                start = time.perf_counter()
                model(given)
                say(ids)
                if round_number >= 2:
                    times.append((time.perf_counter() - start) * 1e3)
            row = {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}
            found[f"{count} phonemes"] = row
    return found


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print one table, with the ratio to PyTorch where it ran."""
    print(f"\n{title}")
    base = rows.get("pytorch", {}).get("median_ms")
    for name, row in rows.items():
        ratio = f"  {base / row['median_ms']:.2f}x PyTorch" if base else ""
        spread = f"{row['min_ms']:9.1f} {row['median_ms']:9.1f} {row['max_ms']:9.1f} ms (min, median, max)"
        print(f"  {name:20s} {spread}{ratio}")


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=int, default=20)
    parser.add_argument("--target", type=int, default=22)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="on a GPU")
    parser.add_argument("--bits", type=int, choices=[0, 4, 8], default=0)
    parser.add_argument("--shortlist", type=int, default=0)
    parser.add_argument("--batch", type=int, default=32, help="sentences at once, beside one by one; 0: leave out")
    parser.add_argument("--without", default="", help="peers to leave out")
    parser.add_argument("--speak", default="", help="numbers of phonemes to say after each translation")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    limit_cache(4 << 30)
    left_out = set(options.without.split(","))
    arrays = random_arrays(NllbConfig(**NLLB))
    model = Ours(arrays, options)
    peers: dict[str, Run] = {"nightingale": model}
    if model.network.fused and "plain" not in left_out:
        peers["nightingale, MLX's"] = Ours(arrays, options, plain=True)
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {device_name()}",
        "options": vars(options) | {"json": ""},
    }
    with tempfile.TemporaryDirectory() as scratch:
        if "torch" not in left_out and importlib.util.find_spec("torch"):
            reference, peers["pytorch"] = pytorch(arrays, options)
            if "ctranslate2" not in left_out and importlib.util.find_spec("ctranslate2"):
                peers["ctranslate2 int8"] = ctranslate2(reference.float().cpu(), Path(scratch) / "ct2", options)
        del arrays
        kind = f"{options.dtype if not on_cpu() else 'float32'}, bits {options.bits}, shortlist {options.shortlist}"
        print(f"{report['machine']}; ours {kind}; {options.source} source and {options.target} target tokens")
        one = sources(1, options.source)
        report["one"] = measure(peers, one, options.target, options.runs)
        show("one sentence", report["one"])
        report["stages_ms"] = model.split(one, options.runs)
        print("  ours:", ", ".join(f"{name} {value:.1f}" for name, value in report["stages_ms"].items()), "ms")
        if options.speak:
            phonemes = [int(count) for count in options.speak.split(",")]
            report["speech"] = speech(model, one, phonemes, options.runs)
            show("one sentence, translated and spoken", report["speech"])
        if options.batch:
            report["batch"] = measure(peers, sources(options.batch, options.source), options.target, options.runs)
            show(f"{options.batch} sentences at once", report["batch"])
            for name, row in report["batch"].items():
                gain = report["one"][name]["median_ms"] * options.batch / row["median_ms"]
                print(f"  {name:20s} {gain:.1f} times the throughput of one by one")
    use = memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    report["memory"] = {"mlx_active_mb": use.active >> 20, "mlx_peak_mb": use.peak >> 20, "process_peak_mb": peak}
    print(f"\nmemory: {report['memory']}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, default=str))


if __name__ == "__main__":
    main()
