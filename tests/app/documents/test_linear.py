"""Time to read a document grows with its size: what a stranger writes may not make it grow with the square."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from app.documents.formats import parse
from app.documents.types import DocumentError
from tests.app.documents.books import epub, page

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
