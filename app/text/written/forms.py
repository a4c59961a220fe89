"""Finder of written forms: numbers, dates, times, money, units, ordinals, Roman numerals and abbreviations.

A form is found by one regular expression for each language, in one pass, and read by a method of its group's name. A
method returns None for what it does not read after all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from app.text.pieces import RATE
from app.text.written import addresses
from app.text.written.abbreviations import LAST_TOO, pattern
from app.text.written.numbers import Numbers, roman
from app.text.written.tables import WORDS
from app.text.written.words import Money, Noun

# A number: thousands in groups, or plain digits; and a fraction.
NUMBER: Final = (
    r"(?:[1-9]\d{0,2}(?: \d{3})+(?<= 000)(?! ?\d)|\d{1,3}(?:[.\u00a0\u202f]\d{3})+(?!\d)(?:,\d+)?|\d+(?:[.,]\d+)?)"
)
_SPACED: Final = r"(?:\d{1,3}(?:[ .\u00a0\u202f]\d{3})+(?!\d)(?:,\d+)?|\d+(?:[.,]\d+)?)"
_GAP: Final = r"[ \u00a0\u202f]?"
_MAX_DIGITS: Final = 15  # digits that are read as one number
_SEPARATORS: Final = str.maketrans("", "", " .\u00a0\u202f")


def either(keys: Iterable[str]) -> str:
    """Return an expression of any of `keys`, the longest first."""
    return "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))


def _value(number: str) -> float:
    return float(re.sub(r"[ .\u00a0\u202f](?=\d{3}(?:\D|$))", "", number).replace(",", "."))


Found = tuple[int, int, str]
"""First and last place of a form, and its words."""


class WrittenForms:
    """Written forms of one language, a tag of `tables.WORDS`. Methods are safe on any thread."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._words = WORDS[tag]
        self._numbers = Numbers(tag)
        self._french, self._portuguese = tag == "fr-fr", tag == "pt-br"
        self._finder = self._compile()

    def find(self, text: str) -> Iterator[Found]:
        """Yield the forms in `text`, in order. Takes time in proportion to its length."""
        for match in self._finder.finditer(text):
            group = match.lastgroup or ""
            said = getattr(self, f"_{group}")(match)
            if said is not None:
                yield said if isinstance(said, tuple) else (match.start(), match.end(), said)

    def _compile(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in self._groups().items()))

    def _groups(self) -> dict[str, str]:
        """Return the expression of each form. The first that matches at a place is read."""
        words = self._words
        number = _SPACED if self._french else NUMBER

        scales = either(words.scales)
        # Each look-behind has a width of its own.
        forms = [form for name in words.numbered.split() for form in dict.fromkeys((name, name.capitalize()))]
        named = "|".join(rf"(?<=\b{re.escape(form)} )" for form in forms)
        months, money, units = either(words.months), either(words.money), either(words.units)
        short = either(words.abbreviations)
        endings = either(self._numbers.endings)
        return {
            **addresses.PATTERNS,
            "rate_name": RATE,
            "iso": r"(?<![\d-])(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})(?![\d-])",
            "date": r"(?<![\d/.])(?P<d2>\d{1,2})(?P<s2>[/.-])(?P<m2>\d{1,2})(?P=s2)(?P<y2>\d{4})(?![\d/])",
            "day_": rf"(?<!\d)(?P<d3>\d{{1,2}})(?:er|º|°)?(?=\s+(?:de\s+)?(?:{months})\b)",
            "clock": r"(?<![\d:])(?P<h>[01]?\d|2[0-4])(?:[:hH](?P<mi>[0-5]\d)|[hH])(?![\d:])(?!\w)(?:\s?h\b)?",
            "phone": r"(?<!\d)(?P<p>0\d(?:[ .]\d{2}){4})(?!\d)" if words.tens else r"(?P<p>(?!))",
            "version": addresses.VERSION,
            "dial": r"(?<![\w.,])(?:\+\d{1,3}(?:[ .-]\d{2,9}){1,5}"
            r"|\(\d{2,4}\)\s?\d{3,5}[ -]\d{3,4}|0\d{1,4}[ /-]\d{5,8}"
            r"|\d{5}-\d{3,4})(?![\w,-]|\.\d)",
            "fraction": rf"(?:\b(?P<fw>{either(words.dated.split())})\s)?(?<![\w.,/])(?P<fn>\d{{1,2}})/"
            r"(?P<fd>\d{1,2})(?![\w/]|[.,]\d)",
            "scaled": rf"(?<![\w.,])(?:(?P<xc>{money}){_GAP}(?P<xa>{number})\s?(?P<xb>{scales})"
            rf"|(?P<xn>{number})\s?(?P<x>{scales})\.?\s?(?:{words.of}\s|d['’])?(?P<xm>{money}))(?!\w)",
            "money": rf"(?:(?P<mm>(?<!\w)[-−–])?(?:(?P<c1>{money}){_GAP}(?P<n1>{number})"
            rf"|(?<![\w.,])(?P<n2>{number}){_GAP}(?P<c2>{money})))(?:/(?P<mu>{units}))?(?!\w)",
            "percent": rf"(?P<pm>(?<!\w)[-−–])?(?<![\w.,])(?P<pn>{number}){_GAP}%",
            "range": rf"(?<![\w.,/-])(?P<r1>\d+(?:[.,]\d+)?)\s?[-–]\s?(?P<r2>\d+(?:[.,]\d+)?){_GAP}"
            rf"(?P<ru>%|(?:{units}|{money})(?!\w))?(?![\w/-])(?!\.\d)(?!\s*=)",
            # Italians write the sign of degrees in ordinals: 3° piano, but 90° di latitudine.
            "ordinal": rf"(?<!\w)(?P<o>\d{{1,4}})\.?(?P<e>{endings})(?!\w)(?!(?<=°)(?!\s(?!di\b)[a-zà-ù]{{3}}))",
            "unit": rf"(?P<um>(?<!\w)[-−–])?(?<![\w.,])(?P<un>{number}){_GAP}(?P<u>{units})"
            r"(?:/(?P<up>h|s|m²|kg|l))?(?!\w)",
            "numeral": rf"(?=[IVXL])(?:{named})(?P<br>[IVXL]{{1,7}})(?![\w'’-])",
            "century": rf"(?P<cr>\b[IVX]+)(?:er|e|ème|º|°)?(?=\s+(?:{words.centuries.replace(' ', '|')})\b)",
            "roman": rf"\b(?P<rw>[A-ZÀ-Ý][^\W\d_]{{1,29}}|{words.centuries.replace(' ', '|')})"
            r"\s(?P<rn>[IVXL]{1,7})(?:er)?(?![\w'’-]|\.[A-Z])",
            "short": rf"(?<![\w.])(?P<a>{short})(?!\w)",
            "sign": r"(?<=\d)\s?(?P<g>[+=×÷<>≈±≤≥·−x]|(?<=\s)-(?=\s\d+(?:[.,]\d+)?\s?=))\s?(?=[\d-])"
            r"|(?<![\w<>=-])(?P<g2>[×÷≈±≤≥]|[<>](?!3(?!\d)))(?=\s?\d)",
            "negative": rf"(?<![\w)])[-−](?P<nn>{number})(?![\w/])",
            "number": rf"(?<![\w])(?P<n>{number})(?![\w])",
        }

    # Addresses

    def _address(self, match: re.Match[str]) -> Found:
        text = match.group().rstrip(".,;:!?)]")
        return match.start(), match.start() + len(text), addresses.words(text, self._words.address, self._numbers)

    # Dates and times

    def _on(self, day: int, month: int, year: int) -> str | None:
        words = self._words
        if not (1 <= day <= 31 and 1 <= month <= 12):
            return None
        parts = (self._day(day), words.link, words.months[month - 1], words.link, self._numbers.cardinal(year))
        return " ".join(filter(None, parts))

    def _day(self, day: int) -> str:
        return self._words.first if day == 1 else self._numbers.cardinal(day)

    def _iso(self, match: re.Match[str]) -> str | None:
        return self._on(int(match["d"]), int(match["m"]), int(match["y"]))

    def _date(self, match: re.Match[str]) -> str | None:
        return self._on(int(match["d2"]), int(match["m2"]), int(match["y2"]))

    def _day_(self, match: re.Match[str]) -> str | None:
        return self._day(int(match["d3"])) if 1 <= int(match["d3"]) <= 31 else None

    def _clock(self, match: re.Match[str]) -> str:
        words = self._words
        hour, minute = int(match["h"]), int(match["mi"] or 0)
        said = [self._numbers.cardinal(hour, words.hour.gender)]
        alone = not minute and (match["mi"] is None or match.group().endswith("h"))
        if words.hour_said or alone:
            said.append(words.hour.one if hour == 1 or (self._french and hour == 0) else words.hour.many)
        if minute:
            said += [words.minutes, self._numbers.cardinal(minute)]
        return " ".join(filter(None, said))

    def _phone(self, match: re.Match[str]) -> str:
        pairs = re.findall(r"\d\d", match["p"])
        return " ".join(
            self._numbers.digits(pair) if pair[0] == "0" else self._numbers.cardinal(int(pair)) for pair in pairs
        )

    def _version(self, match: re.Match[str]) -> str:
        return addresses.words(match.group(), self._words.address, self._numbers)

    def _dial(self, match: re.Match[str]) -> str:
        """Read a telephone number: short groups as numbers in Spanish and French, else digit by digit."""
        said = [self._words.address["+"]] if match.group().startswith("+") else []
        grouped = self._words.number in ("es", "fr")
        for group in re.findall(r"\d+", match.group()):
            whole = grouped and len(group) <= 3 and group[0] != "0"
            said.append(self._numbers.cardinal(int(group)) if whole else self._numbers.digits(group))
        return " ".join(said)

    # Quantities

    def _read(self, number: str, noun: Noun | None = None) -> str | None:
        """Return the words of a number, and of `noun`; None for too many digits."""
        words, numbers = self._words, self._numbers
        plain, comma, fraction = number.partition(",")
        if not comma and not re.fullmatch(r"\d{1,3}(?:[ .\u00a0\u202f]\d{3})+", number):
            plain, comma, fraction = number.partition(".")
        whole = plain.translate(_SEPARATORS)
        if len(whole) > _MAX_DIGITS:
            return numbers.digits(whole)
        value = int(whole)
        leading = whole[0] == "0" and len(whole) > 1
        if fraction:
            said: tuple[str, ...] = (
                numbers.cardinal(value),
                words.comma if comma == "," else words.point,
                numbers.fraction(fraction),
            )
        else:
            gender = noun.gender if noun else None
            said = (numbers.digits(whole) if leading else numbers.cardinal(value, gender),)
        if noun is None:
            return " ".join(said)
        single = value < 2 if self._french or self._portuguese else value == 1 and not fraction
        link = (words.of,) if value and value % 1_000_000 == 0 and not fraction else ()
        counted = noun.one if single else noun.many
        if link and self._french and counted[0] in "aeiouéhy":
            return f"{' '.join(said)} d'{counted}"
        return " ".join((*said, *link, counted))

    def _money(self, match: re.Match[str]) -> Found | str | None:
        said = self._amount(match)
        if match["mu"] and said:
            said = f"{said} {self._words.per} {self._words.units[match['mu']].one}"
        return f"{self._words.minus} {said}" if match["mm"] and said else said

    def _amount(self, match: re.Match[str]) -> str | None:
        return self._sum(match["n1"] or match["n2"], self._words.money[match["c1"] or match["c2"]])

    def _sum(self, number: str, money: Money) -> str | None:
        cents = re.search(r"[.,](\d\d)$", number)
        if cents is None:
            return self._read(number, money.noun)
        whole = self._read(number[: cents.start()], money.noun)
        if not int(cents[1]) or whole is None:
            return whole
        one = money.hundredth is not None and cents[1] == "01"
        small = money.hundredth.one if one and money.hundredth else money.cents
        tail = f"{self._numbers.cardinal(int(cents[1]))} {small}" if money.cents else None
        link = self._words.money_link
        return " ".join(filter(None, (whole, link, tail or self._numbers.cardinal(int(cents[1])))))

    def _scaled(self, match: re.Match[str]) -> str:
        words = self._words
        scale, money = words.scales[match["x"] or match["xb"]], words.money[match["xc"] or match["xm"]].noun.many
        link = f"{words.of} " if words.of and scale.many not in ("mil", "mille", "mila") else ""
        if link and self._french and money[0] in "aeiouyé":
            link = "d'"
        number = match["xn"] or match["xa"]
        if number == "1" and scale.many in ("mil", "mille", "mila"):
            return f"{'mille' if self._tag == 'it' else scale.many} {money}"
        return f"{self._read(number, scale)} {link}{money}"

    def _fraction(self, match: re.Match[str]) -> Found | str | None:
        top, bottom = int(match["fn"]), int(match["fd"])
        if match["fw"] and 1 <= top <= 31 and 1 <= bottom <= 12:
            said = (self._day(top), self._words.link, self._words.months[bottom - 1])
            return match.start("fn"), match.end(), " ".join(filter(None, said))
        if not 2 <= bottom <= 20 or not 0 < top < 2 * bottom:
            return None
        return match.start("fn"), match.end(), self._numbers.part(top, bottom)

    def _percent(self, match: re.Match[str]) -> str:
        minus = f"{self._words.minus} " if match["pm"] else ""
        return f"{minus}{self._read(match['pn'])} {self._words.percent}"

    def _unit(self, match: re.Match[str]) -> str | Found:
        words = self._words
        said = self._read(match["un"], words.units[match["u"]])
        minus = f"{words.minus} " if match["um"] else ""
        rate = words.units.get(match["up"] or "")
        per = ""
        if rate is not None:
            per = " à l'heure" if self._french and match["up"] == "h" else f" {words.per} {rate.one}"
        return f"{minus}{said}{per}"

    def _rate_name(self, match: re.Match[str]) -> str | None:
        top, bottom = match.group().split("/")
        units = self._words.units
        return f"{units[top].many} {self._words.per} {units[bottom].one}" if top in units and bottom in units else None

    def _range(self, match: re.Match[str]) -> str | None:
        first, last, unit = match["r1"], match["r2"], match["ru"]
        if max(len(first), len(last)) > _MAX_DIGITS:
            return None
        words = self._words
        if _value(first) >= _value(last):
            score = unit is None and max(len(first), len(last)) < 3 and " " not in match.group().rstrip()
            return f"{self._read(first)} {(words.to if words.of else 'zu')} {self._read(last)}" if score else None
        noun = words.money[unit].noun if unit in words.money else words.units.get(unit or "")
        tail = f" {words.percent}" if unit == "%" else ""
        gender = noun.gender if noun else None
        start = self._numbers.cardinal(int(first), gender) if first.isdecimal() else self._read(first)
        return f"{start} {words.to} {self._read(last, noun)}{tail}"

    def _negative(self, match: re.Match[str]) -> str:
        return f"{self._words.minus} {self._read(match['nn'])}"

    def _number(self, match: re.Match[str]) -> Found | str | None:
        return self._read(match["n"])

    def _sign(self, match: re.Match[str]) -> str:
        sign = match["g"] or match["g2"]
        return self._words.signs["×" if sign == "x" else sign]

    # Ordinals, Roman numerals, abbreviations

    def _ordinal(self, match: re.Match[str]) -> str | Found | None:
        ending, value = match["e"], int(match["o"])
        if not value or not self._numbers.ends_so(ending, value):
            return None
        feminine = ending in ("ª", "re", "ère", "nde") or ending.endswith("a")
        if ending in ("nd", "nde"):
            return "seconde" if feminine else "second"
        plural = "s" if ending in ("ers", "es", "èmes") else ""
        return self._numbers.ordinal(value, "f" if feminine else "m", short=ending == "er") + plural

    def _numeral(self, match: re.Match[str]) -> str | None:
        value = roman(match["br"] or match["rn"])
        return None if value is None else self._numbers.cardinal(value)

    def _century(self, match: re.Match[str]) -> str | None:
        return self._of_century(match["cr"])

    def _of_century(self, number: str) -> str | None:
        value = roman(number)
        if value is None:
            return None
        return self._numbers.ordinal(value) if self._words.ordinal_centuries else self._numbers.cardinal(value)

    def _roman(self, match: re.Match[str]) -> Found | None:
        name, value = match["rw"], roman(match["rn"])
        if name.isupper() and len(name) > 3 and not (self._tag == "it" and match["rn"] == "I"):
            name = name.capitalize()  # in a headline
        if name.lower() in self._words.centuries.split():
            said = self._of_century(match["rn"])
            return None if said is None else (match.start("rn"), match.end(), said)
        if value is None or not name[0].isupper() or (len(match["rn"]) == 1 and name not in _MONARCHS):
            return None
        if value <= self._words.regnal and name in _MONARCHS:
            return match.start("rn"), match.end(), self._numbers.ordinal(value, "f" if name in _QUEENS else "m")
        return match.start("rn"), match.end(), self._numbers.cardinal(value)

    def _short(self, match: re.Match[str]) -> Found:
        # The full stop of the last abbreviation ends the sentence, too.
        rest = match.string[match.end() :].strip()
        last = match.group().endswith(".") and (not rest or self._ends(match.group(), rest))
        return match.start(), match.end() - last, self._words.abbreviations[match["a"]]

    def _ends(self, short: str, rest: str) -> bool:
        """Return whether an abbreviation before `rest` ends a sentence."""
        headline = re.match(r"[A-ZÀ-Ý]+(?:\s|$)", rest) is not None
        return short in LAST_TOO and rest[0].isupper() and not headline and pattern(self._tag).match(rest) is None


