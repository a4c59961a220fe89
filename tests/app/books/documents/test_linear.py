"""Time to read a document grows with its size: what a stranger writes may not make it grow with the square."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from app.books.documents.formats import parse
from app.books.documents.types import DocumentError
from tests.app.books.documents.books import epub, page, word

CUE = "00:00:01.000 --> 00:00:02.000\n"
# Name, document of size n, and a size that takes some hundredths of a second.
CASES: dict[str, tuple[str, Callable[[int], bytes | str], int]] = {
    "declarations": ("a.html", lambda n: "<!DOCTYPE " * n + "<p>Hi.</p>", 5_000),
    "ends of a declaration": ("a.html", lambda n: "<!DOCTYPE x [" + "] " * n + "<p>Hi.</p>", 20_000),
    "declarations of a book": ("a.epub", lambda n: epub({"a.xhtml": "<!DOCTYPE " * n + page("<p>Hi.</p>")}), 5_000),
    "attributes": ("a.html", lambda n: "<p " + " ".join(f'a{each}="1"' for each in range(n)) + ">Hi.</p>", 8_000),
    "attributes without values": ("a.html", lambda n: "<p " + " ".join(map("a{}".format, range(n))) + ">Hi.", 8_000),
    "images of Markdown": ("a.md", lambda n: "Hi. " + "![" * n, 1_000),
    "links of Markdown": ("a.md", lambda n: "Hi. " + "[a](" * n, 1_000),
    "stars of Markdown": ("a.md", lambda n: "Hi. " + "*a_ " * n, 4_000),
    "lists of Markdown": ("a.md", lambda n: "- " * n + "Hi.", 8_000),
    "headings of a text": ("a.txt", lambda n: "Chapter 1\n\nHi.\n\n" * n, 4_000),
    "cues": ("a.vtt", lambda n: "WEBVTT\n\n" + f"{CUE}<c.a>Hi</c> &amp;\n\n" * n, 2_000),
    "brackets of cues": ("a.vtt", lambda n: "WEBVTT\n\n" + f"{CUE}Hi{'[(' * 1_000}\n\n" * (n // 100), 4_000),
    "word times": ("a.vtt", lambda n: "WEBVTT\n\n" + f"{CUE}a <00:00:01.5 <v a <00:\n" * n, 4_000),
    "tags of cues": ("a.srt", lambda n: (CUE + "<font a=<v a {\\\\a <rt>♪ a" * 150 + "\n\n") * (n // 100), 2_000),
    "notes of cues": ("a.srt", lambda n: (CUE + "♪" * 4_000 + " " * 4_000 + "♪\n\n") * (n // 100), 2_000),
    "captions that roll": ("a.srt", lambda n: (CUE.replace("02", "01") + "a a\n" * 2_000 + "\n") * (n // 100), 1_000),
    "lines of times": ("a.srt", lambda n: "00:00:0x --> 1:1\n" * n, 8_000),
    "blank lines of cues": ("a.srt", lambda n: CUE + "\n" * n + "1\n" + CUE + "a", 80_000),
    "hyphens": ("a.txt", lambda n: "strik-\ning well-\n" * n, 8_000),
    "hyphens without a word": ("a.txt", lambda n: "a" * n + "-\n" * n + " -\n" * n, 20_000),
    "dividers": ("a.txt", lambda n: "=" * n + "a" + "= " * n + "a\n\n" + "+ " * n, 200_000),
    "superscripts": ("a.html", lambda n: "<p>" + "x<sup>2</sup> (<sup>1</sup><sup> </sup>" * n, 4_000),
    "cells": ("a.html", lambda n: "<table><tr>" + "<td>a<td>" * n, 4_000),
    "marks of Markdown": ("a.md", lambda n: "==a b " * n, 4_000),
    "style sheets": ("a.html", lambda n: "<style>" + "/*@a{b{" * n + "@a{}/**/" * n + "</style>Hi.", 20_000),
    "rules of style sheets": ("a.html", lambda n: "<style>" + "@@a{.a{}" * n + ";; }.b,{" * n + "</style>Hi.", 8_000),
    "names of style sheets": ("a.html", lambda n: "<style>" + "".join(f".a{i}{{display:none}}.b{{display:block}}"
        for i in range(n)) + "</style>Hi.", 20_000),
    "notes of Markdown": ("a.md", lambda n: "[^a]: b\n" * n + "[^" * n + "Hi.", 8_000),
    "bytes of Windows": ("a.txt", lambda n: b"caf\xe9 \xc3\xa9\xb0\xa1" * n, 80_000),
    "front matter": ("a.md", lambda n: "---\ntitle: a" + " " * n + "b" + "\nauthor" * 90 + "\n---\nHi.", 10_000),
    "paragraphs of Word": ("a.docx", lambda n: word("<w:p>" * n + "<w:r/>" * (400 * n) + "</w:p>" * n), 40),
    "styles of Word": ("a.docx", lambda n: word("<w:p/>", "<w:style w:styleId='a'><w:rPr>" + "<w:x/>" * (10 * n)
        + "</w:rPr></w:style>" + "".join(f"<w:style w:styleId='b{i}'><w:basedOn w:val='a'/></w:style>"
        for i in range(n))), 1_000),
    "parts of a book": ("a.epub", lambda n: epub({"a.xhtml": page("".join(f"<h1 id='a{i}'>A</h1>" for i in range(n)))},
        toc="<ol>" + "".join(f"<li><a href='a.xhtml#a{i}'>A</a><ol><li><a href='a.xhtml#a{n - 1}'>B</a></li></ol></li>"
        for i in range(n)) + "</ol>"), 600),
}  # fmt: skip


def seconds(name: str, text: bytes | str) -> float:
    """Return the least CPU time of two attempts."""
    data, taken = text.encode() if isinstance(text, str) else text, []
    for _ in range(2):
        begin = time.process_time()
        with contextlib.suppress(DocumentError):
            parse(data, name)
        taken.append(time.process_time() - begin)
    return min(taken)


@pytest.mark.parametrize("case", CASES)
def test_four_times_the_size_takes_no_sixteen_times(case: str) -> None:
    name, text, size = CASES[case]
    parse(b"Hi.", "a.md"), parse(b"<p>Hi.</p>", "a.html")  # what the first call imports is not counted
    small, large = seconds(name, text(size)), seconds(name, text(4 * size))
    assert large < 0.1 or large < 12 * small, (small, large)
