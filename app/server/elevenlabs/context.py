"""Context of ElevenLabs' sockets: a voice, the text written so far, and the sets that wait to be spoken."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from app.server.elevenlabs.alignment import Aligner
from app.server.elevenlabs.chunking import ScheduledText
from app.server.elevenlabs.schemas import SocketInput
from app.speech.options import PreparedSpeech
from app.speech.stream import SpeechStream

# Sets of a context that are computed at a time: the one that is spoken, and the next.
AHEAD = 2


class TextSet:
    """Text between two flushes. Nothing of it is computed before `start`.

    `timed`: the model says when its words are spoken.
    """

    def __init__(self, open_stream: Callable[[], SpeechStream], *, timed: bool) -> None:
        self.aligner = Aligner(timed=timed)
        self.characters = 0
        self.dropped = False
        self._open_stream = open_stream
        self._stream: SpeechStream | None = None
        # Pieces for the stream when it opens, with the character at which each begins.
        self._pieces: list[tuple[str, int]] = []
        self._finished = False

    def start(self) -> SpeechStream:
        """Return the stream that speaks the set. The first call opens it."""
        if self._stream is None:
            self._stream = self._open_stream()
            for piece, offset in self._pieces:
                self._stream.feed(piece, offset)
            self._pieces.clear()
            if self._finished:
                self._stream.finish()
        return self._stream

    def feed(self, piece: str) -> None:
        """Add `piece` to the text."""
        self.aligner.feed(piece)
        if piece.strip():
            if self._stream is None:
                self._pieces.append((piece, self.characters))
            else:
                self._stream.feed(piece, self.characters)
        self.characters += len(piece)

    def finish(self) -> None:
        """End the text."""
        self._finished = True
        if self._stream is not None:
            self._stream.finish()

    def drop(self) -> None:
        """Stop the work for the set."""
        self.dropped = True
        if self._stream is not None:
            self._stream.close("cancelled")


class Context:
    """One text of a client, in one voice. Its sets are spoken in turn by the task `speaking`.

    `phrases`: each message is a phrase of its own (`auto_mode`).
    """

    def __init__(self, name: str | None, speech: PreparedSpeech, message: SocketInput, *, phrases: bool) -> None:
        self.name = name
        self.speech = speech
        config = message.generation_config
        schedule = None if config is None else config.chunk_length_schedule
        self.text = ScheduledText(speech.language, schedule, phrases=phrases)
        self.active_at = time.monotonic()
        # Sets to speak, in order; None: no more follow. The limit on its characters bounds the queue.
        self.sets: asyncio.Queue[TextSet | None] = asyncio.Queue()
        # Sets that are not spoken to their end, and the number of their characters.
        self.unfinished: deque[TextSet] = deque()
        self.characters = 0
        # The set that is being written, and the one that is being spoken. They may be the same.
        self.written: TextSet | None = None
        self.spoken: TextSet | None = None
        self.speaking: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a set that was flushed is not spoken to its end."""
        return len(self.unfinished) > (self.written is not None)

    def begin(self, text_set: TextSet) -> None:
        """Add a set, which is written from now on."""
        self.written = text_set
        self.unfinished.append(text_set)
        self.sets.put_nowait(text_set)
        self._look_ahead()

    def flush(self) -> None:
        """End the set that is being written."""
        if self.written is not None:
            self.written.finish()
            self.written = None

    def end(self, text_set: TextSet) -> None:
        """Forget the first set, which was spoken to its end."""
        self.unfinished.popleft()
        self.characters -= text_set.characters
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Have the next set computed while the present one is spoken. The others wait as text, which costs nothing."""
        for text_set in islice(self.unfinished, AHEAD):
            if not text_set.dropped:
                text_set.start()

    def drop_all(self) -> None:
        """Stop the work for every set."""
        while self.unfinished:
            self.unfinished.pop().drop()
