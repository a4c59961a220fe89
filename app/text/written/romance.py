"""Written forms of Spanish, French, Italian and Portuguese beside those of every language.

Names of days and months cut short, durations, powers, halves, Roman numerals before a noun, acronyms and codes.
"""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set
from app.text.written import addresses, letters
from app.text.written.forms import NUMBER, Found, WrittenForms, either
from app.text.written.numbers import roman
from app.text.written.romance_tables import ROMANCE
from app.text.written.words import Noun

_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_VULGAR: Final = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅛": (1, 8)}
_ROMAN: Final = r"[IVX]{1,7}"
_DAYS_LONG: Final = (
    "lunes martes miércoles jueves viernes sábado domingo lundi mardi mercredi jeudi vendredi samedi dimanche "
    "lunedì martedì mercoledì giovedì venerdì sabato domenica segunda terça quarta quinta sexta segunda-feira "
    "terça-feira quarta-feira quinta-feira sexta-feira"
)
# Endings of nouns of feminine gender; French ones need a list.
_FEMININE: Final = {
    "es": re.compile(r"(?:a|ión|dad|tud|noche|parte|serie|vez|mano|calle|clase)$"),
    "pt-br": re.compile(r"(?:a|ção|são|dade|noite|parte|série|vez|mão|ordem|fase|sede)$"),
    "it": re.compile(r"(?:a|zione|sione|tà|tù|parte|notte|serie|classe|mano|stagione|fase|sede|edizione)$"),
    "fr-fr": re.compile(
        r"(?:tion|sion|té|ée|ure|ette|esse|ine|ise|euse|trice|ude|ade|ère|onne|ance|ence|ille|elle|heure|nuit|place|page"
        r"|chambre|table|part|fois|fin|tasse|tranche|goutte|pomme|dose|boîte|livre|bouteille|cuillère|guerre|république"
        r"|semaine|minute|seconde|personne|partie|rue|mesure|vie|main)$"
    ),
}
_MASCULINE: Final = re.compile(
    r"^(?:día|dia|mapa|problema|programa|sistema|tema|clima|idioma|grama|quilograma|siècle|tour|musée|lycée|jour|litre"
    r"|magazine|verre|kilomètre|mètre|poète|papa|cinema|cinéma)$"
)
_CAPITAL_WORD: Final = re.compile(r"[A-ZÀ-ÖØ-Ý]{2,}(?:['’][A-ZÀ-ÖØ-Ý]+)?")
_LAW: Final = re.compile(r"(?:n\.?[º°]|n[úu]m\.?|[Ll]ey|[Ll]ei|[Dd]ecreto|[Ll]egge|[Rr]esolu\w+)\s?$")
_CENTURIES: Final = re.compile(r"(?:secol[oi]|[Ss]ecc?\.)\s(?:[IVX]+(?:\s?[-–,]\s?|\s(?:e|o|ed|al)\s))?$")
_COUNTED: Final = (
    "edición|aniversario|congreso|legislatura|jornadas?|encuentro|torneo|festival|edizione|anniversario|congresso"
    "|convegno|giornata|edição|aniversário|encontro|jornada|torneio|semana|settimana|concurso|concorso|premio|prêmio"
)
"""Nouns in small letters that a Roman numeral before them counts."""
_AT: Final = re.compile(r"\b(?:las?|alle|all'|dalle|le|ore)\s?$")
_ONES: Final = "Guerr[ae]|República|Congres[os]+|Concilio|Festival|Jornadas?|Bienal|Cumbre|Guerra|Copa|Torneo|Edición"
"""Nouns that a numeral of one letter before them counts."""
_LONGEST_NUMERAL: Final = 20  # the last ordinal that is said for a Roman numeral before a noun
_PHONES: Final = {
    "es": r"(?<![\w.,])[6789]\d{8}(?![\w,]|\.\d)",
    "fr-fr": r"(?<![\w.,])0[1-9](?:[ .-]?\d{2}){4}(?!\w|[.,]\d)",
    "it": r"(?<![\w.,])(?:3\d{2}[ .-]?\d{3}[ .-]?\d{3,4}|800[ .-]\d{3}[ .-]\d{3}|0\d{1,3}(?:[ .-]\d{2,4}){2,4})(?!\w|[.,]\d)",
    "pt-br": r"(?<![\w.,])(?:(?:0?\d{2}\s)?(?!(?:1\d|20)\d\d-(?:1\d|20)\d\d)9?\d{4}-\d{4}|\d{3}\.\d{3}\.\d{3}-\d\d|\d\d\.\d{3}\.\d{3}(?:/\d{4})?-\d\d?|0[38]00[ -]?\d{3}[ -]?\d{4})(?!\w|[.,]\d)",
}


def _capitalized(forms: dict[str, str]) -> dict[str, str]:
    return {**forms, **{form[0].upper() + form[1:]: said for form, said in forms.items()}}


