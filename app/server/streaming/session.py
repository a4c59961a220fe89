"""StreamSession: the protocol of `WS /v1/audio/stream` as a value.

Frames, audio and times go in, effects come out. There is no I/O and no clock, so that tests need no socket. The text
between two flushes is a *set*. A set has one stream of audio and one `Timeline`, and its answer is exactly one `done`
or one `error`.

    NEW --start--> OPEN --end--> ENDING --last set answered--> CLOSED
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from pydantic import BaseModel

from app.errors import (
    DrainingError,
    EmptyInputError,
    MarkupError,
    ProtocolError,
    QuotaExceededError,
    ServiceError,
    TextTooLongError,
)
from app.llm_text.hidden import MAX_THOUGHTS
from app.llm_text.live import LiveText
from app.llm_text.policy import BoundaryPolicy
from app.llm_text.sources import PlainText, Speakable, TextSource
from app.server.streaming import events
from app.server.streaming.effects import (
    Anticipate,
    Close,
    Drop,
    Effect,
    Finish,
    Prepare,
    Refuse,
    Send,
    Speak,
)
from app.speech.document import InputType
from app.speech.sentence import SpokenChunk
from app.speech.verifier import VerificationReport
from app.ssml.source import DetectedText, SsmlText
from app.translation.text import codes
from models.timeline import Timeline

# Characters that are read in one turn of the event loop.
SLICE_CHARACTERS = 1_000
# Sets that may wait to be spoken. A client that flushes more often does not listen.
MAX_SETS = 16


class SessionState(Enum):
    """State of a session."""

    NEW = "new"
    OPEN = "open"
    ENDING = "ending"
    CLOSED = "closed"


class StreamSession:
    """Session of one client. Its methods return the effects to carry out, in order.

    `charge` is called with the number of characters that came, and raises QuotaExceededError. A long text is read in
    parts: while `has_rest`, call `feed_rest` before anything else is received.
    """

    def __init__(
        self, *, max_characters: int, max_frame_bytes: int, charge: Callable[[int], None] = lambda characters: None
    ) -> None:
        self.state = SessionState.NEW
        self._max_characters = max_characters
        self._max_frame_bytes = max_frame_bytes
        self._charge = charge
        self._refused: ServiceError | None = None
        self._rest, self._taken = "", 0
        self._timestamps = False
        self._input: InputType = "auto"
        self._anticipate = True
        self._languages: tuple[str, str | None] = ("en-us", None)
        self._source: TextSource = PlainText("en-us")
        self._set_id = 0
        self._characters = 0
        self._pending = False
        self._cursor = 0
        self._committed = False
        self._unanswered: list[int] = []
        self._sequence = 0
        self._set_chunks = 0
        self._text_came = False
        self._closing: list[Effect] = [Close(1000, "")]

    @property
    def has_rest(self) -> bool:
        """Whether a part of the last text is not read yet."""
        return self.state is not SessionState.CLOSED and self._taken < len(self._rest)

    @property
    def busy(self) -> bool:
        """Whether a set waits for its answer."""
        return bool(self._unanswered)

    def receive(self, frame: str | bytes, now: float = 0.0) -> list[Effect]:
        """Handle a frame of the client that came at `now` seconds."""
        if self.state is SessionState.CLOSED:
            return []
        try:
            message = events.read_message(frame, self._max_frame_bytes, events.INCOMING, events.Incoming)
        except ServiceError as error:
            return self.fail(error)
        return self.accept(message, now)

    def accept(self, message: BaseModel, now: float = 0.0) -> list[Effect]:
        """Handle a message. The adapters of other protocols make it from their own frames."""
        if self.state is SessionState.CLOSED:
            return []
        try:
            return self._handle(message, now)
        except ServiceError as error:
            return self.fail(error)

    def ready(self, ready: events.Ready, source: str | None = None, ignored: Sequence[str] = ()) -> list[Effect]:
        """Open the session: the options of `start` are good.

        `source`: language of a text that is to be translated. `ignored`: words of `start` that change nothing.
        """
        self.state = SessionState.OPEN
        self._languages = (ready.lang, None) if ready.translate_to is None else (source or "en", ready.translate_to)
        self._source = self._new_source()
        return [Send(ready), *self._warn(ignored, "'start'")]

    def next_deadline(self) -> float | None:
        """Return the time at which `tick` is due unless a frame comes first; None: it is not due."""
        return self._source.next_deadline() if self.state is SessionState.OPEN else None

    def tick(self, now: float) -> list[Effect]:
        """Speak the text that is complete at `now`, because nothing followed it."""
        return self._speak(self._source.tick(now)) if self.state is SessionState.OPEN else []

    def queued(self, seconds: float, now: float) -> None:
        """Note that the client has `seconds` of audio left to play at `now`."""
        self._source.queued(seconds, now)

    def chunk(self, chunk: SpokenChunk) -> list[Effect]:
        """Announce a piece of audio, which is sent next."""
        message = events.Chunk(
            sequence=self._sequence,
            text=chunk.text,
            start=round(chunk.start, 6),
            duration=round(chunk.duration, 6),
            source_text=chunk.source,
            words=tuple(events.WordTiming.of(word, 4) for word in chunk.words) if self._timestamps else None,
            marks=tuple(events.MarkTiming(name=mark.name, time=round(mark.time, 4)) for mark in chunk.marks) or None,
        )
        self._sequence += 1
        self._set_chunks += 1
        return [Send(message)]

    def finished(
        self, timeline: Timeline, report: VerificationReport | None = None, ignored: tuple[str, ...] = ()
    ) -> list[Effect]:
        """Answer the oldest set, whose last byte was sent, with the `report` of its verification.

        `ignored` are the marks of its text that changed nothing.
        """
        return [*self._warn(ignored, "the text"), *self._answer(Send(self._done(timeline, report)))]

    def set_failed(self, error: ServiceError) -> list[Effect]:
        """Answer the oldest set with an error. The session goes on."""
        return self._answer(Send(_error(error, fatal=False)))

    def fail(self, error: ServiceError) -> list[Effect]:
        """End the session with an error."""
        if self.state is SessionState.CLOSED:
            return []
        self.state = SessionState.CLOSED
        self._unanswered.clear()
        return [Drop(), Send(_error(error, fatal=True)), Close(error.close_code, error.message)]

    def drain(self, now: float = 0.0) -> list[Effect]:
        """Speak the text that came, then close: the server shuts down."""
        if self.state is SessionState.CLOSED:
            return []
        error = DrainingError("The server is shutting down.")
        self._closing = [Send(_error(error, fatal=True)), Close(error.close_code, error.message)]
        return self._end(now) if self.state is not SessionState.ENDING else []

    def _handle(self, message: BaseModel, now: float) -> list[Effect]:
        if isinstance(message, events.Start):
            if self.state is not SessionState.NEW:
                raise ProtocolError("The session has started already; 'start' comes once, first.")
            self._timestamps = message.timestamps
            self._input = message.input
            self._anticipate = message.anticipate
            return [Prepare(message)]
        if self.state is SessionState.NEW:
            raise ProtocolError("The first message must be 'start'.")
        if isinstance(message, events.Cancel):
            return self._cancel()
        if self.state is SessionState.ENDING:
            raise ProtocolError("After 'end' only 'cancel' is accepted.")
        if isinstance(message, events.Text):
            return self._receive_text(message.text, now)
        if isinstance(message, events.Flush):
            return self._flush(now)
        return self._end(now)

    def _receive_text(self, text: str, now: float) -> list[Effect]:
        thoughts = min(self._source.covered, MAX_THOUGHTS * self._max_characters)
        if self._characters + len(text) - thoughts > self._max_characters:
            raise TextTooLongError(
                f"More than {self._max_characters} characters without a 'flush'; send less, or flush in between.",
                param="text",
            )
        self._text_came = True
        self._characters += len(text)
        self._pending = self._pending or bool(text.strip())
        if self._refused is None:
            try:
                self._charge(len(text))
            except QuotaExceededError as error:
                self._refused = error
        if self._refused is not None:
            return []  # the flush says so
        self._rest, self._taken = text, 0
        return self._feed_slice(now)

    def feed_rest(self, now: float) -> list[Effect]:
        """Read the next part of a long text."""
        try:
            return self._feed_slice(now) if self.has_rest else []
        except ServiceError as error:
            return self.fail(error)

    def _feed_slice(self, now: float) -> list[Effect]:
        text = self._rest[self._taken : self._taken + SLICE_CHARACTERS]
        self._taken += len(text)
        try:
            effects = self._speak(self._source.feed(text, now))
        except MarkupError as error:
            # Text that was complete before is spoken; the flush answers with the error.
            self._refused = error
            self._rest, self._taken = "", 0
            return []
        effects += self._warn(self._source.take_ignored())
        if self.has_rest:
            return effects
        self._rest, self._taken = "", 0
        pending = self._source.pending
        if self._anticipate and pending.strip() and self._languages[1] is not None:
            effects.append(Anticipate(self._set_id, pending))
        return effects

    def _warn(self, ignored: Sequence[str], where: str = "SSML") -> list[Effect]:
        """Tell of the parts of a text that change nothing."""
        if not ignored:
            return []
        return [Send(events.Warning(message=f"Not used in {where}: {', '.join(ignored)}.", ignored=tuple(ignored)))]

    def _speak(self, pieces: list[Speakable]) -> list[Effect]:
        effects: list[Effect] = []
        for piece in pieces:
            if piece.script is not None:
                self._committed = True
                effects.append(Speak(self._set_id, piece.text, 0, script=piece.script))
                continue
            # The pieces joined are the fragments joined, so offsets add up.
            offset, self._cursor = self._cursor, self._cursor + len(piece.text)
            if piece.text.strip():
                self._committed = True
                source = piece.original if self._input == "llm" else None
                effects.append(Speak(self._set_id, piece.text, offset, source, piece.waited))
        return effects

    def _flush(self, now: float) -> list[Effect]:
        if self._refused is not None:
            self._source = self._new_source()
            self._committed = True
            effects: list[Effect] = [Refuse(self._set_id, self._refused)]
        else:
            try:
                effects = self._speak(self._source.flush(now)) + self._warn(self._source.take_ignored())
            except MarkupError as error:
                self._source = self._new_source()
                self._committed = True
                effects = [Refuse(self._set_id, error)]
        if not self._committed:
            self._next_set()
            empty = EmptyInputError("There is no text to speak since the last flush.", param="text")
            return [Send(_error(empty, fatal=False))]
        if len(self._unanswered) >= MAX_SETS:
            raise ProtocolError(f"{MAX_SETS} flushes wait for their audio already; wait for 'done'.")
        effects.append(Finish(self._set_id))
        self._unanswered.append(self._set_id)
        self._next_set()
        return effects

    def _next_set(self) -> None:
        self._set_id += 1
        self._characters = 0
        self._pending = False
        self._cursor = 0
        self._committed = False
        self._refused = None
        self._rest, self._taken = "", 0

    def _cancel(self) -> list[Effect]:
        self._source = self._new_source()
        self._next_set()
        self._unanswered.clear()
        effects: list[Effect] = [Drop(), Send(events.Done(cancelled=True, chunks=self._set_chunks))]
        self._set_chunks = 0
        return effects + self._close_if_done()

    def _new_source(self) -> TextSource:
        language, target = self._languages
        if self._input == "llm":
            return LiveText(BoundaryPolicy(language, target))
        if self._input == "text":
            return PlainText(codes.tag(language))
        kind = SsmlText if self._input == "ssml" else DetectedText
        return kind(codes.tag(language), translated=target is not None)

    def _end(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._pending or (self.state is SessionState.OPEN and not self._text_came and self._client_ends):
            effects = self._flush(now)
        self.state = SessionState.ENDING
        return effects + self._close_if_done()

    @property
    def _client_ends(self) -> bool:
        """Whether the client ends the session, and not the server. Only a client can forget its text."""
        return self._closing == [Close(1000, "")]

    def _answer(self, answer: Send) -> list[Effect]:
        if self._unanswered:
            self._unanswered.pop(0)
        self._set_chunks = 0
        return [answer, *self._close_if_done()]

    def _close_if_done(self) -> list[Effect]:
        if self.state is not SessionState.ENDING or self._unanswered:
            return []
        self.state = SessionState.CLOSED
        return list(self._closing)

    def _done(self, timeline: Timeline, report: VerificationReport | None) -> events.Done:
        return events.Done(
            chunks=self._set_chunks,
            audio_duration=round(timeline.audio_seconds, 6),
            first_audio=_round(timeline.ttfa_seconds),
            total=round(timeline.total_seconds, 6),
            real_time_factor=_round(timeline.rtf),
            stages={stage.value: round(seconds, 6) for stage, seconds in timeline.stages.items()},
            verification=None if report is None else report.fields(),
        )


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _error(error: ServiceError, *, fatal: bool) -> events.Error:
    return events.Error(error=events.ErrorDetail.of(error), fatal=fatal)