_QUEENS: Final = frozenset(
    """
    Isabel Elisabeth Élisabeth Elisabetta Isabella Catalina Catherine Caterina Catarina Maria María Cristina Cleopatra
    Margarita Margherita Margarida Marguerite Victoria Vittoria Vitória Ana Anna Juana Giovanna Joana Blanca Urraca
    Elizabeth Elizabete Beatriz Beatrice Leonor Eleonora Aliénor Sofía Sofia Teodora Inés Inês Petronila Berenguela
    """.split()  # noqa: SIM905
)
_MONARCHS: Final = _QUEENS | frozenset(
    """
    Alfonso Felipe Carlos Luis Fernando Juan Pablo Pedro Enrique Jaime Pío Napoleón Francisco Louis Charles Henri
    François Philippe Napoléon Jean Paul Pie Guillaume Luigi Carlo Enrico Francesco Filippo Vittorio Umberto
    Emanuele Giovanni Paolo Pio Napoleone Luís João José Manuel Afonso Henrique Filipe Napoleão Paulo Sebastião
    Duarte Dinis Sancho Bento Nicolau Gregório Ramiro Alejandro Nicolás Benedicto Clemente León Gregorio Inocencio
    Urbano Sixto Ricardo Eduardo Jorge Guillermo Federico Leopoldo Ramsés Tutmosis Amenhotep Teodosio Constantino
    Constantin Adriano Léon Grégoire Urbain Innocent Clément Benoît Nicolas Alexandre Édouard Georges Richard
    Jacques Frédéric Léopold Ramsès Leone Innocenzo Benedetto Sisto Giulio Bonifacio Nicola Alessandro Edoardo
    Giorgio Riccardo Giacomo Guglielmo Ferdinando Amedeo Ramses Dario Ciro Serse Tolomeo Julio Celestino Ferdinand
    Alphonse Balduino Teobaldo Roberto Robert Manfredo Ottone Otón Oto Rodolfo Rodolphe Massimiliano Maximiliano
    Casimiro Ladislao Segismundo Sigismondo Iván Ivan Esteban Stefano Étienne Estêvão Harold Malcolm Roger Ruggero
    Tancredi Darío Jerjes Ptolomeo Antíoco Seleuco Teodorico Alarico Clodoveo Clovis Chilpéric Pepino Pépin
    Lotario Lothaire Silvestro Silvestre Martín Martino Martin Eugenio Eugène Calixto Callisto Marcelo Marcello
    Bonifácio Júlio Inocêncio Leão Rei Zogu Faruk Faruq Fuad Selim Solimán Murad Mehmed Bayaceto Pietro Lorenzo
    Cosimo Ludovico Galeazzo Sergio Gelasio Onorio Lucio Anastasio Pasquale Niccolò Michele Basilio Costante
    Costanzo Alessio Manuele Teodoro Honorio Miguel Alejo Romano Eugênio Honório Lúcio Teodósio Aleixo Basílio
    Pierre Michel Basile Alexis Sixte Boniface Jules Honoré Aimone Bertoldo Berengario Desiderio Childerico Albert
    Alberto Baudouin Rainier Hassan Mohamed Abdalá Hussein Óscar Gustavo Haakon Harald Olaf Cristián
    """.split()  # noqa: SIM905
)


@lru_cache(maxsize=8)
def get_forms(tag: str) -> WrittenForms | None:
    """Return the written forms of a language, or None if it has none here."""
    if tag == "de":
        from app.text.written.german import GermanForms

        return GermanForms(tag)
    if tag not in WORDS:
        return None
    from app.text.written.romance import RomanceForms

    return RomanceForms(tag)
