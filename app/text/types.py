"""Results of text planning: utterances, words, pauses, tokens. Interface of planners."""

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

    `phonemes` is the input of the model. For a model that reads text it is the text without markup, and `words` is
    empty.
    """

    text: str
    char_start: int
    char_end: int
    phonemes: str
    words: tuple[WordSpan, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """Characters of the original text, the words that speak them, and their phonemes.

    `source` names the origin of the reading: the rule that rewrote the text ("money", "rewritten", ...), "lexicon",
    "dictionary", "espeak", "letters", "markup" (given in the text) or "punctuation".
    """

    text: str
    spoken: str
    phonemes: str
    source: str
    glued: bool = False
    """True if no space separates it from the token before: punctuation, and "'s"."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence of `seconds`."""

    seconds: float


SpeechSegment = Utterance | Pause


class Planner(Protocol):
    """Splits a text into the segments that are spoken."""

    def segments(self, text: str, *, symbols: frozenset[str], max_phonemes: int) -> Iterator[SpeechSegment]:
        """Return the segments of `text`, lazily.

        `max_phonemes` bounds the characters of `Utterance.phonemes`. A pause of 0 seconds only reports progress through
        text that has nothing to speak. Raises MarkupError and NothingToSpeakError at once, before the first segment.
        """
        ...
