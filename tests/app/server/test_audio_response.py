"""Which format a request gets that names none."""

from __future__ import annotations

import httpx
import pytest

from app.application import create_app
from app.config import Settings, SettingsError
from app.server.audio_response import negotiate


@pytest.mark.parametrize(
    ("accept", "default", "expected"),
    [
        ("", "wav", "wav"),
        ("*/*", "mp3", "mp3"),
        ("audio/*", "flac", "flac"),
        ("audio/mpeg", "wav", "mp3"),
        ("audio/MPEG", "wav", "mp3"),
        ('Audio/Ogg; Codecs="opus"', "wav", "opus"),
        ("audio/ogg;codecs=opus", "wav", "opus"),
        ("audio/ogg", "wav", "opus"),
        ("audio/ogg;codecs=vorbis", "wav", "wav"),
        ("audio/aac", "wav", "aac"),
        ("audio/pcm", "wav", "pcm"),
        ("audio/flac", "wav", "flac"),
        ("audio/x-wav", "mp3", "wav"),
        ("audio/basic", "wav", "mulaw"),
        ("audio/mpeg, audio/wav", "wav", "wav"),
        ("audio/mpeg, audio/flac", "wav", "mp3"),
        ("audio/flac;q=0.2, audio/mpeg;q=0.9, audio/wav;q=0.5", "wav", "mp3"),
        ("audio/*;q=0.5, audio/mpeg", "wav", "mp3"),
        ("*/*;q=0.8, audio/mpeg;q=0.2", "wav", "wav"),
        ("*/*, audio/wav;q=0", "wav", "pcm"),
        ("audio/*;q=0, */*", "wav", "wav"),
        ("application/octet-stream", "mp3", "mp3"),
        ("application/json", "wav", "wav"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "wav", "wav"),
        ("audio/webm,audio/ogg,audio/wav,audio/*;q=0.9,application/ogg;q=0.7,*/*;q=0.5", "wav", "wav"),
        ("audio/webm,audio/ogg,audio/wav,audio/*;q=0.9,application/ogg;q=0.7,*/*;q=0.5", "mp3", "opus"),
        ("audio/mpeg;q=nonsense, audio/flac;q=0.1", "wav", "flac"),
        ("audio/mpeg;q=inf, audio/aac", "wav", "aac"),
        ("audio/mpeg;q=2, audio/aac;q=-1", "wav", "wav"),
        (';;;,,,"', "wav", "wav"),
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
