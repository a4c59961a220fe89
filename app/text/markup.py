"""HTML and emoji in a text.

`visible_text` leaves out HTML tags, decodes character references, and names or drops emoji. Its length may differ from
the original; `VisibleText.original_span` maps it back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from html.entities import html5
from typing import Final

from app.text.word_sets import word_set

# HTML tags and character references, complete or only begun.
ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
ENTITY_START: Final = re.compile(r"&#?\w{0,32}$")
TAG: Final = re.compile(r"</?([A-Za-z][\w:-]*)(?:\s+[\w:@.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=`]+))*\s*/?>")
TAG_START: Final = re.compile(
    r"<(?:/?(?:[A-Za-z][\w:-]*(?:\s+[\w:@.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=`]+))*"
    r"(?:\s*/?|\s+[\w:@.-]+\s*(?:=\s*(?:\"[^\"<>]*|'[^'<>]*|[^\s\"'<>=`]*))?))?|!(?:-)?)?$"
)
_HTML: Final = word_set(
    "a abbr acronym address article aside audio b base bdi bdo big blockquote body br button canvas caption center "
    "cite code col colgroup dd del details dfn dialog div dl dt em embed fieldset figcaption figure font footer form "
    "h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label legend li link main mark meta nav ol "
    "optgroup option p picture pre q s samp script section select small source span strike strong style sub summary "
    "sup svg table tbody td template textarea tfoot th thead time title tr tt u ul var video wbr speak voice prosody "
    "emphasis say-as break phoneme paragraph sentence lang"
)
_BLOCKS: Final = word_set(
    "address article aside blockquote br caption dd div dl dt figcaption footer form h1 h2 h3 h4 h5 h6 header hr "
    "legend li main nav ol option p pre section table td th title tr ul paragraph sentence break"
)
_UNSEEN: Final = r"<!--[^<>]*-->|<![A-Za-z][^<>]*>|<(?:script|style)\b[^<>]*>[^<]*</(?:script|style)>"
_HEART: Final = r"(?:[❤♥💕💖💗💓💘💙💚💛💜🧡🤍🖤🤎]\ufe0f?|<3(?!\d))"
_LOVE: Final = re.compile(rf"(?:(?<=\bI )|(?<=\b[Ww]e )|(?<=\b[Yy]ou )|(?<=\b[Tt]hey )){_HEART}(?= ?\w)")
# "love you <3" compares no number.
_HEART_AFTER: Final = re.compile(r"(?:(?<=[Yy]ou )|(?<=\ball )|(?<=\bhim )|(?<=\bher )|(?<=! ))<3(?=\s*(?:$|[.!?]))")
_EXPONENT: Final = re.compile(r"[-−]?(?:\d|[nxky]</sup>)")
_RAISED: Final = re.compile(r"\s*([-−]?[0-9]{1,4})(?=\s*</sup>)")
SUPERSCRIPTS: Final = str.maketrans("-−0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Emoji, without arrows and letter-like signs, which are read by their meaning.
PICTURE: Final = re.compile("[\u231a-\u23ff\u25aa-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff]")
_MARKED: Final = re.compile(rf"(?P<unseen>{_UNSEEN})|(?P<tag>{TAG.pattern})|(?P<entity>&(?:amp;)*{ENTITY.pattern[1:]})")


@dataclass(frozen=True, slots=True)
class VisibleText:
    """Visible text of a part of a text.

    `starts` and `ends` hold for each character of `text` the span of the part that it stands for.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original that [start, end) of `text` stands for."""
        if start < end:
            return self.starts[start], self.ends[end - 1]
        place = self.starts[start] if start < len(self.starts) else self.ends[-1] if self.ends else 0
        return place, place


def visible_text(text: str, *, language: str, name_emoji: bool) -> VisibleText | None:
    """Return the visible text of `text`, or None if all of it is visible.

    `language` is a tag of `app.text.languages`. Emoji are named in it if `name_emoji`.
    """
    found = _replacements(text, language, name_emoji)
    if not found:
        return None
    shown: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    for start, end, said in [*found, (len(text), len(text), "")]:
        shown += [text[position:start], said]
        starts += [*range(position, start), *([start] * len(said))]
        ends += [*range(position + 1, start + 1), *([end] * len(said))]
        position = end
    return VisibleText("".join(shown), starts, ends)


def _replacements(text: str, language: str, name_emoji: bool) -> list[tuple[int, int, str]]:
    """Return start, end and visible text of the parts that differ, in order and without overlap."""
    result: list[tuple[int, int, str]] = []
    if "<" in text or "&" in text:
        result = _tags_and_entities(text)
    if language.startswith("en") and ("<3" in text or not text.isascii()):
        result += [(match.start(), match.end(), "love") for match in _LOVE.finditer(text)]
        result += [(match.start(), match.end(), "heart") for match in _HEART_AFTER.finditer(text)]
    if name_emoji and has_emoji(text):
        taken = {start for start, _, _ in result}
        result += [part for part in _emoji(text, language) if part[0] not in taken]
    return sorted(result)


def has_emoji(text: str) -> bool:
    """Return whether a text has a pictograph that can be named."""
    return not text.isascii() and PICTURE.search(text) is not None


def _tags_and_entities(text: str) -> list[tuple[int, int, str]]:
    result: list[tuple[int, int, str]] = []
    for match in _MARKED.finditer(text):
        kind, matched = match.lastgroup, match.group()
        if kind == "entity":
            said = decode("&" + (matched[1:].rpartition("amp;")[2] or "amp;"))  # "&amp;lt;" was escaped twice
            if said:
                result.append((match.start(), match.end(), said))
        elif kind == "unseen":
            result.append((match.start(), match.end(), ""))
        elif _is_tag(matched):
            name = _tag_name(matched)
            if name == "sup" and (digits := _RAISED.match(text, match.end())) is not None:
                result.append((match.start(), digits.end(), digits[1].translate(SUPERSCRIPTS)))
                continue
            raised = name == "sup" and _EXPONENT.match(text, match.end()) is not None and matched[1] != "/"
            result.append((match.start(), match.end(), ", " if name in _BLOCKS else "^" if raised else ""))
    last_seen = _last_seen(text, result)
    return [(start, end, "" if said == ", " and start >= last_seen else said) for start, end, said in result]


def _last_seen(text: str, found: list[tuple[int, int, str]]) -> int:
    """Return the end of the visible part of a text."""
    end = len(text)
    for start, stop, said in reversed(found):
        if said.strip(", ") or text[stop:end].strip():
            break
        end = start
    return end


def _is_tag(matched: str) -> bool:
    """Return whether text in angle brackets is a tag, by its name, a slash or attributes. "<name>" is none."""
    return matched[1] == "/" or matched[-2] == "/" or "=" in matched or _tag_name(matched) in _HTML


def _tag_name(matched: str) -> str:
    found = TAG.match(matched)
    return found.group(1).lower() if found is not None else ""


def _emoji(text: str, language: str) -> list[tuple[int, int, str]]:
    import emoji  # loads half a megabyte of names

    code = language.split("-", maxsplit=1)[0]
    if code not in emoji.LANGUAGES:
        return []
    result = []
    for item in emoji.analyze(text, join_emoji=True):
        match = item.value
        if isinstance(match, emoji.EmojiMatch) and PICTURE.match(item.chars):
            name = emoji.demojize(item.chars, delimiters=(" ", " "), language=code).replace("_", " ")
            result.append((match.start, match.end, name))
    return result


def decode(entity: str) -> str:
    """Return the characters of a reference such as `&amp;`, or "" if the name is unknown."""
    return unescape(entity) if entity[1] == "#" or entity[1:] in html5 else ""
