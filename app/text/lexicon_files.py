"""Files of pronunciation lexicons: W3C PLS 1.0, and lines of two columns.

A line has a word or phrase, a tab or ` = `, and its reading: phonemes between slashes, else other words. A line that
begins with `#` is a comment; `# language: en-us` and `# alphabet: x-sampa` hold for the file.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from app.errors import InvalidLexiconError
from app.text.lexicon import Lexicon, LexiconEntry, make_entry

MAX_BYTES: Final = 2 << 20
"""Largest file."""

_OPTION: Final = re.compile(r"#\s*(language|alphabet)\s*[:=]\s*(\S+)\s*", re.IGNORECASE)
_TAB: Final = "\t"
_EQUALS: Final = re.compile(r"(?<=\s)=(?=\s)")
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9-]{1,35}")
_DEPTH: Final = 8


def read_lexicon(data: bytes | str, language: str | None = None) -> Lexicon:
    """Return the lexicon in a file of either form. `language` counts where the file names none.

    Raises InvalidLexiconError, which names the line.
    """
    if len(data) > MAX_BYTES:
        raise InvalidLexiconError(f"the lexicon has more than {MAX_BYTES} bytes")
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not (isinstance(data, bytes) and data[:2] in (b"\xff\xfe", b"\xfe\xff")):
            raise InvalidLexiconError(f"the lexicon is not UTF-8: byte {error.start}") from None
        text = data.decode("utf-16", "replace")
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("<"):
        return _PlsReader(language).read(text)
    return _read_lines(text, language)


def parse_reading(grapheme: str, reading: str, *, alphabet: str = "ipa", language: str | None = None) -> LexiconEntry:
    """Return the entry of a reading as a line has it: `/phonemes/`, or other words. Raises InvalidLexiconError."""
    said = reading.strip()
    if len(said) > 1 and said.startswith("/") and said.endswith("/"):
        return make_entry(grapheme, phonemes=said[1:-1], alphabet=alphabet, language=language)
    return make_entry(grapheme, alias=said, language=language)


def _read_lines(text: str, language: str | None) -> Lexicon:
    entries: list[LexiconEntry] = []
    alphabet = "ipa"
    for number, line in enumerate(text.splitlines(), 1):
        if option := _OPTION.fullmatch(line.strip()):
            if option.group(1).lower() == "language":
                language = option.group(2)
                _check_language(language)
            else:
                alphabet = option.group(2)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        columns = [column.strip() for column in _columns(line.strip())]
        try:
            if len(columns) != 2:
                raise InvalidLexiconError("write a word, a tab, and /phonemes/ or other words")
            entries.append(parse_reading(columns[0], columns[1], alphabet=alphabet, language=language))
        except InvalidLexiconError as error:
            raise InvalidLexiconError(f"line {number}: {error}") from None
    return Lexicon(entries, language)


def _columns(line: str) -> list[str]:
    """Return the parts of a line around its first tab or ` = `."""
    equals = _EQUALS.search(line)
    tab = line.find(_TAB)
    if equals is not None and (tab < 0 or equals.start() < tab):
        return [line[: equals.start()], line[equals.end() :]]
    return line.split(_TAB, maxsplit=1)


def _check_language(language: str | None) -> None:
    """Raise InvalidLexiconError unless a language has the form of a BCP-47 tag."""
    if language is not None and not _LANGUAGE.fullmatch(language):
        raise InvalidLexiconError(f"the language is no tag such as en-us: '{language[:40]}'")


class _PlsReader:
    """Reader of one PLS document. Expat parses it; a document type declaration is refused."""

    def __init__(self, language: str | None) -> None:
        self._language = language
        self._alphabet = "ipa"
        self._entries: list[LexiconEntry] = []
        self._graphemes: list[str] = []
        self._readings: list[tuple[bool, str, str]] = []  # preferred, alphabet or "" for an alias, text
        self._stack: list[str] = []
        self._text: list[str] = []
        self._attributes: dict[str, str] = {}
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def read(self, text: str) -> Lexicon:
        """Return the lexicon. Raises InvalidLexiconError."""
        try:
            self._parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise InvalidLexiconError(
                f"line {error.lineno}, column {error.offset + 1}: the PLS is malformed: {reason}"
            ) from None
        return Lexicon(self._entries, self._language)

    def _refuse_doctype(self, *_: object) -> None:
        raise InvalidLexiconError("a document type declaration is not accepted in PLS")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if not self._stack:
            if name != "lexicon":
                raise InvalidLexiconError(f"the root of PLS is <lexicon>, not <{name[:40]}>")
            self._alphabet = attributes.get("alphabet", "ipa")
            self._language = attributes.get("xml:lang", self._language)
            _check_language(self._language)
        if len(self._stack) >= _DEPTH:
            raise InvalidLexiconError("the PLS is nested too deep")
        self._stack.append(name)
        self._text.clear()
        self._attributes = attributes

    def _end(self, name: str) -> None:
        name = self._stack.pop()
        text = "".join(self._text).strip()
        preferred = self._attributes.get("prefer") == "true"
        if name == "grapheme":
            self._graphemes.append(text)
        elif name == "phoneme":
            self._readings.append((preferred, self._attributes.get("alphabet", self._alphabet), text))
        elif name == "alias":
            self._readings.append((preferred, "", text))
        elif name == "lexeme":
            self._add()
        self._text.clear()
        self._attributes = {}

    def _add(self) -> None:
        line = self._parser.CurrentLineNumber
        if not self._graphemes or not self._readings:
            raise InvalidLexiconError(f"line {line}: a <lexeme> needs a <grapheme>, and a <phoneme> or an <alias>")
        _, alphabet, said = next((each for each in self._readings if each[0]), self._readings[0])
        for grapheme in self._graphemes:
            try:
                entry = (
                    make_entry(grapheme, phonemes=said, alphabet=alphabet, language=self._language)
                    if alphabet
                    else make_entry(grapheme, alias=said, language=self._language)
                )
            except InvalidLexiconError as error:
                raise InvalidLexiconError(f"line {line}: {error}") from None
            self._entries.append(entry)
        self._graphemes, self._readings = [], []
