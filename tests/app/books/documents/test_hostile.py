"""Documents that try to break the server: each gets an error with its reason, soon."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pytest

from app.books.documents import reader, reader_process
from app.books.documents.reader import read_document
from app.books.documents.types import DocumentError
from tests.app.books.documents.books import CONTAINER, epub, page, word, zipped

# Seconds: these take one at most, alone on a machine.
SOON = 60
ENTITIES = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
DRM = (
    '<encryption><EncryptedData><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/>'
    "</EncryptedData></encryption>"
)
PAGE = {"a.xhtml": page("<p>Text.</p>")}


def declared(data: bytes, name: bytes, size: int) -> bytes:
    """The archive with another size of a part in its directory."""
    changed = bytearray(data)
    at = changed.rindex(b"PK\x01\x02", 0, changed.rindex(name))
    changed[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(changed)


def large_together() -> bytes:
    data = epub(PAGE, files={f"OEBPS/{number}": b"" for number in range(9)})
    for number in range(9):
        data = declared(data, b"OEBPS/%d" % number, 60 << 20)
    return data


def locked() -> bytes:
    """An archive with a part that is marked as encrypted."""
    data = bytearray(epub(PAGE))
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"OEBPS/a.xhtml"))
    data[at + 8] |= 1
    return bytes(data)


def many_parts() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(20_001):
            archive.writestr(str(number), b"")
    return file.getvalue()


def compressed_otherwise() -> bytes:
    """An archive in LZMA, damaged."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("META-INF/container.xml", CONTAINER * 9)
    data = file.getvalue()
    return data[:70] + bytes(byte ^ 85 for byte in data[70:90]) + data[90:]


HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "zip bomb": ("a.epub", lambda: epub(PAGE, files={"OEBPS/x": bytes(80 << 20)}), "more than 64 MB"),
    "zip bomb of many parts": ("a.epub", large_together, "more than 512 MB"),
    "a size that lies": (
        "a.epub",
        lambda: declared(epub({"b.xhtml": page("<p>text</p>" * 90_000)}), b"OEBPS/b.xhtml", 10),
        "is damaged",
    ),
    "too many parts": ("a.epub", many_parts, "20001 entries"),
    "entities in a page": ("a.epub", lambda: epub({"a.xhtml": ENTITIES + "<html>&b;</html>"}), "declares entities"),
    "entities in the package": ("a.epub", lambda: epub(PAGE, container=ENTITIES + "<x>&b;</x>"), "declares entities"),
    "entities in HTML": ("a.html", lambda: ENTITIES.encode() + b"<p>&b;</p>", "declares entities"),
    "a path out of the archive": ("a.epub", lambda: epub(PAGE, files={"../../etc/x": "x"}), "outside of itself"),
    "an absolute path": ("a.epub", lambda: epub(PAGE, files={"/etc/x": "x"}), "outside of itself"),
    "a reference out of the archive": (
        "a.epub",
        lambda: epub({}, manifest='<item id="a" href="../../../etc/passwd" media-type="text/html"/>', spine="<itemref "
        "idref='a'/>"),
        "lacks its part",
    ),
    "fallbacks in a circle": (
        "a.epub",
        lambda: epub({}, manifest='<item id="a" href="a" fallback="b"/><item id="b" href="b" fallback="a"/>', spine=
        "<itemref idref='a'/>" * 1000),
        "no text",
    ),
    "an endless spine": ("a.epub", lambda: epub(PAGE, spine="<itemref idref='a.xhtml'/>" * 30_000), "more than 20000"),
    "an endless contents": (
        "a.epub",
        lambda: epub(PAGE, toc="<ol>" + "<li><a href='a.xhtml'>A</a></li>" * 6_000 + "</ol>"),
        "more than 5000",
    ),
    "protected": ("a.epub", lambda: epub(PAGE, files={"META-INF/encryption.xml": DRM}), "DRM"),
    "encrypted": ("a.epub", locked, "encrypted"),
    "no container": ("a.epub", lambda: epub(PAGE).replace(b"container.xml", b"container.xmm"), "lacks META-INF"),
    "no package": ("a.epub", lambda: epub(PAGE, container=CONTAINER.replace("content.opf", "x.opf")), "lacks its part"),
    "broken XML": ("a.epub", lambda: epub(PAGE, container="<a"), r"no well-formed XML at line 1, column \d+\.$"),
    "damaged in LZMA": ("a.epub", compressed_otherwise, r"container\.xml' of the EPUB file is damaged\.\Z"),
    "deep elements of Word": ("a.docx", lambda: word("<w:sdt>" * 300), r"cannot be read: it is damaged, or nested"),
    "many tags in many pages": ("a.epub", lambda: epub({f"{n}.xhtml": page("<b/>" * 500_000) for n in range(9)}),
        "more than 2000000 tags"),
    "half a file": ("a.epub", lambda: epub(PAGE)[:-40], "no zip archive"),
    "a DOCX named EPUB": ("a.epub", lambda: zipped({"word/document.xml": "<x/>"}), "lacks META-INF"),
    "an EPUB named DOCX": ("a.docx", lambda: epub(PAGE), "lacks word/document.xml"),
    "an EPUB named text": ("a.txt", lambda: epub(PAGE), "is a zip archive"),
    "a PDF named Markdown": ("a.md", lambda: b"%PDF-1.7", "is a PDF"),
    "an old Word file": ("a.docx", lambda: b"\xd0\xcf\x11\xe0" + bytes(512), "old or encrypted Word"),
    "a PDF": ("a.pdf", lambda: b"%PDF-1.7", r"'\.pdf'; accepted are \.txt, \.md"),
    "no ending": ("book", lambda: b"text", "no ending"),
    "empty": ("a.txt", lambda: b" \n ", "empty"),
    "a million headings": ("a.html", lambda: b"<h1>a</h1><p>b" * 1_000_000, "more than 1000000 tags"),
    "many paragraphs": ("a.html", lambda: b"<p>a" * 200_001, "more than 200000 paragraphs"),
    "a million lines": ("a.md", lambda: b"# a\n\nb\n" * 500_000, "more than 1000000 lines"),
    "many chapters": ("a.md", lambda: b"# a\n\nb\n\n" * 5_001, "more than 5000 chapters"),
    "deep elements": ("a.html", lambda: b"<div>" * 1_000_000 + b"x", "deep"),
    "much text": ("a.txt", lambda: b"word " * (5 << 20), "more than 10000000 characters"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_it_is_refused_soon_with_its_reason(case: str) -> None:
    name, make, reason = HOSTILE[case]
    data = make()
    start = time.monotonic()
    with pytest.raises(DocumentError, match=reason):
        read_document(data, name)
    assert time.monotonic() - start < SOON


def test_the_upload_is_bounded() -> None:
    with pytest.raises(DocumentError, match="5 bytes; at most 4"):
        read_document(b"12345", "a.txt", max_bytes=4)


def manuscript() -> bytes:
    file = io.BytesIO()
    document = docx.Document()
    document.add_paragraph("Text.")
    document.save(file)
    return file.getvalue()


def bare_manuscript() -> bytes:
    """The least that a DOCX file has: no styles, no properties."""
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{types}"><Default Extension="rels" ContentType="application/vnd.'
            f'openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="{main}"/>'
            "</Types>",
            "_rels/.rels": f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
            "word/document.xml": '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
            "<w:body><w:p><w:r><w:t>Text.</w:t></w:r></w:p></w:body></w:document>",
        }
    )


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.docx", manuscript),
        ("a.docx", bare_manuscript),
        ("a.srt", lambda: b"1\n00:00:01,000 --> 00:00:02,000\nText.\n"),
        ("a.vtt", lambda: b"WEBVTT\n\n00:01.000 --> 00:02.000\nText.\n"),
        ("a.md", lambda: b"---\ntitle: x\n---\n*Text.*\n\n|  |\n|-|\n"),
        ("a.html", lambda: b"<meta charset=shift_jis><p>Text.</p>"),
        ("a.html", lambda: b'<?xml version="1.0" encoding="windows-1251"?><html><p>Text.</p></html>'),
        ("a.txt", lambda: "Text.".encode("utf-16")),
    ],
)
def test_each_format_is_read_where_no_file_can_be_opened(name: str, make: Callable[[], bytes]) -> None:
    assert [each.text for each in read_document(make(), name).chapters[0].passages] == ["Text."]


