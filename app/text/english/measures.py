"""Readings of money and measures."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import numbers, quantities, tables
from app.text.english.normalize import NormalizerContext
from app.text.english.patterns import NUM, SCALE_WORD, SIGN
from app.text.word_sets import word_set

_AMOUNT: Final = rf"\d{{1,3}}(?:\.\d{{3}})+,\d\d|\d+,\d\d?(?!\d|,\d)|{NUM}"
_MONEY: Final = re.compile(rf"(-?)({SIGN})(\s?)(-?)({_AMOUNT})(\s?)(.*)")
_MONEY_CODE: Final = re.compile(rf"([^\W\d]+)\.?\s?({_AMOUNT})\s?(\w*)")
_MONEY_AFTER: Final = re.compile(rf"({_AMOUNT})\s?({SCALE_WORD}|(?:bn|mln|mn|tn|MM|[kKmMbB])\b)?\s?(\D+)$")
_SECOND_AMOUNT: Final = re.compile(
    rf"(-|\s?–\s?)({NUM})(?:\s?({SCALE_WORD})\b|(bn|mln|mn|tn|MM|[kKmMbBT])\b)?(?![\w-]|[.,]\d|\s?%)"
)
_QUANTITY: Final = re.compile(rf"({NUM})(\s?)(.+)$")
_TO_AMOUNT: Final = re.compile(rf"(?P<space>\s)?(?P<dash>[-–])(?(space)\s(?=(?:{SIGN})\d)|(?=(?:{SIGN})?\d))")
_BY: Final = re.compile(r"\s?(?P<dash>[x×])\s?(?=\d)")
_OPENING: Final = re.compile(r'(?<!\d)"')
_RATE: Final = re.compile(r"\d[\d.,]*\s?[a-z]*$")
_TIMES: Final = word_set("day week month year hour minute second person hr wk mo yr min")
_PER_PERSON: Final = re.compile(r"\s?(?:pp|p\.p\.)(?!\w)")
_BILLS: Final = re.compile(r"[125]0{0,2}|1,?000")
_PLURAL_AFTER: Final = re.compile(r"s(?!\w)")
_PLACES: Final = tables.PAIRED | tables.LETTERED
_PER: Final = re.compile(r"/([A-Za-zµμ²³]+)")


def read_money(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an amount after its sign: `$5.50`."""
    match = _MONEY.match(text)
    if match is None:
        raise AssertionError(text)
    sign = "-" if match.group(1) or match.group(4) else ""
    scale, unit = match.group(7), match.group(2).lower()
    number_end = start + match.end(5)
    if _BILLS.fullmatch(match.group(5)) and _PLURAL_AFTER.match(context.text, end):
        context.end = end + 1
        context.say(numbers.plural(context.cardinal(match.group(5))), start, context.end)
        return
    second = _SECOND_AMOUNT.match(context.text, end)
    if second is not None and (not scale or second.group(3) or second.group(4)):
        first = [*context.number_words(sign + match.group(5)), *tables.SCALES.get(scale.lower(), "").split()]
        _two_amounts(context, first, unit, second, start, end)
        return
    stop = number_end if scale and match.group(6) else end
    _amount(context, sign + match.group(5), unit, scale, start=start, number_end=stop, end=end)
    if (person := _PER_PERSON.match(context.text, end)) is not None:
        context.say("per person", end, person.end())
        context.end = person.end()
    context.join_range(end, _TO_AMOUNT)


def _two_amounts(
    context: NormalizerContext, first: list[str], unit: str, second: re.Match[str], start: int, end: int
) -> None:
    """Read a sign before two amounts: "$3-5", "£5-10m"."""
    dash, digits, scale = second.group(1), second.group(2), second.group(3) or second.group(4) or ""
    context.say(first, start, end)
    context.say("to", end, end + len(dash.rstrip()))
    context.end = second.end()
    _amount(context, digits, unit, scale, start=second.start(2), number_end=second.end(), end=second.end())


