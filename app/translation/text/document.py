"""Documents (text, Markdown, HTML) as sentences to translate, and again as documents with the translations.

    document = Document.parse(text, "eng_Latn", "html")
    translations = [translate(segment.text) for segment in document.segments]
    for index in document.lost(translations):  # markup was lost: translate the text between the marks
        translations[index] = [translate(part) for part in document.segments[index].parts]
    result = document.join(translations, target="fra_Latn")

The text between the sentences is cut from the source, never rebuilt. Time is linear in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from app.text.sentence_splitter import sentences
from app.translation.text import markup_html, markup_markdown, plain
from app.translation.text.codes import spaces_sentences, spaces_words, tag
from app.translation.text.inline import Block, InlineKind, InlineToken, message_syntax, without_syntax
from app.translation.text.segment import Escape, SourceSentence, has_letters

Format = Literal["text", "markdown", "html"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Format:
    read: Callable[[str], Iterator[Block]]
    escape: Escape
    escape_start: Callable[[str], str]


def _as_it_is(text: str, _: str = "") -> str:
    return text


_FORMATS: Final[dict[Format, _Format]] = {
    "text": _Format(plain.read, _as_it_is, _as_it_is),
    "markdown": _Format(markup_markdown.read, markup_markdown.escape, markup_markdown.escape_start),
    "html": _Format(markup_html.read, lambda text, _: markup_html.escape(text), _as_it_is),
}


@dataclass(frozen=True, slots=True)
class SegmentedDocument:
    """Source and its sentences. `language` is a FLORES-200 code."""

    source: str
    language: str
    format: Format
    segments: tuple[SourceSentence, ...]
    # Index of each sentence that touches the one before without a space, and its place in the source.
    _seams: dict[int, int]

    @classmethod
    def parse(cls, text: str, language: str, format: Format = "text") -> SegmentedDocument:  # noqa: A002  (the wire's name)
        """Read a document. Any text is valid. Raises ValueError for an unknown format."""
        return _whole(cls.parsing(text, language, format))

    @classmethod
    def parsing(cls, text: str, language: str, format: Format = "text") -> Generator[None, None, SegmentedDocument]:  # noqa: A002
        """Do the work of `parse` in short steps."""
        form = _FORMATS.get(format)
        if form is None:
            raise ValueError(f"format {format!r} is unknown; accepted are {', '.join(_FORMATS)}")
        segments: list[SourceSentence] = []
        seams: dict[int, int] = {}
        syntax = message_syntax(text)
        for block in form.read(text):
            yield
            first = True
            for line in _split_at_breaks(without_syntax(text, block, syntax) if syntax else block):
                for tokens, seam in _sentences(line, language):
                    yield
                    trimmed = _trim(tokens)
                    if trimmed:
                        if seam and not first:
                            seams[len(segments)] = seam
                        segments.append(SourceSentence(text, trimmed, form.escape, begins=first))
                        first = False
        return cls(text, language, format, tuple(segments), seams)

    def lost(self, translations: Sequence[str | Sequence[str]]) -> list[int]:
        """Return the indexes of the translations in which markup was lost or has an impossible order.

        For these, give `join` the translations of the segment's `parts`.
        """
        pairs = enumerate(zip(self.segments, translations, strict=True))
        return [
            index
            for index, (segment, translation) in pairs
            if isinstance(translation, str) and segment.parts and not segment.keeps(translation)
        ]

    def join(self, translations: Sequence[str | Sequence[str]], target: str | None = None) -> str:
        """Return the document with its sentences translated. With their own texts it is the source, byte for byte.

        A translation is a string, or the translations of the segment's `parts`. `target` is the FLORES-200 code of
        their language (None: the language of the source). If only `target` has spaces between sentences, they are
        added. Raises ValueError if the number of translations is wrong.
        """
        return _whole(self.joining(translations, target))

    def joining(
        self, translations: Sequence[str | Sequence[str]], target: str | None = None
    ) -> Generator[None, None, str]:
        """Do the work of `join` in short steps."""
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(self.segments)} translations are needed; {len(translations)} were given")
        target = target or self.language
        spaced = spaces_words(target)
        parted = spaces_sentences(target) and not spaces_sentences(self.language)
        escape_start = _FORMATS[self.format].escape_start
        pieces: list[str] = []
        position = 0
        for index, (segment, translation) in enumerate(zip(self.segments, translations, strict=True)):
            yield
            if parted and index in self._seams:
                pieces += (self.source[position : self._seams[index]], " ")
                position = self._seams[index]
            text = segment.render(translation, spaced=spaced)
            source = self.source[segment.start : segment.end]
            pieces.append(self.source[position : segment.start])
            pieces.append(escape_start(text) if segment.begins_block and text != source else text)
            position = segment.end
        return "".join((*pieces, self.source[position:]))


def _whole(steps: Generator[None, None, T]) -> T:
    """Run `steps` to their end and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def _split_at_breaks(block: Iterable[InlineToken]) -> Iterator[Block]:
    line: Block = []
    for token in block:
        if token.kind is InlineKind.BREAK:
            yield line
            line = []
        else:
            line.append(token)
    yield line


