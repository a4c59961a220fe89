"""Debian's Chromium, driven by Playwright against the real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from playwright.sync_api import Browser, Page, sync_playwright

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
WAIT_SECONDS = 60
ROOT = Path(__file__).parents[2]

OpenPage = Callable[..., Page]


# Of a module, not of the run: Playwright keeps an event loop in this thread, in which other tests run theirs.
@pytest.fixture(scope="module")
def browser(program: Callable[[str], str]) -> Iterator[Browser]:
    """One browser for a file of tests."""
    path = program("chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=180_000)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Browser, house_server: str) -> Iterator[OpenPage]:
    """`open_page(path, width, scheme, server=url)`: a page of the server. In the end, its console must have
    nothing to say but `page.expected`, and nothing may have been asked of another server."""
    pages: list[tuple[Page, list[str], list[str]]] = []

    def begin(path: str = "/", width: int = 1280, scheme: str = "light", height: int = 900, server: str = "") -> Page:
        url = server or house_server
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, base_url=url)
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
        page.goto(path)
        return page

    yield begin
    for page, said, elsewhere in pages:
        unexpected = [line for line in said if not any(part in line for part in page.expected)]
        page.context.close()
        assert unexpected == []
        assert elsewhere == []


@pytest.fixture(scope="module")
def hearing_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a server process whose models say what they are told to."""
    log = tmp_path_factory.mktemp("server") / "log"
    environment = os.environ | {"NIGHTINGALE_RECOGNITION_MODEL": "ear", "PORT": "0", "PYTHONPATH": str(ROOT)}
    with log.open("w") as output:
        popen = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "app" / "conftest.py")], stderr=output, stdout=output, env=environment
        )
    try:
        end = time.monotonic() + WAIT_SECONDS
        while (found := re.search(r"ready: open (http://[\d.:]+)/", log.read_text())) is None:
            assert popen.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        yield found.group(1)
    finally:
        popen.kill()
        popen.wait()


@pytest.fixture(scope="module")
def listening_browser(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser whose microphone plays two sentences and a pause, again and again."""
    file = tmp_path_factory.mktemp("microphone") / "spoken.wav"
    pcm, rate = soundfile.read(ROOT / "tests" / "golden" / "spoken.ogg", dtype="float32")
    soundfile.write(file, np.concatenate([soxr.resample(pcm, rate, 48_000), np.zeros(96_000, np.float32)]), 48_000)
    flags = (*FLAGS, *MICROPHONE, f"--use-file-for-fake-audio-capture={file}")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program("chromium"), args=flags)
        yield running
        running.close()


@pytest.fixture
def open_hearing(listening_browser: Browser, hearing_url: str) -> Iterator[Callable[[str], Page]]:
    """`open_hearing(path)`: a page that has the microphone. Its console must have nothing to say."""
    pages: list[tuple[Page, list[str]]] = []

    def begin(path: str) -> Page:
        context = listening_browser.new_context(base_url=hearing_url, permissions=["microphone"])
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.expected = []
        pages.append((page, said))
        page.goto(path)
        return page

    yield begin
    for page, said in pages:
        page.context.close()
        assert [line for line in said if not any(part in line for part in page.expected)] == []


@pytest.fixture
def until() -> Callable[..., None]:
    """`until(page, expression)`: wait for it. Playwright's own waiting evaluates text in the page, which its policy
    forbids."""

    def wait(page: Page, expression: str, seconds: float = WAIT_SECONDS) -> Any:
        for _ in range(int(seconds / 0.02)):
            if found := page.evaluate(expression):
                return found
            page.wait_for_timeout(20)
        shown = page.evaluate("document.querySelector('#error')?.textContent")
        pytest.fail(f"never true: {expression} (the page's error: {shown!r})")

    return wait
