"""Dates, times, durations and telephone numbers of Spanish, French, Italian and Portuguese."""

from __future__ import annotations

import re
from typing import Final

from app.text.written.language import LanguageWords
from app.text.written.numbers import roman
from app.text.written.quantities import counted, full_year, join
from app.text.written.romance_letters import spell
from app.text.written.rules import Match, Spoken

_LAW: Final = re.compile(r"(?:n\.?[º°]|n[úu]m\.?|[Ll]ey|[Ll]ei|[Dd]ecreto|[Ll]egge|[Rr]esolu\w+)\s?$")
NUMBERED: Final = re.compile(
    r"\b(?:art\.|art[ií]c\w+|n[º°.]|n\.º|n[úu]m\.|loi|ley|legge|lei|d[ée]cret\w*)\s$", re.IGNORECASE
)
"""Words before the number of a law or an article, in which a hyphen is no range."""
_AT: Final = re.compile(r"\b(?:las?|alle|all'|dalle|le|ore)\s?$")
_DATED: Final = ("el", "al", "del", "le", "du", "au", "il", "dal", "em")


# Dates


def day_words(language: LanguageWords, day: int) -> str:
    """Return the words of the day of a month."""
    return language.words["first_day"] if day == 1 else language.cardinal(day)


def _date_words(language: LanguageWords, day: int, month: int, year: int | None = None) -> str | None:
    """Return the words of a date, or None if there is no such day."""
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    link = language.words["date_link"]
    dated = join(day_words(language, day), link, language.months[month - 1])
    return dated if year is None else join(dated, link, language.cardinal(year))


def read_date(match: Match, language: LanguageWords) -> str | None:
    """Read a date in digits: `3/10/2024`, `2024-10-03`. With a dash after it, it begins a span."""
    words = _date_words(language, int(match["day"]), int(match["month"]), full_year(match["year"]))
    return f"{words} {language.words['to']}" if words and match["dash"] else words


def read_iso_date(match: Match, language: LanguageWords) -> str | None:
    """Read a date that begins with the year: `2024-10-03`."""
    return _date_words(language, int(match["day"]), int(match["month"]), int(match["year"]))


def read_abbreviated_date(match: Match, language: LanguageWords) -> Spoken | None:
    """Read a day and an abbreviated month: `3 oct. 2024`, `3-5 oct.`."""
    day, link = int(match["day"]), language.words["date_link"]
    if not 1 <= day <= 31:
        return None
    first = join(day_words(language, int(match["first_day"])), language.words["to"]) if match["first_day"] else ""
    words = join(first, day_words(language, day), link, language.capital_months[match["month"]])
    if match["year"]:
        words = join(words, link, language.cardinal(full_year(match["year"])))
    return match.but_last_stop(words)


def read_roman_month(match: Match, language: LanguageWords) -> str | None:
    """Read a date whose month is a Roman numeral: with a year, or after an article."""
    day, month, year = int(match["day"]), roman(match["month"]), match["year"]
    if month is None or not (year or match.word_before.lower() in _DATED):
        return None
    return _date_words(language, day, month, full_year(year) if year else None)


def read_month(match: Match, language: LanguageWords) -> str:
    """Read an abbreviated month before a year: `oct. 2024`."""
    return language.capital_months[match["month"]]


def read_month_pair(match: Match, language: LanguageWords) -> Spoken:
    """Read two abbreviated months: `ene.-mar.`."""
    first, last = language.capital_months[match["first"]], language.capital_months[match["last"]]
    return match.but_last_stop(f"{first} {match['link'] or language.words['to']} {last}")


def read_month_alone(match: Match, language: LanguageWords) -> Spoken | None:
    """Read an abbreviated month that no number follows: `desde feb.`."""
    if match["month"].lower() in language.sets["months_that_are_words"]:
        return None
    return match.but_last_stop(language.capital_months[match["month"]])


def read_month_of_year(match: Match, language: LanguageWords) -> str:
    """Read a month and a year in digits, `03/2024`, which after the name of a law are its number."""
    year = language.cardinal(int(match["year"]))
    before = match.before[-20:]
    if _LAW.search(before) or NUMBERED.search(before):
        return f"{language.cardinal(int(match['month']))} {year}"
    return join(language.months[int(match["month"]) - 1], language.words["date_link"], year)


