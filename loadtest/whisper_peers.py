"""Whisper: this project beside CTranslate2 (the engine of faster-whisper) and openai-whisper, same weights, same run.

    python loadtest/whisper_peers.py [--sizes tiny,base,small] [--seconds 30,15,10,5] [--beams 1,5] [--tokens 64]
                                     [--batches 1,3,4] [--runs 5] [--without torch,float32,ct2float32]
                                     [--tokenizer FILE] [--folder DIR] [--json FILE]

Random weights of the official shapes. On an NVIDIA GPU this project in bfloat16, with its kernels and by MLX's alone,
runs beside PyTorch with CUDA graphs (`whisper_graphs`), the peer to beat there. Each peer is a process of its own (see
`peers`). The encoder hears so many seconds and nothing beyond them. A token is one of a transcript of `--tokens`, with
its share of the prompt, of the rules and of the search; on a GPU transcripts have no timestamps. `--batches`: two
minutes, as four windows of 30 s that are encoded and decoded so many at once; 3 is what the server does, as it
recognizes the first window alone. On the CPU this project runs with weights of 8 bits and with those of 32; CTranslate2
with weights of 8 bits. Needs CTranslate2, PyTorch, transformers and openai-whisper
(`make whisperpeers`); on a GPU PyTorch, and OpenAI's file of ranks as `--tokenizer`.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from loadtest.official import WHISPER
from loadtest.peers import Commands, Peer, Rows, measure, show
from models.backend import cpu_count, device_name, limit_cache, mx
from models.checkpoint import read_arrays
from models.layers.kernels.device import gpu
from models.native import kernels
from models.whisper.config import WhisperConfig
from models.whisper.decoding import DecodingOptions, decode
from models.whisper.network import Whisper
from models.whisper.pipeline import drain
from models.whisper.steps import Memory, Steps
from models.whisper.text import WhisperTokenizer
from models.whisper.weights import load_weights, shapes

# Peers import what else they measure inside their own processes.

OURS, OURS_FLOAT32, CT2, CT2_FLOAT32, TORCH = (
    "nightingale 8 bits",
    "nightingale fp32",
    "ctranslate2 int8",
    "ctranslate2 fp32",
    "pytorch fp32",
)
OURS_HALF, OURS_PLAIN, GRAPHS = "nightingale bf16", "nightingale bf16, MLX's", "pytorch bf16, CUDA graphs"
FRAMES_A_SECOND = 100
START, ENGLISH, TRANSCRIBE, END = 50258, 50259, 50359, 50257
WINDOWS = 4
"""Windows of the recording."""

Work = tuple[str, int]
"""("encode", seconds), ("decode", beams) or ("recording", windows at once)."""
Run = Callable[[Work], int]
"""Do the work; the number of positions or of tokens that it gave."""
Floats = npt.NDArray[np.float32]

T = TypeVar("T")


def config_of(size: str) -> WhisperConfig:
    """Return the configuration of an official multilingual model."""
    return WhisperConfig(**WHISPER[size])


def random_arrays(config: WhisperConfig) -> dict[str, mx.array]:
    """Return weights by this project's names, of such sizes that tokens vary and that no transcript ends."""
    mx.random.seed(0)
    found: dict[str, mx.array] = {}
    for name, shape in shapes(Whisper(config)).items():
        if name == "decoder.ln.weight":
            found[name] = mx.random.normal(shape)  # of both signs: embeddings are tied, so ones would repeat a token
        elif len(shape) == 1:
            found[name] = mx.ones(shape) if name.endswith("weight") else mx.zeros(shape)
        else:
            found[name] = mx.random.normal(shape) / math.sqrt(math.prod(shape[1:]))
    table = found["decoder.token_embedding.weight"]
    table[END] = mx.zeros((config.n_text_state,))
    mx.eval(found)
    return found


@cache
def spectrogram(config: WhisperConfig, seconds: int, windows: int = 1) -> Floats:
    """Return noise in place of spectrograms, [windows, frames, mels]; it is drawn once, so that no run counts it."""
    noise = np.random.RandomState(0).randn(windows, seconds * FRAMES_A_SECOND, config.n_mels)
    return noise.astype(np.float32)


def batches(config: WhisperConfig, size: int) -> list[Floats]:
    """Return the windows of a recording, `size` at once and the rest."""
    whole = spectrogram(config, 30, WINDOWS)
    return [whole[start : start + size] for start in range(0, WINDOWS, size)]


def tokenizer_file() -> Path:
    """Return the file of ranks that openai-whisper installs."""
    spec = find_spec("whisper")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("openai-whisper, whose tokenizer is needed, is not installed: make whisperpeers")
    return Path(spec.submodule_search_locations[0]) / "assets" / "multilingual.tiktoken"


