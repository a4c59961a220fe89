"""The languages that can be spoken, and the many ways in which clients name them."""

from __future__ import annotations

from dataclasses import dataclass

from app.text.errors import UnsupportedLanguageError


@dataclass(frozen=True, slots=True)
class Language:
    """A language by its BCP-47 tag. `extra_needed` names the optional dependency group it needs, if any."""

    tag: str
    name: str
    aliases: tuple[str, ...]
    extra_needed: str | None = None


# The one-letter aliases are those of Kokoro's voice names.
LANGUAGES: tuple[Language, ...] = (
    Language("en-us", "American English", ("en", "eng", "a", "american", "english")),
    Language("en-gb", "British English", ("en-uk", "b", "british")),
    Language("es", "Spanish", ("e", "es-es", "es-419", "es-mx", "es-us", "spa", "spanish")),
    Language("fr-fr", "French", ("f", "fr", "fra", "french")),
    Language("hi", "Hindi", ("h", "hi-in", "hin", "hindi")),
    Language("it", "Italian", ("i", "it-it", "ita", "italian")),
    Language("pt-br", "Brazilian Portuguese", ("p", "pt", "por", "portuguese")),
    Language("ja", "Japanese", ("j", "ja-jp", "jp", "jpn", "japanese"), extra_needed="ja"),
    Language("zh", "Mandarin Chinese", ("z", "zh-cn", "zh-hans", "zh-hans-cn", "cmn", "chinese"), extra_needed="zh"),
)

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
