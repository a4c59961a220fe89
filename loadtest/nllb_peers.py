"""NLLB-200-distilled-600M, M2M-100 418M or SMaLL-100, greedy: this project beside PyTorch and CTranslate2, same run.

    python loadtest/nllb_peers.py [--model nllb|m2m100|small100] [--source 20] [--target 22] [--runs 5]
                                  [--dtype bfloat16] [--bits 8]
                                  [--shortlist 16384] [--batch 32] [--without torch,graphs,ctranslate2,plain]
                                  [--speak 14,50] [--folder DIR] [--json FILE]

Random weights at full size; every peer reads as many source tokens and is held to as many target tokens. Each peer is a
process of its own (see `peers`). Medians, ratios and the memory of each process are printed. PyTorch and CTranslate2
are left out where they are not installed. CTranslate2 runs on the CPU in 8 bits. On a GPU this project runs a second
time with MLX's own kernels alone. On an NVIDIA GPU PyTorch runs a second time with CUDA graphs (`nllb_graphs`): the
peer to beat there. `--speak` adds what follows in speech-to-speech: Kokoro-82M, random weights at full size, says so
many phonemes of the translation (needs PyTorch and the reference package).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from loadtest.official import M2M100, NLLB, SMALL100
from loadtest.peers import Commands, Peer, Rows, measure, memory_mb, show
from models.backend import cpu_count, device_name, give_back, limit_cache, memory, mx, on_cpu
from models.checkpoint import read_arrays
from models.layers.kernels.device import gpu
from models.nllb import search
from models.nllb.config import NllbConfig
from models.nllb.network import Nllb
from models.nllb.search import TranslationTask
from models.nllb.steps import CompiledM2M100
from models.nllb.vocabulary import OutputProjection
from models.nllb.weights import load_weights, shapes

# Peers import what else they measure inside their own processes.

END = 2
OURS, PLAIN, BASE, CT2 = "nightingale", "nightingale, MLX's", "pytorch", "ctranslate2 int8"
GRAPHS = "pytorch, CUDA graphs"

Run = Callable[[list[list[int]]], int]
"""Source ids of each sentence -> target tokens in all."""


@dataclass(frozen=True, slots=True)
class Size:
    """A model: its numbers, the first token of its sources, the language that begins a translation (None: nothing)."""

    numbers: dict[str, Any]
    first: int
    target: int | None
    pieces: int

    @property
    def config(self) -> NllbConfig:
        """Return its configuration."""
        return NllbConfig(**self.numbers)

    @property
    def start(self) -> tuple[int, ...]:
        """Return the tokens from which a translation is decoded."""
        return (END,) if self.target is None else (END, self.target)


SIZES = {
    "nllb": Size(NLLB, 256047, 256057, 256000),
    "m2m100": Size(M2M100, 128022, 128028, 128004),
    "small100": Size(SMALL100, 128028, None, 128004),
}


def random_arrays(config: NllbConfig, seed: int = 0) -> dict[str, mx.array]:
    """Weights under the official names, of such sizes that signals neither die nor explode."""
    mx.random.seed(seed)
    found: dict[str, mx.array] = {}
    for name, shape in shapes(Nllb(config)).items():
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


def sources(size: Size, count: int, tokens: int) -> list[list[int]]:
    """`count` sentences of `tokens` ids, the language and the end included."""
    rng = np.random.RandomState(0)
    return [[size.first, *rng.randint(4, size.pieces, tokens - 2).tolist(), END] for _ in range(count)]


class Ours:
    """This project's network, with the whole vocabulary or a shortlist's number of tokens. `plain`: no own kernels."""

    def __init__(self, path: Path, options: argparse.Namespace, *, plain: bool = False) -> None:
        limit_cache(None)
        self.size = SIZES[options.model]
        self.network = Nllb(self.size.config)
        dtype = mx.bfloat16 if options.dtype == "bfloat16" and not on_cpu() else mx.float32
        load_weights(self.network, read_arrays(path), "random", dtype)
        self.network.lower(options.bits)
        self.stages = CompiledM2M100(self.network, padded=not on_cpu(), kernels=not plain)
        self.target = options.target
        ids = None
        if options.shortlist:
            ids = np.sort(
                np.random.RandomState(1).choice(np.arange(4, self.size.pieces), options.shortlist - 4, replace=False)
            )
            ids = np.concatenate([np.arange(4), ids]).astype(np.int32)
        self.head: OutputProjection = self.network.shared.head(ids)

    def __call__(self, given: list[list[int]]) -> int:
        sentences = [TranslationTask(source, self.size.target, self.target) for source in given]
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
            sentences = [TranslationTask(source, self.size.target, self.target) for source in given]
            for _ in search.greedy(self.stages, group, sentences, lambda: False):
                pass
            encode.append((middle - start) * 1e3)
            step.append((time.perf_counter() - middle) * 1e3 / self.target)
        return {"encode": statistics.median(encode), "step": statistics.median(step)}


def reference(path: Path, size: Size) -> Any:
    """Return transformers' model on the same weights, in float32."""
    import torch
    from safetensors.torch import load_file

    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]  # transformers would load it, for nothing here
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    with torch.device("meta"):
        model = M2M100ForConditionalGeneration(M2M100Config(**size.numbers))
    state = load_file(path)
    tied = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    state |= dict.fromkeys(tied, state["model.shared.weight"])
    model.load_state_dict(state, assign=True)
    for stack in (model.model.encoder, model.model.decoder):  # computed when made: not on the meta device
        positions = stack.embed_positions
        del positions.weights
        positions.make_weights(
            positions.num_positions + positions.offset, positions.embedding_dim, positions.padding_idx
        )
    return model.eval()


