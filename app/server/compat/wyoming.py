"""Wyoming over TCP (github.com/OHF-Voice/wyoming): what Home Assistant speaks to its voices.

An event is a line of JSON, `data_length` bytes of JSON and `payload_length` bytes. `describe` is answered by `info`,
`ping` by `pong`; `synthesize` speaks a text, and `synthesize-start`, `-chunk`, `-stop` one that is still being written:
its sentences are spoken as they are completed, cleaned as a language model's. Each is one session of the service's own
protocol. Audio goes out as `audio-start`, `audio-chunk` and `audio-stop`, and `synthesize-stopped` ends a stream.

An `error` event ends the connection: clients that wait for audio look for nothing else. The protocol has no keys, so
it listens on this machine alone unless `wyoming_host` says otherwise.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ValidationError
from starlette.types import Message

from app import __version__, request_context
from app.engine.admission import TokenBucket
from app.engine.model_state import ModelStatus
from app.errors import (
    BodyTooLargeError,
    EmptyInputError,
    IdleTimeoutError,
    InvalidRequestError,
    NothingToSpeakError,
    OverloadedError,
    ProtocolError,
    ServiceError,
)
from app.observability import metrics
from app.server.compat.model_voice import model_and_voice
from app.server.connections import ShutPeer
from app.server.disconnect import INBOX
from app.server.error_responses import note_error
from app.server.middleware.websocket_limits import BURST_SECONDS
from app.server.routes.stream import Connection
from app.server.state import Services
from app.server.streaming import events
from app.voices.aliases import describe
from models.contract import Synthesizer, Translator

log = logging.getLogger(__name__)

WIDTH: Final = 2
# Seconds between two looks at a client that sends nothing more.
SIGN_EVERY: Final = 0.25
# Languages are listed as BCP-47 writes them, which Home Assistant compares with its own.
_ATTRIBUTION: Final = {"name": "Nightingale", "url": "https://github.com/OHF-Voice/wyoming"}
# Errors after which a stream simply has no audio: a language model's reply may be nothing but an emoji.
_SILENT: Final = (EmptyInputError.code, NothingToSpeakError.code)


class _Voice(BaseModel):
    name: events.UnicodeText | None = None
    language: events.UnicodeText | None = None


class _Begin(BaseModel):
    """`synthesize-start`, and what `synthesize` has besides its text."""

    voice: _Voice | None = None
    text_format: events.UnicodeText | None = None


class _Text(BaseModel):
    text: events.UnicodeText


class _Ping(BaseModel):
    text: events.UnicodeText | None = None


class WyomingServer:
    """Listens, and serves every client in a task of its own."""

    def __init__(self, app: Services) -> None:
        self._app = app
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        limit = self._app.settings.max_frame_bytes
        self._server = await asyncio.start_server(self._serve, host, port, limit=limit)
        where = self._server.sockets[0].getsockname()
        log.info("Wyoming listens on tcp://%s:%d", where[0], where[1])

    async def stop(self) -> None:
        """Break every connection off."""
        if self._server is None:
            return
        self._server.close()
        for client in self._clients:
            client.cancel()
        if self._clients:
            await asyncio.wait(self._clients)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a client is served outside of a task")
        request_context.request_id.set(uuid.uuid4().hex)
        most = self._app.settings.max_streams
        full = len(self._clients) >= most
        if len(self._clients) >= 2 * most:
            # Not even those that are told so are all through.
            writer.transport.abort()
            return
        self._clients.add(task)
        try:
            client = _Client(reader, writer, self._app)
            if full:
                await client.refuse(OverloadedError("Too many clients are connected already; try again shortly."))
            else:
                await client.serve()
        except (OSError, TimeoutError):
            pass  # gone, or reads nothing: there is nobody to tell
        except asyncio.CancelledError:
            # The server stops. Streams' callback of asyncio would log a task that ends as cancelled.
            pass
        finally:
            await self._close(writer)
            self._clients.discard(task)

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Close once the last event is through, but wait no longer than for any other."""
        writer.close()
        try:
            async with asyncio.timeout(self._app.settings.stall_seconds):
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()


