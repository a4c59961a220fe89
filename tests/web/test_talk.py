"""The page of conversations: a microphone that plays a file, and models that say what they are told to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.web.pages import count_sounds, until


@pytest.fixture
def page(open_hearing: Callable[[str], Page]) -> Page:
    page = open_hearing("/talk")
    until(page, "document.querySelectorAll('#model option').length > 0")
    count_sounds(page)
    return page


def test_what_is_said_is_answered_aloud_and_a_voice_interrupts(page: Page) -> None:
    page.click("#start")
    until(page, "document.querySelector('#said .model .target')?.textContent")
    until(page, "window.played > 0")
    said, answer = (page.text_content(f"#said .{side} .target") for side in ("you", "model"))
    assert said.startswith("en second 0.")
    assert answer.split()[0] == "EN"
    until(page, "document.querySelector('#latency').textContent.includes('after you')")
    until(page, "document.querySelectorAll('#said .you').length > 1")  # the file begins again
    page.click("#stop")
    until(page, "!document.querySelector('#start').disabled")
    assert page.is_hidden("#error")
    assert page.text_content("#state") == ""


def test_a_text_is_answered_a_button_interrupts_and_a_tool_runs_in_the_page(page: Page) -> None:
    # A microphone that hears nothing.
    page.evaluate("() => { window.AudioWorkletNode = class { port = {}; }; AudioNode.prototype.connect = (to) => to; }")
    page.check("#tools")
    page.click("#start")
    until(page, "!document.querySelector('#text').disabled")
    page.fill("#text", "one two three. " * 30)
    page.click("#send")
    until(page, "window.played > 0")
    page.click("#interrupt")
    until(page, "document.querySelector('#interrupt').disabled")
    page.fill("#text", "call")
    page.click("#send")
    until(page, "document.querySelectorAll('#calls li').length > 0")
    assert page.text_content("#calls code") == 'clock({"city": "Zürich"})'
    until(page, "document.querySelectorAll('#said .model').length > 1")
    assert "THERE IS NO TOOL CLOCK." in page.text_content("#said li:last-child .target").upper()
    page.click("#stop")
    until(page, "!document.querySelector('#start').disabled")
    assert page.is_hidden("#error")