def pytorch(path: Path, options: argparse.Namespace) -> Run:
    """Return `generate` of transformers' model."""
    import torch

    device = "cuda" if not on_cpu() and torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if options.dtype == "bfloat16" and device == "cuda" else torch.float32
    size = SIZES[options.model]
    model = reference(path, size).to(device=device, dtype=dtype)

    def run(given: list[list[int]]) -> int:
        start = torch.tensor([size.start] * len(given), device=device)
        with torch.inference_mode():
            out = model.generate(
                torch.tensor(given, device=device),
                decoder_input_ids=start,
                num_beams=1,
                do_sample=False,
                min_new_tokens=options.target,
                max_new_tokens=options.target,
            )
        return int((out.shape[1] - len(size.start)) * out.shape[0])

    return run


def token_names(size: Size) -> list[str]:
    """Return the tokens of CTranslate2's vocabulary, most of them named by their ids."""
    return ["<s>", "<pad>", "</s>", "<unk>", *(f"t{k}" for k in range(4, size.config.vocab_size))]


def convert(path: Path, folder: Path, size: Size) -> Commands:
    """Write the weights to `folder` in CTranslate2's form, in 8 bits, by its own loader; this takes no commands."""
    from ctranslate2.converters.transformers import M2M100Loader

    spec = M2M100Loader().get_model_spec(reference(path, size))
    names = token_names(size)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token = "</s>"  # noqa: S105
    spec.validate()
    spec.optimize(quantization="int8")
    folder.mkdir()
    spec.save(str(folder))
    return {}


def ctranslate2(folder: Path, options: argparse.Namespace) -> Run:
    """Return CTranslate2's greedy search in 8 bits, with the weights that `convert` wrote to `folder`."""
    import ctranslate2

    size = SIZES[options.model]
    names = token_names(size)
    forced = len(size.start) - 1
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="int8", intra_threads=cpu_count())

    def run(given: list[list[int]]) -> int:
        out = translator.translate_batch(
            [[names[k] for k in source] for source in given],
            target_prefix=[[names[id_] for id_ in size.start[1:]]] * len(given),
            beam_size=1,
            min_decoding_length=options.target + forced,  # the prefix counts
            max_decoding_length=options.target + forced,
        )
        return sum(len(one.hypotheses[0]) - forced for one in out)

    return run


def speaker(model: Run, files: dict[str, str]) -> Callable[[list[list[int]], list[int]], int]:
    """Return a function from source tokens, and phonemes to say then, to the number of samples."""
    from loadtest.kokoro_peers import ours

    say, _ = ours(files, "float32")

    def speak(given: list[list[int]], phonemes: list[int]) -> int:
        model(given)
        return say(phonemes)

    return speak


def commands(name: str, folder: Path, options: argparse.Namespace) -> Commands:
    """Return the commands of one peer, in its own process."""
    path = folder / f"{options.model}.safetensors"
    if name == BASE:
        return {"run": pytorch(path, options)}
    if name == CT2:
        return {"run": ctranslate2(folder / f"{options.model}-ct2", options)}
    if name == GRAPHS:
        from loadtest.nllb_graphs import make

        return {
            "run": make(path, SIZES[options.model].config, SIZES[options.model].start, options.target, options.dtype)
        }
    model = Ours(path, options, plain=name == PLAIN)
    found: dict[str, Callable[..., Any]] = {"run": model, "stages": model.split, "arrays": arrays_mb, "memory": rested}
    if name == OURS and options.speak:
        found["speak"] = speaker(model, json.loads((folder / "files.json").read_text()))
    return found


def arrays_mb() -> dict[str, int]:
    """Return the megabytes of MLX's arrays now, and the most that ever were."""
    use = memory()
    return {"active": use.active >> 20, "peak": use.peak >> 20}


def rested() -> dict[str, int]:
    """Return the megabytes of this process as a server that has nothing to do."""
    give_back(rested=True)
    return memory_mb()


