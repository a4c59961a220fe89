"""Sentences of natural English in files: documentation, stories, dialogues of games, examples of a dictionary.

A file is read by its form: HTML and other markup, strings that a game translates, quotations in a dictionary's glosses
or entries, novels in R's data, and plain text in paragraphs. Long sentences are cut at their commas. Figures, dates and
abbreviations become the words that the product's front end says.
"""

# ruff: noqa: SIM905  (word lists read better as text)

from __future__ import annotations

import gzip
import html
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from app.speech.verification import spoken_text
from app.text.english.lexicon import get_lexicon
from app.text.planner import get_phonemizer
from training.ear.lines import MAX_CHARACTERS

MAX_FILE_BYTES = 20_000_000  # bytes
WORDS = range(1, 33)
MAX_UNKNOWN_SHARE = 0.12  # share of words that the lexicon lacks: names, and what is no English
_TAGGED = (".html", ".htm", ".page", ".xml")
_QUOTED = {
    ".cfg": re.compile(r'_\s*"((?:[^"]|"")*)"'),  # Wesnoth's strings for translators
    ".game": re.compile(r"`([^`]*)`"),
    ".gloss": re.compile(r'"([^"]*)"'),
    ".dz": re.compile(r'"([^"]*)"\s+--'),  # what the dictionary quotes, before its author
}
_STRING = re.compile(rb"\0[\4\0][\0\x80]\t(....)", re.DOTALL)  # R's mark of a string, ASCII or UTF-8, and its length
_BLOCK = re.compile(r"(?i)</?(?:p|div|li|td|th|h\d|dt|dd|pre|br|title|note|item|para|section)\b[^>]*>")
_HIDDEN = re.compile(r"(?is)<(script|style|pre)\b.*?</\1>")
_CODE = re.compile(r"(?is)<(code|samp|span|tt|kbd)\b.*?</\1>|\b[A-Z]<[^<>]*>")  # a sentence with code is none
_TAG = re.compile(r"<[^<>]*>")
_LINE = re.compile(r"(?m)^(?:%|\s*--\s.*|[ \t]*[*#;/>|]+)")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "…": "...", "–": " — "})
_STOPS = re.compile(
    r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bDr\.)(?<!\bSt\.)(?<=[a-z0-9,)'\"][.?!])[)'\"]*\s+(?=['\"(]*[A-Z])"
    r"|(?<=[?!])[)'\"]+\s+(?=[a-z])"
)
# Signs that nobody says, names of code, and what is left of commands.
_SPOILED = re.compile(
    r"[^A-Za-z0-9 .,;:?!'\"()$%&—-]|\w[_/.:]\w*[a-z(]|\(\)|\d[A-Za-z]|[A-Z]{5}|\b[a-z]+[A-Z]|--|\.\.\.\.|\s-\w"
)
_COMMON = frozenset(
    "the a an and of to in is it i you he she we they that this was are for on with as at be have has had not but what "
    "who how why where when do does did my your his her their our me him them us no yes if so will would can could"
    "".split()
)


def text_of(path: Path) -> str:
    """Return the text of a file without its markup, paragraphs apart by an empty line; "" for one that is too long."""
    if path.stat().st_size > MAX_FILE_BYTES:
        return ""
    raw = path.read_bytes()
    if path.suffix in (".gz", ".dz"):
        raw = gzip.decompress(raw)
    if path.suffix == ".rdb":
        return _novels(raw)
    if b"\0" in raw[:1000]:
        return ""
    text = raw.decode("utf-8", errors="ignore")
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if path.name.startswith("data.") and "wordnet" in path.parts:
        kind = ".gloss"
    elif "endless-sky" in path.parts:
        kind = ".game"
    if kind in _QUOTED:
        return "\n\n".join(found.replace('""', '"') for found in _QUOTED[kind].findall(text))
    if kind == ".txt":
        text = _typed(text)
    if kind in _TAGGED:
        text = _BLOCK.sub("\n\n", _HIDDEN.sub("\n\n", text))
    return html.unescape(_TAG.sub("", _CODE.sub("§", text)))


