"""Readings of `<say-as>`: a part of a text, and how it is to be read (W3C Note "SSML 1.0 say-as attribute values")."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from app.text.types import Reading

KINDS: Final = {
    "characters": "letters", "spell-out": "letters", "verbatim": "letters", "digits": "digits",
    "cardinal": "cardinal", "number": "cardinal", "ordinal": "ordinal", "date": "date", "time": "time",
    "telephone": "telephone", "currency": "currency", "unit": "unit", "fraction": "unit", "address": "unit",
    "name": "unit", "letters": "letters", "spell": "letters", "duration": "duration",
}  # fmt: skip
"""Accepted values of `interpret-as`, in small letters, and the rule of each."""


class Said(NamedTuple):
    """Text to read in place of another one. `spelled`: it is characters, each of which is named."""

    text: str
    spelled: bool = False


_DATE_PARTS: Final = re.compile(r"\d+|[^\W\d_]+")
_NUMBER: Final = re.compile(r"-?\d+(?:[.,]\d+)*")
_ORDERS: Final = {
    "mdy": "mdy", "dmy": "dmy", "ymd": "ymd", "md": "md", "dm": "dm", "ym": "ym", "my": "my", "y": "y", "m": "m",
    "d": "d", "ydm": "ydm", "yyyymmdd": "ymd",
}  # fmt: skip
_MONTHS: Final[dict[str, str]] = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "en": "January February March April May June July August September October November December",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
}
_NUM2WORDS: Final = {"de": "de", "en": "en", "es": "es", "fr": "fr", "it": "it", "pt": "pt_BR"}
_SIGNS: Final = {
    "-": "dash", "_": "underscore", ".": "dot", "@": "at", "/": "slash", "\\": "backslash", "#": "hash", "*": "star",
    "+": "plus", "=": "equals", "&": "and", "%": "percent", ":": "colon", ";": "semicolon", ",": "comma", "!":
    "exclamation mark", "?": "question mark", "(": "open parenthesis", ")": "close parenthesis", "$": "dollar",
    "<": "less than", ">": "greater than", "~": "tilde", "'": "apostrophe", '"': "quote", "|": "bar", "^": "caret",
    "[": "open bracket", "]": "close bracket", "{": "open brace", "}": "close brace",
}  # fmt: skip
_MAX_DIGITS: Final = 15  # digits that are read as one number


def read(text: str, kind: str, form: str, language: str) -> Said | None:
    """Return the text to read for `text`, or None if it is read as it stands.

    Args:
        text: What stands in the element.
        kind: `interpret-as`, one of `KINDS`.
        form: `format`, such as "mdy", or "".
        language: Tag of `app.text.languages`.
    """
    rule = KINDS.get(kind.strip().lower(), "")
    if rule == "letters":
        return Said(text, spelled=True)
    reader = _RULES.get(rule)
    said = None if reader is None else reader(" ".join(text.split()), form.strip().lower(), language.partition("-")[0])
    return None if said is None else Said(said)


def words_of(written: str, reading: Reading, language: str) -> str:
    """Return the words of a reading: the word itself where only its phonemes are given."""
    said = None if reading.say_as is None else read(written, *reading.say_as, language)
    if said is None:
        return reading.alias or written
    return " ".join(said.text) if said.spelled else said.text


def as_spoken(text: str, start: int, end: int, readings: Sequence[Reading], language: str) -> str:
    """Return [start, end) of a longer text, which is `text`, with the words of its readings."""
    parts: list[str] = []
    position = start
    for each in readings:
        if start <= each.start and each.end <= end:
            written = text[each.word_start - start : each.word_end - start]
            parts += [text[position - start : each.start - start], words_of(written, each, language)]
            position = each.end
    return "".join([*parts, text[position - start :]])


def name_of_sign(sign: str, language: str) -> str:
    """Return the English name of a sign that is spelled out, or ""."""
    return _SIGNS.get(sign, "") if language.startswith("en") else ""


def _digits(text: str, form: str, language: str) -> str | None:
    """Read each digit by itself. A group of them ends in a short pause."""
    groups = [" ".join(group) for group in re.findall(r"\d+", text)]
    return ", ".join(groups) if groups else None


def _telephone(text: str, form: str, language: str) -> str | None:
    plus = "plus " if language == "en" and text.lstrip().startswith("+") else ""
    extension = re.split(r"(?:ext\.?|x)\s*(?=\d+\s*$)", text, maxsplit=1, flags=re.IGNORECASE)
    said = _digits(extension[0], form, language)
    if said is None:
        return None
    tail = f", extension {_digits(extension[1], form, language)}" if len(extension) > 1 and language == "en" else ""
    return f"{plus}{said}{tail}"


def _cardinal(text: str, form: str, language: str) -> str | None:
    match = _NUMBER.fullmatch(text)
    if match is None or language not in _NUM2WORDS:
        return None
    plain = text.replace(",", "") if language == "en" else re.sub(r"[.,](?=\d{3}(?:\D|$))", "", text).replace(",", ".")
    if sum(map(str.isdigit, plain)) > _MAX_DIGITS or plain.count(".") > 1:
        return None
    return _words(float(plain) if "." in plain else int(plain), "cardinal", language)


def _ordinal(text: str, form: str, language: str) -> str | None:
    digits = re.sub(r"[.,\s]", "", re.sub(r"(?<=\d)[^\W\d_ºª]+\.?$|[ºª.]+$", "", text))
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MAX_DIGITS or language not in _NUM2WORDS:
        return None
    return _words(int(digits), "ordinal", language)


def _words(number: float, to: str, language: str) -> str:
    from num2words import num2words  # loads all its languages

    words: str = num2words(number, to=to, lang=_NUM2WORDS[language])
    words = words.replace("-", " ").replace(",", "")
    return re.sub(r"\band\b ", "", words) if language == "en" else words


def _date(text: str, form: str, language: str) -> str | None:
    order = _ORDERS.get(form or ("mdy" if language == "en" else "dmy"))
    parts = _DATE_PARTS.findall(text)
    if order is None or language not in _MONTHS:
        return None
    if not form and parts and len(parts[0]) == 4:
        order = "ymd"[: len(parts)]
    if len(parts) == 1 and len(parts[0]) == 8 and order == "ymd":
        parts = [parts[0][:4], parts[0][4:6], parts[0][6:]]
    if len(parts) != len(order):
        return None
    values = dict(zip(order, parts, strict=True))
    month = _month(values.get("m"), language)
    day = values.get("d")
    if ("m" in values and month is None) or (day is not None and not (day.isdigit() and 1 <= int(day) <= 31)):
        return None
    year = values.get("y")
    if language == "en":
        said = " ".join(filter(None, (month, _words(int(day), "ordinal", "en") if day else None)))
        return f"{said}, {year}" if said and year and day else " ".join(filter(None, (said, year)))
    joint = {"es": " de ", "pt": " de "}.get(language, " ")
    stop = "." if language == "de" else ""
    return joint.join(filter(None, (f"{int(day)}{stop}" if day else None, month, year)))


def _month(text: str | None, language: str) -> str | None:
    months = _MONTHS[language].split()
    if text is None:
        return None
    if text.isdigit():
        return months[int(text) - 1] if 1 <= int(text) <= 12 else None
    return next((month for month in months if len(text) >= 3 and month.lower().startswith(text.lower())), None)


_TIME: Final = re.compile(r"(\d{1,2})[:.h ]?(\d{2})?(?:[:.](\d{2}))?\s*([ap])?\.?\s*(?:m\.?)?", re.IGNORECASE)


def _time(text: str, form: str, language: str) -> str | None:
    length = re.fullmatch(r"(?:(\d+)')?\s*(?:(\d+)(?:\"|''))?", text)
    if length is not None and language == "en" and any(length.groups()):
        names = zip(length.groups(), ("minute", "second"), strict=True)
        return " ".join(f"{int(n)} {name}{'' if int(n) == 1 else 's'}" for n, name in names if n)
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second, half = match.groups()
    clock = f"{int(hour)}:{minute or '00'}" + (f":{second}" if second else "")
    if language != "en" or not half:
        return clock
    return f"{clock if minute else int(hour)} {half.lower()}m"


_DURATION: Final = re.compile(r"\d{1,4}(?::\d{1,2}){1,2}")
_UNITS: Final = {
    "de": "Stunde Stunden Minute Minuten Sekunde Sekunden", "en": "hour hours minute minutes second seconds",
    "es": "hora horas minuto minutos segundo segundos", "fr": "heure heures minute minutes seconde secondes",
    "it": "ora ore minuto minuti secondo secondi", "pt": "hora horas minuto minutos segundo segundos",
}  # fmt: skip
"""Hour, minute and second, each for one and for many."""


def _duration(text: str, form: str, language: str) -> str | None:
    """Read hours, minutes and seconds: "01:18:30"; two parts are minutes and seconds, or what `form` ("hm") says."""
    values = [int(value) for value in text.split(":")] if _DURATION.fullmatch(text) else []
    form = form if len(form) == len(values) and form in ("hms", "hm", "ms") else "hms"[3 - len(values) :]
    if not values or language not in _UNITS:
        return None
    names = _UNITS[language].split()
    counted = [
        (value, "hms".index(unit) * 2) for value, unit in zip(values, form, strict=True) if value or unit == form[-1]
    ]
    counted = [each for each in counted if each[0]] or counted
    return " ".join(f"{value} {names[place + (value != 1)]}" for value, place in counted)


def _currency(text: str, form: str, language: str) -> str | None:
    code = form.upper()
    return f"{code} {text}" if language == "en" and re.fullmatch("[A-Z]{3}", code) and text[:1].isdigit() else None


_RULES: Final[dict[str, Callable[[str, str, str], str | None]]] = {
    "digits": _digits, "telephone": _telephone, "cardinal": _cardinal, "ordinal": _ordinal, "date": _date,
    "time": _time, "currency": _currency, "duration": _duration,
}  # fmt: skip
