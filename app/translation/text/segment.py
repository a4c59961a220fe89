"""Sentence of a document: its text for the translator, and its replacement by the translation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from app.translation.text.inline import Block, InlineKind, InlineToken
from app.translation.text.placeholders import Placeholders

Escape = Callable[[str, str], str]

_NO_SPACE_BEFORE: Final = frozenset(".,;:!?…)]}»”’%。，、；：！？）」』】》؟،؛।")
_NO_SPACE_AFTER: Final = frozenset("([{«“‘¿¡（「『【《")


def _is_text(token: InlineToken) -> bool:
    return token.kind is InlineKind.TEXT


def has_letters(text: str) -> bool:
    """Return whether a text can be translated. Digits, symbols and emoji are the same in every language."""
    return any(map(str.isalpha, text))


class SourceSentence:
    """One sentence of a document.

    `text` is translated: one line, entities decoded, with a placeholder (`ZX1`) for each mark, code and address.
    `parts` are translated one by one if the translation lost a placeholder: they are the runs of text between the
    placeholders, empty if there are none.
    """

    __slots__ = ("_escape", "_placeholders", "_source", "_tokens", "begins_block", "end", "start", "text")

    def __init__(self, source: str, tokens: Block, escape: Escape, *, begins: bool) -> None:
        self.start, self.end = tokens[0].start, tokens[-1].end
        self.begins_block = begins
        self._source = source
        self._escape = escape
        groups = _group(tokens)
        self._placeholders: Placeholders | None = None
        if len(groups) > 1:
            self._placeholders = Placeholders("".join(token.view for token in tokens))
        self.text = self._text(groups)
        # A sentence that is one run of text, as most are, keeps that run and no tokens: of a hundred thousand sentences
        # each object would make a collection of garbage longer, which stops the event loop.
        plain = len(tokens) == 1 and tokens[0].kind is InlineKind.TEXT and tokens[0].out is None
        self._tokens: str | tuple[InlineToken, ...] = tokens[0].view if plain else tuple(tokens)

    def __repr__(self) -> str:
        return f"Segment({self.text!r})"

    def _text(self, groups: list[Block]) -> str:
        """Return the sentence for the translator."""
        if self._placeholders is None:
            return _one_line(groups[0])
        # A space separates a placeholder from letters, but not from a full stop.
        pieces: list[str] = []
        number = 0
        for group in groups:
            if _is_text(group[0]):
                text = _one_line(group)
                before = " " * (bool(pieces) and (not text or text[0].isalnum()))
                pieces.append(before + text + " " * text[-1:].isalnum())
            else:
                pieces.append(self._placeholders[number])
                number += 1
        return " ".join("".join(pieces).split())

    @property
    def _groups(self) -> list[Block]:
        if isinstance(self._tokens, str):
            return [[InlineToken(self.start, self.end, InlineKind.TEXT, self._tokens)]]
        return _group(self._tokens)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the runs of text between placeholders that have a letter; empty without placeholders."""
        if self._placeholders is None:
            return ()
        return tuple(text for group in self._groups if has_letters(text := _text_of(group)))

    def shown(self, text: str) -> str:
        """Return a text about the sentence, such as an error, with the marks, codes and addresses of its source."""
        return text if self._placeholders is None else self._placeholders.fill(text, self._marks())

    def keeps(self, translation: str) -> bool:
        """Return whether each placeholder is in the translation once, and each end after its beginning."""
        return self._restore(translation, spaced=True) is not None

    def render(self, translation: str | Sequence[str], *, spaced: bool) -> str:
        """Return the text that replaces the sentence in the document; the source itself if nothing changed.

        `translation` is a translation of `text`, or the translations of `parts`. `spaced` says whether its language
        sets spaces between words. If a placeholder was lost, all markup of the sentence follows the translation, so
        that no element stays open. Raises ValueError if parts are missing.
        """
        if isinstance(translation, str):
            if translation == self.text:
                return self._source[self.start : self.end]
            restored = self._restore(translation, spaced=spaced)
            if restored is not None:
                return restored
            if self._placeholders is not None:
                translation = " ".join(self._placeholders.remove(translation).split())
            return self._escape(translation, self._plain(self._groups)) + "".join(self._marks())
        parts = self.parts
        if len(translation) != len(parts):
            raise ValueError(f"{len(parts)} parts were to be translated; {len(translation)} translations were given")
        same = tuple(translation) == parts
        return self._source[self.start : self.end] if same else self._render_parts(translation)

    def _render_parts(self, translations: Sequence[str]) -> str:
        pieces: list[str] = []
        rest, groups = iter(translations), self._groups
        plain = self._plain(groups)
        for group in groups:
            text = _text_of(group)
            if not has_letters(text):
                pieces.append(self._out(group))
                continue
            view = _one_line(group)
            before = view[: len(view) - len(view.lstrip())]
            after = view[len(view.rstrip()) :]
            pieces.append(before + self._escape(next(rest).strip(), plain) + after)
        return "".join(pieces)

    def _restore(self, translation: str, *, spaced: bool) -> str | None:
        translation = translation.strip()
        groups = self._groups
        plain = self._plain(groups)
        if self._placeholders is None:
            return self._escape(translation, plain)
        marked = [group for group in groups if not _is_text(group[0])]
        places = self._placeholders.find(translation, len(marked))
        if places is None or not _is_nested(marked, [place.index for place in places]):
            return None
        pieces: list[str] = []
        position = 0
        after: Block = []
        for place in places:
            group = marked[place.index]
            text = _between(after, translation[position : place.start], group, spaced=spaced)
            pieces += (self._escape(text, plain), self._out(group))
            position, after = place.end, group
        return "".join((*pieces, self._escape(_between(after, translation[position:], [], spaced=spaced), plain)))

    def _marks(self) -> list[str]:
        """Return the groups that are markup, as they are in a translation. Placeholder n stands for the n-th."""
        return [self._out(group) for group in self._groups if not _is_text(group[0])]

    def _out(self, group: Block) -> str:
        return "".join(self._source[token.start : token.end] if token.out is None else token.out for token in group)

    def _plain(self, groups: list[Block]) -> str:
        """Return the text of the source between the markup."""
        return "".join(self._source[token.start : token.end] for group in groups for token in group if _is_text(token))


