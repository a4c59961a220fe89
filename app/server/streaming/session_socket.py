"""SessionSocket: carries out the effects of a StreamSession on a socket. Its task speaks the sets in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from app import request_context
from app.audio.encoders import Format, check_format, choose_rate, make_encoder
from app.engine.model_loader import ModelState
from app.errors import ServiceError
from app.observability import metrics
from app.server.audio_response import encode_chunk
from app.server.error_responses import note_error
from app.server.exchange import recorded
from app.server.state import Services
from app.server.streaming import events
from app.server.streaming.adapter import Adapter
from app.server.streaming.effects import Anticipate, Close, Drop, Effect, Finish, Prepare, Refuse, Send, Speak
from app.server.streaming.session import StreamSession
from app.server.streaming.socket import Socket, SocketLoop
from app.speech.options import PreparedSpeech, SpeechOptions, unused_speed
from app.speech.stream import SpeechStream
from app.speech.verifier import Verifier
from app.translation.text import codes
from app.voices.aliases import outdated_names
from models.contract import Cancelled
from models.timeline import Stage, Timeline


@dataclass(slots=True)
class _Set:
    """Text between two flushes, and its stream. `begun`: some of the text came."""

    id: int
    stream: SpeechStream
    begun: bool = False


class SessionSocket(SocketLoop):
    """Socket of one client, which speaks the protocol of `adapter`."""

    def __init__(self, socket: Socket, app: Services, adapter: Adapter) -> None:
        super().__init__(socket, app)
        self.surface = adapter.surface
        self._adapter = adapter
        self._session = StreamSession(
            max_characters=app.settings.max_input_characters,
            max_frame_bytes=app.settings.max_frame_bytes,
            charge=app.admission.charge_client,
        )
        self._speech: PreparedSpeech | None = None
        self._make_verifier: Callable[[], Verifier] | None = None
        self._format: Format = "pcm"
        self._rate = 0
        self._sets: dict[int, _Set] = {}
        # The session bounds it: MAX_SETS flushed sets and the one that is being written.
        self._queue: asyncio.Queue[_Set] = asyncio.Queue()
        # Monotonic time at which the client has played all that it was sent.
        self._played_out = 0.0

    # The loop.

    async def begin(self) -> None:
        """Open the session, where no frame of the protocol does."""
        if self._adapter.start is not None:
            await self._carry_out(self._session.accept(self._adapter.start))

    async def receive(self, frame: str | bytes) -> None:
        """Carry out a frame: a long text in parts, between which other tasks run."""
        with self.throttle.measure():
            effects = self._adapter.receive(self._session, frame, time.monotonic())
        await self._carry_out(effects)
        while self._session.has_rest:
            await self.throttle.wait(give_way=True)
            with self.throttle.measure():
                effects = self._session.feed_rest(time.monotonic())
            await self._carry_out(effects)
        await self.throttle.wait()

    @property
    def busy(self) -> bool:
        """Whether a set waits for its answer."""
        return self._session.busy

    def next_deadline(self) -> float:
        """Return the time of idleness, or that of the session where it is sooner."""
        deadline = self._session.next_deadline()
        idle = super().next_deadline()
        return idle if deadline is None else min(idle, deadline)

    async def tick(self, now: float) -> None:
        """Let the session act on the time `now`, too."""
        if now - self.active_at < self.app.settings.idle_seconds:
            await self._carry_out(self._session.tick(now))
        await super().tick(now)

    async def drain(self) -> None:
        """Speak the text that came, then close."""
        await self._carry_out(self._session.drain(time.monotonic()))

    async def fail(self, error: ServiceError) -> None:
        """Drop every set, tell the client of `error` and close."""
        await self.send_error(error)

    async def send_error(self, error: ServiceError) -> None:
        """Have the session end with `error`, as its protocol says it."""
        await self._carry_out(self._session.fail(error))

    async def stop(self) -> None:
        """Drop every set. When this returns, nothing more of them is sent."""
        for each in self._sets.values():
            each.stream.close("cancelled")
        self._sets.clear()
        while not self._queue.empty():
            self._queue.get_nowait()
        await super().stop()

    # Effects.

    async def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    await self._send_event(message)
                case Prepare(start):
                    await self._prepare(start)
                case Speak():
                    self._feed(effect)
                case Anticipate(set_id, text):
                    self._set(set_id).stream.anticipate(text)
                case Refuse(set_id, error):
                    self._set(set_id).stream.refuse(error)
                case Finish(set_id):
                    self._set(set_id).stream.finish()
                case Drop():
                    await self.stop()
                case Close(code, reason):
                    for frame in self._adapter.closing_frames(code):
                        await self.send(frame)
                    await self.close(code, reason)

    async def _send_event(self, event: events.Outgoing) -> None:
        if isinstance(event, events.Error):
            note_error(event.error.code, 500 if event.error.type == "server_error" else 400)
        for frame in self._adapter.event_frames(event):
            await self.send(frame)

    async def _prepare(self, start: events.Start) -> None:
        options = SpeechOptions.of(start)
        try:
            name = check_format(start.format)
            # A voice may need seconds until it is ready.
            speech = await self.prepare(options, self._send_loading)
            rate = choose_rate(name, speech.synthesizer.sample_rate, start.sample_rate)
            make = await self.app.verifiers(speech, start.verify)
        except ServiceError as error:
            self.note_rejected()
            await self.fail(error)
            return
        self._speech, self._format, self._rate, self._make_verifier = speech, name, rate, make
        route = speech.route
        ready = events.Ready(
            model=speech.model,
            voice=speech.voice,
            lang=speech.language,
            format=name,
            sample_rate=rate,
            translate_to=None if route is None else codes.tag(route.target),
            request_id=request_context.request_id.get(),
            watermark=speech.watermark,
        )
        ignored = (
            *outdated_names(options.voice, speech.synthesizer),
            *unused_speed(options.speed, speech.synthesizer),
        )
        await self._carry_out(self._session.ready(ready, None if route is None else route.source, ignored))

    async def _send_loading(self, state: ModelState) -> None:
        await self._send_event(events.Loading.of(state))

    # Speech.

    def _feed(self, speak: Speak) -> None:
        found = self._set(speak.set_id)
        timeline = found.stream.timeline
        if not found.begun:
            # The clock of a set starts with its first sentence: nobody waited for the work before it.
            timeline.started = time.perf_counter()
            found.begun = True
        if speak.waited:
            timeline.add(Stage.BOUNDARY, speak.waited)
        found.stream.feed(speak.text, speak.offset, speak.source, speak.script)

    def _set(self, set_id: int) -> _Set:
        """Return the set of that id. Its first text opens it."""
        result = self._sets.get(set_id)
        if result is None:
            if self._speech is None:
                raise RuntimeError("the session spoke before it was ready")
            labels = metrics.Labels(self._speech.model, self.surface, True)
            verifier = self._make_verifier() if self._make_verifier else None
            stream = SpeechStream(self.app.speech, self._speech, Timeline(), labels, verifier=verifier)
            result = _Set(set_id, stream)
            self._sets[set_id] = result
            self._queue.put_nowait(result)
            self.speak(self._speak_all)
        return result

    async def _speak_all(self) -> None:
        while not self._queue.empty():
            spoken = self._queue.get_nowait()
            stream = spoken.stream
            try:
                async with recorded(stream, stream.begun):
                    await self._send_speech(stream)
                    report = await stream.verification()
                answer = self._session.finished(stream.timeline, report, stream.ignored)
            except Cancelled:
                continue
            except ServiceError as error:
                answer = self._session.set_failed(error)
            finally:
                self._sets.pop(spoken.id, None)
            await self._carry_out(answer)

    async def _send_speech(self, stream: SpeechStream) -> None:
        encoder = make_encoder(self._format, stream.speech.synthesizer.sample_rate, self._rate)
        async for chunk in stream:
            data = await encode_chunk(encoder, stream, chunk)
            await self._carry_out(self._session.chunk(chunk))
            stream.delivered(chunk, sent=bool(data))
            self._note_queued(chunk.duration)
            await self._send_audio(data)
            # The bytes leave when this task pauses; the client need not wait for the work below.
            await asyncio.sleep(0)
        await self._send_audio(await encode_chunk(encoder, stream, None))

    async def _send_audio(self, data: bytes) -> None:
        for frame in self._adapter.audio_frames(data):
            await self.send(frame)

    def _note_queued(self, seconds: float) -> None:
        """Add `seconds` to the audio that a client that plays as it receives has left to play."""
        now = time.monotonic()
        self._played_out = max(self._played_out, now) + seconds
        self._session.queued(self._played_out - now, now)
