"""Messages that are read ahead."""

import asyncio

import pytest
from starlette.types import Message

from app.server.streaming.inbox import AHEAD, COLLECT_BYTES, INBOX, Inbox


@pytest.mark.anyio
@pytest.mark.parametrize(("size", "ahead"), [(1, INBOX + 2), (AHEAD + 1, 1)])
async def test_nothing_is_read_ahead_of_a_large_message(size: int, ahead: int) -> None:
    class Endless:
        read = 0

        async def receive(self) -> Message:
            self.read += 1
            return {"type": "websocket.receive", "text": "x" * size}

    socket = Endless()
    inbox = Inbox(socket)
    listening = asyncio.create_task(inbox.listen())
    await inbox.frame()
    for done in range(3):
        for _ in range(20):
            await asyncio.sleep(0)
        assert socket.read == done + ahead
        if inbox.waiting() is None:
            await inbox.frame()
    listening.cancel()


@pytest.mark.anyio
async def test_what_large_messages_leave_is_collected_when_sockets_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.streaming.inbox.Inbox._left", 0)

    class Two:
        def __init__(self) -> None:
            large = {"type": "websocket.receive", "bytes": b"x" * (COLLECT_BYTES // 2)}
            self.left: list[Message] = [large, {"type": "websocket.disconnect"}]

        async def receive(self) -> Message:
            return self.left.pop(0)

    found = []
    for _ in range(4):
        inbox = Inbox(Two())
        listening = asyncio.create_task(inbox.listen())
        await inbox.frame()
        inbox.waiting()
        await listening
        found.append(inbox.leaves_much())
    assert found == [False, True, False, True]