def read_date_pair(match: Match, language: LanguageWords) -> str | None:
    """Read two days of a year: `3/10 a 5/10`."""
    first = _date_words(language, int(match["first_day"]), int(match["first_month"]))
    last = _date_words(language, int(match["last_day"]), int(match["last_month"]))
    return f"{first}{match['link']}{last}" if first and last else None


def read_day(match: Match, language: LanguageWords) -> str | None:
    """Read the day before the name of a month: `1 de mayo`."""
    return day_words(language, int(match["day"])) if 1 <= int(match["day"]) <= 31 else None


def _day_name(match: Match, language: LanguageWords, short: str) -> str:
    """Return the name of an abbreviated day of the week: in the plural after an article in the plural."""
    name = language.capital_days[short]
    many = match.word_before.lower() in ("los", "les", "nos", "nas", "aos", "às")
    return f"{name}s" if many and name[-1] in "aoi" else name


def read_day_pair(match: Match, language: LanguageWords) -> Spoken:
    """Read two abbreviated days of the week: `lun.-vie.`."""
    link = match["link"].strip()
    between = language.words["to"] if link in ("-", "–", "/") else link
    first, last = (_day_name(match, language, match[name]) for name in ("first", "last"))
    return match.but_last_stop(f"{first} {between} {last}")


def read_weekday(match: Match, language: LanguageWords) -> str | None:
    """Read an abbreviated day of the week: `el lun. 3`."""
    word = (match["day_after_article"] or "").lower()
    if word == "mer" or (word in ("mar", "dom", "sex", "ter", "seg") and not match.text.endswith(".")):
        return None  # "la mer.", "el mar.": a word
    return _day_name(match, language, match["day"] or match["day_after_article"])


def read_fraction(match: Match, language: LanguageWords) -> Spoken | None:
    """Read a day and a month, `el 3/10`; a part of a whole, `7/10`; or a fraction, `3/4`."""
    words = _part_words(match, language)
    return None if words is None else (match.start_of("top"), match.end, words)


def _part_words(match: Match, language: LanguageWords) -> str | None:
    top, bottom = match["top"], match["bottom"]
    amount, value = int(top), int(bottom)
    top_words, bottom_words = language.cardinal(amount), language.cardinal(value)
    zero = "0" in (top[0], bottom[0])
    dated = match["before"] or zero or (amount > 12 and match.text != "24/7")
    if dated and len(bottom) < 3 and (date := _date_words(language, amount, value)):
        return join(language.capital_days.get((match["before"] or "").rstrip(".,")), date)
    if zero:
        return None
    if top == bottom == "50":
        return f"{top_words} {bottom_words}"
    if top == bottom or (value in (10, 20, 100) and amount <= value):
        return f"{top_words} {language.words['out_of']} {bottom_words}"
    if 2 <= value <= 20 and amount < 2 * value:
        return language.part(amount, value)
    return join(top_words, language.words["out_of"] if language.tag in ("fr-fr", "it") else "", bottom_words)


def read_years(match: Match, language: LanguageWords) -> str | None:
    """Read a span of years, `1914-18`, which after the name of a law is its number."""
    first, last = int(match["first"]), int(match["last"])
    if NUMBERED.search(match.before[-20:]):
        return hyphened(language, first, last)
    if last <= first % 100:
        return None
    return f"{language.cardinal(first)} {language.words['to']} {language.cardinal(last)}"


def hyphened(language: LanguageWords, first: int, last: int) -> str:
    """Return the words of two numbers and the hyphen between them."""
    return f"{language.cardinal(first)} {language.tables['address']['-']} {language.cardinal(last)}"


# Times


def hour_words(language: LanguageWords, hours: int) -> str:
    """Return the words of a number of hours."""
    return "un'ora" if language.tag == "it" and hours == 1 else counted(language, hours, "h")


