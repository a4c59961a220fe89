"""Debian's Chromium, driven by Playwright against the real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
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
WAIT_SECONDS = 60

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
