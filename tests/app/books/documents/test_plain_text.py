"""Text, Markdown and HTML to chapters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.books.documents.formats import parse
from app.books.documents.types import DocumentError
from tests.app.books.documents.books import outline

# What goes in, and what comes out, by the name of the test.
CASES = json.loads(Path(__file__).with_name("plain_text_cases.json").read_text(encoding="utf-8"))


def test_plain_text_has_chapters_only_where_they_are_plain() -> None:
    text = (
        "CHAPTER I. The Storm\r\n\r\nIt was dark,\r\nvery dark.\r\n\r\nChapter and verse.\r\n\r\n"
        "Chapter Twenty-One\r\n\r\nMorning."
    )
    document = parse(text.encode(), "my book.txt")
    assert document.title == "my book"
    assert outline(document) == [
        ("CHAPTER I. The Storm", ["It was dark, very dark.", "Chapter and verse."]),
        ("Chapter Twenty-One", ["Morning."]),
    ]


def test_a_table_of_contents_in_plain_text_makes_no_chapters() -> None:
    text = "Chapter 1\n\nChapter 2\n\n== Chapter 1 ==\n\nOne.\n\n*****\n\n***** Chapter 2 *****\n\nTwo."
    assert outline(parse(text.encode(), "a.txt")) == [("Chapter 1", ["One."]), ("Chapter 2", ["Two."])]


def test_long_lines_without_blank_ones_are_paragraphs() -> None:
    lines = ["First " + "word " * 60, "*****", "Second " + "word " * 60]
    assert len(parse("\n".join(lines).encode(), "a.txt").chapters[0].passages) == 2


@pytest.mark.parametrize(
    "text", ["第一章 風\n\n本文。\n\n第二章\n\n続き。", "Kapitel 1\n\nEins.\n\nKapitel 2\n\nZwei."]
)
def test_chapters_of_other_languages(text: str) -> None:
    assert len(parse(text.encode(), "a.txt").chapters) == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks(encoding: str) -> None:
    assert outline(parse("Größe über alles".encode(encoding), "a.txt")) == [("", ["Größe über alles"])]


def test_windows_1252_is_read_where_it_fits() -> None:
    for text in ("Größe", "It’s the café — late…"):
        assert outline(parse(text.encode("cp1252"), "a.txt")) == [("", [text])]
    assert outline(parse("<p>Café".encode("latin-1"), "a.html")) == [("", ["Café"])]


@pytest.mark.parametrize(
    "data",
    [
        "Привет мир".encode("cp1251"),
        "It’s café – late".encode("mac-roman"),
        "caféine".encode("cp850"),
        "Hello 你好世界 friends of mine".encode("gb18030"),
        b"caf\xe9 \x81",
        b"\xff\xd8 JFIF \x01",
        "naïve café".encode() + b" and \xc3 broken",
    ],
)
def test_another_encoding_is_refused_and_not_guessed(data: bytes) -> None:
    with pytest.raises(DocumentError, match=r"not UTF-8 at byte.*Accepted are UTF-8.*Windows-1252"):
        parse(data, "a.txt")
    with pytest.raises(DocumentError, match="zero bytes"):
        parse(b"a\0b\0c\0", "a.txt")


@pytest.mark.parametrize(
    ("text", "spoken"),
    CASES["words_divided_at_the_end_of_a_line_and_dividers"],
)  # fmt: skip
def test_words_divided_at_the_end_of_a_line_and_dividers(text: str, spoken: str) -> None:
    assert outline(parse(text.encode(), "a.txt")) == [("", [spoken])]


@pytest.mark.parametrize(
    ("html", "spoken"),
    CASES["exponents_are_read_and_marks_of_notes_and_hidden_text_are_not"],
)  # fmt: skip
def test_exponents_are_read_and_marks_of_notes_and_hidden_text_are_not(html: str, spoken: str) -> None:
    for name in ("a.html", "a.md"):
        assert outline(parse(f"<p>{html}</p>".encode(), name)) == [("", [spoken])]


def test_rules_of_a_style_sheet_hide() -> None:
    style = (
        "<style>/* .v{display:none} */ @media print{.v{display:none}} .h, #x\n{\n           display: none !important }"
        " i{visibility:hidden} .w>b{display:none} .u{display:none} .u{display:block} body{display:none} .a{</style>"
    )
    page = "<p class='z h'>H<p id=x>X<p class=v>V<p class=w>W <b>B</b> <i>I</i><p class=u>U<div>D"
    assert outline(parse(f"{style}{page}".encode(), "a.html")) == [("", ["V", "W B", "U", "D"])]


def test_marked_words_of_markdown() -> None:
    text = "==Two\nwords== and ==one==, `a == b`, if a == b and c == d, x==y==z\n\nTitle\n==\n\nText"
    spoken = ["Two words and one, a == b, if a == b and c == d, x==y==z"]
    assert outline(parse(text.encode(), "a.md")) == [("", spoken), ("Title", ["Text"])]


def test_footnotes_of_markdown_are_left_out() -> None:
    text = "# First\n\nThe whale[^1] sank.\n\nIt was late.[^note] `[^a-z]` is code.\n\n[^1]: See the log.\n"
    text += "goes on\n\n    and on\n\n[^note]: As told later.\n```\nx\n```\nThe end.\n"
    spoken = ["The whale sank.", "It was late. [^a-z] is code.", "The end."]
    assert outline(parse(text.encode(), "a.md")) == [("First", spoken)]


def test_markdown() -> None:
    text = (
        "---\ntitle: 'Sea'\nauthor: Ada\nlanguage: en\n---\n# One\n\n"
        "Text *bold* [link](http://x.org) `code`.\n\n"
        "```py\nx = 1\n```\n\n- a\n- b\n\n> quoted <b>HTML</b>\n\n## Below\n\n"
        "# Two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    document = parse(text.encode(), "a.md")
    assert (document.title, document.author, document.language) == ("Sea", "Ada", "en")
    assert outline(document) == [
        ("One", ["Text bold link code.", "a", "b", "quoted HTML", "Below"]),
        ("Two", ["a, b", "1, 2"]),
    ]


def test_a_lone_highest_heading_is_the_title() -> None:
    document = parse(b"# Book\n\nForeword.\n\n## One\n\nText.\n\n## Two\n\nText.", "a.md")
    assert document.title == "Book"
    assert [title for title, _ in outline(document)] == ["", "One", "Two"]


def test_parts_are_no_chapters() -> None:
    document = parse(b"# Part 1\n\n## One\n\na\n\n## Two\n\nb\n\n# Part 2\n\n## Three\n\nc", "a.md")
    assert [title for title, _ in outline(document)] == ["Part 1: One", "Two", "Part 2: Three"]


def test_html() -> None:
    page = (
        "<html lang=de><head><meta charset=windows-1252><meta name=author content=Ada>"
        "<title>T &amp; U</title></head>"
        "<body><nav>menu</nav><h1>T & U</h1>"
        "<h2>Eins</h2><p>Gr\u00f6\u00dfe<sup><a href='#f1'>1</a></sup>, x<br>y"
        "<div hidden>no</div><p>a\u00adb<script>no()</script><h2>Zwei</h2><ruby>\u00e4<rt>no</rt></ruby>"
        "<pre><code>no</code></pre><span class='pagenum'>12</span></body></html>"
    )
    document = parse(page.encode("cp1252"), "a.HTM")
    assert (document.title, document.author, document.language) == ("T & U", "Ada", "de")
    assert outline(document) == [("Eins", ["Größe, x y", "ab"]), ("Zwei", ["ä"])]


def test_a_link_of_a_number_is_not_a_note_unless_it_looks_like_one() -> None:
    page = b"<p>See <a href='#t'>12</a>, m<sup>2</sup> and <a href='#n'><sup>3</sup></a> <a href='#n'>[4]</a> end.</p>"
    assert outline(parse(page, "a.html")) == [("", ["See 12, m² and end."])]
