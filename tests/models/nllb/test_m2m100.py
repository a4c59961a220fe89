"""M2M-100 and SMaLL-100: tokens of text, languages, and translations from prompts of one and two tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.contract import ModelSpec, Translation, TranslationRequest, WeightsError, WeightsMissingError
from models.nllb.config import load_config
from models.nllb.m2m100 import LANGUAGES, M2m100Tokenizer
from models.nllb.pipeline import NllbTranslator, load
from models.timeline import Timeline
from tests.models.nllb.m2m100_builder import SENTENCES, config_file, files, tokenizer, tokenizer_files, translator


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> M2m100Tokenizer:
    return tokenizer(tmp_path_factory.mktemp("m2m100"))


def test_official_ids_of_languages() -> None:
    """af 128004, en 128022, fr 128028, zu 128103."""
    ids = {name: 128004 + place for place, name in enumerate(LANGUAGES)}
    assert (ids["af"], ids["en"], ids["fr"], ids["zu"]) == (128004, 128022, 128028, 128103)
    assert len(set(LANGUAGES.values())) == 100


def test_ids_are_those_of_the_dictionary(tokens: M2m100Tokenizer) -> None:
    ids = tokens.encode("The cat sees", "eng_Latn")
    assert ids[0] == tokens.language("eng_Latn") == tokens.size - 100 + list(LANGUAGES).index("en")
    assert ids[-1] == 2
    assert tokens.decode(ids) == "The cat sees"
    assert tokens.piece(ids[1]).startswith("▁")


@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_is_in_the_dictionary_comes_back(tokens: M2m100Tokenizer, sentence: str) -> None:
    if 3 not in tokens.pieces(sentence):
        assert tokens.decode(tokens.encode(sentence, "eng_Latn")) == sentence


def test_text_is_normalized(tokens: M2m100Tokenizer) -> None:
    """Full width, ligatures, and spaces of all kinds, as SentencePiece's model says."""
    assert tokens.pieces("Ｔｈｅ\u00a0 cat\t") == tokens.pieces("The cat")


def test_a_piece_that_the_dictionary_lacks_is_unknown(tokens: M2m100Tokenizer) -> None:
    assert 3 in tokens.pieces("\N{SNOWMAN}")
    assert tokens.decode([3, 3]) == ""


def test_unused_rows_are_known(tokens: M2m100Tokenizer) -> None:
    assert list(tokens.unused) == list(range(tokens.size, tokens.size + 8))
    assert tokens.decode(list(tokens.unused)) == ""


def test_shortlists_take_frequent_tokens_first(tokens: M2m100Tokenizer) -> None:
    small = set(tokens.shortlist("Latn", 1).tolist())
    assert {0, 1, 2, 3, *tokens.languages.values()} <= small
    assert not small & set(tokens.unused)
    more = sorted(set(tokens.shortlist("Latn", len(small) + 3).tolist()) - small)
    assert len(more) == 3
    rank = {id_: tokens._processor.piece_to_id(tokens.piece(id_)) for id_ in range(4, tokens.size - 100)}
    rest = set(tokens.shortlist("Latn", 10_000).tolist()) - small - set(more)
    assert max(rank[id_] for id_ in more) < min(rank[id_] for id_ in rest)


def test_malformed_files(tmp_path: Path) -> None:
    found = tokenizer_files(tmp_path)
    config = load_config(config_file(tmp_path))
    with pytest.raises(WeightsMissingError):
        M2m100Tokenizer(found["tokenizer"], tmp_path / "absent", config)
    model, vocabulary = Path(found["tokenizer"]), Path(found["vocabulary"])
    ids = json.loads(vocabulary.read_text())
    for text, why in (
        ("[]", "an object of pieces"),
        ("{", "not a vocabulary"),
        (json.dumps(ids | {"x": 1.5}), "whole numbers"),
        (json.dumps(ids | {"x": 7}), "each once"),
        (json.dumps({**ids, "<s>": 1, "<pad>": 0}), "<s> must have id 0"),
        (json.dumps(ids | {f"x{k}": len(ids) + k for k in range(9)}), "but the checkpoint has"),
    ):
        vocabulary.write_text(text)
        with pytest.raises(WeightsError, match=why):
            M2m100Tokenizer(model, vocabulary, config)
    vocabulary.write_text(json.dumps(ids))
    model.write_bytes(b"no model")
    with pytest.raises(WeightsError, match="not a SentencePiece model"):
        M2m100Tokenizer(model, vocabulary, config)


