"""Cleaning of a language model's text for speech."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.llm_text.clean import LOOK_AHEAD, Cleaner
from app.llm_text.output import CleanText, Origins


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


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        # Emphasis
        ("A **b**, *c*, __d__, _e_, ***f*** and ~~gone~~.", "A b, c, d, e, f and gone."),
        ("snake_case, 2*3, 2 * 3, ~5 and 2**8.", "snake_case, 2*3, 2 * 3, ~5 and 2**8."),
        ("**_x_**, **a**b and *c*.", "x, ab and c."),
        (r"Not \*this\* and \_that\_.", "Not *this* and _that_."),
        # Code
        ("Run `make_it **so**` now.", "Run make_it **so** now."),
        ("Use ``a ` b`` here.", "Use a ` b here."),
        ("As follows:\n```python\nx = 1\n\ny = [2]\n```\nDone.", "As follows:\n\nDone."),
        ("A\n~~~\nx\n```\n~~~~\nB", "A\n\nB"),
        ("- See:\n  ```sh\n  ls\n  ```\n- B", "See:\n\nB"),
        ("Say `a[0]`, &#91;pause:x&#93; and `[pause:x]`.", "Say a0, pause:x and pause:x."),
        ("A ```b``` c.\n```d``` e.", "A b c.\nd e."),
        ("A\n```\nnever closed", "A\n\n"),
        # Blocks
        ("# Title #\nText\n## Next\n\nMore #1.", "Title\n\nText\n\nNext\n\nMore #1."),
        ("A:\n- one\n- two\n  * three\n+ four\n• five", "A:\n\none\n\ntwo\n\nthree\n\nfour\n\nfive"),
        ("1. one\n2. two\n10) ten\n2024 was", "1. one\n\n2. two\n\n10) ten\n2024 was"),
        ("- [ ] open\n- [x] done\n- [link](u)", "open\n\ndone\n\nlink"),
        ("> quoted\n> text\n\nmore", "quoted\ntext\n\nmore"),
        ("A\n\n---\n\nB\n* * *\nC\n___\nD", "A\n\nB\n\nC\n\nD"),
        ("A\n===\nB\n-----\nC", "A\n\nB\n\nC"),
        ("-5 degrees\n--flag", "-5 degrees\n--flag"),
        ("| a | b |\n|:--|--:|\n| 1 | | 2 |\n| | 3 |\n\nEnd", "a, b\n\n1, 2\n\n3\n\nEnd"),
        ("either | or", "either | or"),
        ("A\n\n\n\n\nB\r\nC", "A\n\nB\nC"),
        ("\n\n  indented", "indented"),
        # Links
        ("See [the *docs*](https://a.b/c(d)e 'title'), please.", "See the docs, please."),
        ("See ![a cat](cat.png)! [![badge](b.svg)](url)", "See a cat! badge"),
        ("See [docs][ref] and [sic] it.", "See docs and sic it."),
        ("True [1]. False[2][3], odd [^note].", "True. False, odd."),
        ("Text\n\n[^1]: The note.", "Text\n\nThe note."),
        ("[pause: 99 hours] and [word](/not ipa/)", "pause: 99 hours and word"),
        ("At https://www.example.com/a/b_c?d=1#e. Yes.", "At example.com. Yes."),
        ("(see http://x.org/a_(b)), www.y.net/z, <https://q.io/r>!", "(see x.org), y.net, q.io!"),
        ("Is it https://x.org/a.b,c? No: https://x.org:80", "Is it x.org? No: x.org:80"),
        ("**https://x.org/a** and https://x.org。好", "x.org and x.org。好"),
        ("https is not http: or www, nor ashttps://x", "https is not http: or www, nor ashttps://x"),
        # Pictographs
        ("Great 😀! Yes ✅ 👨‍👩‍👧 ok 1️⃣ → 🇫🇷 end", "Great! Yes ok 1 end"),
        ("20 °C, © 2020, क्‍ष, می‌خواهم", "20 °C, © 2020, क्‍ष, می‌خواهم"),
        # HTML
        ('a <b class="q" id=x>hi</b> there<br/>you <!-- a > b --> end', "a hi there\n\nyou end"),
        ("x <y and y> z, a < b, I <3 you", "x <y and y> z, a < b, I <3 you"),
        ("<think>**No**\n\n- no</think>\n\nYes.", "Yes."),
        ("The <script> tag stays open.", "The tag stays open."),
        ("AT&amp;T&nbsp;&lt;x&gt; &#x41;&#128512; Q&A &nothing; R & D", "AT&T <x> A Q&A &nothing; R & D"),
        # LaTeX
        (r"\(x_1 = \frac{a}{b}\), $\alpha \leq y^2$, $E = m$", "x 1 = a/b, α ≤ y^2, E = m"),
        (r"This: \[\text{so}\,\{3\}\]", "This: so3"),
        ("$$\n\\pi \\times 2\n$$\nNot so.", "π × 2\n\nNot so."),
        ("For $x\nset {a}, b_c.", "For x\nset {a}, b_c."),
        ("It costs $5 or $20, US$3 in $HOME, C:\\dir.", "It costs $5 or $20, US$3 in $HOME, C:\\dir."),
        ("Plain text, untouched: (a) “b” — c; d… é ñ 你好。", "Plain text, untouched: (a) “b” — c; d… é ñ 你好。"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_is_spoken(text: str, spoken: str) -> None:
    assert clean(text) == spoken
    assert clean(*text) == spoken


def test_a_code_block_can_be_announced() -> None:
    assert clean("As follows:\n```py\nx\n```\nDone.", code="Code.") == "As follows:\n\nCode.\n\nDone."


def test_a_destination_that_is_never_closed_ends_with_the_line_or_after_2048_characters() -> None:
    text = "See [this](" + "x" * 2048 + " and that."
    assert clean(text) == clean(*text) == "See this and that."
    assert clean("See [this](x(y\nand that.") == "See this\nand that."


_snippets = st.sampled_from(
    [*"aB1 \t\n.,!?*_~`[](){}<>&\\$|#-+=>:;/\"'😀\u200d\ufe0f→é。\r", "**", "```", "\n```", "~~~\n", "\n\n", "\n- ",
     "\n# ", "\n| a | ", "|--", "\n1. ", "[a](b)", "![", "](", "https://", "www.", "a.b/c", "<b>", "</think>",
     "<think>", "<!--", "-->", "&amp;", "&#", "\\frac", "$x", "$$",
     "\\(", "[1]", "[^", "- [x] ", "---", "word ", " <a href=\"x", "\n> "]
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
