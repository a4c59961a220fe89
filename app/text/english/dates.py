"""Readings of dates and times."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import numbers, tables
from app.text.english.normalize import NormalizerContext
from app.text.english.patterns import CALENDAR, MERIDIEM

_CLOCK: Final = re.compile(rf"(\d+)[:.](\d\d)(?::(\d\d))?(?:\s?({MERIDIEM}|[ap](?!\w)))?")
_HOUR: Final = re.compile(r"(\d+)\s?(.*)")
TO_TIME: Final = re.compile(rf"\s?(?P<dash>[-–])\s?(?=\d{{1,2}}(?::\d\d|\s?{MERIDIEM})|noon\b|midnight\b)")
_TO_DAY: Final = re.compile(rf"\s?(?P<dash>[-–])\s?(?={CALENDAR}(?!\w))")
_SLASH_DAY: Final = re.compile(rf"/(?={CALENDAR}(?!\w))")
_DAY: Final = re.compile(r"0?[1-9]|[12]\d|3[01]")
# Text beside "Sat" or "Mar" that makes it a day or month: a number, a time, such a name, or words of time before it.
_DATED_AFTER: Final = re.compile(
    rf"\.?(?:\s*[,:/&–-]\s*|\s+(?:(?:and|or|to|through|at)\s+)?)(?:'?\d|{CALENDAR}(?!\w)|(?:morning|afternoon|evening|night|noon|midnight)\b)"
)
_DATED_BEFORE: Final = re.compile(
    rf"(?:\d(?:st|nd|rd|th)?(?:\s+of)?|(?<!\w){CALENDAR}\.?,?(?:\s+(?:and|or|to|through))?|\b(?:next|last|this|until|since))"
    r"[\s/–-]+$"
)
_DAY_BEFORE: Final = re.compile(r"\b(?:[Oo]n|[Ee]very|[Bb]y|[Cc]losed|[Oo]pen)\s+$")
_MONTH_BEFORE: Final = re.compile(r"\b(?:[Ii]n|[Ee]arly|[Ll]ate|[Mm]id)[\s-]+$")
_ON: Final = re.compile(
    r"\b(?:[Oo]n|[Ss]ince|[Uu]ntil|[Dd]ue|[Dd]ated|(?:week|month|night|morning|day|date|weekend) of"
    r"|(?:e-?mail|letter|message|memo|invoice|notice|statement|meeting|order|call)\s(?:of|from|for))\s+$"
)
# Verbs before a day. A fraction with a common denominator is no day.
_FROM: Final = re.compile(
    r"\b(?:[Ss]tart(?:s|ed|ing)?|[Ee]nd(?:s|ed|ing)?|[Bb]eg[aiu]n(?:s|ning)?|[Oo]pen(?:s|ed|ing)?|[Cc]los(?:es|ed|ing)"
    r"|[Ee]xpire(?:s|d)?|[Ll]aunch(?:es|ed)?|[Rr]eleased|[Ss]hipped|[Dd]elivered|[Bb]y|[Ff]rom|[Tt]hrough|[Bb]efore"
    r"|[Aa]fter|[Bb]eginning|[Ee]ffective|[Aa]rriv(?:es|ing))\s+$"
)
_DENOMINATORS: Final = frozenset((2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16))
_AT_TIME: Final = re.compile(r",?\s(?:at|@)\s\d")
# Words before a time with seconds that make it a duration.
_DURATION_BEFORE: Final = re.compile(
    r"\b(?:in|for|under|over|took|takes|lasted|lasts|ran|runs|time of|record of|length of|runtime of|another)\s+$"
)
_RATIO_BEFORE: Final = re.compile(r"\b(?:ratio|odds|scale)\s(?:of|is|was|at|to)\s$", re.IGNORECASE)
_ZULU: Final = re.compile(r"Z(?!\w)")
_ARC: Final = (("degree", "degrees"), ("minute", "minutes"), ("second", "seconds"))
_OTHER_NAME: Final = re.compile(rf"\s+(?!{CALENDAR}(?!\w))[A-Z][a-z]")


def read_clock(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a time of day: `5:30 pm`."""
    match = _CLOCK.match(text)
    if match is None:
        raise AssertionError(text)
    hour, minute, second, meridiem = match.groups()
    if second is not None and not meridiem and _DURATION_BEFORE.search(context.before(start)):
        _lasting(context, (hour, minute, second), start, end)
        return
    spoken = context.cardinal(str(int(hour))) if int(hour) or meridiem else ["zero"]
    if int(minute) == 0:
        spoken += [] if meridiem else (["hundred"] if int(hour) > 12 or int(hour) == 0 else ["o'clock"])
        spoken = spoken if second is None else spoken[:1]
    else:
        spoken += (["oh"] if minute[0] == "0" else []) + context.cardinal(str(int(minute)))
    if second is None and not meridiem and _is_proportion(context, start, end):
        spoken = [*context.cardinal(hour), "to", *context.cardinal(str(int(minute)))]
    if second is not None and int(second):
        spoken += ["and", *context.cardinal(str(int(second))), "second" if int(second) == 1 else "seconds"]
    clock_end = start + match.end(3 if second is not None else 2)
    context.say(spoken, start, clock_end)
    if meridiem:
        _meridiem(context, meridiem, start + match.start(4), end)
    elif _ZULU.match(context.text, end):
        context.say(["U", "T", "C"], end, end + 1)
        end = context.end = end + 1
    context.join_range(end, TO_TIME)


