"""Readings of digits that name something: telephone numbers, cards, codes, addresses."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import numbers, tables
from app.text.english.normalize import NormalizerContext
from app.text.english.patterns import PLURAL


def _one_of(words: frozenset[str]) -> str:
    return "|".join(sorted(words))


# A word that decides how the next number is read, and the small words between them.
_ASKED: Final = re.compile(
    rf"\b(?:(?P<paired>{_one_of(tables.PAIRED)})|(?P<spelled>{_one_of(tables.SPELLED)})|(?P<phone>{_one_of(tables.TELEPHONES)})"
    rf"|(?P<id>{_one_of(tables.IDENTIFIED)}))"
    r"\.?(?:\s(?:number|code|no\.?|is|was|me|us|at|on)\b\.?){0,3}[\s:#]{1,2}$",
    re.IGNORECASE,
)
_GROUPS: Final = re.compile(r"\d{2,12}(?:[ -]\d{2,6}){0,5}(?![\w-])")
_STREET: Final = re.compile(
    r"\s+(?:[NSEW]\.?\s+)?(?:(?:[A-Z][a-z']+|\d+(?:st|nd|rd|th))\s+){1,3}"
    r"(?:Street|Avenue|Road|Lane|Drive|Boulevard|Court|Place|Square|Way|Terrace|Crescent|Parkway|Highway|Circle|Trail|Loop|Gardens|St|Ave|Rd|Ln|Dr|Blvd|Ct|Pl|Sq|Hwy|Pkwy)\b"
)
_DIALED: Final = re.compile(r"\b(?:dial|call|ring|text)\b[^.!?]*$", re.IGNORECASE)
_ENDING: Final = re.compile(r"\b[Ee]nd(?:ing|s) (?:in|with)\s$")
_SHORT_CODE: Final = re.compile(r"\b(?:[Tt]ext|[Ss]end|SMS)\s[\w\"']{1,20}\sto\s$")
_AIRLINE: Final = re.compile(r"\b[Ff]light\s[A-Z\d]{2}\s$")
_AIRLINER: Final = re.compile(r"7[0-8]7")
_MODEL_BEFORE: Final = re.compile(r"\b(?:[Tt]he|[Aa]|[Nn]ew|[Bb]oeing)\s$")
_ERROR_AFTER: Final = re.compile(r"\s(?:errors?|page|status|response)\b")
_CITY_AFTER: Final = re.compile(r"\s[A-Z][a-zäöü]+")
_HOUSE_BEFORE: Final = re.compile(r"[^\W\d]\.?\s\d{1,3}[a-z]?,\s$")
_CITY_BEFORE: Final = re.compile(r",\s(?:[A-Z][a-z]+\s){1,2}(?:-\s)?$")
_CAPITALS: Final = re.compile(r"(?<![\w-])[A-Z]+-$")
_COUNTED: Final = re.compile(rf"\s+{PLURAL}")


def read_phone(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a telephone number: `555-867-5309`."""
    spoken = ["plus"] if text.startswith("+") else []
    for group in re.findall(r"\d+|[A-Z]+", text):
        if group.isalpha():
            spoken.append(group.lower())
        elif spoken[:1] == ["one"] and re.fullmatch(r"8\d\d", group):
            spoken += numbers.cardinal(group, british=False)
        else:
            spoken += numbers.telephone(group)
    context.say(spoken, start, end)


