"""Checkpoints of random numbers, Chatterbox's in the official files' names and layout: `make fake-checkpoints`.

They exercise what real ones do (strict loading, warm-up, every surface, speed) without a download, and speak noise.
Sizes: `full` has the official sizes, 3.2 GB of float32 in English; `small` loads in a second. Written below
<data dir>/models/<name>, where the server looks; never over files that are there already.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from loadtest import fake_kokoro, torch_file
from models.backend import mx
from models.chatterbox.config import (
    SPEECH_TOKENS,
    VARIANTS,
    ChatterboxConfig,
    EncoderConfig,
    SpeakerConfig,
    T3Config,
    TokenizerConfig,
    Variant,
    VocoderConfig,
    VoiceEncoderConfig,
)
from models.chatterbox.reference import weights as reference
from models.chatterbox.s3gen import weights as s3gen
from models.chatterbox.t3 import weights as t3

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
Array = npt.NDArray[np.float32]

# Not among `all`: a server that has it speaks with it unless it is told otherwise.
KOKORO = "kokoro-82m"
PROMPT_TOKENS = 75  # of the voice in conds.pt: three seconds
_SENTENCES = ["The weather is fine today, and the train leaves in the morning.", "Hello world. How are you?"]


def small(variant: Variant) -> ChatterboxConfig:
    """A checkpoint of `variant` small enough for everyday tests: every part there, each as narrow as it may be."""
    official = VARIANTS[variant]
    sizes: dict[str, Any] = {"hidden": 64, "layers": 2, "heads": 2, "inner": 128, "positions": 2048, "max_text": 512}
    return replace(
        official,
        t3=replace(official.t3, **sizes, max_speech=1024, perceiver_queries=4, perceiver_heads=2, prompt_tokens=25),
        encoder=EncoderConfig(width=64, heads=2, inner=128, layers=1, up_layers=1),
        flow=replace(official.flow, width=64, head_size=32, heads=2, blocks=1, middle=1),
        vocoder=VocoderConfig(width=64, f0_width=32, f0_layers=2),
        tokenizer=TokenizerConfig(mels=128, width=64, heads=1, layers=1),
        speaker=SpeakerConfig(growth=4, bottleneck=2, width=16, size=192),
        voice_encoder=VoiceEncoderConfig(hidden=32, size=256),
    )


def random_array(name: str, shape: Shape, draw: np.random.Generator) -> Array:
    """Numbers that keep activations in range: by the array's part in its network, told from its official name."""
    array = draw.standard_normal(shape, dtype=np.float32)
    if name.endswith("running_var"):
        return np.abs(array) * np.float32(0.5) + np.float32(0.5)
    if name.endswith("original0"):  # the norm of each row of a convolution
        return np.abs(array) * np.float32(0.1) + np.float32(0.6)
    if name.endswith((".alpha", "similarity_weight")):
        return np.abs(array) * np.float32(0.2) + 1
    if len(shape) == 1 and name.endswith("weight"):
        return array * np.float32(0.1) + 1
    if len(shape) < 2:
        return array * np.float32(0.05)
    if "emb" in name or "wpe" in name:
        return array * np.float32(0.3)
    fan = shape[0] if ".c_" in name else math.prod(shape[1:])
    array *= np.float32(1 / math.sqrt(fan))
    if name == "speech_head.weight":
        # Loud enough that the end of speech stands out now and then.
        array *= 2
    return array


def arrays(shapes: Shapes, seed: int) -> Iterator[tuple[str, Array]]:
    """Random arrays of these names and shapes, one at a time."""
    draw = np.random.default_rng(seed)
    for name, shape in sorted(shapes.items()):
        yield name, random_array(name, shape, draw)


def write_arrays(path: Path, shapes: Shapes, seed: int, change: Callable[[str, Array], None] | None = None) -> None:
    """A safetensors file of random arrays."""
    found = {}
    for name, array in arrays(shapes, seed):
        if change is not None:
            change(name, array)
        found[name] = mx.array(array)
    mx.save_safetensors(str(path), found)


def s3gen_shapes(config: ChatterboxConfig) -> dict[str, Shape]:
    """Every array of S3Gen's file."""
    return {**s3gen.flow_shapes(config), **s3gen.vocoder_shapes(config), **reference.shapes(config)[1]}


