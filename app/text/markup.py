"""Inline markup: `[word](/ipa/)` gives a pronunciation, `[pause:0.5s]` or `[pause:500ms]` a silence.

Other brackets are ordinary text. The phonemes are Kokoro's, or common IPA that maps onto them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from app.text.errors import MarkupError
from app.text.pieces import KOKORO_SYMBOLS

MAX_PAUSE: Final = 10.0
"""Longest pause in seconds."""
_MAX_PHONEMES: Final = 200

_FINDER: Final = re.compile(
    r"\[[ \t]*pause[ \t]*:(?P<pause>[^\[\]\n]*)(?P<closed>\]?)|\[(?P<word>[^\[\]\n]+)\]\(/(?P<ipa>[^/\n]*)/\)",
    re.IGNORECASE,
)
_SECONDS: Final = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(ms|s)\s*", re.IGNORECASE)
_IPA: Final = (
    ("\u0361", ""), ("eɪ", "A"), ("aɪ", "I"), ("aʊ", "W"), ("ɔɪ", "Y"), ("oʊ", "O"), ("əʊ", "Q"), ("tʃ", "ʧ"),
    ("dʒ", "ʤ"), ("ɝ", "ɜɹ"), ("g", "ɡ"), ("'", "ˈ"), ("ɫ", "l"), ("ɾ", "T"), ("ʔ", "t"), (".", ""),
)  # fmt: skip
_ENGLISH_ONLY: Final = frozenset(("ɾ", "ʔ"))


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """`[word](/phonemes/)` at characters [start, end); the word itself is at [word_start, word_end)."""

    start: int
    end: int
    word_start: int
    word_end: int
    phonemes: str


@dataclass(frozen=True, slots=True)
class PauseMark:
    """`[pause:...]` at characters [start, end)."""

    start: int
    end: int
    seconds: float


Mark = Pronunciation | PauseMark


def parse(text: str, *, english: bool = True) -> list[Mark]:
    """Return the marks of a text in order. Raises MarkupError, which says what is wrong and what is accepted."""
    if "[" not in text:
        return []
    marks: list[Mark] = []
    for match in _FINDER.finditer(text):
        if match.group("pause") is not None:
            marks.append(PauseMark(match.start(), match.end(), _pause_seconds(match)))
        elif any(character.isalnum() for character in match.group("word")):
            phonemes = _phonemes(match.group("ipa"), match.group("word"), english=english)
            marks.append(Pronunciation(match.start(), match.end(), match.start("word"), match.end("word"), phonemes))
    return marks


def hide(text: str, marks: list[Mark]) -> str:
    """Return the text with each pronunciation as one plain word and each pause as spaces. No offset changes."""
    parts: list[str] = []
    position = 0
    for mark in marks:
        parts.append(text[position : mark.start])
        length = mark.end - mark.start
        if isinstance(mark, PauseMark):
            parts.append(" " * length)
        else:
            capital = text[mark.word_start].isupper()
            parts.append(("X" if capital else "x") + "x" * (length - 1))
        position = mark.end
    return "".join([*parts, text[position:]])


def _pause_seconds(match: re.Match[str]) -> float:
    shown = match.group()[:60]
    found = _SECONDS.fullmatch(match.group("pause"))
    if found is None or not match.group("closed"):
        raise MarkupError(
            f"pause {shown!r} is malformed; write [pause:0.5s] or [pause:500ms], at most {MAX_PAUSE:g} seconds"
        )
    seconds = float(found.group(1)) / (1000.0 if found.group(2).lower() == "ms" else 1.0)
    if seconds > MAX_PAUSE:
        raise MarkupError(f"pause {shown!r} is too long; at most {MAX_PAUSE:g} seconds are accepted")
    return seconds


def _phonemes(ipa: str, word: str, *, english: bool) -> str:
    phonemes = ipa.strip()
    for old, new in _IPA:
        if english or old not in _ENGLISH_ONLY:
            phonemes = phonemes.replace(old, new)
    phonemes = " ".join(phonemes.split())
    unknown = sorted(set(phonemes) - KOKORO_SYMBOLS)
    if unknown:
        listed = " ".join(unknown[:8])
        raise MarkupError(
            f"pronunciation of {word[:40]!r} has unknown phonemes: {listed}; write IPA, as in [Nguyen](/wˈɪn/)"
        )
    if not any(character.isalpha() for character in phonemes.replace("ː", "").replace("ʰ", "").replace("ʲ", "")):
        raise MarkupError(f"pronunciation of {word[:40]!r} is empty; write IPA, as in [Nguyen](/wˈɪn/)")
    if len(phonemes) > _MAX_PHONEMES:
        raise MarkupError(f"pronunciation of {word[:40]!r} has {len(phonemes)} phonemes; at most {_MAX_PHONEMES}")
    return phonemes
