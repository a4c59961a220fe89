"""Tag rules: function words, words that sound by their part of speech, and nouns, verbs and adjectives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from app.text.english import tables
from app.text.english.word_context import WordContext
from app.text.word_sets import word_set

_NUMBER: Final = re.compile(r"\d+|one|two|three|four|five|ten")
# Determiners that can also be pronouns, before a verb with an object.
_PRONOUNS: Final = ("that", "which", "this", "these", "those", "what", "all", "her")
_QUESTION_AUXILIARIES: Final = ("do", "does", "did", "will", "can")
_BEFORE_DETERMINER: Final = tables.PREPOSITIONS | tables.BE | tables.CONJUNCTIONS | tables.MODALS | {""}
_AFTER_LIVE: Final = tables.PREPOSITIONS | word_set("here there together alone long well forever and")


def tag_a(c: WordContext) -> str:
    """Tag "a": the article, or the letter."""
    if c.word == "a":
        return "DT" if c.next else "NN"
    if not c.next:
        return "NN"
    return "DT" if c.index == 0 or not c.previous_as_written or c.shouting else "NN"


def tag_capitals(c: WordContext) -> str:
    """Tag a word in capitals: an acronym, a name, or an emphasized word."""
    word = c.word
    if word in tables.EMPHASIZED:
        return tag_open_class(c)
    if word in ("IT", "WHO", "US", "ALL", "AM", "ARE"):
        article = c.previous in ("the", "our", "an", "your", "in", "of", "from", "by", "to", "for")
        noun = c.next in ("department", "support", "staff", "services", "team", "systems", "dollars")
        return "NNP" if article or noun or (word in ("US", "IT", "WHO") and not c.next) else "PRP"
    return "NN"


def tag_that(c: WordContext) -> str:
    """Tag "that": conjunction, determiner or relative pronoun."""
    before, after = c.previous, c.next
    if not after:
        return "DT"
    if after in tables.SUBJECTS or after in tables.DETERMINERS or after in ("there", "if", "when"):
        return "IN"
    if before in _BEFORE_DETERMINER:
        return "DT"
    if before in tables.VERBS_OF_SAYING:
        return "IN"
    if after in tables.BE or after in tables.HAVE or after in tables.MODALS or after.endswith("ed"):
        return "WDT"
    if after in tables.ADVERBS or (after.endswith("ly") and len(after) > 4):
        return "WDT"
    plural = before.endswith("s") and not before.endswith("ss") and c.at(-2) not in tables.THIRD_PERSON
    # "like that book", "after that day": a demonstrative, unless a verb follows ("the dog that barks").
    return "WDT" if plural or (after.endswith("s") and not after.endswith("ss")) else "DT"


def tag_used(c: WordContext) -> str:
    """Tag "used": a habit (VBD, JJ), or a form of "use"."""
    before = c.previous_verbal
    if c.next != "to":
        return "VBN" if before in tables.BE | tables.HAVE else "VBD"
    after = c.at(2)
    if before in tables.BE:
        # "is used to make it" is a passive; "is used to it", "is used to working" is a habit.
        habit = not after or after in tables.FUNCTION - {"be", "have", "do"} or after.endswith("ing")
        return "JJ" if habit else "VBN"
    if before in tables.SUBJECTS or before in ("there", "that", "people", "everyone", "everybody", "things"):
        return "VBD"
    # "My father used to say" is a habit; "a tool used to cut" is a short relative clause.
    habit = bool(before) and before not in tables.FUNCTION and after in tables.HABITUAL_VERBS
    return "VBD" if habit else "VBN"


def tag_read(c: WordContext) -> str:
    """Tag "read": VBD, VBN and JJ sound like "red"."""
    before = c.previous_verbal
    if c.next == "only":
        return "VB"
    asked = c.auxiliary
    if asked and before != "to":
        return "VBN" if asked in tables.HAVE else "VB"
    if before in tables.HAVE or before in tables.BE:
        return "VBN"
    if c.next in ("", "by", "and") and before == "as" and c.at(-2) in ("mark", "marked", "marks"):
        return "VBN"
    if before in ("well", "widely", "best"):
        return "JJ"
    if before == "to" or before in tables.MODALS or (c.previous in tables.DETERMINERS):
        return "VB"
    past = c.is_past
    if before in tables.THIRD_PERSON or (before == "who" and (past or c.index == 1)):
        return "VBD"
    if before in tables.SUBJECTS:
        return "VBD" if past else "VB"
    name = c.previous_as_written[:1].isupper() and before not in tables.FUNCTION
    if name and before:
        return "VBD"
    if before and past and before not in tables.FUNCTION:
        return "VBD"
    if before == "and" and past:
        return "VBD"
    return "VB"


def tag_close(c: WordContext) -> str:
    """Tag "close": a verb, or near."""
    before, after = c.previous_verbal, c.next
    if c.follows_plural and after in ("early", "late", "soon", "at", "on", "for") and c.at(2) != "hand":
        return "VBP"
    if before == "to" or before in tables.MODALS:
        return "JJ" if after in ("to", "by", "friend", "friends") and before in tables.BE else "VB"
    if before in tables.BE or before in tables.DEGREE or after in ("to", "by", "enough", "together", "behind", "at"):
        return "RB"
    if c.previous in tables.DETERMINERS:
        return "NN" if not after or after in tables.FUNCTION else "JJ"
    if c.starts_object or before in tables.SUBJECTS:
        return "VB"
    if not c.previous:
        return "VB" if after not in tables.FUNCTION or after in tables.DETERMINERS else "RB"
    return "VBP" if before.endswith("s") and not after else "RB"


def tag_dove(c: WordContext) -> str:
    """Tag "dove": the bird, or the past of "dive"."""
    before, after = c.previous, c.next
    if before in tables.SUBJECTS:
        return "VBD"
    moving = after in ("into", "under", "down", "off", "headfirst", "deep", "for", "underwater")
    return "VBD" if moving and before and before not in tables.FUNCTION | tables.DOVE_MODIFIERS else "NN"


def tag_wind(c: WordContext) -> str:
    """Tag "wind" and "winds": the air, or to turn."""
    before, after = c.previous, c.next
    if c.lower == "winds":
        return "VBZ" if before in tables.WINDING and after != "of" else "NNS"
    turning = after in ("up", "down", "back", "around", "through", "along", "its", "round", "past")
    plural = before.endswith("s") and before not in tables.FUNCTION
    return "VB" if turning and (not before or plural or before in tables.CONJUNCTIONS) else tag_open_class(c)


def tag_wound(c: WordContext) -> str:
    """Tag "wound": the injury, or the past of "wind"."""
    before, after = c.previous_verbal, c.next
    if before in tables.SUBJECTS:
        return "VBD"
    turning = after in ("up", "around", "down", "through", "its", "round", "along", "back")
    if turning and before not in tables.DETERMINERS:
        return "VBD"
    return "NN"


def tag_live(c: WordContext) -> str:
    """Tag "live" and "lives": the verb, the adjective, or the plural of "life"."""
    before, after = c.previous_verbal, c.next
    if c.lower == "lives":
        if before in tables.SUBJECTS or after in ("in", "on", "at", "here", "there", "with", "alone", "near"):
            return "NNS" if c.previous in tables.POSSESSIVES else "VBZ"
        return "NNS"
    if before in tables.BE or before in tables.DETERMINERS or before in tables.BROADCAST_VERBS:
        return "JJ"
    if before in tables.SUBJECTS and c.at(-2) in ("is", "are", "was", "were", "am"):
        return "JJ"  # "Is it live?"
    if before == "to" or before in tables.MODALS or before in tables.SUBJECTS or before == "long":
        return "VB"
    if not c.previous and after == "from":
        return "JJ"
    if after in _AFTER_LIVE:
        return "VBP"
    if before.endswith("s") and before not in tables.FUNCTION:
        return "VBP"
    return "VB" if not c.previous and after in tables.FUNCTION else "JJ"


def tag_minute(c: WordContext) -> str:
    """Tag "minute": the time, or tiny."""
    return "JJ" if c.next in tables.MINUTE_NOUNS and c.previous not in ("last", "first", "final") else "NN"


FUNCTION_WORDS: Final[dict[str, Callable[[WordContext], str]]] = {
    "a": tag_a,
    "an": lambda c: "DT",
    "the": lambda c: "DT",
    "to": lambda c: "TO",
    "that": tag_that,
    "used": tag_used,
    "in": lambda c: "RP" if c.next in ("", "to") else "IN",
}
"""Rules of words that are never acronyms."""

HOMOGRAPHS: Final[dict[str, Callable[[WordContext], str]]] = {
    "read": tag_read,
    "reread": tag_read,
    "close": tag_close,
    "dove": tag_dove,
    "wind": tag_wind,
    "winds": tag_wind,
    "wound": tag_wound,
    "minute": tag_minute,
    "bass": lambda c: "NN",
    "live": tag_live,
    "lives": tag_live,
}
"""Rules of words whose sound depends on their part of speech."""


class _Rule(NamedTuple):
    """Tags of a word where `applies`: `plain`, or `inflected` for a word in -s."""

    applies: Callable[[WordContext], bool]
    plain: str
    inflected: str


def _is_verb_of_plural(c: WordContext) -> bool:
    """Return whether the word is the verb of a plural noun: "Prices increase", "The reports conflict with it"."""
    if c.is_inflected or not c.follows_plural:
        return False
    subject = not c.at(-2) or (c.index == 2 and c.at(-2) in ("the", "these", "those", "many", "most"))
    content = c.next not in tables.FUNCTION and subject
    return c.ends_clause or content or c.next in ("in", "on", "at", "from")


def _ends_in_s(word: str) -> bool:
    return word.endswith("s") and not word.endswith("ss")


_RULES: Final = (
    _Rule(lambda c: c.previous in _PRONOUNS and c.starts_object, "VBP", "VBZ"),
    _Rule(lambda c: c.previous in tables.DETERMINERS and not c.is_inflected and c.is_modifier, "JJ", "JJ"),
    _Rule(lambda c: c.previous in tables.DETERMINERS, "NN", "NNS"),
    _Rule(lambda c: c.previous_verbal == "to", "VB", "NNS"),
    _Rule(lambda c: not c.is_inflected and c.starts_object and c.auxiliary in _QUESTION_AUXILIARIES, "VB", "VB"),
    _Rule(
        lambda c: c.previous_verbal in tables.MODALS or c.previous_verbal in tables.BARE_INFINITIVE_VERBS, "VB", "NNS"
    ),
    _Rule(lambda c: c.previous_verbal in tables.SUBJECTS, "VBP", "VBZ"),
    _Rule(lambda c: c.previous_verbal in tables.BE or c.previous in tables.DEGREE, "JJ", "NNS"),
    _Rule(lambda c: c.previous in tables.PREPOSITIONS or c.previous in tables.HAVE, "NN", "NNS"),
    _Rule(lambda c: _NUMBER.fullmatch(c.previous) is not None, "NN", "NNS"),
    _Rule(lambda c: c.starts_clause and c.starts_object, "VB", "VBZ"),
    _Rule(lambda c: c.starts_clause and c.lower == "bow" and c.next in ("to", "down", "before"), "VB", "VB"),
    _Rule(lambda c: c.starts_clause and c.is_modifier, "JJ", "JJ"),
    _Rule(lambda c: c.starts_clause, "NN", "NNS"),
    # The verb of a singular or plural noun, with an object: "The band records it".
    _Rule(
        lambda c: c.is_inflected and not _ends_in_s(c.previous) and (c.starts_object or c.next == "to"), "VBZ", "VBZ"
    ),
    _Rule(
        lambda c: not c.is_inflected and _ends_in_s(c.previous) and (c.starts_object or c.next == "to"), "VBP", "VBP"
    ),
    _Rule(_is_verb_of_plural, "VBP", "VBP"),
    _Rule(lambda c: c.previous.endswith("ly") and c.at(-2) in tables.DETERMINERS, "NN", "NNS"),  # "an early estimate"
    _Rule(lambda c: c.previous.endswith("ly") or c.previous in ("who", "that", "which"), "VBP", "VBZ"),
    _Rule(lambda c: True, "NN", "NNS"),
)
"""The first rule that applies gives the tag."""


def tag_open_class(c: WordContext) -> str:
    """Return the Penn Treebank tag of a noun, verb or adjective."""
    rule = next(rule for rule in _RULES if rule.applies(c))
    return rule.inflected if c.is_inflected else rule.plain
