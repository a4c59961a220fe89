"""A tiny random Whisper: its checkpoint in three layouts, a tokenizer of single bytes and pairs, a recognizer."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Generator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from models.backend import mx
from models.whisper import features
from models.whisper.config import WhisperConfig
from models.whisper.network import Whisper
from models.whisper.pipeline import WhisperRecognizer
from models.whisper.text import WhisperTokenizer
from models.whisper.weights import load_weights, rename

Arrays = dict[str, np.ndarray]
T = TypeVar("T")

MULTILINGUAL, ENGLISH = 51865, 51864
TINY = {
    "n_mels": 80,
    "n_audio_ctx": 100,
    "n_audio_state": 64,
    "n_audio_head": 4,
    "n_audio_layer": 2,
    "n_vocab": MULTILINGUAL,
    "n_text_ctx": 64,
    "n_text_state": 64,
    "n_text_head": 4,
    "n_text_layer": 2,
}


def config(**changes: int) -> WhisperConfig:
    """TINY with `changes`."""
    return WhisperConfig(**{**TINY, **changes})


def drain(work: Generator[Any, None, T] | Iterator[Any]) -> T:
    """Run a generator to its end; its result."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            found: T = stop.value
            return found


def pieces(count: int) -> list[bytes]:
    """`count` tokens: all bytes, then pairs of bytes."""
    found = [bytes([k]) for k in range(256)]
    return (found + [bytes([a, b]) for a in range(256) for b in range(256)])[:count]


def ranks_file(folder: Path, vocabulary: int = MULTILINGUAL) -> Path:
    """OpenAI's file of ranks; the multilingual one ends with a token of no bytes."""
    multilingual = vocabulary >= MULTILINGUAL
    lines = [f"{base64.b64encode(piece).decode()} {k}" for k, piece in enumerate(pieces(50256))]
    path = folder / ("multilingual.tiktoken" if multilingual else "gpt2.tiktoken")
    path.write_text("\n".join([*lines, *(["= 50256"] if multilingual else [])]) + "\n", encoding="ascii")
    return path


def tokenizer_file(folder: Path, vocabulary: int = MULTILINGUAL) -> Path:
    """tokenizer.json of the same tokens, as the hub has it: special tokens are added ones."""
    from models.whisper.text import _byte_letters

    letters = _byte_letters()
    names = ["".join(letters[byte] for byte in piece) for piece in pieces(50256)]
    merges = [(name[0], name[1]) for name in names if len(name) == 2]
    vocab = {name: k for k, name in enumerate(names)}
    if vocabulary >= MULTILINGUAL:
        vocab[""] = 50256
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = WhisperTokenizer(ranks_file(folder, vocabulary), config(n_vocab=vocabulary)).specials
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in specials])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def openai_arrays(dims: WhisperConfig, seed: int = 0) -> Arrays:
    """Random weights by OpenAI's names; attention is sharp, and logits differ by far more than rounding."""
    rng = np.random.RandomState(seed)
    width, found = dims.n_audio_state, dict[str, np.ndarray]()

    def put(name: str, *shape: int, scale: float = 1.0, around: float = 0.0) -> None:
        found[name] = (rng.standard_normal(shape) * scale + around).astype(np.float32)

    def linear(name: str, inputs: int, outputs: int, *, bias: bool = True) -> None:
        put(f"{name}.weight", outputs, inputs, scale=1.6 / math.sqrt(inputs))
        if bias:
            put(f"{name}.bias", outputs, scale=0.05)

    def norm(name: str) -> None:
        put(f"{name}.weight", width, scale=0.1, around=1)
        put(f"{name}.bias", width, scale=0.05)

    for conv, inputs in (("conv1", dims.n_mels), ("conv2", width)):
        put(f"encoder.{conv}.weight", width, inputs, 3, scale=1 / math.sqrt(3 * inputs))
        put(f"encoder.{conv}.bias", width, scale=0.05)
    put("encoder.positional_embedding", dims.n_audio_ctx, width, scale=0.5)
    put("decoder.positional_embedding", dims.n_text_ctx, width, scale=0.1)
    put("decoder.token_embedding.weight", dims.n_vocab, width, scale=0.3)
    for stack, layers in (("encoder", dims.n_audio_layer), ("decoder", dims.n_text_layer)):
        for number in range(layers):
            block = f"{stack}.blocks.{number}"
            for attention in ("attn", "cross_attn")[: 1 + (stack == "decoder")]:
                for part in ("query", "key", "value", "out"):
                    linear(f"{block}.{attention}.{part}", width, width, bias=part != "key")
                norm(f"{block}.{attention}_ln")
            linear(f"{block}.mlp.0", width, 4 * width)
            linear(f"{block}.mlp.2", 4 * width, width)
            norm(f"{block}.mlp_ln")
    norm("encoder.ln_post")
    put("decoder.ln.weight", width)
    put("decoder.ln.bias", width, scale=0.05)
    return found


