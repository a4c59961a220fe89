"""`WS /v1/audio/stream`: carries out the effects of a StreamSession on a socket.

Three tasks per socket: one listens, so that a client's going is noticed whatever is waited for; one carries out what
it heard; one speaks the sets in turn. A set is pulled through: a client that does not read
stops the sending, that stops the speaking, and the sentences after the next two are not computed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from fastapi import APIRouter, WebSocket
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from app import request_context
from app.audio.encoders import Encoder, Format, check_format, choose_rate, make_encoder
from app.audio.executor import encode
from app.audio.pcm import frames
from app.engine.model_state import ModelState
from app.errors import DrainingError, IdleTimeoutError, ServiceError
from app.observability import metrics
from app.server.disconnect import Inbox, SocketClosedError
from app.server.error_responses import note_error
from app.server.pace import Pace
from app.server.state import Services, services
from app.server.streaming import events
from app.server.streaming.session import (
    Anticipate,
    Close,
    Drop,
    Effect,
    Finish,
    Prepare,
    Refuse,
    Send,
    Speak,
    StreamSession,
)
from app.speech.options import PreparedSpeech, SpeechOptions
from app.speech.stream import SpeechStream, SpokenChunk
from app.translation.text import codes
from models.contract import Cancelled
from models.timeline import Stage, Timeline

router = APIRouter()

# Largest binary frame sent: many clients refuse messages above one mebibyte.
FRAME = 65_536


_T = TypeVar("_T")


@dataclass(slots=True)
class _Set:
    id: int
    stream: SpeechStream
    spoken: bool = False


@router.websocket("/v1/audio/stream")
async def stream(socket: WebSocket) -> None:
    """Serve one socket."""
    app = services(socket)
    await socket.accept()
    await Connection(socket, app).serve()


class Socket(Protocol):
    """What a Connection needs of a socket: Starlette's WebSocket, or what stands for one."""

    async def receive(self) -> Message: ...

    async def send_text(self, data: str) -> None: ...

    async def send_bytes(self, data: bytes) -> None: ...

    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


