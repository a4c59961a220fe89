"""Readings of plain numbers: cardinals, ordinals, fractions, powers, ranges."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from app.text.english import codes, dates, numbers, tables
from app.text.english.normalize import NormalizerContext
from app.text.english.patterns import CROWD, PLURAL, UNIT

_YEAR: Final = re.compile(r"1\d\d\d|20\d\d")
_COUNTED: Final = re.compile(rf"\s+{PLURAL}")
_YEAR_BEFORE: Final = re.compile(
    r"\b(?:in|since|by|until|till|from|of|during|after|before|year|circa|q[1-4]|h[12]|fy|spring|summer|fall|autumn|winter"
    rf"|early|late|mid|{'|'.join(tables.MONTH_NAMES)})[\s-]+$",
    re.IGNORECASE,
)
# A present year after a determiner: "the 2025 results".
_PRESENT_YEAR: Final = re.compile(r"20[1-3]\d")
_DETERMINER: Final = re.compile(r"(?:\b(?:the|its|our|their|this|his|her|my)|'s)\s+$", re.IGNORECASE)
_TO_MONTH: Final = re.compile(
    rf"\s(?:to|and|or|until|till|through)\s(?:[12]\d|3[01]|[1-9])\s(?i:{'|'.join(tables.MONTHS)})\b"
)
_BOOK_NUMBER: Final = re.compile(
    r"\s+(?:Corinthians|Kings|Samuel|Chronicles|Peter|John|Timothy|Thessalonians"
    r"|(?:Cor|Sam|Chr|Kgs|Pet|Tim|Thess|Jn)\.?)\s+\d"
)
_TO_ORDINAL: Final = re.compile(r"\s?(?P<dash>[-–])\s?(?=\d{1,3}(?:st|nd|rd|th)\b)")
_MILITARY: Final = re.compile(r"\b(?:at|by|until|till|before|after|from|to)\s+$")
_HOUR_NOUN: Final = re.compile(r"\s(?:hours|briefing|meeting|flight|train|watch|shift|start|departure|call|muster)\b")
_EQUALS: Final = re.compile(r"(?:[=<>≤≥+−]|[²³)]\s-)\s?$")
_AIRLINER: Final = re.compile(r"7[0-8]7-(?:[1-9]00|[89]|10)")
_HOURS: Final = re.compile(r"0\d[0-5]\d")
_UNIT_AFTER: Final = re.compile(rf"\s?(?:{UNIT})(?!\w)")


def read_scientific(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a number in scientific notation: `1.5e10`."""
    mantissa, exponent = re.split(r"[eE]", text)
    power = context.number_words(exponent.lstrip("+"))
    context.say([*context.number_words(mantissa), "times", "ten", "to", "the", *power], start, end)


