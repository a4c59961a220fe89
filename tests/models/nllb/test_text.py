"""Tokens of text, language codes, and a script's shortlist."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.contract import UnknownLanguageError, WeightsError
from models.nllb.config import load_config
from models.nllb.m2m100 import M2m100Tokenizer
from models.nllb.text import NllbTokenizer
from tests.models.nllb.builder import LANGUAGES, WORDS, tokenizer_file, write_config
from tests.models.nllb.m2m100_builder import tokenizer as m2m100_tokenizer

HELLO = "Hello World , the cat runs ."


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> NllbTokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    return NllbTokenizer(tokenizer_file(folder), load_config(write_config(folder)))


def test_layout(tokenizer: NllbTokenizer) -> None:
    """`[source language] X </s>`, and back."""
    ids = tokenizer.encode(HELLO, "deu_Latn")
    assert (ids[0], len(ids), ids[-1]) == (tokenizer.languages["deu_Latn"], 2 + len(HELLO.split()), 2)
    assert tokenizer.decode(ids) == tokenizer.decode(ids[1:-1]) == HELLO


def test_languages_in_the_order_of_their_ids(tokenizer: NllbTokenizer) -> None:
    assert tuple(tokenizer.languages) == LANGUAGES
    assert list(tokenizer.languages.values()) == sorted(tokenizer.languages.values())


@pytest.fixture(scope="module", params=["nllb", "m2m100"])
def either(
    request: pytest.FixtureRequest, tokenizer: NllbTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> NllbTokenizer | M2m100Tokenizer:
    return tokenizer if request.param == "nllb" else m2m100_tokenizer(tmp_path_factory.mktemp("m2m100"))


@pytest.mark.parametrize("special", ["</s>", "<s>", "<pad>", "<unk>", "<mask>", "eng_Latn", "__en__"])
def test_special_tokens_in_text_are_text(either: NllbTokenizer | M2m100Tokenizer, special: str) -> None:
    ids = either.encode(f"the {special} cat", "eng_Latn")
    assert not set(ids[1:-1]) & {0, 1, 2, *either.languages.values()}
    assert "<mask>" not in {either.piece(id_) for id_ in ids}


@given(st.text(max_size=40))
def test_any_text_is_one_sentence_for_the_model(either: NllbTokenizer | M2m100Tokenizer, text: str) -> None:
    ids = either.encode(text, "eng_Latn")
    assert ids.count(2) == 1
    assert all(0 <= id_ < either.size for id_ in ids)
    either.decode(ids)


def test_ids_without_a_token_are_left_out(tokenizer: NllbTokenizer) -> None:
    """A checkpoint's vocabulary may be larger than its tokenizer's: 256206 and 256204 in the official one."""
    assert tokenizer.decode([*tokenizer.encode("the cat", "eng_Latn"), tokenizer.size, 199, 1, 1]) == "the cat"


def test_unknown_language(tokenizer: NllbTokenizer) -> None:
    with pytest.raises(UnknownLanguageError, match=r"'fra_Lat' is not among .* 8 .*nearest: fra_Latn"):
        tokenizer.language("fra_Lat")
    with pytest.raises(UnknownLanguageError, match="nearest: arb_Arab"):
        tokenizer.encode("the cat", "")


def test_shortlist(tokenizer: NllbTokenizer) -> None:
    """Special tokens, all single letters of the script and of Latin, whatever has no letters, then frequent words."""
    vocab = {tokenizer._tokenizer.id_to_token(id_): id_ for id_ in range(tokenizer.size)}
    small, large = (set(tokenizer.shortlist("Latn", size).tolist()) for size in (1, 1000))
    for wanted in ("</s>", "<unk>", "fra_Latn", "a", "Z", "é", ",", "7", "▁"):
        assert vocab[wanted] in small, wanted
    assert vocab["▁the"] in large - small
    for other in ("м", "こ", "猫", "س"):
        assert vocab[other] not in large, other
    medium = set(tokenizer.shortlist("Latn", len(small) + 3).tolist())
    assert medium - small == {vocab[f"▁{word}"] for word in WORDS[:3]}, "ids are ranks of frequency"


@pytest.mark.parametrize(
    ("script", "letters", "others"),
    [("Cyrl", "бя", "猫سこ"), ("Jpan", "こ猫", "бس"), ("Hans", "猫界", "こбس"), ("Arab", "سم", "бこ")],
)
def test_shortlists_of_other_scripts(tokenizer: NllbTokenizer, script: str, letters: str, others: str) -> None:
    found = tokenizer.shortlist(script, 1000)
    assert np.all(np.diff(found) > 0)
    shown = {tokenizer._tokenizer.id_to_token(int(id_)) for id_ in found}
    assert {*letters, "a", "Z", "."} <= shown
    assert not set(others) & shown


def test_an_eighth_is_for_latin_words(tokenizer: NllbTokenizer) -> None:
    kept = len(tokenizer.shortlist("Cyrl", 1))
    assert len(tokenizer.shortlist("Cyrl", kept + 16)) == kept + 2, "no more words in Cyrillic are there"


def test_damaged(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(WeightsError, match="not a tokenizer"):
        NllbTokenizer(path, load_config(write_config(tmp_path)))


def test_a_tokenizer_of_another_layout(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path)
    with pytest.raises(WeightsError, match="<unk> must have id 4"):
        NllbTokenizer(path, load_config(write_config(tmp_path, unk_token_id=4)))
    with pytest.raises(WeightsError, match="the checkpoint has 100"):
        NllbTokenizer(path, load_config(write_config(tmp_path, vocab_size=100)))


def test_no_languages(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path)
    values = json.loads(path.read_text())
    values["added_tokens"] = [token for token in values["added_tokens"] if "_" not in token["content"]]
    path.write_text(json.dumps(values))
    with pytest.raises(WeightsError, match="no language codes"):
        NllbTokenizer(path, load_config(write_config(tmp_path)))
