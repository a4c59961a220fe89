"""SpokenReply: the answer of a language model to a conversation, spoken while it is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from app.errors import NothingToSpeakError
from app.generation.options import TokenCounts
from app.generation.stream import MessageStream
from app.llm_text.live import LiveText
from app.llm_text.policy import BoundaryPolicy
from app.llm_text.sources import Speakable
from app.observability import metrics
from app.speech.options import PreparedSpeech
from app.speech.sentence import SpokenChunk
from app.speech.service import SpeechService
from app.speech.stream import SpeechStream
from app.translation.text import codes
from models.contract import FinishReason, GeneratedText, ToolCall
from models.timeline import Timeline


@dataclass(frozen=True, slots=True)
class WrittenText:
    """Some text of the answer, as the model wrote it. Of a spoken answer it comes with the audio that speaks it."""

    text: str


@dataclass(frozen=True, slots=True)
class SpokenAudio:
    """Audio of the answer, in its place in it."""

    chunk: SpokenChunk


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """End of the answer. `text` is all of it, also what was not spoken, such as a block of code."""

    text: str
    finish_reason: FinishReason
    tool_calls: tuple[ToolCall, ...]
    usage: TokenCounts


ReplyEvent = WrittenText | SpokenAudio | ReplyEnd


class SpokenReply:
    """Events of one answer (`async for`). `close` it in the end, and as soon as nobody wants the rest."""

    def __init__(self, writing: MessageStream, speech: SpeechService, spoken: PreparedSpeech | None) -> None:
        """Begin an answer that `writing` brings; call on the event loop. `spoken` None: it is text alone."""
        self._writing = writing
        self._speaking: SpeechStream | None = None
        self._source: LiveText | None = None
        if spoken is not None:
            labels = replace(writing.labels, model=spoken.model)
            self._speaking = SpeechStream(speech, spoken, Timeline(), labels)
            language = codes.resolve(spoken.language, codes.FLORES)
            self._source = LiveText(BoundaryPolicy(language, None))
        # Bounded by the tokens of the answer, and by the speech stream, which waits for its reader.
        self._events: asyncio.Queue[ReplyEvent | BaseException] = asyncio.Queue()
        self._text = ""
        # Text that was written and not spoken, such as a block of code: it goes with the next that is.
        self._unspoken = ""
        self._played_out = 0.0
        self._end: ReplyEnd | None = None
        self._closed = False
        self._tasks = [asyncio.create_task(self._write())]
        if self._speaking is not None:
            self._tasks.append(asyncio.create_task(self._speak(self._speaking)))

    async def __aiter__(self) -> AsyncIterator[ReplyEvent]:
        """Yield the events; the last one is a ReplyEnd. Raises ServiceError."""
        while True:
            event = await self._events.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            if isinstance(event, ReplyEnd):
                return

    def close(self, outcome: metrics.Outcome) -> None:
        """Stop the model and the voice, and record both. Later calls change nothing."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._writing.close(outcome)
        if self._speaking is not None:
            self._speaking.close(outcome)

    async def _write(self) -> None:
        """Read the model, and have the voice speak what may be spoken."""
        reading: asyncio.Task[GeneratedText | None] | None = None
        try:
            items = aiter(self._writing)
            while True:
                reading = reading or asyncio.ensure_future(anext(items, None))
                done, _ = await asyncio.wait({reading}, timeout=self._patience())
                if not done:
                    self._feed([] if self._source is None else self._source.tick(time.monotonic()))
                    continue
                item, reading = reading.result(), None
                if item is None:
                    return
                if item.kind == "text" and item.text:
                    self._text += item.text
                    if self._source is None:
                        self._events.put_nowait(WrittenText(item.text))
                    else:
                        self._feed(self._source.feed(item.text, time.monotonic()))
                if item.finish_reason is not None:
                    self._finish(ReplyEnd(self._text, item.finish_reason, item.tool_calls, self._writing.usage))
                    return
        except Exception as error:
            self._events.put_nowait(error)
        finally:
            # Also closes the connection to another server that writes.
            if reading is not None:
                reading.cancel()

    def _patience(self) -> float | None:
        """Return the seconds until the voice may speak what waits for its boundary."""
        deadline = None if self._source is None else self._source.next_deadline()
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def _feed(self, pieces: list[Speakable]) -> None:
        for piece in pieces:
            self._unspoken += piece.original
            if piece.text.strip() and self._speaking is not None:
                self._speaking.feed(piece.text, source=self._unspoken)
                self._unspoken = ""

    def _finish(self, end: ReplyEnd) -> None:
        if self._source is None or self._speaking is None:
            self._events.put_nowait(end)
            return
        self._end = end
        self._feed(self._source.flush(time.monotonic()))
        self._speaking.finish()

    async def _speak(self, stream: SpeechStream) -> None:
        """Read the voice to its end. An answer with nothing to speak, such as a call of a tool, has no audio."""
        try:
            async for chunk in stream:
                if chunk.source:
                    self._events.put_nowait(WrittenText(chunk.source))
                self._events.put_nowait(SpokenAudio(chunk))
                self._note_queued(chunk.duration)
        except NothingToSpeakError:
            pass
        except Exception as error:
            self._events.put_nowait(error)
            return
        if self._unspoken:
            self._events.put_nowait(WrittenText(self._unspoken))
        assert self._end is not None  # noqa: S101  (the voice ends after the text)
        self._events.put_nowait(self._end)

    def _note_queued(self, seconds: float) -> None:
        now = time.monotonic()
        self._played_out = max(self._played_out, now) + seconds
        if self._source is not None:
            self._source.queued(self._played_out - now, now)

    def delivered(self, chunk: SpokenChunk) -> None:
        """Note that audio was handed to the transport."""
        if self._speaking is not None:
            self._speaking.delivered(chunk)
