"""Languages that espeak-ng pronounces: German, Spanish, French, Hindi, Italian, Brazilian Portuguese.

A clause is phonemized as a whole, because of liaison and vowels across words. If espeak-ng returns another number of
words than it was given, the clause is halved until the two agree, down to single words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from app.errors import UnavailableError
from app.text.espeak import get_espeak
from app.text.pieces import COMBINING, KOKORO_SYMBOLS, STRESS, Piece, PieceKind, append_mark, canonical, restrict, word
from app.text.sounds import ROWS, TIE, to_kokoro
from app.text.written.forms import get_forms

_FINDER: Final = re.compile(
    r"(?P<money>[$€£¥₹]\s?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*\s?[$€£¥₹])"
    r"|(?P<percent>\d+(?:[.,]\d+)*\s?%)"
    r"|(?P<clock>\b\d{1,2}:\d{2}\b)"
    r"|(?P<number>\d+(?:[.,]\d+)*)"
    rf"|(?P<word>[^\W\d_][{COMBINING}]*(?:[^\W\d_]|[{COMBINING}]|['-](?=[^\W\d_]))*'?)"
    r"|(?P<ellipsis>\.{2,}|…)|(?P<dash>\s+[-–]+\s|-{2,}|[–—])|(?P<mark>[.!?]+|[,;:](?!\w))|(?P<bracket>[()\[\]{}])"
    r"|(?P<other>[^\W_])|(?P<symbol>[&@%+=°×÷]|(?<=\d)(?<!/\d)(?<!/\d\d)/(?=\d{1,2}(?![\d/])))"
)
_SIGN_NAMES: Final = {tag: dict(zip("$€£¥₹%&@+=°×÷/", names, strict=False)) for tag, *names in ROWS["signs"]}


class EspeakLanguage:
    """Pronouncer of one language by espeak-ng. Thread-safe. Raises UnavailableError when made.

    `pronounce_foreign` fills in the phonemes of a word that espeak-ng has no sound for in this language.
    """

    def __init__(self, tag: str, pronounce_foreign: Callable[[Piece], None]) -> None:
        espeak = get_espeak(tag)
        if espeak is None:
            raise UnavailableError(
                f"language {tag!r} needs espeak-ng, which cannot be used on this machine; reinstall espeakng-loader"
            )
        self._espeak = espeak
        self._pronounce_foreign = pronounce_foreign
        self._sign_names = _SIGN_NAMES[tag]
        self._forms = get_forms(tag)
        self._cached = lru_cache(maxsize=2048)(self._convert)

    def normalize(self, text: str, offset: int) -> list[Piece]:
        """Return the words and marks of `text`. In Hindi numbers stay digits, which espeak-ng reads."""
        pieces: list[Piece] = []
        folded, place = canonical(text), 0
        # In the text as it is: folded, "nº" would be the word "no".
        for first, last, said in self._forms.find(text) if self._forms is not None else ():
            self._split(folded, place, first, offset, pieces)
            pieces += [word(one, offset + first, offset + last) for one in said.split()]
            place = last
        self._split(folded, place, len(text), offset, pieces)
        return pieces

    def _split(self, text: str, first: int, last: int, offset: int, pieces: list[Piece]) -> None:
        """Append the words and marks of a part of `text`."""
        for match in _FINDER.finditer(text, first, last):
            kind, found = match.lastgroup, match.group()
            start, end = offset + match.start(), offset + match.end()
            if kind in ("ellipsis", "dash", "mark", "bracket"):
                _add_mark(pieces, kind, found, start, end)
            elif kind in ("money", "percent"):
                sign = next(character for character in found if character in self._sign_names)
                pieces.append(word(f"{found.replace(sign, '').strip()} {self._sign_names[sign]}", start, end))
            elif kind == "clock":
                pieces.append(word(found.replace(":", " "), start, end))
            elif kind == "symbol":
                pieces += [word(name, start, end) for name in (self._sign_names.get(found),) if name]
            elif kind == "number" and len(found) > 15:
                pieces += [word(digit, start + i, start + i + 1) for i, digit in enumerate(found) if digit.isdecimal()]
            else:
                pieces.append(word(found, start, end))

    def pronounce(self, pieces: Sequence[Piece]) -> None:
        """Fill in the phonemes of one sentence, clause by clause."""
        clause: list[Piece] = []
        for piece in pieces:
            simple = piece.kind is PieceKind.WORD and not any(c.isdigit() or c.isspace() for c in piece.text)
            if simple:
                clause.append(piece)
                continue
            self._pronounce_clause(clause)
            clause = []
            if piece.kind is PieceKind.WORD:
                self._pronounce_clause([piece])
        self._pronounce_clause(clause)

    def _pronounce_clause(self, pieces: list[Piece]) -> None:
        if not pieces:
            return
        spoken = self._cached(" ".join(piece.text for piece in pieces))
        if len(pieces) == 1:
            if _has_sound(spoken):
                pieces[0].phonemes, pieces[0].source = spoken, "espeak"
            else:
                self._pronounce_foreign(pieces[0])
            return
        words = spoken.split(" ")
        if len(words) == len(pieces) and all(map(_has_sound, words)):
            for piece, phonemes in zip(pieces, words, strict=True):
                piece.phonemes, piece.source = phonemes, "espeak"
            return
        middle = len(pieces) // 2
        self._pronounce_clause(pieces[:middle])
        self._pronounce_clause(pieces[middle:])

    def _convert(self, text: str) -> str:
        ipa = to_kokoro(self._espeak.phonemes(text), "espeak").replace(TIE, "").replace("-", "")
        return " ".join(restrict(ipa, KOKORO_SYMBOLS).split())


def _has_sound(phonemes: str) -> bool:
    return any(character.isalpha() and character not in STRESS for character in phonemes)


def _add_mark(pieces: list[Piece], kind: str, found: str, start: int, end: int) -> None:
    if kind == "mark":
        mark = "?" if "?" in found else "!" if "!" in found else found[0]
    else:
        mark = {"ellipsis": "…", "dash": "—"}.get(kind, ",")
    append_mark(pieces, mark, start, end)