def _sentences(block: Block, language: str) -> Iterator[tuple[Block, int]]:
    """Yield the sentences of a block, each with its start in the source if it touches the one before, else 0."""
    view = "".join("X" if token.kind is InlineKind.VOID else token.view for token in block)
    if not has_letters(view):
        return
    touches = 0
    position = 0  # in the view: character `offset` of token `index`, the first that is in no sentence
    index = offset = 0
    for _, cut in sentences(view, 0, len(view), tag(language)):
        sentence: Block = []
        while index < len(block):
            token = block[index]
            rest = (1 if token.kind is InlineKind.VOID else len(token.view)) - offset
            if position + rest > cut:
                # Text is cut here. A token that stands for other characters goes to the next sentence.
                if position < cut and len(token.view) == token.end - token.start:
                    sentence.append(_slice(token, offset, offset + cut - position))
                    offset += cut - position
                    position = cut
                break
            if not rest and position == cut and token.kind is InlineKind.OPEN and cut < len(view):
                break  # opens in the next sentence
            sentence.append(_slice(token, offset, len(token.view)) if offset else token)
            position += rest
            index, offset = index + 1, 0
        if sentence:
            yield sentence, touches
            around = view[cut - 1 : cut + 1]
            touches = sentence[-1].end if around.strip() == around else 0


def _slice(token: InlineToken, start: int, end: int) -> InlineToken:
    return InlineToken(token.start + start, token.start + end, InlineKind.TEXT, token.view[start:end])


def _trim(tokens: Block) -> Block:
    """Return a sentence without white space and markup at its edges; empty if no letter is left.

    A pair of marks inside the sentence stays, unless it encloses the whole sentence.
    """
    inside = {token.start for token in tokens if token.partner is not None}
    first, last = 0, len(tokens) - 1

    def paired(token: InlineToken) -> bool:
        return token.partner in inside

    def is_edge(token: InlineToken) -> bool:
        if token.kind is InlineKind.TEXT:
            return not token.view.strip()
        return token.kind is InlineKind.MARK or (token.kind is not InlineKind.VOID and not paired(token))

    while first <= last:
        if is_edge(tokens[first]):
            first += 1
        elif is_edge(tokens[last]):
            last -= 1
        elif tokens[first].kind is InlineKind.OPEN and tokens[first].partner == tokens[last].start:
            first, last = first + 1, last - 1
        else:
            break
    kept = tokens[first : last + 1]
    if not any(token.kind is InlineKind.TEXT and has_letters(token.view) for token in kept):
        return []
    kept[0] = _stripped(kept[0], leading=True)
    kept[-1] = _stripped(kept[-1], leading=False)
    return kept


def _stripped(token: InlineToken, *, leading: bool) -> InlineToken:
    if token.kind is not InlineKind.TEXT or len(token.view) != token.end - token.start:
        return token
    view = token.view.lstrip() if leading else token.view.rstrip()
    cut = len(token.view) - len(view)
    return InlineToken(token.start + cut * leading, token.end - cut * (not leading), InlineKind.TEXT, view)