@pytest.fixture(scope="module", params=[False, True], ids=["m2m100", "small100"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NllbTranslator:
    return translator(tmp_path_factory.mktemp("model"), target_first=request.param)


def run(model: NllbTranslator, *batch: TranslationRequest) -> list[Translation]:
    found = [item for item in model.translate(batch, Timeline(), lambda: False) if item is not None]
    return sorted(found, key=lambda item: item.index)


TEXTS = ("The cat sees a red house", "Hello World, the dog runs!", "Кошка видит красный дом.")


@pytest.mark.parametrize("beams", [1, 4])
def test_batches_equal_single_sentences(model: NllbTranslator, beams: int) -> None:
    pairs = (("eng_Latn", "fra_Latn"), ("eng_Latn", "deu_Latn"), ("rus_Cyrl", "bre_Latn"))
    requests = [TranslationRequest(text, *pair, beams=beams) for text, pair in zip(TEXTS, pairs, strict=True)]
    assert [one.best.tokens for one in run(model, *requests)] == [run(model, one)[0].best.tokens for one in requests]


def test_the_target_decides_and_the_source_only_without_it(model: NllbTranslator) -> None:
    texts = {
        (source, target): run(model, TranslationRequest(TEXTS[0], source, target))[0].best.tokens
        for source in ("eng_Latn", "fry_Latn")
        for target in ("fra_Latn", "jpn_Jpan")
    }
    assert texts["eng_Latn", "fra_Latn"] != texts["eng_Latn", "jpn_Jpan"]
    same = texts["eng_Latn", "fra_Latn"] == texts["fry_Latn", "fra_Latn"]
    assert same == model.tokenizer.target_first


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 99])
def test_drafts_change_nothing(model: NllbTranslator, length: int, padded: bool) -> None:
    subject = NllbTranslator(model.config, model.network, model.tokenizer, padded=padded)
    plain = run(subject, TranslationRequest(TEXTS[0], "eng_Latn", "fra_Latn"))[0]
    right = plain.best.tokens[:length]
    found = run(subject, TranslationRequest(TEXTS[0], "eng_Latn", "fra_Latn", draft=right))[0]
    assert (found.best.tokens, found.accepted) == (plain.best.tokens, len(right))
    wrong = (*right[:-1], right[-1] + 1, 5, 6)
    found = run(subject, TranslationRequest(TEXTS[0], "eng_Latn", "fra_Latn", draft=wrong))[0]
    assert (found.best.tokens, found.accepted) == (plain.best.tokens, len(right) - 1)


def test_unused_rows_never_come_out(tmp_path: Path) -> None:
    found = translator(tmp_path)
    loud = np.array(found.network.shared.head().tree["banned"][0][0])
    assert np.isinf(loud).sum() == 1
    banned = np.array(found._head("fra_Latn").tree["banned"][0][0])
    assert set(np.flatnonzero(np.isinf(banned)).tolist()) == {3, *found.tokenizer.unused}


def test_a_shortlist_translates(tmp_path: Path) -> None:
    found = translator(tmp_path, shortlist=200)
    (one,) = run(found, TranslationRequest(TEXTS[0], "eng_Latn", "rus_Cyrl"))
    assert set(one.best.tokens) <= set(found.tokenizer.shortlist("Cyrl", 200).tolist())


@pytest.mark.parametrize("target_first", [False, True])
@pytest.mark.parametrize("bits", [0, 8])
def test_a_checkpoint_is_loaded_and_warmed(tmp_path: Path, target_first: bool, bits: int) -> None:
    found = load(ModelSpec("m2m", "nllb", files(tmp_path), bits=bits, target_first=target_first))
    found.warm(lambda step: None)
    assert found.tokenizer.target_first is target_first
    assert found.languages == list(LANGUAGES.values())
    assert run(found, TranslationRequest(TEXTS[0], "eng_Latn", "fra_Latn"))[0].source_tokens > 4
