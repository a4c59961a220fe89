"""Results of text planning: utterances, words, pauses, tokens. Interface of planners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from app.text.places import Places

if TYPE_CHECKING:
    from app.text.lexicon import Lexicon


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
class PhonemizedSentence:
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
    """Silence of `seconds`; None: that between two paragraphs, which is a choice of the stream."""

    seconds: float | None


SpeechSegment = PhonemizedSentence | Pause


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading that markup gives to characters [start, end); the word itself is at [word_start, word_end).

    It is spoken as `phonemes`; else as the text `alias`; else as `say_as` (`interpret-as` and `format` of SSML) reads
    the word.
    """

    start: int
    end: int
    word_start: int
    word_end: int
    phonemes: str = ""
    alias: str = ""
    say_as: tuple[str, str] | None = None
    source: Literal["markup", "user-lexicon"] = "markup"


@dataclass(frozen=True, slots=True)
class Style:
    """Manner in which a passage is spoken. None means the request's.

    `voice` is one or several names with spaces between, the first that is known counts; "": any of the `language` and
    `gender`. `language` is a BCP-47 tag. `rate` multiplies the speed of the request, `gain` the samples.
    """

    voice: str | None = None
    gender: str | None = None
    language: str | None = None
    rate: float = 1.0
    gain: float = 1.0


PLAIN: Final = Style()
"""Manner of the request itself."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters [start, end) of a text in another `language` of `LANGUAGES`, or with another `stress`.

    `stress` is by misaki's scale, -2 (none) to 2 (primary).
    """

    start: int
    end: int
    language: str | None = None
    stress: float | None = None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Name of the place before character `position` of a text, whose time a client wants to know."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Script:
    """What the markup of a passage says about it: how it is spoken, and where its text stands in the client's.

    `places` maps positions in the text to positions in the client's. `pause` is the silence before the passage, in
    seconds. `readings` are its pronunciations: those in square brackets, which plain text may have, are not looked for.
    `source` is the language from which the text is translated, if its document names one.
    """

    places: Places
    style: Style = PLAIN
    pause: float | None = 0.0
    readings: tuple[Reading, ...] = ()
    spans: tuple[TextSpan, ...] = ()
    bookmarks: tuple[Bookmark, ...] = ()
    source: str | None = None


class Planner(Protocol):
    """Splits a text into the segments that are spoken."""

    def segments(
        self,
        text: str,
        *,
        symbols: frozenset[str],
        max_phonemes: int,
        script: Script | None = None,
        lexicons: Sequence[Lexicon] = (),
    ) -> Iterator[SpeechSegment]:
        """Return the segments of `text`, lazily. With a `script`, its readings and spans take the place of marks.

        `lexicons` read the words that have no reading yet; the first that knows a word decides.

        `max_phonemes` bounds the characters of `Utterance.phonemes`. A pause of 0 seconds only reports progress through
        text that has nothing to speak. Raises MarkupError and NothingToSpeakError at once, before the first segment.
        """
        ...
