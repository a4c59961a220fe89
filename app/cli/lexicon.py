"""`nightingale lexicon check`: show how the entries of a pronunciation lexicon, and their neighbors, are read.

Also the option `--lexicon` of other commands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.command import add_option
from app.config import Settings

if TYPE_CHECKING:
    from app.text.lexicon import Lexicon, LexiconEntry
    from app.text.planner import Phonemizer


@dataclass(frozen=True, slots=True)
class _Row:
    """A word, its phonemes with the lexicon and without it, and what is odd about it. `entry`: the lexicon has it."""

    text: str
    phonemes: str
    without: str
    entry: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class LexiconFile:
    """File that `--lexicon` names."""

    path: Path
    data: bytes
    lexicon: Lexicon

    @property
    def name(self) -> str:
        """Name under which a server keeps it: the same for the same content."""
        return f"{self.path.name[:60]} {hashlib.sha256(self.data).hexdigest()[:16]}".strip()


def add_lexicon_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names lexicons."""
    add_option(parser, "--lexicon")


def given_lexicons(names: Sequence[str]) -> list[str | LexiconFile]:
    """Return the ids and the files that `--lexicon` names. Raises OSError, and InvalidLexiconError for a bad file."""
    from app.lexicons.store import is_lexicon_id

    return [name if is_lexicon_id(name) else _read_file(Path(name), None) for name in names]


def _read_file(path: Path, language: str | None) -> LexiconFile:
    from app.errors import ServiceError
    from app.text.lexicon_files import MAX_BYTES, read_lexicon

    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    try:
        return LexiconFile(path, data, read_lexicon(data, language))
    except ServiceError as error:
        raise type(error)(f"{path.name}: {error.message}") from error


def check_lexicon(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the readings; return the exit status. Raises ServiceError for a file that cannot be used."""
    from app.errors import ServiceError
    from app.text.languages import nearest_language
    from app.text.planner import get_phonemizer

    lexicon = _read_file(arguments.file, arguments.lang).lexicon
    try:
        phonemizer = get_phonemizer(nearest_language(lexicon.language or "en") or lexicon.language or "en")
    except ServiceError as error:
        raise type(error)(f"{arguments.file.name}: {error.message}") from error
    rows: list[_Row] = []
    seen: set[str] = set()
    for entry in lexicon.entries:
        if entry.grapheme in seen:
            rows.append(_Row(entry.grapheme, entry.phonemes or entry.alias, "", True, "hidden by an earlier entry"))
        else:
            rows += _rows(entry, lexicon, phonemizer)
        seen.add(entry.grapheme)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2))
        return 0
    for row in rows:
        word = row.text if row.entry else f"  {row.text}"
        alone = row.without and f"(alone: {row.without})"
        print("\t".join(filter(None, (word, row.phonemes, alone, row.note))))
    print(f"{len(lexicon.entries)} entries, {phonemizer.language.name}")
    return 0


def _rows(entry: LexiconEntry, lexicon: Lexicon, phonemizer: Phonemizer) -> Iterator[_Row]:
    """Yield the entry, and the words beside it that readers of the text will meet."""
    grapheme = entry.grapheme
    read, alone, source = _read(grapheme, lexicon, phonemizer)
    note = "changes nothing" if source and read == alone else "" if source else "not matched"
    yield _Row(grapheme, read, alone, True, note)
    forms = [f"{grapheme}'s", f"{grapheme}s"] if phonemizer.language.tag.startswith("en") else []
    known = {each.grapheme for each in lexicon.entries}
    for form in dict.fromkeys((*forms, grapheme.lower(), grapheme.capitalize(), grapheme.upper())):
        if form != grapheme and form not in known:
            read, alone, source = _read(form, lexicon, phonemizer)
            yield _Row(form, read, alone, False, "" if source else "not covered")


def _read(text: str, lexicon: Lexicon, phonemizer: Phonemizer) -> tuple[str, str, bool]:
    """Return the phonemes of a text with the lexicon, those without it, and whether the lexicon was used."""
    from app.errors import NothingToSpeakError
    from app.text.tokens import join

    def phonemes(lexicons: tuple[Lexicon, ...]) -> tuple[str, bool]:
        try:
            tokens = [token for sentence in phonemizer.tokens(text, lexicons=lexicons) for token in sentence]
        except NothingToSpeakError:
            return "", False
        return join(tokens, lambda token: token.phonemes), any(token.source == "user-lexicon" for token in tokens)

    read, used = phonemes((lexicon,))
    return read, phonemes(())[0], used
