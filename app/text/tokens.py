"""Tokens from pronounced pieces: each part of the text, the words that speak it, and the origin of its reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from app.text.characters import normalize
from app.text.pieces import Piece, PieceKind, restrict
from app.text.types import Token

# Source of a word that differs from its text without a named rule, such as "love" for a heart.
_REWRITTEN = "rewritten"
# Rules of readings that somebody gave.
_GIVEN = frozenset(("markup", "user-lexicon"))
_NO_RULE = frozenset(("", "word", "plain"))


def make_tokens(text: str, pieces: Sequence[Piece], symbols: frozenset[str]) -> Iterator[Token]:
    """Yield the tokens of one sentence of `text`. Pieces with equal spans make one token."""
    for (start, end), group in groupby(pieces, key=lambda piece: (piece.start, piece.end)):
        members = list(group)
        phonemes = " ".join(filter(None, (restrict(piece.phonemes, symbols).strip() for piece in members)))
        original = text[start:end]
        spoken = "".join(
            _spoken(piece) if i == 0 or piece.is_mark else f" {_spoken(piece)}"
            for i, piece in enumerate(piece for piece in members if piece.text)
        )
        glued = members[0].glued or members[0].is_mark
        yield Token(original, spoken, phonemes, _source(members, original, spoken), glued)


def _spoken(piece: Piece) -> str:
    return " ".join(piece.text) if piece.tag == "LETTERS" else piece.text


def _source(members: list[Piece], original: str, spoken: str) -> str:
    first, written = members[0], normalize(original, "")[0]
    if all(piece.is_mark for piece in members):
        return "punctuation"
    if first.rule in _GIVEN:
        return first.rule
    if first.kind is not PieceKind.PHONEMES and spoken.casefold() != written.casefold().replace("’", "'"):
        return next((piece.rule for piece in members if piece.rule not in _NO_RULE), _REWRITTEN)
    # Japanese and Chinese name no source: it is a dictionary, except for words read as English.
    return first.source or "dictionary"


def join(tokens: Sequence[Token], part: Callable[[Token], str]) -> str:
    """Return `part` of all tokens of one sentence as one text. Glued tokens have no space before them."""
    joined = ""
    for token in tokens:
        joined += part(token) if token.glued or not joined else f" {part(token)}"
    return joined
