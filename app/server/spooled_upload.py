"""Uploads that come piece by piece: bodies that a spool counts, and bytes that are kept outside of a form."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO, Final, cast

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.types import Message

from app.engine.spool import Spool
from app.errors import BodyTooLargeError, OverloadedError, storage_error

# Bytes that stay in memory.
IN_MEMORY: Final = 1 << 20


@contextmanager
def spooled(request: Request, spool: Spool) -> Iterator[Request]:
    """Yield `request`, whose body `spool` counts as it comes. Reads raise OverloadedError once it has no place."""
    waiting = asyncio.timeout(None)

    def lose(_: OverloadedError) -> None:
        with suppress(RuntimeError):  # nothing is awaited; the next read raises
            waiting.reschedule(0)

    async def receive() -> Message:
        nonlocal waiting
        message: Message = {}
        place.add(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as waiting:
                message = await request.receive()
        place.add(len(message.get("body", b"")), last=not message.get("more_body", False))
        return message

    with closing(spool.place(lose)) as place:
        yield Request(request.scope, receive)


class SpooledUpload:
    """Bytes of one upload, at most `limit`. `close` it in the end."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._limit = limit
        file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  (`close` closes it)
        self._file = UploadFile(cast(BinaryIO, file), size=0)

    async def write(self, data: bytes) -> None:
        """Add some bytes. Raises BodyTooLargeError and StorageError."""
        if self.size + len(data) > self._limit:
            raise BodyTooLargeError(f"The recording is too large; at most {self._limit} bytes are accepted.")
        try:
            await self._file.write(data)
        except OSError as error:
            raise storage_error("The upload cannot be stored", error) from error
        self.size += len(data)

    async def read(self) -> bytes:
        """Return all bytes. Raises StorageError."""
        try:
            await self._file.seek(0)
            return await self._file.read()
        except OSError as error:
            raise storage_error("The upload cannot be read", error) from error

    async def close(self) -> None:
        """Delete the bytes. Later calls change nothing."""
        await self._file.close()
