"""When text that arrives in fragments is spoken, on ElevenLabs' sockets, and what one context of theirs holds.

A whole sentence is spoken at once, whatever the `chunk_length_schedule`: these models read sentence by sentence, and
waiting for more would only cost time. The schedule says how much of an unfinished sentence may pile up: from then on it
is spoken clause by clause. `try_trigger_generation` does the same from TRIGGER characters on. Neither cuts within a
clause; `flush` does. With `auto_mode` a message is a phrase: one that ends a sentence is spoken without waiting for
what follows, and a space parts it from that, in the times of its characters, too: agents send sentences without one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from app.llm_text.clauses import ClauseCutter
from app.server.compat.elevenlabs.alignment import Aligner
from app.server.compat.elevenlabs.schemas import SocketInput
from app.speech.options import PreparedSpeech
from app.speech.stream import SpeechStream
from app.text.sentence_buffer import SentenceBuffer

# ElevenLabs' least entry of a schedule, and its usual schedule, in characters.
TRIGGER = 50
SCHEDULE = (120.0, 160.0, 250.0, 290.0)
# A clause is worth speaking alone from so many words, or characters, on.
_WORDS = 4
_CHARACTERS = 25
# Turns of a context that are computed at a time: the one that is spoken, and the next.
AHEAD = 2


class ScheduledText:
    """Text in, pieces to be spoken out; joined they are what came in, and between `phrases` a space."""

    def __init__(self, language: str, schedule: Sequence[float] | None = None, *, phrases: bool = False) -> None:
        self._buffer = SentenceBuffer(language)
        self._cutter = ClauseCutter.between(language, None, words=_WORDS, characters=_CHARACTERS, forced=0)
        self._schedule = tuple(schedule or SCHEDULE)
        self._phrases = phrases
        self._lettered = False
        self._spoken = 0

    @property
    def held(self) -> str:
        """What waits for its end."""
        return self._buffer.held

    def feed(self, fragment: str, *, trigger: bool = False, more: bool = False) -> list[str]:
        """The pieces that can be spoken now. `more` of the same message follows."""
        pieces = self._buffer.feed(fragment)
        # The "3." of a client that sends tokens all the same may become 3.5.
        lettered = self._lettered or any(map(str.isalpha, fragment))
        self._lettered = more and lettered
        if self._phrases and not more and lettered and self._buffer.ends_sentence():
            pieces += [] if self.held[-1].isspace() else self._buffer.feed(" ")
            pieces += self._buffer.flush()
        self._spoken += len(pieces)
        while self._is_enough(trigger) and (cut := self._cutter.find(self._buffer.held, forced=False)):
            pieces.append(self._buffer.take(cut))
            self._spoken += 1
        return pieces

    def flush(self) -> list[str]:
        """What is held, whole or not."""
        pieces = self._buffer.flush()
        self._spoken += len(pieces)
        return pieces

    def _is_enough(self, trigger: bool) -> bool:
        enough = self._schedule[min(self._spoken, len(self._schedule) - 1)]
        return len(self._buffer.held) >= (min(enough, TRIGGER) if trigger else enough)


class Turn:
    """The text between two flushes. Until `start` nothing of it is computed."""

    def __init__(self, begin: Callable[[], SpeechStream], *, timed: bool) -> None:
        self.aligner = Aligner(timed=timed)
        self.characters = 0
        self.dropped = False
        self._begin = begin
        self._stream: SpeechStream | None = None
        # What is fed to the stream when it begins: pieces, and at which character each stands.
        self._held: list[tuple[str, int]] = []
        self._finished = False

    def start(self) -> SpeechStream:
        """What speaks it."""
        if self._stream is None:
            self._stream = self._begin()
            for piece, offset in self._held:
                self._stream.feed(piece, offset)
            self._held.clear()
            if self._finished:
                self._stream.finish()
        return self._stream

    def feed(self, piece: str) -> None:
        """The text goes on."""
        self.aligner.feed(piece)
        if piece.strip():
            if self._stream is None:
                self._held.append((piece, self.characters))
            else:
                self._stream.feed(piece, self.characters)
        self.characters += len(piece)

    def finish(self) -> None:
        """The text is whole."""
        self._finished = True
        if self._stream is not None:
            self._stream.finish()

    def drop(self) -> None:
        """Nobody listens any more."""
        self.dropped = True
        if self._stream is not None:
            self._stream.close("cancelled")


class Context:
    """What is said in one breath: its voice, what is written of it, and what speaks it."""

    def __init__(self, name: str | None, speaker: PreparedSpeech, message: SocketInput, *, phrases: bool) -> None:
        self.name = name
        self.speaker = speaker
        config = message.generation_config
        schedule = None if config is None else config.chunk_length_schedule
        self.text = ScheduledText(speaker.language, schedule, phrases=phrases)
        self.active_at = time.monotonic()
        # What is to be spoken, in order; None: no more follow. Bounded by its characters.
        self.turns: asyncio.Queue[Turn | None] = asyncio.Queue()
        # What of it is not spoken to its end yet, and how many characters that has.
        self.unfinished: deque[Turn] = deque()
        self.characters = 0
        # What is being written, and what is being spoken; they may be the same.
        self.open: Turn | None = None
        self.current: Turn | None = None
        self.speaking: asyncio.Task[None] | None = None

    def begin(self, turn: Turn) -> None:
        """Something more is to be spoken."""
        self.open = turn
        self.unfinished.append(turn)
        self.turns.put_nowait(turn)
        self._look_ahead()

    def end(self, turn: Turn) -> None:
        """`turn`, the first, is spoken to its end."""
        self.unfinished.popleft()
        self.characters -= turn.characters
        self._look_ahead()

    def _look_ahead(self) -> None:
        """What is next is computed while the present is spoken; the rest waits as text, which costs nothing."""
        for turn in islice(self.unfinished, AHEAD):
            if not turn.dropped:
                turn.start()

    def release(self) -> None:
        """Nothing of it is computed any more."""
        while self.unfinished:
            self.unfinished.pop().drop()

    @property
    def busy(self) -> bool:
        """Whether the client waits for what it flushed."""
        return len(self.unfinished) > (self.open is not None)
