"""Tiny files of M2M-100's tokenizer: a SentencePiece model trained on the spot, vocab.json in another order."""

from __future__ import annotations

import json
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import sentencepiece

from models.backend import mx
from models.nllb.config import load_config
from models.nllb.m2m100 import LANGUAGES, M2m100Tokenizer
from models.nllb.pipeline import NllbTranslator
from tests.models.nllb.builder import network, official_arrays, to_mx, write_config

SENTENCES = (
    "The cat sees a red house and then she goes home now.",
    "Hello World, the dog runs! Where is the station? It costs 12.50 euros.",
    "Der große Hund läuft über die Straße; él niño está aquí.",
    "Кошка видит красный дом. Потом она идёт домой.",
    "猫は赤い家を見る。それから帰る。",
    "القط يرى بيتا أحمر ثم يذهب إلى البيت.",
    "고양이는 빨간 집을 본다.",
    "बिल्ली लाल घर देखती है।",
    "İstanbul'da güneşli bir gün; ığdır'da yağmur.",
)
LOST = 5
"""Pieces of the SentencePiece model that vocab.json lacks."""
UNUSED = 8


@cache
def _model() -> bytes:
    """Return a BPE model, normalized as M2M-100's, with special pieces of fairseq's numbers."""
    found = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 4),
        model_writer=found,
        model_type="bpe",
        vocab_size=300,
        character_coverage=1.0,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    return found.getvalue()


def tokenizer_files(folder: Path) -> dict[str, str]:
    """Return ModelSpec's files of the tokenizer, written to `folder`."""
    (folder / "sentencepiece.bpe.model").write_bytes(_model())
    processor = sentencepiece.SentencePieceProcessor(model_proto=_model())
    pieces = [processor.id_to_piece(id_) for id_ in range(3, processor.get_piece_size())]
    kept = sorted(pieces[LOST:], key=lambda piece: piece[::-1])  # not in the SentencePiece model's order
    ids = {piece: id_ for id_, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *kept])}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    return {"tokenizer": str(folder / "sentencepiece.bpe.model"), "vocabulary": str(folder / "vocab.json")}


def config_file(folder: Path, **changes: Any) -> Path:
    """Return config.json of a tiny checkpoint with as many tokens as the tokenizer needs, and unused ones."""
    size = len(json.loads((folder / "vocab.json").read_text())) + len(LANGUAGES) + UNUSED
    return write_config(folder, **{"vocab_size": size, **changes})


def tokenizer(folder: Path, *, target_first: bool = False) -> M2m100Tokenizer:
    """Return the tokenizer of the files in `folder`, which it writes."""
    files = tokenizer_files(folder)
    config = load_config(config_file(folder))
    return M2m100Tokenizer(files["tokenizer"], files["vocabulary"], config, target_first=target_first)


def files(folder: Path, seed: int = 0, loudness: float = 1.5) -> dict[str, str]:
    """Write a whole checkpoint of random weights to `folder`; return ModelSpec.files of it."""
    found = tokenizer_files(folder)
    path, weights = config_file(folder), folder / "model.safetensors"
    mx.save_safetensors(str(weights), to_mx(official_arrays(load_config(path), seed, loudness)))
    return {"config": str(path), "weights": str(weights), **found}


def translator(folder: Path, *, target_first: bool = False, seed: int = 0, **options: Any) -> NllbTranslator:
    """Return a translator of random weights, which says anything."""
    found = tokenizer(folder, target_first=target_first)
    config = load_config(folder / "config.json")
    return NllbTranslator(config, network(config, seed, 1.5), found, **options)
