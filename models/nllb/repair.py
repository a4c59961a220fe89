"""Detection and repair of a translation model's typical faults: loops, lost clauses, and text in CAPITALS."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MAX_GRAM, _MIN_REPEATS, _MIN_TOKENS = 8, 4, 10
_MIN_RATIO, _MIN_SOURCE = 0.3, 10
NO_REPEAT = 3  # size of the n-grams that the second try may not repeat

_CLAUSE = re.compile(r"(?<=[,;:،؛])\s+|(?<=[、，；：])\s*|\s+(?=[–—]\s)")
_MIN_CLAUSE_CHARACTERS = 8  # characters; a shorter clause joins the next
_UNSPACED = frozenset({"Jpan", "Hans", "Hant", "Thai", "Khmr", "Laoo", "Mymr", "Tibt"})
_CASED = frozenset({"Latn", "Cyrl", "Grek", "Armn"})
_DOTTED_I = frozenset({"tur_Latn", "azj_Latn", "crh_Latn"})
_PRONOUN = re.compile(r"\bi\b")


def loops(tokens: Sequence[int]) -> bool:
    """Return whether `tokens` ends in an n-gram of at most 8 tokens, four times or more, over ten tokens or more."""
    return _period(tokens) > 0


def _period(tokens: Sequence[int]) -> int:
    """Return the length of the n-gram that the end of `tokens` repeats, or 0."""
    for size in range(1, _MAX_GRAM + 1):
        span = max(size * _MIN_REPEATS, _MIN_TOKENS)
        if len(tokens) >= span and all(tokens[-k] == tokens[-k - size] for k in range(1, span - size + 1)):
            return size
    return 0


def has_loop(tokens: Sequence[int]) -> bool:
    """Return whether `tokens` loops anywhere. The translation of such a source may loop as well."""
    return any(loops(tokens[:end]) for end in range(_MIN_TOKENS, len(tokens) + 1))


def cut_loop(tokens: Sequence[int]) -> list[int]:
    """Return `tokens` with the repetition at its end reduced to one occurrence."""
    kept, size = list(tokens), _period(tokens)
    while size and len(kept) >= 2 * size and kept[-size:] == kept[-2 * size : -size]:
        del kept[-size:]
    return kept


def too_short(tokens: int, source_tokens: int) -> bool:
    """Return whether a translation of so many tokens has probably lost a part of its source."""
    return source_tokens >= _MIN_SOURCE and tokens < _MIN_RATIO * source_tokens


def clauses(text: str) -> list[str]:
    """Cut `text` after its clause marks; no piece is very short."""
    pieces: list[str] = []
    for piece in filter(None, _CLAUSE.split(text)):
        if pieces and len(pieces[-1]) < _MIN_CLAUSE_CHARACTERS:
            pieces[-1] = f"{pieces[-1]} {piece}"
        else:
            pieces.append(piece)
    if len(pieces) > 1 and len(pieces[-1]) < _MIN_CLAUSE_CHARACTERS:
        last = pieces.pop()
        pieces[-1] = f"{pieces[-1]} {last}"
    return pieces


def rejoin(parts: Sequence[str], sources: Sequence[str], target: str) -> str:
    """Join translations of `sources` into one sentence of the language `target`.

    The model may have ended a clause with a full stop that its source lacks: this takes it away.
    """
    kept = []
    for part, source in zip(parts, sources, strict=True):
        last = source is sources[-1] or source.rstrip()[-1:] in ".!?。！？"
        kept.append(part if last else part.rstrip().rstrip(".。।").rstrip())
    return ("" if target[4:] in _UNSPACED else " ").join(filter(None, kept))


def is_capitals(text: str) -> bool:
    """Return whether all of `text` is in capitals. It needs two words at least, as one may be an acronym."""
    cased = [c for c in text if c.lower() != c.upper()]
    words = [word for word in text.split() if sum(c.lower() != c.upper() for c in word) >= 2]
    return len(words) >= 2 and all(c == c.upper() for c in cased)


def sentence_case(text: str, source: str) -> str:
    """Return `text`, in capitals, in ordinary sentence case: the form that models were mostly trained on."""
    if source in _DOTTED_I:
        text = text.replace("I", "ı").replace("İ", "i")
    lower = text.lower()
    if source == "eng_Latn":
        lower = _PRONOUN.sub("I", lower)
    first = next((k for k, c in enumerate(lower) if c.isalpha()), 0)
    return lower[:first] + lower[first : first + 1].upper() + lower[first + 1 :]


def capitals(text: str, target: str) -> str:
    """Return `text` in capitals, where the target's script has them."""
    if target[4:] not in _CASED:
        return text
    return (text.replace("i", "İ") if target in _DOTTED_I else text).upper()