def test_a_good_document_goes_through_the_process() -> None:
    assert read_document(bare_manuscript(), "notes.docx").title == "notes"
    bad = read_document(b"1\n00:00:04,000 --> 00:00:03,000\nText.\n", "a.srt")
    assert [each.split(" (")[0] for each in bad.warnings] == ["Cue 1"]
    document = read_document(epub(PAGE), "a.epub")
    assert document.chapters[0].passages[0].text == "Text."
    assert document.characters == 5 and not document.timed


def change_program(patched: pytest.MonkeyPatch, folder: Path, change: str) -> None:
    """Have processes read by a program with this change."""
    stub = folder / "stub.py"
    stub.write_text(f"from app.books.documents import formats, reader_process as program\n{change}\nprogram.main()\n")
    patched.setattr(reader_process, "__file__", str(stub))


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ("import os; formats.parse = lambda *_: os.abort()", 60.0),
        ("formats.parse = lambda *_: [bytearray(b'x') * (8 << 20) for _ in range(256)]", 60.0),
        ("formats.parse = lambda *_: open('/etc/hostname')", 60.0),
        ("program.CPU_SECONDS = 1\nwhile_ = lambda *_: [0 for _ in iter(int, 1)]\nformats.parse = while_", 60.0),
        ("import time; formats.parse = lambda *_: time.sleep(600)", 2.0),
    ],
    ids=["crash", "memory", "file", "endless", "asleep"],
)
def test_what_breaks_the_parser_ends_its_process_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str, seconds: float
) -> None:
    with monkeypatch.context() as patched:
        change_program(patched, tmp_path, change)
        patched.setattr(reader, "DEADLINE", seconds)
        with pytest.raises(DocumentError, match="cannot be read"):
            read_document(b"text", "a.txt")
    assert read_document(b"text", "a.txt").characters == 4


def test_a_reader_who_leaves_ends_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    change_program(monkeypatch, tmp_path, "import time; formats.parse = lambda *_: time.sleep(600)")
    process = reader.ReaderProcess()
    process.pipes()
    leave = threading.Timer(0.2, process.kill)
    leave.start()
    with pytest.raises(DocumentError, match="cannot be read"):
        read_document(b"text", "a.txt", process=process)
    assert process.ended
    leave.join()


def test_the_program_needs_no_folder_of_its_own(tmp_path: Path) -> None:
    """The server may run anywhere, with any environment."""
    code = "from app.books.documents.reader import read_document; print(read_document(b'text', 'a.txt').title)"
    root = str(Path(reader.__file__).parents[2])
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": root}, capture_output=True, text=True, check=True
    )
    assert found.stdout == "a\n"
