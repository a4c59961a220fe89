"""The page of transcription: a microphone that plays a file, recordings, and a model that says what it is told to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route

from tests.clients import SPOKEN
from tests.web.pages import ERROR, error_of, until

TEXT = " ".join(f"en second {number}." for number in range(6))


@pytest.fixture
def page(open_hearing: Callable[[str], Page]) -> Page:
    page = open_hearing("/transcribe")
    until(page, "document.querySelectorAll('#recognizer option').length > 0")
    return page


def test_the_page_says_what_a_model_is_for(page: Page) -> None:
    assert page.input_value("#recognizer") == "ear"
    models = page.request.get("/v1/models").json()["data"]
    words = next(each["description"] for each in models if each["id"] == "ear")
    assert page.text_content("#recognizer-about") == words != ""
    assert page.get_attribute("#recognizer", "aria-describedby") == "recognizer-about"

    def add_another(route: Route) -> None:
        found = route.fetch().json()
        ear = next(each for each in found["data"] if each["id"] == "ear")
        found["data"].append(ear | {"id": "other", "default": False, "description": "<b>people</b>"})
        route.fulfill(json=found)

    page.route("**/v1/models", add_another)
    page.reload()
    until(page, "document.querySelectorAll('#recognizer option').length > 1")
    page.select_option("#recognizer", "other")
    assert page.text_content("#recognizer-about") == "<b>people</b>"
    page.select_option("#recognizer", "ear")
    assert page.text_content("#recognizer-about") == words
    page.evaluate("document.querySelector('#hearing').textContent = 'a'.repeat(9999)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_microphone_is_written_down(page: Page) -> None:
    page.select_option("#language", "en")
    page.click("#start")
    until(page, "document.querySelector('#hearing').textContent.startsWith('en second 0.')")
    until(page, "document.querySelectorAll('#said li').length > 0")
    assert page.text_content("#said .target").startswith("en second 0.")
    page.click("#stop")
    until(page, "!document.querySelector('#start').disabled")
    assert page.is_hidden("#error")
    assert (page.text_content("#state"), page.text_content("#hearing")) == ("", "")


def test_a_recording_is_written_down(page: Page) -> None:
    page.set_input_files("#file", SPOKEN)
    until(page, "!document.querySelector('#save').disabled")
    assert " ".join(page.locator("#said .target").all_text_contents()) == TEXT
    with page.expect_download() as download:
        page.click("#save")
    content = Path(download.value.path()).read_text(encoding="utf-8")
    assert download.value.suggested_filename == "transcript.srt"
    assert content.startswith("1\n00:00:00,000 --> 00:00:0")
    # Another recording begins anew.
    page.set_input_files("#file", {"name": "noise.wav", "mimeType": "audio/wav", "buffer": b"no audio"})
    page.expected.append("400")
    until(page, ERROR)
    assert page.locator("#said li").count() == 0
    assert page.is_disabled("#save")
    until(page, "!document.querySelector('#start').disabled")


def test_a_refused_socket_says_why(page: Page) -> None:
    page.expected += ["WebSocket connection", "404", "Failed to load"]
    page.evaluate("document.querySelector('#recognizer').append(new Option('nothing', 'nothing', true, true))")
    page.click("#start")
    assert "nothing" in error_of(page)
    until(page, "!document.querySelector('#start').disabled")
