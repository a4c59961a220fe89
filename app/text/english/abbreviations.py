"""Readings of shortened words: titles, streets, Latin, initials, Roman numerals."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import dates, numbers, tables
from app.text.english.names import FORMULA
from app.text.english.normalize import NormalizerContext
from app.text.pieces import word
from app.text.word_sets import word_set
from app.text.written.numbers import roman

_NUMBER_AFTER: Final = re.compile(r"\s*[#($£€]?\d|\s+(?:-\d|(?:[IVXLC]{2,}|[VX])\b|[A-Z]{1,3}-?\d)")
_LETTERED: Final = word_set("bldg rm apt ste fig sec ext para art eq ex")  # "Bldg. C"
_CAPITAL_LETTER_AFTER: Final = re.compile(r"\s[A-HJ-Z](?![\w']|\.(?!$))")
_VERSE_AFTER: Final = re.compile(r"\s\d{1,3}:\d")
_DIGIT_AFTER: Final = re.compile(r"\s+#?\d")

_ELEMENT: Final = re.compile(r"Na|Mg|Al|Ca|Fe|Cu|Zn|Ag|Li|Ba|Cl|Br|Mn|Pb|Cr|Hg|Sn|Ni|Co|Ti|Si|Sr|Cd")
_ION_AFTER: Final = re.compile(r"[\u2080-\u2089]|[\u00b9\u00b2\u00b3\u2074-\u2079]?[+−](?!\w)")
_CUPS_BEFORE: Final = re.compile(r"(?:(?P<one>(?<![\d.,])1|\d/\d|[½⅓⅔¼¾⅛])|\d)\s$")
_KEYS: Final = re.compile(r"(Ctrl|Cmd|Alt|Shift|Opt|Fn)-([A-Za-z])")  # "Ctrl-Z"
_GREEK_PREFIX: Final = re.compile(
    rf"([{''.join(tables.GREEK)}{''.join(tables.GREEK).upper()}])([A-Za-z]{{1,2}})"
)  # "Δt"
_SMALL_FIRST: Final = re.compile(r"[a-hj-z][A-Z]{1,3}")  # pH, mRNA
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
_NO_STATES: Final = word_set("MD MS OK HI")  # often a title or a word
_ROAD_BEFORE: Final = re.compile(
    r"(?:\b(?:(?:I|US|SR|Hwy|Highway|Route|Rte|Interstate|[A-Z]{1,2})[- ]?\d{1,3}[A-Z]?"
    r"|[A-Z\d]\w* (?:St|Ave|Rd|Blvd|Dr|Ln|Pl|Ct|Sq|Pkwy|Way|Street|Avenue|Road|Boulevard|Drive|Lane|Place)\.?,?"
    r"|[Hh]ead|[Hh]eading|[Ff]acing|[Cc]ontinue|[Ww]inds?(?: from the)?)\s|[°′″]\s?)$"
)
_NUMBER_BEFORE: Final = re.compile(r"\d-$")
_SCALE_BEFORE: Final = re.compile(r"\b(?:hundred|thousand|million|billion|trillion)\s$")
_LIVED: Final = {"b": "born", "d": "died"}
_YEAR_AFTER: Final = re.compile(r"\s[12]\d{3}(?!\d)")
_ORDINAL_BEFORE: Final = re.compile(r"\d(?:st|nd|rd|th)\s$")
_AFTER_ORDINAL: Final = {"fl": "floor", "ed": "edition", "min": "minute"}
_DISTANCE_BEFORE: Final = re.compile(r"\d\s?(?:km|mi|m|ft|miles?|feet|yards|kilometers|meters|blocks)\.?\s$")
_FROM_AFTER: Final = re.compile(r"\s(?:of|on|along|from)\b")
_OF_PLACE: Final = re.compile(r"\sof\s(?:the|town|here|[A-Z][a-z])")
_LETTER_BEFORE: Final = re.compile(r"(?:(?:^|\b(?:[Tt]he|[Aa]n?|[Ll]etter|[A-Z]))\s?|[,(/]\s?)$")
_SPEED_AFTER: Final = re.compile(r"(?: at)?\s\d{1,3}(?:\s?[-–]\s?\d{1,3})?\s?(?:mph|km/h|kph|kts?|knots|m/s)\b")
_TELEPHONE_AFTER: Final = re.compile(r"[:.]?\s*[+(\d]")
_GREEK_LETTER: Final = re.compile(r"[\u0370-\u03ff]")


def read_roman(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a Roman numeral: `Louis XIV`."""
    value = roman(text)
    before = context.previous_word(start)
    named = before[:1].isupper()
    if value is None:
        read_word(context, text, start, end)
    elif context.next_word(end) in ("century", "centuries"):
        context.say(numbers.ordinal(str(value), british=context.british), start, end)
    elif value >= 1000 and len(text) > 3:
        context.say(numbers.year(str(value), british=context.british), start, end)
    elif before.lower() in tables.NUMBERED_THINGS and (named or len(text) > 1):
        context.say(context.cardinal(str(value)), start, end)
    elif named and before.lower() in tables.REGNAL_NAMES and value < 40:
        following = context.next_word(end)
        if (
            len(text) > 1
            or not following
            or following in tables.AFTER_REGNAL
            or following.endswith("ed")
            or context.text[end : end + 1] in ".,;"
        ):
            context.say(["the", *numbers.ordinal(str(value), british=context.british)], start, end)
        else:
            context.say([text], start, end, tag="PRP" if text == "I" else None)
    elif len(text) > 1 and "L" not in text and (named or len(text) > 2):
        context.say(context.cardinal(str(value)), start, end)
    else:
        context.say([text], start, end, tag="PRP" if text == "I" else None)


