"""The flat vocabulary of the ear's texts."""

from __future__ import annotations

import random

from training.ear.vocabulary import FlatWriter, Rounds, counted, inflections, ranked


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


def test_everyday_words_are_common() -> None:
    common, forms, others = ranked()
    assert {"afternoon", "sailor", "porch", "apartment"} <= set(common)
    assert not {*common} & {*forms, *others}
    assert len(forms) > 10_000


def test_no_text_is_refused_and_words_repeat_evenly() -> None:
    seen: list[str] = []
    writer = FlatWriter(random.Random(2), lambda text: len(seen) < 3 and not seen.append(text))
    lines = [writer.flat() for _ in range(3000)]
    assert not {line.rstrip(".?!") for line in lines} & set(seen)
    common = set(ranked()[0])
    counts = sorted(count for word, count in counted(lines).items() if word in common)
    assert counts[len(counts) // 2] <= counts[len(counts) // 10] + 1
    assert len(counts) > 5000


def test_names_are_said() -> None:
    writer = FlatWriter(random.Random(3), lambda _: False)
    said = " ".join(writer.flat() for _ in range(4000))
    assert {"Maria", "Paris", "Tuesday"} <= set(said.replace(".", "").split())