def ours(path: Path, size: str, tokens: int, ranks: Path, kind: str) -> Run:
    """Return this project's encoder and search."""
    limit_cache(None)
    config = config_of(size)
    network = Whisper(config)
    half = kind in (OURS_HALF, OURS_PLAIN)
    load_weights(network, read_arrays(path), "random", mx.bfloat16 if half else mx.float32)
    network.lower(8 if kind == OURS else 0)
    steps, tokenizer = Steps(network, kernels=kind != OURS_PLAIN), WhisperTokenizer(ranks, config)
    if kind == OURS_HALF and steps.kernel is None:
        raise SystemExit("no kernel of the decoding step here")
    heard: list[Memory] = []

    def search(memory: Memory, beams: int) -> int:
        chosen = DecodingOptions(beams=beams, limit=tokens, timestamps=not half)  # the graphs' peer has none
        return sum(len(one.tokens) for one in drain(decode(steps, tokenizer, memory, chosen, lambda: False)))

    def run(work: Work) -> int:
        kind, number = work
        if kind == "encode":
            memory = drain(steps.encode(spectrogram(config, number)))
            heard[:] = [memory]
            return int(memory[0].shape[2])
        if kind == "decode":
            return search(heard[0], number)
        count = 0
        for mel in batches(config, number):
            memories = drain(steps.encode_windows(list(mel)))
            count += search([mx.concatenate(list(parts)) for parts in zip(*memories, strict=True)], 1)
        return count

    return run


def graphs(path: Path, size: str, tokens: int, ranks: Path) -> Run:
    """Return PyTorch's encoder and greedy search as CUDA graphs; each shape is captured once. It has no beams."""
    import torch

    from loadtest.torch_graphs import missing
    from loadtest.whisper_graphs import Network, Recognition

    if reason := missing():
        raise SystemExit(reason)
    config, device = config_of(size), torch.device("cuda")
    arrays = openai_names(read_arrays(path))
    network = Network(
        config, {name: torch.from_numpy(value.copy()).to(device, torch.bfloat16) for name, value in arrays.items()}
    )
    tokenizer = WhisperTokenizer(ranks, config)
    prompt = tokenizer.start_sequence("en", "transcribe", timestamps=False)
    kept: dict[tuple[int, ...], Recognition] = {}
    heard: list[Recognition] = []

    def encode(mel: Floats) -> Recognition:
        if mel.shape not in kept:
            kept[mel.shape] = Recognition(network, prompt, tokenizer.suppressed, len(mel), mel.shape[1], tokens)
        kept[mel.shape].hear(torch.from_numpy(mel.swapaxes(1, 2).copy()))
        return kept[mel.shape]

    def run(work: Work) -> int:
        kind, number = work
        if kind == "encode":
            heard[:] = [encode(spectrogram(config, number))]
            return number * FRAMES_A_SECOND // 2
        if kind == "decode":
            return sum(map(len, heard[0].search())) if number == 1 else 0
        return sum(sum(map(len, encode(mel).search())) for mel in batches(config, number))

    return run


def openai_names(arrays: dict[str, mx.array]) -> dict[str, Floats]:
    """Return arrays by openai-whisper's names, convolutions in PyTorch's order."""
    found = {}
    for name, array in arrays.items():
        value = array.swapaxes(1, 2) if array.ndim == 3 else array
        found[re.sub(r"\.mlp([12])\.", lambda part: f".mlp.{2 * int(part[1]) - 2}.", name)] = np.array(value)
    return found


# Parts of openai-whisper's names -> parts of the hub's, in this order.
_HUB_PARTS = (
    (r"\.blocks\.", ".layers."),
    (r"\bcross_attn_ln\b", "encoder_attn_layer_norm"),
    (r"\battn_ln\b", "self_attn_layer_norm"),
    (r"\bmlp_ln\b", "final_layer_norm"),
    (r"\bcross_attn\b", "encoder_attn"),
    (r"\battn\b", "self_attn"),
    (r"\bmlp\.0\b", "fc1"),
    (r"\bmlp\.2\b", "fc2"),
    (r"\.query\b", ".q_proj"),
    (r"\.key\b", ".k_proj"),
    (r"\.value\b", ".v_proj"),
    (r"(_attn)\.out\b", r"\1.out_proj"),
    (r"\bln_post\b|^decoder\.ln\b", lambda found: "layer_norm" if found[0] == "ln_post" else "decoder.layer_norm"),
    (r"\btoken_embedding\b", "embed_tokens"),
    (r"\bpositional_embedding$", "embed_positions.weight"),
)


def hub_name(name: str) -> str:
    """Return the hub's name of an array."""
    for pattern, theirs in _HUB_PARTS:
        name = re.sub(pattern, theirs, name)
    return f"model.{name}"