def _typed(text: str) -> str:
    """Return typewritten text with dashes, without the marks of emphasis."""
    return re.sub(r"\b_|_\b", "", re.sub(r"\s*--+\s*", " — ", text))


def _novels(raw: bytes) -> str:
    """Return the strings in data of an R package, a line each: blocks of their size, four bytes, and deflated data."""
    lines: list[bytes] = []
    while len(raw) > 4:
        block = zlib.decompressobj()
        data, at = block.decompress(raw[4:]), 0
        while mark := _STRING.search(data, at):
            at = mark.end() + int.from_bytes(mark[1], "big")
            lines.append(data[mark.end() : at])
        raw = block.unused_data
    return _typed("\n".join(line.decode("utf-8", errors="ignore") for line in lines).replace("\r\n", "\n"))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that people might say, as they are written there."""
    text = _LINE.sub("\n\n", text.translate(_QUOTES))
    for paragraph in re.split(r"\n\s*\n", text):
        joined = re.sub(r"\s+", " ", paragraph).strip()
        ended = joined.endswith((".", "?", "!", '"', ")"))
        parts = _STOPS.split(joined)
        # A paragraph without an end is a heading or a phrase of a dictionary: it is a text only where it is alone.
        for part in parts if ended or len(parts) == 1 else parts[:-1]:
            sentence = part.strip(" \"'(").removesuffix('"').removesuffix(")") if part.count('"') % 2 else part.strip()
            if sentence and not _SPOILED.search(sentence):
                yield from _pieces(sentence)


def _pieces(sentence: str) -> Iterator[str]:
    """Yield a sentence, or, where it is too long to be said at once, what stands between its pauses."""
    while len(sentence) > MAX_CHARACTERS:
        cut = max(sentence.rfind(mark, MAX_CHARACTERS // 4, MAX_CHARACTERS - 10) for mark in (", ", "; ", ": ", " — "))
        if cut < 0:
            return
        yield sentence[:cut]
        sentence = sentence[cut + 2 :].lstrip("— ")
    yield sentence


@cache
def _known(word: str) -> bool:
    lexicon = get_lexicon(british=False)
    return lexicon.pronounce(word) is not None or lexicon.pronounce(word.lower()) is not None


def spoken(sentence: str) -> str | None:
    """Return a sentence as the product says it, with a capital and an end; None where it is no English."""
    plain = re.sub(r'"|\(|\)|(?<!\w)\'|\'(?!\w)', " ", sentence.replace(" (", ", ").replace(") ", ", "))
    said = spoken_text(re.sub(r"\s+", " ", plain).strip(" ,;:"), get_phonemizer("en-us")).strip(" ,")
    found = re.findall(r"[A-Za-z']+", said)
    if len(found) not in WORDS or not said[0].isalpha():
        return None
    if len(found) > 4 and not any(word.lower() in _COMMON for word in found):
        return None
    if sum(not _known(word) for word in found) > MAX_UNKNOWN_SHARE * len(found) or any(
        len(word) > 20 for word in found
    ):
        return None
    said = said[0].upper() + said[1:]
    return said if said[-1] in ".?!" else f"{said}."


def prose(source: Path, most: int, seed: int) -> list[str]:
    """Return at most `most` different sentences of a file or of all files in a folder, drawn from the seed."""
    files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    written = sorted({sentence for path in files for sentence in sentences(text_of(path))})
    random.Random(seed).shuffle(written)
    found: dict[str, None] = {}
    for sentence in written:
        if len(found) >= most:
            break
        said = spoken(sentence)
        if said is not None:
            found[said] = None
    return list(found)


def source_of(argument: str) -> tuple[Path, int]:
    """Return the path and the most sentences of `PATH` or `PATH=MOST`. Raises ValueError for another number."""
    path, _, most = argument.partition("=")
    return Path(path), int(most) if most else 1_000_000


def all_prose(arguments: Sequence[str], seed: int) -> list[str]:
    """Return the sentences of all sources, each once."""
    return list(dict.fromkeys(text for one in arguments for text in prose(*source_of(one), seed)))
