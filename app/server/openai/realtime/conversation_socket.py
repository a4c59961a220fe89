"""ConversationSocket: carries out the effects of a Conversation on a socket.

Besides the tasks of a transcription session, one task answers for each response, and one writes the events: who stops
an answer drops its audio that waits to be written.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from app.audio.encoders import Format, encode, make_encoder
from app.audio.vad import SAMPLE_RATE
from app.conversation.reply import ReplyEnd, SpokenAudio, SpokenReply, WrittenText
from app.errors import ServiceError
from app.generation.options import GenerationOptions, characters
from app.generation.stream import begin_message
from app.observability import metrics
from app.recognition.events import (
    LiveEvent,
    LiveHypothesis,
    LiveUtterance,
    SpeechStarted,
    SpeechStopped,
    UtteranceFailed,
)
from app.server.openai.realtime.config import coding_of
from app.server.openai.realtime.conversation import BeginReply, Conversation, Effect, Response, SendEvent, StopReply
from app.server.openai.realtime.conversation_config import DEFAULT_MAX_TOKENS, ConversationConfig
from app.server.openai.realtime.events import write_event
from app.server.openai.realtime.items import ItemEvents
from app.server.openai.realtime.transcription import SessionConfig, TranscriptionSocket
from app.server.state import Services
from app.server.streaming.socket import Socket
from app.speech.options import PreparedSpeech

# Events that may wait to be written before an answer waits, too.
MAX_WAITING: Final = 64
INTERRUPTION_SECONDS: Final = 0.3
_FORMATS: Final[dict[str, Format]] = {"pcm16": "pcm", "mulaw": "mulaw", "alaw": "alaw"}


class ConversationItems(ItemEvents):
    """Events of the utterances of a conversation, which adds their items itself."""

    def added(self, item_id: str, places: dict[str, Any]) -> Any:
        """Tell nothing."""
        return iter(())


class ConversationSocket(TranscriptionSocket):
    """Socket of one conversation."""

    kind = "realtime"
    surface: metrics.SurfaceName = "realtime"

    def __init__(self, socket: Socket, app: Services, config: ConversationConfig, model: str) -> None:
        super().__init__(socket, app, config)
        self._model = model
        self._conversation = Conversation(config, words_interrupt=app.settings.interruption == "words")
        self._replies: dict[str, asyncio.Task[None]] = {}
        # Events that wait to be written, each with its response.
        self._waiting: deque[tuple[str | None, str]] = deque()
        self._wake, self._room = asyncio.Event(), asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._voices: dict[str, PreparedSpeech] = {}
        talk = self._conversation
        changes: dict[str, Callable[[dict[str, Any]], list[Effect]]] = {
            "conversation.item.create": lambda e: talk.create_item(e.get("item"), e.get("previous_item_id")),
            "conversation.item.delete": lambda e: talk.delete_item(e.get("item_id")),
            "conversation.item.retrieve": lambda e: talk.retrieve_item(e.get("item_id")),
            "conversation.item.truncate": lambda e: talk.truncate_item(e.get("item_id"), e.get("audio_end_ms")),
            "response.create": lambda e: talk.create_response(e.get("response")),
            "response.cancel": lambda e: talk.cancel_response(e.get("response_id")),
        }
        self._handlers.pop("transcription_session.update")
        self._handlers |= {name: self._changing(change) for name, change in changes.items()}

    def _changing(self, change: Callable[[dict[str, Any]], list[Effect]]) -> Callable[[dict[str, Any]], Any]:
        async def handle(event: dict[str, Any]) -> None:
            self._carry_out(change(event))

        return handle

    # The loop.

    async def begin(self) -> None:
        """Load the models, and tell the session. Raises ServiceError."""
        self._writer = asyncio.create_task(self._write_events())
        await super().begin()

    async def send(self, frame: str | bytes) -> None:
        """Have an event written after those that wait."""
        if self._writer is None:
            await super().send(frame)
        else:
            assert isinstance(frame, str)  # noqa: S101  (all events are JSON)
            self._put(None, frame)

    async def receive(self, frame: str | bytes) -> None:
        """Carry out an event, once there is room for what it is answered with."""
        await self.unless_gone(self._has_room(2 * MAX_WAITING))  # an answer's own events do not hold up a cancel
        await super().receive(frame)

    async def _has_room(self, most: int) -> None:
        while len(self._waiting) > most and self._writer is not None and not self._writer.done():
            self._room.clear()
            await self._room.wait()

    def speaking(self) -> set[asyncio.Task[None]]:
        """Return all tasks of the session."""
        return super().speaking() | set(self._replies.values()) | ({self._writer} if self._writer else set())

    async def settle(self) -> None:
        """Forget the answers that ended. Raises the error of a task."""
        for response_id, task in list(self._replies.items()):
            if task.done():
                del self._replies[response_id]
                if not task.cancelled():
                    task.result()
        if self._writer is not None and self._writer.done():
            self._writer.result()
        samples = self._before + (0 if self._stream is None else self._stream.samples)
        self._carry_out(self._conversation.time_out(time.monotonic(), samples * 1_000 // SAMPLE_RATE))
        await super().settle()

    def next_deadline(self) -> float:
        """Return the monotonic time at which the client has been silent for too long."""
        return min(super().next_deadline(), self._conversation.timeout_at)

    async def close(self, code: int = 1000, reason: str = "") -> Any:
        """Write the events that wait, then close."""
        if self._writer is not None and not self._writer.done():
            self._wake.set()
            while self._waiting and not self._writer.done():
                self._room.clear()
                await self._room.wait()
        await super().close(code, reason)

    async def stop(self) -> None:
        """Stop recognizing and answering. When this returns, nothing more is sent."""
        tasks = [task for task in self._replies.values() if task is not asyncio.current_task()]
        if self._writer is not None:
            tasks.append(self._writer)
            self._writer = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._replies.clear()
        await super().stop()

    async def tick(self, now: float) -> None:
        """Raise IdleTimeoutError if nothing was received for too long, and nothing is being answered."""
        if self._replies:
            self.active_at = now
        await super().tick(now)

    # Configuration.

    def _session(self) -> dict[str, Any]:
        assert isinstance(self._config, ConversationConfig)  # noqa: S101
        head = {"id": self._id, "object": "realtime.session", "expires_at": self._expires_at}
        return head | self._config.shown(self._model)

    async def _check(self, config: SessionConfig) -> None:
        """Wait for the models of a configuration, and check its options. Raises ServiceError."""
        assert isinstance(config, ConversationConfig)  # noqa: S101
        if self.app.generation.remote is None:
            await self.unless_gone(self.app.generation.model(config.model))
        await self._voice(config)
        await super()._check(config)

    async def _voice(self, config: ConversationConfig) -> PreparedSpeech:
        key = repr(config.speaking)
        if key not in self._voices:
            self._voices = {key: await self.prepare(config.speaking)}
        return self._voices[key]

    async def _change(self, event: dict[str, Any], answer: str, read: Callable[..., dict[str, Any]]) -> None:
        await super()._change(event, answer, read)
        assert isinstance(self._config, ConversationConfig)  # noqa: S101
        self._conversation.config = self._config

    # Speech of the client.

    def interruption_seconds(self) -> float | None:
        """Return more seconds than usual while an answer may be playing: a cough, or its echo, does not end it."""
        return INTERRUPTION_SECONDS if self._conversation.plays(time.monotonic()) else None

    def make_events(self, since: float) -> ItemEvents:
        """Return a writer that leaves the items to the conversation."""
        return ConversationItems(since, logprobs=self._config.logprobs, old=False)

    async def tell(self, events: ItemEvents, event: LiveEvent) -> None:
        """Tell what the recognition hears, and have the conversation take it."""
        assert isinstance(self._config, ConversationConfig)  # noqa: S101
        item_id = events.item_id(event)
        spoken = isinstance(event, SpeechStarted | SpeechStopped)
        for message in events.write(event):
            if spoken or self._config.audio.input.transcription is not None:
                await self.send(message)
        talk, now = self._conversation, time.monotonic()
        match event:
            case SpeechStarted():
                self._carry_out(talk.begin_turn(now))
            case LiveHypothesis(committed=committed, pending=pending):
                self._carry_out(talk.hear(committed + pending, now))
            case SpeechStopped():
                self._carry_out(talk.end_turn(item_id))
            case LiveUtterance(text=text):
                self._carry_out(talk.read_turn(item_id, text, now))
            case UtteranceFailed():
                self._carry_out(talk.read_turn(item_id, "", now))

    # Effects.

    def _carry_out(self, effects: list[Effect], response_id: str | None = None) -> None:
        """Carry out effects at once, in their order; events are put behind those that wait."""
        for effect in effects:
            match effect:
                case SendEvent(kind, fields):
                    self._put(response_id, write_event(kind, **fields))
                case BeginReply(response):
                    self._replies[response.id] = asyncio.create_task(self._answer(response))
                case StopReply(stopped):
                    self._waiting = deque(
                        (owner, event)
                        for owner, event in self._waiting
                        if owner != stopped or '"response.output_audio.delta"' not in event[:60]
                    )
                    task = self._replies.get(stopped)
                    if task is not None and task is not asyncio.current_task():
                        task.cancel()

    def _put(self, response_id: str | None, event: str) -> None:
        self._waiting.append((response_id, event))
        self._wake.set()

    async def _write_events(self) -> None:
        """Write the events that wait, one after the other."""
        try:
            while True:
                while self._waiting:
                    _, event = self._waiting.popleft()
                    await super().send(event)
                    self._room.set()
                self._wake.clear()
                await self._wake.wait()
        finally:  # nobody waits for one that reads no more
            self._waiting.clear()
            self._room.set()

    async def _answer(self, response: Response) -> None:
        """Give one answer: the model's text, and its speech."""
        try:
            await self._give(response)
        except ServiceError as error:
            self._carry_out(self._conversation.fail(response.id, error))

    async def _give(self, response: Response) -> None:
        config = response.config
        limit = config.max_output_tokens
        # As a request of chat: what the model reads; and then what is spoken.
        self.app.admission.charge_client(characters(response.messages or ()))
        options = GenerationOptions(
            messages=tuple(response.messages or ()),
            model=config.model,
            tools=() if config.tool_choice == "none" else tuple(tool.as_chat() for tool in config.tools or ()),
            max_tokens=limit if isinstance(limit, int) else DEFAULT_MAX_TOKENS,
            truncate=config.truncation != "disabled",
        )
        voice = await self._voice(config) if response.speaks else None
        reply = SpokenReply(await begin_message(self.app.generation, options, self.surface), self.app.speech, voice)
        outcome: Any = "failed"
        talk = self._conversation
        coding, rate = coding_of(config.audio.output.format)
        encoder = None if voice is None else make_encoder(_FORMATS[coding], voice.synthesizer.sample_rate, rate)
        start: float | None = None
        try:
            async for event in reply:
                await self._has_room(MAX_WAITING)
                now = time.monotonic()
                match event:
                    case WrittenText(text):
                        if voice is not None:
                            self.app.admission.charge_client(len(text))
                        self._carry_out(talk.write(response.id, text, now, start), response.id)
                    case SpokenAudio(chunk) if encoder is not None:
                        data = await encode(encoder, chunk.pcm)
                        self._carry_out(talk.speak(response.id, data, chunk.duration, chunk.words, now), response.id)
                        reply.delivered(chunk)
                        start = chunk.start + chunk.duration
                    case ReplyEnd(_, reason, calls, usage):
                        outcome = "ok"
                        self._carry_out(talk.end(response.id, reason, calls, usage), response.id)
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            reply.close(outcome)