def convert(path: Path, size: str, folder: Path) -> Commands:
    """Write the weights to `folder` in CTranslate2's form by its own loader; this takes no commands."""
    import torch

    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]  # transformers would load it, for nothing here
    from ctranslate2.converters.transformers import WhisperLoader
    from transformers import GenerationConfig, WhisperForConditionalGeneration
    from transformers import WhisperConfig as HubConfig

    shape = config_of(size)
    width, heads = shape.n_audio_state, shape.n_audio_head
    config = HubConfig(
        vocab_size=shape.n_vocab,
        num_mel_bins=shape.n_mels,
        d_model=width,
        encoder_layers=shape.n_audio_layer,
        decoder_layers=shape.n_text_layer,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
    )
    model = WhisperForConditionalGeneration(config)
    arrays = openai_names(read_arrays(path))
    state = {hub_name(name): torch.from_numpy(value.copy()) for name, value in arrays.items()}
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    missing, extra = model.load_state_dict(state, strict=False)
    if extra or any(not name.endswith("k_proj.bias") for name in missing):
        raise SystemExit(f"weights that do not fit: {missing}, {extra}")
    tokenizer = WhisperTokenizer(tokenizer_file(), shape)
    suppressed = sorted({*tokenizer.suppressed})
    model.generation_config = GenerationConfig(suppress_tokens=suppressed, begin_suppress_tokens=[220, END])
    loader = WhisperLoader()
    spec = loader.get_model_spec(model.eval())
    loader.set_config(spec.config, model, tokenizer)
    spec.config.lang_ids = list(range(ENGLISH, ENGLISH + 99))
    names = [f"t{number}" for number in range(shape.n_vocab)]
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in tokenizer.languages)]
    special += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"]
    special += ["<|notimestamps|>", *(f"<|{number * 0.02:.2f}|>" for number in range(1501))]
    names[END:] = special
    spec.register_vocabulary(names)
    spec.validate()
    folder.mkdir()
    spec.save(str(folder))
    return {}


def ctranslate2(folder: Path, size: str, tokens: int, kind: str) -> Run:
    """Return CTranslate2's encoder and search with weights of `kind`, as faster-whisper calls them."""
    import ctranslate2 as engine

    model = engine.models.Whisper(str(folder), device="cpu", compute_type=kind, intra_threads=cpu_count())
    config = config_of(size)
    heard: list[Any] = []

    def encode(mel: Floats) -> Any:
        return model.encode(engine.StorageView.from_array(np.ascontiguousarray(mel.swapaxes(1, 2))), to_cpu=True)

    def search(encoded: Any, beams: int) -> int:
        found = model.generate(
            encoded,
            [[START, ENGLISH, TRANSCRIBE]] * int(encoded.shape[0]),
            beam_size=beams,
            max_length=2 * tokens,  # half of it is for the transcript
            return_scores=True,
            return_no_speech_prob=True,
            suppress_blank=True,
            max_initial_timestamp_index=50,
        )
        return sum(len(one.sequences_ids[0]) for one in found)

    def run(work: Work) -> int:
        name, number = work
        if name == "encode":
            heard[:] = [encode(spectrogram(config, number))]
            return int(heard[0].shape[1])
        if name == "decode":
            return search(heard[0], number)
        return sum(search(encode(mel), 1) for mel in batches(config, number))

    return run


