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
from collections.abc import Sequence
from dataclasses import dataclass

from app.api.alignment import Aligner
from app.api.elevenlabs_wire import SocketInput
from app.pipeline import Speaker, SpeechStream
from app.text.llm.clauses import ClauseCutter
from app.text.stream import SentenceBuffer

# ElevenLabs' least entry of a schedule, and its usual schedule, in characters.
TRIGGER = 50
SCHEDULE = (120.0, 160.0, 250.0, 290.0)
# A clause is worth speaking alone from so many words, or characters, on.
_WORDS = 4
_CHARACTERS = 25


class ScheduledText:
    """Text in, pieces to be spoken out; joined they are what came in, and between `phrases` a space."""

    def __init__(self, language: str, schedule: Sequence[float] | None = None, *, phrases: bool = False) -> None:
        self._buffer = SentenceBuffer(language)
        self._cutter = ClauseCutter.between(language, None, words=_WORDS, characters=_CHARACTERS, forced=0)
        self._schedule = tuple(schedule or SCHEDULE)
        self._phrases = phrases
        self._spoken = 0

    @property
    def held(self) -> str:
        """What waits for its end."""
        return self._buffer.held

    def feed(self, fragment: str, *, trigger: bool = False) -> list[str]:
        """The pieces that can be spoken now."""
        pieces = self._buffer.feed(fragment)
        # The "3." of a client that sends tokens all the same may become 3.5.
        if self._phrases and any(map(str.isalpha, fragment)) and self._buffer.ends_sentence():
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


@dataclass(slots=True)
class Turn:
    """The text between two flushes."""

    stream: SpeechStream
    aligner: Aligner
    characters: int = 0
    dropped: bool = False


class Context:
    """What is said in one breath: its voice, what is written of it, and what speaks it."""

    def __init__(self, name: str | None, speaker: Speaker, message: SocketInput, *, phrases: bool) -> None:
        self.name = name
        self.speaker = speaker
        config = message.generation_config
        schedule = None if config is None else config.chunk_length_schedule
        self.text = ScheduledText(speaker.language, schedule, phrases=phrases)
        self.active_at = time.monotonic()
        # Unbounded by type, bounded by MAX_TURNS. None: no more follow.
        self.turns: asyncio.Queue[Turn | None] = asyncio.Queue()
        # What is being written, and what is being spoken; they may be the same.
        self.open: Turn | None = None
        self.current: Turn | None = None
        self.unfinished = 0
        self.speaking: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether the client waits for what it flushed."""
        return self.unfinished > (self.open is not None)