class _Client:
    """One TCP connection: events in, one utterance at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, app: Services) -> None:
        self._reader = reader
        self._writer = writer
        self._app = app
        self._utterance: _Utterance | None = None
        self._speaking: asyncio.Task[bool] | None = None
        self._streaming = False
        self._heard = False
        rate = app.settings.messages_per_second
        self._bucket = TokenBucket.full(rate, rate * BURST_SECONDS, time.monotonic())

    async def refuse(self, error: ServiceError) -> None:
        """Say why the connection ends."""
        note_error(error.code, error.status)
        await self.send("error", {"text": error.message, "code": error.code})

    async def serve(self) -> None:
        """Read until either side has enough."""
        reading = asyncio.create_task(self._read())
        try:
            while True:
                waiting: set[asyncio.Task[Any]] = {reading}
                settings = self._app.settings
                patience: float | None = settings.idle_seconds
                if not self._heard:
                    patience = min(settings.idle_seconds, settings.head_seconds)
                if self._speaking is not None:
                    # How long it waits for text is its session's to know.
                    waiting.add(self._speaking)
                    patience = None
                done, _ = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    raise IdleTimeoutError(f"Nothing was received for {patience:g} seconds.")
                if not await self._is_well():
                    return
                if reading.done():
                    event = reading.result()
                    if event is None:
                        await self._answer_the_rest()
                        return
                    self._count()
                    if not await self._handle(*event):
                        return
                    reading = asyncio.create_task(self._read())
        except ServiceError as error:
            await self.refuse(error)
        finally:
            reading.cancel()
            if self._speaking is not None:
                self._speaking.cancel()
                await asyncio.wait({self._speaking})

    def _count(self) -> None:
        """An event came. Raises ProtocolError where they come faster than they may."""
        self._heard = True
        now = time.monotonic()
        if self._bucket.wait(1, now) > 0:
            raise ProtocolError(f"At most {self._app.settings.messages_per_second} events a second are accepted.")
        self._bucket = self._bucket.take(1, now)

    async def _answer_the_rest(self) -> None:
        """The client sends nothing more: speak what came whole, unless it is gone."""
        if self._speaking is None or self._streaming:
            return
        peer = ShutPeer(self._writer.transport, time.monotonic())
        while not peer.is_gone():
            done, _ = await asyncio.wait({self._speaking}, timeout=SIGN_EVERY)
            if done:
                return
            if peer.is_due(time.monotonic()):
                # An answer to nothing, which clients drop.
                await self.send("pong")

    async def _is_well(self) -> bool:
        """Whether no utterance ended in an error; one that ended is forgotten."""
        if self._speaking is None or not self._speaking.done():
            return True
        well = self._speaking.result()
        self._speaking = self._utterance = None
        self._streaming = False
        return well

    async def _read(self) -> tuple[str, dict[str, Any]] | None:
        """The next event, its payload thrown away; None: the client closed. Raises ServiceError."""
        limit = self._app.settings.max_frame_bytes
        try:
            line = await self._reader.readline()
        except ValueError:  # asyncio's for a line above the limit
            raise BodyTooLargeError(f"A header of more than {limit} bytes.") from None
        if not line:
            return None
        header = _json_object(line, "header")
        kind, data = header.get("type"), header.get("data") or {}
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise ProtocolError("An event's header needs a 'type', a string; its 'data' must be an object.")
        size, payload = (_length(header, key, limit) for key in ("data_length", "payload_length"))
        try:
            if size:
                data = data | _json_object(await self._reader.readexactly(size), "data")
            if payload:
                await self._reader.readexactly(payload)
        except asyncio.IncompleteReadError:
            return None
        return kind, data

    async def _handle(self, kind: str, data: dict[str, Any]) -> bool:
        """Carry out an event; False: the connection is to end. Events of no meaning here are dropped, as is usual."""
        try:
            match kind:
                case "describe":
                    await self.send("info", info(self._app))
                case "ping":
                    await self.send("pong", {"text": _Ping.model_validate(data).text})
                case "synthesize" if not self._streaming:
                    text = _Text.model_validate(data).text
                    if not text.strip():
                        raise EmptyInputError("'text' is empty; send the text to speak.", param="text")
                    if not await self._begin(_Begin.model_validate(data), streaming=False):
                        return False
                    await self._put(events.Text(type="text", text=text))
                    await self._put(events.End(type="end"))
                # Home Assistant sends the whole text once more inside of a stream, for servers without streams.
                case "synthesize":
                    _Text.model_validate(data)
                case "synthesize-start":
                    if self._streaming:
                        raise ProtocolError("'synthesize-start' came twice; 'synthesize-stop' ends a stream.")
                    if not await self._begin(_Begin.model_validate(data), streaming=True):
                        return False
                    self._streaming = True
                case "synthesize-chunk" | "synthesize-stop":
                    if not self._streaming:
                        raise ProtocolError(f"'{kind}' came without 'synthesize-start'.")
                    if kind == "synthesize-chunk":
                        await self._put(events.Text(type="text", text=_Text.model_validate(data).text))
                    else:
                        self._streaming = False
                        await self._put(events.End(type="end"))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ProtocolError(f"'{where}' of '{kind}': {first['msg']}.") from None
        return True

    async def _begin(self, begin: _Begin, *, streaming: bool) -> bool:
        """Open an utterance once the one before it is through; False if that failed."""
        if self._speaking is not None:
            await asyncio.wait({self._speaking})
        if not await self._is_well():
            return False
        if begin.text_format not in (None, "text"):
            raise InvalidRequestError(f"Text format '{begin.text_format[:40]}' is not supported; send text.")
        voice = begin.voice or _Voice()
        model, name = (None, None) if voice.name is None else model_and_voice(voice.name, self._app.catalog)
        lang = None if name is not None or model is not None else voice.language
        start = events.Start(type="start", model=model, voice=name, lang=lang, input="llm" if streaming else "text")
        self._utterance = _Utterance(_Wire(self), self._app, start, streaming=streaming)
        self._speaking = asyncio.create_task(self._utterance.speak())
        return True

    async def _put(self, message: BaseModel) -> None:
        """Hand text to the utterance, as fast as it takes it; to one that ended: to nobody."""
        if self._utterance is None or self._speaking is None:
            return
        putting = asyncio.create_task(self._utterance.wire.inbox.put(message.model_dump_json()))
        await asyncio.wait({putting, self._speaking}, return_when=asyncio.FIRST_COMPLETED)
        putting.cancel()

    async def send(self, kind: str, data: dict[str, Any] | None = None, payload: bytes = b"") -> None:
        """Write an event. Raises TimeoutError when the client reads nothing for too long."""
        header: dict[str, Any] = {"type": kind, "version": __version__}
        body = json.dumps(data).encode() if data else b""
        if body:
            header["data_length"] = len(body)
        if payload:
            header["payload_length"] = len(payload)
        self._writer.write(json.dumps(header).encode() + b"\n" + body + payload)
        async with asyncio.timeout(self._app.settings.stall_seconds):
            await self._writer.drain()


class _Wire:
    """What stands for an utterance's socket: the text that the client sends, and its TCP connection."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self.inbox: asyncio.Queue[str] = asyncio.Queue(INBOX)
        self.rate = 0
        self.samples: int | None = None
        self.closed: int | None = None

    async def receive(self) -> Message:
        return {"type": "websocket.receive", "text": await self.inbox.get()}

    async def send_text(self, data: str) -> None:
        raise RuntimeError("messages go out as events")

    async def send_bytes(self, data: bytes) -> None:
        await self.begin()
        await self.client.send("audio-chunk", self._format(), data)
        self.samples = (self.samples or 0) + len(data) // WIDTH

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Note it: the connection outlives an utterance."""
        self.closed = code

    async def begin(self) -> None:
        """Announce the audio, once."""
        if self.samples is None:
            self.samples = 0
            await self.client.send("audio-start", self._format())

    async def end(self) -> None:
        """No more audio follows, if there was any."""
        if self.samples is not None:
            await self.client.send("audio-stop", {"timestamp": self._milliseconds})

    @property
    def _milliseconds(self) -> int:
        return (self.samples or 0) * 1000 // self.rate

    def _format(self) -> dict[str, int]:
        return {"rate": self.rate, "width": WIDTH, "channels": 1, "timestamp": self._milliseconds}


class _Utterance(Connection):
    """One text to speak: a session of its own on the client's connection."""

    surface: ClassVar[metrics.Surface] = "wyoming"

    def __init__(self, wire: _Wire, app: Services, start: events.Start, *, streaming: bool) -> None:
        super().__init__(wire, app)
        self.wire = wire
        self._start = start
        self._streaming = streaming
        self._answered = False

    async def speak(self) -> bool:
        """Speak it all; False: it came to no good end."""
        request_context.request_id.set(uuid.uuid4().hex)
        await self.serve()
        if self._streaming and not self._answered and self.wire.closed == 1000:
            # A stream of nothing is one that has no audio.
            await self._end()
        return self._answered

    async def _begin(self) -> None:
        await self._carry_out(self._session.accept(self._start))

    async def _tell(self, message: events.Outgoing) -> None:
        match message:
            case events.Ready():
                self.wire.rate = message.sample_rate
            case events.Done():
                await self._end()
            case events.Error(fatal=False, error=error) if self._streaming and error.code in _SILENT:
                await self._end()
            case events.Error(error=error):
                self._answered = False
                detail = {"text": error.message, "code": error.code, "request_id": error.request_id}
                await self._patiently(self.wire.client.send("error", detail))

    async def _end(self) -> None:
        await self._patiently(self._ending())
        self._answered = True

    async def _ending(self) -> None:
        await self.wire.end()
        if self._streaming:
            await self.wire.client.send("synthesize-stopped")


