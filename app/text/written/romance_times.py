"""Dates, times, durations and telephone numbers of Spanish, French, Italian and Portuguese."""

from __future__ import annotations

import re
from typing import Final

from app.text.written import letters
from app.text.written.forms import Found, WrittenForms
from app.text.written.numbers import roman
from app.text.written.romance_tables import ROMANCE
from app.text.written.words import Noun

_LAW: Final = re.compile(r"(?:n\.?[º°]|n[úu]m\.?|[Ll]ey|[Ll]ei|[Dd]ecreto|[Ll]egge|[Rr]esolu\w+)\s?$")
NUMBERED: Final = re.compile(
    r"\b(?:art\.|art[ií]c\w+|n[º°.]|n\.º|n[úu]m\.|loi|ley|legge|lei|d[ée]cret\w*)\s$", re.IGNORECASE
)
"""Words before the number of a law or an article, in which a hyphen is no range."""
_WORDS_TOO: Final = ("mar", "mai", "set", "out", "ago", "gen", "mag")  # words beside months
_AT: Final = re.compile(r"\b(?:las?|alle|all'|dalle|le|ore)\s?$")


def _capitalized(forms: dict[str, str]) -> dict[str, str]:
    return {**forms, **{form[0].upper() + form[1:]: said for form, said in forms.items()}}


def _after_plural(match: re.Match[str]) -> bool:
    """Return whether an article in the plural stands before a form."""
    before = match.string[: match.start()].split()[-1:]
    return bool(before) and before[0].lower() in ("los", "les", "nos", "nas", "aos", "às")


_MAX_ROOMS: Final = 20  # "3 hab." are rooms, "300 hab." inhabitants


