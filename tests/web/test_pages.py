"""Rules for every page: nothing from elsewhere, narrow screens, the dark, and the server's headers."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from models.timeline import Stage

WEB = Path(__file__).parents[2] / "app" / "server" / "static"
PAGES = {
    "/": "document.querySelectorAll('#voice input').length > 2",
    "/transcribe": "document.querySelectorAll('#recognizer option').length > 0",
    "/interpret": "document.querySelectorAll('#target option').length > 4",
    "/dashboard": "document.querySelectorAll('#figures div').length > 4",
    "/docs": "document.querySelectorAll('.operation').length > 8",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_and_can_be_read(open_page, until, path, width, scheme):
    page = open_page(path, width, scheme)
    until(page, PAGES[path])
    if path == "/docs":
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # WCAG 2.2, 1.4.3: text against its ground, at least 4.5 to 1.
    contrasts = page.evaluate(
        """async () => {
            const { color } = await import("/web/dom.js");
            const light = (name) => color(name).match(/[\\d.]+/g).slice(0, 3).map(Number)
              .map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4))
              .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
            const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
            return [["--ink", "--ground"], ["--ink", "--panel"], ["--quiet", "--ground"], ["--quiet", "--panel"],
              ["--accent", "--ground"], ["--on-accent", "--accent"], ["--bad", "--bad-ground"], ["--ink", "--lit"]]
              .map(([a, b]) => [a, b, ratio(a, b)]);
        }"""
    )
    assert [entry for entry in contrasts if entry[2] < 4.5] == []


def test_pages_cannot_load_anything_from_elsewhere(house_server):
    for path in PAGES:
        reply = httpx.get(house_server + path)
        assert reply.status_code == 200
        policy = reply.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe-eval" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["content-type"].startswith("text/html")
    for file in WEB.iterdir():
        sources = re.findall(r"""(?:src|href|from|import|fetch)[ =(]*["'`](\w+:)?//""", file.read_text())
        assert sources == [], file.name


def test_files_have_their_types_and_pages_their_addresses(house_server):
    for name, kind in (("playground.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
        reply = httpx.get(f"{house_server}/web/{name}")
        assert reply.headers["content-type"].startswith(kind)
        assert reply.headers["x-content-type-options"] == "nosniff"
        again = httpx.get(f"{house_server}/web/{name}", headers={"if-none-match": reply.headers["etag"]})
        assert again.status_code == 304


@pytest.mark.parametrize("path", ["index.html", "../main.py", "%2e%2e/main.py", "..%2fmain.py", "nothing.js", ""])
def test_only_these_files_are_served(house_server, path):
    reply = httpx.get(f"{house_server}/web/{path}")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "not_found"


def test_pages_are_not_part_of_the_described_api(house_server):
    paths = httpx.get(f"{house_server}/openapi.json").json()["paths"]
    assert "/v1/audio/speech" in paths
    assert not {
        "/",
        "/transcribe",
        "/interpret",
        "/dashboard",
        "/docs",
        "/dashboard/requests",
        "/playground/settings",
    } & set(paths)


def test_the_pages_know_every_stage():
    listed = re.search(r"STAGES = \[(.*?)\]", (WEB / "stages.js").read_text(), re.DOTALL).group(1)
    assert re.findall(r'"(\w+)"', listed) == [stage.value for stage in Stage]


def test_without_a_recognizer_the_page_says_how_to_install_one(open_page, until):
    page = open_page("/transcribe")

    def without_recognizers(route):
        answer = route.fetch()
        models = answer.json()
        for model in models["data"]:
            if model["kind"] == "speech-recognition":
                model |= {"status": "absent", "default": model["id"] == "whisper-large-v3-turbo"}
        route.fulfill(response=answer, json=models)

    page.route("**/v1/models", without_recognizers)
    page.reload()
    until(page, "!document.querySelector('#error').hidden")
    assert "whisper" in page.text_content("#error")
