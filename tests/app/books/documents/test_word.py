"""DOCX documents, written by python-docx."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from app.books.documents.formats import parse
from app.books.documents.types import DocumentError
from tests.app.books.documents.books import outline


def saved(document: Any) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def manuscript() -> Any:
    document = docx.Document()
    document.core_properties.author = "Ada"
    document.core_properties.title = ""
    document.core_properties.language = "en"
    document.add_heading("The Sea", 0)
    document.add_heading("One", 1)
    document.add_paragraph("First ").add_run("bold").bold = True
    document.add_heading("Below", 2)
    document.add_paragraph("Item", "List Bullet")
    document.add_heading("Two", 1)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "b"
    return document


def test_headings_are_chapters() -> None:
    document = parse(saved(manuscript()), "a.docx")
    assert (document.title, document.author, document.language) == ("The Sea", "Ada", "en")
    assert outline(document) == [("One", ["First bold", "Below", "Item"]), ("Two", ["a, b"])]


def test_inserted_text_is_read_and_deleted_text_is_not() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("Kept ")._p
    words = nsdecls("w")
    paragraph.append(parse_xml(f"<w:ins {words}><w:r><w:t>new</w:t></w:r></w:ins>"))
    paragraph.append(parse_xml(f"<w:del {words}><w:r><w:delText>old</w:delText></w:r></w:del>"))
    content = f"<w:sdt {words}><w:sdtContent><w:p><w:r><w:t>In a control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    document.element.body.insert(1, parse_xml(content))
    assert outline(parse(saved(document), "a.docx")) == [("", ["Kept new", "In a control"])]


def test_hidden_text_is_silent_and_raised_digits_are_exponents_or_notes() -> None:
    document = docx.Document()
    ghost = document.styles.add_style("Ghost", WD_STYLE_TYPE.CHARACTER)
    ghost.font.hidden = True
    child = document.styles.add_style("Child", WD_STYLE_TYPE.CHARACTER)
    child.base_style = ghost
    raised = document.styles.add_style("Raised", WD_STYLE_TYPE.CHARACTER)
    raised.font.superscript = True
    paragraph = document.add_paragraph("x")
    paragraph.add_run("2", raised)
    paragraph.add_run("secret").font.hidden = True
    paragraph.add_run("secret", child)
    paragraph.add_run(" is open", child).font.hidden = False
    paragraph.add_run(". So it ended.")
    paragraph.add_run("12", raised)
    hidden = document.styles.add_style("Hidden", WD_STYLE_TYPE.PARAGRAPH)
    hidden.font.hidden = True
    document.add_paragraph("secret", hidden)
    box = f"<w:r {nsdecls('w')}><w:txbxContent><w:p><w:r><w:t>Box.</w:t></w:r></w:p></w:txbxContent></w:r>"
    document.add_paragraph()._p.append(parse_xml(box))
    document.paragraphs[-1].add_run("Beside it.")
    assert outline(parse(saved(document), "a.docx")) == [("", ["x² is open. So it ended.", "Beside it.", "Box."])]


def test_an_initial_belongs_to_its_word_and_a_text_box_is_read_once() -> None:
    document = docx.Document()
    initial = document.add_paragraph("O")._p
    initial.get_or_add_pPr().append(parse_xml(f"<w:framePr {nsdecls('w')} w:dropCap='drop' w:lines='3'/>"))
    paragraph = document.add_paragraph("nce upon ")
    spaces = f"{nsdecls('w')} xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006'"
    box = "<w:txbxContent><w:p><w:r><w:t>Box.</w:t></w:r></w:p></w:txbxContent>"
    content = f"<mc:Choice>{box}</mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback>"
    paragraph._p.append(parse_xml(f"<w:r {spaces}><mc:AlternateContent>{content}</mc:AlternateContent></w:r>"))
    paragraph.add_run("a time.")
    old = f"<w:r {spaces}><w:pict>{box.replace('Box', 'Old')}</w:pict></w:r>"
    document.add_paragraph("It rose. ")._p.append(parse_xml(old))
    document.add_table(1, 1).cell(0, 0).paragraphs[0]._p.append(parse_xml(old))
    spoken = ["Once upon a time.", "Box.", "It rose.", "Old.", "Old."]
    assert outline(parse(saved(document), "a.docx")) == [("", spoken)]


def test_a_table_of_contents_is_not_read() -> None:
    document = manuscript()
    style = document.styles.add_style("toc 1", 1)
    document.paragraphs[0].insert_paragraph_before("One ..... 5", style)
    assert "5" not in str(outline(parse(saved(document), "a.docx")))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"word/document.xml": b"<w:document"}, "cannot be read"),
        ({"word/document.xml": b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}, "declares entities"),
        ({"word/document.xml": None}, "lacks word/document.xml"),
        ({"_rels/.rels": None}, "cannot be read"),
    ],
)
def test_damaged_files_are_refused(change: dict[str, bytes | None], reason: str) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(manuscript()))) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            data = change.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    with pytest.raises(DocumentError, match=reason):
        parse(file.getvalue(), "a.docx")


def test_a_document_without_text() -> None:
    with pytest.raises(DocumentError, match="no text"):
        parse(saved(docx.Document()), "a.docx")
