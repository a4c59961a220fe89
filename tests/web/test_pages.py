"""Rules for every page: nothing from elsewhere, narrow screens, the dark, and the server's headers."""

from __future__ import annotations

import re

import httpx
import pytest

from models.timeline import Stage
from tests.processes import ROOT
from tests.web.pages import PAGES, error_of, until

WEB = ROOT / "app" / "server" / "pages" / "static"


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit(opened, path):
    page = opened(path)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, scheme)


@pytest.mark.parametrize("path", ["/transcribe", "/interpret", "/talk"])
def test_a_page_without_a_microphone_says_so(open_hearing, path):
    page = open_hearing(path)
    until(page, "document.querySelectorAll('#recognizer option, #translator option, #model option').length > 0")
    page.evaluate("() => { navigator.mediaDevices.getUserMedia = () => Promise.reject(new Error('not allowed')); }")
    page.click("#start")
    assert "The microphone cannot be used: not allowed." in error_of(page)


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
    assert not {*PAGES, "/dashboard/requests", "/playground/settings"} & set(paths)


def test_the_pages_know_every_stage():
    listed = re.search(r"STAGES = \[(.*?)\]", (WEB / "stages.js").read_text(), re.DOTALL).group(1)
    assert re.findall(r'"(\w+)"', listed) == [stage.value for stage in Stage]


def test_without_a_recognizer_the_page_says_how_to_install_one(open_page):
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
    assert "whisper" in error_of(page)
