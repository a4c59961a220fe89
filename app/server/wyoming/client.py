"""One client of Wyoming: its events, and the synthesis or the transcript that they ask for."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from app import request_context
from app.engine.admission import TokenBucket
from app.errors import EmptyInputError, IdleTimeoutError, InvalidRequestError, ProtocolError, ServiceError
from app.server.connections import ShutPeer
from app.server.error_responses import note_error
from app.server.exchange import first_error
from app.server.middleware.limits import BURST_SECONDS
from app.server.model_voice import model_and_voice
from app.server.schemas import UnicodeText
from app.server.state import Services
from app.server.streaming import events
from app.server.streaming.inbox import SocketClosedError
from app.server.streaming.session_socket import SessionSocket
from app.server.wyoming.adapter import END, SynthesisSocket, WyomingAdapter
from app.server.wyoming.framing import Event, encode_event, read_event
from app.server.wyoming.info import info
from app.server.wyoming.transcription import AudioFormat, Transcribe, Transcription

# Seconds between two looks at a client that sends nothing more.
HEARTBEAT_SECONDS: Final = 0.25


class _Voice(BaseModel):
    name: UnicodeText | None = None
    language: UnicodeText | None = None


class _Begin(BaseModel):
    """Data of `synthesize-start`, and of `synthesize` besides its text."""

    voice: _Voice | None = None
    text_format: UnicodeText | None = None


class _Text(BaseModel):
    text: UnicodeText


class _Ping(BaseModel):
    text: UnicodeText | None = None


class WyomingClient:
    """TCP connection of one client, with one synthesis or recognition at a time.

    An `error` event ends the connection: clients that wait for audio or a transcript look for nothing else.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, app: Services) -> None:
        self._reader = reader
        self._writer = writer
        self._app = app
        self._socket: SynthesisSocket | None = None
        self._work: asyncio.Task[bool] | None = None
        self._streaming = False
        self._request: Transcribe | None = None
        self._recording: Transcription | None = None
        # Why the recording that comes is given up.
        self._lost: asyncio.Future[ServiceError] = asyncio.get_running_loop().create_future()
        self._heard = False
        rate = app.settings.messages_per_second
        self._bucket = TokenBucket.full(rate, rate * BURST_SECONDS, time.monotonic())

    async def refuse(self, error: ServiceError) -> None:
        """Send the error that ends the connection."""
        note_error(error.code, error.status)
        await self._send("error", {"text": error.message, "code": error.code})

    async def serve(self) -> None:
        """Serve until either side ends the connection."""
        reading = asyncio.create_task(self._read())
        try:
            while True:
                waiting: set[asyncio.Future[Any]] = {reading, self._lost}
                if self._work is not None:
                    waiting.add(self._work)
                # The work has a limit of its own.
                settings = self._app.settings
                first = settings.idle_seconds if self._heard else min(settings.idle_seconds, settings.head_seconds)
                patience = first if self._work is None else None
                done, _ = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    raise IdleTimeoutError(f"Nothing was received for {patience:g} seconds.")
                self._settle()
                if self._lost.done():
                    raise self._lost.result()
                if reading.done():
                    event = reading.result()
                    if event is None:
                        # The client sends nothing more. It hears what it asked for, if that is whole.
                        if not self._streaming:
                            await self._end_work()
                        return
                    await self._count(event)
                    await self._handle(event)
                    reading = asyncio.create_task(self._read())
        except SocketClosedError:
            pass  # the synthesis sent its error
        except ServiceError as error:
            await self.refuse(error)
        finally:
            reading.cancel()
            if self._work is not None:
                self._work.cancel()
                await asyncio.wait({self._work})
            if self._recording is not None:
                await self._recording.close()

    async def _read(self) -> Event | None:
        settings = self._app.settings
        return await read_event(self._reader, settings.max_frame_bytes, settings.max_audio_frame_bytes, self._app.turns)

    async def _send(self, kind: str, data: dict[str, Any] | None = None) -> None:
        await self._write(encode_event(kind, data))

    async def _write(self, event: bytes) -> None:
        """Write an event. Raises TimeoutError where the client reads nothing for `stall_seconds`, and OSError."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client left")
        self._writer.write(event)
        async with asyncio.timeout(self._app.settings.stall_seconds):
            await self._writer.drain()

    # Limits.

    async def _count(self, event: Event) -> None:
        """Count an event. Raises ProtocolError where events come faster than they may; audio is read slowly instead."""
        self._heard = True
        now = time.monotonic()
        wait = self._bucket.wait(1, now)
        if wait > 0:
            if not event.kind.startswith("audio-"):
                raise ProtocolError(f"At most {self._app.settings.messages_per_second} events a second are accepted.")
            await asyncio.sleep(wait)
        self._bucket = self._bucket.take(1, now + wait)

    def _settle(self) -> None:
        """Forget work that ended. Raises SocketClosedError where it ended in an error."""
        if self._work is None or not self._work.done():
            return
        well = self._work.result()
        self._work = self._socket = None
        self._streaming = False
        if not well:
            raise SocketClosedError

    async def _end_work(self) -> None:
        """Wait for the work before. Raises SocketClosedError where it ended in an error, or the client is gone."""
        if self._work is None:
            return
        peer = ShutPeer(self._writer.transport, time.monotonic())
        while not self._work.done():
            await asyncio.wait({self._work}, timeout=HEARTBEAT_SECONDS)
            if peer.is_gone():
                raise SocketClosedError
            if peer.is_due(time.monotonic()):
                # Clients drop the answer to a ping that they did not send.
                await self._send("pong")
        self._settle()

    # Events.

    async def _handle(self, event: Event) -> None:
        """Carry out an event. Events without a meaning here are dropped, as the protocol's programs do."""
        try:
            if event.kind.startswith("synthesize"):
                await self._handle_text(event.kind, event.data)
            elif event.kind.startswith("audio-"):
                await self._handle_audio(event)
            elif event.kind == "transcribe":
                self._request = Transcribe.model_validate(event.data)
            elif event.kind == "describe":
                await self._app.turns.pace()  # few ask for it, and seldom
                await self._send("info", info(self._app))
            elif event.kind == "ping":
                await self._send("pong", {"text": _Ping.model_validate(event.data).text})
        except ValidationError as error:
            first = first_error(error)
            where = ".".join(str(part) for part in first["loc"])
            raise ProtocolError(f"'{where}' of '{event.kind}': {first['msg']}.") from None

    async def _handle_text(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "synthesize":
                text = _Text.model_validate(data).text
                if self._streaming:
                    # Home Assistant sends the whole text once more within a stream, for servers without streams.
                    return
                if not text.strip():
                    raise EmptyInputError("'text' is empty; send the text to speak.", param="text")
                await self._begin(_Begin.model_validate(data), streaming=False)
                await self._put(text)
                await self._put(END)
            case "synthesize-start":
                if self._streaming:
                    raise ProtocolError("'synthesize-start' came twice; 'synthesize-stop' ends a stream.")
                await self._begin(_Begin.model_validate(data), streaming=True)
                self._streaming = True
            case "synthesize-chunk" | "synthesize-stop" if not self._streaming:
                raise ProtocolError(f"'{kind}' came without 'synthesize-start'.")
            case "synthesize-chunk":
                await self._put(_Text.model_validate(data).text)
            case "synthesize-stop":
                self._streaming = False
                await self._put(END)

    # Speech.

    async def _begin(self, begin: _Begin, *, streaming: bool) -> None:
        """Begin a synthesis after the work before it. Raises SocketClosedError where that ended in an error."""
        await self._end_work()
        if begin.text_format not in (None, "text"):
            raise InvalidRequestError(f"Text format '{begin.text_format[:40]}' is not supported; send text.")
        voice = begin.voice or _Voice()
        model, name = (None, None) if voice.name is None else model_and_voice(voice.name, self._app.catalog)
        lang = None if name is not None or model is not None else voice.language
        start = events.Start(
            type="start",
            model=model,
            voice=name,
            lang=lang,
            input="llm" if streaming else "auto",
            voice_marks=False,
        )
        self._socket = SynthesisSocket(self._write)
        adapter = WyomingAdapter(start, streaming=streaming)
        self._work = asyncio.create_task(self._speak(self._socket, adapter))

    async def _speak(self, socket: SynthesisSocket, adapter: WyomingAdapter) -> bool:
        """Speak one text. Returns whether it ended without an error."""
        request_context.request_id.set(uuid.uuid4().hex)
        await SessionSocket(socket, self._app, adapter).serve()
        return adapter.answered and socket.closed == 1000

    async def _put(self, frame: str | bytes) -> None:
        """Hand a frame to the synthesis, as fast as it reads. Drop it where the synthesis ended."""
        if self._socket is None or self._work is None:
            return
        putting = asyncio.create_task(self._socket.put(frame))
        await asyncio.wait({putting, self._work}, return_when=asyncio.FIRST_COMPLETED)
        putting.cancel()

    # Recognition.

    async def _handle_audio(self, event: Event) -> None:
        match event.kind:
            case "audio-start":
                if self._recording is not None:
                    raise ProtocolError("'audio-start' came twice; 'audio-stop' ends a recording.")
                self._begin_audio(AudioFormat.model_validate(event.data))
            case "audio-chunk":
                form = AudioFormat.model_validate(event.data)
                await (self._recording or self._begin_audio(form)).put(form, event.payload)
            case "audio-stop":
                if self._recording is None:
                    raise ProtocolError("'audio-stop' came without 'audio-start'.")
                await self._end_work()
                recording, self._recording = self._recording, None
                self._work = asyncio.create_task(self._recognize(recording))

    def _begin_audio(self, form: AudioFormat) -> Transcription:
        request, self._request = self._request or Transcribe(), None
        # Clients of Wyoming have no keys.
        place = self._app.recognition.spool.place(self._lost.set_result, "wyoming")
        self._recording = Transcription(self._app, request, form, place)
        return self._recording

    async def _recognize(self, recording: Transcription) -> bool:
        """Recognize one recording. Returns whether it ended without an error."""
        request_context.request_id.set(uuid.uuid4().hex)
        try:
            await recording.recognize(self._send)
        except ServiceError as error:
            await self.refuse(error)
            return False
        finally:
            await recording.close()
        return True
