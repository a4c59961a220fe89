"""A document to an audiobook on the playground."""

from __future__ import annotations

import av

from tests.web.pages import until


def test_a_document_becomes_an_audiobook(open_page, tmp_path):
    page = open_page()
    until(page, "!document.querySelector('#book').hidden")
    (tmp_path / "day.md").write_text("# Morning\n\nGood morning.\n\n# Evening\n\nGood evening.\n")
    page.set_input_files("#document", str(tmp_path / "day.md"))
    page.click("#book button[type=submit]")
    until(page, "document.querySelector('#book-files a') !== null")
    assert page.inner_text("#book-state").startswith("completed: 4 of 4 passages")
    assert page.is_hidden("#book-progress") and page.is_hidden("#book-cancel")
    with page.expect_download() as started:
        page.click("#book-files a")
    started.value.save_as(tmp_path / "day.m4b")
    with av.open(str(tmp_path / "day.m4b")) as book:
        assert [chapter["metadata"]["title"] for chapter in book.chapters()] == ["Morning", "Evening"]


def test_a_document_that_cannot_be_read_says_why(open_page, tmp_path):
    page = open_page()
    page.expected.append("400")
    until(page, "!document.querySelector('#book').hidden")
    (tmp_path / "day.pdf").write_text("text")
    page.set_input_files("#document", str(tmp_path / "day.pdf"))
    page.click("#book button[type=submit]")
    until(page, "!document.querySelector('#book-error').hidden")
    assert "accepted are .txt" in page.inner_text("#book-error")
    assert page.is_enabled("#book button[type=submit]")
