"""Readings of every line of the tables, by the sentence splitter and the pronouncer of speech."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.text.pieces import Piece, PieceKind
from app.text.planner import Phonemizer, _MarkedText

TABLES = sorted(Path(__file__).parent.glob("readings*.tsv"))
ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")  # what could not be seen in a table
OTHERS = ("de", "es", "fr-fr", "it", "pt-br")


def rows() -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in (line for table in TABLES for line in table.read_text(encoding="utf-8").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and not line.startswith("# "):
            text, tab, spoken = line.partition("\t")
            assert tab, f"no tab in {line!r}"
            yield section, ESCAPED.sub(lambda found: chr(int(found[1], 16)), text), spoken


ROWS = list(rows())
PHONEMIZERS = {
    "en-us": Phonemizer("en-us"),
    "en-gb": Phonemizer("en-gb"),
    "named": Phonemizer("en-us", name_emoji=True),
    **{tag: Phonemizer(tag) for tag in OTHERS},
}
SECTIONS = list(dict.fromkeys(section for section, _, _ in ROWS))


def pieces(text: str, language: str) -> list[list[Piece]]:
    """Return the pronounced pieces of each sentence."""
    phonemizer = PHONEMIZERS[language]
    marked = _MarkedText(text, None, phonemizer.language.tag)
    said = [sentence for _, _, sentence in phonemizer._sentences(marked, 0, len(marked.plain))]
    return [sentence for sentence in said if sentence]


def words(text: str, language: str) -> str:
    out = []
    for sentence in pieces(text, language):
        said = ""
        for piece in sentence:
            shown = piece.text if language.startswith(("en", "named")) and piece.text.isupper() else piece.text.lower()
            said += shown if piece.kind is PieceKind.PUNCTUATION or piece.glued or not said else f" {shown}"
        out.append(said)
    return " | ".join(out)


def sound(text: str, language: str, word: str) -> str:
    found: dict[str, list[str]] = {}
    last = (-1, -1)
    for sentence in pieces(text, language):
        for piece in sentence:
            original = text[piece.start : piece.end]
            if (piece.start, piece.end) != last:
                found[original] = []
            last = piece.start, piece.end
            found[original].append(piece.phonemes)
    return " ".join(found.get(word, []))


def reading(section: str, text: str, expected: str) -> str:
    """Return the reading of `text` in the form of the second column of the table."""
    named = "en-gb" if "en-gb" in section else "named" if "named" in section else "en-us"
    language = section if section in OTHERS else named
    if "sounds" not in section:
        return words(text, language)
    word, _, _ = expected.partition("=")
    return f"{word}={sound(text, language, word)}"


@pytest.mark.parametrize("section", SECTIONS)
def test_readings(section: str) -> None:
    wrong = []
    for where, text, expected in ROWS:
        if where == section and (said := reading(section, text, expected)) != expected:
            wrong.append(f"{text!r}\n  is read   {said}\n  should be {expected}")
    assert not wrong, f"{len(wrong)} readings are wrong\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "text", ["こんにちは", "ラーメン", "日本語", "你好世界", "Tokyo東京", "русский", "ﷺ", "தமிழ்", "ქართული"]
)
def test_another_script_is_read_and_not_described(text: str) -> None:
    (spoken,) = (piece.phonemes for sentence in pieces(f"Say {text} now", "en-us") for piece in sentence[1:-1])
    assert spoken
    assert "lˈɛTəɹ" not in spoken
    assert "ʧˌInˈiz" not in spoken


def test_spans_of_what_is_not_shown_as_written() -> None:
    text = "I ❤️ it, <b>AT&amp;T</b> and don&#39;t pay $3-5."
    said = [(piece.text, text[piece.start : piece.end]) for sentence in pieces(text, "en-us") for piece in sentence]
    assert said == [
        ("I", "I"), ("love", "❤️"), ("it", "it"), (",", ","), ("AT", "AT"), ("and", "&amp;"), ("T", "T"),
        ("and", "and"), ("don't", "don&#39;t"), ("pay", "pay"), ("three", "$3"), ("to", "-"), ("five", "5"),
        ("dollars", "5"), (".", "."),
    ]  # fmt: skip


def test_each_language_has_readings() -> None:
    assert {"dates", "homographs sounds", *OTHERS} <= set(SECTIONS)