def read_word(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a word: an abbreviation without a full stop, a title, a street, a state, or itself."""
    lower = text.lower()
    if lower in tables.WORDS and text in (lower, lower.capitalize(), "PhD", "PhDs", "WWI", "WWII", "YoY", "QoQ"):
        context.say(tables.WORDS[lower], start, end)
    elif (
        text in tables.BARE_TITLES
        and _CAPITAL_AFTER.match(context.text, end)
        and not _is_street(context, lower, start, end)
    ):
        context.say(tables.BARE_TITLES[text], start, end)
    elif lower in tables.STREETS and text == lower.capitalize() and _is_street(context, lower, start, end):
        context.say(tables.STREETS[lower], start, end)
    elif text in tables.STATES and _is_state(context, text, start, end):
        context.say(tables.STATES[text], start, end)
    elif text == "St" and _CAPITAL_AFTER.match(context.text, end):
        context.say("saint", start, end)
    elif lower in tables.BARE_BEFORE_NUMBER and _DIGIT_AFTER.match(context.text, end):
        context.say(tables.BEFORE_NUMBER[lower], start, end)
    elif unit := _unit_after_number(context, text, start):
        context.say(context.accented(unit), start, end)
    elif lower in ("noon", "midnight"):
        context.add(text, start, end, None)
        context.join_range(end, dates.TO_TIME)
    elif notation := _notation(text, charged=_ION_AFTER.match(context.text, end) is not None):
        context.say(notation, start, end)
    elif lower == "tel" and _TELEPHONE_AFTER.match(context.text, end):
        context.say("telephone", start, end)
    elif start > 0 and lower in ("s", "t", "d", "ll", "re", "ve", "m") and context.text[start - 1] == "'":
        glued = start < 2 or not context.text[start - 2].isspace()
        context.pieces.append(word("'" + text, context.offset + start - 1, context.offset + end, glued=glued))
    else:
        context.pieces.append(
            word(_named(context, text, lower, start, end), context.offset + start, context.offset + end)
        )


def _unit_after_number(context: NormalizerContext, text: str, start: int) -> str:
    """Return the name of a unit after a number and a hyphen, or after a million, else ""."""
    if len(text) < 2 or text not in tables.UNITS or text == "in":
        return ""
    before = context.before(start)
    if _NUMBER_BEFORE.search(before):
        return tables.ATTACHED.get(text, tables.UNITS[text])[0]
    return tables.UNITS[text][1] if _SCALE_BEFORE.search(before) else ""


def _notation(text: str, *, charged: bool = False) -> list[str]:
    """Return the words of a key, a Greek letter before Latin ones, or a formula, else []: "Ctrl-Z", "Δt".

    `charged`: an index or a charge follows, so that "Ca" is an element.
    """
    if charged and _ELEMENT.fullmatch(text):
        return list(text.upper())
    if key := _KEYS.fullmatch(text):
        return [tables.WORDS.get(key[1].lower(), key[1].lower()), key[2].upper()]
    if greek := _GREEK_PREFIX.fullmatch(text):
        return [tables.GREEK[greek[1].lower()], *greek[2].upper()]
    if text in ("A-Z", "a-z"):
        return ["A", "to", "Z"]
    return list(text.upper()) if FORMULA.fullmatch(text) or _SMALL_FIRST.fullmatch(text) else []


def _named(context: NormalizerContext, text: str, lower: str, start: int, end: int) -> str:
    """Return the name of a Greek letter or small Roman numeral, else the word itself."""
    if lower in tables.GREEK:
        beside = (context.previous_word(start), context.next_word(end))
        if not any(len(other) > 1 and _GREEK_LETTER.match(other) for other in beside):
            return tables.GREEK[lower]
    elif len(lower) <= 4 and not lower.strip("ivxl") and context.previous_word(start).lower() in tables.NUMBERED_THINGS:
        value = roman(text.upper())
        if value is not None and lower != "i":
            return context.cardinal(str(value))[0] if value < 21 else text
    return text


read_plain = read_word


def read_initials(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read initials: `U.S. law`."""
    lower = re.sub(r"\s", "", text.lower())
    known = tables.LATIN.get(lower) or tables.LATIN.get(lower + ".")
    letters = [letter.upper() for letter in text if letter.isalpha()]
    context.say(known or letters, start, end)
    if text.endswith("."):
        context.full_stop_if_last(end)


def read_latin(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a Latin or slashed abbreviation: `bread w/ butter`."""
    context.say(tables.LATIN[text], start, end)
    if text.endswith("."):
        context.full_stop_if_last(end)


def read_abbreviation(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an abbreviation: `Mr. Smith`."""
    name = text[:-1]
    spoken = _long_form(context, name, start, end)
    if spoken:
        context.say(spoken, start, end, tag="LETTERS" if spoken == name and len(name) == 1 else None)
        context.full_stop_if_last(end)
        return
    # an ordinary word and its full stop
    context.end = end - 1
    if name in ("I", "V", "X") or (len(name) > 1 and not name.strip("IVXLM")):
        read_roman(context, name, start, end - 1)
    else:
        read_word(context, name, start, end - 1)


def _long_form(context: NormalizerContext, name: str, start: int, end: int) -> str:
    """Return the long form of an abbreviation, or "". Initials stay as they are."""
    if name in tables.STATES and _is_state(context, name, start, end):
        return tables.STATES[name]
    return (
        _beside_number(context, name, start, end)
        or _street_or_title(context, name, start, end)
        or (_initial(context, name, end) if len(name) == 1 and name.isupper() else _listed(context, name, end))
    )


def _beside_number(context: NormalizerContext, name: str, start: int, end: int) -> str:
    """Return the long form that a number beside the abbreviation decides: "vol. 2", "6-oz.", "b. 1950"."""
    lower = name.lower()
    if lower in tables.BIBLE_BOOKS and _VERSE_AFTER.match(context.text, end):
        return tables.BIBLE_BOOKS[lower]
    if len(name) > 1 and name in tables.UNITS and _NUMBER_BEFORE.search(context.before(start)):
        return context.accented(tables.UNITS[name][0])
    if name in _LIVED and _YEAR_AFTER.match(context.text, end):
        return _LIVED[name]
    if lower in _AFTER_ORDINAL and _ORDINAL_BEFORE.search(context.before(start)):
        return _AFTER_ORDINAL[lower]
    if name == "c" and (cups := _CUPS_BEFORE.search(context.before(start))) is not None:
        return "cup" if cups["one"] else "cups"
    lettered = lower in _LETTERED and _CAPITAL_LETTER_AFTER.match(context.text, end)
    if lower in tables.BEFORE_NUMBER and (lettered or _NUMBER_AFTER.match(context.text, end)):
        return tables.BEFORE_NUMBER[lower]
    return ""


def _street_or_title(context: NormalizerContext, name: str, start: int, end: int) -> str:
    lower = name.lower()
    if lower in tables.STREETS and _is_street(context, lower, start, end):
        return tables.STREETS[lower]
    if lower in ("ave", "blvd") and context.next_word(end) in ("of", "des", "de"):
        return tables.STREETS[lower]
    capital_follows = _CAPITAL_AFTER.match(context.text, end) is not None
    if name == "St":
        return "saint" if capital_follows else "street"
    if name == "Dr":
        return "doctor"
    if name == "Ft" and capital_follows:
        return "fort"
    if name == "Co" and context.next_word(end) in tables.COUNTIES:
        return "county"
    return ""


def _initial(context: NormalizerContext, letter: str, end: int) -> str:
    """Return a direction, or the letter itself before a name: "N. Main St.", "J. Smith"."""
    if letter in tables.DIRECTIONS and _STREET_AFTER.match(context.after(end)):
        return tables.DIRECTIONS[letter]
    named = letter != "I" or not context.pieces or context.pieces[-1].text[:1].isupper()
    return letter if named and _CAPITAL_AFTER.match(context.text, end) else ""


def _listed(context: NormalizerContext, name: str, end: int) -> str:
    lower = name.lower()
    if name not in (lower, lower.capitalize(), lower.upper()):  # "HRs." are no hours
        return ""
    if lower in tables.ONLY_CAPITALIZED | tables.ONLY_INSIDE and context.is_last(end):
        return ""
    if lower in tables.ONLY_CAPITALIZED and not name[0].isupper():
        return ""
    return tables.ABBREVIATIONS.get(lower, "")


def _is_street(context: NormalizerContext, name: str, start: int, end: int) -> bool:
    """Return whether "St", "Dr", "Ave" ends the name of a street, as in "Baker St, London"."""
    before = _NAME_BEFORE.search(context.before(start))
    if name not in tables.STREETS or before is None or before.group(1) in _NO_NAME:
        return False
    if (
        before.group(1) in _STREET_NAMES
        or name not in ("st", "dr", "pl", "ct")
        or before.group(2)
        or not _CAPITAL_AFTER.match(context.text, end)
    ):
        return True
    return _PLACE_AFTER.match(context.text, end) is not None or _HOUSE.search(context.before(start)) is not None


def _is_state(context: NormalizerContext, text: str, start: int, end: int) -> bool:
    """Return whether "TX" stands after a town, as in "Austin, TX"; "Jane Doe, MD" is a title."""
    town = _TOWN_BEFORE.search(context.before(start))
    return text not in _NO_STATES and town is not None and not _CAPITAL_AFTER.match(context.text, end)


def read_compass(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read "N" or "SW" as a direction beside a road, distance, degree or wind, else as letters."""
    before = context.before(start)
    if (
        _ROAD_BEFORE.search(before)
        or _STREET_AFTER.match(context.after(end))
        or _SPEED_AFTER.match(context.text, end)
        or (_OF_PLACE.match(context.text, end) and not _LETTER_BEFORE.search(before))
        or (_DISTANCE_BEFORE.search(before) and _FROM_AFTER.match(context.text, end))
    ):
        context.say(tables.DIRECTIONS[text], start, end)
        context.end = end + context.text.startswith(".,", end)
    elif context.text[end : end + 1] == ".":
        context.end = end + 1
        read_abbreviation(context, text + ".", start, end + 1)
    else:
        read_word(context, text, start, end)
