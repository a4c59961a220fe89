"""Choices before something is spoken: texts, voices, languages and models."""

from __future__ import annotations

import re

from tests import clients
from tests.web.pages import DONE, DROP, READY, error_of, until

VOICES = [
    {"id": "ann", "name": "ann", "language": "en-gb", "gender": "female", "kind": "builtin"},
    {"id": "bob", "name": "bob", "language": "fr-fr", "gender": "male", "kind": "builtin"},
    {"id": "cy", "name": "cy", "language": None, "gender": None, "kind": "cloned"},
]


def listing(open_page, voices):
    """Open a playground that sees other voices than the server has."""
    page = open_page("/docs")
    page.route(re.compile(r"/v1/audio/voices\?"), lambda route: route.fulfill(json={"voices": voices}))
    page.goto("/")
    until(page, f"document.querySelectorAll('#voice input').length === {len(voices) + 1}")
    return page


def test_voices_say_who_speaks_and_in_which_language(open_page):
    page = listing(open_page, VOICES)
    cards = page.locator("#voice .card").all_inner_texts()
    assert [" ".join(card.split()) for card in cards] == [
        "Automatic The model’s choice",
        "ann Woman · British English",
        "bob Man · French",
        "cy Cloned",
    ]
    assert page.get_by_role("radio", name="ann Woman · British English").count() == 1
    # Only what the model speaks is offered without a word.
    offered = ["American English", "British English", "Spanish", "French", "Italian", "Brazilian Portuguese"]
    assert page.locator("#lang option").all_inner_texts() == ["Automatic", *offered]
    page.check("#voice input[value=bob]")
    assert '"voice": "bob"' in page.inner_text("#code")


def test_languages_that_a_voice_lists_are_those_that_are_offered(open_page):
    page = listing(open_page, [{**VOICES[0], "languages": ["en-gb", "es"]}, VOICES[1]])
    page.check("#voice input[value=ann]")
    assert page.locator("#lang option").all_inner_texts() == ["Automatic", "British English", "Spanish"]
    accent = page.locator("#translate optgroup[label='With a foreign accent'] option")
    assert "French" in accent.all_inner_texts()
    page.select_option("#translate", "fr-fr")
    page.get_by_role("tab", name="Python").click()
    assert '\n  "any_language": True' in page.inner_text("#code")


def test_many_voices_are_searched(open_page):
    page = listing(open_page, [{**VOICES[i % 2], "id": f"v{i}", "name": f"voice {i}"} for i in range(20)])
    page.fill("#voice-filter", "french")
    assert page.locator("#voice .card:visible").count() == 10
    page.fill("#voice-filter", "man")
    assert set(page.locator("#voice .card:visible .quiet").all_inner_texts()) == {"Man · French"}
    page.fill("#voice-filter", "klingon")
    assert page.locator("#voice .card:visible").count() == 0
    assert page.is_visible("#voice-none")
    page.keyboard.press("Enter")
    assert page.locator("#form").get_attribute("aria-busy") != "true"


def test_a_sample_is_heard_and_asked_for_once(opened):
    page = opened()
    page.evaluate(
        """() => {
            const play = HTMLMediaElement.prototype.play;
            window.played = [];
            HTMLMediaElement.prototype.play = function () {
                window.played.push(this);
                // Slowly: it must not end before somebody looks.
                this.playbackRate = 0.1;
                return play.call(this);
            };
        }"""
    )
    asked = []
    page.on("request", lambda request: asked.append(request.post_data) if "/audio/speech" in request.url else None)
    page.get_by_role("button", name="Hear af_heart").click()
    until(page, "window.played[0]?.currentTime > 0.2")
    assert page.evaluate("window.played[0].duration") > 1
    page.get_by_role("button", name="Stop af_heart").click()
    assert page.evaluate("window.played[0].paused")
    page.get_by_role("button", name="Hear af_heart").click()
    until(page, "window.played.length === 2")
    assert len(asked) == 1
    assert '"voice":"af_heart"' in asked[0]
    # It has an end.
    page.evaluate("window.played[0].playbackRate = 4")
    until(page, "window.played[0].ended")
    assert page.get_by_role("button", name="Hear af_heart").count() == 1


