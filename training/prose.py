"""Plain sentences of a language in the files of a folder: prose, help pages, manual pages, quotations, WordNet.

Nothing of it is kept in the repository; README.md names the packages of Debian whose files the shipped voice read.
"""

from __future__ import annotations

import gzip
import html
import re
from collections.abc import Iterator
from pathlib import Path

MIN_CHARACTERS, MAX_CHARACTERS = 12, 190  # characters of a sentence
# Frequent short words: a text of another language has few of them.
FREQUENT = {
    "en": "the of to and a in is it that for you was on are with as be this have not or by",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más o",
    "fr": "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il",
    "it": "di e il la che in a per un è del non si una i da con le al dei sono della nel come lo",
    "pt": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas ao",
}
_FREQUENT = {language: frozenset(words.split()) for language, words in FREQUENT.items()}
_SENTENCE = re.compile(r"[A-ZÀ-ÖØ-Þ¿¡][^.!?…]*(?:\.\.\.|[.!?…])")
_PLAIN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*(?:(?:[,;:]? | [—–-] |['’])[¿¡]?[^\W\d_]+(?:['’-][^\W\d_]+)*)*")
_CODE = re.compile(r"<(code|pre|screen|kbd|samp|tt)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_MARKUP = re.compile(r"<(script|style|svg)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(r"</?(p|div|h\d|li|td|th|tr|dt|dd|br|title|item|note|section|table|ul|ol)\b[^>]*>", re.IGNORECASE)
_ROFF = re.compile(r"\\f\(?[A-Z]{1,2}|\\f.|\\[&%,|/]|\\\(\w\w|\\\*.")
_EXAMPLE = re.compile(r'"([^"]+)"')


def _paragraphs(path: Path) -> Iterator[str]:
    raw = path.read_bytes()
    name = path.name.removesuffix(".gz")
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if name.startswith("data.") and "wordnet" in str(path):
        for line in text.splitlines():
            for example in _EXAMPLE.findall(line.partition("|")[2]):
                end = "" if example[-1] in ".!?" else "?" if re.match("(what|who|where|how|why)", example) else "."
                yield example[:1].upper() + example[1:] + end
        return
    if re.search(r"\.\d\w*$", name):  # a manual page
        lines = (
            "\n\n" if re.match(r"\.(PP|P|LP|SH|SS|TP|IP|br)\b", line) else
            "" if line.startswith((".", "'")) and not re.match(r"\.(I|B|BR|IR|RB|BI)\s", line) else
            re.sub(r"^\.\w+\s+", "", line)
            for line in text.splitlines()
        )  # fmt: skip
        text = _ROFF.sub("", "\n".join(lines).replace("\\-", "-"))
    elif name.endswith((".html", ".htm", ".page", ".xml", ".xhp")):
        text = html.unescape(_MARKUP.sub(" ", _CODE.sub(" § ", _BLOCK.sub("\n\n", text))))  # § spoils a sentence
    for paragraph in re.split(r"\n\s*\n|\n%\n|\n\s+(?=[-—–]\s)", text):
        yield re.sub(r"\s+", " ", paragraph)


def sentences_of(paragraph: str, language: str) -> Iterator[str]:
    """Yield the plain sentences of a paragraph: words and commas, no names of programs, figures or symbols."""
    for match in _SENTENCE.finditer(paragraph):
        sentence = re.sub(r" ([,;:.])", r"\1", match[0]).replace("’", "'").strip()
        if match.start() and paragraph[match.start() - 1] not in ' ¿¡"«“':
            continue
        body = re.sub(r"\s*[.!?…]+$", "", sentence).lstrip("¿¡")
        words = re.findall(r"[^\W\d_]+", body)
        if not MIN_CHARACTERS <= len(sentence) <= MAX_CHARACTERS or len(words) < 3 or not _PLAIN.fullmatch(body):
            continue
        odd = sum(word[1:] != word[1:].lower() for word in words) or any(
            len(word) == 1 and word.lower() not in "aeioyuàéèI" for word in re.findall(r"[^\W\d_']+'?", body)
        )
        shares = {of: sum(word.lower() in frequent for word in words) for of, frequent in _FREQUENT.items()}
        names = sum(word[:1].isupper() for word in words[1:])
        if not odd and names <= len(words) // 5 and shares.pop(language) > max(len(words) // 7, *shares.values()):
            yield sentence


def sentences(folder: Path, language: str) -> list[str]:
    """Return the distinct plain sentences of all files below a folder, sorted."""
    made: set[str] = set()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix not in (".dat", ".png", ".svg", ".u8", ".jpg"):
            for paragraph in _paragraphs(path):
                made.update(sentences_of(paragraph, language))
    return sorted(made)
