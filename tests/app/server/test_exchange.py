"""Outcomes of a request whose answer is computed by a stream. A request's work ends with its client, and the server."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope
from starlette.websockets import WebSocketDisconnect, WebSocketDisconnected

from app.config import Settings
from app.engine.admission import Admission
from app.errors import DrainingError, EmptyInputError, ModelFailedError, ServiceError
from app.server.exchange import ClientGoneError, StreamExchange, recorded, until_gone
from models.contract import Cancelled

pytestmark = pytest.mark.anyio

# Seconds: before the client is watched, and while it is.
AFTER = (0, 0.004)
SCOPE: Scope = {"type": "http", "path": "/v1/audio/speech", "headers": []}


class Stream:
    """A computation that notes its outcome."""

    outcome: str | None = None

    def close(self, outcome: str) -> None:
        self.outcome = outcome


class Answer(StreamExchange[Any]):
    """Answers `ok`, or fails before its first byte."""

    def __init__(self, app: Any, error: Exception | None = None) -> None:
        super().__init__(app)
        self.stream = Stream()
        self._error = error

    async def prepare(self) -> Stream:
        return self.stream

    async def answer(self, stream: Stream) -> None:
        if self._error is not None:
            raise self._error
        await self.send({"type": "http.response.start", "status": 200, "headers": []})
        await self.send({"type": "http.response.body", "body": b"ok"})

    def note_rejected(self) -> None: ...


def services() -> Any:
    return SimpleNamespace(admission=Admission(max_streams=1), settings=Settings())


async def serve(answer: Answer) -> list[Message]:
    """Return what is sent to a client that leaves after the last byte."""
    sent, gone = list[Message](), asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            gone.set()

    await answer(SCOPE, receive, send)
    return sent


async def test_a_failure_of_the_program_is_not_hidden() -> None:
    answer = Answer(services(), ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await serve(answer)
    assert answer.stream.outcome == "failed"
    assert answer.app.admission.active == 0


async def test_a_client_that_leaves_after_its_last_byte_was_served() -> None:
    answer = Answer(services())
    await serve(answer)
    assert answer.stream.outcome == "ok"


@pytest.mark.parametrize(
    ("error", "started", "outcome"),
    [
        (None, True, "ok"),
        (EmptyInputError("no"), False, "rejected"),
        (EmptyInputError("no"), True, "failed"),
        (ModelFailedError("no"), False, "failed"),
        (ZeroDivisionError(), True, "failed"),
        (TimeoutError(), True, "cancelled"),
        (OSError(), True, "cancelled"),
        (ClientGoneError(), True, "cancelled"),
        (WebSocketDisconnect(), True, "cancelled"),
        (WebSocketDisconnected(), True, "cancelled"),
        (Cancelled(), True, "cancelled"),
        (asyncio.CancelledError(), False, "cancelled"),
    ],
)
async def test_one_rule_of_outcomes(error: BaseException | None, started: bool, outcome: str) -> None:
    stream = Stream()
    with nullcontext() if error is None else pytest.raises(type(error)):
        async with recorded(stream, lambda: started):
            if error is not None:
                raise error
    assert stream.outcome == outcome


async def test_a_request_is_checked_before_it_takes_a_slot() -> None:
    class Checked(Answer):
        def check(self, headers: Any) -> None:
            assert self.app.admission.active == 0
            raise ServiceError("no")

        def refusal(self, error: ServiceError) -> Any:
            return PlainTextResponse("mine", 418)

    sent = await serve(Checked(services()))
    assert sent[0]["status"] == 418


# A request's work ends with its client, and with the server.


class Life:
    """Events that may end a piece of work, and its result."""

    def __init__(self) -> None:
        self.gone, self.aborted, self.free = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.ended = ""

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def abort(self) -> None:
        await self.aborted.wait()

    async def work(self) -> None:
        try:
            await self.free.wait()
            self.ended = "done"
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise

    async def run(self) -> None:
        await until_gone(self.receive, self.abort(), self.work())


def begin() -> tuple[Life, asyncio.Task[None]]:
    life = Life()
    return life, asyncio.create_task(life.run())


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize(("what", "error"), [("gone", ClientGoneError), ("aborted", DrainingError)])
async def test_work_is_cancelled_by_either(what: str, error: type[Exception], after: float) -> None:
    life, task = begin()
    await asyncio.sleep(after)
    getattr(life, what).set()
    with pytest.raises(error):
        await task
    assert life.ended == "cancelled"
    assert task.cancelling() == 0


@pytest.mark.parametrize("after", AFTER)
async def test_work_that_is_done_is_done_though_the_client_goes_in_the_same_moment(after: float) -> None:
    life, task = begin()
    await asyncio.sleep(after)
    life.gone.set()
    life.free.set()
    await task
    # Nothing of it comes later.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert life.ended == "done"


@pytest.mark.parametrize("after", AFTER)
async def test_who_cancels_the_whole_is_not_taken_for_the_client(after: float) -> None:
    life, task = begin()
    await asyncio.sleep(after)
    life.gone.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert life.ended == "cancelled"


async def test_what_work_raises_comes_through() -> None:
    async def fail() -> None:
        await asyncio.sleep(0.002)
        raise ValueError("this")

    before, life = asyncio.all_tasks(), Life()
    with pytest.raises(ValueError, match="this"):
        await until_gone(life.receive, life.abort(), fail())
    assert asyncio.all_tasks() == before