def info(app: Services) -> dict[str, Any]:
    """The programs of this server: the voices of the default model, then those of the other models that are loaded."""
    names = [app.speech.default_model]
    names += [each.name for each in app.catalog.models() if each.kind == "text-to-speech" and each.name not in names]
    programs = []
    for name in names:
        held = app.worker.state(name)
        if held.status is ModelStatus.READY and held.model is not None and not isinstance(held.model, Translator):
            programs.append(_program(name, held.model, default=name == app.speech.default_model))
    empty: list[dict[str, Any]] = []
    others = dict.fromkeys(("asr", "handle", "intent", "wake", "mic", "snd"), empty)
    return {"tts": programs, **others}


def _program(name: str, model: Synthesizer, *, default: bool) -> dict[str, Any]:
    artifact = {"attribution": _ATTRIBUTION, "installed": True, "version": __version__}
    voices = [
        {
            **artifact,
            "name": voice.id if default else f"{name}/{voice.id}",
            "description": f"{voice.id} ({describe(voice.gender, voice.language)})",
            "languages": [_tag(voice.language)],
            "speakers": None,
        }
        for voice in model.voices
    ]
    return {
        **artifact,
        "name": "nightingale" if default else f"nightingale-{name}",
        "description": f"Nightingale, model {name}",
        "voices": voices,
        "supports_synthesize_streaming": True,
    }


def _tag(language: str) -> str:
    """`en-us` as BCP-47 writes it: en-US."""
    primary, *rest = language.split("-")
    return "-".join([primary.lower(), *(part.upper() if len(part) == 2 else part.title() for part in rest)])


def _json_object(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError(f"The {what} of an event is not valid JSON.") from None
    if not isinstance(found, dict):
        raise ProtocolError(f"The {what} of an event must be a JSON object.")
    return found


def _length(header: dict[str, Any], key: str, limit: int) -> int:
    size = header.get(key)
    if size is None:
        return 0
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ProtocolError(f"'{key}' must be a number of bytes.")
    if size > limit:
        raise BodyTooLargeError(f"'{key}' is {size}; at most {limit} bytes are accepted.")
    return size
