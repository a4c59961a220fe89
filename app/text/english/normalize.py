"""English text to the words that are spoken for it.

One regular expression (`patterns.FINDER`) finds the tokens: plain words, numbers, dates, times, money, units,
addresses, symbols. Each kind of token has a reader function in `READERS`. Every letter and digit of the text lies in
the span of some word.
"""

from __future__ import annotations

from typing import Final

from app.text.english import abbreviations, codes, dates, measures, names, quantities, signs
from app.text.english.normalizer_context import NormalizerContext, Reader
from app.text.english.patterns import FINDER
from app.text.pieces import Piece
from app.text.unicode import canonical

READERS: Final[dict[str, Reader]] = {
    **abbreviations.READERS,
    **codes.READERS,
    **dates.READERS,
    **measures.READERS,
    **names.READERS,
    **quantities.READERS,
    **signs.READERS,
}
"""Reader of each kind of token, by the name of its group in `patterns.FINDER`."""


def normalize(text: str, offset: int = 0, *, british: bool = False) -> list[Piece]:
    """Return the words and marks that speak `text`, which begins at character `offset` of the whole request."""
    context = NormalizerContext(canonical(text), offset, british)
    while (match := FINDER.search(context.text, context.end)) is not None:
        context.end = match.end()
        kind = match.lastgroup or ""
        count = len(context.pieces)
        READERS[kind](context, match.group(), match.start(), match.end())
        for piece in context.pieces[count:]:
            piece.rule = kind
    return context.pieces
