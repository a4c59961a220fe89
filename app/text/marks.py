r"""Marks in a text: pronunciations and pauses.

Any text may hold `[word](/ipa/)` and `[pause:0.5s]`; ElevenLabs' `<break time="0.5s"/>` and
`<phoneme alphabet="ipa" ph="...">word</phoneme>`; Deepgram's `\{pause:0.5s\}` and
`\{"word": "...", "pronounce": "..."\}`. Other brackets are ordinary text. `parse` finds the marks, `hide` covers them,
`unfinished` finds one that a fragment has only begun. `voices` finds `[voice:NAME]`, whose names only a server knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Final

from app.errors import MarkupError
from app.text.alphabets import to_symbols
from app.text.types import Reading

MAX_PAUSE: Final = 10.0
"""Longest pause in seconds."""
BREAKS: Final = {"none": 0.0, "x-weak": 0.1, "weak": 0.25, "medium": 0.5, "strong": 0.8, "x-strong": 1.2}
"""Seconds of each `strength` of `<break>` (SSML 1.1 section 3.2.3 leaves them open)."""

_FINDER: Final = re.compile(
    r"\[[ \t]*pause[ \t]*:(?P<pause>[^\[\]\n]*)(?P<closed>\]?)"
    r"|\[(?P<word>[^\[\]\n]+)\]\(/(?P<ipa>[^/\n]*)/\)"
    r"|<break(?P<break>(?:\s[^<>]*?)?)/?>(?:\s*</break>)?"
    r"|<phoneme\s(?P<attributes>[^<>]*)>(?P<said>[^<>]*)</phoneme>"
    r"|\\?\{\s*\"word\"\s*:\s*\"(?P<named>[^\"{}\n]+)\"\s*,\s*\"pronounce\"\s*:\s*\"(?P<pronounce>[^\"{}\n]*)\"\s*\\?\}"
    r"|\\\{[ \t]*pause[ \t]*:(?P<stop>[^{}\n\\]*)\\?\}",
    re.IGNORECASE,
)
_SECONDS: Final = re.compile(r"\s*\+?(\d+(?:\.\d+)?|\.\d+)\s*(ms|s)\s*", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"(?<![\w:.-])([A-Za-z][\w:.-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_TAGS: Final = ("break", "phoneme", "/phoneme")
_BEGUN: Final = "|".join(name[:count] for name in _TAGS for count in range(len(name), 0, -1))
_UNFINISHED: Final = re.compile(
    rf"\[[^\]]*$|<phoneme\s[^<>]*>[^<>]*(?:<[^<>]*)?$|<(?:(?:break|phoneme)\s[^<>]*|{_BEGUN}|)$|\\(?:\{{[^{{}}]*)?$",
    re.IGNORECASE,
)
# A voice has no space in its name. A reading of the word "voice:..." is none.
_VOICE: Final = re.compile(r"\[[ \t]*voice[ \t]*:[ \t]*([^\s\[\]]{1,100})[ \t]*\](?!\(/)", re.IGNORECASE)
# Characters of a tag that may be incomplete: a text with "<" must not be held back for long.
_MAX_TAG_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class PauseMark:
    """A pause at characters [start, end)."""

    start: int
    end: int
    seconds: float


Mark = Reading | PauseMark


def parse(text: str, *, english: bool = True) -> list[Mark]:
    """Return the marks of a text in order. Raises MarkupError, which says what is wrong and what is accepted."""
    if "[" not in text and "<" not in text and "{" not in text:
        return []
    marks: list[Mark] = []
    for match in _FINDER.finditer(text):
        kind = next(name for name, found in match.groupdict().items() if found is not None)
        start, end = match.span()
        if kind == "pause":
            if not match.group("closed"):
                raise _malformed(match.group())
            marks.append(PauseMark(start, end, seconds(match.group("pause"), match.group())))
        elif kind == "stop":
            marks.append(PauseMark(start, end, seconds(match.group("stop"), match.group())))
        elif kind == "break":
            found = attributes(match.group("break"))
            marks.append(PauseMark(start, end, break_seconds(found.get("time"), found.get("strength"))))
        elif (reading := _reading(match, kind, english)) is not None:
            marks.append(reading)
    return marks


def pauses(text: str) -> list[PauseMark]:
    """Return the pauses of a text in order, those of its marks that are well-formed."""
    try:
        return [mark for mark in parse(text) if isinstance(mark, PauseMark)]
    except MarkupError:
        return []  # whoever speaks the text says why


def voices(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and name of each `[voice:NAME]` of a text, in order."""
    for match in _VOICE.finditer(text):
        yield match.start(), match.end(), match.group(1)


def _reading(match: re.Match[str], kind: str, english: bool) -> Reading | None:
    group = {"word": "word", "attributes": "said", "named": "named"}[kind]
    word = match.group(group)
    if not any(map(str.isalnum, word)):
        return None
    written, alphabet = match.group("ipa") or match.group("pronounce") or "", "ipa"
    if kind == "attributes":
        found = attributes(match.group("attributes"))
        written, alphabet = found.get("ph", ""), found.get("alphabet", alphabet)
    phonemes = to_symbols(written, word, alphabet=alphabet, english=english)
    return Reading(match.start(), match.end(), match.start(group), match.end(group), phonemes)


def attributes(text: str) -> dict[str, str]:
    """Return the attributes in the text of a tag: names in small letters, values without quotes and references."""
    return {name.lower(): unescape(double or single) for name, double, single in _ATTRIBUTE.findall(text)}


def hide(text: str, marks: Sequence[Mark]) -> str:
    """Return the text with each reading as one plain word and each pause as spaces. No offset changes."""
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


def unfinished(text: str) -> int:
    """Return the first character of a mark that a text has only begun, or the length of the text."""
    start = max(0, len(text) - _MAX_TAG_CHARACTERS)
    opened = text.rfind("[", 0, start)
    if opened >= 0 and "]" not in text[opened:]:
        return opened
    found = _UNFINISHED.search(text, start)
    return len(text) if found is None else found.start()


def seconds(text: str, shown: str) -> float:
    """Return the seconds of a time such as `0.5s` or `500ms`. `shown` is the mark, for messages. Raises MarkupError."""
    found = _SECONDS.fullmatch(text)
    if found is None:
        raise _malformed(shown)
    length = float(found.group(1)) / (1000.0 if found.group(2).lower() == "ms" else 1.0)
    if length > MAX_PAUSE:
        raise MarkupError(f"pause {shown[:60]!r} is too long; at most {MAX_PAUSE:g} seconds are accepted")
    return length


def break_seconds(time: str | None, strength: str | None) -> float:
    """Return the seconds of `<break>` with these attributes. Raises MarkupError."""
    if time is not None:
        return seconds(time, f'<break time="{time}">')
    length = BREAKS.get("medium" if strength is None else strength.strip().lower())
    if length is None:
        raise MarkupError(f"break strength {(strength or '')[:40]!r} is unknown; accepted are: {', '.join(BREAKS)}")
    return length


def _malformed(shown: str) -> MarkupError:
    return MarkupError(
        f'pause {shown[:60]!r} is malformed; write its time as in [pause:0.5s] or <break time="500ms"/>, at most '
        f"{MAX_PAUSE:g} seconds"
    )
