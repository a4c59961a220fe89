"""Shared parts of Japanese and Chinese: text without spaces between words, with foreign words inside."""

from __future__ import annotations

import importlib
import re
import unicodedata
from types import ModuleType
from typing import Final

from app.errors import UnsupportedLanguageError
from app.extras import needs
from app.text.pieces import COMBINING, Piece, append_mark, canonical, word

_MARKS: Final = {
    "，": ",", "、": ",", "；": ";", "：": ":", "！": "!", "？": "?", "。": ".", "．": ".", "—": "—", "–": "—",
    ",": ",", ";": ";", ":": ":", "!": "!", "?": "?", ".": ".", "(": ",", ")": ",", "・": ",", "〜": "—", "～": "—",
    "…": "…",
}  # fmt: skip
# Kanji, kana and bopomofo. Other letters are foreign.
_NATIVE: Final = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
_FINDER: Final = re.compile(
    rf"(?P<number>[0-9]+(?:\.[0-9]+)?%?)|(?P<native>[{_NATIVE}]+)"
    rf"|(?P<foreign>(?:(?![{_NATIVE}])[^\W\d_]|(?!\w)[{COMBINING}])+(?:'[A-Za-z]+)*)"
    r"|(?P<other>[^\W_])|(?P<mark>[^\w\s])"
)
# Errors that misaki and its libraries raise for unexpected text.
G2P_ERRORS: Final = (LookupError, ValueError, TypeError, AssertionError)


def import_extra(name: str, extra: str, language: str) -> ModuleType:
    """Import a module of an optional dependency group. Raises UnsupportedLanguageError, with the way to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedLanguageError(
            f"{needs(language, extra)} (there is no package '{error.name or name}')"
        ) from error


def tokens(text: str, offset: int) -> list[Piece]:
    """Return numbers, foreign words, native runs and marks. `tag` is "number", "foreign", "native" or "other"."""
    pieces: list[Piece] = []
    plain = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in canonical(text))
    for match in _FINDER.finditer(plain):
        start, end, found = offset + match.start(), offset + match.end(), match.group()
        if match.lastgroup != "mark":
            pieces.append(word(found, start, end, tag=match.lastgroup))
            continue
        mark = _MARKS.get(found)
        if mark is not None:
            append_mark(pieces, mark, start, end)
    return pieces


def cut(piece: Piece, words: list[str]) -> list[Piece]:
    """Return one piece for each of `words`, or the run itself if the words do not make it up."""
    if "".join(words) != piece.text:
        return [piece]
    pieces: list[Piece] = []
    position = piece.start
    for item in words:
        pieces.append(word(item, position, position + len(item), tag=piece.tag))
        position += len(item)
    return pieces
