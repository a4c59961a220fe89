"""Bytes of a successful `POST /v1/audio/speech`: one piece with its length, a stream, or server-sent events."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, field, replace

from starlette.types import Send

from app.audio.encoders import INFO, Container, Encoder, Format, encode, make_encoder
from app.errors import ServiceError
from app.server.error_responses import sse_error
from app.speech.stream import SpeechStream, SpokenChunk
from models.timeline import Stage

# Tokens per second that are reported for a model that draws none: the rate of Kokoro's frames.
TOKENS_PER_SECOND = 40


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """Form of a reply.

    `rate`: sample rate in Hz. `sse`: as server-sent events. `characters`: length of the input. `stall_seconds`: longest
    write. `container` and `bit_rate`: see `make_encoder`. `extra`: further headers.
    """

    format: Format
    rate: int
    sse: bool
    characters: int
    stall_seconds: float
    container: Container = "none"
    bit_rate: int | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


class Reply:
    """Writer of one successful answer. `media_type`: None is that of the format, or of events."""

    media_type: str | None = None

    def __init__(self, stream: SpeechStream, send: Send, form: ReplyForm) -> None:
        self.started = False
        self._stream = stream
        self._send = send
        self._form = form

    async def whole(self, only: SpokenChunk) -> None:
        """Send one piece with its length: all of it is encoded first."""
        encoder = self._encoder(whole=True)
        data = await self._encode(encoder, only, last=True)
        self._stream.delivered(only)
        sent = self._delta(data) + self._sse_done() if self._form.sse else data
        # One timer for both writes: to set it twice takes longer than they do.
        await self._in_time(self._at_once(None if self._form.sse else len(data), sent))

    async def streamed(self, first: SpokenChunk, rest: AsyncIterator[SpokenChunk]) -> None:
        """Send each piece as it comes. Raises the error that stops it, after telling a client that can be told."""
        self._stream.labels = replace(self._stream.labels, streaming=True)
        encoder = self._encoder()
        data = await self._encode(encoder, first)
        await self._start(None)
        try:
            await self._audio(first, data)
            async for chunk in rest:
                await self._audio(chunk, await self._encode(encoder, chunk))
        except ServiceError as error:
            if self._form.sse:
                await self._body(sse_error(error), more=True)
            raise
        with self._stream.timeline.measure(Stage.AUDIO_ENCODE):
            tail = await encode(encoder, None)
        await self._body(self._piece(tail, None) + (self._sse_done() if self._form.sse else b""), more=False)

    def _encoder(self, *, whole: bool = False) -> Encoder:
        own = self._stream.speech.synthesizer.sample_rate
        form = self._form
        return make_encoder(form.format, own, form.rate, form.container, form.bit_rate, whole=whole)

    async def _encode(self, encoder: Encoder, chunk: SpokenChunk, *, last: bool = False) -> bytes:
        with self._stream.timeline.measure(Stage.AUDIO_ENCODE):
            return await encode(encoder, chunk.pcm, last=last)

    async def _audio(self, chunk: SpokenChunk, data: bytes) -> None:
        self._stream.delivered(chunk, sent=bool(data))
        if piece := self._piece(data, chunk):
            await self._body(piece, more=True)

    def _piece(self, data: bytes, chunk: SpokenChunk | None) -> bytes:
        """Return the bytes to send for `chunk`, encoded as `data`; None is the end of the stream."""
        return self._delta(data) if data and self._form.sse else data

    async def _start(self, length: int | None) -> None:
        await self._in_time(self._head(length))

    async def _head(self, length: int | None) -> None:
        usual = "text/event-stream" if self._form.sse else self._media_type
        media_type = self.media_type or usual
        headers = {
            "content-type": media_type,
            "server-timing": self._stream.timeline.server_timing(),
            "x-sample-rate": str(self._form.rate),
            "x-watermark": self._stream.speech.watermark,
            "cache-control": "no-store",
            **self._form.extra,
        }
        if length is not None:
            headers["content-length"] = str(length)
        raw = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
        self.started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    @property
    def _media_type(self) -> str:
        return INFO["wav" if self._form.container == "wav" else self._form.format].media_type

    async def _at_once(self, length: int | None, data: bytes) -> None:
        await self._head(length)
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def _body(self, data: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": more}
        await self._in_time(self._send(message))

    async def _in_time(self, sending: Awaitable[None]) -> None:
        """Wait for a write, at most `stall_seconds`: a client that reads nothing must not hold its slot."""
        async with asyncio.timeout(self._form.stall_seconds):
            await sending

    @staticmethod
    def _delta(data: bytes) -> bytes:
        event = {"type": "speech.audio.delta", "audio": base64.b64encode(data).decode("ascii")}
        return b"data: " + json.dumps(event).encode() + b"\n\n"

    def _sse_done(self) -> bytes:
        timeline = self._stream.timeline
        spoken = timeline.tokens or round(timeline.audio_seconds * TOKENS_PER_SECOND)
        heard = self._form.characters
        usage = {"input_tokens": heard, "output_tokens": spoken, "total_tokens": heard + spoken}
        return b"data: " + json.dumps({"type": "speech.audio.done", "usage": usage}).encode() + b"\n\n"
