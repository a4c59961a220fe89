"""Plain text, Markdown and pages of HTML."""

from __future__ import annotations

import re
from typing import Final

from markdown_it import MarkdownIt

from app.documents.blocks import Block, one_line, read_blocks
from app.documents.chapters import MOST_CHARACTERS, split
from app.documents.markup import decode_text, local_name, parse_page, parse_page_text
from app.documents.types import Document, DocumentError

MOST_LINES: Final = 1_000_000

# "CHAPTER XII. The Storm", "Chapter Twenty-One", "Kapitel 3", "第十二章": a paragraph of its own, of one line.
_UNITS: Final = (
    "one|two|three|four|five|six|seven|eight|nine|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
)
_TENS: Final = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_TEENS: Final = "(?:t|elev|thirte|fourte|fifte|sixte|sevente|eighte|ninete)en(?:th)?|twel(?:ve|fth)"
_NUMBER: Final = rf"(?:\d{{1,4}}|[ivxlcdm]{{1,8}}|(?:the )?(?:{_TEENS}|{_UNITS}|(?:{_TENS})(?:[- ](?:{_UNITS}))?))"
_HEADING: Final = re.compile(
    rf"(?:(?P<part>part|book|volume|teil|partie|parte)|chapter|kapitel|chapitre|cap[ií]tulo|capitolo|hoofdstuk|глава) "
    rf"{_NUMBER}(?:[.:—–-].{{0,80}}|\s*)"
    r"|第[0-9０-９一二三四五六七八九十百千零〇两]{1,7}[章回节節部卷](?:[\s:：].{0,60})?"
    r"|(?:prologue|epilogue|preface|foreword|introduction|afterword|prolog|epilog|vorwort|nachwort|épilogue)\.?",
    re.I,
)
_PARAGRAPHS: Final = re.compile(r"\n[^\S\n]*\n\s*")
# Lines of a text that is not wrapped are paragraphs of their own.
_WRAPPED: Final = 100
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?P<fields>(?:[^\n]*\n){0,100}?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_FIELD: Final = re.compile(r"""^(title|author|language|lang)\s*:\s*["']?(.*?)["']?\s*$""", re.I | re.M)


def _decode(data: bytes) -> str:
    text = decode_text(data).replace("\r\n", "\n").replace("\r", "\n").strip()
    if text.count("\n") > MOST_LINES:
        raise DocumentError(f"The document has more than {MOST_LINES} lines, which is the limit.")
    if len(text) > 2 * MOST_CHARACTERS:
        raise DocumentError(f"The document has more than {MOST_CHARACTERS} characters, which is the limit.")
    return text


def read_text(data: bytes) -> Document:
    """Read plain text. Paragraphs are between blank lines, or lines where none is blank. Raises DocumentError."""
    text = _decode(data)
    parts = _PARAGRAPHS.split(text)
    if len(parts) == 1:
        lines = text.split("\n")
        parts = lines if sum(map(len, lines)) > _WRAPPED * len(lines) else parts
    blocks = [_text_block(part) for part in parts]
    title, chapters = split([block for block in blocks if block.text])
    return Document(title, "", None, None, chapters)


def _text_block(text: str) -> Block:
    line = one_line(text)
    found = _HEADING.fullmatch(line) if "\n" not in text.strip() and len(line) <= _WRAPPED else None
    if found is None:
        return Block(line)
    return Block(line, 1 if found["part"] else 2)


def read_markdown(data: bytes) -> Document:
    """Read Markdown (CommonMark and GitHub's tables). Fenced code is left out. Raises DocumentError."""
    text = _decode(data)
    fields: dict[str, str] = {}
    if front := _FRONT_MATTER.match(text):
        fields = {key.lower(): value for key, value in _FIELD.findall(front["fields"])}
        text = text[front.end() :]
    markdown = MarkdownIt("commonmark", {"html": True, "maxNesting": 50}).enable(["table", "strikethrough"])
    blocks = list(read_blocks(parse_page_text(markdown.render(text), "Markdown")))
    title, chapters = split(blocks, one_line(fields.get("title", "")))
    language = fields.get("language") or fields.get("lang") or None
    return Document(title, one_line(fields.get("author", "")), language, None, chapters)


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
