"""What tests do with a page, and expressions that say in it what it has come to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

READY = "document.querySelectorAll('#voice input').length > 2"
DONE = "!document.querySelector('#download').disabled"
SILENT = "document.querySelector('#stop').disabled"
ERROR = "!document.querySelector('#error').hidden"
# Each page, and when it is ready.
PAGES = {
    "/": READY,
    "/transcribe": "document.querySelectorAll('#recognizer option').length > 0",
    "/interpret": "document.querySelectorAll('#target option').length > 4",
    "/talk": "document.querySelectorAll('#voice option').length > 2",
    "/dashboard": "document.querySelectorAll('#figures div').length > 4",
    "/docs": "document.querySelectorAll('.operation').length > 8",
}
WAIT_SECONDS = 60
# With name, type and text of a file.
DROP = """([name, type, text]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name, { type }));
    document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: transfer }));
}"""


def until(page: Page, expression: str | Callable[[], Any]) -> Any:
    """Wait for an expression in the page or, of a function, here. Playwright's own waiting evaluates text in the page,
    which its policy forbids."""
    for _ in range(int(WAIT_SECONDS / 0.02)):
        if found := expression() if callable(expression) else page.evaluate(expression):
            return found
        page.wait_for_timeout(20)
    shown = None if callable(expression) else page.evaluate("document.querySelector('#error')?.textContent")
    pytest.fail(f"never true: {expression} (the page's error: {shown!r})")


def count_sounds(page: Page) -> None:
    """Have the page count in `window.played` the pieces of sound that it plays."""
    page.evaluate(
        """() => {
            const { prototype } = AudioBufferSourceNode;
            const start = prototype.start;
            prototype.start = function (...when) {
                window.played = (window.played ?? 0) + 1;
                return start.apply(this, when);
            };
        }"""
    )


def error_of(page: Page) -> str:
    """Return what the page's error says, once there is one."""
    until(page, ERROR)
    return page.inner_text("#error")


def speak(page: Page, text: str, reached: str = DONE) -> None:
    """Have the playground speak a text, and wait until that is reached."""
    until(page, READY)
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    until(page, reached)


def run_offered_code(page: Page, folder: Path, program: Callable[[str], str], **environment: str) -> dict[str, str]:
    """Run the code that the playground offers in each language, which must get the same audio; return it."""
    codes, sizes = {}, []
    commands = {"curl": [program("bash"), "-ec"], "Python": [sys.executable, "-c"], "JavaScript": []}
    for name, command in commands.items():
        page.get_by_role("tab", name=name).click()
        codes[name] = page.inner_text("#code")
        if command:
            program("curl")
            subprocess.run([*command, codes[name]], cwd=folder, env=os.environ | environment, timeout=60, check=True)
            data = (folder / "speech.wav").read_bytes()
            assert data[:4] == b"RIFF"
            sizes.append(len(data))
            (folder / "speech.wav").unlink()
            continue
        # The browser has no environment and no files.
        code = codes[name].replace("await (await import", "// ")
        script = f"const process = {{ env: {environment} }};\n{code}\nreturn (await reply.arrayBuffer()).byteLength;"
        sizes.append(page.evaluate(f"async () => {{ {script} }}"))
    assert len(set(sizes)) == 1, sizes
    assert sizes[0] > 10_000
    return codes
