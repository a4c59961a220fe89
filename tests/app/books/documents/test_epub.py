"""EPUB books: order, titles, and what is not read."""

from __future__ import annotations

import pytest

from app.books.documents.formats import parse
from tests.app.books.documents.books import PNG, epub, outline, page

PAGES = {
    "cover.xhtml": page('<img src="cover.png" alt="Cover"/>', 'epub:type="cover"'),
    "part1.xhtml": page("<h1>Part One</h1>"),
    "one.xhtml": page(
        "<h2>Chapter 1</h2><h3>The Storm</h3><p>Rain&nbsp;fell<a epub:type='noteref' href='#n1'>1</a> all "
        "<span epub:type='pagebreak' id='p2'>2</span>night.</p><p>It did not stop.<sup><a href='#n2'>[2]</a></sup></p>"
        "<aside epub:type='footnote' id='n1'><p>A note.</p></aside><section id='s'><h4>Later</h4><p>Sun.</p></section>"
    ),
    "one-b.xhtml": page("<p>The chapter goes on.</p>"),
    "two.xhtml": page("<h2>Two</h2><p>Morning came.</p>"),
}
TOC = (
    "<ol><li><a href='part1.xhtml'>Part One</a><ol><li><a href='one.xhtml'>Chapter 1: The Storm</a>"
    "<ol><li><a href='one.xhtml#s'>Later</a></li></ol></li><li><a href='two.xhtml'>Two</a></li></ol></li></ol>"
)


def test_chapters_are_those_of_the_navigation_document() -> None:
    document = parse(epub(PAGES, toc=TOC), "book.epub")
    assert (document.title, document.author, document.language) == ("The Lighthouse", "Ada Author", "en-GB")
    assert outline(document) == [
        (
            "Part One: Chapter 1: The Storm",
            ["Rain fell all night.", "It did not stop.", "Later", "Sun.", "The chapter goes on."],
        ),
        ("Two", ["Morning came."]),
    ]


def test_chapters_are_those_of_the_ncx_where_there_is_no_other() -> None:
    ncx = (
        "<navPoint><navLabel><text>The Storm</text></navLabel><content src='one.xhtml'/></navPoint>"
        "<navPoint><navLabel><text>The Morning</text></navLabel><content src='two.xhtml#x'/></navPoint>"
    )
    pages = PAGES | {"two.xhtml": page("<p>Before.</p><h2><a id='x'/>The Morning</h2><p>After.</p>")}
    document = parse(epub(pages, ncx=ncx), "book.epub")
    assert [title for title, _ in outline(document)] == ["", "The Storm", "The Morning"]
    assert [texts[-1] for _, texts in outline(document)] == ["Part One", "Before.", "After."]


def entry(title: str, place: str, *within: str) -> str:
    """An entry of a navigation map."""
    target = f"<navLabel><text>{title}</text></navLabel><content src='v.xhtml{place}'/>"
    return f"<navPoint>{target}{''.join(within)}</navPoint>"


ONE_FILE = (
    "<h1 id='v1'>{}</h1><h2 id='c1'>{}</h2><p>One.</p><h2 id='c2'>{}</h2><p>Two.</p>"
    "<h1 id='v2'>{}</h1>{}<h2 id='c3'>{}</h2><p>Three.</p>"
)


@pytest.mark.parametrize(
    ("names", "titles"),
    [
        (("Volume One", "Chapter 1", "Chapter 2", "Volume Two", "", "Chapter 3"),
         ["Volume One: Chapter 1", "Chapter 2", "Volume Two: Chapter 3"]),
        (("Part I", "The Sea", "The Land", "Part II", "<p>Motto.</p>", "The Sky"),
         ["Part I: The Sea", "The Land", "Part II", "The Sky"]),
        (("Water", "The Sea", "The Land", "Air", "", "The Sky"), ["Water: The Sea", "The Land", "Air: The Sky"]),
        (("Chapter 1", "Loops", "Ends", "Chapter 2", "", "More"), ["Chapter 1", "Chapter 2"]),
        (("Loops", "For", "While", "Ends", "<p>Text.</p>", "More"), ["Loops: For", "While", "Ends"]),
        (("", "The Sea", "The Land", "", "", "The Sky"), ["The Sea", "The Land", "The Sky"]),
    ],
)  # fmt: skip
def test_chapters_within_a_part_of_the_same_file(names: tuple[str, ...], titles: list[str]) -> None:
    one, first, second, two, _, third = names
    ncx = entry(one, "#v1", entry(first, "#c1"), entry(second, "#c2"), entry("Gone", "#gone"))
    ncx += entry(two, "#v2", entry(third, "#c3"))
    book = epub({"v.xhtml": page(ONE_FILE.format(*names))}, ncx=ncx)
    assert [title for title, _ in outline(parse(book, "b.epub"))] == titles


