"""Messages of the daemon as SSML: texts, characters, keys and the names of sounds.

The daemon itself names punctuation and characters in the user's language (its option SymbolsPreproc). The names here,
which are English, are for users who have turned that off.
"""

from __future__ import annotations

import re
import unicodedata
from html import unescape
from typing import Final
from xml.sax.saxutils import escape

from app.text.say_as import name_of_sign

# Characters that XML does not have: control characters, halves of pairs, and two that are none.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG: Final = re.compile(r"(<[^<>]*>)")
_MARK: Final = re.compile(r"<mark\s[^<>]*\bname\s*=\s*(?:\"([^\"]*)\"|'([^']*)')[^<>]*>")
# Signs that are left to the rhythm of speech by "most", and those that "some" names.
_QUIET: Final = frozenset(",.;:!?'-")
_SOME: Final = frozenset("@#$%&*+=/\\<>^_|~")
# Characters of a document that is sent at once.
_PART: Final = 8_000
_CAPITAL: Final = re.compile(r"(?<![^\W\d_])(?=[A-Z])")


def text_message(ssml: str, *, spelling: bool, punctuation: str, capitals: bool, language: str) -> str:
    """Return the SSML of a text.

    Args:
        ssml: text as the daemon sends it.
        spelling: spell every character.
        punctuation: signs that are named: none, some, most or all.
        capitals: announce words that begin with a capital.
        language: tag of the language that is spoken.
    """
    ssml = _NOT_XML.sub(" ", ssml)
    english = language.startswith("en")
    if not spelling and (not english or (punctuation == "none" and not capitals)):
        return ssml
    return "".join(
        part
        if part.startswith("<") or not part.strip()
        else _changed(part, spelling, punctuation, capitals and english)
        for part in _TAG.split(ssml)
    )


def _changed(part: str, spelling: bool, punctuation: str, capitals: bool) -> str:
    if spelling:
        return f'<say-as interpret-as="characters">{part}</say-as>'
    text = unescape(part)
    if capitals:
        text = _CAPITAL.sub("capital ", text)
    return escape("".join(_named(sign, punctuation) for sign in text))


def _named(sign: str, punctuation: str) -> str:
    named = {"some": sign in _SOME, "most": sign not in _QUIET, "all": True}.get(punctuation, False)
    name = name_of_sign(sign, "en") if named else None
    # The sign itself stays: it is the pause of its sentence.
    return f" {name}{sign if sign in _QUIET else ' '}" if name else sign


def character_message(text: str, *, capitals: bool, language: str) -> str:
    """Return the SSML that speaks one character by its name."""
    return f"<speak>{_character(text, capitals and language.startswith('en'), language)}</speak>"


def key_message(text: str, *, capitals: bool, language: str) -> str:
    """Return the SSML that speaks a key, such as `shift_a`, `Return` or `double-quote`."""
    if len(text) == 1:
        return character_message(text, capitals=capitals, language=language)
    parts = [part for part in _NOT_XML.sub(" ", text).split("_") if part]
    said = [_character(each, False, language) if len(each) == 1 else escape(each.replace("-", " ")) for each in parts]
    return f"<speak>{' '.join(said)}</speak>"


def icon_message(text: str) -> str:
    """Return the SSML that speaks the name of a sound, as no sounds are here."""
    return f"<speak>{escape(re.sub(r'[-_]+', ' ', _NOT_XML.sub(' ', text)))}</speak>"


def _character(text: str, capitals: bool, language: str) -> str:
    if text in (" ", "space"):
        return "space"
    if len(text) != 1 or text.isalnum():
        before = "capital " if capitals and text.isupper() else ""
        return f'{before}<say-as interpret-as="characters">{escape(_NOT_XML.sub(" ", text))}</say-as>'
    name = name_of_sign(text, language) or unicodedata.name(text, "").lower()
    return escape(name)


def parts(ssml: str) -> list[str]:
    """Return documents that together are `ssml`: the server bounds the length of one (`max_input_characters`).

    A document with other elements than marks stays whole.
    """
    if len(ssml) <= _PART:
        return [ssml]
    pieces = _TAG.split(ssml.strip())
    # The text before the first tag, the tag, what it holds, the last tag, and the text after it.
    if len(pieces) < 5 or pieces[0] or pieces[-1] or not pieces[1].startswith("<speak") or pieces[-2] != "</speak>":
        return [ssml]
    opening, *inner, closing = pieces[1:-1]
    if any(each.startswith("<") and not _MARK.fullmatch(each) for each in inner):
        return [ssml]
    result = [""]
    for piece in (cut for each in inner for cut in _cut(each)):
        if result[-1] and len(result[-1]) + len(piece) > _PART:
            result.append("")
        result[-1] += piece
    return [f"{opening}{each}{closing}" for each in result]


def _cut(text: str) -> list[str]:
    """Return `text` in pieces of at most _PART characters, cut at spaces where there are some."""
    pieces = []
    while len(text) > _PART:
        at = text.rfind(" ", 0, _PART) + 1 or _PART
        pieces.append(text[:at])
        text = text[at:]
    return [*pieces, text]


def marks_of(ssml: str) -> list[str]:
    """Return the names of the marks in a text."""
    return [unescape(result[0] or result[1]) for result in _MARK.findall(ssml)]


def plain_text(ssml: str) -> str:
    """Return the words of SSML that no parser takes, without its tags."""
    text = unescape(_TAG.sub(" ", ssml))
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)
