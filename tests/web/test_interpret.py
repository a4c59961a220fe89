"""The interpreter's page: a microphone that plays a file, and models that say what they are told to."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, WebSocket

from tests.web.pages import count_sounds, error_of, until


@pytest.fixture
def page(open_hearing: Callable[[str], Page]) -> Page:
    page = open_hearing("/interpret")
    until(page, "document.querySelectorAll('#translator option').length > 0")
    return page


def test_the_microphone_is_heard_written_and_spoken(page: Page) -> None:
    page.select_option("#target", "fr-fr")
    page.select_option("#source", "en-us")
    page.select_option("#translator", "shout")
    count_sounds(page)
    page.click("#start")
    until(page, "document.querySelectorAll('#said li').length > 1")
    until(page, "document.querySelector('#said .target').textContent")
    source, target = (page.text_content(f"#said li:first-child {each}") for each in (".source", ".target"))
    assert source and target == source.upper()
    assert page.get_attribute("#said .target", "lang") == "fr"
    until(page, "window.played > 0")
    until(page, "document.querySelector('#heard').textContent.includes('after you')")
    page.check("#muted")
    page.click("#stop")
    until(page, "!document.querySelector('#start').disabled")
    assert page.is_hidden("#error")
    assert page.text_content("#state") == ""


def test_the_voice_of_who_speaks(page: Page) -> None:
    sent: list[str] = []
    came: list[str] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: sent.append(str(frame)))
        socket.on("framereceived", lambda frame: came.append(str(frame)))

    page.on("websocket", listen)
    assert page.is_hidden("#clone")
    page.select_option("#source", "fr-fr")
    page.select_option("#target", "en-us")
    page.select_option("#translator", "shout")
    page.select_option("#speaker", "parrot")
    page.check("#clone")
    page.click("#start")
    until(page, lambda: any('"voice_cloned"' in frame for frame in came))  # once 5 seconds of speech were heard
    page.click("#stop")
    until(page, "!document.querySelector('#start').disabled")
    start = json.loads(sent[0])
    assert (start["model"], start["clone_voice"], start["consent"]) == ("parrot", True, True)
    page.select_option("#speaker", "tone")
    assert page.is_hidden("#clone")


def test_what_is_wrong_is_said(page: Page) -> None:
    page.select_option("#translator", "shout")
    page.evaluate("document.querySelector('#translator').append(new Option('nothing', 'nothing', true, true))")
    page.click("#start")
    assert "nothing" in error_of(page)
    until(page, "!document.querySelector('#start').disabled")
