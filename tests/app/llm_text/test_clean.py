"""Cleaning of a language model's text for speech."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.llm_text.clean import LOOK_AHEAD, Cleaner
from app.llm_text.output import CleanText, Origins

TABLE = Path(__file__).with_name("spoken.tsv")


def clean(*fragments: str, code: str = "") -> str:
    cleaner = Cleaner(code=code)
    pieces = [piece for fragment in fragments for piece in cleaner.feed(fragment)] + cleaner.flush()
    return "".join(piece.text for piece in pieces)


def characters(*fragments: str) -> list[tuple[str, int, int]]:
    """Return the characters that are spoken, each with its span of the original."""
    cleaner = Cleaner(code="Code.")
    found: list[tuple[str, int, int]] = []
    for piece in [piece for fragment in fragments for piece in cleaner.feed(fragment)] + cleaner.flush():
        original = len(piece.text) == piece.end - piece.start
        for index, character in enumerate(piece.text):
            start, end = (piece.start + index, piece.start + index + 1) if original else (piece.start, piece.end)
            found.append((character, start, end))
    return found


@pytest.mark.parametrize("row", TABLE.read_text(encoding="utf-8").splitlines()[1:])
def test_what_is_spoken(row: str) -> None:
    _, text, spoken = row.replace("⏎", "\n").replace("␍", "\r").split("\t")
    assert clean(text) == spoken
    assert clean(*text) == spoken


def test_of_nothing_nothing_is_spoken() -> None:
    assert clean("") == ""


def test_a_code_block_can_be_announced() -> None:
    assert clean("As follows:\n```py\nx\n```\nDone.", code="Code.") == "As follows:\n\nCode.\n\nDone."


def test_a_destination_that_is_never_closed_ends_with_the_line_or_after_2048_characters() -> None:
    text = "See [this](" + "x" * 2048 + " and that."
    assert clean(text) == clean(*text) == "See this and that."
    assert clean(text.replace(" and", "x" * 999 + ") and")) == "See this and that."
    assert clean("See [this](x(y\nand that.") == "See this\nand that."


_snippets = st.sampled_from(
    [*"aB1 \t\n.,!?*_~`[](){}<>&\\$|#-+=>:;/\"'😀\u200d\ufe0f→é。\r", "**", "```", "\n```", "~~~\n", "\n\n", "\n- ",
     "\n# ", "\n| a | ", "|--", "\n1. ", "[a](b)", "![", "](", "https://", "www.", "a.b/c", "<b>", "</think>",
     "<think>", "<!--", "-->", "&amp;", "&#", "\\frac", "$x", "$$",
     "\\(", "[1]", "[^", "- [x] ", "---", "word ", " <a href=\"x", "\n> ",
     "^\\circ", "$5", "$1+", "\\text{", "<sup>", "2</sup>", "<Key>"]
)  # fmt: skip


@given(st.lists(_snippets, max_size=40), st.data())
@settings(max_examples=250, deadline=None)
def test_the_cuts_do_not_matter(snippets: list[str], data: st.DataObject) -> None:
    text = "".join(snippets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    fragments = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert clean(*fragments) == clean(text)
    assert clean(*text) == clean(text)
    assert characters(*fragments) == characters(*text) == characters(text)


@pytest.mark.parametrize("character", [*"*_~`[](<&\\$|#-=>!/. \n\"'\t1a😀"])
@pytest.mark.parametrize("before", ["", "a", "\n", "\n```\n", "[a](", "https://a/", "<b ", "$", "| a ", "# "])
def test_the_cuts_do_not_matter_beyond_the_look_ahead(before: str, character: str) -> None:
    text = before + character * (2 * LOOK_AHEAD + 10) + "b) end"
    assert clean(*text) == clean(text) == clean(text[:LOOK_AHEAD], text[LOOK_AHEAD:])


@given(st.lists(st.lists(_snippets, max_size=6).map("".join), max_size=12))
@example(["a 😀 ", "**b**"])
@settings(max_examples=120, deadline=None)
def test_pieces_lie_in_order_on_the_original_and_little_is_held(fragments: list[str]) -> None:
    cleaner, origins, original = Cleaner(), Origins(), ""
    position = taken = 0
    for fragment in [*fragments, None]:
        pieces = cleaner.flush() if fragment is None else cleaner.feed(fragment)
        original += fragment or ""
        assert len(cleaner.held) <= LOOK_AHEAD + 1
        origins.add(pieces)
        for piece in pieces:
            assert piece.text
            assert position <= piece.start <= piece.end <= len(original)
            if len(piece.text) == piece.end - piece.start and piece.text.isalnum():
                assert original[piece.start : piece.end] == piece.text
            position = piece.end
            start, end = origins.take(len(piece.text))
            assert start == taken
            assert end == piece.end
            taken = end
    assert cleaner.held == ""


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text_is_survived_and_leaves_no_marks(text: str) -> None:
    out = clean(text)
    assert clean(*text) == out
    assert not re.search(r"\n{3}|^\s| [ \n]|[^\S \n]", out)
    assert "[" not in out


def test_plain_words_are_given_out_at_once() -> None:
    cleaner = Cleaner()
    assert cleaner.feed("Good") == [CleanText("Good", 0, 4)]
    assert cleaner.feed(" morning.") == [CleanText(" morning.", 4, 13)]
    assert "".join(piece.text for piece in Cleaner().feed("It is $5 million, or $5. I")) == "It is $5 million, or $5. I"
    assert cleaner.feed(" **He") == [CleanText(" ", 13, 14), CleanText("He", 16, 18)]
    assert cleaner.feed("llo** [wor") == [CleanText("llo", 18, 21), CleanText(" ", 23, 24), CleanText("wor", 25, 28)]
    assert cleaner.feed("ld](htt") == [CleanText("ld", 28, 30)]
    assert cleaner.feed("ps://a.b) was") == [CleanText(" was", 44, 48)]


def test_origins_keep_what_was_dropped() -> None:
    original = "See **this**: 😀 [docs](http://x.y).\n```\ncode\n```\nBye &amp; so on."
    cleaner, origins = Cleaner(), Origins()
    pieces = cleaner.feed(original) + cleaner.flush()
    origins.add(pieces)
    spoken = "".join(piece.text for piece in pieces)
    first = spoken.index("Bye")
    start, end = origins.take(first)
    assert original[start:end] == "See **this**: 😀 [docs](http://x.y).\n"
    start, end = origins.take(len(spoken) - first)
    assert original[start:end] == "```\ncode\n```\nBye &amp; so on."


def test_what_is_fed_after_a_flush_is_another_text() -> None:
    cleaner = Cleaner()
    assert cleaner.feed("**a [b") + cleaner.flush() == [CleanText("a ", 2, 4), CleanText("b", 5, 6)]
    assert cleaner.feed("# c") == [CleanText("c", 8, 9)]


@pytest.mark.parametrize(
    "bomb", ["[", "<", "*", "`", "<a ", "&", "\\", "((", "| ", "$", "- ", "\n", "> ", "![", "a.", " ", "```\n"]
)
def test_a_bomb_takes_no_longer_than_text(bomb: str) -> None:
    # Ten times the text may not take a hundred times the steps. Steps are counted, not timed.
    def steps(size: int) -> int:
        cleaner = Cleaner()
        counted = 0
        original = cleaner._step

        def step(text: str, at: int, final: bool) -> int:
            nonlocal counted
            counted += 1
            return original(text, at, final)

        cleaner._step = step  # type: ignore[method-assign]
        for _ in range(size):
            cleaner.feed(bomb)
        cleaner.flush()
        return counted

    assert steps(4000) < 15 * steps(400)
