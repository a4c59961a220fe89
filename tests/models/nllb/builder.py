"""A tiny random NLLB checkpoint: config.json, model.safetensors in the official layout, tokenizer.json."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models.backend import mx
from models.nllb import search
from models.nllb.config import NllbConfig, load_config
from models.nllb.network import Nllb
from models.nllb.pipeline import NllbTranslator
from models.nllb.search import TranslationHypothesis, TranslationTask
from models.nllb.steps import CompiledM2M100
from models.nllb.text import NllbTokenizer
from models.nllb.vocabulary import OutputProjection
from models.nllb.weights import load_weights

Arrays = dict[str, np.ndarray]

LANGUAGES = ("arb_Arab", "deu_Latn", "eng_Latn", "fra_Latn", "jpn_Jpan", "rus_Cyrl", "tur_Latn", "zho_Hans")
_TEXT = "the cat dog house runs sees a red big Hello World and then she goes home , now . ! ? ; : 1 2 3"
WORDS = _TEXT.split()
LETTERS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZéüßıİабвгдежзийклмнопрстуфхцчшщыьэюяяاسلامこんにちは猫世界"
)

TINY: dict[str, Any] = {
    "model_type": "m2m_100",
    "activation_function": "relu",
    "vocab_size": 200,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 192,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
    "scale_embedding": True,
    "dropout": 0.1,
    "transformers_version": "5.0",
}


def tokenizer_file(folder: Path) -> Path:
    """tokenizer.json in NLLB's order: four special tokens, pieces, language codes, the mask."""
    pieces = ["▁", *(f"▁{word}" for word in WORDS), *dict.fromkeys(LETTERS), *",.!?;:'-0123456789"]
    vocab = {piece: id_ for id_, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *dict.fromkeys(pieces)])}
    # A piece is made by merging from the left: "▁c", "▁ca", "▁cat".
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        for end in range(1, len(word) + 1):
            left, right = f"▁{word[: end - 1]}", word[end - 1]
            for piece in (right, left + right):
                vocab.setdefault(piece, len(vocab))
            if (left, right) not in merges:
                merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", *LANGUAGES, AddedToken("<mask>", lstrip=True)])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def write_config(folder: Path, **changes: Any) -> Path:
    """config.json of TINY with `changes`; a change to None leaves the key out."""
    path = folder / "config.json"
    values = {key: value for key, value in {**TINY, **changes}.items() if value is not None}
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def tiny_config(**changes: Any) -> NllbConfig:
    """TINY with `changes`, without a file."""
    values = TINY | changes
    return NllbConfig(**{name: values[name] for name in NllbConfig.__dataclass_fields__ if name in values})


def official_arrays(config: NllbConfig, seed: int, loudness: float = 1.0) -> Arrays:
    """Random weights by their official names; the end of a sentence is `loudness` times as loud as other tokens.

    Attention is sharp, so that the source matters, and the last norm's weights have both signs: with ones alone a
    token would mostly follow itself, as embeddings are tied.
    """
    rng = np.random.RandomState(seed)
    width, found = config.d_model, dict[str, np.ndarray]()

    def put(name: str, *shape: int, scale: float = 1.0, around: float = 0.0) -> None:
        found[name] = (rng.standard_normal(shape) * scale + around).astype(np.float32)

    def linear(name: str, inputs: int, outputs: int) -> None:
        sharp = 2 if name.endswith(("q_proj", "k_proj", "encoder_attn.out_proj")) else 1
        put(f"{name}.weight", outputs, inputs, scale=1.4 * sharp / math.sqrt(inputs))
        put(f"{name}.bias", outputs, scale=0.05)

    def norm(name: str) -> None:
        put(f"{name}.weight", width, scale=0.1, around=1)
        put(f"{name}.bias", width, scale=0.05)

    put("model.shared.weight", config.vocab_size, width, scale=1 / math.sqrt(width))
    found["model.shared.weight"][config.eos_token_id] *= loudness
    stacks = (
        ("encoder", config.encoder_layers, config.encoder_ffn_dim),
        ("decoder", config.decoder_layers, config.decoder_ffn_dim),
    )
    for stack, layers, inner in stacks:
        norm(f"model.{stack}.layer_norm")
        for i in range(layers):
            layer = f"model.{stack}.layers.{i}"
            for attention in ("self_attn", "encoder_attn") if stack == "decoder" else ("self_attn",):
                for kind in ["q", "k", "v", "out"]:
                    linear(f"{layer}.{attention}.{kind}_proj", width, width)
                norm(f"{layer}.{attention}_layer_norm")
            linear(f"{layer}.fc1", width, inner)
            linear(f"{layer}.fc2", inner, width)
            norm(f"{layer}.final_layer_norm")
    put("model.decoder.layer_norm.weight", width)
    return found


def to_mx(arrays: Mapping[str, np.ndarray]) -> dict[str, mx.array]:
    """numpy to MLX."""
    return {name: mx.array(array) for name, array in arrays.items()}


def files(folder: Path, seed: int = 0, loudness: float = 1.5, **changes: Any) -> dict[str, str]:
    """A checkpoint in `folder`; ModelSpec.files of it."""
    path = write_config(folder, **changes)
    weights = folder / "model.safetensors"
    mx.save_safetensors(str(weights), to_mx(official_arrays(load_config(path), seed, loudness)))
    return {"config": str(path), "weights": str(weights), "tokenizer": str(tokenizer_file(folder))}


def network(config: NllbConfig, seed: int = 0, loudness: float = 1.5, bits: int = 0) -> Nllb:
    """A network with random weights."""
    found = Nllb(config)
    load_weights(found, to_mx(official_arrays(config, seed, loudness)), "arrays")
    found.lower(bits)
    return found


def translator(folder: Path, seed: int = 0, loudness: float = 1.5, **options: Any) -> NllbTranslator:
    """A translator of random weights, which says anything."""
    config = load_config(write_config(folder))
    tokenizer = NllbTokenizer(tokenizer_file(folder), config)
    return NllbTranslator(config, network(config, seed, loudness), tokenizer, **options)


def searched(
    stages: CompiledM2M100, head: OutputProjection, tasks: Sequence[TranslationTask], beams: int, ngram: int = 0
) -> list[list[TranslationHypothesis]]:
    """Results of `tasks`, all of one group and one limit."""
    group = stages.encode([task.source for task in tasks], head, tasks[0].limit, beams)
    if beams > 1:
        items = search.beam(stages, group, tasks, beams, lambda: False, ngram=ngram)
    elif ngram:
        items = search.greedy_no_repeat(stages, group, tasks, ngram, lambda: False)
    else:
        items = search.greedy(stages, group, tasks, lambda: False)
    found = dict(item for item in items if item is not None)
    return [found[k] for k in range(len(tasks))]
