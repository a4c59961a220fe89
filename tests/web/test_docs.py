"""The description of the API as a page: what is required comes first, formats are named, and requests can be tried."""

from __future__ import annotations

import httpx

from tests.web.pages import until


def test_what_is_required_comes_first(opened, house_server):
    schema = httpx.get(f"{house_server}/openapi.json").json()["components"]["schemas"]["SpeechBody"]
    names = list(schema["properties"])
    assert names.index("input") < names.index("response_format") < names.index("exaggeration")
    page = opened("/docs#post-v1-audio-speech")
    fields = page.locator("#post-v1-audio-speech .fieldlist").first
    assert fields.locator("dt").first.inner_text().startswith("input required")
    assert "one of wav, pcm, flac, mp3, opus, aac, mulaw, alaw, srt, vtt" in fields.inner_text()
    opened("/docs#%")  # an address that somebody cut short
    # Backticks are marks, not text.
    assert "`" not in page.inner_text("#paths")
    assert page.locator("#post-v1-audio-speech dd code", has_text="[pause:0.5s]").count() == 1


def test_speech_can_be_tried(opened):
    page = opened("/docs")
    page.click("#post-v1-audio-speech summary")
    until(page, "location.hash === '#post-v1-audio-speech'")
    form = page.locator("#post-v1-audio-speech .try")
    form.get_by_role("button", name="Send").click()
    until(page, "document.querySelector('#post-v1-audio-speech audio')?.duration > 1")
    assert "Status 200" in form.inner_text()
    form.locator("summary", has_text="Headers").click()
    assert "content-type: audio/mpeg" in form.inner_text()
    form.locator("textarea").fill('{"input": "Hello! How are you today?"}')  # the default: WAV
    form.get_by_role("button", name="Send").click()
    until(page, "document.querySelector('#post-v1-audio-speech .try').innerText.includes('Download (audio/wav')")
    until(page, "document.querySelector('#post-v1-audio-speech audio')?.duration > 1")
    # What the server refuses is shown as it answers; what is no JSON is not sent.
    page.expected.append("400")
    form.locator("textarea").fill('{"input": ""}')
    form.get_by_role("button", name="Send").click()
    until(page, "document.querySelector('#post-v1-audio-speech .try').innerText.includes('empty_input')")
    assert form.locator("audio").count() == 0
    form.locator("textarea").fill("{")
    form.get_by_role("button", name="Send").click()
    assert "not valid JSON" in form.get_by_role("alert").inner_text()


def test_every_operation_has_an_example_and_a_form(opened, house_server):
    page = opened("/docs")
    paths = httpx.get(f"{house_server}/openapi.json").json()["paths"]
    cards = page.locator(".operation:has(.method:not(.ws))")
    assert cards.count() == sum(len(methods) for methods in paths.values())
    assert page.locator(".operation:has(.example):has(.try):has(.method:not(.ws))").count() == cards.count()


def test_parameters_are_filled_in_and_sent(opened):
    page = opened("/docs#get-v1-audio-voices-voice-id")
    card = page.locator("#get-v1-audio-voices-voice-id")
    until(page, "document.querySelector('#get-v1-audio-voices-voice-id .try input').value !== ''")
    card.get_by_role("button", name="Send").click()
    until(page, "document.querySelector('#get-v1-audio-voices-voice-id .try pre[aria-label=\"Body of the answer\"]')")
    assert '"kind": "builtin"' in card.inner_text()


def test_sockets_can_be_tried(opened):
    page = opened("/docs")
    for name in ("ws-v1-audio-stream", "ws-v1-speak", "ws-v1-text-to-speech-voice-id-stream-input"):
        page.click(f"#{name} summary")
        page.locator(f"#{name}").get_by_role("button", name="Connect and send").click()
        until(page, f"document.querySelector('#{name} audio')?.duration > 1")
        assert page.locator(f"#{name} .try .alert").is_hidden()
    # The messages are those of the server's own types.
    text = page.inner_text("#ws-v1-audio-stream")
    for message in ("You send: start", "You send: cancel", "The server sends: ready", "The server sends: done"):
        assert message in text


def test_what_is_looked_for_is_found(opened):
    page = opened("/docs")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("frontend")
    until(page, "document.querySelector('#found').textContent !== ''")
    assert page.locator("#get-frontend-settings").is_visible()
    assert page.locator("#post-v1-audio-speech").is_hidden()
    page.fill("#filter", "zzzz")
    assert "Nothing found" in page.inner_text("#found")


def test_phonemes_can_be_tried(opened):
    page = opened("/docs#post-v1-phonemes")
    card = page.locator("#post-v1-phonemes")
    assert "Dr. Lee paid $5" in card.locator(".example").inner_text()
    card.get_by_role("button", name="Send").click()
    until(page, "document.querySelector('#post-v1-phonemes .try').innerText.includes('five dollars')")
    assert "Status 200" in card.inner_text()
    # The fields of an answer's parts are described, too.
    assert card.locator(".fieldlist .fieldlist dt").all_inner_texts()[0].startswith("text")
