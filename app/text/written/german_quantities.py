"""Numbers, money, units, formulas, codes and abbreviations of German."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

from app.text.written.german_ordinals import is_feminine, is_neuter, last_word
from app.text.written.language import LanguageWords, Noun, either
from app.text.written.quantities import (
    FRACTIONS,
    abbreviation_words,
    address_words,
    number_words,
    range_words,
    signed,
    sum_words,
    unit_words,
)
from app.text.written.rules import Match, Reading, Spoken

_ONE_BEFORE: Final = re.compile(r"(?:\d\.|\bpro|\bje|\bjede|\bletzten?|\bnächsten?)\s$")
_ENDS_ER: Final = re.compile(r"\s[A-ZÄÖÜ]\w+(?:end|tellt|rdnet|eamt|tiert|annt|lich)er\b")
_LAW: Final = re.compile(r"Abs\.?\s\d{1,2}\w?\s$")
_RUNS: Final = re.compile(r"\d+|[^\W\d_]")
_NAME_BEFORE: Final = re.compile(r"(?:^|\s)[A-ZÄÖÜ][\w.]*\s$")


# Numbers and money


def read_range_of_years(match: Match, language: LanguageWords) -> str | None:
    """Read a range, the score of a game, or a span of years: `1914-1918`."""
    words, first, last = range_words(match, language, "zu"), match["first"], match["last"]
    if words is None or not (len(first) == len(last) == 4 and match["unit"] is None):
        return words
    return f"{number_words(language, first)} bis {number_words(language, last)}"


def read_money(match: Match, language: LanguageWords) -> str:
    """Read an amount of money, and what it is per: `3,50 €/kg`."""
    money = language.money[match["currency"] or match["currency_after"]]
    number = match["amount"] or match["amount_before"]
    cents = re.search(r"[.,](\d\d)$", number)
    if cents is None or int(re.sub(r"\D", "", number[: cents.start()])) or not int(cents[1]):
        words = sum_words(language, number, money)
        words = words.removesuffix(f" {money.cents}") if money.cents else words
    else:
        words = f"{language.cardinal(int(cents[1]), 'm')} {money.cents or money.noun.many}"
    return signed(match, language, f"{words} pro {language.units[match['per']].one}" if match["per"] else words)


def read_francs(match: Match, language: LanguageWords) -> Spoken:
    """Read francs of Switzerland: `Fr. 12.50`."""
    amount = re.sub(r"['’]", "", match["francs"] or match["amount"])
    words = number_words(language, amount, Noun("Franken", "Franken"))
    cents = match["cents"]
    return match.but_last_stop(f"{words} {language.cardinal(int(cents))}" if cents and int(cents) else words)


def read_scaled(match: Match, language: LanguageWords) -> str:
    """Read thousands or millions, perhaps of a currency: `3 Mio. €`."""
    money = language.money.get(match["currency"] or match["currency_after"] or "")
    scale = {"K": "k", "M": "Mio", "m": "Mio"}.get(match["scale"], match["scale"])
    words = number_words(language, match["amount"], language.scales[scale])
    return f"{words} {money.noun.many}" if money else words


def read_even(match: Match, language: LanguageWords) -> str:
    """Read an amount of money without cents: `5,-`."""
    money = language.money.get(match["currency"] or match["currency_after"] or "€", language.money["€"])
    return number_words(language, match["amount"], money.noun)


def read_percent(match: Match, language: LanguageWords) -> str:
    """Read a percentage: `5 %`."""
    words = signed(match, language, f"{number_words(language, match['amount'])} Prozent")
    return words.replace("eins Prozent", "ein Prozent") if match["amount"] == "1" else words


def read_adjective_of_percent(match: Match, language: LanguageWords) -> str:
    """Read an adjective with a percentage: `5%ige`."""
    return f"{language.cardinal(int(match['number']))}prozent{match['ending']}"


def read_score(match: Match, language: LanguageWords) -> str:
    """Read two numbers with a colon between: `3:1`."""
    return f"{number_words(language, match['first'])} zu {number_words(language, match['last'])}"


def read_pressure(match: Match, language: LanguageWords) -> str:
    """Read a pressure of blood: `120/80 mmHg`."""
    high, low = match["high"] or match["high_after_word"], match["low"] or match["low_after_word"]
    return f"{language.cardinal(int(high))} zu {language.cardinal(int(low))}"


def read_times(match: Match, language: LanguageWords) -> str:
    """Read how many times, or an adjective with a number: `3x`, `3-mal`, `5-jährige`."""
    value = int(match["number"])
    words = language.cardinal(value, "m" if value == 1 else None)
    return f"{words} mal" if match["word"] == "x" else f"{words}{match['word'].lstrip('-')}"


def read_spaced_number(match: Match, language: LanguageWords) -> str:
    """Read a number whose thousands spaces separate: `12 000 Euro`."""
    money = language.money[match["currency"]].noun if match["currency"] else None
    return number_words(language, re.sub(r"\D", "", match.text), money)


def read_one(match: Match, language: LanguageWords) -> str:
    """Read "1" before a noun: "1 Prise". After a noun it is a name: "Platz 1 Berlin"."""
    named = _NAME_BEFORE.search(match.before)
    return language.cardinal(1, None if named else "f" if is_feminine(match["noun"], language) else "m")


# Fractions and formulas


def read_fraction(match: Match, language: LanguageWords) -> str | None:
    """Read a fraction, perhaps of a unit: `3/4 l`, `½`."""
    unit = f" {language.units[match['unit']].one}" if match["unit"] else ""
    if match["sign"]:
        return ("ein halb" if match["sign"] == "½" else language.part(*FRACTIONS[match["sign"]])) + unit
    top, bottom = int(match["top"]), int(match["bottom"])
    if match.string[match.end :].lstrip().startswith("="):
        return f"{language.cardinal(top)} {language.tables['sign']['÷']} {language.cardinal(bottom)}"
    return language.part(top, bottom) + unit if bottom >= 2 and top < 2 * bottom else None


def read_half(match: Match, language: LanguageWords) -> Spoken:
    """Read a half by the gender of what follows: `1/2 Stunde`."""
    noun = language.units[match["unit"]].one if match["unit"] else match["noun"]
    half = "eine halbe" if is_feminine(noun, language) else f"ein halb{'es' if is_neuter(noun, language) else 'er'}"
    if match["unit"]:
        return match.start, match.end, f"{half} {noun}"
    return match.start, match.start_of("noun") - 1, half


def read_mixed(match: Match, language: LanguageWords) -> str | None:
    """Read a whole number with a fraction: `2 1/2 kg`."""
    top, bottom = FRACTIONS[match["sign"]] if match["sign"] else (int(match["top"]), int(match["bottom"]))
    if bottom < 2:
        return None
    fraction = "einhalb" if (top, bottom) == (1, 2) else f" {language.part(top, bottom)}"
    return f"{language.cardinal(int(match['whole']), 'm')}{fraction}{_many(match, language)}"


def _many(match: Match, language: LanguageWords) -> str:
    """Return the unit of a form in the plural behind a space, or ""."""
    return f" {language.units[match['unit']].many}" if match["unit"] else ""


def read_dimension(match: Match, language: LanguageWords) -> str:
    """Read a size: `3 x 4 m`."""
    sizes = [number_words(language, match[name]) for name in ("first", "second", "third") if match[name]]
    return f"{' mal '.join(sizes)}{_many(match, language)}"


def read_power(match: Match, language: LanguageWords) -> str:
    """Read a power: `10²`, `x^n`."""
    exponent = unicodedata.normalize("NFKC", match["raised"] or match["exponent"]).strip("()").replace("−", "-")
    value = exponent.lstrip("-+")
    number = language.cardinal(int(value)) if value.isdecimal() else value
    base = f"{number_words(language, match['base'])} " if match["base"] else ""
    return f"{base}hoch {'minus ' if exponent[0] == '-' else ''}{number}{_many(match, language)}"


def read_ion(match: Match, language: LanguageWords) -> str:
    """Read an ion: `Ca²⁺`, `Na+`."""
    charge = unicodedata.normalize("NFKC", match["charge"] or "")
    sign = "plus" if (match["sign"] or match["plain_sign"]) in "⁺+" else "minus"
    return f"{_spell(language, (match['elements'] or match['element']) + charge)} {sign}"


def read_symbol(match: Match, language: LanguageWords) -> str:
    """Read a Greek letter: `α`."""
    return language.tables["symbol"][match.text.lower()]


def read_operator(match: Match, language: LanguageWords) -> str:
    """Read an operator of mathematics or of a program: `!=`."""
    return language.tables["operator"][match.text.strip()]


def read_comparison(match: Match, language: LanguageWords) -> str:
    """Read a sign between variables: `x < y`."""
    return language.tables["sign"][match.text]


def read_inches(match: Match, language: LanguageWords) -> Spoken:
    """Read inches, `27"`, or a number before a closing quotation mark."""
    words = number_words(language, match["amount"], language.units["m"]).rpartition(" ")[0]
    if match.text.endswith(("″", "”")) or match.string.count('"', 0, match.start) % 2 == 0:
        return match.start, match.end, f"{words} Zoll"
    return match.start, match.end_of("amount"), number_words(language, match["amount"])


# Units


def read_unit_in_case(match: Match, language: LanguageWords) -> Spoken:
    """Read an amount of a unit: `5 kg`; in the dative: `vor 5 J.`."""
    words = unit_words(match, language)
    if words.endswith(("Jahre", "Tage", "Monate")) and last_word(match) in language.sets["dative"]:
        words += "n"
    return match.but_last_stop(words)


@cache
def _amounts(language: LanguageWords) -> re.Pattern[str]:
    """Return the expression of an amount with its unit or currency, at the end of a text."""
    return re.compile(rf"[\d⁰¹²³⁴⁵⁶⁷⁸⁹]\s?(?:{either(language.units)}|{either(language.money)}|Euro|Mio\.? €)$")


def read_per(match: Match, language: LanguageWords) -> str | None:
    """Read what an amount with a unit is per: `5 €/Stück`."""
    if not _amounts(language).search(match.before):
        return None
    noun = language.units.get(match["unit"])
    return f"pro {noun.one if noun else language.tables['rate'].get(match['unit'], '')}".rstrip()


def read_rate(match: Match, language: LanguageWords) -> str:
    """Read what a number is per: `5/Tag`."""
    unit = language.units.get(match["unit"]) or language.units.get(f"{match['unit']}.")
    return f"pro {unit.one if unit else match['unit']}"


def read_bare_unit(match: Match, language: LanguageWords) -> str:
    """Read a unit without a number: `pro kg`, `in km`."""
    noun = language.units[match["unit"]]
    return noun.many if match.before.endswith("in ") else noun.one


def read_compound(match: Match, language: LanguageWords) -> str:
    """Read an amount at the beginning of a compound: `5-kg-Sack`."""
    if match["scale"]:
        return number_words(language, match["amount"], language.scales[match["scale"]])
    unit = match["unit"]
    noun = language.money[unit].noun if unit in language.money else language.units[unit]
    return f"{number_words(language, match['amount'])} {noun.many if noun.gender == 'f' else noun.one}"


# Codes


def _spell(language: LanguageWords, text: str) -> str:
    """Return letters one by one, and digits as numbers."""
    return " ".join(
        run.upper()
        if not run.isdecimal()
        else language.digits(run)
        if run[0] == "0" and len(run) > 1
        else language.cardinal(int(run))
        for run in _RUNS.findall(text)
    )


def read_code(match: Match, language: LanguageWords) -> str:
    """Read letters one by one and digits as numbers: `H₂O`, `A4`."""
    return _spell(language, unicodedata.normalize("NFKC", match.text))


def read_digits(match: Match, language: LanguageWords) -> str:
    """Read digits one by one: `PIN 1234`."""
    return language.digits(match.text)


def read_account(match: Match, language: LanguageWords) -> str:
    """Read the number of an account: `DE89 3704 0044`."""
    return f"{' '.join(match['country'])} {language.digits(match['number'])}"


def read_phone(match: Match, language: LanguageWords) -> str:
    """Read a telephone number: `+49 30 123456`."""
    digits = language.digits(match.text.replace("(0)", ""))
    return f"plus {digits}" if match.text.startswith("+") else digits


def read_number_and_letter(match: Match, language: LanguageWords) -> str:
    """Read the number of a house or seat with its letter: `5a`."""
    return f"{language.cardinal(int(match['number']))} {match['letter']}"


def read_path(match: Match, language: LanguageWords) -> str:
    """Read the path of a file: `/usr/bin`."""
    return address_words(language, match.text)


def read_letters(match: Match, language: LanguageWords) -> str:
    """Read capitals letter by letter: `EU`."""
    return " ".join(match.text)


def read_hash(match: Match, language: LanguageWords) -> str:
    """Read the sign before a number or a tag: `#5`, `#Wort`."""
    return "Nummer" if match.string[match.end].isdecimal() else "Hashtag"


def read_heart(match: Match, language: LanguageWords) -> str:
    """Read a heart after "I" or "we"."""
    return "liebe" if match["after_we"] is None else "lieben"


# Abbreviations


def read_short(match: Match, language: LanguageWords) -> Spoken:
    """Read an abbreviation: of an adjective with its ending, of a unit in the singular behind "pro"."""
    start, end, words = abbreviation_words(match, language)
    sets, last = language.sets, last_word(match)
    if match.text in sets["adjectives"] and re.match(r"\s[A-ZÄÖÜ]", match.string[end : end + 2]):
        ends_er = last not in sets["strong"] and _ENDS_ER.match(match.string[end : end + 40])
        words += "en" if last in sets["weak"] else "er" if ends_er else "e"
    unit = language.units.get(match.text)
    return start, end, unit.one if unit is not None and _ONE_BEFORE.search(match.before) else words


def read_street(match: Match, language: LanguageWords) -> Spoken:
    """Read the name of a street: `Hauptstr. 5`."""
    return match.but_last_stop(f"{match['name']}straße")


def read_page(match: Match, language: LanguageWords) -> str:
    """Read a page, or after a paragraph of a law a sentence: "Abs. 1 S. 2"."""
    return "Satz" if _LAW.search(match.before) else "Seite"


def read_paragraph(match: Match, language: LanguageWords) -> str:
    """Read the sign of paragraphs: `§ 5`, `§§ 5-7`."""
    return "Paragrafen" if len(match.text) > 1 else "Paragraf"


def read_verse(match: Match, language: LanguageWords) -> str:
    """Read a verse of the Bible: `Joh 3,16`."""
    chapter, verse = (language.cardinal(int(match[name])) for name in ("chapter", "verse"))
    return f"{language.tables['bible'][match['book']]} {chapter} Vers {verse}"


def read_beside_number(match: Match, language: LanguageWords) -> Reading:
    """Read a letter with a full stop beside a number or name: `5 f.`, `v. 3.5.`, `H. 2`, `Gr. 38`."""
    if match["after_number"]:
        return match.but_last_stop({"f": "folgende", "ff": "fortfolgende", "S": "Seiten"}[match["after_number"]])
    if match["before_name"]:
        return "vom" if match.string[match.end :].lstrip()[:1].isdecimal() else "von"
    return "Heft" if match["before_number"] == "H" else "Größe"
