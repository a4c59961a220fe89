"""Wyoming over a real socket: events, the ends of connections, and the end of their work."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from app.config import Settings
from app.errors import ProtocolError
from app.server.wyoming.client import WyomingClient
from tests.app.conftest import Running, ToneCatalog, start, stop
from tests.app.server.streams import reference
from tests.app.server.surfaces import FORM
from tests.app.server.wyoming.clients import Event, connected, error_of

TWO = "Hello there, everybody. This is the second sentence."


def audio(events: list[Event]) -> bytes:
    return b"".join(event.payload for event in events if event.type == "audio-chunk")


def test_synthesize_again_and_again_on_one_connection(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        for text in (TWO, "Another one."):
            client.send("synthesize", text=text)
            events = client.until("audio-stop")
            kinds = [event.type for event in events]
            assert kinds[0] == "audio-start"
            assert set(kinds[1:-1]) == {"audio-chunk"}
            assert events[0].data == {"rate": 24_000, "width": 2, "channels": 1, "timestamp": 0}
            assert audio(events) == reference(server, text)
            assert events[-1].data["timestamp"] == len(audio(events)) // 48
            sent = 0
            for event in events[1:-1]:
                assert event.data["timestamp"] == sent // 48
                sent += len(event.payload)
        client.send("ping", text="still there?")
        assert client.until("pong")[-1].data == {"text": "still there?"}


def test_a_stream_is_spoken_sentence_by_sentence(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        client.send("synthesize-start", voice={"name": "steady"})
        for start in range(0, 30, 5):
            client.send("synthesize-chunk", text=TWO[start : start + 5])
        # The first sentence is heard before the second one is there.
        first = client.until("audio-chunk")
        assert [event.type for event in first] == ["audio-start", "audio-chunk"]
        client.send("synthesize-chunk", text=TWO[30:])
        client.send("synthesize", text=TWO)  # as Home Assistant does, for servers without streams
        client.send("synthesize-stop")
        events = first + client.until("synthesize-stopped")
        assert [event.type for event in events[-2:]] == ["audio-stop", "synthesize-stopped"]
        assert len(audio(events)) == pytest.approx(len(reference(server, TWO)), rel=0.02)
        client.send("synthesize", text="And now without a stream.")
        assert audio(client.until("audio-stop")) == reference(server, "And now without a stream.")
    assert sum("second sentence" in text for text in server.tone.begun) == 2  # the stream and the reference


def test_a_language_model_s_text_is_cleaned(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        client.send("synthesize-start")
        client.send("synthesize-chunk", text="**Hello** there, everybody. \U0001f600")
        client.send("synthesize-stop")
        client.until("synthesize-stopped")
    assert not any("*" in text for text in server.tone.begun)


@pytest.mark.parametrize("text", ["", " \n", "\U0001f600"])
def test_a_stream_with_nothing_to_say_has_no_audio(server: Any, text: str) -> None:
    with connected(server.wyoming_port) as client:
        client.send("synthesize-start")
        client.send("synthesize-chunk", text=text)
        client.send("synthesize-stop")
        assert [event.type for event in client.until("synthesize-stopped")] == ["synthesize-stopped"]
        client.send("ping")
        assert client.until("pong")


def test_requests_that_are_sent_ahead_are_answered_in_turn(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        for text in ("The first.", "The second, longer.", "The third of them."):
            client.send("synthesize", text=text)
        heard = [audio(client.until("audio-stop")) for _ in range(3)]
    assert heard == [reference(server, text) for text in ("The first.", "The second, longer.", "The third of them.")]


def test_pings_are_answered_while_it_speaks(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        client.send("synthesize", text="Held up.", voice={"name": "gated"})
        client.send("ping")
        assert [event.type for event in client.until("pong")] == ["pong"]
        server.tone.gate.set()
        assert audio(client.until("audio-stop"))


def test_info_names_the_voices(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        client.send("describe")
        data = client.until("info")[-1].data
    (program,) = data["tts"]
    assert program["supports_synthesize_streaming"] is True
    assert "steady" in [voice["name"] for voice in program["voices"]]
    assert program["voices"][0]["languages"] == ["en-US"]
    assert program["voices"][0]["description"] == "steady (man, American English)"
    assert data["asr"] == []


def event(kind: str, payload: int = 0, **data: object) -> bytes:
    header = {"type": kind, "data": data} | ({"payload_length": payload} if payload else {})
    return json.dumps(header).encode() + b"\n" + bytes(payload)


CHUNK = event("audio-chunk", 4, **FORM)


@pytest.fixture(scope="module")
def impatient() -> Iterator[Running]:
    """A server with a recognizer, which waits for a second."""
    settings = Settings(wyoming_port=0, recognition_gate=False, idle_seconds=1.0)
    running = start(settings, ToneCatalog(recognizer="ear"))
    yield running
    stop(running)


START = event("audio-start", **FORM)
# What is sent, by the code of the error.
WRONG: dict[str, list[bytes]] = {
    "protocol_error": [
        b"not json\n", b"[]\n", b"{}\n", b'{"type": 5}\n', b"\xff\xfe\n", b'{"a":' * 5_000 + b"\n",
        b'{"type": "describe", "data": []}x\n', b'{"type": "describe", "data_length": -1}\n',
        b'{"type": "describe", "data_length": "9"}\n', b'{"type": "describe", "data_length": true}\n',
        b'{"type": "describe", "data_length": 1e9}\n', b'{"type": "describe", "data_length": 2}\n[]',
        b'{"type": "ping", "data_length": 2}\n{x', b'{"type": "synthesize"}\n', event("synthesize", text=5),
        event("synthesize", text="\ud800"), event("synthesize", text="Hi", voice="steady"),
        event("synthesize-chunk", text="Hi"), event("synthesize-stop"), event("synthesize-start") * 2,
        *(event("audio-start", **FORM | {"width": width}) for width in (1, "x")),
        *(event("audio-start", **FORM | {"rate": rate}) for rate in (7_999, 10**9)), event("audio-start"),
        event("audio-start", **FORM | {"channels": 9}), START * 2, event("audio-chunk", 4), event("audio-stop"),
        START + event("audio-chunk", 4, **FORM | {"rate": 8_000}), event("transcribe", language=5),
        event("transcribe", transcript_names="x"), event("transcribe", transcript_names=["x"] * 1_001),
        event("transcribe", language="\ud800"),
    ],
    "body_too_large": [
        b'{"type": "describe", "data_length": 4000000000}\n', b'{"type": "describe", "payload_length": 4000000000}\n',
        b"x" * 200_000, b'{"type": "audio-chunk", "payload_length": 1048577}\n',
        b'{"type": "describe", "data_length": ' + b"9" * 4_000 + b"}\n",
    ],
    "invalid_request": [event("synthesize", text="Hi", text_format="ssml")],
    "empty_input": [event("synthesize", text=" ")],
    "idle_timeout": [START + CHUNK[:-1]],
    "text_too_long": [event("transcribe", transcript_terms=["x" * 20_000]) + CHUNK + event("audio-stop")],
}  # fmt: skip


@pytest.mark.parametrize(("sent", "code"), [(sent, code) for code, all_ in WRONG.items() for sent in all_])
def test_what_cannot_be_served_ends_with_an_error(impatient: Any, sent: bytes, code: str) -> None:
    with connected(impatient.wyoming_port) as client:
        client.socket.sendall(sent)
        data = error_of(client)
        assert (data["code"], 0 < len(data["text"]) < 200) == (code, True)
    assert "nightingale_active_streams 0.0" in impatient.metrics()


def test_events_without_a_meaning_here_are_dropped(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        client.socket.sendall(b'{"type": "select-program", "data": {"name": "nightingale"}}\n')
        client.socket.sendall(b'{"type": "played", "data_length": 2, "payload_length": 4}\n{}\x00\x01\x02\x03')
        client.send("ping")
        assert client.until("pong")


def test_a_stream_too_long_is_refused_while_it_comes(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        client.send("synthesize-start")
        with pytest.raises((AssertionError, OSError)):
            for _ in range(10_000):
                client.send("synthesize-chunk", text="and on and on, " * 20)
            client.until("synthesize-stopped")


def test_clients_that_leave_as_it_ends_give_their_slots_back(server: Any, wait_until: Any) -> None:
    for _ in range(30):
        with connected(server.wyoming_port) as client:
            client.send("synthesize", text="Hi.")
            client.until("audio-stop")
    assert wait_until(lambda: "nightingale_active_streams 0.0" in server.metrics())


def test_a_refusal_of_a_client_that_left_is_an_os_error() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        app: Any = SimpleNamespace(settings=Settings())
        with theirs, pytest.raises(OSError, match="left"):
            writer.transport.abort()
            await asyncio.sleep(0)  # the loop closes the socket
            await WyomingClient(reader, writer, app).refuse(ProtocolError("no"))

    uvloop.run(run())


@pytest.mark.parametrize(
    ("head_seconds", "sent", "code"),
    [
        (0.5, b"", "idle_timeout"),
        (0.5, b'{"type": "pi', "idle_timeout"),
        (30, b'{"type": "' + b"a" * (1 << 20), "body_too_large"),
        (30, b'{"type": "nothing"}\n' * 50_000, "protocol_error"),
    ],
    ids=["silent", "half", "long", "many"],
)
def test_floods_and_half_events_end_their_connection(
    start_server: Any, head_seconds: float, sent: bytes, code: str
) -> None:
    port = start_server(wyoming_port=0, head_seconds=head_seconds, idle_seconds=30, messages_per_second=20).wyoming_port
    with connected(port) as client:
        # It answers while it is still being sent.
        with suppress(ConnectionError):
            client.socket.sendall(sent)
        with suppress(ConnectionResetError):
            assert error_of(client)["code"] == code


def test_a_client_that_sends_nothing_more_hears_the_rest(server: Any) -> None:
    with connected(server.wyoming_port) as client:
        client.send("synthesize", text=TWO, voice={"name": "slow"})
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest()[-1] == "audio-stop"
    with connected(server.wyoming_port) as client:
        # An unfinished stream of text has no end any more.
        client.send("synthesize-start")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest() == []