def _voiced(name: str, array: Array) -> None:
    """A pitch near 150 Hz, quiet frames: random weights otherwise speak in the clipped range."""
    if name == "mel2wav.f0_predictor.classifier.bias":
        array[:] = 150
    if name.startswith("mel2wav.conv_post.") and name.endswith("original0"):
        array *= np.float32(0.2)


def write_tokenizer(folder: Path, config: T3Config) -> None:
    """English: `tokenizer.json` with [STOP], [UNK], [SPACE] and [START] where the official one has them."""
    vocabulary = {"[STOP]": config.stop_text, "[UNK]": 1, "[SPACE]": 2, "[START]": config.start_text}
    letters = [chr(code) for code in range(33, 127)] + list("éèüñ")
    free = (number for number in range(3, config.text_vocabulary) if number != config.start_text)
    vocabulary |= dict(zip(letters, free, strict=False))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("[STOP]", "[UNK]", "[SPACE]", "[START]")])
    tokenizer.save(str(folder / "tokenizer.json"))


def write_turbo_tokenizer(folder: Path, config: T3Config) -> None:
    """Turbo: GPT-2's byte-level `vocab.json` and `merges.txt`, and `added_tokens.json` at the vocabulary's end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[]
    )
    tokenizer.train_from_iterator(_SENTENCES, trainer)
    tokenizer.model.save(str(folder))
    first = tokenizer.get_vocab_size()
    added = {"[laugh]": first, "[sigh]": first + 1}
    (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")


def write_voice(path: Path, config: ChatterboxConfig, seed: int) -> None:
    """`conds.pt`: the built-in voice, as PyTorch writes it, without PyTorch."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(0, SPEECH_TOKENS, PROMPT_TOKENS)
    speaker = np.abs(draw.standard_normal(config.t3.speaker, dtype=np.float32))
    tensors: dict[str, Any] = {
        "t3": {
            "speaker_emb": (speaker / np.linalg.norm(speaker))[None],
            "cond_prompt_speech_tokens": draw.integers(0, SPEECH_TOKENS, (1, config.t3.prompt_tokens)),
            "emotion_adv": np.full((1, 1, 1), 0.5, np.float32),
            "clap_emb": None,
            "cond_prompt_speech_emb": None,
        },
        "gen": {
            "prompt_token": tokens[None],
            "prompt_token_len": np.array([PROMPT_TOKENS]),
            "prompt_feat_len": None,
            "prompt_feat": draw.standard_normal((1, 2 * PROMPT_TOKENS, config.mels), dtype=np.float32) - np.float32(5),
            "embedding": draw.standard_normal((1, config.speaker.size), dtype=np.float32),
        },
    }
    torch_file.write(path, tensors)


def write(folder: Path, variant: Variant, config: ChatterboxConfig, seed: int = 0) -> None:
    """A whole checkpoint in `folder`; with a `config.json` where `config` is not the official one."""
    folder.mkdir(parents=True, exist_ok=False)
    turbo = variant == "chatterbox-turbo"
    write_arrays(folder / ("t3_turbo_v1.safetensors" if turbo else "t3_cfg.safetensors"), t3.shapes(config.t3), seed)
    name = "s3gen_meanflow.safetensors" if turbo else "s3gen.safetensors"
    write_arrays(folder / name, s3gen_shapes(config), seed + 1, _voiced)
    write_arrays(folder / "ve.safetensors", reference.shapes(config)[0], seed + 2)
    (write_turbo_tokenizer if turbo else write_tokenizer)(folder, config.t3)
    write_voice(folder / "conds.pt", config, seed + 3)
    if config != VARIANTS[variant]:
        (folder / "config.json").write_text(json.dumps(asdict(config), indent=1), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what the command line asks for; 1 if something is there already."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the server's data_dir")
    parser.add_argument("--model", choices=[*VARIANTS, "all", KOKORO], default="all", help=f"all: not {KOKORO}")
    parser.add_argument("--size", choices=["full", "small"], default="full")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.model == KOKORO and options.size == "small":
        parser.error(f"{KOKORO} has one size: the model in the box is small")
    for name in VARIANTS if options.model == "all" else [options.model]:
        folder: Path = options.data_dir / "models" / name
        if folder.exists():
            print(f"{folder} is there already and stays as it is", file=sys.stderr)
            return 1
        if name == KOKORO:
            fake_kokoro.write(folder, options.seed)
        else:
            write(folder, name, small(name) if options.size == "small" else VARIANTS[name], options.seed)
        print(f"{name}: {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.0f} MB in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
