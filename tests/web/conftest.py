"""Debian's Chromium, driven by Playwright against the real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.clients import SPOKEN
from tests.web.pages import PAGES, WAIT_SECONDS, until

# The last eight keep it from looking for its maker's servers; none of these tests needs a network.
FLAGS = (
    "--no-sandbox",
    # A container may have little shared memory.
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
)
# A microphone that plays a file, and nobody who has to allow it.
MICROPHONE = (
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)

OpenPage = Callable[..., Page]


# Of this folder, not of the run: Playwright keeps an event loop in this thread, in which other tests run theirs.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """The driver of the browsers."""
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright, program: Callable[[str], str]) -> Iterator[Browser]:
    """One browser for the tests of this folder."""
    running = playwright.chromium.launch(executable_path=program("chromium"), args=FLAGS, timeout=180_000)
    yield running
    running.close()


@pytest.fixture(scope="package")
def listening_browser(
    playwright: Playwright, program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """A browser whose microphone plays two sentences and a pause, again and again."""
    file = tmp_path_factory.mktemp("microphone") / "spoken.wav"
    pcm, rate = soundfile.read(SPOKEN, dtype="float32")
    soundfile.write(file, np.pad(soxr.resample(pcm, rate, 48_000), (0, 96_000)), 48_000)
    flags = (*FLAGS, *MICROPHONE, f"--use-file-for-fake-audio-capture={file}")
    running = playwright.chromium.launch(executable_path=program("chromium"), args=flags, timeout=180_000)
    yield running
    running.close()


@pytest.fixture
def new_page() -> Iterator[Callable[..., Page]]:
    """`new_page(browser, url, **options)`: an empty page of a server. In the end, its console must have nothing to say
    but `page.expected`, and nothing may have been asked of another server."""
    pages: list[tuple[Page, list[str], list[str]]] = []

    def begin(browser: Browser, url: str, **options: Any) -> Page:
        context = browser.new_context(base_url=url, **options)
        context.set_default_timeout(WAIT_SECONDS * 1000)
        page = context.new_page()
        said: list[str] = []
        elsewhere: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith((url, "blob:", "data:")) else elsewhere.append(request.url),
        )
        pages.append((page, said, elsewhere))
        page.expected = []
        return page

    yield begin
    for page, said, elsewhere in pages:
        unexpected = [line for line in said if not any(part in line for part in page.expected)]
        page.context.close()
        assert unexpected == []
        assert elsewhere == []


@pytest.fixture
def open_page(browser: Browser, house_server: str, new_page: Callable[..., Page]) -> OpenPage:
    """`open_page(path, width, scheme, server=url)`: a page of the server."""

    def begin(path: str = "/", width: int = 1280, scheme: str = "light", height: int = 900, server: str = "") -> Page:
        viewport = {"width": width, "height": height}
        page = new_page(browser, server or house_server, viewport=viewport, color_scheme=scheme)
        page.goto(path)
        return page

    return begin


@pytest.fixture
def opened(open_page: OpenPage) -> OpenPage:
    """`opened(path, ...)`: such a page that is ready."""

    def begin(path: str = "/", *arguments: Any, **options: Any) -> Page:
        page = open_page(path, *arguments, **options)
        until(page, PAGES[path.partition("#")[0]])
        return page

    return begin


@pytest.fixture
def open_hearing(listening_browser: Browser, listening: str, new_page: Callable[..., Page]) -> Callable[[str], Page]:
    """`open_hearing(path)`: a page that has the microphone, of the server whose models say what they are told to."""

    def begin(path: str) -> Page:
        page = new_page(listening_browser, listening, permissions=["microphone"])
        page.goto(path)
        return page

    return begin
