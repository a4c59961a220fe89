"""Readings of shortened words: titles, streets, Latin, initials, Roman numerals."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import numbers, tables, units
from app.text.english.normalizer_base import Speaker
from app.text.pieces import word
from app.text.word_sets import word_set

_NUMBER_AFTER: Final = re.compile(r"\s*[#($£€]?\d|\s+(?:-\d|(?:[IVXLC]{2,}|[VX])\b|[A-Z]{1,3}-?\d)")
_VERSE_AFTER: Final = re.compile(r"\s\d{1,3}:\d")
_DIGIT_AFTER: Final = re.compile(r"\s+\d")
_CAPITAL_AFTER: Final = re.compile(r"\s+[A-Z]")
_NAME_BEFORE: Final = re.compile(r"(?:\b([A-Z][\w']*)|(\d(?:st|nd|rd|th)))\s+$")
_NO_NAME: Final = word_set(
    "The A An In At On To Of By For From With And Or But Is Was Call Ask See Visit Dear Hi Hello"
)
_STREET_NAMES: Final = word_set("Wall Main Fleet Bourbon High Market Oxford Regent Bond Broad State")
_HOUSE: Final = re.compile(r"\d[A-Za-z]?\s+(?:[A-Z][\w.']*\s+){1,3}$")
_PLACE_AFTER: Final = re.compile(
    r"\s+(?:Apt|Apartment|Suite|Ste|Unit|Floor|Fl|Room|Rm|North|South|East|West|[NS][EW]?|[EW]|Box|No)\b"
)
_STREET_AFTER: Final = re.compile(
    r"\s+(?:(?:[A-Z][a-z']+|\d+(?:st|nd|rd|th))\s+){1,3}(?:Street|Avenue|Road|Lane|Drive|Boulevard|"
    rf"{'|'.join(name.capitalize() for name in tables.STREETS)})\b"
)
_TOWN_BEFORE: Final = re.compile(r"(?<![\w.])(?!(?:Yes|No|Well|Hello|Hi|Oh|Dear|Sorry|Thanks)\b)[A-Z][a-z]+,\s$")
_NO_STATES: Final = word_set("MD MS OK HI")  # a title or a word as often as a state
_ROAD_BEFORE: Final = re.compile(
    r"(?:\b(?:(?:I|US|SR|Hwy|Highway|Route|Rte|Interstate|[A-Z]{1,2})[- ]?\d{1,3}[A-Z]?"
    r"|[A-Z\d]\w+ (?:St|Ave|Rd|Blvd|Dr|Ln|Pl|Ct|Sq|Pkwy|Way|Street|Avenue|Road|Boulevard|Drive|Lane|Place)\.?,?"
    r"|[Hh]ead|[Hh]eading|[Ff]acing|[Cc]ontinue|[Ww]inds?(?: from the)?)\s|[°′″]\s?)$"
)
_NUMBER_BEFORE: Final = re.compile(r"\d-$")
_LIVED: Final = {"b": "born", "d": "died"}
_YEAR_AFTER: Final = re.compile(r"\s[12]\d{3}(?!\d)")
_AFTER_ORDINAL: Final = {"fl": "floor", "ed": "edition"}
_DISTANCE_BEFORE: Final = re.compile(r"\d\s?(?:km|mi|m|ft|miles?|feet|yards|kilometers|meters|blocks)\.?\s$")
_FROM_AFTER: Final = re.compile(r"\s(?:of|on|along|from)\b")
_OF_PLACE: Final = re.compile(r"\sof\s(?:the|town|here|[A-Z][a-z])")
_LETTER_BEFORE: Final = re.compile(r"(?:(?:^|\b(?:[Tt]he|[Aa]n?|[Ll]etter|[A-Z]))\s?|[,(/]\s?)$")
_SPEED_AFTER: Final = re.compile(r"(?: at)?\s\d{1,3}(?:\s?[-–]\s?\d{1,3})?\s?(?:mph|km/h|kph|kts?|knots|m/s)\b")
_TELEPHONE_AFTER: Final = re.compile(r"[:.]?\s*[+(\d]")
_GREEK_LETTER: Final = re.compile(r"[\u0370-\u03ff]")


class Abbreviations(Speaker):
    """The methods for the kinds of `app.text.english.patterns` that are words and what is short for words."""

    def _roman(self, text: str, start: int, end: int) -> None:
        value = numbers.roman(text)
        before = self._previous_word(start)
        named = before[:1].isupper()
        if value is None:
            self._word(text, start, end)
        elif self._next_word(end) in ("century", "centuries"):
            self._say(numbers.ordinal(str(value), british=self._british), start, end)
        elif value >= 1000 and len(text) > 3:
            self._say(numbers.year(str(value), british=self._british), start, end)
        elif before.lower() in tables.NUMBERED_THINGS and (named or len(text) > 1):
            self._say(self._cardinal(str(value)), start, end)
        elif named and before.lower() in tables.REGNAL_NAMES and value < 40:
            following = self._next_word(end)
            if len(text) > 1 or not following or following in tables.AFTER_REGNAL or self._text[end : end + 1] in ".,;":
                self._say(["the", *numbers.ordinal(str(value), british=self._british)], start, end)
            else:
                self._say([text], start, end, tag="PRP" if text == "I" else None)
        elif len(text) > 1 and "L" not in text and (named or len(text) > 2):
            self._say(self._cardinal(str(value)), start, end)
        else:
            self._say([text], start, end, tag="PRP" if text == "I" else None)

    def _plain(self, text: str, start: int, end: int) -> None:
        self._word(text, start, end)

    def _word(self, text: str, start: int, end: int) -> None:
        lower = text.lower()
        if lower in tables.WORDS and text in (lower, lower.capitalize(), "PhD", "PhDs", "WWI", "WWII", "YoY", "QoQ"):
            self._say(tables.WORDS[lower], start, end)
        elif (
            text in tables.BARE_TITLES
            and _CAPITAL_AFTER.match(self._text, end)
            and not self._is_street(lower, start, end)
        ):
            self._say(tables.BARE_TITLES[text], start, end)
        elif lower in tables.STREETS and text == lower.capitalize() and self._is_street(lower, start, end):
            self._say(tables.STREETS[lower], start, end)
        elif text in tables.STATES and self._is_state(text, start, end):
            self._say(tables.STATES[text], start, end)
        elif text == "St" and _CAPITAL_AFTER.match(self._text, end):
            self._say("saint", start, end)
        elif lower in tables.BARE_BEFORE_NUMBER and _DIGIT_AFTER.match(self._text, end):
            self._say(tables.BEFORE_NUMBER[lower], start, end)
        elif len(lower) > 1 and text in units.UNITS and text != "in" and _NUMBER_BEFORE.search(self._before(start)):
            self._say(self._accented(units.UNITS[text][0]), start, end)
        elif lower == "tel" and _TELEPHONE_AFTER.match(self._text, end):
            self._say("telephone", start, end)
        elif start > 0 and lower in ("s", "t", "d", "ll", "re", "ve", "m") and self._text[start - 1] == "'":
            glued = start < 2 or not self._text[start - 2].isspace()
            self._out.append(word("'" + text, self._offset + start - 1, self._offset + end, glued=glued))
        else:
            self._out.append(word(self._named(text, lower, start, end), self._offset + start, self._offset + end))

    def _named(self, text: str, lower: str, start: int, end: int) -> str:
        """A word under another name: a Greek letter, a small Roman numeral."""
        if lower in tables.GREEK:
            beside = (self._previous_word(start), self._next_word(end))
            if not any(len(other) > 1 and _GREEK_LETTER.match(other) for other in beside):
                return tables.GREEK[lower]
        elif (
            len(lower) <= 4 and not lower.strip("ivxl") and self._previous_word(start).lower() in tables.NUMBERED_THINGS
        ):
            value = numbers.roman(text.upper())
            if value is not None and lower != "i":
                return self._cardinal(str(value))[0] if value < 21 else text
        return text

    def _initials(self, text: str, start: int, end: int) -> None:
        lower = re.sub(r"\s", "", text.lower())
        known = tables.LATIN.get(lower) or tables.LATIN.get(lower + ".")
        letters = [letter.upper() for letter in text if letter.isalpha()]
        self._say(known or letters, start, end)
        if text.endswith("."):
            self._full_stop_if_last(end)

    def _latin(self, text: str, start: int, end: int) -> None:
        self._say(tables.LATIN[text], start, end)
        if text.endswith("."):
            self._full_stop_if_last(end)

    def _abbreviation(self, text: str, start: int, end: int) -> None:
        name = text[:-1]
        spoken = self._long_form(name, start, end)
        if spoken:
            self._say(spoken, start, end, tag="LETTERS" if spoken == name and len(name) == 1 else None)
            self._full_stop_if_last(end)
            return
        # An ordinary word and its full stop.
        self._end = end - 1
        if name in ("I", "V", "X") or (len(name) > 1 and not name.strip("IVXLM")):
            self._roman(name, start, end - 1)
        else:
            self._word(name, start, end - 1)

    def _long_form(self, name: str, start: int, end: int) -> str:
        """Return the words that an abbreviation is short for; nothing if it is none. Initials stay as they are."""
        lower = name.lower()
        capital_follows = _CAPITAL_AFTER.match(self._text, end) is not None
        if lower in tables.BIBLE_BOOKS and _VERSE_AFTER.match(self._text, end):
            return tables.BIBLE_BOOKS[lower]
        if len(name) > 1 and name in units.UNITS and _NUMBER_BEFORE.search(self._before(start)):
            return self._accented(units.UNITS[name][0])
        if name in _LIVED and _YEAR_AFTER.match(self._text, end):
            return _LIVED[name]
        if lower in _AFTER_ORDINAL and re.search(r"\d(?:st|nd|rd|th)\s$", self._before(start)):
            return _AFTER_ORDINAL[lower]
        if lower in tables.BEFORE_NUMBER and _NUMBER_AFTER.match(self._text, end):
            return tables.BEFORE_NUMBER[lower]
        if lower in tables.STREETS and self._is_street(lower, start, end):
            return tables.STREETS[lower]
        if name == "St":
            return "saint" if capital_follows else "street"
        if name == "Dr":
            return "doctor"
        if name == "Ft" and capital_follows:
            return "fort"
        if name == "Co" and self._next_word(end) in tables.COUNTIES:
            return "county"
        if len(name) == 1 and name.isupper():
            if name in tables.DIRECTIONS and _STREET_AFTER.match(self._after(end)):
                return tables.DIRECTIONS[name]
            named = name != "I" or not self._out or self._out[-1].text[:1].isupper()
            return name if capital_follows and named else ""
        inside = lower not in tables.ONLY_CAPITALIZED | tables.ONLY_INSIDE or self._is_not_end(end)
        if lower in tables.ABBREVIATIONS and inside and (lower not in tables.ONLY_CAPITALIZED or name[0].isupper()):
            return tables.ABBREVIATIONS[lower]
        return ""

    def _is_street(self, name: str, start: int, end: int) -> bool:
        """Whether "St", "Dr", "Ave" ends the name of a street, as in "Baker St, London"."""
        before = _NAME_BEFORE.search(self._before(start))
        if name not in tables.STREETS or before is None or before.group(1) in _NO_NAME:
            return False
        if (
            before.group(1) in _STREET_NAMES
            or name not in ("st", "dr", "pl", "ct")
            or before.group(2)
            or not _CAPITAL_AFTER.match(self._text, end)
        ):
            return True
        return _PLACE_AFTER.match(self._text, end) is not None or _HOUSE.search(self._before(start)) is not None

    def _is_state(self, text: str, start: int, end: int) -> bool:
        """Whether "TX" stands after a town, as in "Austin, TX"; "Jane Doe, MD" is a title."""
        town = _TOWN_BEFORE.search(self._before(start))
        return text not in _NO_STATES and town is not None and not _CAPITAL_AFTER.match(self._text, end)

    def _compass(self, text: str, start: int, end: int) -> None:
        """N, SW: a direction beside a road, a distance, a degree or a wind; else letters."""
        before = self._before(start)
        if (
            _ROAD_BEFORE.search(before)
            or _STREET_AFTER.match(self._after(end))
            or _SPEED_AFTER.match(self._text, end)
            or (_OF_PLACE.match(self._text, end) and not _LETTER_BEFORE.search(before))
            or (_DISTANCE_BEFORE.search(before) and _FROM_AFTER.match(self._text, end))
        ):
            self._say(tables.DIRECTIONS[text], start, end)
        elif self._text[end : end + 1] == ".":
            self._end = end + 1
            self._abbreviation(text + ".", start, end + 1)
        else:
            self._word(text, start, end)

    def _is_not_end(self, end: int) -> bool:
        return bool(self._text[end:].strip().strip("\"')]}"))
