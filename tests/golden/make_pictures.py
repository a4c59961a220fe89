"""Write docs/images: the playground and the dashboard after some requests. `python -m tests.golden.make_pictures`.

On a quiet machine, since the pictures show times. Needs Debian's Chromium.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from tests import clients
from tests.processes import ROOT, serve
from tests.web.conftest import FLAGS
from tests.web.pages import PAGES, speak, until

TEXT: Final = "The weather is fine today, and the train leaves in the morning. Shall we go to the coast?"
MORE: Final = (
    ("af_heart", "Hello world."),
    ("bf_emma", TEXT),
    ("em_alex", "El tren sale a las nueve."),
    ("bm_fable", TEXT),
)
WIDTH, HEIGHT = 1280, 900
# Chromium itself makes the smaller file.
TO_WEBP: Final = """async (png) => {
  const bitmap = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({type: "image/webp", quality: 0.9})).arrayBuffer());
  return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
}"""


def save(page: Page, name: str) -> None:
    """Write what a page shows to docs/images."""
    png = base64.b64encode(page.screenshot()).decode()
    empty = page.context.new_page()
    (ROOT / "docs" / "images" / f"{name}.webp").write_bytes(base64.b64decode(empty.evaluate(TO_WEBP, png)))
    empty.close()


def main() -> None:
    """Start a server and a browser, speak, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright, serve(Path(folder)) as server:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_context(base_url=server.url, viewport={"width": WIDTH, "height": HEIGHT}).new_page()
        for voice, text in MORE:
            clients.speak(server.url, text, voice=voice).raise_for_status()
        page.goto("/")
        speak(page, TEXT)
        save(page, "playground")
        page.goto("/dashboard")
        until(page, PAGES["/dashboard"])
        page.wait_for_timeout(2500)
        save(page, "dashboard")
        browser.close()


if __name__ == "__main__":
    main()
