"""Upload that comes piece by piece, outside of a form: a small one in memory, a large one on the disk."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO, Final, cast

from starlette.datastructures import UploadFile

from app.engine.spool import Spool
from app.errors import BodyTooLargeError, storage_error

log = logging.getLogger(__name__)

# Bytes that stay in memory, and that the spool counts at a time.
STEP: Final = 1 << 20


class SpooledUpload:
    """Bytes of one upload, at most `limit`, which `spool` counts as they come. Its end as a context deletes them."""

    def __init__(self, spool: Spool, limit: int) -> None:
        self.size = 0
        self._spool = spool
        self._limit = limit
        self._places = ExitStack()
        self._held = 0
        file = tempfile.SpooledTemporaryFile(max_size=STEP)  # noqa: SIM115  (`close` closes it)
        self._file = UploadFile(cast(BinaryIO, file), size=0)

    async def __aenter__(self) -> SpooledUpload:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def write(self, data: bytes) -> None:
        """Add some bytes. Raises BodyTooLargeError, OverloadedError and StorageError."""
        if self.size + len(data) > self._limit:
            raise BodyTooLargeError(f"The recording is too large; at most {self._limit} bytes are accepted.")
        while self._held < self.size + len(data):
            step = min(STEP, self._limit - self._held)
            self._places.enter_context(self._spool.place(step))
            self._held += step
        try:
            await self._file.write(data)
        except OSError as error:
            log.error("an upload cannot be stored: %s", error)
            raise storage_error("The upload cannot be stored", error) from error
        self.size += len(data)

    async def read(self) -> bytes:
        """Return all bytes. Raises StorageError."""
        try:
            await self._file.seek(0)
            return await self._file.read()
        except OSError as error:
            log.error("an upload cannot be read: %s", error)
            raise storage_error("The upload cannot be read", error) from error

    async def close(self) -> None:
        """Delete the bytes. Later calls change nothing."""
        self._places.close()
        await self._file.close()
