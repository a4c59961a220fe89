"""Parts of a model's output that are not spoken, on whole texts and on fragments."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from app.llm_text.hidden import HiddenParts, hide
from app.llm_text.live import LiveText
from app.llm_text.policy import BoundaryPolicy
from tests.app.text.growth import grows

ROWS = [
    tuple(row.replace("⏎", "\n").replace("␍", "\r").replace("␥", "Ab/+" * 500).split("\t"))
    for row in Path(__file__).with_name("hidden.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


def in_fragments(text: str, parts: HiddenParts, seed: int) -> str:
    rng, shown, position = random.Random(seed), "", 0
    while position < len(text):
        size = rng.choice((1, 1, 2, 5, 20))
        shown += parts.feed(text[position : position + size])
        position += size
    return shown + parts.flush()


def visible(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@pytest.mark.parametrize(("text", "left"), ROWS)
def test_parts_are_covered_however_the_text_is_cut(text: str, left: str) -> None:
    shown = hide(text)
    assert (visible(shown), len(shown)) == (visible(text if left == "=" else left), len(text))
    assert all(new in (old, " ", ",", ".") for new, old in zip(shown, text, strict=True))
    parts = HiddenParts()
    for seed in range(12):
        assert in_fragments(text, parts, seed) == shown


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_them_may_be_cut_anywhere(seed: int) -> None:
    rng, parts = random.Random(seed), HiddenParts(markdown=seed % 2 > 0)
    for _ in range(9):
        text = "".join(rng.choice(ROWS)[0][: rng.randint(1, 40)] for _ in range(4))
        assert in_fragments(text, parts, seed) == parts.feed(text) + parts.flush()


def test_what_only_a_whole_text_tells() -> None:
    for thought in ("I plan.\n</think>", "I plan. I do.</think>", "Do.[/THINK] "):
        assert visible(hide(thought + "\n\nHello.")) == "Hello."
    assert hide("Hi. <think>is a tag that nothing closes") == "Hi. <think>is a tag that nothing closes"
    for text in ("<think>cut off", "[THINK]cut off", "<think>\ncut off", "<think>**Cut", "<|channel>thought"):
        assert not hide(text).strip()
    for text in ("```\nnever closed", "<Reflection> is a song.", "<think> tags are read.", "Hi.\n```sh\nls"):
        assert hide(text) == text


def test_lines_before_a_tag_take_linear_time() -> None:
    said = grows(lambda text: hide(text + "<b"), "\n", 3_000)
    assert said is None, said


def test_little_is_held_back() -> None:
    parts = HiddenParts()
    assert parts.feed("Two < three, [one] and ") == "Two < three, [one] and "
    assert parts.feed("Voilà !") == "Voilà !" and parts.feed(" I look:") == " I look:"
    assert parts.feed("<" + "a " * 5_000)[:4] == "<a a"
    assert len(parts.feed("<think>" + "x" * 5_000)) > 4_000


def test_a_stream_of_a_model_has_none_of_them() -> None:
    for text, left in ROWS[:3]:
        source = LiveText(BoundaryPolicy("en-us"))
        spoken = [*source.feed(text, 0.0), *source.flush(1.0)]
        assert visible("".join(piece.text for piece in spoken)) == left
        assert "".join(piece.original for piece in spoken) == text