_TO_HUB = (
    (".blocks.", ".layers."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".cross_attn.", ".encoder_attn."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".attn.", ".self_attn."),
    (".mlp_ln.", ".final_layer_norm."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".out.", ".out_proj."),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
    ("encoder.ln_post.", "encoder.layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."),
    (".token_embedding.", ".embed_tokens."),
    (".positional_embedding", ".embed_positions.weight"),
)


def hub_arrays(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The same by transformers' names."""
    found = {}
    for name, array in arrays.items():
        hub = name
        for ours, theirs in _TO_HUB:
            hub = hub.replace(ours, theirs)
        found[f"model.{hub}"] = array
    return found


def mlx_arrays(arrays: Mapping[str, np.ndarray], heads: list[tuple[int, int]]) -> Arrays:
    """The same as the MLX community has it: without the encoder's positions, with the heads that follow the audio."""
    found: Arrays = {"alignment_heads": np.array(heads)}
    for name, array in arrays.items():
        if name == "encoder.positional_embedding":
            continue
        renamed = name.replace(".mlp.0.", ".mlp1.").replace(".mlp.2.", ".mlp2.")
        found[renamed] = array.swapaxes(1, 2) if name.startswith("encoder.conv") and array.ndim == 3 else array
    return found


def hub_config(folder: Path, dims: WhisperConfig, **changes: Any) -> Path:
    """config.json with transformers' keys; a change to None leaves the key out."""
    values = {
        "model_type": "whisper",
        "activation_function": "gelu",
        "scale_embedding": False,
        "num_mel_bins": dims.n_mels,
        "max_source_positions": dims.n_audio_ctx,
        "d_model": dims.n_audio_state,
        "encoder_attention_heads": dims.n_audio_head,
        "encoder_layers": dims.n_audio_layer,
        "encoder_ffn_dim": 4 * dims.n_audio_state,
        "decoder_ffn_dim": 4 * dims.n_audio_state,
        "vocab_size": dims.n_vocab,
        "max_target_positions": dims.n_text_ctx,
        "decoder_attention_heads": dims.n_text_head,
        "decoder_layers": dims.n_text_layer,
        "dropout": 0.1,
    }
    path = folder / "config.json"
    path.write_text(json.dumps({k: v for k, v in {**values, **changes}.items() if v is not None}), encoding="utf-8")
    return path


def files(folder: Path, seed: int = 0, **changes: int) -> dict[str, str]:
    """A checkpoint in the hub's layout; ModelSpec.files of it."""
    dims = config(**changes)
    weights = folder / "model.safetensors"
    mx.save_safetensors(str(weights), to_mx(hub_arrays(openai_arrays(dims, seed))))
    return {
        "config": str(hub_config(folder, dims)),
        "weights": str(weights),
        "tokenizer": str(tokenizer_file(folder, dims.n_vocab)),
    }


def to_mx(arrays: Mapping[str, np.ndarray]) -> dict[str, mx.array]:
    """numpy to MLX."""
    return {name: mx.array(array) for name, array in arrays.items()}


def network(dims: WhisperConfig, seed: int = 0, bits: int = 0) -> Whisper:
    """A lowered network with random weights."""
    found = Whisper(dims)
    load_weights(found, rename(to_mx(openai_arrays(dims, seed)), dims), "arrays")
    found.lower(bits)
    return found


@cache
def tokenizer(vocabulary: int = MULTILINGUAL) -> WhisperTokenizer:
    """A tokenizer of single bytes and pairs."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return WhisperTokenizer(ranks_file(Path(folder), vocabulary), config(n_vocab=vocabulary))


def recognizer(seed: int = 0, **changes: int) -> WhisperRecognizer:
    """A recognizer of random weights, which writes anything."""
    dims = config(**changes)
    return WhisperRecognizer(dims, network(dims, seed), tokenizer(dims.n_vocab), ((1, 0), (1, 2)))


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """Bursts of noise, float32 at 16 kHz."""
    time = np.arange(int(seconds * 16_000)) / 16_000
    noise = np.random.RandomState(seed).standard_normal(len(time))
    found: np.ndarray = (noise * np.exp(-((time % 0.7) * 6)) * 0.3).astype(np.float32)
    return found


def padded_samples(pcm: np.ndarray, mels: int, frames: int) -> Generator[None, None, np.ndarray]:
    """`log_mel_spectrogram(pad_or_trim(audio))` of openai-whisper: filled up with silent *samples* [frames, mels]."""
    samples = frames * features.HOP
    return features.log_mel(pcm[:samples], mels, max(0, samples - len(pcm)))
