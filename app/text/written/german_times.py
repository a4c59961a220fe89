"""Dates and times of German."""

from __future__ import annotations

from app.text.written.german_ordinals import last_word, ordinal, year_words
from app.text.written.language import LanguageWords
from app.text.written.quantities import counted, number_words
from app.text.written.rules import Match


def _date_words(match: Match, language: LanguageWords, day: int, month: int, year: str) -> str | None:
    """Return the words of a date, or None if there is no such day. The year may be ""."""
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    words = f"{ordinal(match, language, day, day=True)} {language.months[month - 1]}"
    if not year:
        return words
    century = "" if len(year) > 2 else "20" if int(year) < 70 else "19"
    return f"{words} {year_words(language, int(century + year))}"


def read_date(match: Match, language: LanguageWords) -> str | None:
    """Read a date in digits: `2024-10-03`, `3.10.2024`, `3.10.`."""
    return _date_words(match, language, int(match["day"]), int(match["month"]), match["year"] or "")


def read_day_of_month(match: Match, language: LanguageWords) -> str | None:
    """Read a day before the name of its month: `3. Okt. 2024`."""
    name = language.tables["month"].get(match["month"], match["month"])
    return _date_words(match, language, int(match["day"]), language.months.index(name) + 1, match["year"] or "")


def read_days(match: Match, language: LanguageWords) -> str:
    """Read two days of one month: `3.-5. Mai`."""
    first, stem = ordinal(match, language, int(match["first"]), day=True), language.ordinal(int(match["first"]))
    link = "und" if match["link"] == "/" else "bis"
    return f"{first} {link} {language.ordinal(int(match['last']))}{first[len(stem) :]}"


def read_month_of_year(match: Match, language: LanguageWords) -> str:
    """Read a month and a year in digits: `03/2024`."""
    return f"{language.months[int(match['month']) - 1]} {number_words(language, match['year'])}"


def read_day_pair(match: Match, language: LanguageWords) -> str:
    """Read two abbreviated days of the week: `Mo.-Fr.`."""
    return f"{language.tables['day'][match['first']]} bis {language.tables['day'][match['last']]}"


def read_weekday(match: Match, language: LanguageWords) -> str:
    """Read an abbreviated day of the week: `am Mo.`."""
    return language.tables["day"][match["after_word"] or match["before_word"]]


def read_decade(match: Match, language: LanguageWords) -> str:
    """Read a decade: `80er`, `1990er Jahre`."""
    decade = f"{year_words(language, int(match['years']))}er{match['ending'] or ''}"
    return f"{decade}{(match['noun'] or '').replace('-', ' ')}"


def _time(language: LanguageWords, hours: str, minutes: str | None) -> str:
    words = f"{language.cardinal(int(hours), 'm')} Uhr"
    return f"{words} {language.cardinal(int(minutes))}" if minutes and int(minutes) else words


def read_hours(match: Match, language: LanguageWords) -> str:
    """Read times before "Uhr": `9-17 Uhr`."""
    first = _time(language, match["hours"], match["minutes"])
    if match["last_hours"] is None:
        return first
    if match["minutes"] is None:
        first = language.cardinal(int(match["hours"]), "m")
    return f"{first} bis {_time(language, match['last_hours'], match['last_minutes'])}"


def read_clock(match: Match, language: LanguageWords) -> str:
    """Read a time, or a proportion: `14:30`, `Format 16:9`."""
    if last_word(match) in language.sets["proportions"]:
        return f"{language.cardinal(int(match['hours']))} zu {language.cardinal(int(match['minutes']))}"
    return _time(language, match["hours"], match["minutes"])


def read_full_hour(match: Match, language: LanguageWords) -> str:
    """Read an hour after a word of time: `um 9 h`."""
    return _time(language, match["hours"], None)


def read_lasting(match: Match, language: LanguageWords) -> str:
    """Read a time with seconds, or a length of time: `1:30 h`, `dauert 1:30:15`."""
    hours, minutes, seconds = match["hours"], match["minutes"], match["seconds"]
    second_words = f"und {counted(language, int(seconds), 's')}" if seconds else ""
    if match["unit"] in (None, "h") and last_word(match) not in language.sets["before_durations"]:
        words = _time(language, hours, minutes)
        if not seconds:
            return words
        return f"{words if int(minutes) else f'{words} null'} {second_words}"
    parts = [counted(language, int(value), unit) for value, unit in ((hours, "h"), (minutes, "min")) if int(value)]
    return " ".join([*parts, second_words] if seconds and int(seconds) else parts)


def read_minutes(match: Match, language: LanguageWords) -> str:
    """Read minutes and seconds: `3:45 min`."""
    words = f"{counted(language, int(match['minutes']), 'min')} {language.cardinal(int(match['seconds']))}"
    return f"{words} Komma {language.digits(match['fraction'])}" if match["fraction"] else words


def read_overtime(match: Match, language: LanguageWords) -> str:
    """Read how a game ended: `n. V.`, `i. E.`."""
    if match.text[-2] == "V":
        return "nach Verlängerung"
    return f"{'nach' if match.text[0] == 'n' else 'im'} Elfmeterschießen"


def read_life(match: Match, language: LanguageWords) -> str:
    """Read the signs of birth and death: `* 1800`, `† 1880`."""
    return "gestorben" if match.text[0] == "†" else "geboren"


def read_always(match: Match, language: LanguageWords) -> str:
    """Read `24/7`."""
    return f"{language.cardinal(24)} {language.cardinal(7)}"