def test_a_sample_that_fails_says_so(opened):
    page = opened()
    page.expected.append("429")
    refusal = {"error": {"message": "Busy.", "code": "saturated", "request_id": "abc"}}
    page.route("**/v1/audio/speech", lambda route: route.fulfill(status=429, json=refusal))
    page.get_by_role("button", name="Hear af_heart").click()
    assert "server is busy" in error_of(page)
    assert page.get_by_role("button", name="Hear af_heart").count() == 1
    page.unroute("**/v1/audio/speech")
    page.get_by_role("button", name="Hear af_heart").click()
    until(page, "document.querySelector('#error').hidden")


def test_absent_models_say_how_to_install_them(opened, house_server):
    page = opened(width=360)
    listed = page.locator("#absent li", has_text="kokoro-82m")
    assert "nightingale models pull kokoro-82m" in listed.inner_text()
    assert listed.get_by_role("button", name="Copy the command for kokoro-82m").count() == 1
    # One without a command says what to do instead.
    assert "No checksums are pinned" in page.locator("#absent li", has_text="nllb-200-1.3b").inner_text()
    # Every one says whether a business may use it.
    uses = {"small-100": "MIT; commercial use is allowed", "nllb-200-1.3b": "CC-BY-NC-4.0; no commercial use"}
    for name, use in uses.items():
        assert use in page.locator("#absent li", has_text=name).first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_examples_are_spoken(opened):
    page = opened()
    names = page.locator("#examples button").all_inner_texts()
    assert {"Greeting", "Numbers", "Question", "Dialogue"} <= set(names)
    page.get_by_role("button", name="Greeting").click()
    assert page.input_value("#text").startswith("Good morning!")
    assert "Good morning!" in page.inner_text("#code")
    page.click("#speak")
    until(page, DONE)


def test_the_dialogue_among_the_examples_has_two_speakers(opened, house_server):
    page = opened()
    page.get_by_role("button", name="Dialogue").click()
    text = page.input_value("#text")
    page.click("#speak")
    until(page, DONE)
    told = clients.speak(house_server, text)
    assert "x-ignored" not in told.headers  # every mark names a voice
    assert told.content != clients.speak(house_server, text.replace("nova", "echo")).content


def test_text_files_are_read(opened, tmp_path):
    page = opened()
    page.evaluate(DROP, ["notes.md", "", "# Über uns"])
    until(page, "document.querySelector('#text').value === '# Über uns'")
    path = tmp_path / "story.txt"
    path.write_text("Once upon a time.", encoding="utf-8")
    page.set_input_files("#text-file", path)
    until(page, "document.querySelector('#text').value === 'Once upon a time.'")
    # What is no text is left alone; what is too long is refused.
    page.evaluate(DROP, ["picture.png", "image/png", "PNG"])
    page.evaluate(DROP, ["long.txt", "text/plain", "a" * 20_001])
    assert "long.txt is too long" in error_of(page)
    assert page.input_value("#text") == "Once upon a time."


def test_voices_are_waited_for_while_their_model_loads(open_page):
    tries = []
    message = "Model 'house' is being loaded (2 of 6 shapes warm); try again shortly."

    def answer(route):
        tries.append(1)
        if len(tries) > 1:
            route.continue_()
        else:
            route.fulfill(status=503, json={"error": {"message": message, "code": "model_loading"}})

    page = open_page("/docs")
    page.expected.append("503")
    page.route(re.compile(r"/v1/audio/voices\?"), answer)
    page.goto("/")
    until(page, "document.querySelector('#progress').textContent === 'Loading the speech model house: 2 of 6…'")
    assert page.is_hidden("#error")
    until(page, READY)
    assert page.inner_text("#progress") == ""
