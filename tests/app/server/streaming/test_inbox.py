"""Messages that are read ahead."""

import asyncio

import pytest
from starlette.types import Message

from app.server.streaming.inbox import AHEAD, INBOX, Inbox


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