class RomanceForms(WrittenForms):
    """Written forms of one of the four languages. Methods are safe on any thread."""

    def __init__(self, tag: str) -> None:
        self._more = ROMANCE[tag]
        self._day_names, self._months = _capitalized(self._more.days), _capitalized(self._more.months)
        marks = dict.fromkeys(("nº", "n°", "n.º", "n.°"), self._more.number_sign)
        self._before_number = _capitalized({**self._more.numbered, **marks})
        super().__init__(tag)
        self._letters = letters.Letters(self._more, self._numbers)

    def _groups(self) -> dict[str, str]:
        words, more = self._words, self._more
        days, months = either(self._day_names), either(self._months)
        units, money = either(words.units), either(words.money)
        link = r"\s(?:de\s)?|[/-]"
        years = r"\d{4}"
        long_days = "|".join(_DAYS_LONG.split())
        greek = "".join(sign for sign in more.signs if sign.isalpha())
        signs = "".join(sign for sign in more.signs if not sign.isalpha())
        base = super()._groups()
        base["date"] = (
            r"(?<![\d/.,-])(?P<d2>\d{1,2})(?P<s2>[/.-])(?P<m2>\d{1,2})(?P=s2)(?P<y2>\d{4}|(?<=[/.])\d\d)(?![\d/]|[.,]\d)"
        )
        base["fraction"] = (
            rf"(?:\b(?P<fw>{either(words.dated.split())}|(?:{long_days}|{days})[.,]{{0,2}})\s)?"
            r"(?<![\w.,/])(?P<fn>\d{1,2})/(?P<fd>\d{1,3})(?![\w/]|[.,]\d)"
        )
        base["clock"] = (
            r"(?<![\d:.,])(?P<h>[01]?\d|2[0-4])(?:(?::|\s?[hH]\s?)(?P<mi>[0-5]\d)(?!\d)|[hH]s?(?!\w))(?![:]\d)(?!:|\w(?<![ap]))"
            r"(?:\s?h(?:s|rs)?\b|\s?(?P<ap>[ap])\.?\s?m\b(?:\.(?!\s*$))?)?(?P<ct>\s?[-–]\s?(?=\d{1,2}[:hH]))?"
        )
        base["dial"] = (
            r"(?<![\w.,])(?:\+\d{1,3}(?:\s?\(0\))?(?:[ .-]?\(?\d{1,9}\)?){1,6}|\(\d{2,4}\)\s?9?\s?\d{3,5}[ -]\d{3,4}"
            r"|0\d{1,4}[ /-]\d{5,8}|\d{5}-\d{3,4})(?![\w,-]|\.\d)"
        )
        base["money"] = base["money"].replace(rf"(?:/(?P<mu>{units}))?", r"(?:\s?/\s?(?P<mu>[a-zà-ÿ]{1,12}[²³]?))?")
        base["unit"] = base["unit"].replace(
            "(?:/(?P<up>h|s|m²|kg|l))?", rf"(?:/(?P<up>{units})|/(?P<ux>\d{{1,4}})\s?(?P<uy>{units}))?"
        )
        first = {
            "address": base.pop("address"),
            "path": r"(?<![\w/])(?P<pt>(?:[A-Z]:\\|~/|\.{1,2}/|/(?=\w+/))[\w.\\/-]{2,200})"
            rf"|(?<![\w/.])(?:[\w-]{{1,40}}/){{1,8}}[\w-]{{1,64}}\.(?:{addresses.FILES})(?!\w)"
            r"|(?<![\w.])(?P<sn>[A-Za-z0-9]{1,40}(?:_[A-Za-z0-9]{1,40}){1,8})(?!\w)",
            "account": letters.PATTERNS["account"],
            "iso": base.pop("iso"),
            "date": base.pop("date"),
            "abbreviated": rf"(?<![\w.,/-])(?P<md>\d{{1,2}})(?:er|º|°)?(?:{link})(?P<mn>{months})"
            rf"(?:\.|(?=(?:{link}){years})|(?<=[/-]\w{{3}})(?!\w))(?:(?:{link})(?P<my>{years})(?!\d))?",
            "month_name": rf"(?<!\w)(?P<mn2>{months})\.?(?=\s(?:de\s)?{years}(?!\d))",
            "day_pair": rf"(?<!\w)(?P<w1>{days})\.?(?P<ws>\s?[-–/]\s?|\s(?:y|e|et|a|à)\s)(?P<w2>{days})(?:\.|(?!\w))",
            "weekday": rf"(?<!\w)(?P<w3>{days})(?:\.(?=,?\s\d)|(?=,?\s\d{{1,2}}/\d))"
            rf"|(?:(?<=\bel )|(?<=\ble )|(?<=\bil )|(?<=\bna )|(?<=\bno ))(?P<w4>{days})\.(?=\s[a-zà-ÿ])",
            "month_of": r"(?<![\w/.,])(?P<mo>0[1-9]|1[0-2])/(?P<moy>(?:19|20)\d\d)(?![\w/])",
            "duration": r"(?<![\w.,:])(?P<dh>\d{1,3})(?P<dg>\s?)h\s?(?P<dm>\d{1,2})\s?(?:min|mn|m|['′])(?!\w)(?:\.(?!\s*$))?",
            "elapsed": r"(?<![\d:])(?P<eh>\d{1,2}):(?P<em>[0-5]\d):(?P<es>[0-5]\d)(?![\d:])"
            r"|(?<![\d:])(?P<om>2[5-9]|[3-9]\d):(?P<os>[0-5]\d)(?![\d:])",
            "phone": rf"(?P<p>{_PHONES[self._tag]})",
            "clock": base.pop("clock"),
            "ratio": r"(?<![\w:.,])(?P<ra>\d{1,3}):(?P<rb>\d{1,3}(?:[. ]\d{3}){0,2})(?![\w:]|[.,]\d)",
            "power": r"(?P<pw>(?<![\w.,])\d+(?:[.,]\d+)?|(?<!\w)(?![ckm]?m[²³])[A-Za-z]{1,2}|\))"
            r"(?P<px>⁻?[⁰¹²³⁴-⁹]{1,3}|\^[-−]?\d{1,3}|\^[a-z])(?!\w)",
            "root": r"(?P<ro>√)\s?(?=[\w(])",
            "greek": rf"(?P<gr>(?<!\w)[{greek}](?!\w)|[{signs}])",
            "mixed": r"(?<![\w.,/])(?:(?P<mw>\d{1,3})\s?)?(?:(?P<mf>[½⅓⅔¼¾⅛])|(?(mw)(?<=\s))(?P<mt>[1-9])/(?P<mb>[2-9]))"
            rf"(?![\w/]|[.,]\d)(?:\s?(?P<mu2>{units})(?!\w)|\s(?P<mx>[a-zà-ÿ]{{3,20}}))?",
            "per_thousand": rf"(?<![\w.,])(?P<pt2>{NUMBER})\s?‰",
            "thousands": r"(?<![\w.,])(?P<kn>\d{1,4}(?:[.,]\d{1,2})?)(?:k|(?<=\d\d)K|(?P<km>M))(?![\w/€$£])",
            "times": r"(?<![\w.,])(?P<t>\d{1,3})[xX](?=\s[a-zà-ÿ])",
            "meridiem": r"(?<![\w:.,])(?P<mh>1[0-2]|[1-9])\s?(?P<ma>[ap])m(?!\w)",
            "minutes": r"(?<![\w.,'])(?P<mq>\d{1,3})(?:['′](?P<sq>[0-5]?\d)(?:[\"″]|'')|′|'(?=[\s,.;)]|$))",
            "roman_range": rf"(?<![\w-])(?P<ra1>{_ROMAN})\s?[-–]\s?(?P<ra2>{_ROMAN})(?![\w-])",
            "prices": rf"(?:(?<!\w)(?P<mrc>{money})\s?)?(?<![\w.,-])(?P<mr1>{NUMBER})\s?(?P<mra>{money})?\s?[-–]\s?"
            rf"(?(mrc)(?:{money})?|(?(mra)|(?!)))\s?(?P<mr2>{NUMBER})\s?(?(mra)(?:{money}))(?![\w-])",
            "inches": r"(?<![\w.,])(?P<in>\d{1,3}(?:[.,]\d)?)[\"″](?=[\s.,;)]|$)",
            **self._own_groups(units),
            "product": rf"(?<![\w.,])(?P<x1>{NUMBER})[x×](?P<x2>{NUMBER})(?:[x×](?P<x3>{NUMBER}))?"
            rf"(?:\s?(?P<xu>{units}))?(?![\w=])",
            "roman_first": rf"(?<![\w.])(?P<rf>[IVX]{{2,7}}|[IVX](?=\s(?:{_ONES})(?!\w)))(?:[º°ª]\s(?=(?P<ry>[a-zà-ÿ]{{3,}}))"
            rf"|[º°ª]?\s(?=(?P<rx>[A-ZÀ-Ý][a-zà-ÿ]{{2,}}|(?:{_COUNTED})(?!\w))))",
            "numbered": rf"(?<![\w.])(?P<nb>{either(self._before_number)})(?::?\s?(?P<nr>[IVX]+)(?!\w)|(?=:?\s?(?:\d|[A-Z](?![\w.])|[(+]{{1,2}}\d)))",
        }
        capitals = {name: letters.PATTERNS[name] for name in ("formula", "code", "dotted", "capitals")}
        alone = r"(?<![\w.-])(?P<rl>[IVX]{2,7}|M{1,3}[CDXLIVM]{3,12})(?![\w-])"
        base.pop("phone")
        last = {"number": base.pop("number")}
        short = base.pop("short")
        return {
            **first,
            "short": short,
            "initial": r"(?<![\w.])(?P<it>[A-ZÀ-Ý])\.-?(?=\s?[A-ZÀ-Ý][\w.])",
            **base,
            "spaced": r"(?<![\w.,])(?P<sp>[1-9]\d?(?: \d{3})+)(?=\s(?P<sy>[a-zà-ÿ]{4,20})(?!\w))"
            if not self._french
            else r"(?P<sp>(?P<sy>(?!)))",
            "roman_alone": alone,
            **capitals,
            "minus": r"(?P<mi2>−)(?=\s?[\w(])",
            **last,
        }

    # Addresses, letters

    def _path(self, match: re.Match[str]) -> Found | str:
        names = {**self._words.address, "\\": self._backslash}
        if match["sn"]:
            return addresses.words(match.group(), names, self._numbers)
        text = match.group().rstrip(".")
        return match.start(), match.start() + len(text), addresses.words(text, names, self._numbers)

    @property
    def _backslash(self) -> str:
        return {"fr-fr": "barre oblique inverse", "it": "barra rovesciata"}.get(self._tag, "barra invertida")

    def _account(self, match: re.Match[str]) -> str:
        return self._letters.account(match["ac"])

    def _formula(self, match: re.Match[str]) -> str:
        said = self._letters.spell(match["fo"])
        ion = match["io"]
        if not ion:
            return said
        count = {"²": 2, "³": 3}.get(ion[0])
        sign = self._words.signs["+"] if ion[-1] == "⁺" else self._words.minus
        return " ".join(filter(None, (said, self._numbers.cardinal(count) if count else "", sign)))

    def _code(self, match: re.Match[str]) -> str | Found | None:
        if match["co3"]:
            text = match["co3"]
            known = roman(text[:-1]) is not None and text[-1] == " "
            return None if known or (len(text) == 2 and text[-1] == " ") else self._spelled_before(match)
        return self._letters.spell(match["co"] or match["co2"])

    def _spelled_before(self, match: re.Match[str]) -> str | None:
        text = match["co3"]
        if text[-1] == " " and not self._letters.is_spelled(text[:-1], alone=not self._in_capitals(match)):
            return None
        return self._letters.spell(text)

    def _dotted(self, match: re.Match[str]) -> Found:
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, self._letters.spell(match["dl"])

    def _capitals(self, match: re.Match[str]) -> str | None:
        text = match["ca"]
        if match["cx"] is None and not self._letters.is_spelled(text, alone=not self._in_capitals(match)):
            return None
        said = self._letters.spell(text + (match["cx"] or ""))
        return f"{said}s" if match["cs"] and self._gendered else said

    @staticmethod
    def _in_capitals(match: re.Match[str]) -> bool:
        """Return whether a word beside this one is in capitals, too."""
        before = re.search(r"([^\W\d_]{2,})['’\s,:]+$", match.string[max(0, match.start() - 30) : match.start()])
        after = re.match(r"[\s,:]+([^\W\d_]{2,})", match.string[match.end() : match.end() + 30])
        return any(found is not None and _CAPITAL_WORD.fullmatch(found[1]) for found in (before, after))

    # Dates and times

    def _date(self, match: re.Match[str]) -> str | None:
        year = match["y2"]
        full = int(year) if len(year) == 4 else int(year) + (2000 if int(year) < 50 else 1900)  # noqa: PLR2004
        return self._on(int(match["d2"]), int(match["m2"]), full)

    def _abbreviated(self, match: re.Match[str]) -> Found | None:
        day, name, year = int(match["md"]), self._months[match["mn"]], match["my"]
        if not 1 <= day <= 31:
            return None
        link = self._words.link
        said = [self._day(day), link, name, *((link, self._numbers.cardinal(int(year))) if year else ())]
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        return match.start(), match.end() - last, " ".join(filter(None, said))

    def _month_name(self, match: re.Match[str]) -> str:
        return self._months[match["mn2"]]

    def _own_groups(self, units: str) -> dict[str, str]:
        """Return the groups that only this language has."""
        if self._portuguese:
            return {
                "versus": r"(?<![\w.,])(?P<va>\d{1,2})\s?x\s?(?P<vb>\d{1,2})"
                rf"(?![\w/]|[.,]\d|\s?(?:{units}|x|=)(?!\w))",
                "lady": r"(?<!\w)(?P<la>D\.)(?=\s(?P<ln>[A-ZÀ-Ý][a-zà-ÿ]+))",
            }
        if self._french:
            return {
                "french_ordinal": rf"(?<!\w)(?P<fo1>{_ROMAN})(?:er|ère|re|e|ème)s?(?P<fs>\ss\.)?(?!\w)",
                "each_of": r"(?<=\d[hj])(?P<eo>/)(?=\d)",
            }
        if self._tag == "it":
            return {
                "clock_dot": r"(?:(?<=\balle )|(?<=\bdalle )|(?<=\bore )|(?<=\ble ))"
                r"(?P<hd>[01]?\d|2[0-4])\.(?P<md2>[0-5]\d)(?![\d.,])",
                "centuries": rf"(?<!\w)(?P<rm>{_ROMAN})(?=(?:\s?[-–]\s?|\s(?:e|al|o|ed)\s){_ROMAN}\s(?:secolo|sec\.))",
                "century_after": rf"(?<!\w)(?P<ca2>{_ROMAN})\s(?P<ca3>sec\.)",
                "unnumbered": r"(?<=, )(?P<un2>s\.n\.c\.)",
                "nth": r"(?<!\w)(?P<nt>\d{1,4})(?:-?esim(?P<ng>[oaie])|\^)(?!\w)",
            }
        return {"clock_dot": r"(?<=\blas )(?P<hd>[01]?\d|2[0-4])\.(?P<md2>[0-5]\d)(?![\d.,])"}

    def _day_pair(self, match: re.Match[str]) -> Found | str:
        words = match["ws"].strip()
        between = self._words.to if words in ("-", "–", "/") else words
        said = f"{self._day_names[match['w1']]} {between} {self._day_names[match['w2']]}"
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        return match.start(), match.end() - last, said

    def _weekday(self, match: re.Match[str]) -> str:
        return self._day_names[match["w3"] or match["w4"]]

    def _month_of(self, match: re.Match[str]) -> str | None:
        if _LAW.search(match.string[max(0, match.start() - 20) : match.start()]):
            return None
        words = self._words
        said = (words.months[int(match["mo"]) - 1], words.link, self._numbers.cardinal(int(match["moy"])))
        return " ".join(filter(None, said))

    def _fraction(self, match: re.Match[str]) -> Found | str | None:
        top, bottom = match["fn"], match["fd"]
        words, value = self._words, int(bottom)
        zero = "0" in (top[0], bottom[0])
        dated = match["fw"] or zero or (int(top) > 12 and match.group() != "24/7")  # noqa: PLR2004
        if dated and 1 <= int(top) <= 31 and 1 <= value <= 12 and len(bottom) < 3:  # noqa: PLR2004
            said = (self._day(int(top)), words.link, words.months[value - 1])
            weekday = (match["fw"] or "").rstrip(".,")
            if weekday not in self._day_names:
                return match.start("fn"), match.end(), " ".join(filter(None, said))
            return match.start(), match.end(), " ".join(filter(None, (self._day_names[weekday], *said)))
        if zero:
            return None
        if value in (10, 20, 100) and int(top) <= value:
            read = (self._numbers.cardinal(int(top)), self._more.out_of, self._numbers.cardinal(value))
            return match.start("fn"), match.end(), " ".join(read)
        said = super()._fraction(match)
        if said is not None or int(top) == 0:
            return said
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
        return f"{self._numbers.cardinal(value, noun.gender)} {noun.one if value == 1 else noun.many}"

    def _duration(self, match: re.Match[str]) -> str:
        link = "" if match["dg"] else self._more.duration_link
        hours, minutes = self._hours(int(match["dh"])), self._count(int(match["dm"]), "min")
        return " ".join(filter(None, (hours, link, minutes)))

    def _unit(self, match: re.Match[str]) -> str | Found:
        said = super()._unit(match)
        if match["ux"]:
            said = f"{said} {self._words.per} {self._count(int(match['ux']), match['uy'])}"
        if self._tag == "it" and isinstance(said, str) and said.startswith("una ora"):
            said = said.replace("una ora", "un'ora", 1)
        if isinstance(said, str) and match.group().endswith(".") and not match.string[match.end() :].strip():
            return match.start(), match.end() - 1, said
        return said

    def _hours(self, value: int) -> str:
        return "un'ora" if self._tag == "it" and value == 1 else self._count(value, "h")

    def _elapsed(self, match: re.Match[str]) -> str:
        if match["om"]:
            link = self._words.minutes
            minutes, seconds = self._numbers.cardinal(int(match["om"])), self._numbers.cardinal(int(match["os"]))
            return " ".join(filter(None, (minutes, link, seconds)))
        said = [self._hours(int(match["eh"]))]
        said += [self._count(int(match["em"]), "min"), self._count(int(match["es"]), "s")]
        return " ".join(said)

    def _phone(self, match: re.Match[str]) -> str:
        digits = re.sub(r"\D", "", match["p"])
        if self._tag in ("it", "pt-br"):
            return self._numbers.digits(digits)
        size = 3 if self._tag == "es" else 2
        groups = [digits[i : i + size] for i in range(0, len(digits), size)]
        return " ".join(
            self._numbers.digits(group) if group[0] == "0" else self._numbers.cardinal(int(group)) for group in groups
        )

    def _dial(self, match: re.Match[str]) -> str:
        said = [self._words.address["+"]] if match.group().startswith("+") else []
        grouped = self._words.number in ("es", "fr")
        for group in re.findall(r"\d+", match.group().replace("(0)", " ")):
            whole = grouped and len(group) <= 3 and group[0] != "0"  # noqa: PLR2004
            said.append(self._numbers.cardinal(int(group)) if whole else self._numbers.digits(group))
        return " ".join(said)

    # Numbers

    def _read(self, number: str, noun: Noun | None = None) -> str | None:
        said = super()._read(number, noun)
        return re.sub(r"(cent|vingt)s (?=mille\b)", r"\1 ", said) if said and self._french else said

    def _ratio(self, match: re.Match[str]) -> str:
        return f"{self._read(match['ra'])} {self._words.to} {self._read(match['rb'].replace(' ', '.'))}"

    def _versus(self, match: re.Match[str]) -> str:
        return f"{self._read(match['va'])} {self._words.to} {self._read(match['vb'])}"

    def _power(self, match: re.Match[str]) -> Found:
        base, exponent = match["pw"], match["px"].translate(_SUPERSCRIPTS).lstrip("^").replace("−", "-")
        more = self._more
        power = {"2": more.squared, "3": more.cubed}.get(exponent)
        if power is None:
            value = exponent.lstrip("-")
            said = self._numbers.cardinal(int(value)) if value.isdecimal() else value
            power = " ".join(filter(None, (more.power, self._words.minus if exponent != value else "", said)))
        if base == ")":
            return match.start("px"), match.end(), power
        read = self._read(base) if base[0].isdecimal() else self._letters.spell(base)
        return match.start(), match.end(), f"{read} {power}"

    def _root(self, match: re.Match[str]) -> str:
        return self._more.root

    def _greek(self, match: re.Match[str]) -> str:
        return self._more.signs[match["gr"]]

    def _minus(self, match: re.Match[str]) -> str:
        return self._words.minus

    def _feminine(self, noun: str) -> bool:
        stems = (noun, noun.removesuffix("s"), re.sub("ces$", "z", noun)) if self._tag != "it" else (noun,)
        ends = _FEMININE[self._tag]
        return not any(map(_MASCULINE.search, stems)) and any(map(ends.search, stems))

    def _mixed(self, match: re.Match[str]) -> Found | None:
        """Read a half before a noun, and whole numbers with a fraction, by the gender of the noun."""
        top, bottom = _VULGAR[match["mf"]] if match["mf"] else (int(match["mt"]), int(match["mb"]))
        unit = self._words.units.get(match["mu2"] or "")
        if unit is not None:
            return self._mixed_unit(match, unit, top, bottom)
        whole, noun = match["mw"], match["mx"] or ""
        counts = bool(noun) and noun not in _NO_NOUNS
        plural = self._tag == "it" and whole not in (None, "1")
        feminine = counts and (noun[-1] == "e" if plural else self._feminine(noun))
        if not whole:
            if (top, bottom) == (1, 2) and counts:
                return match.start(), match.end() - len(noun) - 1, self._more.halves[feminine]
            return match.start(), match.end() - (len(noun) + 1 if noun else 0), self._numbers.part(top, bottom)
        link = self._words.minutes or ("et" if self._french else "y")
        tail = self._more.and_half[feminine] if (top, bottom) == (1, 2) else f"{link} {self._numbers.part(top, bottom)}"
        count = self._numbers.cardinal(int(whole), "f" if feminine else "m" if counts else None)
        if counts:
            return match.start(), match.end(), f"{count} {noun} {tail}"
        return match.start(), match.end() - (len(noun) + 1 if noun else 0), f"{count} {tail}"

    def _mixed_unit(self, match: re.Match[str], unit: Noun, top: int, bottom: int) -> Found:
        half, feminine, last = (top, bottom) == (1, 2), unit.gender == "f", match.end()
        if match.group().endswith(".") and not match.string[last:].strip():
            last -= 1
        if not match["mw"]:
            link = f"{self._words.of} "
            if self._tag in ("fr-fr", "it") and unit.one[0] in "aeiouhé":
                link = "d'"
            said = (
                f"{self._more.halves[feminine]} {unit.one}"
                if half
                else f"{self._numbers.part(top, bottom)} {link}{unit.one}"
            )
            return match.start(), last, said
        count = int(match["mw"])
        link = self._words.minutes or ("et" if self._french else "y")
        tail = self._more.and_half[feminine] if half else f"{link} {self._numbers.part(top, bottom)}"
        noun = unit.one if count == 1 else unit.many
        return match.start(), last, f"{self._numbers.cardinal(count, unit.gender)} {noun} {tail}"

    def _per_thousand(self, match: re.Match[str]) -> str:
        return f"{self._read(match['pt2'])} {self._more.per_thousand}"

    def _thousands(self, match: re.Match[str]) -> str:
        scale = "M" if match["km"] else "mil" if "mil" in self._words.scales else "k"
        noun = self._words.scales.get(scale) or self._words.scales["mila" if scale == "k" else "milioni"]
        said = self._read(match["kn"], noun)
        return "mille" if self._tag == "it" and said == "uno mila" else f"{said}"

    def _times(self, match: re.Match[str]) -> str:
        value = int(match["t"])
        times = self._more.times
        if value == 1:
            return {"es": "una vez", "fr-fr": "une fois", "it": "una volta"}.get(self._tag, "uma vez")
        return f"{self._numbers.cardinal(value, 'f')} {times}"

    def _meridiem(self, match: re.Match[str]) -> str:
        letter = self._letters.spell(match["ma"].upper() + "M")
        return f"{self._numbers.cardinal(int(match['mh']), 'f')} {letter}"

    def _minutes(self, match: re.Match[str]) -> str | None:
        if "'" in match.group() and re.search(r"(?:^|\s)'", match.string[: match.start()]):
            return None
        said = self._count(int(match["mq"]), "min")
        return f"{said} {self._count(int(match['sq']), 's')}" if match["sq"] else said

    def _product(self, match: re.Match[str]) -> str | None:
        unit = self._words.units.get(match["xu"] or "")
        by = self._more.by if unit or self._tag in ("es", "it") else self._words.signs["×"]
        numbers = [match["x1"], match["x2"], *((match["x3"],) if match["x3"] else ())]
        said = [self._read(number) for number in numbers[:-1]] + [self._read(numbers[-1], unit)]
        return f" {by} ".join(filter(None, said))

    def _spaced(self, match: re.Match[str]) -> str:
        value = int(match["sp"].replace(" ", ""))
        return self._numbers.cardinal(value, "f" if self._gendered and self._feminine(match["sy"]) else "m")

    def _inches(self, match: re.Match[str]) -> str | None:
        if match.group()[-1] == '"' and match.string[: match.start()].count('"') % 2:
            return None
        noun = {"es": "pulgadas", "fr-fr": "pouces", "it": "pollici"}.get(self._tag, "polegadas")
        gender = "f" if noun.endswith("as") else "m"
        number = match["in"]
        return f"{self._numbers.cardinal(int(number), gender) if number.isdecimal() else self._read(number)} {noun}"

    def _sign(self, match: re.Match[str]) -> str:
        if match["g"] == "x" or (match["g"] == "×" and self._is_size(match)):
            return self._more.by if self._is_size(match) or self._tag in ("es", "it") else self._words.signs["×"]
        return super()._sign(match)

    def _is_size(self, match: re.Match[str]) -> bool:
        tail = match.string[match.end() : match.end() + 40]
        return re.match(rf"[\d.,]+(?:\s?[x×]\s?[\d.,]+)?\s?(?:{either(self._words.units)})(?!\w)", tail) is not None

    def _number(self, match: re.Match[str]) -> Found | str | None:
        number = match["n"]
        found = re.match(r"\s(mil\s)?([a-zà-ÿ]{3,20})(?![\w'])", match.string[match.end() : match.end() + 32])
        if found is None or found[2] in _NO_NOUNS or not number.isdecimal() or number[0] == "0":
            return super()._number(match)
        noun = found[2]
        if self._gendered and (found[1] or noun == "mil") and len(number) < 4:  # noqa: PLR2004
            return self._numbers.cardinal(int(number), "f" if found[1] and self._feminine(noun) else "m")
        if self._french and len(number) < _LONGEST_NUMERAL and self._feminine(noun):
            return self._numbers.cardinal(int(number), "f")
        if self._tag == "it" and number == "1":
            one = self._italian_one(noun)
            return (match.start(), match.end() + found.end(), f"un'{noun}") if one == "un'" else one
        return super()._number(match)

    def _italian_one(self, noun: str) -> str:
        if noun[-1] == "i":
            return "uno"
        if self._feminine(noun):
            return "un'" if noun[0] in "aeiou" else "una"
        return "uno" if re.match(r"s[^aeiouàèìòù]|z|gn|ps|x|y", noun) else "un"

    def _money(self, match: re.Match[str]) -> str | None:
        said = self._amount(match)
        if match["mu"] and said:
            said = f"{said} {self._each(match['mu'])}"
        return f"{self._words.minus} {said}" if match["mm"] and said else said

    def _prices(self, match: re.Match[str]) -> str:
        noun = self._words.money[match["mrc"] or match["mra"]].noun
        first = match["mr1"]
        start = self._numbers.cardinal(int(first), noun.gender) if first.isdecimal() else self._read(first)
        return f"{start} {self._words.to} {self._read(match['mr2'], noun)}"

    def _each(self, unit: str) -> str:
        noun = self._words.units.get(unit)
        if noun is not None or self._tag != "it":
            return f"{self._words.per} {noun.one if noun else unit}"
        if unit[0] in "aeiouh":
            return f"all'{unit}"
        return f"alla {unit}" if self._feminine(unit) else f"al {unit}"

    def _amount(self, match: re.Match[str]) -> str | None:
        money = self._words.money[match["c1"] or match["c2"]]
        number = match["n1"] or match["n2"]
        if money.hundredth is None or not re.fullmatch(r"0[.,]\d\d", number) or number.endswith("00"):
            return super()._amount(match)
        value = int(number[-2:])
        noun = money.hundredth
        return f"{self._numbers.cardinal(value, noun.gender)} {noun.one if value == 1 else noun.many}"

    # Ordinals, Roman numerals, abbreviations

    @staticmethod
    def _next_word(match: re.Match[str]) -> str:
        found = re.match(r"\s([^\W\d_]+)", match.string[match.end() : match.end() + 32])
        return found[1] if found else ""

    def _nth(self, match: re.Match[str]) -> str:
        ending = match["ng"] or ("a" if self._feminine(self._next_word(match)) else "o")
        return self._numbers.ordinal(int(match["nt"]))[:-1] + ending

    def _french_ordinal(self, match: re.Match[str]) -> Found | str | None:
        value = roman(match["fo1"])
        if value is None:
            return None
        said = self._numbers.ordinal(value, "f" if re.search(r"(?:re|ère)$", match.group()) else "m")
        if match["fs"] is None:
            return said
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, f"{said} siècle"

    def _each_of(self, match: re.Match[str]) -> str:
        return self._more.out_of

    def _roman_range(self, match: re.Match[str]) -> str | None:
        first, last = roman(match["ra1"]), roman(match["ra2"])
        if first is None or last is None or first >= last:
            return None
        read = self._numbers.cardinal
        before = match.string[max(0, match.start() - 40) : match.start()]
        if self._tag == "it" and _CENTURIES.search(before):
            read = self._numbers.ordinal
        return f"{read(first)} {self._words.to} {read(last)}"

    def _initial(self, match: re.Match[str]) -> str:
        letter = match["it"].lower()
        return self._more.single.get(letter, letter)

    def _centuries(self, match: re.Match[str]) -> str | None:
        return self._of_century(match["rm"])

    def _century_after(self, match: re.Match[str]) -> Found | None:
        said = self._of_century(match["ca2"])
        last = not match.string[match.end() :].strip()
        return None if said is None else (match.start(), match.end() - last, f"{said} secolo")

    def _roman_first(self, match: re.Match[str]) -> Found | None:
        value, noun = roman(match["rf"]), match["rx"] or match["ry"]
        if value is None:
            return None
        if value > _LONGEST_NUMERAL and self._tag == "es":
            return match.start(), match.end() - 1, self._numbers.cardinal(value)
        feminine = self._feminine(noun.lower()) and not self._french
        return match.start(), match.end() - 1, self._numbers.ordinal(value, "f" if feminine else "m")

    def _roman_alone(self, match: re.Match[str]) -> str | None:
        value = roman(match["rl"])
        # "VI" is a word of Italian.
        if value is None or (match["rl"] == "VI" and self._tag == "it" and self._in_capitals(match)):
            return None
        nearby = match.string[max(0, match.start() - 40) : match.start()]
        if self._tag == "it" and _CENTURIES.search(nearby):
            return self._numbers.ordinal(value)
        return self._numbers.cardinal(value)

    def _numbered(self, match: re.Match[str]) -> str:
        said = self._before_number[match["nb"]]
        value = roman(match["nr"] or "")
        if value is None:
            return said
        ordinal = self._tag == "it" and said.startswith("secol")
        return f"{said} {self._numbers.ordinal(value) if ordinal else self._numbers.cardinal(value)}"

    def _unnumbered(self, match: re.Match[str]) -> Found:
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, "senza numero civico"

    def _lady(self, match: re.Match[str]) -> str:
        name = match["ln"]
        return "dona" if name.endswith("a") or name in _LADIES else "dom"


_LADIES: Final = word_set("Isabel Leonor Beatriz Inês Ester Raquel Carmen Irene Alice Judite Matilde Luz Mercedes")
_NO_NOUNS: Final = word_set(
    "más mais menos tras após plus moins più meno por par per para pour con com avec sin sem sans como comme come que "
    "del della dei delle degli des sur sobre sopra entre tra fra fois además está está estão son são sont será fue foi "
    "ogni cada chaque seul hasta desde depuis depois dopo après puis poi mais sino segundo según contra dans nella nel"
)