def test_three_levels_in_one_file_and_a_contents_of_one_entry() -> None:
    text = "<h1 id='v'>Volume One</h1><h2 id='p'>Part A</h2>"
    text += "<h3 id='c'>I</h3><p>One.</p><h3 id='d'>II</h3><p>Two.</p>"
    book = {"v.xhtml": page(text)}
    ncx = entry("Volume One", "#v", entry("Part A", "#p", entry("I", "#c"), entry("II", "#d")))
    assert [title for title, _ in outline(parse(epub(book, ncx=ncx), "b.epub"))] == ["Volume One: Part A: I", "II"]
    book = {"v.xhtml": page("<h2>One</h2><p>a</p><h2>Two</h2><p>b</p>")}
    assert [title for title, _ in outline(parse(epub(book, ncx=entry("Start", "")), "b.epub"))] == ["One", "Two"]


@pytest.mark.parametrize(
    "text",
    [
        "<h2>One</h2><p id='c'>a</p><h2>Two</h2><p id='d'>b</p>",
        "<h2>One</h2><a id='c'></a><p>a</p><h2>Two</h2><div><a id='d'/><p>b</p></div>",
        "<h2>One<a id='c'/></h2><p>a</p><h2>Two<span><a id='d'/></span></h2><p>b</p>",
    ],
)
def test_a_place_behind_a_heading_is_that_of_the_heading(text: str) -> None:
    book = epub({"v.xhtml": page(f"<p>0</p>{text}")}, ncx=entry("First", "#c") + entry("Second", "#d"))
    assert outline(parse(book, "b.epub")) == [("", ["0"]), ("First", ["One", "a"]), ("Second", ["Two", "b"])]
    own = "<h2 id='c'>One</h2><p id='d'>a</p>"
    book = epub({"v.xhtml": page(own)}, ncx=entry("First", "#c") + entry("Second", "#d"))
    assert outline(parse(book, "b.epub")) == [("First", ["One"]), ("Second", ["a"])]


def test_chapters_are_those_of_the_headings_without_a_table_of_contents() -> None:
    titles = [title for title, _ in outline(parse(epub(PAGES), "book.epub"))]
    assert titles == ["Part One: Chapter 1", "Two"]


def test_pages_without_headings_are_chapters() -> None:
    pages = {"a.xhtml": page("<p>One.</p>"), "b.xhtml": page("<p>Two.</p>")}
    assert outline(parse(epub(pages), "book.epub")) == [("", ["One."]), ("", ["Two."])]


def test_the_order_is_that_of_the_spine_and_each_page_is_read_once() -> None:
    spine = (
        "<itemref idref='b.xhtml'/><itemref idref='b.xhtml'/><itemref idref='c' linear='no'/><itemref idref='a.xhtml'/>"
    )
    pages = {"a.xhtml": page("<p>First.</p>"), "b.xhtml": page("<p>Second.</p>"), "c": page("<p>Notes.</p>")}
    found = outline(parse(epub(pages, spine=spine), "book.epub"))
    assert [text for _, texts in found for text in texts] == ["Second.", "First."]


def test_the_cover_of_epub_3_and_of_epub_2() -> None:
    three = '<item id="c" href="cover.png" media-type="image/png" properties="cover-image"/>'
    two = '<item id="c" href="cover.png" media-type="image/png"/>'
    files = {"OEBPS/cover.png": PNG}
    assert parse(epub(PAGES, toc=TOC, files=files, manifest=three), "b.epub").cover == PNG
    named = '<meta name="cover" content="c"/>'
    assert parse(epub(PAGES, toc=TOC, files=files, manifest=two, metadata=named), "b.epub").cover == PNG
    files = {"OEBPS/cover.png": b"<svg/>"}
    assert parse(epub(PAGES, toc=TOC, files=files, manifest=three), "b.epub").cover is None


def test_scrambled_fonts_are_no_protection() -> None:
    rule = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData xmlns="http://www.w3.org/'
        '2001/04/xmlenc#"><EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/></EncryptedData></encryption>'
    )
    assert parse(epub(PAGES, toc=TOC, files={"META-INF/encryption.xml": rule}), "b.epub").chapters


def test_addresses_of_pages_are_decoded_and_broken_pages_are_read() -> None:
    pages = {"a b.xhtml": "<p>One<p>Two &amp; three<br><br>Four"}
    manifest = '<item id="x" href="a%20b.xhtml" media-type="application/xhtml+xml"/>'
    found = outline(parse(epub(pages, manifest=manifest, spine="<itemref idref='x'/>"), "b.epub"))
    assert found == [("", ["One", "Two & three", "Four"])]


def test_entries_without_a_place_begin_with_their_page() -> None:
    toc = "<ol><li><a href='one.xhtml#gone'>One</a></li><li><span>Part Two</span><ol><li><a href='two.xhtml'>Two</a>"
    toc += "</li></ol></li></ol>"
    pages = {"one.xhtml": page("<p>First.</p>"), "two.xhtml": page("<p>Second.</p>")}
    assert outline(parse(epub(pages, toc=toc), "b.epub")) == [("One", ["First."]), ("Part Two: Two", ["Second."])]


def test_a_language_is_a_tag_or_none() -> None:
    for named, found in (("en_US", "en-US"), ("English", None), ("", None), ("de", "de")):
        text = f"---\nlanguage: {named}\n---\nText"
        assert parse(text.encode(), "a.md").language == found