class Connection:
    """One client and its session. Other protocols override how it begins, what it hears and how it tells."""

    surface: ClassVar[metrics.Surface] = "websocket"

    def __init__(self, socket: Socket, app: Services) -> None:
        self._socket = socket
        self._app = app
        self._session = StreamSession(
            max_characters=app.settings.max_input_characters,
            max_frame_bytes=app.settings.max_frame_bytes,
            charge=app.admission.charge_client,
        )
        self._speaker: PreparedSpeech | None = None
        self._format: Format = "pcm"
        self._rate = 0
        self._sets: dict[int, _Set] = {}
        # Unbounded by type, bounded by the session: MAX_SETS flushed sets and the one being written.
        self._turns: asyncio.Queue[_Set] = asyncio.Queue()
        self._speaking: asyncio.Task[None] | None = None
        self._inbox = Inbox(socket)
        self._pace = Pace(self._inbox, app.admission)
        self._active_at = time.monotonic()
        self._played_out = 0.0

    async def serve(self) -> None:
        """Read until either side closes."""
        admitted = False
        listening = asyncio.create_task(self._inbox.listen())
        try:
            try:
                self._app.admission.admit()
                admitted = True
            except ServiceError as error:
                await self._carry_out(self._session.fail(error))
            await self._begin()
            await self._read()
        except (SocketClosedError, WebSocketDisconnect, TimeoutError, OSError):
            # The client is gone, or reads nothing: there is nobody to tell.
            pass
        finally:
            listening.cancel()
            try:
                await self._drop()
            finally:
                # Also where this is cancelled while it ends.
                if admitted:
                    self._app.admission.release()

    async def _begin(self) -> None:
        """What is done before anything is heard: nothing, since `start` says how to speak."""

    def _hear(self, frame: str | bytes, now: float) -> list[Effect]:
        """A frame came at `now`."""
        return self._session.receive(frame, now)

    async def _tell(self, message: events.Outgoing) -> None:
        """Send a message."""
        await self._send_text(message.model_dump_json())

    async def _send_text(self, text: str) -> None:
        await self._patiently(self._socket.send_text(text))

    async def _read(self) -> None:
        draining: asyncio.Task[None] | None = asyncio.create_task(self._app.admission.drained())
        aborted = asyncio.create_task(self._app.admission.aborted())
        receiving = asyncio.create_task(self._inbox.frame())
        try:
            while True:
                waiting: set[asyncio.Task[Any]] = {receiving, aborted}
                if draining is not None:
                    waiting.add(draining)
                if self._speaking is not None:
                    waiting.add(self._speaking)
                wake = self._active_at + self._app.settings.idle_seconds
                if (deadline := self._session.next_deadline()) is not None:
                    wake = min(wake, deadline)
                patience = max(0.0, wake - time.monotonic())
                await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if self._speaking is not None and self._speaking.done():
                    self._speaking.result()
                    self._speaking = None
                if aborted.done():
                    await self._carry_out(self._session.fail(DrainingError("The server is shutting down.")))
                elif receiving.done():
                    frame: str | bytes | None = receiving.result()
                    while frame is not None:
                        await self._take(frame)
                        # A text and its flush often come together: the second need not go round.
                        frame = self._inbox.waiting()
                    receiving = asyncio.create_task(self._inbox.frame())
                elif draining is not None and draining.done():
                    draining = None
                    await self._carry_out(self._session.drain(time.monotonic()))
                elif time.monotonic() - self._active_at >= self._app.settings.idle_seconds:
                    await self._on_silence()
                else:
                    await self._carry_out(self._session.tick(time.monotonic()))
        finally:
            receiving.cancel()
            aborted.cancel()
            if draining is not None:
                draining.cancel()

    async def _take(self, frame: str | bytes) -> None:
        """Carry out what a frame says: a long text in parts, between which others have their turn."""
        try:
            with self._pace.measure():
                effects = self._hear(frame, time.monotonic())
            await self._carry_out(effects)
            while self._session.more:
                await self._pace.keep(turn=True)
                with self._pace.measure():
                    effects = self._session.hear_on(time.monotonic())
                await self._carry_out(effects)
            await self._pace.keep()
        except DrainingError as error:
            await self._carry_out(self._session.fail(error))
        self._active_at = time.monotonic()

    async def _on_silence(self) -> None:
        if self._session.busy:
            # Waiting for us, not the other way round.
            self._active_at = time.monotonic()
            return
        seconds = self._app.settings.idle_seconds
        await self._carry_out(self._session.fail(IdleTimeoutError(f"Nothing was received for {seconds:g} seconds.")))

    async def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    await self._send_json(message)
                case Prepare(start):
                    await self._prepare(start)
                case Speak(set_id, text, offset, source, waited):
                    self._feed(self._set(set_id), text, offset, source, waited)
                case Anticipate(set_id, text):
                    self._set(set_id).stream.anticipate(text)
                case Refuse(set_id, error):
                    self._set(set_id).stream.refuse(error)
                case Finish(set_id):
                    self._set(set_id).stream.finish()
                case Drop():
                    await self._drop()
                case Close(code, reason):
                    await self._patiently(self._socket.close(code, reason))
                    raise SocketClosedError

    async def _prepare(self, start: events.Start) -> None:
        try:
            name = check_format(start.format)
            asked = SpeechOptions(
                model=start.model,
                voice=start.voice,
                lang=start.lang,
                any_language=start.any_language,
                speed=start.speed,
                seed=start.seed,
                sampling=start.sampling,
                translate_to=start.translate_to,
                source=start.source,
                translate_model=start.translate_model,
            )
            # A voice may take seconds to be made ready.
            speech = self._app.speech
            speaker = await self._inbox.unless_gone(
                speech.prepare(asked, progress=self._tell_loading), self._app.admission.aborted()
            )
            rate = choose_rate(name, speaker.synthesizer.sample_rate, start.sample_rate)
        except ServiceError as error:
            labels = metrics.Labels("none", self.surface, True)
            metrics.record(Timeline(), labels, "rejected", metrics.Playback())
            await self._carry_out(self._session.fail(error))
            return
        self._speaker, self._format, self._rate = speaker, name, rate
        route = speaker.route
        ready = events.Ready(
            model=speaker.model,
            voice=speaker.voice,
            lang=speaker.language,
            format=name,
            sample_rate=rate,
            translate_to=None if route is None else codes.tag(route.target),
            request_id=request_context.request_id.get(),
            watermark=speaker.watermark,
        )
        await self._carry_out(self._session.ready(ready, None if route is None else route.source))

    async def _tell_loading(self, state: ModelState) -> None:
        done, total = (0, None) if state.step is None else (state.step.done, state.step.total)
        await self._send_json(events.Loading(model=state.name, done=done, total=total))

    @staticmethod
    def _feed(turn: _Set, text: str, offset: int, source: str | None, waited: float) -> None:
        if not turn.spoken:
            # Its clock starts with its first sentence: what was done for it before was not waited for.
            turn.stream.timeline.started = time.perf_counter()
            turn.spoken = True
        if waited:
            turn.stream.timeline.add(Stage.BOUNDARY, waited)
        turn.stream.feed(text, offset, source)

    def _set(self, set_id: int) -> _Set:
        """The set of that id, opened when its first text comes."""
        found = self._sets.get(set_id)
        if found is None:
            if self._speaker is None:
                raise RuntimeError("the session spoke before it was ready")
            labels = metrics.Labels(self._speaker.model, self.surface, True)
            found = _Set(set_id, SpeechStream(self._app.speech, self._speaker, Timeline(), labels, charged=True))
            self._sets[set_id] = found
            self._turns.put_nowait(found)
            if self._speaking is not None and self._speaking.done():
                self._speaking.result()
                self._speaking = None
            if self._speaking is None:
                self._speaking = asyncio.create_task(self._speak_all())
        return found

    async def _speak_all(self) -> None:
        while not self._turns.empty():
            turn = self._turns.get_nowait()
            await self._speak(turn)

    async def _speak(self, turn: _Set) -> None:
        stream = turn.stream
        encoder = make_encoder(self._format, stream.speech.synthesizer.sample_rate, self._rate)
        outcome: metrics.Outcome = "cancelled"
        try:
            async for chunk in stream:
                data = await self._encode(encoder, stream.timeline, chunk)
                await self._carry_out(self._session.chunk(chunk))
                stream.delivered(chunk, sent=bool(data))
                self._note_queued(chunk.duration)
                await self._send_audio(data)
                # What was written leaves when this task pauses; its client need not wait for the books.
                await asyncio.sleep(0)
            await self._send_audio(await self._encode(encoder, stream.timeline, None))
            outcome = "ok"
            stream.timeline.finish()
            answer = self._session.finished(stream.timeline)
        except Cancelled:
            return
        except ServiceError as error:
            outcome = "rejected" if error.status < 500 else "failed"
            answer = self._session.set_failed(error)
        finally:
            stream.close(outcome)
            self._sets.pop(turn.id, None)
        await self._carry_out(answer)

    def _note_queued(self, seconds: float) -> None:
        """A client that plays what it gets has so much more to play."""
        now = time.monotonic()
        self._played_out = max(self._played_out, now) + seconds
        self._session.queued(self._played_out - now, now)

    async def _encode(self, encoder: Encoder, timeline: Timeline, chunk: SpokenChunk | None) -> bytes:
        with timeline.measure(Stage.AUDIO_ENCODE):
            return await encode(encoder, None if chunk is None else chunk.pcm)

    async def _drop(self) -> None:
        """Stop speaking; when this returns nothing of any set is sent any more."""
        task = self._speaking
        for turn in self._sets.values():
            turn.stream.close("cancelled")
        self._sets.clear()
        while not self._turns.empty():
            self._turns.get_nowait()
        if task is not None and task is not asyncio.current_task():
            self._speaking = None
            task.cancel()
            await asyncio.wait({task})

    async def _send_json(self, message: events.Outgoing) -> None:
        if isinstance(message, events.Error):
            note_error(message.error.code, 500 if message.error.type == "server_error" else 400)
        await self._tell(message)

    async def _send_audio(self, data: bytes) -> None:
        for frame in frames(data, FRAME):
            await self._patiently(self._socket.send_bytes(frame))

    async def _patiently(self, sending: Awaitable[_T]) -> _T:
        """Wait for a write, but not for ever."""
        async with asyncio.timeout(self._app.settings.stall_seconds):
            result = await sending
        self._active_at = time.monotonic()
        return result
