"""The table of texts by word: what a dictionary gives, in less memory."""

from __future__ import annotations

import random
import string
import sys

import pytest

from app.text.english import word_table
from app.text.english.lexicon import get_lexicon
from app.text.english.word_table import WordTable


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    draw = random.Random(0)
    letters = string.ascii_letters + "'éß"
    found = {"".join(draw.choices(letters, k=draw.randint(1, 9))): "ˈ" * draw.randint(0, 5) for _ in range(5_000)}
    return found | {"": "empty", "a": "", "aa": "{", "é": "ɹiˈ"}


def test_equals_a_dictionary(texts: dict[str, str]) -> None:
    table = WordTable(texts)
    assert len(table) == len(texts)
    assert {word: table.get(word) for word in texts} == texts
    unknown = {word[:-1] for word in texts} | {word + "x" for word in texts} | {"\0", "a\0", "\ud800"}
    assert [word for word in unknown - texts.keys() if table.get(word) is not None] == []
    assert WordTable({}).get("a") is None


def test_words_of_one_hash_are_told_apart(texts: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_table, "hash", len, raising=False)
    table = WordTable(texts)
    assert {word: table.get(word) for word in texts} == texts
    assert table.get("aaaaaaaaaaaa") is None
    assert table.get("ab") == texts.get("ab")


def test_it_is_smaller_than_a_dictionary(texts: dict[str, str]) -> None:
    table = WordTable(texts)
    own = sum(map(sys.getsizeof, (table._hashes, table._starts, table._records)))
    assert own < (sys.getsizeof(texts) + sum(map(sys.getsizeof, texts)) + sum(map(sys.getsizeof, texts.values()))) / 3


def test_entries_of_the_lexicon_that_depend_on_the_tag() -> None:
    lexicon = get_lexicon(british=False)
    assert lexicon.gold("record") == {"DEFAULT": "ɹˈɛkəɹd", "VERB": "ɹəkˈɔɹd"}
    assert lexicon.gold("Record") == lexicon.gold("record")
    assert lexicon.gold("kettle") == "kˈɛɾᵊl"
    assert lexicon.silver("kettle") is None or isinstance(lexicon.silver("kettle"), str)
