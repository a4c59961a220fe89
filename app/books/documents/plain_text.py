"""Plain text, Markdown and pages of HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from markdown_it import MarkdownIt

from app.books.documents.blocks import Block, one_line, read_blocks
from app.books.documents.chapters import MAX_CHARACTERS, heading_level, is_rule, split, without_rules
from app.books.documents.markup import decode_text, local_name, parse_page, parse_page_text
from app.books.documents.types import Document, DocumentError
from app.text.word_sets import word_set

MAX_LINES: Final = 1_000_000

_PARAGRAPHS: Final = re.compile(r"\n[^\S\n]*\n\s*")
# Lines of a text that is not wrapped are paragraphs of their own.
_WRAPPED: Final = 100
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?P<fields>(?:[^\n]*\n){0,100}?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
# "strik-" at the end of a line, with what follows. A dash has another one, or a space, before it.
_DIVIDED: Final = re.compile(r"(?<![^\W_])([^\W_]\.|[^\W_]++)([-‐])\n[^\S\n]*+(?=([^\W_]++))")
_GOES_ON: Final = re.compile(r"-\w")
_SOFT: Final = re.compile(r"\u00ad\n\s*")
_COMPOUND: Final = re.compile(r"[^\W_]++(?:-[^\W_]++)?")
# "two- and three-year" keeps its space.
_JOINING: Final = word_set("and or to nor und oder bis sowie et ou y e o en og och")
# Parts of compounds that have a hyphen. "self-" before an ending is another word, and so is "over-" before "looking".
_FIRST_PARTS: Final = word_set("well self half two three four five seven nine twenty thirty forty fifty sixty eighty")
_INNER_PARTS: Final = word_set("of the to by in and for on")
_LAST_PARTS: Final = word_set(
    "looking known made minded hearted handed eyed haired shaped free based sized called fashioned year term level être"
)
_FORMER: Final = word_set("wife wives husband girlfriend boyfriend president minister soldier partner lover boss")
_PREFIXES: Final = word_set("un re de be in mis over under out fore pre sub mid")
_ENDINGS: Final = word_set("ish ness less ful ly er ed ing est th ieth s es teen teenth ty tieth ties fold some")
_NOTE: Final = re.compile(r"[ \t>]{0,12}\[\^([^\]\s]{1,100})\]:")
# A line that begins something else, and does not go on with a footnote.
_OTHER_BLOCK: Final = re.compile(r"\s*(?:[-*+>|#]|\d{1,9}[.)]\s|```|~~~)")
_NOTE_MARK: Final = re.compile(r"\[\^([^\]\s]{1,100})\](?![(:])")
_MARKED: Final = re.compile(r"(?<![=\w])==(?=[^\s=])((?:[^=\n]|\n(?=\S)){1,300})(?<=\S)==(?![=\w])")
_FIELD: Final = re.compile(r"""^(title|author|language|lang)[^\S\n]*+:(.*)$""", re.I | re.M)


def _decode(data: bytes) -> str:
    text = decode_text(data).replace("\r\n", "\n").replace("\r", "\n").strip()
    if text.count("\n") > MAX_LINES:
        raise DocumentError(f"The document has more than {MAX_LINES} lines, which is the limit.")
    if len(text) > 2 * MAX_CHARACTERS:
        raise DocumentError(f"The document has more than {MAX_CHARACTERS} characters, which is the limit.")
    return text


def read_text(data: bytes) -> Document:
    """Read plain text. Paragraphs are between blank lines or dividers, or lines where none is blank.

    Raises DocumentError.
    """
    text = _decode(data)
    lines = text.split("\n")
    if _PARAGRAPHS.search(text) is None and sum(map(len, lines)) > _WRAPPED * len(lines):
        parts = lines
    else:
        parts = _PARAGRAPHS.split("\n".join("" if is_rule(line) else line for line in lines))
    join = _joiner(text)
    blocks = [_text_block(_DIVIDED.sub(join, _SOFT.sub("", part))) for part in parts]
    title, chapters = split([block for block in blocks if block.text])
    return Document(title, "", None, None, chapters)


def _text_block(text: str) -> Block:
    line = without_rules(one_line(text))
    return Block(line, heading_level(line) if "\n" not in text.strip() else 0)


def _joiner(text: str) -> Callable[[re.Match[str]], str]:
    """Return what joins the parts of a word that the end of a line divides: as the text has that word elsewhere."""
    wanted: set[str] = set()
    for first, _, last in _DIVIDED.findall(text):
        wanted.update((f"{first}{last}".lower(), f"{first}-{last}".lower()))
    known = {word for found in _COMPOUND.finditer(text) if (word := found[0].lower()) in wanted} if wanted else set()

    def join(found: re.Match[str]) -> str:
        first, hyphen, last = found.groups()
        goes_on = _GOES_ON.match(found.string, found.end(3)) is not None
        if (last.lower() in _JOINING and not goes_on) or (first.islower() and last[0].isdecimal()):
            return f"{first}{hyphen} "
        whole, compound = f"{first}{last}".lower(), f"{first}-{last}".lower()
        inner = found.string[found.start() - 1 : found.start()] == "-" and first in _INNER_PARTS
        kept = (
            goes_on
            or inner
            or len(first.rstrip(".")) == 1
            or not (last[0].islower() or (first.isupper() and last.isupper()))
        )
        kept = kept or (first.lower() in _FIRST_PARTS and last.lower() not in _ENDINGS)
        kept = kept or (last.lower() in _LAST_PARTS and first.lower() not in _PREFIXES)
        kept = kept or (first.lower() == "ex" and last.lower() in _FORMER)
        return f"{first}{hyphen if compound in known or (kept and whole not in known) else ''}"

    return join


def read_markdown(data: bytes) -> Document:
    """Read Markdown (CommonMark, GitHub's tables, and "==marked=="). Fenced code is left out. Raises DocumentError."""
    text = _decode(data)
    fields: dict[str, str] = {}
    if front := _FRONT_MATTER.match(text):
        fields = {key.lower(): _unquoted(value.strip()) for key, value in _FIELD.findall(front["fields"])}
        text = text[front.end() :]
    markdown = MarkdownIt("commonmark", {"html": True, "maxNesting": 50}).enable(["table", "strikethrough"])
    blocks = list(read_blocks(parse_page_text(markdown.render(_MARKED.sub(r"\1", _without_notes(text))), "Markdown")))
    title, chapters = split(blocks, one_line(fields.get("title", "")))
    language = fields.get("language") or fields.get("lang") or None
    return Document(title, one_line(fields.get("author", "")), language, None, chapters)


def _unquoted(value: str) -> str:
    """Return a value of the front matter without the quotation marks around it."""
    return value[value[:1] in ("'", '"') : len(value) - (value[1:][-1:] in ("'", '"'))]


def _without_notes(text: str) -> str:
    """Return Markdown without its footnotes, "[^1]: ..." with the lines that go on, and their marks."""
    lines = text.split("\n")
    names = {found[1] for line in lines if (found := _NOTE.match(line))}
    left: list[str] = []
    within, blank = False, True
    for line in lines:
        if _NOTE.match(line):
            within = True
        elif within and line.strip():
            within = line[0] in " \t" or not (blank or _OTHER_BLOCK.match(line))
        blank = not line.strip()
        if not within:
            mark = _NOTE_MARK.sub(lambda found: "" if found[1] in names or found[1].isdecimal() else found[0], line)
            left.append(mark)
    return "\n".join(left)


def read_page(data: bytes) -> Document:
    """Read a page of HTML. Raises DocumentError."""
    root = parse_page(data, "HTML")
    title = author = ""
    language = root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang")
    for element in root.iter():
        name = local_name(element)
        if name == "title" and not title:
            title = one_line("".join(element.itertext()))
        elif name == "meta" and element.get("name", "").lower() == "author":
            author = one_line(element.get("content", ""))
        elif name == "body":
            break
    title, chapters = split(list(read_blocks(root)), title)
    return Document(title, author, language, None, chapters)
