"""Readings of names of the net and of machines: addresses, files, hashtags, words with digits in them."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import numbers, tables
from app.text.english.normalizer_base import Speaker

_CAMEL: Final = re.compile(r"\d+|[A-Z]{2,}(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[^\W\d_]+")
_PLACE: Final = re.compile(r"\d{1,4}[A-Za-z]")
_COLOR: Final = re.compile(r"(?=[a-fA-F]*\d)[\da-fA-F]{6}|[fF]{6}")
_PARTS: Final = re.compile(r"\d+|[^\W\d_]+|.")


class Names(Speaker):
    """The methods for the kinds of `app.text.english.patterns` that are names made of letters and signs."""

    def _url(self, text: str, start: int, end: int) -> None:
        trimmed = text.rstrip(".,;:!?'\")]}")
        self._end = start + len(trimmed)
        scheme, separator, rest = trimmed.rpartition("://")
        if scheme not in ("", "http", "https"):
            rest = scheme + separator + rest
        self._say(self._address(rest.rstrip("/")), start, self._end)

    def _path(self, text: str, start: int, end: int) -> None:
        trimmed = text.rstrip(".")
        self._end = start + len(trimmed)
        self._say(self._address(trimmed), start, self._end)

    def _dot_name(self, text: str, start: int, end: int) -> None:
        self._say("dot", start, end)

    def _email(self, text: str, start: int, end: int) -> None:
        trimmed = text.rstrip(".-")
        self._end = start + len(trimmed)
        self._say(self._address(trimmed), start, self._end)

    def _address(self, address: str) -> list[str]:
        """An address as it is read aloud: names as words, signs by name."""
        spoken: list[str] = []
        parts = _PARTS.findall(address)
        for i, part in enumerate(parts):
            if part.isdecimal():
                spoken += self._digits_in_name(part)
            elif part.lower() == "www":
                spoken += ["W", "W", "W"]
            elif part[0].isalnum():
                spoken += list(part.upper()) if part.isascii() and _is_spelled(part) else [part.lower()]
            elif part == ":" and i and parts[i + 1 : i + 2] and parts[i + 1].isdecimal():
                spoken.append("port")
            else:
                spoken += tables.ADDRESS_SIGNS.get(part, "").split()
        return spoken or ["link"]

    def _mixed(self, text: str, start: int, end: int) -> None:
        """Letters and digits in one word: "B2B", "mp3", "GPT4", "v2"."""
        spoken: list[str] = []
        for part in re.findall(r"\d+|\D+", text):
            if part.isdecimal():
                spoken += self._digits_in_name(part)
            elif spoken == [] and (part == "v" or (part == "V" and self._text[end : end + 1] == ".")):
                spoken += [] if self._previous_word(start).lower() == "version" else ["version"]
            elif part.isascii() and (len(part) <= 2 or part.isupper() or _is_spelled(part) or is_unspeakable(part)):
                spoken += [letter.upper() for letter in part if letter.isalpha()]
            else:
                spoken.append(part)
        self._say(spoken, start, end)

    def _version(self, text: str, start: int, end: int) -> None:
        """ "v3.11.2": each part as a number, but for one with a zero before it."""
        first, *others = text[1:].split(".")
        spoken = [] if self._previous_word(start).lower() == "version" else ["version"]
        spoken += self._cardinal(first)
        for part in others:
            spoken += ["point", *self._cardinal(part)]
        self._say(spoken, start, end)

    def _hashtag(self, text: str, start: int, end: int) -> None:
        name = text[1:]
        if _PLACE.fullmatch(name):
            self._say(["number", *self._digits_in_name(name[:-1]), name[-1].upper()], start, end)
        elif name.isdecimal():
            self._say(["number", *(self._digits_in_name(name) if len(name) > 4 else self._cardinal(name))], start, end)
        elif _COLOR.fullmatch(name):
            self._say(["hash", *numbers.hexadecimal(name)], start, end)
        elif name.isupper() and re.match(r"-\d", self._text[end : end + 2]):
            self._say(["number", name], start, end)
        else:
            self._say(["hashtag", *self._name_parts(name)], start, end)

    def _handle(self, text: str, start: int, end: int) -> None:
        self._say(["at", *self._name_parts(text[1:])], start, end)

    def _name_parts(self, name: str) -> list[str]:
        spoken: list[str] = []
        for part in _CAMEL.findall(name):
            spoken += self._digits_in_name(part) if part.isdecimal() else [part]
        return spoken or [name]


def is_unspeakable(letters: str) -> bool:
    """Whether letters without a vowel can only be spelled."""
    return not re.search(r"[aeiouyAEIOUY]", letters)


def _is_spelled(part: str) -> bool:
    lower = part.lower()
    if lower in tables.SPELLED_NAMES:
        return True
    return len(part) <= 3 and lower not in tables.SPOKEN_DOMAINS and is_unspeakable(part)
