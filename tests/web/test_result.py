"""A result: where it appears, how it is played, and what is remembered of it."""

from __future__ import annotations

import json
import re

import soundfile

from tests.web.pages import DONE, READY, SILENT, speak, until

LONG = "The weather is fine today, and the train leaves in the morning. " * 3


def test_a_phone_shows_the_result_under_the_button(open_page):
    page = open_page(width=360, height=740)
    assert page.is_visible("#invitation")
    assert page.is_hidden("#times")
    said = "The nightingale sings at night. Every word lights up when you hear it."
    speak(page, said, "document.querySelector('#words .lit')")
    # The page scrolls there.
    seen = "(({ top, bottom }) => top >= 0 && bottom <= 740)(document.querySelector(id).getBoundingClientRect())"
    until(page, f"['#speak', '#play', '#wave', '#words'].every((id) => {seen})")
    assert page.is_hidden("#invitation")
    for name in ("#speak", "#play", "#wave", "#words"):
        box = page.locator(name).bounding_box()
        assert box["y"] >= 0, name
        assert box["y"] + box["height"] <= 740, name
    below = page.locator("#play").bounding_box()["y"] - page.locator("#speak").bounding_box()["y"]
    assert 0 < below < 250


def test_it_pauses_and_goes_on(open_page):
    page = open_page()
    speak(page, LONG, "playground.position > 0.3")
    page.click("#play")
    until(page, "document.querySelector('#play').ariaLabel === 'Play'")
    # Twice the same: it stands still.
    until(page, "window.last === (window.last = playground.position)")
    before = page.evaluate("playground.position")
    page.wait_for_timeout(400)
    assert page.evaluate("playground.position") - before < 0.1
    page.click("#play")
    until(page, f"playground.position > {before} + 0.3")
    until(page, DONE)
    assert page.evaluate("playground.starved") < 60


def test_it_can_be_sought_with_a_finger_and_with_keys(open_page):
    page = open_page()
    speak(page, LONG)
    length = page.evaluate("playground.samples") / 24_000
    box = page.locator("#wave").bounding_box()
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    at = page.evaluate("playground.position")
    assert 0.7 * length < at < 0.75 * length + 5
    # The words follow; those before were heard.
    until(page, "document.querySelector('#words .lit')")
    assert page.locator("#words .heard").count() > 5
    page.focus("#seek")
    page.keyboard.press("Home")
    until(page, f"playground.position < {0.5 * length}")
    assert page.locator("#seek").get_attribute("aria-valuetext").endswith(page.inner_text("#length"))
    page.keyboard.press("Escape")
    until(page, SILENT)


def test_the_volume_is_heard(open_page):
    page = open_page()
    speak(page, LONG, "playground.heardNow() > 0.05")
    page.fill("#volume", "0")
    until(page, "playground.heardNow() === 0")
    assert page.evaluate("playground.position") > 0
    page.keyboard.press("Escape")


def test_earlier_results_can_be_heard_and_kept(open_page):
    page = open_page()
    sizes = []
    for text in (LONG, "Night."):
        speak(page, text)
        sizes.append(page.evaluate("playground.samples"))
    until(page, "document.querySelectorAll('#history-list li').length === 2")
    assert sizes[0] != sizes[1]
    page.locator("#history-list .entry", has_text="The weather").click()
    until(page, f"playground.samples === {sizes[0]}")
    until(page, "playground.heardNow() > 0.05")
    assert page.inner_text("#words").split() == LONG.split()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download “Night.”").click()
    assert soundfile.info(waiting.value.path()).frames == sizes[1]


def test_what_is_remembered_is_bounded(opened):
    page = opened()
    kept = page.evaluate(
        """async () => {
            const { remember } = await import("/web/history.js");
            const silence = (seconds) => [new Float32Array(24000 * seconds)];
            const entry = (text, seconds) => ({ text, about: "", rate: 24000, pieces: silence(seconds) });
            const count = () => document.querySelectorAll("#history-list li").length;
            for (let i = 0; i < 15; i++) remember(entry(`text ${i}`, 1));
            const many = count();
            remember(entry("long", 700));
            return [many, count()];
        }"""
    )
    assert kept == [10, 1]


def test_empty_text_is_not_sent(open_page):
    page = open_page()
    sockets = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    until(page, READY)
    page.fill("#text", "  \n")
    page.click("#speak")
    assert page.inner_text("#error") == "Write something to speak first."
    assert page.evaluate("document.activeElement.id") == "text"
    assert page.locator("#form").get_attribute("aria-busy") != "true"
    assert sockets == []


def test_a_model_that_loads_is_waited_for(opened):
    """The model in the box is loaded: the first two answers of the socket stand in."""
    page = opened()
    tries: list[int] = []
    message = "Model 'phrasebook' is being loaded (1 of 6 shapes warm); try again shortly."
    error = {"message": message, "type": "service_unavailable", "param": "model", "code": "model_loading"}

    def answer(socket) -> None:
        tries.append(1)
        if len(tries) > 2:
            socket.connect_to_server()
        else:
            reply = json.dumps({"type": "error", "error": error, "fatal": True})
            socket.on_message(lambda heard: socket.send(reply) if '"start"' in heard else None)

    page.route_web_socket("**/v1/audio/stream", answer)
    page.fill("#text", "Good night.")
    page.click("#speak")
    until(page, "document.querySelector('#progress').textContent.startsWith('Loading')")
    assert page.inner_text("#progress") == "Loading the translation model phrasebook: 1 of 6…"
    assert page.is_hidden("#error")
    until(page, DONE)
    assert len(tries) == 3
    # Whoever stops does not speak a second later.
    tries.clear()
    page.click("#speak")
    until(page, "document.querySelector('#progress').textContent.startsWith('Loading')")
    page.keyboard.press("Escape")
    tried = len(tries)
    page.wait_for_timeout(2_500)
    assert len(tries) == tried
    assert page.inner_text("#progress") == ""


def test_a_result_is_told_to_who_does_not_see_it(open_page):
    page = open_page()
    assert page.locator("#progress").get_attribute("role") == "status"
    speak(page, "Good night.")
    until(page, "document.querySelector('#progress').textContent.includes('first sound after')")
    assert re.fullmatch(r"[\d.]+ m?s of speech; first sound after [\d.]+ m?s\.", page.inner_text("#progress"))


def test_what_the_socket_says_of_loading_is_shown(opened):
    page = opened()
    loading = json.dumps({"type": "loading", "model": "house", "done": 3, "total": 6})
    page.route_web_socket(
        "**/v1/audio/stream", lambda socket: socket.on_message(lambda heard: socket.send(loading) if heard else None)
    )
    page.click("#speak")
    until(page, "document.querySelector('#progress').textContent === 'Loading the speech model house: 3 of 6…'")
    page.keyboard.press("Escape")