def read_power(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a superscript: `x²`."""
    context.say(_to_the_power(context, unicodedata.normalize("NFKC", text), text in ("²", "³")), start, end)
    if context.text[start - 1 : start].isdecimal():
        _unit_of_fraction(context, end, many=True, letters="mgsJW")


def read_charge(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the charge of an ion: `Ca²⁺`."""
    count = unicodedata.normalize("NFKC", text[:-1])
    context.say([*(context.cardinal(count) if count else []), "plus" if text[-1] == "+" else "minus"], start, end)


def read_caret(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an exponent after a caret: `2^10`."""
    exponent = text.strip().lstrip("^").strip(" ()")
    base = context.text[:start].rstrip()[-1:]
    context.say(_to_the_power(context, exponent, not base.isdecimal() and exponent in ("2", "3")), start, end)


def read_factorial(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a factorial: `5! = 120`."""
    context.say([*context.cardinal(text[:-1]), "factorial"], start, end)


def _to_the_power(context: NormalizerContext, exponent: str, short: bool) -> list[str]:
    if short:
        return ["squared" if exponent == "2" else "cubed"]
    exponent = exponent.replace("−", "-").lstrip("+")
    if not exponent.lstrip("-").isdecimal():  # a letter
        return ["to", "the", "power", "of", *(["minus"] if exponent[0] == "-" else []), exponent.lstrip("-")]
    return ["to", "the", "power", "of", *context.number_words(exponent)]


def read_index(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a subscript: `H₂O`."""
    context.say(context.cardinal(unicodedata.normalize("NFKC", text)), start, end)


def read_dotted(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read numbers between points: `1.2.3`."""
    context.say([item for part in text.split(".") for item in ["point", *context.cardinal(part)]][1:], start, end)


def read_grouped(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a number with spaces between thousands: `10 000`."""
    context.say(context.cardinal(text.replace(" ", "")), start, end)
    _unit_of_fraction(context, end, many=True)


def read_decimal_comma(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a number with a decimal comma: `3,5 %`."""
    context.say(context.number_words(text.replace(",", ".")), start, end)


def read_scaled(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a number and a letter for its scale: `50k`."""
    digits = text.rstrip("bnmtkKMBT")
    context.say([*context.number_words(digits), tables.SCALES[text[len(digits) :].lower()]], start, end)
    context.join_range(end, _TO_SCALED)


_SCALES: Final = frozenset(tables.SCALES.values())
_TO_SCALED: Final = re.compile(r"(?P<dash>-)(?=\d[\d.,]*(?:bn|mn|tn|[kKmM])(?!\w))")
_LINK: Final = r"(?:\s(?:to|and|or|then|versus|vs\.?)|\s?[-–]|[,;](?:\s(?:and|or|then|to))?)\s?"
_LINK_BEFORE: Final = re.compile(rf"{_LINK}(?:\s?(?:~|about|over|nearly|almost|around|roughly|some|just)\s?)?$")
_THOUSANDS: Final = re.compile(r"\d,\d{3}$")
_SCALED_AFTER: Final = re.compile(
    rf"{_LINK}[$£€]?\d[\d.,]*(?:(?:k|K|bn|\s(?:thousand|million|billion))(?!\w)|m(?=\s+{CROWD}))"
)
_COUNTED_BEFORE: Final = re.compile(
    r"\b(?:sales|revenues?|profits?|turnover|earnings|income|budget|funding|valuation|debts?|loss(?:es)?|views|followers"
    r"|subscribers|users|downloads|streams|plays|likes|members|customers|visitors|votes|copies|population)\b"
    r"(?!.*\b(?:an?|the)\s$)[^.!?\d]{0,25}$",
    re.IGNORECASE,
)
_PAID_BEFORE: Final = re.compile(
    r"\b(?:pa(?:y|ys|id)|costs?|spen[dt]|raised|earned|owe[sd]?|worth|invest(?:ed)?|donated|bid|offer(?:ed|s)?|save[sd]?)"
    r"\s(?:(?:about|over|nearly|almost|around|roughly|just|up to|him|her|them|us|me)\s){0,2}$"
)
_PRICED_AFTER: Final = re.compile(
    r"\s(?:budget|deal|fee|fine|loan|grant|investment|contract|bid|offer|transfer|settlement|mortgage|donation|bonus|prize"
    r"|lawsuit|fund|funding|valuation|payout|payment|salary|euro|dollar|pound)\b"
)
_COUNT_ENDS: Final = re.compile(
    r"\s*(?:[^\w\s]|$)|\s(?:to|and|or|in|by|from|a|per|this|last|over|after|then|vs|versus|at|on|for)\b"
)
_LENGTHS: Final = re.compile(
    r"\b(?:won|wins?|medals?|events?|runs?|ran|running|races?|raced|sprints?|swims?|swam|met(?:er|re)s?|hurdles|relay|walk"
    r"|dive|jump|km|wide|long|tall|high|deep|away)\b|(?<![\d.,])(?:5|10)k(?=,?\s(?:and\s|or\s)?(?:[1-9]|15)00m)"
    r"|(?<!\d)(?:[1-9]|15)00m,?\s(?:and\s|or\s)?(?:5|10)k"
)
"""Words of lengths, and of races that stand side by side."""


def is_million(context: NormalizerContext, start: int, end: int) -> bool:
    """Return whether "m" after a number is a million: "from 500k to 2m", "sales of 2m"."""
    before = context.before(start)
    if _LENGTHS.search(before + context.text[start:end] + context.after(end)):
        return False
    link = _LINK_BEFORE.search(before)
    if link is not None and context.pieces:
        place = context.offset + start - len(before) + link.start()
        thousands = _THOUSANDS.search(before, 0, link.start()) is not None
        if thousands or any(piece.end == place and piece.text in _SCALES for piece in context.pieces[-3:]):
            return True
    if _SCALED_AFTER.match(context.text, end) or _PRICED_AFTER.match(context.text, end):
        return True
    counted = _COUNTED_BEFORE.search(before) or _PAID_BEFORE.search(before)
    return counted is not None and _COUNT_ENDS.match(context.text, end) is not None


def read_round(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a round number in the plural: `100s of people`."""
    digits = text.rstrip("s").replace(",", "")
    spoken = ["ten"] if digits == "10" else context.cardinal(digits)
    context.say(numbers.plural(spoken[1:] if spoken[0] == "one" else spoken), start, end)


def read_times(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a factor, or a coefficient after an equals sign: `3x`."""
    if _EQUALS.search(context.before(start)):
        context.say([*context.number_words(text[:-1]), "X"], start, end)
        return
    context.say([*context.number_words(text[:-1]), "times"], start, end)


def read_mixed_fraction(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a whole number and a fraction: `2 1/2`."""
    whole, part = re.split("[ -]", text)
    context.say([*context.cardinal(whole), "and"], start, start + len(whole))
    top, bottom = tables.VULGAR_FRACTIONS[part] if part in tables.VULGAR_FRACTIONS else part.split("/")
    context.say(_part(context, top, bottom), start + len(whole) + 1, end)
    _unit_of_fraction(context, end, many=True)


def _part(context: NormalizerContext, top: str, bottom: str) -> list[str]:
    """Return the words of a fraction after a whole number."""
    words = numbers.fraction(top, bottom, british=context.british)
    return ["a", *words[1:]] if (top, bottom) in (("1", "2"), ("1", "4")) else words


def read_ratio(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a fraction, a day, or a blood pressure: `3/4`."""
    top, bottom = text.rstrip("rdsthn").split("/")
    if context.next_word(end) == "odds":
        context.say([*context.cardinal(top), "to", *context.cardinal(bottom)], start, end)
        return
    if dates.read_days(context, [top, bottom], "and", start, end):
        return
    if dates.read_month_and_day(context, top, bottom, start, end):
        return
    if top == bottom or text in ("24/7", "9/11"):
        context.say([*context.cardinal(top), *context.cardinal(bottom)], start, end)
    elif int(top) > int(bottom) >= 20:  # a blood pressure
        context.say([*context.cardinal(top), "over", *context.cardinal(bottom)], start, end)
        _unit_of_fraction(context, end, many=True)
    else:
        context.say(numbers.fraction(top, bottom, british=context.british), start, end)
        _unit_of_fraction(context, end, many=int(top) > int(bottom))


def _unit_of_fraction(context: NormalizerContext, end: int, *, many: bool, letters: str = "") -> None:
    """Read the unit after a number. `letters` are the units of one letter that may stand here."""
    if context.text[end : end + 1] == '"' and context.text.count('"', max(0, end - 40), end) % 2 == 0:
        context.say("inches" if many else "inch", end, end + 1)
        context.end = end + 1
        return
    match = _UNIT_AFTER.match(context.text, end)
    unit = match.group().strip().replace("μ", "µ") if match is not None else ""
    if match is not None and (len(unit) > 1 or unit in (*letters,)) and unit != "in":
        context.say(context.accented(tables.UNITS[unit][many]), end + len(match.group()) - len(unit), match.end())
        context.end = unit_end(context, match.end())


def unit_end(context: NormalizerContext, end: int) -> int:
    """Return the end of a unit, with its full stop if that ends no sentence."""
    return end + (re.match(r"\.(?=,|\s+[a-z\d(])", context.text[end : end + 8]) is not None)


def read_dimension(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read two sizes: `4x6`."""
    left, right = re.split(r"\s?[x×]\s?", text)
    context.say([*context.number_words(left), "by", *context.number_words(right)], start, end)


def read_ordinal(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an ordinal: `21st`."""
    if not dates.read_days(context, [text[:-2]], "", start, end):
        context.say(numbers.ordinal(text[:-2], british=context.british), start, end)
    context.join_range(end, _TO_ORDINAL)


def read_minus(context: NormalizerContext, start: int) -> None:
    """Read the minus before a number if no letter or digit touches it."""
    before = context.text[max(0, start - 2) : start]
    said = context.pieces and context.pieces[-1].end == context.offset + start
    if before.endswith(("-", "−")) and not before[-2:-1].isalnum() and not said:
        context.say("minus", start - 1, start)


def read_first(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the first number of a range whose second one has a unit or time: "3-5pm"."""
    digits = text.rstrip("-– ")
    dash = start + len(text.rstrip()) - 1
    read_minus(context, start)
    context.say(context.number_words(digits), start, start + len(digits))
    context.say("to", dash, dash + 1)


def read_range(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a range, years, shares, or a number with a hyphen: `5-10`."""
    left, right = re.split(r"\s?[–-]\s?", text)
    days = [left, right]
    if dates.read_days(context, days, "to", start, end) or dates.read_day_before_month(context, days, start, end):
        return
    years = all(_YEAR.fullmatch(side) and (side[1] != "0" or int(side) % 10) for side in (left, right)) or (
        _YEAR.fullmatch(left) and re.fullmatch(r"20\d\d|\d\d", right)
    )
    if context.previous_word(start).lower() in ("boeing", "airbus") or _AIRLINER.fullmatch(text):
        context.say([*context.digits_in_name(left), *context.digits_in_name(right)], start, end)
        return
    if len(right) > 2 and right[0] == "0" and right.isdecimal():  # the number of an invoice
        context.say([*context.digits_in_name(left), *numbers.one_by_one(right)], start, end)
        return
    if (
        "-" in text and left.isdecimal() and right.isdecimal() and int(left) + int(right) == 100 and int(left) >= 50
    ):  # shares
        context.say([*context.cardinal(left), *context.cardinal(right)], start, end)
        return
    if years:
        last = numbers.year(right, british=context.british) if len(right) == 4 else context.cardinal(right)
        spoken = [numbers.year(left, british=context.british), last]
    else:
        spoken = [context.number_words(left), context.number_words(right)]
    context.say([*spoken[0], "to", *spoken[1]], start, end)


def read_number(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a plain number: cardinal, year, hour, code: `1,234`."""
    read_minus(context, start)
    if dates.read_days(context, [text], "", start, end) or dates.read_day_before_month(context, [text], start, end):
        return
    if codes.read_named_number(context, text, start, end):
        return
    if len(text) < 3 and text[0] != "0" and _TO_MONTH.match(context.text, end):
        context.say(["the", *numbers.ordinal(text, british=context.british)], start, end)
        return
    if re.fullmatch(r"\d+\.\d+", text) and context.previous_word(start).lower() in tables.VERSIONED:
        whole, fraction = text.split(".")
        tail = (
            ["oh", *context.cardinal(fraction[1])] if re.fullmatch(r"0[1-9]", fraction) else context.cardinal(fraction)
        )
        context.say([*context.cardinal(whole), "point", *tail], start, end)
    elif _HOURS.fullmatch(text) and (_MILITARY.search(context.before(start)) or _HOUR_NOUN.match(context.text, end)):
        tail = ["oh"] if text[2] == "0" else []
        tail = ["hundred"] if text[2:] == "00" else [*tail, *context.cardinal(str(int(text[2:])))]
        context.say(["oh" if text[1] != "0" else "zero", *(context.cardinal(text[1])), *tail], start, end)
    elif len(text) == 4 and context.next_word(end) == "hours" and _MILITARY.search(context.before(start)):
        context.say(context.digits_in_name(text), start, end)
    elif _YEAR.fullmatch(text) and _is_year(context, text, start, end):
        context.say(numbers.year(text, british=context.british), start, end)
    elif text in ("1", "2", "3") and _BOOK_NUMBER.match(context.text, end):
        context.say(numbers.ordinal(text, british=context.british), start, end)
    elif (
        text.isdecimal() and len(text) >= 10 and not (text.endswith("000") and len(text) <= numbers.MAX_CARDINAL_DIGITS)
    ):
        for i, digit in enumerate(text):  # a span for each, so that a long one can be cut
            context.say(numbers.one_by_one(digit), start + i, start + i + 1)
    else:
        context.say(context.number_words(text), start, end)


def _is_year(context: NormalizerContext, text: str, start: int, end: int) -> bool:
    counted = _COUNTED.match(context.text, end) is not None or context.before(start).rstrip().endswith("=")
    if not counted or _YEAR_BEFORE.search(context.before(start)):
        return True
    return _PRESENT_YEAR.fullmatch(text) is not None and _DETERMINER.search(context.before(start)) is not None


def read_numeral(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read superscripts, fractions, circled numbers, and letters of any other script."""
    if text in tables.VULGAR_FRACTIONS:
        top, bottom = tables.VULGAR_FRACTIONS[text]
        mixed = start > 0 and context.text[start - 1].isdecimal()
        context.say(
            ["and", *_part(context, top, bottom)] if mixed else numbers.fraction(top, bottom, british=context.british),
            start, end,
        )  # fmt: skip
        _unit_of_fraction(context, end, many=mixed)
        return
    value = unicodedata.numeric(text, -1.0)
    if value >= 0 and value == int(value) and value < 1e15:
        context.say(context.cardinal(str(int(value))), start, end)
    else:
        context.say([text], start, end)
