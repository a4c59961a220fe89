"""ElevenLabs' two websockets, `stream-input` and `multi-stream-input`.

A context is what is said in one breath: it has a voice's speed and schedule of its own, speaks the texts between its
flushes in turn, each a SpeechStream, and ends with `isFinal`. `stream-input` has one context, without a name, which its
first message opens and `{"text": ""}` ends; with it the socket ends. `multi-stream-input` has up to MAX_CONTEXTS at a
time: `close_context` drops what was not flushed, a second one what was, `close_socket` flushes all and ends; there
`{"text": ""}` only says that the client is still there. A message that cannot be understood ends the socket; a text
that cannot be spoken ends its context.

One task listens, so that a client's going is noticed whatever is waited for, one carries out what it heard, and each
context has one that speaks. A client that does not read stops the sending, that stops the speaking, and what comes
after the next two sentences is not computed.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel
from starlette.websockets import WebSocketDisconnect

from app.audio.encoders import Encoder, make_encoder
from app.audio.pcm import frames
from app.errors import (
    DrainingError,
    IdleTimeoutError,
    NothingToSpeakError,
    ProtocolError,
    QuotaExceededError,
    ServiceError,
    TextTooLongError,
    UnsupportedFormatError,
)
from app.observability import metrics
from app.server.compat.elevenlabs.alignment import Alignment
from app.server.compat.elevenlabs.chunking import Context, Turn
from app.server.compat.elevenlabs.rest import as_eleven
from app.server.compat.elevenlabs.schemas import (
    SocketAlignment,
    SocketError,
    SocketInput,
    SocketOptions,
    SocketOutput,
    model_name,
    parse_input,
    parse_options,
    parse_output,
    speed_of,
)
from app.server.disconnect import Inbox, SocketClosedError
from app.server.error_responses import note_error
from app.server.pace import Pace
from app.server.state import Services, services
from app.server.streaming.session import SLICE
from app.speech.options import PreparedSpeech, SpeechOptions
from app.speech.stream import SpeechStream, SpokenChunk
from models.contract import Cancelled
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

router = APIRouter()

# Bytes of audio in one message: in base64 well below the mebibyte at which many clients refuse it.
PIECE = 98_304
# ElevenLabs' number.
MAX_CONTEXTS = 5
# Contexts that still speak after they were closed count, too: nobody may pile them up.
MAX_SPEAKING = 16
# The context of clients that name none.
DEFAULT_CONTEXT = "default"

_T = TypeVar("_T")


@router.websocket("/v1/text-to-speech/{voice_id}/stream-input")
async def stream_input(socket: WebSocket, voice_id: str) -> None:
    """One text, as it is written."""
    await socket.accept()
    await _Connection(socket, services(socket), voice_id, multi=False).serve()


@router.websocket("/v1/text-to-speech/{voice_id}/multi-stream-input")
async def multi_stream_input(socket: WebSocket, voice_id: str) -> None:
    """Several texts at a time."""
    await socket.accept()
    await _Connection(socket, services(socket), voice_id, multi=True).serve()


class _Connection:
    def __init__(self, socket: WebSocket, app: Services, voice_id: str, *, multi: bool) -> None:
        self._socket = socket
        self._app = app
        self._voice = voice_id
        self._multi = multi
        self._options = SocketOptions()
        self._output = parse_output(self._options.output_format)
        self._speaker: PreparedSpeech | None = None
        self._contexts: dict[str | None, Context] = {}
        # Closed by the client, and still speaking.
        self._leaving: list[Context] = []
        self._ending = False
        self._farewell: ServiceError | None = None
        self._inbox = Inbox(socket)
        self._pace = Pace(self._inbox, app.admission)
        self._active_at = time.monotonic()

    async def serve(self) -> None:
        """Read until either side closes."""
        admitted = False
        listening = asyncio.create_task(self._inbox.listen())
        try:
            try:
                self._app.admission.admit()
                admitted = True
                await self._prepare()
                await self._read()
            except ServiceError as error:
                if self._speaker is None:
                    labels = metrics.Labels("none", "elevenlabs", True)
                    metrics.record(Timeline(), labels, "rejected", metrics.Playback())
                await self._fail(error)
        except (SocketClosedError, WebSocketDisconnect, TimeoutError, OSError):
            # The client is gone, or reads nothing: there is nobody to tell.
            pass
        finally:
            listening.cancel()
            try:
                for context in self._all():
                    await self._drop(context)
            finally:
                # Also where this is cancelled while it ends.
                if admitted:
                    self._app.admission.release()

    async def _prepare(self) -> None:
        self._options = options = parse_options(dict(self._socket.query_params))
        self._output = parse_output(options.output_format)
        if self._output.format == "wav":
            raise UnsupportedFormatError("Pieces of a WAV file are not sent over a socket; ask for pcm_RATE.")
        asked = SpeechOptions(
            model=model_name(options.model_id), voice=self._voice, lang=options.language_code, seed=options.seed or 0
        )
        self._speaker = await self._inbox.unless_gone(self._app.speech.prepare(asked), self._app.admission.aborted())

    async def _read(self) -> None:
        draining: asyncio.Task[None] | None = asyncio.create_task(self._app.admission.drained())
        aborted = asyncio.create_task(self._app.admission.aborted())
        receiving = asyncio.create_task(self._inbox.frame())
        try:
            while True:
                speaking = {context.speaking for context in self._all() if context.speaking is not None}
                waiting: set[asyncio.Task[Any]] = {receiving, aborted, *speaking}
                if draining is not None:
                    waiting.add(draining)
                patience = max(0.0, self._next_deadline() - time.monotonic())
                await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if aborted.done():
                    raise DrainingError("The server is shutting down.")
                self._collect()
                if receiving.done():
                    frame = receiving.result()
                    self._active_at = time.monotonic()
                    await self._carry_out(parse_input(frame, self._app.settings.max_frame_bytes))
                    receiving = asyncio.create_task(self._inbox.frame())
                elif draining is not None and draining.done():
                    draining = None
                    self._farewell = DrainingError("The server is shutting down.")
                    self._end()
                else:
                    self._on_silence()
                if self._ending and not self._all():
                    if self._farewell is not None:
                        raise self._farewell
                    await self._patiently(self._socket.close(1000))
                    raise SocketClosedError
        finally:
            receiving.cancel()
            aborted.cancel()
            if draining is not None:
                draining.cancel()

    # What a message orders.

    async def _carry_out(self, message: SocketInput) -> None:
        if self._ending:
            return
        if self._multi and message.close_socket:
            self._end()
            return
        name = (message.context_id or DEFAULT_CONTEXT) if self._multi else None
        context = self._contexts.get(name)
        if self._multi and message.close_context:
            if context is not None:
                self._close_context(context)
            else:
                self._cut_short(name)
            return
        if not self._multi and message.text == "":
            self._end()
            return
        if message.text is None and not message.flush and not self._multi:
            raise ProtocolError("The message needs a 'text'.")
        if context is None:
            if not message.text:
                # Nothing to flush, or to keep alive.
                return
            context = self._open(name, message)
        context.active_at = time.monotonic()
        if message.text:
            await self._hear(context, message.text, trigger=bool(message.try_trigger_generation))
            context.active_at = time.monotonic()
        if message.flush and self._contexts.get(name) is context:
            self._flush(context)

    def _open(self, name: str | None, message: SocketInput) -> Context:
        if self._speaker is None:
            raise RuntimeError("a context was opened before its voice was known")
        if len(self._contexts) >= MAX_CONTEXTS:
            raise ProtocolError(f"{MAX_CONTEXTS} contexts are open already; close one first.")
        if len(self._all()) >= MAX_SPEAKING:
            raise ProtocolError(f"{MAX_SPEAKING} contexts speak already; wait for an 'isFinal'.")
        speaker = replace(self._speaker, speed=speed_of(message.voice_settings))
        context = Context(name, speaker, message, phrases=self._options.auto_mode)
        context.speaking = asyncio.create_task(self._speak_all(context))
        self._contexts[name] = context
        return context

    async def _hear(self, context: Context, text: str, *, trigger: bool) -> None:
        """Take a text in parts, between which others have their turn."""
        limit = self._app.settings.max_input_characters
        if len(context.text.held) + context.characters + len(text) > limit:
            raise TextTooLongError(
                f"More than {limit} characters wait; send less, or 'flush' and wait for the audio.", param="text"
            )
        try:
            self._app.admission.charge_client(len(text))
        except QuotaExceededError as error:
            if not self._multi:
                raise
            self._refuse(context, error)
            return
        for start in range(0, len(text), SLICE):
            if start:
                await self._pace.keep(turn=True)
            with self._pace.measure():
                # A text is one phrase, in however many parts it is taken.
                last = start + SLICE >= len(text)
                pieces = context.text.feed(text[start : start + SLICE], trigger=trigger, more=not last)
                self._feed(context, pieces)
        await self._pace.keep()

    def _refuse(self, context: Context, error: ServiceError) -> None:
        """The context ends, for this reason."""
        del self._contexts[context.name]
        self._leaving.append(context)
        if context.speaking is not None:
            context.speaking.cancel()
        context.speaking = asyncio.create_task(self._end_for(context, error))

    async def _end_for(self, context: Context, error: ServiceError) -> None:
        await self._tell(error, context.name)
        await self._say_final(context)

    def _feed(self, context: Context, pieces: list[str]) -> None:
        for piece in pieces:
            turn = context.open
            if turn is None:
                if not piece.strip():
                    continue
                timed = context.speaker.synthesizer.reads == "phonemes"
                turn = Turn(partial(self._make_stream, context.speaker), timed=timed)
                context.begin(turn)
            turn.feed(piece)
            context.characters += len(piece)

    def _make_stream(self, speaker: PreparedSpeech) -> SpeechStream:
        labels = metrics.Labels(speaker.model, "elevenlabs", True)
        return SpeechStream(self._app.speech, speaker, Timeline(), labels, charged=True)

    def _flush(self, context: Context) -> None:
        self._feed(context, context.text.flush())
        if context.open is not None:
            context.open.finish()
            context.open = None

    def _close_context(self, context: Context) -> None:
        """No more text comes; what was flushed is spoken, the rest is not."""
        del self._contexts[context.name]
        self._leaving.append(context)
        turn, context.open = context.open, None
        if turn is not None:
            turn.drop()
        if turn is not None and turn is context.current:
            self._break_off(context)
        else:
            context.turns.put_nowait(None)

    def _cut_short(self, name: str | None) -> None:
        """An agent closes a context when its text ends, and again when it is interrupted: nobody listens any more."""
        for context in self._leaving:
            if context.name == name:
                self._break_off(context)

    def _break_off(self, context: Context) -> None:
        if context.speaking is None:
            raise RuntimeError("a context was opened that does not speak")
        # It sends nothing once it is cancelled: the end comes last.
        context.speaking.cancel()
        context.speaking = asyncio.create_task(self._say_final(context))

    def _end(self) -> None:
        """Speak what was said, then close."""
        self._ending = True
        for context in list(self._contexts.values()):
            self._flush(context)
            del self._contexts[context.name]
            self._leaving.append(context)
            context.turns.put_nowait(None)

    # Time.

    @property
    def _patience(self) -> float:
        return min(self._options.inactivity_timeout, self._app.settings.idle_seconds)

    def _next_deadline(self) -> float:
        marks = [context.active_at for context in self._contexts.values()] or [self._active_at]
        return min(marks) + self._patience

    def _on_silence(self) -> None:
        """A context of which nothing was heard ends, and so does a socket without any."""
        now = time.monotonic()
        late = IdleTimeoutError(f"Nothing was received for {self._patience:g} seconds; send text, or end with ''.")
        for context in list(self._contexts.values()):
            if context.busy:
                # Waiting for us, not the other way round.
                context.active_at = now
            elif now - context.active_at >= self._patience:
                if not self._multi:
                    raise late
                self._close_context(context)
        if not self._contexts and now - self._active_at >= self._patience:
            if not self._leaving:
                raise late
            self._active_at = now

    # Speech.

    async def _speak_all(self, context: Context) -> None:
        """Speak what a context has in turn, then say that it ends. Raises what ends the socket."""
        try:
            while (turn := await context.turns.get()) is not None:
                context.current = turn
                if not turn.dropped:
                    await self._speak(context, turn)
                context.current = None
                context.end(turn)
        except ServiceError as error:
            if not self._multi:
                raise
            await self._tell(error, context.name)
        await self._say_final(context)

    async def _speak(self, context: Context, turn: Turn) -> None:
        stream = turn.start()
        own = stream.speech.synthesizer.sample_rate
        encoder = make_encoder(self._output.format, own, self._output.rate, bit_rate=self._output.bit_rate)
        outcome: metrics.Outcome = "cancelled"
        held, since = Alignment("", (), 0.0), 0.0
        try:
            async for chunk in stream:
                data = await self._encode(encoder, stream.timeline, chunk)
                if not held.text:
                    since = chunk.start
                held += turn.aligner.push(chunk)
                stream.delivered(chunk, sent=bool(data))
                # A codec may hold back all of a short piece; its characters then wait with it.
                if data:
                    await self._send_audio(context, data, held, since)
                    held = Alignment("", (), 0.0)
            data = await self._encode(encoder, stream.timeline, None)
            held += turn.aligner.finish()
            if data or held.text:
                await self._send_audio(context, data, held, held.starts[0] if held.text else since)
            outcome = "ok"
            stream.timeline.finish()
        except NothingToSpeakError:
            # A language model wrote a line of dashes, or an emoji.
            outcome = "rejected"
        except Cancelled:
            return
        except ServiceError as error:
            outcome = "rejected" if error.status < 500 else "failed"
            raise
        finally:
            stream.close(outcome)

    async def _encode(self, encoder: Encoder, timeline: Timeline, chunk: SpokenChunk | None) -> bytes:
        with timeline.measure(Stage.AUDIO_ENCODE):
            if chunk is None:
                return await asyncio.to_thread(encoder.finish)
            return await asyncio.to_thread(encoder.encode, chunk.pcm)

    async def _say_final(self, context: Context) -> None:
        await self._send(SocketOutput(isFinal=True, contextId=context.name))

    def _all(self) -> list[Context]:
        return [*self._contexts.values(), *self._leaving]

    def _collect(self) -> None:
        """Forget the contexts that ended. Raises what ended one, if it ends the socket."""
        for context in self._all():
            if context.speaking is None or not context.speaking.done():
                continue
            context.release()
            if self._contexts.get(context.name) is context:
                del self._contexts[context.name]
            else:
                self._leaving.remove(context)
            self._active_at = time.monotonic()
            context.speaking.result()

    async def _drop(self, context: Context) -> None:
        """Stop speaking; when this returns nothing of the context is sent any more."""
        if context.speaking is not None:
            context.speaking.cancel()
            await asyncio.wait({context.speaking})
        context.release()

    # What is sent.

    async def _fail(self, error: ServiceError) -> None:
        """Say what ends the socket, and close it."""
        for context in self._all():
            await self._drop(context)
        await self._tell(error, None)
        # RFC 6455 allows a close reason 123 bytes.
        reason = error.message.encode()[:120].decode(errors="ignore")
        await self._patiently(self._socket.close(error.close_code, reason))

    async def _tell(self, error: ServiceError, context: str | None) -> None:
        told = as_eleven(error)
        note_error(told.code, told.status)
        message = str(told.body()["message"])
        await self._send(SocketError(message=message, error=told.code, code=told.close_code, contextId=context))

    async def _send_audio(self, context: Context, data: bytes, alignment: Alignment, since: float) -> None:
        times = _in_milliseconds(alignment, since) if alignment.text else None
        for piece in list(frames(data, PIECE)) or [b""]:
            audio = base64.b64encode(piece).decode("ascii")
            await self._send(
                SocketOutput(audio=audio, alignment=times, normalizedAlignment=times, contextId=context.name)
            )
            times = None
        context.active_at = time.monotonic()

    async def _send(self, message: BaseModel) -> None:
        without = None if self._multi else {"contextId"}
        await self._patiently(self._socket.send_text(message.model_dump_json(exclude=without)))

    async def _patiently(self, sending: Awaitable[_T]) -> _T:
        """Wait for a write, but not for ever."""
        async with asyncio.timeout(self._app.settings.stall_seconds):
            return await sending


def _in_milliseconds(alignment: Alignment, since: float) -> SocketAlignment:
    """Relative to second `since`; durations add up to the whole."""
    marks = [max(0, round((second - since) * 1e3)) for second in (*alignment.starts, alignment.end)]
    durations = [later - earlier for earlier, later in pairwise(marks)]
    return SocketAlignment(chars=list(alignment.text), charStartTimesMs=marks[:-1], charDurationsMs=durations)