def _is_nested(marked: list[Block], order: Sequence[int]) -> bool:
    """Return whether each mark of `marked` that ends another comes after it in `order`, and in pairs."""
    inside = {token.start for group in marked for token in group if token.partner is not None}
    opened: list[InlineToken] = []
    for index in order:
        for token in marked[index]:
            if token.partner not in inside:
                continue
            if token.kind is InlineKind.OPEN:
                opened.append(token)
            elif not opened or opened.pop().start != token.partner:
                return False
    return True


def _group(tokens: Sequence[InlineToken]) -> list[Block]:
    """Join neighbors of a kind, so that adjacent marks have one placeholder."""
    groups: list[Block] = []
    for token in tokens:
        if groups and _is_text(groups[-1][0]) == _is_text(token):
            groups[-1].append(token)
        else:
            groups.append([token])
    return groups


def _one_line(group: Block) -> str:
    return re.sub(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+", " ", "".join(token.view for token in group))


def _text_of(group: Block) -> str:
    return _one_line(group).strip() if _is_text(group[0]) else ""


def _between(before: Block, text: str, after: Block, *, spaced: bool) -> str:
    """Return `text` without the spaces around placeholders: within a pair, before a full stop, in Chinese."""
    stripped = text.strip()
    left, right = text[:1].isspace(), text[-1:].isspace()
    if before and (
        all(token.kind is InlineKind.OPEN for token in before) or stripped[:1] in _NO_SPACE_BEFORE or not spaced
    ):
        left = False
    if after and (
        all(token.kind is InlineKind.CLOSE for token in after) or stripped[-1:] in _NO_SPACE_AFTER or not spaced
    ):
        right = False
    if not stripped:
        return " " if text and left and right else ""
    return " " * left + stripped + " " * right
