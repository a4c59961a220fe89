"""Exchange whose request is a recording: its body is spooled, recognized, and answered in the form of a surface."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AsyncExitStack
from dataclasses import replace

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.observability import metrics
from app.recognition.service import RecognitionOptions
from app.recognition.stream import RecognitionStream
from app.server.error_responses import header_text
from app.server.exchange import StreamExchange
from app.server.spooled_upload import SpooledUpload, spooled
from app.server.state import Services
from models.timeline import Timeline


class RecordingExchange(StreamExchange[RecognitionStream]):
    """Response to a request for a transcript. It reads the body, too, and holds it while it is needed."""

    def __init__(self, app: Services, surface: metrics.SurfaceName) -> None:
        super().__init__(app)
        self.labels = metrics.Labels(model="none", surface=surface, streaming=False)

    @abstractmethod
    async def read(self, request: Request, held: AsyncExitStack) -> None:
        """Read the body; `held` frees it in the end. Raises ServiceError."""

    @abstractmethod
    def options(self) -> RecognitionOptions:
        """Return the options of the recognition. Raises ServiceError."""

    @abstractmethod
    async def recording(self) -> bytes:
        """Return the recording. Raises ServiceError."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, and answer. The request takes a slot only then: its sender may be slow."""
        async with AsyncExitStack() as held:
            try:
                request = held.enter_context(spooled(Request(scope, receive), self.app.recognition.spool))
                await self.read(request, held)
            except ClientDisconnect:
                await Response(status_code=400)(scope, receive, send)  # nobody reads it
                return
            # A slow sender's time is its own.
            self.timeline = Timeline()
            await super().__call__(scope, receive, send)

    async def read_bytes(self, request: Request, held: AsyncExitStack, limit: int | None = None) -> SpooledUpload:
        """Return the body as it is, of at most `limit` bytes; None: `max_recording_bytes`. Raises ServiceError."""
        most = self.app.settings.max_recording_bytes if limit is None else limit
        upload = SpooledUpload(most)
        held.push_async_callback(upload.close)
        async for part in request.stream():
            await upload.write(part)
        return upload

    async def prepare(self) -> RecognitionStream:
        """Return a stream that recognizes the recording. Raises what `RecognitionService.prepare` raises."""
        recognition = self.app.recognition
        prepared = await recognition.prepare(self.options(), self.recording, self.timeline, self.progress())
        labels = replace(self.labels, model=prepared.model)
        self._stream = RecognitionStream(recognition, prepared, self.timeline, labels)
        return self._stream

    async def respond_whole(self, body: str, media_type: str, **headers: str) -> None:
        """Send the whole answer. The header `x-warning` says why text was left out."""
        headers = {"server-timing": self.timeline.server_timing(), "cache-control": "no-store"} | headers
        if self._stream.warning is not None:
            headers["x-warning"] = header_text(self._stream.warning)
        await self.respond_in_time(Response(body, headers=headers, media_type=media_type))

    def note_rejected(self) -> None:
        """Count a request that is refused before anything is computed."""
        metrics.record_recognition(self.timeline, self.labels, "rejected", 0.0)