def read_money_code(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an amount after the code of its currency: `USD 20`."""
    match = _MONEY_CODE.match(text)
    if match is None:
        raise AssertionError(text)
    _amount(context, match.group(2), match.group(1).lower(), match.group(3), start=start, number_end=end, end=end)


def read_money_after(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an amount before its sign or code: `20 €`."""
    if text.endswith("p"):
        one, many = tables.CURRENCIES["£"][2:]
        context.say([*context.cardinal(text[:-1]), one if text == "1p" else many], start, end)
        return
    match = _MONEY_AFTER.match(text)
    if match is None:
        raise AssertionError(text)
    unit, scale = match.group(3).strip().lower(), match.group(2) or ""
    amount = match.group(1)
    if unit == "€" and re.fullmatch(r"\d{1,3}\.\d{3}", amount):  # a continental thousand
        amount = amount.replace(".", "")
    _amount(context, amount, unit, scale, start=start, number_end=start + match.end(1), end=end)
    context.join_range(end, _TO_AMOUNT)


def _amount(
    context: NormalizerContext, digits: str, unit: str, scale: str, *, start: int, number_end: int, end: int
) -> None:
    one, many, cent, cents = tables.CURRENCIES[unit]
    if re.fullmatch(r"-?[\d.]+,\d\d?", digits):
        digits = digits.replace(".", "").replace(",", ".")
    if context.describes_noun(start, end):
        many, cents = one, cent
    rest = context.text[number_end:end]
    rest_start = start if not rest.strip() else end - len(rest.lstrip())
    number_end = end if rest_start == start else number_end
    scale_word = tables.SCALES.get(scale.lower(), "")
    whole, point, fraction = digits.partition(".")
    if scale_word or (point and len(fraction) != 2) or not cent:
        context.say(context.number_words(digits), start, number_end)
        single = digits == "1" and not scale_word
        context.say([*scale_word.split(), *(one if single else many).split()], rest_start, end)
        return
    amount = int(whole.lstrip("-").replace(",", "") or "0")
    small = int(fraction) if fraction else 0
    spoken = ["minus"] if whole.startswith("-") else []
    if amount or not small:
        spoken += [*context.cardinal(whole.lstrip("-") or "0"), *(one if amount == 1 else many).split()]
    if small:
        spoken += ["and"] if amount else []
        spoken += [*context.cardinal(str(small)), cent if small == 1 else cents]
    context.say(spoken, start, end)


def read_height(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read feet and inches, or minutes and seconds: `5'11"`."""
    feet, inches = re.findall(r"\d+", text)
    if int(inches) > 11:  # a time
        names = ["minute" if feet == "1" else "minutes", "seconds" if text.endswith('"') else ""]
        context.say([*context.cardinal(feet), names[0], *context.cardinal(inches), names[1]], start, end)
        return
    context.say([*context.cardinal(feet), "foot", *context.cardinal(inches)], start, end)


def read_inches(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read inches: `a 27" screen`."""
    if len(_OPENING.findall(context.text, 0, start)) % 2:  # the end of a quotation
        context.end = end - 1
        quantities.read_number(context, text[:-1], start, end - 1)
        return
    _measure(context, text[:-1], "in", start, end, end)


def read_feet(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read feet: `6' tall`."""
    _measure(context, text[:-1], "ft", start, end, end)


def read_quantity(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a number and its unit: `5 kg`."""
    match = _QUANTITY.match(text)
    if match is None:
        raise AssertionError(text)
    digits, space, unit = match.group(1), match.group(2), match.group(3).replace("μ", "µ").rstrip(".")
    named = context.previous_word(start).lower() in _PLACES  # "seat 12A"
    if len(unit) == 1 and unit.isupper() and not space and digits.isdecimal() and named:
        context.say([*context.digits_in_name(digits), unit], start, end)
        return
    if unit == "m" and not space and quantities.is_million(context, start, end):
        quantities.read_scaled(context, text, start, end)
        return
    pages = text.endswith("pp.") and len(digits) > 1 and not digits.startswith("-")
    quantities.read_minus(context, start)
    _measure(context, digits, "pp." if pages else unit, start, start + len(digits) if space else end, end)
    if pages:
        context.full_stop_if_last(end)


def _measure(context: NormalizerContext, digits: str, unit: str, start: int, number_end: int, end: int) -> None:
    spaced = number_end < end
    context.end = quantities.unit_end(context, end)
    attached = tables.ATTACHED.get(unit) if not spaced else None
    top, _, bottom = unit.partition("/") if attached is None and unit not in tables.UNITS else (unit, "", "")
    one, many = attached or tables.UNITS[top]
    name = one if digits == "1" or context.describes_noun(start, context.end) else many
    if bottom:
        name += f" per {tables.UNITS[bottom][0]}"
    context.say(context.number_words(digits), start, number_end)
    context.say(context.accented(name), number_end + 1 if spaced else start, end)
    context.join_range(context.end, _TO_AMOUNT)
    context.join_range(context.end, _BY, "by")


def read_relay(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a count and a measure: `4x100m`."""
    left, sign = re.findall(r"^\d+|[x×]", text)
    context.say([*context.cardinal(left), "by"], start, start + len(left))
    tail = text[text.index(sign) + 1 :].lstrip()
    read_quantity(context, tail, end - len(tail), end)


def read_feet_inches(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read feet and inches with their units: `5 ft 11 in`."""
    feet, inches = re.findall(r"\d+", text)
    names = ["foot" if feet == "1" else "feet", "inch" if inches == "1" else "inches"]
    context.say([*context.cardinal(feet), names[0], *context.cardinal(inches), names[1]], start, end)
    context.end = quantities.unit_end(context, end)


def read_rate(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a unit of a rate without a number: `in km/h`."""
    top, bottom = text.replace("μ", "µ").split("/")
    context.say(context.accented(f"{tables.UNITS[top][1]} per {tables.UNITS[bottom][0]}"), start, end)


def read_per(context: NormalizerContext, start: int) -> bool:
    """Read "/hr" after an amount. Return False if no unit stands here."""
    last = context.pieces[-1].text if context.pieces else ""
    match = _PER.match(context.text, start)
    if match is None:
        return False
    if last not in _MEASURES and not (match.group(1) in _TIMES and _RATE.search(context.before(start))):
        return False
    context.say("per", start, start + 1)
    unit = tables.UNITS.get(match.group(1).replace("μ", "µ"))
    if (unit is not None and len(match.group(1)) > 1) or match.group(1) in ("h", "s", "m", "g", "L", "l"):
        context.say(context.accented(tables.UNITS[match.group(1).replace("μ", "µ")][0]), start + 1, match.end())
        context.end = match.end()
    return True


_MEASURES: Final = frozenset(
    name.split()[-1] for names in (*tables.UNITS.values(), *tables.CURRENCIES.values()) for name in names if name
) | {"million", "billion"}
