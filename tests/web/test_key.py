"""The pages of a server that wants API keys: they ask for one, keep it, send it, and show it to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import clients
from tests.processes import serve
from tests.web.pages import DONE, PAGES, READY, error_of, run_offered_code, speak, until

# With what a subprotocol may not hold.
KEY = "ada/0123456789+0123=:@"
OTHER = "bob-0123456789-0123456789"
ASKS = "document.querySelector('#key-dialog[open]')"
ANSWERED = "!document.querySelector('#key-dialog')"


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    path.write_text(f'ada = "{KEY}"')
    return path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, keys_file: Path) -> Iterator[str]:
    """Base URL of a server of its own that wants a key."""
    settings = {"NIGHTINGALE_KEYS_FILE": str(keys_file), "NIGHTINGALE_LOG_LEVEL": "debug"}
    with serve(tmp_path_factory.mktemp("guarded"), **settings) as process:
        yield process.url
        # What it was asked, and by whom, but not the key.
        log = process.log.read_text()
        assert " path=/" in log
        assert KEY not in log
        assert "base64url" not in log


@pytest.fixture
def open_guarded(open_page, guarded):
    """`open_page` for the server that wants a key; what browsers say of refusals is expected."""

    def begin(path: str = "/", **more):
        page = open_page(path, server=guarded, **more)
        page.expected += ["401", "WebSocket connection to"]
        return page

    return begin


def give(page, key: str = KEY, *, remember: bool = False) -> None:
    until(page, ASKS)
    page.fill("#key-field", key)
    page.set_checked("#key-remember", remember)
    page.keyboard.press("Enter")


@pytest.fixture
def open_known(open_guarded):
    """`open_known()`: the playground, which was given the key."""

    def begin():
        page = open_guarded()
        give(page)
        until(page, READY)
        return page

    return begin


def shows_metrics(page, address: str) -> None:
    # A page that is about to be left is not asked: Playwright may wait for an answer for ever.
    until(page, lambda: page.url.startswith(address))
    until(page, "document.body?.innerText.includes('nightingale_ready 1.0')")


def stored(page) -> list[str | None]:
    return page.evaluate("[sessionStorage, localStorage].map((each) => each.getItem('nightingale-key'))")


def test_without_keys_nobody_is_asked(opened):
    page = opened()
    assert page.locator("#key-dialog").count() == 0
    assert page.is_hidden("#key")
    assert "Authorization" not in page.inner_text("#code")


def test_the_playground_asks_and_speaks(open_known, guarded):
    page = open_known()
    assert page.locator("#key-dialog").count() == 0
    assert page.is_hidden("#error")
    assert stored(page) == [KEY, None]
    speak(page, "Good night.")
    whole = clients.speak(guarded, "Good night.", key=KEY, response_format="pcm")
    assert page.evaluate("playground.samples") == len(whole.content) // 2
    # The key is in no text, no attribute and no address.
    assert KEY not in page.content()
    assert page.evaluate("performance.getEntries().filter(({ name }) => name.includes('ada')).length") == 0


def test_the_dialog_is_one_for_keyboards_and_readers(open_guarded):
    page = open_guarded()
    until(page, ASKS)
    dialog = page.get_by_role("dialog", name="API key")
    assert dialog.is_visible()
    assert page.evaluate("document.activeElement.id") == "key-field"
    assert page.get_by_label("Key", exact=True).get_attribute("type") == "password"
    # Nothing but the dialog is reached.
    for _ in range(6):
        page.keyboard.press("Tab")
        inside = "document.activeElement === document.body || document.activeElement.closest('#key-dialog') !== null"
        assert page.evaluate(inside)
    # An empty key, and one that no header may hold, are not sent.
    page.focus("#key-field")
    page.keyboard.press("Enter")
    assert page.evaluate(ASKS + " !== null")
    page.fill("#key-field", "ключ")
    page.keyboard.press("Enter")
    assert page.evaluate(ASKS + " !== null")
    assert stored(page) == [None, None]
    page.keyboard.press("Escape")
    until(page, ANSWERED)
    # Declined: the page says what is missing, does not ask by itself again, and can be told.
    assert "API key" in error_of(page)
    page.get_by_role("button", name="API key").click()
    give(page)
    until(page, READY)
    assert page.is_hidden("#error")


def test_a_wrong_key_is_said_to_be_one(open_guarded):
    page = open_guarded()
    give(page, "wrong-0123456789")
    until(page, f"{ASKS}?.textContent.includes('does not know this key')")
    assert page.is_visible("#key-error")
    give(page)
    until(page, READY)
    assert stored(page) == [KEY, None]


@pytest.mark.parametrize("remember", [False, True])
def test_it_is_kept_as_long_as_was_said(open_guarded, guarded, remember):
    page = open_guarded()
    give(page, remember=remember)
    until(page, READY)
    assert stored(page) == ([None, KEY] if remember else [KEY, None])
    page.reload()
    until(page, READY)
    assert page.locator("#key-dialog").count() == 0
    # Another tab of the same browser.
    other = page.context.new_page()
    other.goto(guarded)
    until(other, READY if remember else ASKS)
    other.close()
    # And it can be forgotten.
    page.get_by_role("button", name="API key").click()
    page.get_by_role("button", name="Forget the key").click()
    assert stored(page) == [None, None]
    page.reload()
    until(page, ASKS)


def test_a_browser_that_stores_nothing_asks_once_a_page(open_guarded):
    page = open_guarded("/docs")
    page.add_init_script(
        """for (const kind of ["sessionStorage", "localStorage"])
            Object.defineProperty(window, kind, { get() { throw new DOMException("no", "SecurityError"); } });"""
    )
    page.goto("/")
    give(page)
    until(page, READY)
    speak(page, "Good night.")


def test_a_key_that_is_taken_away_is_asked_for_when_it_is_missed(open_known, guarded, keys_file):
    page = open_known()
    accepted = lambda key: httpx.get(f"{guarded}/v1/models", headers={"xi-api-key": key}).status_code == 200  # noqa: E731
    try:
        keys_file.write_text(f'bob = "{OTHER}"')
        until(page, lambda: accepted(OTHER))
        page.fill("#text", "Good night.")
        page.keyboard.press("Control+Enter")
        # The handshake is refused without a reason that pages are told.
        until(page, f"{ASKS}?.textContent.includes('does not know this key')")
        give(page, OTHER)
        # What was asked for is spoken.
        until(page, DONE)
        assert page.is_hidden("#error")
    finally:
        keys_file.write_text(f'ada = "{KEY}"')
        until(page, lambda: accepted(KEY))


def test_the_dashboard_asks_and_shows(open_guarded, guarded):
    page = open_guarded("/dashboard")
    until(page, ASKS)
    page.get_by_role("button", name="Cancel").click()
    assert "wants an API key" in error_of(page)
    # It reads every second, and does not ask every second.
    page.wait_for_timeout(2_500)
    assert page.locator("#key-dialog").count() == 0
    page.get_by_role("button", name="API key").click()
    give(page)
    until(page, PAGES["/dashboard"])
    until(page, "document.querySelector('#error').hidden")
    clients.speak(guarded, key=KEY, id_="seen-with-a-key").raise_for_status()
    until(page, "document.body.textContent.includes('seen-with-a-key')")


def test_the_dashboard_s_link_to_the_metrics_is_followed_with_the_key(open_guarded, guarded):
    page = open_guarded("/dashboard")
    until(page, ASKS)
    page.get_by_role("button", name="Cancel").click()
    # Whoever declined is asked again when they want it.
    page.get_by_role("link", name="/metrics").click()
    give(page)
    shows_metrics(page, "blob:")
    assert KEY not in page.url
    page.go_back()
    until(page, PAGES["/dashboard"])
    page.get_by_role("link", name="/metrics").click()
    shows_metrics(page, "blob:")


def test_without_keys_the_link_is_one(opened, server):
    page = opened("/dashboard")
    page.get_by_role("link", name="/metrics").click()
    page.expected.append("404")  # of a text: it names no icon
    shows_metrics(page, f"{server}/metrics")


def test_the_description_of_the_api_is_open_and_its_requests_are_tried_with_the_key(open_guarded):
    page = open_guarded("/docs")
    until(page, PAGES["/docs"])
    assert page.locator("#key-dialog").count() == 0
    page.click("#post-v1-audio-speech summary")
    page.locator("#post-v1-audio-speech").get_by_role("button", name="Send").click()
    give(page)
    until(page, "document.querySelector('#post-v1-audio-speech audio')?.duration > 1")
    page.click("#ws-v1-audio-stream summary")
    page.locator("#ws-v1-audio-stream").get_by_role("button", name="Connect and send").click()
    until(page, "document.querySelector('#ws-v1-audio-stream audio')?.duration > 1")
    assert KEY not in page.content()


def test_the_code_has_a_place_for_the_key_and_runs(open_known, program, tmp_path):
    page = open_known()
    page.fill("#text", "Good night.")
    codes = run_offered_code(page, tmp_path, program, API_KEY=KEY).values()
    assert all("API_KEY" in code and KEY not in code for code in codes)
