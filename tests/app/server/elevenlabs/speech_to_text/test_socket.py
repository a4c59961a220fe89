"""ElevenLabs' `WS /v1/speech-to-text/realtime` over real sockets: its messages, its errors, and the end of its work."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.app.server.streams import int16

RATE = 16_000


@contextmanager
def listening(server: Any, **query: Any) -> Iterator[ClientConnection]:
    url = server.url.replace("http", "ws", 1) + "/v1/speech-to-text/realtime"
    with connect(str(httpx.URL(url, params={"model_id": "scribe_v2_realtime"} | query))) as socket:
        yield socket


def send(socket: ClientConnection, audio: bytes = b"", **fields: Any) -> None:
    message = {"message_type": "input_audio_chunk", "audio_base_64": base64.b64encode(audio).decode(), "commit": False}
    socket.send(json.dumps(message | fields))


def say(socket: ClientConnection, audio: bytes, size: int = 8_000, **fields: Any) -> None:
    for start in range(0, len(audio), size):
        send(socket, audio[start : start + size], **fields)


def until(socket: ClientConnection, kind: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    while not told or told[-1]["message_type"] != kind:
        told.append(json.loads(socket.recv(timeout=60)))
        assert "error" not in told[-1] or told[-1]["message_type"] == kind, told[-1]
    return told


def test_the_client_commits(hearing: Any, voice: np.ndarray) -> None:
    with listening(hearing, language_code="en", include_timestamps="true") as socket:
        (started,) = until(socket, "session_started")
        say(socket, int16(voice), sample_rate=RATE, previous_text=None)
        send(socket, commit=True)
        told = until(socket, "committed_transcript_with_timestamps")
        # The next segment begins anew.
        say(socket, int16(voice[: 2 * RATE]))
        send(socket, commit=True)
        again = until(socket, "committed_transcript")
    config = started["config"]
    assert started["session_id"]
    assert (config["audio_format"], config["sample_rate"], config["vad_commit_strategy"]) == ("pcm_16000", RATE, False)
    assert config["model_id"] == "ear"
    *partial, committed, timed = told
    assert {each["message_type"] for each in partial} <= {"partial_transcript"}
    assert committed["message_type"] == "committed_transcript"
    assert committed["text"].startswith("en second 0. en second 1.")
    assert (timed["text"], timed["language_code"]) == (committed["text"], "en")
    assert "".join(word["text"] for word in timed["words"]) == committed["text"]
    assert [word["type"] for word in timed["words"][:2]] == ["word", "spacing"]
    assert 0 <= timed["words"][0]["start"] < timed["words"][-1]["end"] <= 5.7
    assert again[-1]["text"].startswith("en second 0.")
    assert len(again[-1]["text"]) < len(committed["text"])


def test_pauses_commit(hearing: Any, voice: np.ndarray) -> None:
    query = {"commit_strategy": "vad", "vad_silence_threshold_secs": 0.5, "include_language_detection": "true"}
    with listening(hearing, **query) as socket:
        say(socket, int16(np.pad(voice, (RATE, 2 * RATE))))
        told = until(socket, "final_transcript")
    committed = [each for each in told if each["message_type"] == "committed_transcript"]
    assert committed[0]["text"].startswith("en second 0.")
    assert told[-1] == {"message_type": "final_transcript", "text": committed[0]["text"], "language_code": "en"}


def test_silence_says_nothing(hearing: Any) -> None:
    with listening(hearing, commit_strategy="vad") as socket:
        until(socket, "session_started")
        say(socket, bytes(4 * RATE))
        with pytest.raises(TimeoutError):
            socket.recv(timeout=1)


def test_a_commit_of_nothing_is_told_and_the_socket_stays(hearing: Any, voice: np.ndarray) -> None:
    with listening(hearing) as socket:
        send(socket, commit=True)
        assert until(socket, "insufficient_audio_activity")[-1]["error"]
        say(socket, int16(voice[:RATE]))
        send(socket, commit=True)
        assert until(socket, "committed_transcript")[-1]["text"]


def test_the_text_before_is_a_prompt(hearing: Any, voice: np.ndarray) -> None:
    with listening(hearing, keyterms="Nightingale") as socket:
        send(socket, int16(voice[:RATE]), previous_text="We spoke of birds.", commit=True)
        until(socket, "committed_transcript")
    prompt = hearing.ear.requests[-1].prompt
    assert "We spoke of birds." in prompt
    assert "Nightingale" in prompt


def test_what_is_never_committed_is_committed_in_time(
    hearing: Any, voice: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.server.elevenlabs.speech_to_text.socket.MAX_UNCOMMITTED_SECONDS", 3.0)
    with listening(hearing) as socket:
        say(socket, int16(voice[: 4 * RATE]))
        assert until(socket, "committed_transcript")[-1]["text"].startswith("en second 0. en second 1. en second 2.")
