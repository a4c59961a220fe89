"""The flat vocabulary of the ear's texts."""

from __future__ import annotations

import random

import pytest

from training.ear import vocabulary
from training.ear.vocabulary import FlatWriter, Rounds, counted, inflections

Ranks = tuple[list[str], list[str], list[str]]


@pytest.fixture(scope="module")
def ranks() -> Ranks:
    """Common words, their forms, and the others: reading the whole lexicon takes seconds."""
    return vocabulary.ranked()


@pytest.fixture
def read_once(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "ranked", lambda: ranks)


def test_each_word_comes_once_in_a_round() -> None:
    rounds = Rounds(random.Random(1), ["a", "b", "c"])
    drawn = [rounds.next() for _ in range(9)]
    assert [sorted(drawn[at : at + 3]) for at in (0, 3, 6)] == [["a", "b", "c"]] * 3


def test_regular_forms() -> None:
    assert inflections("walk") == ["walks", "walked", "walking"]
    assert inflections("watch")[0] == "watches"
    assert inflections("carry") == ["carries", "carried", "carrying"]
    assert inflections("bake") == ["bakes", "baked", "baking"]
    assert inflections("agree") == ["agrees", "agreed", "agreeing"]


def test_everyday_words_are_common(ranks: Ranks) -> None:
    common, forms, others = ranks
    assert {"afternoon", "sailor", "porch", "apartment"} <= set(common)
    assert not {*common} & {*forms, *others}
    assert len(forms) > 10_000


@pytest.mark.usefixtures("read_once")
def test_no_text_is_refused_and_words_repeat_evenly(ranks: Ranks) -> None:
    seen: list[str] = []
    writer = FlatWriter(random.Random(2), lambda text: len(seen) < 3 and not seen.append(text))
    lines = [writer.flat() for _ in range(3000)]
    assert not {line.rstrip(".?!") for line in lines} & set(seen)
    common = set(ranks[0])
    counts = sorted(count for word, count in counted(lines).items() if word in common)
    assert counts[len(counts) // 2] <= counts[len(counts) // 10] + 1
    assert len(counts) > 5000


@pytest.mark.usefixtures("read_once")
def test_names_are_said() -> None:
    writer = FlatWriter(random.Random(3), lambda _: False)
    said = " ".join(writer.flat() for _ in range(4000))
    assert {"Maria", "Paris", "Tuesday"} <= set(said.replace(".", "").split())
