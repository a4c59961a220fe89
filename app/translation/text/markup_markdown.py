"""Reader of Markdown: blocks by a scan of the lines, inline markup by a scan of the characters.

Follows CommonMark (https://spec.commonmark.org/0.31.2/) and GitHub's tables, task lists, footnotes and strikethrough
as far as needed to separate text from markup. Markup that is taken for text keeps its place. Time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final

from app.translation.text.inline import MAX_TOKENS, Block
from app.translation.text.markdown_inline import InlineReader, fold_label

_LINE: Final = re.compile(r"[^\n\r]*(?:\r\n|\n|\r|\Z)")
_PREFIX: Final = re.compile(
    r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)(?:\[[ xX]\][ \t]+)?[ \t>]*){0,8}"
    r"(?:\#{1,6}(?=[ \t]|$)[ \t]*|\[\^[^\]\s]{1,100}\]:[ \t]*)?"
)
_QUOTE_ONLY: Final = re.compile(r"[ \t>]*")
_FENCE: Final = re.compile(r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}(?=[^`]*$)|~{3,}|\$\$)")
_RULE: Final = re.compile(r"[ \t>]*(?:(?:-[ \t]*)+|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|=+[ \t]*)$")
_DELIMITER_ROW: Final = re.compile(r"[ \t>]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+){0,200}\|?[ \t]*+$")
_MAX_ROW_CHARACTERS: Final = 2000
# Lines after which the reader reports progress.
_LINES: Final = 1000
_DEFINITION: Final = re.compile(r"[ \t>]*\[(?!\^)((?:[^\[\]\\]|\\.){1,300})\]:[ \t]*\S")
_RAW_HTML: Final = re.compile(r"[ \t>]*<(script|style|pre|textarea|svg)(?=[\s>])|[ \t>]*<(!--|\?|!)", re.IGNORECASE)
_CODE_INDENT: Final = re.compile(r"(?: {4}| {0,3}\t)")
_CELL: Final = re.compile(r"(?:[^|\\]|\\.)+", re.DOTALL)

_ACTIVE: Final = re.compile(r"[\\`*_\[\]<|]")
_LINE_START: Final = re.compile(r"(?:[-+*>](?=\s|$)|#{1,6}(?=\s|$))")
_NUMBER_START: Final = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


def escape(text: str, source: str) -> str:
    """Return a translation as Markdown text. `source` is the sentence in the document.

    A character that could begin markup is escaped, unless the source also has it unescaped.
    """
    plain = frozenset(re.sub(r"\\.", "", source))
    return _ACTIVE.sub(lambda match: match.group() if match.group() in plain else "\\" + match.group(), text)


def escape_start(text: str) -> str:
    """Return the first text of a block, escaped so that it begins no list, heading or quote."""
    if _LINE_START.match(text):
        return "\\" + text
    return _NUMBER_START.sub(r"\1\\\2", text, count=1) if _NUMBER_START.match(text) else text


def read(source: str) -> Iterator[Block]:
    """Yield the blocks of a Markdown document."""
    return _Reader(source).blocks()


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = [match.span() for match in _LINE.finditer(source) if match.start() < match.end()]
        self._labels: set[str] = set()
        self._pieces: list[tuple[int, int]] = []  # lines of the current paragraph, without prefix and line break
        self._in_list = False
        self._depth = 0

    def _content(self, index: int) -> tuple[int, int]:
        """Return the span of a line without its line break."""
        start, end = self._lines[index]
        while end > start and self._source[end - 1] in "\r\n":
            end -= 1
        return start, end

    def blocks(self) -> Iterator[Block]:
        skipped = yield from self._literal_lines()
        in_table = False
        blank = True
        for index in range(len(self._lines)):
            if index % _LINES == 0:
                yield []
            start, end = self._content(index)
            line = self._source[start:end]
            if skipped[index] or not line.strip(" \t>"):
                yield from self._flush()
                in_table, blank = False, not skipped[index]
                self._in_list &= not skipped[index] or line[:1].isspace()
                continue
            if blank and not self._in_list and _CODE_INDENT.match(line):
                continue
            blank = False
            if self._pieces and "|" in line and len(line) < _MAX_ROW_CHARACTERS and _DELIMITER_ROW.match(line):
                header = self._pieces.pop()
                yield from self._flush()
                yield from self._row(*header)
                in_table = True
                continue
            if _RULE.match(line):
                yield from self._flush()
                continue
            if in_table and "|" in line:
                yield from self._row(start, end)
                continue
            in_table = False
            yield from self._paragraph_line(start, end)
        yield from self._flush()

    def _paragraph_line(self, start: int, end: int) -> Iterator[Block]:
        source = self._source
        prefix = _PREFIX.match(source, start, end)
        text = prefix.end() if prefix else start
        depth = source.count(">", start, text)
        continues = _QUOTE_ONLY.fullmatch(source, start, text) is not None
        if continues and depth > self._depth:
            yield from self._flush()
        self._depth = depth
        if not continues:
            yield from self._flush()
            marker = source[start:text]
            self._in_list = self._in_list or "#" not in marker
        elif not self._pieces and not source[start : start + 1].isspace():
            self._in_list = False
        while end > text and source[end - 1] in " \t":
            end -= 1
        heading = "#" in source[start:text]
        if heading:
            trimmed = source[text:end].rstrip("#")
            if trimmed != source[text:end] and trimmed[-1:] in {" ", "\t"}:
                end = text + len(trimmed.rstrip())
        broken = source.startswith("  ", end) or source.startswith("\\", end - 1)
        if end > text:
            self._pieces.append((text, end - source.startswith("\\", end - 1)))
        if heading or broken or len(self._pieces) > MAX_TOKENS:
            yield from self._flush()

    def _literal_lines(self) -> Generator[Block, None, list[bool]]:
        """Return for each line whether it holds no text: front matter, code, definitions, raw HTML.

        Collects the labels that are defined. Yields empty blocks to report progress.
        """
        literal = [False] * len(self._lines)
        contents = [self._source[slice(*self._content(index))] for index in range(len(self._lines))]
        index = self._front_matter(contents)
        literal[:index] = [True] * index
        closing = ""  # end of the current fence or raw HTML
        for number in range(index, len(contents)):
            if number % _LINES == 0:
                yield []
            line = contents[number]
            if closing:
                literal[number] = True
                stripped = line.strip(" \t>")
                if closing[0] in "`~$":
                    ended = stripped.startswith(closing) and not stripped.strip(closing[0])
                else:
                    ended = closing in line.lower()
                closing = "" if ended else closing
            elif fence := _FENCE.match(line):
                literal[number] = True
                one_line = fence.group(1) == "$$" and "$$" in line[fence.end() :]
                closing = "" if one_line else fence.group(1)
            elif raw := _RAW_HTML.match(line):
                literal[number] = True
                name = (raw.group(1) or "").lower()
                closing = f"</{name}" if name else {"!--": "-->", "?": "?>", "!": ">"}[raw.group(2)]
                closing = "" if closing in line[raw.end() :].lower() else closing
            elif definition := _DEFINITION.match(line):
                literal[number] = True
                self._labels.add(fold_label(definition.group(1)))
        return literal

    @staticmethod
    def _front_matter(contents: list[str]) -> int:
        """Return the number of lines of the front matter."""
        if contents and contents[0].rstrip() in {"---", "+++"}:
            for index, line in enumerate(contents[1:], 1):
                if line.rstrip() in {contents[0].rstrip(), "..."}:
                    return index + 1
        return 0

    def _row(self, start: int, end: int) -> Iterator[Block]:
        for cell in _CELL.finditer(self._source, start, end):
            yield from InlineReader(self._source, [cell.span()], self._labels).blocks()

    def _flush(self) -> Iterator[Block]:
        pieces, self._pieces = self._pieces, []
        if pieces:
            yield from InlineReader(self._source, pieces, self._labels).blocks()
