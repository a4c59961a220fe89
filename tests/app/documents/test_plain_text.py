"""Text, Markdown and HTML to chapters."""

from __future__ import annotations

import pytest

from app.documents.formats import parse
from app.documents.types import DocumentError
from tests.app.documents.books import outline


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
    text = "Chapter 1\n\nChapter 2\n\nChapter 1\n\nOne.\n\nChapter 2\n\nTwo."
    assert outline(parse(text.encode(), "a.txt")) == [("Chapter 1", ["One."]), ("Chapter 2", ["Two."])]


def test_long_lines_without_blank_ones_are_paragraphs() -> None:
    lines = ["First " + "word " * 40, "Second " + "word " * 40]
    assert len(parse("\n".join(lines).encode(), "a.txt").chapters[0].passages) == 2


@pytest.mark.parametrize(
    "text", ["第一章 風\n\n本文。\n\n第二章\n\n続き。", "Kapitel 1\n\nEins.\n\nKapitel 2\n\nZwei."]
)
def test_chapters_of_other_languages(text: str) -> None:
    assert len(parse(text.encode(), "a.txt").chapters) == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks(encoding: str) -> None:
    assert outline(parse("Größe über alles".encode(encoding), "a.txt")) == [("", ["Größe über alles"])]


def test_another_encoding_is_refused_and_not_guessed() -> None:
    with pytest.raises(DocumentError, match=r"not UTF-8 at byte 2.*Accepted are UTF-8"):
        parse("Größe".encode("latin-1"), "a.txt")
    with pytest.raises(DocumentError, match="zero bytes"):
        parse(b"a\0b\0c\0", "a.txt")


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
    assert outline(parse(page, "a.html")) == [("", ["See 12, m2 and end."])]
