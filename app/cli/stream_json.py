"""Speech of a language model's stream while it arrives, for `nightingale say --from stream-json`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError

from app.cli.playback import Destination
from app.llm_text.events import Boundary, Broken, Event, Failed, TextDelta, read_events
from app.llm_text.live import LiveText
from app.llm_text.policy import BoundaryPolicy
from app.llm_text.sources import Speakable
from app.speech.stream import SpeechStream
from models.timeline import Stage

# Events and pieces that may wait; then the pipe stops its writer.
_EVENTS = 256
_MAX_QUEUE = 64
# Pieces that may wait in the speech stream, and seconds between two looks.
_BACKLOG = 8
_LOOK = 0.02


async def narrate(
    lines: Iterable[bytes | str],
    stream: SpeechStream,
    out: Destination,
    *,
    report: Callable[[Broken | Failed], None],
    live: bool = False,
) -> bool:
    """Speak the text of `lines` into `out` as it arrives; return False if the model reported a failure.

    `lines` are read on a thread of its own, which may be left waiting in them. `report` is called with each line that
    cannot be used. `live`: `out` is heard in real time; short sentences are then joined while enough audio waits.
    Raises ServiceError; NothingToSpeakError if there was no text.
    """
    narrator = _Narrator(stream, report, live)
    feeding = asyncio.create_task(narrator.feed(lines))
    try:
        async for chunk in stream:
            narrator.heard(chunk.duration)
            stream.delivered(chunk)
            # Off the event loop: a sound device makes its writer wait.
            await asyncio.to_thread(out.write, chunk.pcm)
    except Exception:
        if feeding.done() and not feeding.cancelled() and (error := feeding.exception()) is not None:
            raise error from None
        raise
    finally:
        feeding.cancel()
    await feeding
    return not narrator.failed


class _Narrator:
    def __init__(
        self,
        stream: SpeechStream,
        report: Callable[[Broken | Failed], None],
        live: bool,
    ) -> None:
        self.failed = False
        self._stream = stream
        self._report = report
        self._live = live
        route = stream.speech.route
        languages = (stream.speech.language, None) if route is None else (route.source or "en", route.target)
        self._text = LiveText(BoundaryPolicy(*languages))
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue(_EVENTS)
        self._pieces: asyncio.Queue[Speakable | None] = asyncio.Queue(_MAX_QUEUE)
        self._played_out = 0.0

    def heard(self, seconds: float) -> None:
        """Note that `seconds` of audio go out."""
        if self._live:
            now = self._loop.time()
            self._played_out = max(self._played_out, now) + seconds
            self._text.queued(self._played_out - now, now)

    async def feed(self, lines: Iterable[bytes | str]) -> None:
        """Read, cut and speak everything, then finish the stream."""
        threading.Thread(target=self._read, args=(lines,), name="lines", daemon=True).start()
        cutting = asyncio.create_task(self._cut())
        try:
            await self._say()
            await cutting
        finally:
            cutting.cancel()
            self._stream.finish()

    def _read(self, lines: Iterable[bytes | str]) -> None:
        last: BaseException | None = None
        try:
            for event in read_events(lines):
                self._hand_over(event)
        except (CancelledError, RuntimeError):
            return  # nobody listens any more
        except BaseException as error:
            last = error
        try:
            self._hand_over(last)
        except (CancelledError, RuntimeError):
            return

    def _hand_over(self, event: Event | BaseException | None) -> None:
        putting = self._events.put(event)
        try:
            asyncio.run_coroutine_threadsafe(putting, self._loop).result()
        except RuntimeError:
            putting.close()  # the event loop is gone, and the coroutine was never begun
            raise

    async def _cut(self) -> None:
        """Cut events into pieces until the end or an error."""
        try:
            await self._cut_all()
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self._pieces.put(None)
            raise
        await self._pieces.put(None)

    async def _cut_all(self) -> None:
        while True:
            try:
                async with asyncio.timeout_at(self._text.next_deadline()):
                    event = await self._events.get()
            except TimeoutError:
                await self._offer(self._text.tick(self._loop.time()))
                continue
            if event is None:
                return
            if isinstance(event, BaseException):
                raise event
            await self._take(event)

    async def _take(self, event: Event) -> None:
        now = self._loop.time()
        match event:
            case TextDelta(text):
                await self._offer(self._text.feed(text, now))
                self._stream.anticipate(self._text.pending)
            case Boundary():
                await self._offer(self._text.flush(now))
            case Broken() | Failed():
                self.failed = self.failed or isinstance(event, Failed)
                self._report(event)

    async def _offer(self, pieces: list[Speakable]) -> None:
        for piece in pieces:
            await self._pieces.put(piece)

    async def _say(self) -> None:
        offset = 0
        while (piece := await self._pieces.get()) is not None:
            self._stream.timeline.add(Stage.BOUNDARY, piece.waited)
            while self._stream.backlog >= _BACKLOG:  # noqa: ASYNC110 - nobody tells when it shrinks
                await asyncio.sleep(_LOOK)
            if piece.text.strip():
                self._stream.feed(piece.text, offset, piece.original)
                offset += len(piece.text)
