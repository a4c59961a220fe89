"""What the text side hands to speech: utterances, their words, and pauses."""

from __future__ import annotations

from dataclasses import dataclass


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
    """One sentence or clause. `text` is [char_start, char_end) of the request text."""

    text: str
    char_start: int
    char_end: int
    phonemes: str
    words: tuple[WordSpan, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence of `seconds`."""

    seconds: float


Segment = Utterance | Pause
