"""Words of English normalization and of its tagger, from the table `words.tsv` beside this module.

The columns of `set` are a name and words between spaces; those of `month` and `day` the names of one, the full one
first. Other tables have two columns: what is written, such as an abbreviation, and its words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from app.text.word_sets import read_rows, word_set

ROWS: Final = read_rows(Path(__file__).with_name("words.tsv"))
_SETS: Final = {name: word_set(words) for name, words in ROWS["set"]}


def _pairs(table: str) -> dict[str, str]:
    return {written: words for written, words in ROWS[table]}  # noqa: C416  (rows are lists)


ABBREVIATIONS: Final = _pairs("abbreviation")
ONLY_CAPITALIZED: Final = _SETS["only_capitalized"]
ONLY_INSIDE: Final = _SETS["only_inside"]
BEFORE_NUMBER: Final = _pairs("before_number")
BARE_BEFORE_NUMBER: Final = _SETS["bare_before_number"]
LATIN: Final = _pairs("latin")
WORDS: Final = _pairs("word")
CHAT: Final = _pairs("chat")
BARE_TITLES: Final = _pairs("bare_title")
STREETS: Final = _pairs("street")
DIRECTIONS: Final = _pairs("direction")
COUNTIES: Final = _SETS["counties"]
STATES: Final = _pairs("state")
MONTHS: Final = {name: number for number, (names,) in enumerate(ROWS["month"], 1) for name in names.split()}
MONTH_NAMES: Final = tuple(names.split()[0] for (names,) in ROWS["month"])
DAYS: Final = {name: names.split()[0] for (names,) in ROWS["day"] for name in names.split()}
AMBIGUOUS_CALENDAR: Final = _SETS["ambiguous_calendar"]
SPOKEN_SYMBOLS: Final = _pairs("symbol")
OPERATORS: Final = _pairs("operator")
ADDRESS_SIGNS: Final = _pairs("address_sign")
SPOKEN_DOMAINS: Final = _SETS["spoken_domains"]
SPELLED_NAMES: Final = _SETS["spelled_names"]
ONLY_BETWEEN_NUMBERS: Final = _pairs("between_numbers")
GREEK: Final = _pairs("greek")
VULGAR_FRACTIONS: Final = {sign: (top, bottom) for sign, top, bottom in ROWS["fraction"]}
NUMBERED_THINGS: Final = _SETS["numbered_things"]
REGNAL_NAMES: Final = _SETS["regnal_names"]
AFTER_REGNAL: Final = _SETS["after_regnal"]
PAIRED: Final = _SETS["paired"]
SPELLED: Final = _SETS["spelled"]
IDENTIFIED: Final = _SETS["identified"]
TELEPHONES: Final = _SETS["telephones"]
LETTERED: Final = _SETS["lettered"]
VERSIONED: Final = _SETS["versioned"]
EMERGENCY: Final = _SETS["emergency"]
BIBLE_BOOKS: Final = _pairs("bible_book")
VERSED: Final = _SETS["bible"] | frozenset(BIBLE_BOOKS)
NO_NOUN: Final = _SETS["no_noun"]

# Names of measures: one, many; of currencies also a hundredth and hundredths, "" if there are none.
CURRENCIES: Final = {sign: (one, many, *(cents or ("", ""))) for sign, one, many, *cents in ROWS["currency"]}
SCALES: Final = _pairs("scale")
UNITS: Final = {unit: (one, many) for unit, one, many in ROWS["unit"]}
ATTACHED: Final = {unit: (one, many) for unit, one, many in ROWS["attached"]}

# Classes of words for the rules of the tagger.
POSSESSIVES: Final = _SETS["possessives"]
DETERMINERS: Final = _SETS["determiners"] | POSSESSIVES
SUBJECTS: Final = _SETS["subjects"]
THIRD_PERSON: Final = _SETS["third_person"]
OBJECTS: Final = _SETS["objects"]
MODALS: Final = _SETS["modals"]
BE: Final = _SETS["be"]
HAVE: Final = _SETS["have"]
PREPOSITIONS: Final = _SETS["prepositions"]
CONJUNCTIONS: Final = _SETS["conjunctions"]
ADVERBS: Final = _SETS["adverbs"]
DEGREE: Final = _SETS["degree"]
FUNCTION: Final = (
    DETERMINERS | SUBJECTS | OBJECTS | MODALS | BE | HAVE | PREPOSITIONS | CONJUNCTIONS | ADVERBS | DEGREE
) | _SETS["function"]
VERBS_OF_SAYING: Final = _SETS["verbs_of_saying"]
WINDING: Final = _SETS["winding"]
PAST_SIGNS: Final = _SETS["past_signs"]
MINUTE_NOUNS: Final = _SETS["minute_nouns"]
EMPHASIZED: Final = _SETS["emphasized"]
HABITUAL_VERBS: Final = _SETS["habitual_verbs"]
ADJECTIVES: Final = _SETS["adjectives"]
QUESTION_STARTS: Final = _SETS["question_starts"] | {""}
DOVE_MODIFIERS: Final = _SETS["dove_modifiers"]
PLURAL_MODIFIERS: Final = _SETS["plural_modifiers"]
CLAUSE_STARTS: Final = CONJUNCTIONS | DETERMINERS | _SETS["clause_starts"] | {""}
BROADCAST_VERBS: Final = _SETS["broadcast_verbs"]
BARE_INFINITIVE_VERBS: Final = _SETS["bare_infinitive_verbs"]