def pytorch(path: Path, size: str, tokens: int) -> Run:
    """Return openai-whisper's encoder and search."""
    import torch
    from whisper.decoding import DecodingOptions as TheirOptions
    from whisper.model import ModelDimensions
    from whisper.model import Whisper as Theirs

    torch.set_num_threads(cpu_count())
    config = config_of(size)
    dims = {name: size for name, size in asdict(config).items() if name != "n_ctc"}  # OpenAI's models have no such head
    model = Theirs(ModelDimensions(**dims)).eval()
    arrays = openai_names(read_arrays(path))
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in arrays.items()})
    positions = model.encoder.positional_embedding
    heard: list[torch.Tensor] = []

    def recorded(mel: Floats) -> int:
        model.encoder.positional_embedding = positions
        encoded = model.encoder(torch.from_numpy(mel.swapaxes(1, 2).copy()))
        found = model.decode(encoded, TheirOptions(language="en", sample_len=tokens, fp16=False))
        return sum(len(one.tokens) for one in found)

    def run(work: Work) -> int:
        kind, number = work
        with torch.inference_mode():
            if kind == "encode":
                mel = torch.from_numpy(spectrogram(config, number).swapaxes(1, 2).copy())
                model.encoder.positional_embedding = positions[: mel.shape[2] // 2]
                heard[:] = [model.encoder(mel)]
                return int(heard[0].shape[1])
            if kind == "recording":
                return sum(recorded(mel) for mel in batches(config, number))
            beams = number if number > 1 else None
            chosen = TheirOptions(language="en", beam_size=beams, sample_len=tokens, fp16=False)
            return len(model.decode(heard[0], chosen)[0].tokens)

    return run


def commands(name: str, folder: Path, size: str, tokens: int, ranks: Path) -> Commands:
    """Return the commands of one peer, in its own process."""
    path = folder / f"{size}.safetensors"
    if name == TORCH:
        return {"run": pytorch(path, size, tokens)}
    if name in (CT2, CT2_FLOAT32):
        return {"run": ctranslate2(folder / f"{size}-ct2", size, tokens, "int8" if name == CT2 else "float32")}
    if name == GRAPHS:
        return {"run": graphs(path, size, tokens, ranks)}
    return {"run": ours(path, size, tokens, ranks, name)}


def names(without: str) -> list[str]:
    """Return the peers to start."""
    left_out = set(without.split(","))
    keys = {OURS: "8", OURS_FLOAT32: "float32", CT2: "ct2", CT2_FLOAT32: "ct2float32", TORCH: "torch"}
    if gpu() == "cuda":
        keys = {OURS_HALF: "bfloat16", OURS_PLAIN: "plain", OURS_FLOAT32: "float32", GRAPHS: "graphs"}
    return [name for name, key in keys.items() if key not in left_out]


def compare(size: str, folder: Path, options: argparse.Namespace) -> dict[str, Rows]:
    """Measure all peers with one size and print the tables."""
    path = folder / f"{size}.safetensors"
    if not path.exists():
        arrays = random_arrays(config_of(size))
        mx.save_safetensors(str(path), arrays)
        del arrays
        mx.clear_cache()
    asked = names(options.without)
    if {CT2, CT2_FLOAT32} & set(asked) and not (folder / f"{size}-ct2").exists():
        Peer("convert", convert, path, size, folder / f"{size}-ct2").close()
    peers = [
        Peer(name, commands, name, folder, size, options.tokens, options.tokenizer or tokenizer_file())
        for name in asked
    ]
    found: dict[str, Rows] = {}
    base = next((name for name in (GRAPHS, CT2, TORCH) if name in asked), "")
    for seconds in sorted(map(int, options.seconds.split(",")), reverse=True):
        found[f"encoder, {seconds} s"], _ = measure(peers, ("encode", seconds), options.runs, warm=1)
        show(f"{size}: encoder, {seconds} s of audio", found[f"encoder, {seconds} s"], base)
    measure(peers, ("encode", 30), 1, warm=0)  # what the decoder reads
    for beams in map(int, options.beams.split(",")):
        able = [peer for peer in peers if beams == 1 or peer.name != GRAPHS]
        whole, tokens = measure(able, ("decode", beams), options.runs, warm=1)
        if tokens != options.tokens:
            raise SystemExit(f"{tokens} tokens, not {options.tokens}")
        title = f"token, {beams} beam{'s' if beams > 1 else ''}"
        found[title] = {
            name: {key: value / options.tokens for key, value in row.items()} for name, row in whole.items()
        }
        show(f"{size}: {title}", found[title], base if base in found[title] else "")
    for size_of_batch in map(int, filter(None, options.batches.split(","))):
        title = f"{WINDOWS * 30} s, {size_of_batch} windows at once"
        found[title], tokens = measure(peers, ("recording", size_of_batch), options.runs, warm=1)
        if tokens != WINDOWS * options.tokens:
            raise SystemExit(f"{tokens} tokens, not {WINDOWS * options.tokens}")
        show(f"{size}: {title}", found[title], base)
    found["memory_mb"] = {peer.name: peer.ask("memory") for peer in peers}
    print(f"\n{size}: memory of the processes, MB:", found["memory_mb"])
    for peer in peers:
        peer.close()
    return found


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="tiny,base,small")
    parser.add_argument("--seconds", default="30,15,10,5", help="of audio for the encoder, each at most 30")
    parser.add_argument("--beams", default="1,5")
    parser.add_argument("--batches", default="1,3,4", help="windows at once of a recording of two minutes")
    parser.add_argument("--tokens", type=int, default=64, help="of each transcript")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--without",
        default="ct2float32",
        help="peers to leave out: 8, float32, ct2, ct2float32, torch; on a GPU bfloat16, plain, float32, graphs",
    )
    parser.add_argument("--tokenizer", type=Path, help="OpenAI's file of ranks; that of openai-whisper, if installed")
    parser.add_argument("--folder", type=Path, help="where weights are kept for another run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {device_name()}, {kernels.description()}",
        "options": vars(options) | {"json": "", "folder": ""},
    }
    print(f"{report['machine']}; {options.tokens} tokens")
    with tempfile.TemporaryDirectory() as scratch:
        for size in options.sizes.split(","):
            report[size] = compare(size, options.folder or Path(scratch), options)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, default=str))


if __name__ == "__main__":
    main()