class TimeForms(WrittenForms):
    """Dates, times and telephone numbers. Methods are safe on any thread."""

    def __init__(self, tag: str) -> None:
        self._more = ROMANCE[tag]
        self._gendered = tag in ("es", "pt-br")
        self._day_names, self._months = _capitalized(self._more.days), _capitalized(self._more.months)
        marks = dict.fromkeys(("nº", "n°", "n.º", "n.°"), self._more.number_sign)
        self._before_number = _capitalized({**self._more.numbered, **marks})
        super().__init__(tag)
        self._letters = letters.Letters(self._more, self._numbers)

    def _date(self, match: re.Match[str]) -> str | None:
        year = match["y2"]
        full = int(year) if len(year) == 4 else int(year) + (2000 if int(year) < 50 else 1900)
        said = self._on(int(match["d2"]), int(match["m2"]), full)
        return f"{said} {self._words.to}" if said and match["dt"] else said

    def _abbreviated(self, match: re.Match[str]) -> Found | None:
        day, name, year = int(match["md"]), self._months[match["mn"]], match["my"]
        if year and len(year) == 2:
            year = str(int(year) + (2000 if int(year) < 50 else 1900))
        if not 1 <= day <= 31:
            return None
        link = self._words.link
        first = [self._day(int(match["md0"])), self._words.to] if match["md0"] else []
        said = [*first, self._day(day), link, name, *((link, self._numbers.cardinal(int(year))) if year else ())]
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        return match.start(), match.end() - last, " ".join(filter(None, said))

    def _month_name(self, match: re.Match[str]) -> str:
        return self._months[match["mn2"]]

    def _month_pair(self, match: re.Match[str]) -> Found:
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        link = match["mpl"] or self._words.to
        said = f"{self._months[match['mp1']]} {link} {self._months[match['mp2']]}"
        return match.start(), match.end() - last, said

    def _month_alone(self, match: re.Match[str]) -> Found | None:
        if match["ma1"].lower() in _WORDS_TOO:
            return None
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, self._months[match["ma1"]]

    def _roman_month(self, match: re.Match[str]) -> str | None:
        """Read a date whose month is a Roman numeral: with a year, or after an article."""
        day, month, year = int(match["rmd"]), roman(match["rmm"]), match["rmy"]
        before = match.string[: match.start()].split()[-1:]
        dated = year or (before and before[0].lower() in ("el", "al", "del", "le", "du", "au", "il", "dal", "em"))
        if month is None or not (dated and 1 <= day <= 31):
            return None
        if year:
            return self._on(day, month, int(year) + (0 if len(year) == 4 else 1900 if int(year) >= 50 else 2000))
        return " ".join(filter(None, (self._day(day), self._words.link, self._words.months[month - 1])))

    def _month_of(self, match: re.Match[str]) -> str | None:
        before = match.string[max(0, match.start() - 20) : match.start()]
        if _LAW.search(before) or NUMBERED.search(before):
            return f"{self._numbers.cardinal(int(match['mo']))} {self._numbers.cardinal(int(match['moy']))}"
        words = self._words
        said = (words.months[int(match["mo"]) - 1], words.link, self._numbers.cardinal(int(match["moy"])))
        return " ".join(filter(None, said))

    def _day_pair(self, match: re.Match[str]) -> Found | str:
        words, many = match["ws"].strip(), _after_plural(match)
        between = self._words.to if words in ("-", "–", "/") else words
        said = f"{self._named_day(match['w1'], many)} {between} {self._named_day(match['w2'], many)}"
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        return match.start(), match.end() - last, said

    def _weekday(self, match: re.Match[str]) -> str | None:
        word = (match["w4"] or "").lower()
        if word == "mer" or (word in ("mar", "dom", "sex", "ter", "seg") and not match.group().endswith(".")):
            return None  # "la mer.", "el mar.": a word
        return self._named_day(match["w3"] or match["w4"], _after_plural(match))

    def _named_day(self, short: str, many: bool) -> str:
        """Return the name of an abbreviated day; `many`: of several of them."""
        name = self._day_names[short]
        return f"{name}s" if many and name[-1] in "aoi" else name

    def _date_pair(self, match: re.Match[str]) -> str | None:
        words, dates = self._words, []
        for day, month in ((int(match["p1"]), int(match["p2"])), (int(match["p3"]), int(match["p4"]))):
            if not (1 <= day <= 31 and 1 <= month <= 12):
                return None
            dates.append(" ".join(filter(None, (self._day(day), words.link, words.months[month - 1]))))
        return f"{dates[0]}{match['pl']}{dates[1]}"

    def _fraction(self, match: re.Match[str]) -> Found | str | None:
        top, bottom = match["fn"], match["fd"]
        words, value = self._words, int(bottom)
        zero = "0" in (top[0], bottom[0])
        dated = match["fw"] or zero or (int(top) > 12 and match.group() != "24/7")
        if dated and 1 <= int(top) <= 31 and 1 <= value <= 12 and len(bottom) < 3:
            said = (self._day(int(top)), words.link, words.months[value - 1])
            weekday = (match["fw"] or "").rstrip(".,")
            if weekday not in self._day_names:
                return match.start("fn"), match.end(), " ".join(filter(None, said))
            return match.start(), match.end(), " ".join(filter(None, (self._day_names[weekday], *said)))
        if zero:
            return None
        if top == bottom == "50":
            return match.start("fn"), match.end(), " ".join([self._numbers.cardinal(value)] * 2)
        if top == bottom or (value in (10, 20, 100) and int(top) <= value):
            read = (self._numbers.cardinal(int(top)), self._more.out_of, self._numbers.cardinal(value))
            return match.start("fn"), match.end(), " ".join(read)
        part = super()._fraction(match)
        if part is not None or int(top) == 0:
            return part
        link = self._more.out_of if self._tag in ("fr-fr", "it") else ""
        read = (self._numbers.cardinal(int(top)), link, self._numbers.cardinal(value))
        return match.start("fn"), match.end(), " ".join(filter(None, read))

    def _clock(self, match: re.Match[str]) -> str:
        words = self._words
        hour, minute = int(match["h"]), int(match["mi"] or 0)
        said = [self._numbers.cardinal(hour, words.hour.gender)]
        alone = not minute and (match["mi"] is None or re.search(r"\dh(?:s|rs)?\b|\sh", match.group()) is not None)
        lasting = re.search(r"\d\s?[hH]\s?\d", match.group()) is not None and not self._portuguese
        lasting = lasting and not _AT.search(match.string[max(0, match.start() - 8) : match.start()])
        if words.hour_said or lasting or (alone and not match["ap"]):
            said = [self._hours(hour)] if not (self._french and hour == 0) else ["zéro heure"]
        if minute:
            said += [words.minutes, self._numbers.cardinal(minute)]
        if match["ap"]:
            said.append(self._letters.spell(match["ap"].upper() + "M"))
        if match["ct"]:
            said.append(words.to)
        return " ".join(filter(None, said))

    def _clock_dot(self, match: re.Match[str]) -> str:
        said = [self._numbers.cardinal(int(match["hd"]), "f")]
        if int(match["md2"]):
            said += [self._words.minutes, self._numbers.cardinal(int(match["md2"]))]
        return " ".join(filter(None, said))

    def _count(self, value: int, unit: str) -> str:
        noun = self._words.units[unit]
        single = value == 1 or (value == 0 and self._portuguese)
        return f"{self._numbers.cardinal(value, noun.gender)} {noun.one if single else noun.many}"

    def _duration(self, match: re.Match[str]) -> str:
        link = "" if match["dg"] else self._more.duration_link
        hours, minutes = self._hours(int(match["dh"])), self._count(int(match["dm"]), "min")
        seconds = self._count(int(match["ds"]), "s") if match["ds"] else ""
        return " ".join(filter(None, (hours, "" if seconds else link, minutes, seconds)))

    def _unit(self, match: re.Match[str]) -> str | Found:
        if match["ut"]:  # the unit follows the second number, too
            number, minus = match["un"], f"{self._words.minus} " if match["um"] else ""
            gender = self._words.units[match["u"]].gender
            start = self._numbers.cardinal(int(number), gender) if number.isdecimal() else self._read(number)
            return f"{minus}{start} {self._words.to}"
        said = super()._unit(match)
        if self._tag == "es" and match["u"].lower() == "hab." and int(re.sub(r"\D.*", "", match["un"])) < _MAX_ROOMS:
            said = f"{self._read(match['un'], Noun('habitación', 'habitaciones', 'f'))}"
        if match["ux"]:
            said = f"{said} {self._words.per} {self._count(int(match['ux']), match['uy'])}"
        if self._tag == "it" and isinstance(said, str) and said.startswith("una ora"):
            said = said.replace("una ora", "un'ora", 1)
        if isinstance(said, str) and match.group().endswith(".") and not match.string[match.end() :].strip():
            return match.start(), match.end() - 1, said
        return said

    def _hours(self, value: int) -> str:
        return "un'ora" if self._tag == "it" and value == 1 else self._count(value, "h")

    def _short_duration(self, match: re.Match[str]) -> str:
        minutes, seconds = self._count(int(match["sm2"]), "min"), int(match["ss2"])
        return f"{minutes} {self._count(seconds, 's') if match['sx2'] else self._numbers.cardinal(seconds)}"

    def _elapsed(self, match: re.Match[str]) -> str:
        if match["om"]:
            link = self._words.minutes
            minutes, seconds = self._numbers.cardinal(int(match["om"])), self._numbers.cardinal(int(match["os"]))
            return " ".join(filter(None, (minutes, link, seconds)))
        said = [self._hours(int(match["eh"]))]
        said += [self._count(int(match["em"]), "min"), self._count(int(match["es"]), "s")]
        return " ".join(said)

    def _meridiem(self, match: re.Match[str]) -> str:
        letter = self._letters.spell(match["ma"].upper() + "M")
        return f"{self._numbers.cardinal(int(match['mh']), 'f')} {letter}"

    def _minutes(self, match: re.Match[str]) -> str | None:
        if "'" in match.group() and re.search(r"(?:^|\s)'", match.string[: match.start()]):
            return None
        said = self._count(int(match["mq"]), "min")
        return f"{said} {self._count(int(match['sq']), 's')}" if match["sq"] else said

    def _hour(self, match: re.Match[str]) -> Found | str:
        return self._numbers.cardinal(int(match["hr"]), "f")

    def _years(self, match: re.Match[str]) -> str | None:
        first, last = int(match["y1"]), int(match["y3"])
        if NUMBERED.search(match.string[max(0, match.start() - 20) : match.start()]):
            return self._hyphened(first, last)
        if last <= first % 100:
            return None
        return f"{self._numbers.cardinal(first)} {self._words.to} {self._numbers.cardinal(last)}"

    def _hyphened(self, first: int, last: int) -> str:
        return f"{self._numbers.cardinal(first)} {self._words.address['-']} {self._numbers.cardinal(last)}"

    def _phone(self, match: re.Match[str]) -> str:
        digits = re.sub(r"\D", "", match["p"])
        if self._tag in ("it", "pt-br"):
            return self._numbers.digits(digits)
        if match["p"].startswith("0 8"):
            groups = match["p"].split()
            return " ".join(
                self._numbers.digits(group) if group[0] == "0" else self._numbers.cardinal(int(group))
                for group in groups
            )
        size = 3 if self._tag == "es" else 2
        groups = [digits[i : i + size] for i in range(0, len(digits), size)]
        return " ".join(
            self._numbers.digits(group) if group[0] == "0" else self._numbers.cardinal(int(group)) for group in groups
        )

    def _dial(self, match: re.Match[str]) -> str:
        said = [self._words.address["+"]] if match.group().startswith("+") else []
        grouped = self._words.number in ("es", "fr")
        for group in re.findall(r"\d+", match.group().replace("(0)", " ")):
            whole = grouped and len(group) <= 3 and group[0] != "0"
            said.append(self._numbers.cardinal(int(group)) if whole else self._numbers.digits(group))
        return " ".join(said)
