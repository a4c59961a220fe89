"""The WebSocket protocol below the application, byte by byte, under uvicorn on a socket."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app.server.connections import ConnectionLimits, Connections
from app.server.websocket_protocol import WebSocketProtocol
from tests.wire import BINARY, CLOSE, CONTINUATION, PING, TEXT, Wire, frame, upgrade

# Bytes that a client sends at once.
CHUNK_BYTES = 100_000
LIMITS = ConnectionLimits(connections=100, head_seconds=10, body_seconds=10, stall_seconds=10, frames_per_second=200)
# What the application sends as soon as it knows that the client is gone, and what that raised.
raised: list[BaseException | None] = []


async def collect(scope: Scope, receive: Receive, send: Send) -> None:
    """Send the number of characters or bytes of each message."""
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": str(len(message.get("text") or message.get("bytes") or ""))})
    try:
        await send({"type": "websocket.send", "text": "too late"})
    except BaseException as error:
        raised.append(error)
    else:
        raised.append(None)


async def flood(scope: Scope, receive: Receive, send: Send) -> None:
    """Send more than a client's buffers take."""
    await send({"type": "websocket.accept"})
    with suppress(OSError):
        for _ in range(32):
            await send({"type": "websocket.send", "bytes": bytes(1 << 20)})


@contextmanager
def listening(ping_seconds: float, app: ASGIApp = collect, most: int = 1_000) -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(
        app, port=0, ws=partial(WebSocketProtocol, Connections(LIMITS)), ws_max_size=most,  # type: ignore[arg-type]
        ws_ping_interval=ping_seconds, ws_ping_timeout=ping_seconds, lifespan="off", log_config=None,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    ended: list[None] = []
    thread = threading.Thread(target=lambda: ended.append(server.run()), daemon=True)
    thread.start()
    waiting = threading.Event()
    while not server.started:
        waiting.wait(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join(60)
    assert ended


@contextmanager
def opened(address: tuple[str, int]) -> Iterator[Wire]:
    """A connection whose handshake is done."""
    with Wire(address) as wire:
        wire.send(upgrade(address, "/", HEADERS))
        wire.read_until(b"\r\n\r\n")
        yield wire


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with listening(ping_seconds=60) as address:
        yield address


@pytest.fixture(scope="module")
def impatient() -> Iterator[tuple[str, int]]:
    """Address of a server that soon gives up a client that answers no ping."""
    with listening(ping_seconds=0.3) as address:
        yield address


PRIVATE = "ada-0123456789"
HEADERS = f"Authorization: Bearer {PRIVATE}\r\nSec-WebSocket-Protocol: token, {PRIVATE}\r\n"
Talk = Callable[..., list[tuple[int, bytes]]]


@pytest.fixture
def talk(address: tuple[str, int]) -> Talk:
    """`talk(data, texts)`: `exchange` with a server that waits long for the answers to its pings."""
    return partial(exchange, address)


def exchange(address: tuple[str, int], data: bytes, texts: int = 0) -> list[tuple[int, bytes]]:
    """Send `data`, and a close after that many texts came, if any is to come. Return the frames, without pings."""
    raised.clear()
    with opened(address) as wire:
        for start in range(0, len(data), CHUNK_BYTES):
            wire.send(data[start : start + CHUNK_BYTES])
            if start:
                time.sleep(0.01)
        found = []
        with suppress(EOFError):
            while True:
                found.append(wire.frame())
                if texts and texts == sum(opcode == TEXT for opcode, _ in found):
                    texts = 0
                    wire.send(NORMAL)
    return [each for each in found if each[0] != PING]


def code(answer: tuple[int, bytes]) -> int:
    assert answer[0] == CLOSE
    return int(struct.unpack(">H", answer[1][:2])[0])


NORMAL = frame(struct.pack(">H", 1000), CLOSE)


def test_messages_whole_and_in_pieces(talk: Talk) -> None:
    # A character of four bytes is cut between each of them; a ping comes between.
    bird = "🦜".encode()
    pieces = [frame(bird[:1], fin=False), frame(bird[1:2], CONTINUATION, fin=False), frame(b"", PING)]
    pieces += [frame(bird[2:3], CONTINUATION, fin=False), frame(bird[3:], CONTINUATION)]
    answers = talk(frame(b"abc") + b"".join(pieces) + frame(b"\xff\xfe", BINARY) + frame(b"d"), 4)
    assert code(answers.pop()) == 1000
    assert [each for each in answers if each[0] == TEXT] == [(TEXT, b"3"), (TEXT, b"1"), (TEXT, b"2"), (TEXT, b"1")]


@pytest.mark.parametrize("late", [b"", frame(b"def", CONTINUATION)])
def test_a_close_between_fragments_is_answered_as_it_came(talk: Talk, late: bytes) -> None:
    (answer,) = talk(frame(b"abc", fin=False) + NORMAL + late)
    assert code(answer) == 1000


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame(b"ab\xff"), id="whole"),
        # The message never ends: who waited for that would wait for ever.
        pytest.param(frame(b"ab\xff", fin=False), id="first fragment"),
        pytest.param(frame(b"ab\xce", fin=False) + frame(b"a", CONTINUATION, fin=False), id="cut character"),
        pytest.param(frame(b"ab", fin=False) + frame(b"\xce", CONTINUATION), id="half a character"),
    ],
)
def test_bad_utf_8_is_refused_where_it_is(talk: Talk, data: bytes, caplog: Any) -> None:
    (answer,) = talk(data)
    assert code(answer) == 1007
    # A client must not be able to fill the log.
    assert [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []


def test_not_even_the_fullest_log_has_keys_or_texts(talk: Talk, caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG):
        talk(frame(b"a private text") + NORMAL)
    assert "connection open" in caplog.text
    assert PRIVATE not in caplog.text
    assert "private" not in caplog.text


def test_bytes_need_not_be_text(talk: Talk) -> None:
    first, last = talk(frame(b"ab", fin=False) + frame(b"c", CONTINUATION) + frame(b"\xff", BINARY, fin=False), 1)
    assert first == (TEXT, b"3")
    assert code(last) == 1000


@pytest.mark.parametrize(("data", "closes"), [(NORMAL, 1000), (frame(b"abc", 5), 1002), (frame(b"\xff"), 1007)])
def test_sending_to_who_is_gone_is_an_os_error(talk: Talk, data: bytes, closes: int) -> None:
    (answer,) = talk(data)
    assert code(answer) == closes
    sending_raised_an_os_error()


def test_sending_to_who_answers_no_ping_is_an_os_error(impatient: tuple[str, int]) -> None:
    (answer,) = exchange(impatient, b"")
    assert code(answer) == 1011
    sending_raised_an_os_error()


async def slow(scope: Scope, receive: Receive, send: Send) -> None:
    """Read nothing for longer than a ping may take, then answer each message."""
    await send({"type": "websocket.accept"})
    await asyncio.sleep(1.5)
    while (await receive())["type"] in ("websocket.connect", "websocket.receive"):
        await send({"type": "websocket.send", "text": "read"})


def test_who_answers_pings_behind_unread_messages_stays() -> None:
    with listening(0.3, slow) as address, opened(address) as wire:
        wire.send(frame(b"x" * 900) * 20)
        answers = 0
        while answers < 20:
            opcode, data = wire.frame()
            assert opcode in (PING, TEXT), data
            answers += opcode == TEXT
            if opcode == PING:
                wire.send(frame(data, 10))
        wire.send(NORMAL)


def test_a_server_ends_though_a_client_has_closed_and_reads_nothing(caplog: Any) -> None:
    with ExitStack() as held, listening(60, flood) as address:
        wire = held.enter_context(opened(address))  # it stays open until the server has ended
        wire.send(NORMAL)
        time.sleep(0.5)
    assert "Traceback" not in caplog.text


def sending_raised_an_os_error() -> None:
    waiting = threading.Event()
    while not raised:
        waiting.wait(0.01)
    assert isinstance(raised[0], OSError)


def test_who_sends_too_much_is_told_before_the_connection_ends(talk: Talk) -> None:
    """The connection is not reset while the client still sends: a reset would lose the reason."""
    head = struct.pack("!BBQ", 0x80 | TEXT, 0x80 | 127, 3_000_000) + bytes(4)
    (answer,) = talk(head + b"x" * 3_000_000)
    assert code(answer) == 1009


async def unhurried(scope: Scope, receive: Receive, send: Send) -> None:
    """Take a while for each message, and send how many others were read meanwhile."""
    await send({"type": "websocket.accept"})
    while (await receive())["type"] in ("websocket.connect", "websocket.receive"):
        await asyncio.sleep(0.1)
        await send({"type": "websocket.send", "text": str(receive.__self__.queue.qsize())})  # type: ignore[attr-defined]
    raised.append(None)


def test_nothing_is_read_ahead_of_a_large_message_and_its_text_takes_its_bytes_of_memory() -> None:
    raised.clear()
    with listening(60, unhurried, 400_000) as address, opened(address) as wire:
        wide = "🦜".encode() + b"x" * 90_000
        wire.send((frame(b"x" * 200_000) + frame(wide)) * 2 + frame(wide[:-1] + b"x" * 10_000) + frame(b"x") * 100)
        answers = [wire.frame() for _ in range(6)]
        assert [data for _, data in answers[1:5]] == [b"0"] * 4
        assert code(answers[5]) == 1009


def test_a_client_whose_large_message_is_refused_sees_the_end() -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await receive(), await receive()
        await send({"type": "websocket.close", "code": 1008})

    with listening(60, refuse, 400_000) as address, opened(address) as wire:
        wire.send(frame(b"x" * 200_000) + frame(b"x" * 200_000))
        assert code(wire.frame()) == 1008
        wire.send(NORMAL)
        began = time.monotonic()
        with pytest.raises(EOFError):
            wire.frame()
        assert time.monotonic() - began < 5
