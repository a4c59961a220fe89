"""Which format a request gets that names none."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from app.application import create_app
from app.config import Settings, SettingsError
from app.server.audio_response import negotiate

# What goes in, and what comes out, by the name of the test.
CASES = json.loads(Path(__file__).with_name("audio_response_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("accept", "default", "expected"),
    [
        *CASES["what_a_header_asks_for"],
        ("audio/mpeg;" * 5_000, "wav", "mp3"),
        ('"' * 30_000, "wav", "wav"),
        ('"' + '\\"' * 30_000, "wav", "wav"),
    ],
)
def test_what_a_header_asks_for(accept, default, expected):
    assert negotiate(accept, default) == expected


def speak(server, accept=None, **body):
    headers = {} if accept is None else {"accept": accept}
    return httpx.post(server.url + "/v1/audio/speech", json={"input": "Hello.", **body}, headers=headers)


def test_the_reply_says_and_is_what_was_negotiated(server):
    plain = speak(server)
    assert (plain.headers["content-type"], plain.content[:4]) == ("audio/wav", b"RIFF")
    flac = speak(server, "audio/flac")
    assert (flac.headers["content-type"], flac.content[:4]) == ("audio/flac", b"fLaC")
    ogg = speak(server, "audio/ogg;codecs=opus, audio/flac;q=0.1")
    assert (ogg.headers["content-type"], ogg.content[:4]) == ("audio/ogg", b"OggS")


def test_what_the_body_names_wins(server):
    reply = speak(server, "audio/mpeg", response_format="flac")
    assert (reply.headers["content-type"], reply.content[:4]) == ("audio/flac", b"fLaC")
    events = speak(server, "text/event-stream", stream_format="sse")
    assert events.headers["content-type"].startswith("text/event-stream")


def test_the_setting_decides_otherwise(start_server):
    running = start_server(default_format="mp3")
    assert speak(running).headers["content-type"] == "audio/mpeg"
    assert speak(running, "application/octet-stream").headers["content-type"] == "audio/mpeg"
    assert speak(running, "audio/wav").headers["content-type"] == "audio/wav"
    assert speak(running, response_format="wav").headers["content-type"] == "audio/wav"


def test_a_setting_that_is_no_format_ends_the_start():
    with pytest.raises(SettingsError, match=r"default_format.*accepted are: wav"):
        create_app(Settings(default_format="mp4"))
