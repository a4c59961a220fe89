"""Errors in a text, or in a language.

    TextError (ValueError)
    ├── UnsupportedLanguageError   no such language; the message lists the known ones
    │   └── MissingExtraError      the language needs packages that are not installed
    ├── UnknownTranslationLanguage no such language to translate; the message suggests others
    ├── GlossaryError              a term that is empty or too long, or too many of them
    ├── LexiconError               a pronunciation lexicon that cannot be read or used
    ├── MarkupError                a wrong `[pause:...]` or `[word](/.../)`
    ├── NothingToSpeakError        no letter, digit or spoken symbol in the text
    └── PhonemizerUnavailableError a part that the language needs is missing or does not run here

Every message is written for the person who sent the text.
"""

from __future__ import annotations


class TextError(ValueError):
    """Base of the errors of `app.text`."""


class UnsupportedLanguageError(TextError):
    """The language cannot be spoken."""


class MissingExtraError(UnsupportedLanguageError):
    """The language exists but its optional packages are not installed. `extra` is the name of the extra."""

    def __init__(self, message: str, *, extra: str) -> None:
        super().__init__(message)
        self.extra = extra


class UnknownTranslationLanguage(TextError):  # noqa: N818  (named as its siblings in `models.contract` are read)
    """The translation model does not know the language. The message gives the nearest names."""


class GlossaryError(TextError):
    """A glossary that cannot be used."""


class LexiconError(TextError):
    """A pronunciation lexicon, or an entry of it, that cannot be used."""


class MarkupError(TextError):
    """Markup that is malformed or outside its limits."""


class NothingToSpeakError(TextError):
    """The text has nothing to speak: it is empty, or only punctuation, emoji or pauses."""


class PhonemizerUnavailableError(TextError):
    """A part that the language needs (espeak-ng, a lexicon) is missing or does not run on this machine."""
