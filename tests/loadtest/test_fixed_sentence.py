"""Checkpoints that write one fixed sentence, as this project's models read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadtest import nllb_peers
from loadtest.fixed_sentence import chain, write_nllb, write_whisper
from models.contract import ModelSpec, RecognitionRequest, TranslationRequest
from models.nllb.pipeline import load as load_translator
from models.timeline import Timeline
from models.whisper.pipeline import load as load_recognizer
from tests.models.whisper.builder import config, ranks_file

SMALL_NLLB = {"d_model": 128} | {
    f"{part}_{name}": number
    for part in ("encoder", "decoder")
    for name, number in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 256))
}


def spec(folder: Path, family: str) -> ModelSpec:
    """Return the files of a checkpoint of any of the two."""
    names = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
    return ModelSpec("fixed", family, {role: str(folder / name) for role, name in names.items()})


@pytest.mark.parametrize(("seed", "tokens"), [(0, 51865), (1, 51866)])  # the second as large-v3
def test_whisper_hears_its_sentence_in_any_noise(tmp_path: Path, seed: int, tokens: int) -> None:
    sizes = {"n_text_state": 256, "n_audio_state": 256, "n_audio_ctx": 100, "n_vocab": tokens}
    write_whisper(tmp_path / "whisper", config(**sizes), ranks_file(tmp_path), "Some rain.", 1.5)
    model = load_recognizer(spec(tmp_path / "whisper", "whisper"))
    noise = np.random.default_rng(seed).standard_normal(32_000).astype(np.float32) * np.float32(0.1)
    found = [one for one in model.recognize(RecognitionRequest(noise, "en"), Timeline(), lambda: False) if one]
    assert [(one.text, one.start, one.end, one.temperature) for one in found] == [(" Some rain.", 0, 1.5, 0)]


@pytest.mark.parametrize("bits", [0, 8])
def test_nllb_translates_anything_by_its_sentence(tmp_path: Path, bits: int) -> None:
    official = nllb_peers.SIZES["nllb"]
    size = replace(official, numbers=official.numbers | SMALL_NLLB)
    write_nllb(tmp_path / "nllb", size, "Where is the station?", "Où est la gare.")
    model = load_translator(replace(spec(tmp_path / "nllb", "nllb"), bits=bits))
    texts = ["Where is the station?", "station the"]
    given = [TranslationRequest(text, "eng_Latn", "fra_Latn") for text in texts]
    found = [one for one in model.translate(given, Timeline(), lambda: False) if one]
    assert [one.best.text for one in found] == ["Où est la gare."] * 2
    # The language, four words, a mark, the end: a token each.
    assert {one.index: one.source_tokens for one in found} == {0: 7, 1: 4}


def test_a_token_comes_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        chain([4, 5, 4])
