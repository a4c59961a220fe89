"""What the text side hands to speech: utterances, their words, and pauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class WordSpan:
    """One word of the original text and the phoneme characters that speak it.

    `char_start`, `char_end` are offsets into the whole request text; `phoneme_start`, `phoneme_end` into
    `Utterance.phonemes`.
    """

    text: str
    char_start: int
    char_end: int
    phoneme_start: int
    phoneme_end: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """One sentence or clause. `text` is [char_start, char_end) of the request text.

    `phonemes` is what the model reads: for one that reads text, the text without its markup, and no `words`.
    """

    text: str
    char_start: int
    char_end: int
    phonemes: str
    words: tuple[WordSpan, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """Characters of the original text, the words that speak them, and the phonemes of these.

    `source` names the origin of the reading: the rule that rewrote the text ("money", "rewritten", ...), "lexicon",
    "dictionary", "espeak", "letters", "markup" (given in the text) or "punctuation".
    """

    text: str
    spoken: str
    phonemes: str
    source: str
    glued: bool = False
    """Whether it follows the one before without a space: punctuation, and "'s"."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence of `seconds`."""

    seconds: float


Segment = Utterance | Pause


class Planner(Protocol):
    """Takes a text apart into what is spoken, one piece after the other."""

    def segments(self, text: str, *, symbols: frozenset[str], max_phonemes: int) -> Iterator[Segment]:
        """The segments of `text`, lazily; utterances of at most `max_phonemes` characters of what the model reads.

        A pause of no length says only that the planner got on where there is nothing to say.

        Raises MarkupError and NothingToSpeakError at once, before the first segment.
        """
        ...
