"""SocketLoop, with a stand-in for its socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message

from app.engine.admission import Admission
from app.errors import IdleTimeoutError, OverloadedError, ServiceError
from app.server.streaming.inbox import SocketClosedError
from app.server.streaming.socket import MAX_REASON, SocketLoop


class Wire:
    """A socket with messages that a test puts, and writes that it may hold up."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.writable = asyncio.Event()
        self.writable.set()
        self.sent: list[str | bytes] = []
        self.closed: tuple[int, str | None] | None = None

    def put(self, text: str) -> None:
        self.messages.put_nowait({"type": "websocket.receive", "text": text})

    async def receive(self) -> Message:
        return await self.messages.get()

    async def send_text(self, data: str) -> None:
        await self.writable.wait()
        self.sent.append(data)

    async def send_bytes(self, data: bytes) -> None:
        await self.writable.wait()
        self.sent.append(data)

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        self.closed = (code, reason)


class Echo(SocketLoop):
    """A protocol that sends back each frame."""

    def __init__(self, wire: Wire, app: Any) -> None:
        super().__init__(wire, app)
        self.stopped = 0
        self.work: asyncio.Task[None] | None = None

    async def receive(self, frame: str | bytes) -> None:
        if frame == "wait":
            await self.unless_gone(asyncio.sleep(60))
        elif frame == "fail":
            self.work = asyncio.create_task(fail())
        else:
            await self.send(frame)

    def speaking(self) -> set[asyncio.Task[None]]:
        return set() if self.work is None else {self.work}

    async def settle(self) -> None:
        if self.work is not None and self.work.done():
            self.work.result()

    async def tick(self, now: float) -> None:
        if now >= self.next_deadline():
            raise IdleTimeoutError("Nothing came.")

    async def drain(self) -> None:
        await self.send("draining")
        await self.close(1012)

    async def fail(self, error: ServiceError) -> None:
        await self.send(error.code)
        await self.close(error.close_code, error.message)

    async def stop(self) -> None:
        self.stopped += 1


async def fail() -> None:
    raise OverloadedError("ä" * 200)


def services(**settings: float) -> Any:
    known = {"idle_seconds": 30.0, "stall_seconds": 30.0} | settings
    return SimpleNamespace(settings=SimpleNamespace(**known), admission=Admission(max_streams=1))


def run(app: Any, *texts: str, then: str | Callable[[], None] = "") -> tuple[Echo, Wire]:
    """Serve a socket that sends `texts`. Then the server drains or aborts, the client leaves, or `then` is called."""

    async def scenario() -> tuple[Echo, Wire]:
        wire = Wire()
        echo = Echo(wire, app)
        for text in texts:
            wire.put(text)
        serving = asyncio.create_task(echo.serve())
        for _ in range(100):  # turns in which it reads what is there
            await asyncio.sleep(0)
        if callable(then):
            then()
        elif then == "gone":
            wire.messages.put_nowait({"type": "websocket.disconnect"})
        elif then:
            getattr(app.admission, then)()
        async with asyncio.timeout(60):
            await serving
        return echo, wire

    return asyncio.run(scenario())


def ended(app: Any, echo: Echo) -> bool:
    """Whether its work was stopped, and its slot given back."""
    return echo.stopped == 1 and app.admission.active == 0


def test_frames_are_carried_out_until_the_client_leaves() -> None:
    app = services()
    echo, wire = run(app, "one", "two", then="gone")
    assert wire.sent == ["one", "two"]
    assert wire.closed is None
    assert ended(app, echo)


def test_the_client_s_leaving_ends_the_work() -> None:
    app = services()
    echo, wire = run(app, "wait", "never read", then="gone")
    assert (wire.sent, wire.closed) == ([], None)
    assert ended(app, echo)


@pytest.mark.parametrize(("texts", "then"), [((), "drain"), ((), "abort"), (("wait",), "abort")])
def test_the_end_of_the_server_ends_the_socket(texts: tuple[str, ...], then: str) -> None:
    app = services()
    echo, wire = run(app, *texts, then=then)
    assert wire.sent == ["draining"]
    assert wire.closed is not None
    assert wire.closed[0] == 1012
    assert ended(app, echo)


def test_silence_is_an_error(silence_clock: Any) -> None:
    app = services(idle_seconds=0.1)

    def wait() -> None:
        silence_clock.now += 0.2

    echo, wire = run(app, "one", then=wait)
    assert wire.sent == ["one", "idle_timeout"]
    assert wire.closed == (1008, "Nothing came.")
    assert ended(app, echo)


def test_the_error_of_a_task_ends_the_socket_with_a_reason_that_fits() -> None:
    app = services()
    echo, wire = run(app, "fail")
    assert wire.sent == ["overloaded"]
    assert wire.closed is not None
    code, reason = wire.closed
    assert code == 1013
    assert reason == "ä" * (MAX_REASON // 2)
    assert ended(app, echo)


def test_a_client_that_reads_nothing_is_left() -> None:
    app = services(stall_seconds=0.1)

    async def scenario() -> Echo:
        wire = Wire()
        wire.writable.clear()
        wire.put("one")
        echo = Echo(wire, app)
        async with asyncio.timeout(60):
            await echo.serve()
        assert (wire.sent, wire.closed) == ([], None)
        return echo

    assert ended(app, asyncio.run(scenario()))


def test_a_socket_without_a_slot_is_told_and_takes_none() -> None:
    app = services()

    async def scenario() -> tuple[Echo, Wire]:
        app.admission.admit()
        wire = Wire()
        echo = Echo(wire, app)
        async with asyncio.timeout(60):
            await echo.serve()
        return echo, wire

    echo, wire = asyncio.run(scenario())
    assert wire.sent == ["overloaded"]
    assert wire.closed is not None
    assert echo.stopped == 1
    assert app.admission.active == 1


def test_closing_ends_the_loop() -> None:
    async def scenario() -> None:
        wire = Wire()
        with pytest.raises(SocketClosedError):
            await Echo(wire, services()).close(1000, "done")
        assert wire.closed == (1000, "done")

    asyncio.run(scenario())
