"""Marking piece by piece, with a marker that is easy to hear, and the deployment's choice of one."""

from __future__ import annotations

import asyncio
import threading

import httpx
import numpy as np
import pytest

from app.application import create_app
from app.audio import watermark
from app.audio.watermark import FADE_SECONDS, RATE, MarkedStream, Watermark
from app.config import Settings, SettingsError
from app.errors import UnavailableError

OURS = 24_000


def speech(seconds: float = 2.0, rate: int = OURS) -> np.ndarray:
    time = np.arange(round(seconds * rate)) / rate
    return (0.4 * np.sin(2 * np.pi * 200 * time) * (1 + 0.5 * np.sin(2 * np.pi * 3 * time))).astype(np.float32)


def hum(pcm: np.ndarray) -> np.ndarray:
    """A marker that adds 1 kHz."""
    return pcm + (0.05 * np.sin(2 * np.pi * 1000 * np.arange(pcm.size) / RATE)).astype(np.float32)


def pieces(pcm: np.ndarray, *sizes: int) -> list[np.ndarray]:
    return np.split(pcm, np.cumsum(sizes))


def loudness_at(pcm: np.ndarray, hertz: float) -> float:
    window = np.hanning(pcm.size)
    tone = np.exp(-2j * np.pi * hertz * np.arange(pcm.size) / OURS)
    return 2 * abs((pcm * window * tone).sum()) / window.sum()


@pytest.mark.parametrize("sizes", [(), (9_600,), (300, 300, 300), (24_000, 1, 100)])
def test_every_piece_is_marked_and_keeps_its_length(sizes: tuple[int, ...]) -> None:
    pcm = speech()
    stream = MarkedStream(hum, OURS)
    marked = [stream.push(piece) for piece in pieces(pcm, *sizes)]
    assert [piece.size for piece in marked] == [piece.size for piece in pieces(pcm, *sizes)]
    assert all(piece.dtype == np.float32 for piece in marked)
    added = np.concatenate(marked) - pcm
    longest = max(marked, key=len)
    assert loudness_at(longest, 1000) == pytest.approx(0.05, abs=0.01)
    assert np.abs(added).max() < 0.06


def test_no_seam_is_added() -> None:
    """At a seam the sound goes on as it did: nothing is added to the samples beside it."""
    pcm = speech()
    stream = MarkedStream(hum, OURS)
    cut = 12_345
    marked = np.concatenate([stream.push(piece) for piece in pieces(pcm, cut)])
    added = marked - pcm
    assert np.abs(added[cut - 2 : cut + 2]).max() < 2e-4
    # Nor is there a step anywhere that the marker has not made: its own largest is that of its tone.
    own = 2 * np.pi * 1000 / OURS * 0.05
    assert np.abs(np.diff(added)).max() < own * 1.2
    fade = round(FADE_SECONDS * OURS)
    assert np.abs(added[cut + fade : cut + 3 * fade]).max() > 0.04


def test_a_marker_hears_what_was_before() -> None:
    heard: list[int] = []

    def note(pcm: np.ndarray) -> np.ndarray:
        heard.append(pcm.size)
        return pcm[:-50]  # one that loses some samples at the end

    stream = MarkedStream(note, OURS)
    for piece in pieces(speech(), 12_000, 12_000, 12_000):
        stream.push(piece)
    stream.reset()
    stream.push(speech(0.5))
    assert heard == [16_000, 24_000, 24_000, 24_000, 16_000]


def test_silence_stays_silence_and_nothing_clips() -> None:
    stream = MarkedStream(hum, OURS)
    assert not stream.push(np.zeros(5_000, np.float32)).any()
    assert stream.push(np.empty(0, np.float32)).size == 0
    loud = np.ones(OURS, np.float32)
    assert np.abs(stream.push(loud)).max() <= 1.0


def test_other_sample_rates() -> None:
    pcm = speech(rate=16_000)
    assert MarkedStream(hum, 16_000).push(pcm).size == pcm.size


def chosen(choice: str, load: object = lambda: hum) -> object:
    async def open_one() -> object:
        subject = Watermark(choice, load)
        try:
            return await subject.marker()
        finally:
            subject.close()

    return asyncio.run(open_one())


def broken() -> None:
    raise ImportError("no module named torch")


def test_the_choice(caplog: pytest.LogCaptureFixture) -> None:
    assert chosen("auto") is hum
    assert chosen("perth") is hum
    assert chosen("none") is None
    assert chosen("auto", broken) is None
    assert "no module named torch" in caplog.text
    with pytest.raises(UnavailableError, match="requires"):
        chosen("perth", broken)


def test_auto_without_the_extra_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermark, "is_installed", lambda: False)
    assert not Watermark("auto").wanted
    with pytest.raises(SettingsError, match="extra 'watermark'"):
        create_app(Settings(watermark="perth"))


@pytest.fixture
def marking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every watermark in the server is `hum`, installed; the threads that loaded it."""
    threads: list[str] = []

    def load() -> object:
        threads.append(threading.current_thread().name)

        def mark(pcm: np.ndarray) -> np.ndarray:
            threads.append(threading.current_thread().name)
            return hum(pcm)

        return mark

    monkeypatch.setattr(watermark, "load_perth", load)
    monkeypatch.setattr(watermark, "is_installed", lambda: True)
    return threads


def test_a_server_marks_what_a_model_asks_for_and_says_so(start_server, parrot, marking, tmp_path, wait_until) -> None:
    parrot.watermarked = True
    server = start_server(parrot=parrot, data_dir=str(tmp_path), preload=("parrot",))
    assert wait_until(lambda: len(marking) == 1)  # with the model, before anybody asks

    def speak(model: str) -> httpx.Response:
        body = {"input": "A sentence to mark. [pause:0.5s] And another.", "model": model, "response_format": "pcm"}
        return httpx.post(server.url + "/v1/audio/speech", json=body, timeout=60)

    plain, marked = speak("tone"), speak("parrot")
    assert (plain.headers["x-watermark"], marked.headers["x-watermark"]) == ("none", "perth")
    pcm = np.frombuffer(marked.content, "<i2").astype(np.float32) / 32_767
    assert loudness_at(pcm[: OURS // 4], 1000) > 0.03
    assert not pcm[round(0.4 * OURS) : round(0.8 * OURS)].all()
    assert "watermark" in server.metrics()
    assert set(marking) == {"watermark_0"}
    assert 'stage="watermark"' in server.metrics()


def test_a_server_that_is_told_not_to(start_server, parrot, marking, tmp_path) -> None:
    parrot.watermarked = True
    server = start_server(parrot=parrot, data_dir=str(tmp_path), preload=("parrot",), watermark="none")
    response = httpx.post(server.url + "/v1/audio/speech", json={"input": "Hello.", "model": "parrot"}, timeout=60)
    assert response.headers["x-watermark"] == "none"
    assert marking == []
