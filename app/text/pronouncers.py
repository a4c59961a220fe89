"""Registry of the pronouncers: the one module that knows all languages.

A word of another script needs the pronouncer of another language. This module passes it in, so that no language
imports another one. Languages are imported when they are made: some of them load large libraries.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial

from app.errors import ServiceError
from app.text.languages import Language, find_language
from app.text.pieces import Piece, Pronouncer

_LOG = logging.getLogger(__name__)


def make_pronouncer(language: Language) -> Pronouncer:
    """Return a new pronouncer of a language.

    Raises UnsupportedLanguageError, or UnavailableError if parts of the language cannot run on this machine.
    """
    if language.tag in ("en-us", "en-gb"):
        return _make_english(british=language.tag == "en-gb", dictionaries=True)
    if language.tag == "ja":
        from app.text.japanese import Japanese

        return Japanese(_pronounce_in_english)
    if language.tag == "zh":
        from app.text.chinese import Chinese

        return Chinese(_pronounce_in_english)
    from app.text.espeak_languages import EspeakLanguage

    return EspeakLanguage(language.tag, _pronounce_in_english)


def _make_english(*, british: bool, dictionaries: bool) -> Pronouncer:
    from app.text.english.g2p import EnglishG2P
    from app.text.english.other_scripts import pronounce_other_script

    native = _native_pronouncer if dictionaries else None
    return EnglishG2P(british=british, other_script=partial(pronounce_other_script, native=native))


def _pronounce_in_english(piece: Piece) -> None:
    """Fill in the phonemes of one word as American English says it."""
    _american().pronounce([piece])


@lru_cache(maxsize=1)
def _american() -> Pronouncer:
    # Without dictionaries: Japanese and Chinese fall back to this one and must not be asked again.
    return _make_english(british=False, dictionaries=False)


@lru_cache(maxsize=2)
def _native_pronouncer(tag: str) -> Pronouncer | None:
    """Return Japanese ("ja") or Chinese ("zh") by its dictionary, or None if its extra is not installed."""
    try:
        return make_pronouncer(find_language(tag))
    except ServiceError as error:
        _LOG.debug("espeak-ng reads %s inside English: %s", tag, error)
        return None