def read_minutes(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read minutes and seconds that are no time of day: `31:22`. Shares of a hundred are a proportion: `60:40`."""
    first, second = text.split(":")
    proportion = int(first) + int(second) == 100 or _is_proportion(context, start, end)
    between = "to" if proportion else "oh" if second[0] == "0" else ""
    context.say([*context.cardinal(first), *between.split(), *context.cardinal(str(int(second)))], start, end)


def _lasting(context: NormalizerContext, parts: tuple[str, str, str], start: int, end: int) -> None:
    """Read hours, minutes and seconds that something lasts."""
    spoken: list[str] = []
    for value, name in zip(map(int, parts), ("hour", "minute", "second"), strict=True):
        if value:
            spoken += [*context.cardinal(str(value)), name if value == 1 else f"{name}s"]
    context.say(spoken or ["zero", "seconds"], start, end)


def _is_proportion(context: NormalizerContext, start: int, end: int) -> bool:
    return (
        context.next_word(end) in ("ratio", "scale", "odds") or _RATIO_BEFORE.search(context.before(start)) is not None
    )


def read_arc(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read degrees, minutes and seconds of an angle."""
    for found, (one, many) in zip(re.finditer(r"[\d.]+", text), _ARC, strict=False):
        context.say(
            [*context.number_words(found.group()), one if found.group() == "1" else many],
            start + found.start(),
            start + found.end(),
        )


def read_month_year(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a month and year: `03/2024`."""
    context.say([tables.MONTH_NAMES[int(text[:2]) - 1], *numbers.year(text[3:], british=context.british)], start, end)


def read_short_year(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a year without its century: `'05`."""
    context.say(["oh", *context.cardinal(text[2:])], start, end)


def read_hour(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an hour: `5 pm`."""
    match = _HOUR.match(text)
    if match is None:
        raise AssertionError(text)
    context.say(context.cardinal(str(int(match.group(1)))), start, start + match.end(1))
    _meridiem(context, match.group(2), start + match.start(2), end)
    context.join_range(end, TO_TIME)


def _meridiem(context: NormalizerContext, text: str, start: int, end: int) -> None:
    context.say([text[0].upper(), "M"], start, end)
    if text.endswith("."):
        context.full_stop_if_last(end)


def read_duration(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a duration: `2h 30m`."""
    names = {"h": "hour", "m": "minute", "s": "second"}
    for match in re.finditer(r"(\d+)([hms])(?:in)?", text):
        name = names[match.group(2)] + ("" if int(match.group(1)) == 1 else "s")
        context.say([*context.cardinal(match.group(1)), name], start + match.start(), start + match.end())


def _date(context: NormalizerContext, year: str, month: int, day: int, start: int, end: int) -> None:
    name = tables.MONTH_NAMES[month - 1]
    number = numbers.ordinal(str(day), british=context.british)
    spoken = ["the", *number, "of", name] if context.british else [name, *number]
    if len(year) == 2:
        year = ("20" if int(year) < 70 else "19") + year
    context.say([*spoken, *numbers.year(year, british=context.british)], start, end)


def read_iso_date(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a date that begins with the year: `2024-03-05`."""
    day_end = end - text.endswith("T")
    year, month, day = re.split(r"[-/.]", text.rstrip("T"))
    _date(context, year, int(month), int(day), start, day_end)
    if day_end < end:
        context.say("at", day_end, end)


def read_slash_date(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a date that ends with the year, or other numbers between slashes: `3/14/2024`, `the 50/30/20 rule`."""
    first, second, *_, year = parts = re.split(r"[-/.]", text)
    day_first = context.british or "." in text
    month, day = (int(second), int(first)) if day_first else (int(first), int(second))
    if month > 12 >= day:
        month, day = day, month
    if 1 <= month <= 12 and 1 <= day <= 31 and len(parts) == 3 and len(year) in (2, 4):
        _date(context, year, month, day, start, end)
    else:
        spoken = [item for part in parts for item in ["slash", *context.cardinal(part)]]
        context.say(spoken[1:], start, end)


def read_named_date(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a day, the name of its month and a year: `5-Jan-2024`."""
    day, month, year = text.split("-")
    _date(context, year, tables.MONTHS[month.lower()], int(day), start, end)


def read_day_span(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read two days: `12/23-1/2`."""
    spoken: list[str] = []
    for day in re.split(r"[-–]", text):
        month, number = day.split("/")
        ordinal = numbers.ordinal(number.lstrip("0"), british=context.british)
        spoken += ["to"] if spoken else []
        spoken += [tables.MONTH_NAMES[int(month) - 1], *(["the"] if context.british else []), *ordinal]
    context.say(spoken, start, end)


def read_season(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read two years that follow each other: `2024/25`. Others are divided."""
    first, second = text.split("/")
    follows = (int(first) + 1) % 100 == int(second)
    middle = [] if follows else ["divided", "by"]
    context.say(
        [*numbers.year(first, british=context.british), *middle, *context.cardinal(str(int(second)))], start, end
    )


def read_calendar(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the short name of a day or month, with its full stop if it has one."""
    name = text.rstrip(".")
    lower = name.lower()
    is_day = lower in tables.DAYS
    if not _is_date(context, lower, is_day, start, start + len(name)):
        context.end = start + len(name)
        context.add(name, start, context.end, None)
        return
    context.say(tables.DAYS[lower] if is_day else tables.MONTH_NAMES[tables.MONTHS[lower] - 1], start, end)
    if text.endswith("."):
        context.full_stop_if_last(end)
    context.join_range(end, _TO_DAY)
    if _SLASH_DAY.match(context.text, end):
        context.pause(",", end, end + 1)
        context.end = end + 1


def _is_date(context: NormalizerContext, name: str, is_day: bool, start: int, end: int) -> bool:
    if context.text[start:end].isupper():
        return _DATED_AFTER.match(context.text, end) is not None
    if name == "mon":
        return _OTHER_NAME.match(context.text, end) is None
    if name not in tables.AMBIGUOUS_CALENDAR:
        return True
    before = context.before(start)
    if name == "sat" and re.search(r"[a-z,]\s$", before):  # a capital inside a sentence
        return True
    if _DATED_AFTER.match(context.text, end) or _DATED_BEFORE.search(before):
        return True
    return (_DAY_BEFORE if is_day else _MONTH_BEFORE).search(before) is not None


def _month_before(context: NormalizerContext, start: int) -> bool:
    """Return whether a month stands right before `start`: "March 5", but not "they march 5"."""
    before = context.before(start)
    if not before[-1:].isspace():
        return False
    name = re.split(r"[^A-Za-z]", before.rstrip(" ."))[-1]
    return name.lower() in tables.MONTHS and name not in ("mar", "march", "may")


def read_month_and_day(context: NormalizerContext, first: str, second: str, start: int, end: int) -> bool:
    """Read "3/14" as a day if the words before it suggest one, else return False."""
    month, day = (int(second), int(first)) if context.british else (int(first), int(second))
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    before = context.before(start)
    weekday = context.previous_word(start).lower() in tables.DAYS
    dated = weekday or first[0] == "0" or _ON.search(before) or _AT_TIME.match(context.text, end)
    # Few fractions have such a denominator: "5/31".
    odd = day > 12 and day not in _DENOMINATORS | {20, 24, 25, 30}
    followed = context.next_word(end) in ("of", "inch", "inches", "odds", "cup", "cups", "mile", "miles")
    if odd and not followed:
        dated = True
    if not (dated or (int(second) not in _DENOMINATORS and _FROM.search(before))):
        return False
    number = numbers.ordinal(str(day), british=context.british)
    name = tables.MONTH_NAMES[month - 1]
    context.say(["the", *number, "of", name] if context.british else [name, *number], start, end)
    return True


def read_days(context: NormalizerContext, days: list[str], between: str, start: int, end: int) -> bool:
    """Read the days after a month, "5" or "5" and "7". Return False if they are none."""
    if not (all(_DAY.fullmatch(day) for day in days) and _month_before(context, start)):
        return False
    spoken: list[str] = []
    for day in days:
        spoken += [between] if spoken else []
        spoken += numbers.ordinal(day.lstrip("0"), british=context.british)
    context.say(["the", *spoken] if context.british else spoken, start, end)
    context.join_range(end, _TO_DAY)
    return True


def read_day_before_month(context: NormalizerContext, days: list[str], start: int, end: int) -> bool:
    """Read the day in "5 May", or the days in "5-7 May". Return False if it is none."""
    following = re.match(r"\s+([A-Z][A-Za-z]+)", context.after(end))
    if following is None or following.group(1).lower() not in tables.MONTHS or not all(map(_DAY.fullmatch, days)):
        return False
    spoken = [] if context.previous_word(start).lower() == "the" else ["the"]
    for day in days:
        spoken += ["to", "the"] if day is not days[0] else []
        spoken += numbers.ordinal(day.lstrip("0"), british=context.british)
    context.say([*spoken, "of"], start, end)
    return True