def names(options: argparse.Namespace) -> list[str]:
    """Return the peers to start."""
    left_out = set(options.without.split(","))
    found = [OURS]
    if "plain" not in left_out and gpu() is not None:
        found.append(PLAIN)
    if "torch" not in left_out and find_spec("torch"):
        found.append(BASE)
    if "graphs" not in left_out and find_spec("torch") and gpu() == "cuda":
        found.append(GRAPHS)
    if "ctranslate2" not in left_out and find_spec("torch") and find_spec("ctranslate2"):
        found.append(CT2)
    return found


def start(folder: Path, options: argparse.Namespace) -> list[Peer]:
    """Write the weights, and what `--speak` needs, to `folder` unless they are there; return the peers, started."""
    path = folder / f"{options.model}.safetensors"
    if not path.exists():
        mx.save_safetensors(str(path), random_arrays(SIZES[options.model].config))
        mx.clear_cache()
    if options.speak:
        from loadtest.kokoro_reference import Reference

        (folder / "files.json").write_text(json.dumps(Reference().save(folder / "kokoro")))
    asked = names(options)
    if GRAPHS not in asked and "graphs" not in options.without.split(","):
        print(f"{GRAPHS}: left out, as it needs PyTorch and an NVIDIA GPU")
    converted = folder / f"{options.model}-ct2"
    if CT2 in asked and not converted.exists():
        Peer("convert", convert, path, converted, SIZES[options.model]).close()
    return [Peer(name, commands, name, folder, options) for name in asked]


def speech(peer: Peer, given: list[list[int]], phonemes: list[int], runs: int) -> Rows:
    """Return milliseconds from source tokens to the samples of the translation, for each number of phonemes."""
    from loadtest.kokoro_reference import random_ids

    found = {}
    for count in phonemes:
        times = [peer.time("speak", given, random_ids(count))[0] for _ in range(runs + 2)][2:]
        row = {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}
        found[f"{count} phonemes"] = row
    return found


def compare(peers: list[Peer], count: int, options: argparse.Namespace, title: str) -> Rows:
    """Measure all peers with `count` sentences at once and print a table. Raises SystemExit for missing tokens."""
    rows, tokens = measure(peers, sources(SIZES[options.model], count, options.source), options.runs, warm=1)
    if tokens != options.target * count:
        raise SystemExit(f"{tokens} tokens, not {options.target * count}")
    show(title, rows, next((base for base in (BASE, GRAPHS, CT2) if base in rows), ""))
    return rows


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(SIZES), default="nllb")
    parser.add_argument("--source", type=int, default=20)
    parser.add_argument("--target", type=int, default=22)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="on a GPU")
    parser.add_argument("--bits", type=int, choices=[0, 4, 8], default=0)
    parser.add_argument("--shortlist", type=int, default=0)
    parser.add_argument("--batch", type=int, default=32, help="sentences at once, beside one by one; 0: leave out")
    parser.add_argument("--without", default="", help="peers to leave out")
    parser.add_argument("--speak", default="", help="numbers of phonemes to say after each translation")
    parser.add_argument("--folder", type=Path, help="where weights are kept for another run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {device_name()}",
        "options": vars(options) | {"json": ""},
    }
    kind = f"{options.dtype if not on_cpu() else 'float32'}, bits {options.bits}, shortlist {options.shortlist}"
    print(
        f"{report['machine']}; {options.model}; ours {kind}; {options.source} source and {options.target} target tokens"
    )
    with tempfile.TemporaryDirectory() as scratch:
        peers = start(options.folder or Path(scratch), options)
        report["memory_loaded_mb"] = {peer.name: peer.ask("memory") for peer in peers}
        report["one"] = compare(peers, 1, options, "one sentence")
        one = sources(SIZES[options.model], 1, options.source)
        report["stages_ms"] = peers[0].ask("stages", one, options.runs)
        print("  ours:", ", ".join(f"{name} {value:.1f}" for name, value in report["stages_ms"].items()), "ms")
        if options.speak:
            phonemes = [int(count) for count in options.speak.split(",")]
            report["speech"] = speech(peers[0], one, phonemes, options.runs)
            show("one sentence, translated and spoken", report["speech"], "")
        if options.batch:
            report["batch"] = compare(peers, options.batch, options, f"{options.batch} sentences at once")
            for name, row in report["batch"].items():
                gain = report["one"][name]["median_ms"] * options.batch / row["median_ms"]
                print(f"  {name:20s} {gain:.1f} times the throughput of one by one")
        report["memory_mb"] = {peer.name: peer.ask("memory") for peer in peers}
        report["arrays_mb"] = peers[0].ask("arrays")
        for peer in peers:
            peer.close()
    print("\nmemory of the processes after loading, MB:", report["memory_loaded_mb"])
    print("memory of the processes at the end, MB:", report["memory_mb"])
    print("ours: arrays, MB:", report["arrays_mb"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, default=str))


if __name__ == "__main__":
    main()
