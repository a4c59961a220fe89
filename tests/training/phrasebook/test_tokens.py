"""The tokenizer's layout and what its normalizer makes of a sentence."""

from __future__ import annotations

from itertools import islice

import pytest
from tokenizers import Tokenizer

from training.phrasebook.grammar import sentences
from training.phrasebook.lexicon import TARGETS
from training.phrasebook.tokens import CODES, SPECIAL, for_targets, train


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(pieces=700, count=400)


def test_ids_are_in_the_layout_of_nllb(tokenizer: Tokenizer) -> None:
    assert [tokenizer.token_to_id(token) for token in SPECIAL] == [0, 1, 2, 3]
    last = [tokenizer.token_to_id(token) for token in (*CODES.values(), "<mask>")]
    assert last == [700, 701, 702, 703, 704]
    assert tokenizer.get_vocab_size() == 705


def test_a_source_is_language_pieces_end(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("Where is the bank?").tokens
    assert (tokens[0], tokens[-1]) == ("eng_Latn", "</s>")
    assert "".join(tokens[1:-1]) == "▁where▁is▁the▁bank"


@pytest.mark.parametrize(
    "text", ["WHERE IS THE BANK", "where’s the bank?!", "  Where  is the bank …", "Where's the bank."]
)
def test_case_marks_and_contractions_make_no_difference(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text).ids == tokenizer.encode("Where is the bank?").ids


def test_translations_survive_as_they_are(tokenizer: Tokenizer) -> None:
    plain = for_targets(tokenizer)
    for pair in islice(sentences(9, held_out=False), 300):
        for language in TARGETS:
            ids = plain.encode(pair.texts[language], add_special_tokens=False).ids
            assert 3 not in ids
            assert tokenizer.decode(ids) == pair.texts[language]
