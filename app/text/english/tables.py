"""Words of English normalization and of its tagger, from the table `words.tsv` beside this module.

The columns of `set` are a name and words between spaces; those of `month` and `day` the names of one, the full one
first. Other tables have two columns: what is written, such as an abbreviation, and its words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from app.text.word_sets import read_rows, word_set

ROWS: Final = read_rows(Path(__file__).with_name("words.tsv"))
SETS: Final = {name: word_set(words) for name, words in ROWS["set"]}

ABBREVIATIONS: Final = dict(ROWS["abbreviation"])
ONLY_CAPITALIZED: Final = SETS["only_capitalized"]
ONLY_INSIDE: Final = SETS["only_inside"]
BEFORE_NUMBER: Final = dict(ROWS["before_number"])
BARE_BEFORE_NUMBER: Final = SETS["bare_before_number"]
LATIN: Final = dict(ROWS["latin"])
WORDS: Final = dict(ROWS["word"])
CHAT: Final = dict(ROWS["chat"])
BARE_TITLES: Final = dict(ROWS["bare_title"])
STREETS: Final = dict(ROWS["street"])
DIRECTIONS: Final = dict(ROWS["direction"])
COUNTIES: Final = SETS["counties"]
STATES: Final = dict(ROWS["state"])
MONTHS: Final = {name: number for number, (names,) in enumerate(ROWS["month"], 1) for name in names.split()}
MONTH_NAMES: Final = tuple(names.split()[0] for (names,) in ROWS["month"])
DAYS: Final = {name: names.split()[0] for (names,) in ROWS["day"] for name in names.split()}
AMBIGUOUS_CALENDAR: Final = SETS["ambiguous_calendar"]
SPOKEN_SYMBOLS: Final = dict(ROWS["symbol"])
OPERATORS: Final = dict(ROWS["operator"])
ADDRESS_SIGNS: Final = dict(ROWS["address_sign"])
SPOKEN_DOMAINS: Final = SETS["spoken_domains"]
SPELLED_NAMES: Final = SETS["spelled_names"]
ONLY_BETWEEN_NUMBERS: Final = dict(ROWS["between_numbers"])
GREEK: Final = dict(ROWS["greek"])
VULGAR_FRACTIONS: Final = {sign: (top, bottom) for sign, top, bottom in ROWS["fraction"]}
NUMBERED_THINGS: Final = SETS["numbered_things"]
REGNAL_NAMES: Final = SETS["regnal_names"]
AFTER_REGNAL: Final = SETS["after_regnal"]
PAIRED: Final = SETS["paired"]
SPELLED: Final = SETS["spelled"]
IDENTIFIED: Final = SETS["identified"]
TELEPHONES: Final = SETS["telephones"]
LETTERED: Final = SETS["lettered"]
VERSIONED: Final = SETS["versioned"]
EMERGENCY: Final = SETS["emergency"]
BIBLE_BOOKS: Final = dict(ROWS["bible_book"])
VERSED: Final = SETS["bible"] | frozenset(BIBLE_BOOKS)
NO_NOUN: Final = SETS["no_noun"]

# Names of measures: one, many; of currencies also a hundredth and hundredths, "" if there are none.
CURRENCIES: Final = {sign: (one, many, *(cents or ("", ""))) for sign, one, many, *cents in ROWS["currency"]}
SCALES: Final = dict(ROWS["scale"])
UNITS: Final = {unit: (one, many) for unit, one, many in ROWS["unit"]}
ATTACHED: Final = {unit: (one, many) for unit, one, many in ROWS["attached"]}

# Classes of words for the rules of the tagger.
POSSESSIVES: Final = SETS["possessives"]
DETERMINERS: Final = SETS["determiners"] | POSSESSIVES
SUBJECTS: Final = SETS["subjects"]
THIRD_PERSON: Final = SETS["third_person"]
OBJECTS: Final = SETS["objects"]
MODALS: Final = SETS["modals"]
BE: Final = SETS["be"]
HAVE: Final = SETS["have"]
PREPOSITIONS: Final = SETS["prepositions"]
CONJUNCTIONS: Final = SETS["conjunctions"]
ADVERBS: Final = SETS["adverbs"]
DEGREE: Final = SETS["degree"]
FUNCTION: Final = (
    DETERMINERS | SUBJECTS | OBJECTS | MODALS | BE | HAVE | PREPOSITIONS | CONJUNCTIONS | ADVERBS | DEGREE
) | SETS["function"]
VERBS_OF_SAYING: Final = SETS["verbs_of_saying"]
WINDING: Final = SETS["winding"]
PAST_SIGNS: Final = SETS["past_signs"]
MINUTE_NOUNS: Final = SETS["minute_nouns"]
EMPHASIZED: Final = SETS["emphasized"]
HABITUAL_VERBS: Final = SETS["habitual_verbs"]
ADJECTIVES: Final = SETS["adjectives"]
QUESTION_STARTS: Final = SETS["question_starts"] | {""}
DOVE_MODIFIERS: Final = SETS["dove_modifiers"]
PLURAL_MODIFIERS: Final = SETS["plural_modifiers"]
CLAUSE_STARTS: Final = CONJUNCTIONS | DETERMINERS | SETS["clause_starts"] | {""}
BROADCAST_VERBS: Final = SETS["broadcast_verbs"]
BARE_INFINITIVE_VERBS: Final = SETS["bare_infinitive_verbs"]
