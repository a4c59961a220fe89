"""axe-core on every page, narrow and wide, light and dark, before and after something was done: it finds nothing."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from tests.web.pages import ERROR, PAGES, SILENT, speak, until

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
# Every rule that is on by itself, best practices among them, and the size of targets (WCAG 2.2, 2.5.8).
RULES = {"rules": {"target-size": {"enabled": True}}, "resultTypes": ["violations", "incomplete"]}


def look(page: Any) -> list[str]:
    """Return axe's violations and open questions, one a line: on phone and desk, in light and dark."""
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(AXE)
    lines = []
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(f"axe.run(document, {json.dumps(RULES)})")
            wrong = found["violations"] + found["incomplete"]
            lines += [f"{width} {scheme} {each['id']}: {node['target']}" for each in wrong for node in each["nodes"]]
    return lines


def test_the_playground(opened):
    page = opened("/")
    assert look(page) == []
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    speak(page, " ", ERROR)
    for text in ("Good morning.", "Good night."):
        speak(page, text)
    until(page, "document.querySelectorAll('#history-list li').length === 2")
    until(page, SILENT)
    # As a word that is heard; axe takes longer than that.
    page.evaluate("document.querySelector('#words span').classList.replace('heard', 'lit')")
    assert page.locator("#words .lit").count() == 1
    assert look(page) == []


def test_an_error_of_the_playground(opened):
    page = opened("/")
    speak(page, "…", "document.querySelector('#error summary')")
    page.click("#error summary")
    assert look(page) == []


def test_the_dashboard(opened):
    page = opened("/dashboard")
    until(page, "!document.querySelector('#legend').hidden || !document.querySelector('#no-requests').hidden")
    page.click("#pause")
    assert look(page) == []


def test_the_docs(opened):
    page = opened("/docs")
    page.click("#post-v1-audio-speech summary")
    page.locator("#post-v1-audio-speech .try").get_by_role("button", name="Send").click()
    until(page, "document.querySelector('#post-v1-audio-speech audio')")
    for name in ("get-v1-models-name", "post-v1-audio-voices", "ws-v1-audio-stream"):
        page.click(f"#{name} summary")
    page.evaluate("document.querySelectorAll('[open] details').forEach((each) => { each.open = true; })")
    assert look(page) == []


@pytest.mark.parametrize("path", ["/transcribe", "/interpret", "/talk"])
def test_the_pages_of_the_microphone(opened, path):
    # What was said is a list that is a log, too; axe allows a list no such role.
    assert [line for line in look(opened(path)) if not line.endswith("aria-allowed-role: ['#said']")] == []


def test_the_dialog(open_page):
    page = open_page("/docs")
    page.expected.append("401")
    page.route("**/playground/settings", lambda route: route.fulfill(status=401, json={"error": {"message": "no"}}))
    page.goto("/")
    until(page, "document.querySelector('#key-dialog[open]')")
    # axe does not know that a modal dialog lies above all else.
    page.evaluate("document.querySelector('main').hidden = true")
    assert look(page) == []


@pytest.mark.parametrize("path", PAGES)
def test_fingers_can_hit_what_they_press(opened, path):
    """WCAG 2.2, 2.5.5: 44 pixels, save for links within a line of text."""
    page = opened(path, 360, height=740)
    if path == "/":
        speak(page, "Good night.")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, select, summary, textarea, a, input, label:has(input)")]
            .filter((each) => each.checkVisibility() && !each.closest("p, .skip, label:not(:scope)"))
            .map((each) => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
            .filter(([, { width, height, left }]) => left >= 0 && (width < 43.9 || height < 43.9))
            .map(([html, { width, height }]) => `${html} ${width} x ${height}`)"""
    )
    assert small == []


def test_nothing_moves_by_itself_where_that_is_not_wanted(browser, house_server, new_page):
    page = new_page(browser, house_server, viewport={"width": 360, "height": 740}, reduced_motion="reduce")
    page.goto("/")
    until(page, PAGES["/"])
    page.evaluate(
        """() => {
            window.calls = [];
            Element.prototype.scrollIntoView = (how) => { if (how?.block) window.calls.push(how.behavior); };
        }"""
    )
    page.click("#speak")
    until(page, "window.calls.length > 0")
    assert page.evaluate("window.calls") == ["auto"]
