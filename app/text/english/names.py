"""Readings of addresses, files, hashtags, and words with digits in them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from app.text.english import numbers, tables
from app.text.english.normalize import NormalizerContext

_CAMEL: Final = re.compile(r"\d+|[A-Z]{2,}(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[^\W\d_]+")
_PLACE: Final = re.compile(r"\d{1,4}[A-Za-z]")
_COLOR: Final = re.compile(r"(?=[a-fA-F]*\d)[\da-fA-F]{6}|[fF]{6}")
# A metal or hydrogen, other elements, and at least one small letter: NaCl, KBr, CaO.
FORMULA: Final = re.compile(
    r"(?=.*[a-z])(?!NaN$)(?:Na|K|Ca|Mg|Al|Fe|Cu|Zn|Ag|Li|Ba|Si|Ti|Mn|Pb|Cr|H|Ga|Cd|Rb|Cs|Sr|Sn|Hg|Pt|Au)"
    r"(?:Cl|Br|As|Se|Te|Mn|Cr|[FIOSNHCP]){1,4}"
)
_SUBSCRIPTS: Final = re.compile("[\u2080-\u2089]")  # inside a word, as in "2H₂O"
_PARTS: Final = re.compile(r"\d+|[^\W\d_]+|.")


def read_url(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a web address: `https://a.com/b`."""
    trimmed = text.rstrip(".,;:!?'\")]}")
    context.end = start + len(trimmed)
    scheme, separator, rest = trimmed.rpartition("://")
    if scheme not in ("", "http", "https"):
        rest = scheme + separator + rest
    context.say(_address(context, rest.rstrip("/")), start, context.end)


def read_path(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a path or file name: `src/main.py`."""
    trimmed = text.rstrip(".")
    context.end = start + len(trimmed)
    context.say(_address(context, trimmed), start, context.end)


def read_dot_name(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the dot before or inside a name: `.NET`."""
    context.say("dot", start, end)


def read_email(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an e-mail address: `me@a.com`."""
    trimmed = text.rstrip(".-")
    context.end = start + len(trimmed)
    context.say(_address(context, trimmed), start, context.end)


def _address(context: NormalizerContext, address: str) -> list[str]:
    """Return the words of an address: its names as words, its signs by name."""
    spoken: list[str] = []
    parts = _PARTS.findall(address)
    for i, part in enumerate(parts):
        if part.isdecimal():
            spoken += context.digits_in_name(part)
        elif part.lower() == "www":
            spoken += ["W", "W", "W"]
        elif part[0].isalnum():
            spoken += list(part.upper()) if part.isascii() and _is_spelled(part) else [part.lower()]
        elif part == ":" and i and parts[i + 1 : i + 2] and parts[i + 1].isdecimal():
            spoken.append("port")
        else:
            spoken += tables.ADDRESS_SIGNS.get(part, "").split()
    return spoken or ["link"]


_MANY: Final = re.compile(r"((?!k8s)[A-Za-z]{1,4}\d{1,4}|\d{1,4}[A-Zbk])s")
"""Letters and digits in the plural: "MP3s", "401ks"."""
_MINOR_AFTER: Final = re.compile(r"\.\w")


def read_mixed(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read letters and digits in one word: "B2B", "mp3", "GPT4", "v2"."""
    if text in tables.CHAT:
        context.say(tables.CHAT[text], start, end)
        return
    many = _MANY.fullmatch(text)
    text = many[1] if many else text
    spoken: list[str] = []
    for part in re.findall(r"\d+|\D+", _SUBSCRIPTS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)):
        if part.isdecimal():
            spoken += context.digits_in_name(part)
        elif spoken == [] and (part == "v" or (part == "V" and _MINOR_AFTER.match(context.text, end))):
            spoken += [] if context.previous_word(start).lower() == "version" else ["version"]
        elif part in ("x", "X") and not spoken and context.pieces and context.pieces[-1].rule == "phone":
            spoken.append("extension")
        elif part[0].lower() in tables.GREEK and part[1:].isascii():
            spoken += [tables.GREEK[part[0].lower()], *part[1:].upper()]
        elif FORMULA.fullmatch(part):
            spoken += list(part.upper())
        elif part.isascii() and (len(part) <= 2 or part.isupper() or _is_spelled(part) or is_unspeakable(part)):
            spoken += [letter.upper() for letter in part if letter.isalpha()]
        else:
            spoken.append(part)
    if many and spoken[-1].isupper():
        spoken[-1] += "s"
    context.say(numbers.plural(spoken) if many and spoken[-1].islower() else spoken, start, end)


def read_version(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read each part of "v3.11.2" as a number; digit by digit if it begins with zero."""
    first, *others = text[1:].split(".")
    spoken = [] if context.previous_word(start).lower() == "version" else ["version"]
    spoken += context.cardinal(first)
    for part in others:
        spoken += ["point", *context.cardinal(part)]
    context.say(spoken, start, end)


def read_hashtag(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a hashtag, a number after the sign, or a color: `#NewYork`."""
    name = text[1:]
    if _PLACE.fullmatch(name):
        context.say(["number", *context.digits_in_name(name[:-1]), name[-1].upper()], start, end)
    elif name.isdecimal():
        context.say(
            ["number", *(context.digits_in_name(name) if len(name) > 4 else context.cardinal(name))], start, end
        )
    elif _COLOR.fullmatch(name):
        context.say(["hash", *numbers.hexadecimal(name)], start, end)
    elif name.isupper() and re.match(r"-\d", context.text[end : end + 2]):
        context.say(["number", name], start, end)
    else:
        context.say(["hashtag", *_name_parts(context, name)], start, end)


def read_handle(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the name of an account: `@OpenAI`."""
    context.say(["at", *_name_parts(context, text[1:])], start, end)


def _name_parts(context: NormalizerContext, name: str) -> list[str]:
    spoken: list[str] = []
    for part in _CAMEL.findall(name):
        spoken += context.digits_in_name(part) if part.isdecimal() else [part]
    return spoken or [name]


def is_unspeakable(letters: str) -> bool:
    """Return whether letters without a vowel can only be spelled."""
    return not re.search(r"[aeiouyAEIOUY]", letters)


def _is_spelled(part: str) -> bool:
    lower = part.lower()
    if lower in tables.SPELLED_NAMES:
        return True
    return len(part) <= 3 and lower not in tables.SPOKEN_DOMAINS and is_unspeakable(part)
