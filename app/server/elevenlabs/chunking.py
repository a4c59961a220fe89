"""Rules for the text of ElevenLabs' sockets: when text that arrives in fragments is spoken.

A whole sentence is spoken at once, whatever the `chunk_length_schedule`: these models read sentence by sentence, and
to wait for more text would only cost time. The schedule bounds the unfinished sentence: a longer one is spoken clause
by clause. `try_trigger_generation` does the same from TRIGGER characters on. Only `flush` cuts within a clause.

With `auto_mode` a message is a phrase. A phrase that ends a sentence is spoken without a wait for the text after it.
Agents send sentences without a space between them, so a space is added, also to the times of the characters.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.llm_text.clauses import ClauseCutter
from app.llm_text.hidden import HiddenParts
from app.text.sentence_buffer import SentenceBuffer

# Least entry of a schedule, and the default schedule, in characters: ElevenLabs' numbers.
TRIGGER = 50
SCHEDULE = (120.0, 160.0, 250.0, 290.0)
# Least words, or characters, of a clause that is spoken alone.
_WORDS = 4
_CHARACTERS = 25


class ScheduledText:
    """Buffer from fragments to pieces to speak. The pieces add up to the fragments, with a space between `phrases`."""

    def __init__(self, language: str, schedule: Sequence[float] | None = None, *, phrases: bool = False) -> None:
        self._buffer = SentenceBuffer(language)
        self._hidden = HiddenParts()
        self._cutter = ClauseCutter.between(language, None, words=_WORDS, characters=_CHARACTERS, forced=0)
        self._schedule = tuple(schedule or SCHEDULE)
        self._phrases = phrases
        self._lettered = False
        self._spoken = 0

    @property
    def held(self) -> str:
        """Text that waits for the end of its sentence."""
        return self._buffer.held

    @property
    def covered(self) -> int:
        """Characters since the last flush that are known not to be spoken, such as those of a model's thoughts."""
        return self._hidden.covered

    def feed(self, fragment: str, *, trigger: bool = False, more: bool = False) -> list[str]:
        """Return the pieces that can be spoken now. `more`: the message goes on."""
        pieces = self._buffer.feed(self._hidden.feed(fragment))
        # Some clients send tokens all the same, and their "3." may become 3.5: a phrase needs a letter.
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
        """Return the text that waits."""
        pieces = [*self._buffer.feed(self._hidden.flush()), *self._buffer.flush()]
        self._spoken += len(pieces)
        return pieces

    def _is_enough(self, trigger: bool) -> bool:
        enough = self._schedule[min(self._spoken, len(self._schedule) - 1)]
        return len(self._buffer.held) >= (min(enough, TRIGGER) if trigger else enough)
