"""Reader of HTML: its text, and the tags inside sentences. The source is only cut, never rebuilt.

Tags are read as in https://html.spec.whatwg.org/#tokenization: a tag ends at the first `>` outside quotes, a raw text
element at its end tag. No input is an error; unknown markup is kept. Time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

from app.text.word_sets import word_set
from app.translation.text.inline import MAX_TOKENS, Block, InlineKind, InlineToken, flowing_tokens, portions

INLINE: Final = word_set(
    "a abbr acronym b bdi bdo big cite del dfn em font i ins label mark q rb rp rt ruby s small span strike strong sub "
    "sup time tt u"
)
"""Elements inside a sentence."""

_MARKS: Final = word_set("img wbr link meta source track param embed")
WORDS: Final = word_set("code kbd samp var math")
"""Elements inside a sentence whose content is kept."""

_KEPT: Final = word_set("pre svg canvas object video audio")  # blocks whose content is kept
_RAW: Final = word_set("script style textarea xmp iframe noembed noframes template noscript")
_EMPTY: Final = word_set("area base br col hr img input link meta param source track wbr embed")

_NAME: Final = re.compile(r"[A-Za-z][^\s/>]{0,60}")
_UNTRANSLATED: Final = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]{0,500}?\bnotranslate\b|'[^']{0,500}?\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)
_QUOTE_OR_END: Final = re.compile("[\"'>]")
_REFERENCE: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ESCAPED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL: Final = re.compile("[&<>]")


def escape(text: str) -> str:
    """Return a translation as HTML text."""
    return _SPECIAL.sub(lambda match: _ESCAPED[match.group()], text)


def read(source: str) -> Iterator[Block]:
    """Yield the blocks of an HTML document or fragment."""
    return _Reader(source).blocks()


def read_references(source: str, start: int, end: int) -> Iterator[InlineToken]:
    """Yield the tokens of [start, end), which holds no tag, with character references decoded."""
    position = start
    for match in _REFERENCE.finditer(source, start, end):
        decoded = unescape(match.group())
        yield from flowing_tokens(source, position, match.start())
        if decoded == match.group():  # unknown name
            yield InlineToken(match.start(), match.end(), InlineKind.VOID)
        else:
            view = " " if decoded.isspace() else decoded if decoded.isprintable() else ""
            yield InlineToken(match.start(), match.end(), InlineKind.TEXT, view)
        position = match.end()
    yield from flowing_tokens(source, position, end)


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._block: Block = []
        self._open: dict[str, list[InlineToken]] = {}

    def blocks(self) -> Iterator[Block]:
        source = self._source
        position = 0
        while position < len(source):
            tag = source.find("<", position)
            while 0 <= tag < len(source) - 1 and not (source[tag + 1] in "/!?" or _NAME.match(source, tag + 1)):
                tag = source.find("<", tag + 1)  # as in "1 < 2"
            if tag < 0 or tag == len(source) - 1:
                tag = len(source)
            for portion in portions(source, position, tag):
                self._block += read_references(source, *portion)
                yield []
            if tag == len(source):
                break
            position, ended = self._markup(tag)
            if self._block and (ended or len(self._block) > MAX_TOKENS):
                yield self._take()
        yield self._take()

    def _take(self) -> Block:
        block, self._block, self._open = self._block, [], {}
        return block

    def _markup(self, start: int) -> tuple[int, bool]:
        """Read the markup at `start`. Return its end, and whether it ends the block."""
        source = self._source
        if source.startswith("<!--", start):
            end = source.find("-->", start + 2)
            return self._add(start, len(source) if end < 0 else end + 3, InlineKind.MARK), False
        name = _NAME.match(source, start + 1 + source.startswith("</", start))
        end = tag_end(source, start)
        if name is None:  # <!doctype>, <?xml?>, </ >
            return end, True
        tag = name.group().lower()
        if source[start + 1] == "/":
            return self._closing(tag, start, end)
        if tag in _RAW:
            closing = re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE).search(source, end)
            end = tag_end(source, closing.start()) if closing else len(source)
            return end, tag in {"textarea", "xmp", "iframe"}
        kept = tag in _KEPT or tag in WORDS
        if not kept and end - start > len(tag) + 2:
            kept = _UNTRANSLATED.search(source, start, min(end, start + 2000)) is not None
        if kept and tag not in _EMPTY and not source.endswith("/>", start, end):
            end = self._element_end(tag, end)
            if tag in WORDS or tag in INLINE:
                return self._add(start, end, InlineKind.VOID), False
            return end, True
        if tag in _MARKS:
            return self._add(start, end, InlineKind.MARK), False
        if tag in INLINE:
            self._add(start, end, InlineKind.OPEN)
            self._open.setdefault(tag, []).append(self._block[-1])
            return end, False
        return end, True

    def _closing(self, tag: str, start: int, end: int) -> tuple[int, bool]:
        if tag not in INLINE:
            return end, tag not in _MARKS and tag not in WORDS
        self._add(start, end, InlineKind.CLOSE)
        if self._open.get(tag):
            self._block[-1].pair(self._open[tag].pop())
        return end, False

    def _add(self, start: int, end: int, kind: InlineKind) -> int:
        self._block.append(InlineToken(start, end, kind))
        return end

    def _element_end(self, tag: str, position: int) -> int:
        """Return the end of the element whose start tag ended at `position`, or the end of the source."""
        depth = 1
        pattern = re.compile(rf"<(/?){re.escape(tag)}(?=[\s/>])", re.IGNORECASE)
        while match := pattern.search(self._source, position):
            position = tag_end(self._source, match.start())
            depth += -1 if match.group(1) else 1
            if depth == 0:
                return position
        return len(self._source)


def tag_end(source: str, start: int) -> int:
    """Return the end of the tag at `start`: after the first `>` outside quotes, or the end of the source."""
    position = start + 1
    while match := _QUOTE_OR_END.search(source, position):
        if match.group() == ">":
            return match.end()
        if not _is_value(source, match.start()):
            position = match.end()
            continue
        closing = source.find(match.group(), match.end())
        if closing < 0:
            return len(source)
        position = closing + 1
    return len(source)


def _is_value(source: str, quote: int) -> bool:
    """Return whether a quote begins the value of an attribute."""
    before = quote - 1
    while before >= 0 and quote - before < 20 and source[before].isspace():
        before -= 1
    return source[before] == "="
