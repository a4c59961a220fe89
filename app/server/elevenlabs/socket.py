"""ElevenLabs' two websockets, `stream-input` and `multi-stream-input`.

A *context* has a voice, a speed and a schedule of its own. It speaks its sets, the texts between its flushes, in turn,
and ends with `isFinal`.

- `stream-input` has one context without a name. Its first message opens it. `{"text": ""}` ends it and the socket.
- `multi-stream-input` has up to MAX_CONTEXTS at a time. `close_context` drops the text that was not flushed, a second
  one the text that was. `close_socket` flushes all and ends. `{"text": ""}` only says that the client is there.

A message that cannot be understood ends the socket. A text that cannot be spoken ends its context. One task per
context speaks.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, WebSocket

from app.errors import (
    DrainingError,
    IdleTimeoutError,
    ProtocolError,
    QuotaExceededError,
    ServiceError,
    TextTooLongError,
    UnsupportedFormatError,
)
from app.llm_text.hidden import MAX_THOUGHTS
from app.observability import metrics
from app.server.elevenlabs.context import Context, TextSet
from app.server.elevenlabs.schemas import (
    SocketInput,
    SocketOptions,
    model_name,
    parse_input,
    parse_options,
    parse_output,
    speed_of,
)
from app.server.elevenlabs.speaker import ContextSpeaker
from app.server.state import Services, services
from app.server.streaming.session import SLICE_CHARACTERS
from app.server.streaming.socket import SocketLoop
from app.speech.options import PreparedSpeech, SpeechOptions
from app.speech.stream import SpeechStream
from models.timeline import Timeline

router = APIRouter()

# ElevenLabs' number.
MAX_CONTEXTS = 5
# Bound on all contexts, with those that still speak after they were closed.
MAX_SPEAKING = 16
# Context of the clients that name none.
DEFAULT_CONTEXT = "default"


@router.websocket("/v1/text-to-speech/{voice_id}/stream-input")
async def stream_input(socket: WebSocket, voice_id: str) -> None:
    """Serve a socket of one text."""
    await socket.accept()
    await ElevenSocket(socket, services(socket), voice_id, multi=False).serve()


@router.websocket("/v1/text-to-speech/{voice_id}/multi-stream-input")
async def multi_stream_input(socket: WebSocket, voice_id: str) -> None:
    """Serve a socket of several texts at a time."""
    await socket.accept()
    await ElevenSocket(socket, services(socket), voice_id, multi=True).serve()


class ElevenSocket(SocketLoop):
    """Socket of one client, and its contexts."""

    surface: metrics.SurfaceName = "elevenlabs"

    def __init__(self, socket: WebSocket, app: Services, voice_id: str, *, multi: bool) -> None:
        super().__init__(socket, app)
        self._query = dict(socket.query_params)
        self._voice_id = voice_id
        self._multi = multi
        self._options = SocketOptions()
        self._speaker = ContextSpeaker(self.send, parse_output(self._options.output_format), multi=multi)
        self._speech: PreparedSpeech | None = None
        self._contexts: dict[str | None, Context] = {}
        # Contexts that the client closed, and that still speak.
        self._closed: list[Context] = []
        self._ending = False
        # Error that the client is told of when the last context ended.
        self._closing_error: ServiceError | None = None

    # The loop.

    async def begin(self) -> None:
        """Read the query, and make the voice ready. Raises ServiceError."""
        self._options = query = parse_options(self._query)
        output = parse_output(query.output_format)
        if output.format == "wav":
            raise UnsupportedFormatError("Pieces of a WAV file are not sent over a socket; ask for pcm_RATE.")
        self._speaker = ContextSpeaker(self.send, output, multi=self._multi)
        options = SpeechOptions(
            model=model_name(query.model_id), voice=self._voice_id, lang=query.language_code, seed=query.seed or 0
        )
        self._speech = await self.prepare(options)

    async def receive(self, frame: str | bytes) -> None:
        """Carry out a message. Raises ServiceError where it ends the socket."""
        message = parse_input(frame, self.app.settings.max_frame_bytes)
        if self._ending:
            return
        if self._multi and message.close_socket:
            self._end_all()
        elif self._multi and message.close_context:
            self._close(message.context_id or DEFAULT_CONTEXT)
        elif not self._multi and message.text == "":
            self._end_all()
        elif message.text is None and not message.flush and not self._multi:
            raise ProtocolError("The message needs a 'text'.")
        else:
            await self._receive_text(message)

    def speaking(self) -> set[asyncio.Task[None]]:
        """Return the tasks of all contexts."""
        return {context.speaking for context in self._all() if context.speaking is not None}

    async def settle(self) -> None:
        """Forget the contexts that ended, and close after the last. Raises the error that ends the socket."""
        for context in self._all():
            if context.speaking is None or not context.speaking.done():
                continue
            context.drop_all()
            if self._contexts.get(context.name) is context:
                del self._contexts[context.name]
            else:
                self._closed.remove(context)
            self.active_at = time.monotonic()
            context.speaking.result()
        if self._ending and not self._all():
            if self._closing_error is not None:
                raise self._closing_error
            await self.close()

    @property
    def _patience(self) -> float:
        return min(self._options.inactivity_timeout, self.app.settings.idle_seconds)

    def next_deadline(self) -> float:
        """Return the time at which the quietest context, or a socket without any, is idle."""
        times = [context.active_at for context in self._contexts.values()] or [self.active_at]
        return min(times) + self._patience

    async def tick(self, now: float) -> None:
        """End the contexts that are idle. Raises IdleTimeoutError where that ends the socket."""
        error = IdleTimeoutError(f"Nothing was received for {self._patience:g} seconds; send text, or end with ''.")
        for context in list(self._contexts.values()):
            if context.busy:
                # The client waits for this side.
                context.active_at = now
            elif now - context.active_at >= self._patience:
                if not self._multi:
                    raise error
                self._close_context(context)
        if not self._contexts and now - self.active_at >= self._patience:
            if not self._closed:
                raise error
            self.active_at = now

    async def drain(self) -> None:
        """Speak the text that came, then close."""
        self._closing_error = DrainingError("The server is shutting down.")
        self._end_all()

    async def send_error(self, error: ServiceError) -> None:
        """Tell the client of the error that ends the socket."""
        if self._speech is None:
            self.note_rejected()
        await self._speaker.send_error(error, None)

    async def stop(self) -> None:
        """Drop every context. When this returns, nothing more of them is sent."""
        for context in self._all():
            if context.speaking is not None:
                context.speaking.cancel()
                await asyncio.wait({context.speaking})
            context.drop_all()

    # Text.

    async def _receive_text(self, message: SocketInput) -> None:
        name = (message.context_id or DEFAULT_CONTEXT) if self._multi else None
        context = self._contexts.get(name)
        if context is None:
            if not message.text:
                # A context that does not exist needs no flush, and is not kept alive.
                return
            context = await self._open(name, message)
        context.active_at = time.monotonic()
        if message.text:
            await self._feed(context, message.text, trigger=bool(message.try_trigger_generation))
            context.active_at = time.monotonic()
        if message.flush and self._contexts.get(name) is context:
            self._flush(context)

    async def _open(self, name: str | None, message: SocketInput) -> Context:
        if self._speech is None:
            raise RuntimeError("a context was opened before its voice was known")
        if len(self._contexts) >= MAX_CONTEXTS:
            raise ProtocolError(f"{MAX_CONTEXTS} contexts are open already; close one first.")
        if len(self._all()) >= MAX_SPEAKING:
            raise ProtocolError(f"{MAX_SPEAKING} contexts speak already; wait for an 'isFinal'.")
        speech = self._speech.at_speed(speed_of(message.voice_settings))
        if message.pronunciation_dictionary_locators:
            ids = [each.pronunciation_dictionary_id for each in message.pronunciation_dictionary_locators]
            speech = replace(speech, lexicons=await self.app.speech.lexicons.resolve(ids, {}, None))
        context = Context(name, speech, message, phrases=self._options.auto_mode)
        context.speaking = asyncio.create_task(self._speaker.speak(context))
        self._contexts[name] = context
        return context

    async def _feed(self, context: Context, text: str, *, trigger: bool) -> None:
        """Read a text in parts, between which other tasks run."""
        limit = self.app.settings.max_input_characters
        waiting = len(context.text.held) + context.characters - min(context.text.covered, MAX_THOUGHTS * limit)
        if waiting + len(text) > limit:
            raise TextTooLongError(
                f"More than {limit} characters wait; send less, or 'flush' and wait for the audio.", param="text"
            )
        try:
            self.app.admission.charge_client(len(text))
        except QuotaExceededError as error:
            if not self._multi:
                raise
            # That ends the context alone.
            self._set_aside(context)
            if context.speaking is not None:
                context.speaking.cancel()
            context.speaking = asyncio.create_task(self._speaker.send_refusal(context, error))
            return
        for start in range(0, len(text), SLICE_CHARACTERS):
            if start:
                await self.throttle.wait(give_way=True)
            with self.throttle.measure():
                end = start + SLICE_CHARACTERS
                # `auto_mode` takes the whole text as one phrase.
                pieces = context.text.feed(text[start:end], trigger=trigger, more=end < len(text))
                self._put(context, pieces)
        await self.throttle.wait()

    def _put(self, context: Context, pieces: list[str]) -> None:
        for piece in pieces:
            if context.written is None:
                if not piece.strip():
                    continue
                timed = context.speech.synthesizer.reads == "phonemes"
                context.begin(TextSet(partial(self._open_stream, context.speech), timed=timed))
            if context.written is not None:
                context.written.feed(piece)
                context.characters += len(piece)

    def _open_stream(self, speech: PreparedSpeech) -> SpeechStream:
        labels = metrics.Labels(speech.model, self.surface, True)
        return SpeechStream(self.app.speech, speech, Timeline(), labels)

    def _flush(self, context: Context) -> None:
        self._put(context, context.text.flush())
        context.flush()

    # Ends of contexts.

    def _all(self) -> list[Context]:
        return [*self._contexts.values(), *self._closed]

    def _end_all(self) -> None:
        """Speak the text that came, then close."""
        self._ending = True
        for context in list(self._contexts.values()):
            self._flush(context)
            self._set_aside(context)
            context.sets.put_nowait(None)

    def _close(self, name: str) -> None:
        """Close the context of that name.

        An agent closes a context when its text ends, and again when a person interrupts: nobody listens any more.
        """
        context = self._contexts.get(name)
        if context is not None:
            self._close_context(context)
            return
        for closed in self._closed:
            if closed.name == name:
                self._stop_speaking(closed)

    def _close_context(self, context: Context) -> None:
        """Accept no more text, and speak only the text that was flushed."""
        self._set_aside(context)
        written, context.written = context.written, None
        if written is not None:
            written.drop()
        if written is not None and written is context.spoken:
            self._stop_speaking(context)
        else:
            context.sets.put_nowait(None)

    def _set_aside(self, context: Context) -> None:
        del self._contexts[context.name]
        self._closed.append(context)

    def _stop_speaking(self, context: Context) -> None:
        if context.speaking is None:
            raise RuntimeError("a context was opened that does not speak")
        # A cancelled task sends nothing more, so the end comes last.
        context.speaking.cancel()
        context.speaking = asyncio.create_task(self._speaker.send_final(context))
