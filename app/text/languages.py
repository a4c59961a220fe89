"""Languages that can be spoken, and their names, from the table `languages.tsv` beside this module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.errors import UnsupportedLanguageError
from app.text.word_sets import read_rows


@dataclass(frozen=True, slots=True)
class Language:
    """One language by its BCP-47 tag."""

    tag: str
    name: str
    aliases: tuple[str, ...]


FILE: Final = Path(__file__).with_name("languages.tsv")
_ROWS: Final = read_rows(FILE)
LANGUAGES: Final = tuple(Language(tag, name, tuple(aliases.split())) for tag, name, aliases in _ROWS["spoken"])

_BY_NAME = {name: language for language in LANGUAGES for name in (language.tag, *language.aliases)}


def normalize_language(tag: str) -> str:
    """Return the canonical tag of a language given by tag or alias, in any case, with `-` or `_`.

    Raises UnsupportedLanguageError, which lists the accepted tags.
    """
    return find_language(tag).tag


def find_language(tag: str) -> Language:
    """Return the language named by a tag or alias. Raises UnsupportedLanguageError."""
    language = _BY_NAME.get(tag.strip().lower().replace("_", "-"))
    if language is None:
        accepted = ", ".join(f"{item.tag} ({item.name})" for item in LANGUAGES)
        raise UnsupportedLanguageError(f"language {tag[:40]!r} is not supported; accepted are: {accepted}")
    return language


def nearest_language(tag: str, preferred: str = "en-us") -> str | None:
    """Return the tag of the language named by a tag or alias, or of its nearest variety; None: it cannot be spoken.

    `preferred` counts where a tag names no variety, such as "en".
    """
    name = tag.strip().lower().replace("_", "-")
    primary = name.split("-", maxsplit=1)[0]
    if name == primary and preferred.split("-", maxsplit=1)[0] == primary:
        return preferred
    known = _BY_NAME.get(name) or _BY_NAME.get(primary)
    return None if known is None else known.tag


def is_spoken(tag: str) -> bool:
    """Return whether a tag or alias names one of `LANGUAGES`."""
    return tag.strip().lower().replace("_", "-") in _BY_NAME


def language_name(tag: str) -> str:
    """Return the English name of a language given by tag or alias, or the tag itself if it cannot be spoken."""
    language = _BY_NAME.get(tag.strip().lower().replace("_", "-"))
    return tag if language is None else language.name


_ISO_639_1 = dict(pair.split(":") for (pairs,) in _ROWS["shorter"] for pair in pairs.split())


def primary_language(tag: str) -> str:
    """Return the shortest ISO 639 code of a language named by BCP-47 tag, FLORES-200 code or alias.

    Never raises. For an unknown tag, returns its first subtag in lower case.
    """
    name = tag.strip().lower().replace("_", "-")
    known = _BY_NAME.get(name)
    primary = (known.tag if known else name).split("-", maxsplit=1)[0]
    return _ISO_639_1.get(primary, primary)
