"""Bytes of a successful `POST /v1/audio/speech`: one piece with its length, a stream, or server-sent events.

Where the request names no format, the `Accept` header chooses it (RFC 9110 section 12.5.1).
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from starlette.types import Send

from app.audio.encoders import FORMATS, INFO, Container, Format, StreamEncoder, encode, make_encoder
from app.speech.sentence import SpokenChunk
from app.speech.stream import SpeechStream
from app.speech.verifier import VerificationReport
from models.timeline import Stage

# Tokens per second that are reported for a model that draws none: the rate of Kokoro's frames.
TOKENS_PER_SECOND = 40
# Bytes of audio that are sent at once.
MAX_WRITE_BYTES = 1 << 20

# Characters that are read: no client's list is as long.
_MAX_ACCEPT_CHARACTERS = 2_000
# A media range and its parameters. In quotes, a comma or a semicolon separates nothing.
_RANGES = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_PARAMETERS = re.compile(r';\s*([\w.-]+)\s*=\s*("(?:\\.|[^"\\])*"?|[^;\s]*)')
_MEDIA_TYPES: dict[str, Format] = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/pcm": "pcm",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/ogg": "opus",
    "audio/opus": "opus",
    "audio/aac": "aac",
    "audio/x-aac": "aac",
    "audio/basic": "mulaw",
    "audio/pcmu": "mulaw",
    "audio/pcma": "alaw",
}


def negotiate(accept: str, default: Format) -> Format:
    """Return the format with the highest quality in `accept`; of several `default`, else the one named first.

    Return `default` also if `accept` has no audio: a client that sends `application/json` takes audio all the same.
    """
    named: dict[Format, float] = {}
    others = 0.0
    exact = -1
    for match in _RANGES.finditer(accept[:_MAX_ACCEPT_CHARACTERS]):
        kind, quality, codecs = _range(match.group())
        name = _MEDIA_TYPES.get(kind)
        if name is not None and codecs in ("", "opus" if name == "opus" else codecs):
            named[name] = max(quality, named.get(name, 0.0))
        elif kind in ("audio/*", "*/*"):
            # The narrower of the two decides, in any order.
            width = ("*/*", "audio/*").index(kind)
            others, exact = (quality, width) if width > exact else (others, exact)
    liked = {name: named.get(name, others) for name in dict.fromkeys((default, *named, *FORMATS))}
    best = max(liked.values())
    return default if best <= 0.0 else next(name for name, quality in liked.items() if quality == best)


def _range(text: str) -> tuple[str, float, str]:
    """Return the media type, quality in [0, 1] and `codecs` of one range; a malformed one has the quality 0."""
    kind = text.partition(";")[0].strip().lower()
    parameters = {key.lower(): value.strip('"').lower() for key, value in _PARAMETERS.findall(text)}
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        quality = 0.0
    return kind, quality if math.isfinite(quality) and 0.0 <= quality <= 1.0 else 0.0, parameters.get("codecs", "")


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


async def encode_chunk(
    encoder: StreamEncoder, stream: SpeechStream, chunk: SpokenChunk | None, *, last: bool = False
) -> bytes:
    """Return the encoded audio of `chunk`, which may be empty while a codec holds it; None, or `last`: and the end."""
    with stream.timeline.measure(Stage.AUDIO_ENCODE):
        return await encode(encoder, None if chunk is None else chunk.pcm, last=last)


async def encode_whole(
    encoder: StreamEncoder, stream: SpeechStream, first: SpokenChunk, rest: AsyncIterator[SpokenChunk]
) -> tuple[list[bytes], list[SpokenChunk]]:
    """Return the encoded audio of all chunks, in pieces, and the chunks without theirs."""
    data, known = [await encode_chunk(encoder, stream, first)], [first.without_audio()]
    async for chunk in rest:
        data.append(await encode_chunk(encoder, stream, chunk))
        known.append(chunk.without_audio())
    data.append(await encode_chunk(encoder, stream, None))
    return data, known


def pieces_of(data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield audio in pieces of at most MAX_WRITE_BYTES: one write of all of it would stop other requests."""
    for each in data:
        for start in range(0, len(each), MAX_WRITE_BYTES):
            yield each[start : start + MAX_WRITE_BYTES]


class Reply:
    """Writer of one successful answer. `media_type`: None is that of the format, or of events."""

    media_type: str | None = None

    def __init__(self, stream: SpeechStream, send: Send, form: ReplyForm) -> None:
        self.started = False
        self._stream = stream
        self._send = send
        self._form = form

    async def whole(self, first: SpokenChunk, rest: AsyncIterator[SpokenChunk] | None = None) -> None:
        """Send one piece with its length: all of it is encoded first. `rest`: what comes after `first`, if anything."""
        encoder = self._encoder(whole=True)
        data, chunks = b"", [first]
        if rest is None:
            data = await encode_chunk(encoder, self._stream, first, last=True)
        else:
            parts, chunks = await encode_whole(encoder, self._stream, first, rest)
        for chunk in chunks:
            self._stream.delivered(chunk)
        report = await self._stream.verification()
        if report is not None:
            self._form = replace(self._form, extra={**self._form.extra, **report.headers()})
        if rest is not None:
            await self._start(sum(map(len, parts)))
            for piece in pieces_of(parts):
                await self._body(piece, more=True)
            await self._body(b"", more=False)
            return
        sent = self._delta(data) + self._sse_done(report) if self._form.sse else data
        # One timer for both writes: to set it twice takes longer than they do.
        await self._in_time(self._at_once(None if self._form.sse else len(data), sent))

    async def streamed(self, first: SpokenChunk, rest: AsyncIterator[SpokenChunk]) -> None:
        """Send each piece as it comes. Raises the error that stops it."""
        self._stream.labels = replace(self._stream.labels, streaming=True)
        encoder = self._encoder()
        data = await encode_chunk(encoder, self._stream, first)
        await self._start(None)
        await self._audio(first, data)
        async for chunk in rest:
            await self._audio(chunk, await encode_chunk(encoder, self._stream, chunk))
        tail = await encode_chunk(encoder, self._stream, None)
        done = self._sse_done(await self._stream.verification()) if self._form.sse else b""
        await self._body(self._piece(tail, None) + done, more=False)

    def _encoder(self, *, whole: bool = False) -> StreamEncoder:
        own = self._stream.speech.synthesizer.sample_rate
        form = self._form
        return make_encoder(form.format, own, form.rate, form.container, form.bit_rate, whole=whole)

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
        usual = INFO["wav" if self._form.container == "wav" else self._form.format].media_type
        headers = {
            "content-type": self.media_type or ("text/event-stream" if self._form.sse else usual),
            "server-timing": self._stream.timeline.server_timing(),
            "x-sample-rate": str(self._form.rate),
            "x-watermark": self._stream.speech.watermark,
            "cache-control": "no-store",
            **self._form.extra,
        }
        if (source := self._stream.cached) is not None:
            headers["x-cache"] = source
        if length is not None:
            headers["content-length"] = str(length)
        raw = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
        self.started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

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

    def _sse_done(self, report: VerificationReport | None) -> bytes:
        timeline = self._stream.timeline
        spoken = timeline.tokens or round(timeline.audio_seconds * TOKENS_PER_SECOND)
        heard = self._form.characters
        usage = {"input_tokens": heard, "output_tokens": spoken, "total_tokens": heard + spoken}
        done: dict[str, object] = {"type": "speech.audio.done", "usage": usage}
        if report is not None:
            done["verification"] = report.fields()
        return b"data: " + json.dumps(done).encode() + b"\n\n"