def read_clock(match: Match, language: LanguageWords) -> str:
    """Read a time of the day, or a length of time: `14:30`, `3 h`, `2h15`. With a dash after it, it begins a span."""
    hours, minutes, half = int(match["hours"]), int(match["minutes"] or 0), match["half"]
    alone = not minutes and (match["minutes"] is None or re.search(r"\dh(?:s|rs)?\b|\sh", match.text) is not None)
    lasting = language.tag != "pt-br" and re.search(r"\d\s?[hH]\s?\d", match.text) is not None
    lasting = lasting and not _AT.search(match.before[-8:])
    words = language.cardinal(hours, "f")
    if language.tag == "fr-fr":
        words = hour_words(language, hours) if hours else "zéro heure"
    elif lasting or (alone and not half):
        words = hour_words(language, hours)
    minute = join(language.words["minutes_link"], language.cardinal(minutes)) if minutes else ""
    return join(words, minute, half and spell(language, f"{half.upper()}M"), match["dash"] and language.words["to"])


def read_clock_with_point(match: Match, language: LanguageWords) -> str:
    """Read a time after "at": `alle 14.30`."""
    hours, minutes = language.cardinal(int(match["hours"]), "f"), int(match["minutes"])
    return join(hours, language.words["minutes_link"], language.cardinal(minutes)) if minutes else hours


def read_hour(match: Match, language: LanguageWords) -> str:
    """Read an hour after "at", which is feminine: `a las 21`."""
    return language.cardinal(int(match["hours"]), "f")


def read_meridiem(match: Match, language: LanguageWords) -> str:
    """Read an hour before or after noon: `3pm`."""
    return f"{language.cardinal(int(match['hours']), 'f')} {spell(language, match['half'].upper() + 'M')}"


def read_duration(match: Match, language: LanguageWords) -> str:
    """Read a length of time: `2h 15min 30s`."""
    link = "" if match["gap"] or match["seconds"] else language.words["duration_link"]
    seconds = counted(language, int(match["seconds"]), "s") if match["seconds"] else ""
    hours, minutes = hour_words(language, int(match["hours"])), counted(language, int(match["minutes"]), "min")
    return join(hours, link, minutes, seconds)


def read_short_duration(match: Match, language: LanguageWords) -> str:
    """Read minutes and seconds: `2 min 30 s`."""
    seconds = int(match["seconds"])
    rest = counted(language, seconds, "s") if match["second_sign"] else language.cardinal(seconds)
    return f"{counted(language, int(match['minutes']), 'min')} {rest}"


def read_elapsed(match: Match, language: LanguageWords) -> str:
    """Read a time with seconds, `1:30:15`, or of more than a day's hours: `45:30`."""
    if match["long_minutes"]:
        minutes, seconds = (language.cardinal(int(match[name])) for name in ("long_minutes", "rest"))
        return join(minutes, language.words["minutes_link"], seconds)
    minutes, seconds = counted(language, int(match["minutes"]), "min"), counted(language, int(match["seconds"]), "s")
    return f"{hour_words(language, int(match['hours']))} {minutes} {seconds}"


def read_minutes(match: Match, language: LanguageWords) -> str | None:
    """Read minutes and seconds with their signs: `5' 30"`."""
    if "'" in match.text and re.search(r"(?:^|\s)'", match.string[: match.start]):
        return None
    seconds = counted(language, int(match["seconds"]), "s") if match["seconds"] else ""
    return join(counted(language, int(match["minutes"]), "min"), seconds)


# Telephone numbers


def read_phone(match: Match, language: LanguageWords) -> str:
    """Read a telephone number without signs: in groups in Spanish and French, else digit by digit."""
    digits = re.sub(r"\D", "", match.text)
    if language.tag in ("it", "pt-br"):
        return language.digits(digits)
    size = 3 if language.tag == "es" else 2
    groups = match.text.split() if match.text.startswith("0 8") else re.findall(rf"\d{{1,{size}}}", digits)
    return join(*(language.digits(item) if item[0] == "0" else language.cardinal(int(item)) for item in groups))


def dial_words(language: LanguageWords, text: str) -> str:
    """Return the words of a telephone number: short groups as numbers in Spanish and French, else digit by digit."""
    words = [language.tables["address"]["+"]] if text.startswith("+") else []
    grouped = language.tag in ("es", "fr-fr")
    for item in re.findall(r"\d+", text.replace("(0)", " ")):
        whole = grouped and len(item) <= 3 and item[0] != "0"
        words.append(language.cardinal(int(item)) if whole else language.digits(item))
    return " ".join(words)


def read_dial(match: Match, language: LanguageWords) -> str:
    """Read a telephone number with its code: `+34 912 345 678`."""
    return dial_words(language, match.text)
