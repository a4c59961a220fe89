"""Deepgram's `WS /v1/speak` over real sockets: its messages, its errors, and the end of its work."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.app.server.streams import close_code, reference

TWO = "Hello there, everybody. This is the second sentence."
LONG = " ".join(f"This is sentence number {n} of a long text." for n in range(12))


@contextmanager
def speaking(server: Any, **query: object) -> Iterator[ClientConnection]:
    """A socket whose `Metadata` was received."""
    url = server.url.replace("http", "ws", 1) + "/v1/speak"
    with connect(str(httpx.URL(url, params={key: str(value) for key, value in query.items()}))) as socket:
        metadata = json.loads(socket.recv(timeout=60))
        assert metadata["type"] == "Metadata", metadata
        assert metadata["model_name"] == "tone"
        assert metadata["request_id"]
        yield socket


def send(socket: ClientConnection, kind: str, **fields: object) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def until(socket: ClientConnection, kind: str) -> tuple[bytes, list[dict[str, Any]]]:
    """Return the audio, and the messages up to one of that kind."""
    audio, told = b"", []
    while True:
        message = socket.recv(timeout=60)
        if isinstance(message, bytes):
            audio += message
            continue
        told.append(json.loads(message))
        if told[-1]["type"] == kind:
            return audio, told


def say(socket: ClientConnection, text: str) -> tuple[bytes, list[dict[str, Any]]]:
    """Return the audio of a text that is flushed, and the messages."""
    send(socket, "Speak", text=text)
    send(socket, "Flush")
    return until(socket, "Flushed")


def test_text_in_pieces_comes_back_as_audio_and_flushed(server: Any) -> None:
    with speaking(server, model="aura-2-thalia-en", encoding="linear16", sample_rate=24000) as socket:
        for start in range(0, len(TWO), 7):
            send(socket, "Speak", text=TWO[start : start + 7])
        send(socket, "Flush")
        audio, told = until(socket, "Flushed")
        assert told == [{"type": "Flushed", "sequence_id": 0}]
        assert audio == reference(server, TWO)
        audio, told = say(socket, "And again.")
        assert told == [{"type": "Flushed", "sequence_id": 1}]
        assert audio == reference(server, "And again.")
        send(socket, "Close")
        assert close_code(socket) == 1000


def test_close_speaks_what_is_left(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "Speak", text="No full stop here")
        send(socket, "Close")
        audio, _ = until(socket, "Flushed")
        assert audio == reference(server, "No full stop here")
        assert close_code(socket) == 1000
    with speaking(server) as socket:
        send(socket, "Close")
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=60)


def test_a_speed_may_be_chosen(server: Any) -> None:
    with speaking(server, speed=2) as socket:
        audio, _ = say(socket, TWO)
    assert len(audio) == pytest.approx(len(reference(server, TWO)) / 2, abs=16)


def test_every_flush_is_answered_in_its_turn(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "Flush")
        audio, told = until(socket, "Flushed")
        assert (audio, told) == (b"", [{"type": "Flushed", "sequence_id": 0}])
        for text in ("First of all.", None, "Then this."):
            if text is not None:
                send(socket, "Speak", text=text)
            send(socket, "Flush")
        heard = [until(socket, "Flushed") for _ in range(3)]
        first, last = (reference(server, text) for text in ("First of all.", "Then this."))
        assert [audio for audio, _ in heard] == [first, b"", last]
        assert [told[-1]["sequence_id"] for _, told in heard] == [1, 2, 3]


def test_what_cannot_be_spoken_is_warned_of_and_flushed(server: Any) -> None:
    with speaking(server) as socket:
        audio, told = say(socket, "?!")
        assert audio == b""
        warning = told[0]
        assert warning["type"] == "Warning"
        assert warning["warn_code"] == warning["code"] == "NOTHING_TO_SPEAK"
        assert warning["warn_msg"] == warning["description"]
        assert say(socket, "But this can.")[0] == reference(server, "But this can.")


def test_clear_stops_at_once(server: Any, wait_until: Any) -> None:
    with speaking(server, model="gated_second") as socket:
        send(socket, "Speak", text=LONG)
        send(socket, "Flush")
        first = socket.recv(timeout=60)
        assert isinstance(first, bytes)
        assert wait_until(lambda: len(server.tone.begun) == 2)
        send(socket, "Clear")
        audio, told = until(socket, "Cleared")
        assert told == [{"type": "Cleared", "sequence_id": 0}]
        assert len(audio) < len(first)
        assert len(server.tone.computed) == 1
        server.tone.gate.set()
        # Nothing of it comes later, and the socket goes on.
        audio, told = say(socket, "Something else.")
        assert audio == reference(server, "Something else.")
        assert [event["type"] for event in told] == ["Flushed"]
        assert told[0]["sequence_id"] == 1
    assert not any("number 2" in text for text in server.tone.computed)


def test_clear_with_nothing_to_drop_is_answered_and_keep_alive_is_not(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "KeepAlive")
        send(socket, "Clear")
        assert until(socket, "Cleared") == (b"", [{"type": "Cleared", "sequence_id": 0}])