def read_code(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the number of a card, book or account, digit by digit: `4111 1111 1111 1111`."""
    spoken = numbers.one_by_one(text)
    context.say([*spoken, "X"] if text[-1] in "xX" else spoken, start, end)


def read_clause(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a number of a law and its clause: `401(k)`."""
    number, letter, *digit = re.findall(r"\w+", text)
    spoken = [*context.digits_in_name(number), letter.upper()]
    context.say([*spoken, *(context.cardinal(digit[0]) if digit else [])], start, end)


def read_zip(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a state and its ZIP code: `CA 94105`."""
    number = re.search(r"\d.*", text)
    if number is None:
        raise AssertionError(text)
    context.say(tables.STATES[text[:2]].split(), start, start + 2)
    context.say(numbers.telephone(number.group()), start + number.start(), end)


def read_ip(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an IPv4 address: `192.168.0.1:80`."""
    address, sign, tail = re.fullmatch(r"([\d.]+)([:/]?)(\d*)", text).groups()  # type: ignore[union-attr]
    spoken = [item for part in address.split(".") for item in ["dot", *context.cardinal(part)]][1:]
    if sign == ":":
        spoken += ["port", *context.digits_in_name(tail)]
    elif sign:
        spoken += ["slash", *context.cardinal(tail)]
    context.say(spoken, start, end)


def read_ipv6(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an IPv6 address: `fe80::1`."""
    spoken: list[str] = []
    for character in text:
        spoken += ["colon"] if character == ":" else numbers.hexadecimal(character)
    context.say(spoken, start, end)


def read_hex(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the address of a network card, a UUID, or a number of base 16."""
    if text[1] in "xX":
        context.say(["zero", "X", *numbers.hexadecimal(text[2:])], start, end)
        return
    for match in re.finditer(r"[^:-]+", text):
        context.say(numbers.hexadecimal(match.group()), start + match.start(), start + match.end())


def read_named_number(context: NormalizerContext, text: str, start: int, end: int) -> bool:
    """Read a number that is a name by the words around it. Return False if it is none."""
    if len(text) < 3:
        return False
    asked = _ASKED.search(context.before(start))
    kind = asked.lastgroup if asked is not None else ""
    dialed = text in tables.EMERGENCY and _DIALED.search(context.before(start)) is not None
    if text == "911" or kind == "phone" or dialed:
        return _called(context, text, start, end, kind == "phone")
    if not text.isdecimal():
        return False
    if _is_postcode(context, text, start, end):
        context.say(numbers.telephone(text), start, end)
        return True
    if len(text) in (5, 6) and _SHORT_CODE.search(context.before(start)):
        kind = "spelled"
    if kind != "spelled" and len(text) <= 4 and _ENDING.search(context.before(start)):
        kind = "spelled"
    if kind == "spelled" and len(text) >= 3:
        zip_code = asked is not None and "zip" in asked.group().lower()
        context.say(numbers.telephone(text) if zip_code else numbers.one_by_one(text), start, end)
        return True
    counted = _COUNTED.match(context.text, end) is not None
    if kind == "id" and len(text) >= 5 and not counted:
        context.say(numbers.one_by_one(text), start, end)
        return True
    paired = 3 <= len(text) <= 4 and (
        kind == "paired"
        or _AIRLINE.search(context.before(start)) is not None
        # "a 737 landed", but not "the 737 people"
        or (_AIRLINER.fullmatch(text) and _MODEL_BEFORE.search(context.before(start)) and not counted)
        or (text[0] in "45" and len(text) == 3 and _ERROR_AFTER.match(context.text, end) is not None)
    )
    house = 3 <= len(text) <= 5 and _STREET.match(context.text[end : end + 60]) is not None
    if paired or house or (len(text) >= 3 and _CAPITALS.search(context.before(start))):
        context.say(context.digits_in_name(text), start, end)
        return True
    return False


def _is_postcode(context: NormalizerContext, text: str, start: int, end: int) -> bool:
    """Return whether a number stands as "10115" in "Hauptstraße 12, 10115 Berlin" or "110001" in "Delhi 110001"."""
    if len(text) == 5:
        return (
            _HOUSE_BEFORE.search(context.before(start)) is not None and _CITY_AFTER.match(context.text, end) is not None
        )
    last = not context.text[end : end + 1].isspace() or context.next_word(end) == "India"
    return len(text) == 6 and last and _CITY_BEFORE.search(context.before(start)) is not None


def _called(context: NormalizerContext, text: str, start: int, end: int, asked: bool) -> bool:
    groups = _GROUPS.match(context.text, start) if asked else None
    if groups is not None and sum(map(str.isdecimal, groups.group())) >= 7:
        end = context.end = groups.end()
        text = groups.group()
    elif text not in tables.EMERGENCY or _COUNTED.match(context.text, end):
        return False
    elif context.previous_word(start).lower() == "porsche":
        context.say(context.digits_in_name(text), start, end)
        return True
    context.say(numbers.telephone(text), start, end)
    return True
