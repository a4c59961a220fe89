"""Loops, lost clauses and capitals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.nllb import repair


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([7] * 9, False),
        ([7] * 10, True),
        ([1, 2, 3, *[7, 8] * 4], False),
        ([1, 2, 3, *[7, 8] * 5], True),
        ([*[7, 8] * 5, 1], False),  # only what the end repeats
        ([4, 5, 6] * 3, False),
        ([4, 5, 6] * 4, True),
        (list(range(8)) * 4, True),
        (list(range(9)) * 4, False),
        (list(range(40)), False),
        ([], False),
    ],
)
def test_loops(tokens: list[int], expected: bool) -> None:
    assert repair.loops(tokens) is expected


def test_a_loop_anywhere() -> None:
    assert repair.has_loop([1, 2, *[7] * 10, 3, 4, 5])
    assert not repair.has_loop([1, 2, *[7] * 9, 3, 4, 5])


def test_cut_loop() -> None:
    assert repair.cut_loop([1, 2, *[7, 8, 9] * 5]) == [1, 2, 7, 8, 9]
    assert repair.cut_loop([1, *[7] * 12]) == [1, 7]
    assert repair.cut_loop([1, 2, 3]) == [1, 2, 3]


@given(st.lists(st.integers(0, 3), max_size=60))
def test_what_is_cut_does_not_loop(tokens: list[int]) -> None:
    cut = repair.cut_loop(tokens)
    assert cut == tokens[: len(cut)]
    assert cut == tokens or repair.loops(tokens)


@pytest.mark.parametrize(("tokens", "source", "expected"), [(2, 10, True), (3, 10, False), (0, 9, False)])
def test_too_short(tokens: int, source: int, expected: bool) -> None:
    assert repair.too_short(tokens, source) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sleeps, the dog runs; all is well.", ["The cat sleeps,", "the dog runs;", "all is well."]),
        ("Costs 1,000 and 2:30 hours.", ["Costs 1,000 and 2:30 hours."]),
        ("Well, yes, the cat sleeps.", ["Well, yes,", "the cat sleeps."]),
        ("The cat sleeps, ok.", ["The cat sleeps, ok."]),
        ("今天天气很好真的很好，我们去公园散步吧朋友。", ["今天天气很好真的很好，", "我们去公园散步吧朋友。"]),
        ("One long clause – and another one", ["One long clause", "– and another one"]),
        ("", []),
    ],
)
def test_clauses(text: str, expected: list[str]) -> None:
    assert repair.clauses(text) == expected


@given(st.text(alphabet="ab ,;:、，—– .", max_size=60))
def test_clauses_lose_nothing(text: str) -> None:
    assert "".join("".join(repair.clauses(text)).split()) == "".join(text.split())


def test_rejoin() -> None:
    sources = ["The cat sleeps,", "the dog runs."]
    assert repair.rejoin(["Le chat dort.", "le chien court."], sources, "fra_Latn") == "Le chat dort le chien court."
    assert repair.rejoin(["猫睡觉，", "狗跑。"], sources, "zho_Hans") == "猫睡觉，狗跑。"
    assert repair.rejoin(["", "Ja."], sources, "deu_Latn") == "Ja."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("THE CAT RUNS.", True),
        ("THE CAT RUNs.", False),
        ("NASA", False),  # one word may be an acronym
        ("A 1 2 3", False),
        ("ПРИВЕТ МИР", True),
        ("猫 世界", False),
        ("", False),
    ],
)
def test_is_capitals(text: str, expected: bool) -> None:
    assert repair.is_capitals(text) is expected


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("THE CAT AND I RUN.", "eng_Latn", "The cat and I run."),
        ("«ПРИВЕТ МИР»", "rus_Cyrl", "«Привет мир»"),
        ("ISI VE İŞ", "tur_Latn", "Isı ve iş"),
    ],
)
def test_sentence_case(text: str, source: str, expected: str) -> None:
    assert repair.sentence_case(text, source) == expected


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [("Il fait", "fra_Latn", "IL FAIT"), ("iş", "tur_Latn", "İŞ"), ("გამარჯობა ok", "kat_Geor", "გამარჯობა ok")],
)
def test_capitals(text: str, target: str, expected: str) -> None:
    assert repair.capitals(text, target) == expected
