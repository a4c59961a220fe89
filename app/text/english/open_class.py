"""Tag rules for nouns, verbs and adjectives: many words are more than one of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from app.text.english import word_classes as classes
from app.text.english.word_context import WordContext

_NUMBER: Final = re.compile(r"\d+|one|two|three|four|five|ten")
# Determiners that can also be pronouns, before a verb with an object.
_PRONOUNS: Final = ("that", "which", "this", "these", "those", "what", "all", "her")
_QUESTION_AUXILIARIES: Final = ("do", "does", "did", "will", "can")


class _Rule(NamedTuple):
    """Tags of a word where `applies`: `plain`, or `inflected` for a word in -s."""

    applies: Callable[[WordContext], bool]
    plain: str
    inflected: str


def _is_after_singular(c: WordContext) -> bool:
    """Return whether the word is the verb of a singular noun and has an object: "The band records it"."""
    return c.is_inflected and not _ends_in_s(c.previous) and (c.starts_object or c.next == "to")


def _is_after_plural(c: WordContext) -> bool:
    return not c.is_inflected and _ends_in_s(c.previous) and (c.starts_object or c.next == "to")


def _is_verb_of_plural(c: WordContext) -> bool:
    """Return whether the word is the verb of a plural noun: "Prices increase", "The reports conflict with it"."""
    if c.is_inflected or not c.follows_plural:
        return False
    subject = not c.at(-2) or (c.index == 2 and c.at(-2) in ("the", "these", "those", "many", "most"))
    content = c.next not in classes.FUNCTION and subject
    return c.ends_clause or content or c.next in ("in", "on", "at", "from")


def _ends_in_s(word: str) -> bool:
    return word.endswith("s") and not word.endswith("ss")


_RULES: Final = (
    _Rule(lambda c: c.previous in _PRONOUNS and c.starts_object, "VBP", "VBZ"),
    _Rule(lambda c: c.previous in classes.DETERMINERS and not c.is_inflected and c.is_modifier, "JJ", "JJ"),
    _Rule(lambda c: c.previous in classes.DETERMINERS, "NN", "NNS"),
    _Rule(lambda c: c.previous_verbal == "to", "VB", "NNS"),
    _Rule(lambda c: not c.is_inflected and c.starts_object and c.auxiliary in _QUESTION_AUXILIARIES, "VB", "VB"),
    _Rule(
        lambda c: c.previous_verbal in classes.MODALS or c.previous_verbal in classes.BARE_INFINITIVE_VERBS, "VB", "NNS"
    ),
    _Rule(lambda c: c.previous_verbal in classes.SUBJECTS, "VBP", "VBZ"),
    _Rule(lambda c: c.previous_verbal in classes.BE or c.previous in classes.DEGREE, "JJ", "NNS"),
    _Rule(lambda c: c.previous in classes.PREPOSITIONS or c.previous in classes.HAVE, "NN", "NNS"),
    _Rule(lambda c: _NUMBER.fullmatch(c.previous) is not None, "NN", "NNS"),
    _Rule(lambda c: c.starts_clause and c.starts_object, "VB", "VBZ"),
    _Rule(lambda c: c.starts_clause and c.lower == "bow" and c.next in ("to", "down", "before"), "VB", "VB"),
    _Rule(lambda c: c.starts_clause and c.is_modifier, "JJ", "JJ"),
    _Rule(lambda c: c.starts_clause, "NN", "NNS"),
    _Rule(_is_after_singular, "VBZ", "VBZ"),
    _Rule(_is_after_plural, "VBP", "VBP"),
    _Rule(_is_verb_of_plural, "VBP", "VBP"),
    _Rule(lambda c: c.previous.endswith("ly") and c.at(-2) in classes.DETERMINERS, "NN", "NNS"),  # "an early estimate"
    _Rule(lambda c: c.previous.endswith("ly") or c.previous in ("who", "that", "which"), "VBP", "VBZ"),
    _Rule(lambda c: True, "NN", "NNS"),
)
"""The first rule that applies gives the tag."""


def tag_open_class(c: WordContext) -> str:
    """Return the Penn Treebank tag of a noun, verb or adjective."""
    rule = next(rule for rule in _RULES if rule.applies(c))
    return rule.inflected if c.is_inflected else rule.plain
