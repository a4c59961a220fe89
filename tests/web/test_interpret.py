"""The interpreter's page: a microphone that plays a file, and models that say what they are told to."""

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
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
PATIENCE = 60
FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)


@pytest.fixture(scope="module")
def hearing_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a server process with the stand-ins."""
    log = tmp_path_factory.mktemp("server") / "log"
    environment = os.environ | {"NIGHTINGALE_RECOGNITION_MODEL": "ear", "PORT": "0", "PYTHONPATH": str(ROOT)}
    with log.open("w") as output:
        popen = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "app" / "conftest.py")], stderr=output, stdout=output, env=environment
        )
    try:
        end = time.monotonic() + PATIENCE
        while (found := re.search(r"ready: open (http://[\d.:]+)/", log.read_text())) is None:
            assert popen.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        yield found.group(1)
    finally:
        popen.kill()
        popen.wait()


@pytest.fixture(scope="module")
def browse(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose microphone plays two sentences and a pause, again and again."""
    file = tmp_path_factory.mktemp("microphone") / "spoken.wav"
    pcm, rate = soundfile.read(ROOT / "tests" / "golden" / "spoken.ogg", dtype="float32")
    soundfile.write(file, np.concatenate([soxr.resample(pcm, rate, 48_000), np.zeros(96_000, np.float32)]), 48_000)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program("chromium"), args=(*FLAGS, f"--use-file-for-fake-audio-capture={file}")
        )
        yield running
        running.close()


@pytest.fixture
def page(browse: Any, hearing_url: str, until: Callable[..., Any]) -> Iterator[Page]:
    context = browse.new_context(base_url=hearing_url, permissions=["microphone"])
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto("/interpret")
    until(page, "document.querySelectorAll('#translator option').length > 0")
    yield page
    context.close()
    assert said == []


def test_the_microphone_is_heard_written_and_spoken(page: Page, until: Callable[..., Any]) -> None:
    page.select_option("#target", "fr-fr")
    page.select_option("#source", "en-us")
    page.select_option("#translator", "shout")
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
    page.click("#start")
    until(page, "document.querySelectorAll('#said li').length > 1")
    until(page, "document.querySelector('#said .target').textContent")
    source, target = (page.text_content(f"#said li:first-child {each}") for each in (".source", ".target"))
    assert source and target == source.upper()
    assert page.get_attribute("#said .target", "lang") == "fr"
    until(page, "window.played > 0")
    until(page, "document.querySelector('#heard').textContent.includes('after you')")
    page.check("#muted")
    page.click("#stop")
    until(page, "!document.querySelector('#start').disabled")
    assert page.is_hidden("#error")
    assert page.text_content("#state") == ""


def test_what_is_wrong_is_said(page: Page, until: Callable[..., Any]) -> None:
    page.select_option("#translator", "shout")
    page.evaluate("document.querySelector('#translator').append(new Option('nothing', 'nothing', true, true))")
    page.click("#start")
    until(page, "!document.querySelector('#error').hidden")
    assert "nothing" in page.text_content("#error")
    until(page, "!document.querySelector('#start').disabled")


def test_a_page_without_a_microphone_says_so(page: Page, until: Callable[..., Any]) -> None:
    page.evaluate("() => { navigator.mediaDevices.getUserMedia = () => Promise.reject(new Error('not allowed')); }")
    page.click("#start")
    until(page, "!document.querySelector('#error').hidden")
    assert "The microphone cannot be used: not allowed." in page.text_content("#error")
