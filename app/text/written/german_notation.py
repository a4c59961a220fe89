"""Notation in German text: formulas, powers, operators, codes, lengths of time, rates, and numbers in compounds."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from app.text.written import addresses, german_words
from app.text.written.forms import NUMBER, Found, WrittenForms, either
from app.text.written.numbers import roman
from app.text.written.words import Noun, Words

_NEARBY: Final = 40  # characters before a form that decide its reading
_PARTS: Final = re.compile(r"\d+|[^\W\d_]")
_NAME_BEFORE: Final = re.compile(r"(?:^|\s)[A-ZÄÖÜ][\w.]*\s$")


def patterns(words: Words) -> dict[str, str]:
    """Return the expressions of the groups that `Notation` reads."""
    units, money = either(words.units), either(words.money)
    coded = "|".join(rf"(?<=\b{re.escape(name)}{link})" for name in german_words.CODED for link in german_words.LINKS)
    housed = "|".join(rf"(?<={re.escape(name)} )" for name in german_words.HOUSED)
    high = r"[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"
    return {
        "always": r"(?<![\d/])24/7(?![\d/])",
        "iban": r"\b(?P<ib>[A-Z]{2})(?P<ic>\d{2}(?: ?\d{4}){2,7}(?: ?\d{1,3})?)(?!\w)",
        "coded": rf"(?=\d)(?:{coded})(?P<cd>\d{{2,16}}(?:[ -]\d{{1,8}}){{0,5}})(?![\w-]|[.,]\d)",
        "card": r"(?<![\w.,-])\d{4}(?P<cs>[ -])\d{4}(?P=cs)\d{4}(?:(?P=cs)\d{1,4})?(?![\w-])",
        "path": r"(?<![\w/.<~])(?:~|\.{1,2})?(?:/[\w.-]*\w){2,}+/?|(?<!\w)[A-Za-z]:(?:\\[\w.-]*\w)+",
        "month_year": r"(?<![\d/.])(?P<my>0[1-9]|1[0-2])/(?P<yy>19\d\d|20\d\d)(?![\d/])",
        "lasting": r"(?<![\d:.,])(?P<lh>\d{1,2}):(?P<lm>[0-5]\d)(?::(?P<ls>[0-5]\d))?"
        r"(?:\s?(?P<lu>h|Std\.?|Stunden)(?!\w)|(?<=:\d\d:\d\d)(?![\d:]))",
        "minutes": r"(?<![\d:.,])(?P<ma>\d{1,2}):(?P<mc>[0-5]\d)(?:[,.](?P<md>\d{1,3}))?"
        r"\s?(?:min|Min\.?|Minuten)(?!\w)",
        "clock_h": r"(?:(?<=\bum )|(?<=\bab )|(?<=\bbis )|(?<=\bgegen ))(?P<ch>[01]?\d|2[0-4])\s?h(?!\w)",
        "overtime": r"(?<=[\d)]\s)(?P<ov>n\. ?V\.|[ni]\. ?E\.)",
        "franc": r"(?<!\w)[Ss]?Fr\.\s?(?P<fa>\d{1,9})[.,](?:(?P<fb>\d\d)(?![.\d])|[-–])"
        rf"|(?<![\w.,])(?P<fc>\d{{1,3}}(?:['’]\d{{3}})+|{NUMBER})\s[Ss]?Fr\.",
        "halves": rf"(?<![\w.,/])(?:1/2|½)\s(?:(?P<hu>{units})(?!\w)|(?P<hn>[A-ZÄÖÜ][a-zäöüß]+))",
        "mixed": r"(?<![\w.,/])(?P<mw>\d{1,3})(?:\s(?P<mt>[1-9])/(?P<mb>\d{1,2})(?![\w/])|\s?(?P<mv>[½⅓⅔¼¾⅛]))"
        rf"(?:\s(?P<mu_>{units})(?!\w))?",
        "dimension": rf"(?<![\w.,])(?P<da>{NUMBER})\s?[x×]\s?(?P<db>{NUMBER})(?:\s?[x×]\s?(?P<dc>{NUMBER}))?"
        rf"(?:[\s-]?(?P<du>{units})(?!\w))?(?!\w)",
        "salt": r"(?<![\w-])(?:(?:Na|Ca|Mg|Ag|Li)(?:Cl|Br|OH|[OF])|HCl|KCl|KBr|KOH|HBr)(?!\w)",
        "formula": r"(?<![\w.,])(?!Nr\d)(?=[A-Za-zÄÖÜ]{1,12}[\d₀-₉])(?:[A-ZÄÖÜ][a-z]?[\d₀-₉]{0,4}){1,8}(?![^\W_])",
        "capitals": rf"(?<![\w.,-])(?P<an>\d{{1,3}})(?!(?:{units}|{money})(?!\w)|[KM](?:\+|\s{german_words.CROWD}))"
        r"(?P<al>[A-Z]{1,2})(?![^\W_])",
        "power": rf"(?:(?<![\w.,])(?P<pb>\d{{1,9}}(?:,\d+)?)|(?<=[A-Za-z)]))"
        rf"(?:(?P<pw>{high})(?![^\W_])|\^(?P<ce>[-−]?\d{{1,4}}(?!\d)|\([-−]?\d{{1,4}}\)|[-−]?[a-z](?!\w)))"
        rf"(?:\s(?P<pu>{units})(?!\w))?",
        "until": r"(?<=\d\.)\s?[–-]\s?(?=\d{1,2}\.\s?\d)|(?<=:\d\d)\s?[–-]\s?(?=\d{1,2}:\d\d)"
        r"|(?<=\.\d{4})\s?[–-]\s?(?=\d{1,2}\.\s?\d)",
        "verse": rf"\b(?P<vb>{either(german_words.BIBLE)})\.?\s(?P<vc_>\d{{1,3}}),(?P<vv>\d{{1,3}})(?!\d)",
        "life": r"(?:(?<![^\s(])\*|†)\s?(?=\d)",
        "pressure": r"(?<![\w.,/])(?P<ph>\d{2,3})/(?P<pl>\d{2,3})(?=\s?mmHg)"
        r"|(?:(?<=Blutdruck )|(?<=Blutdruck: )|(?<=Blutdruck von ))(?P<ph2>\d{2,3})/(?P<pl2>\d{2,3})(?![\w/])",
        "beside": r"(?<=\d\s)(?P<be>ff?|S)\.(?!\s?\d)"
        r"|(?<![\w.])(?:(?P<vo>v)\.(?=\s(?:(?!Chr)[A-ZÄÖÜ][a-zäöü]|\d{1,2}\.))|(?P<he>H|Gr)\.(?=\s\d))",
        "house": rf"(?:{housed})(?P<hs>\d{{1,4}})\s?(?P<hl>[A-H])(?![\w.])",
        "ion": r"(?<![\w-])(?P<el>(?:[A-Z][a-z]?){1,2})(?P<ec>[²³⁴]?)(?P<es>[⁺⁻])(?![^\W_])"
        r"|(?<![\w-])(?P<el2>Na|Li|Ag|Cl|Br|K|H)(?P<es2>[+−])(?=[\s,.;)]|$)",
        "minus": r"(?:(?<=[\d)²³¹⁰⁴-⁹] )|(?<=\b[A-Za-zα-ω] ))−(?=\s(?:[\d(√]|[A-Za-zα-ω](?![^\W\d_²³¹⁰⁴-⁹])))",
        "toward": r"(?<=\w )→(?= [A-ZÄÖÜ][a-zäöü])",
        "compared": r"(?:(?<=\b[a-zA-Z] )|(?<=\d ))[<>≤≥](?= [a-zA-Z](?!\w))",
        "after_unit": r"(?<=[\w²\"] )[x×](?= \d)",
        "joined": r"(?<=[a-zäöüß_])(?P<jo>\d{1,6})(?!\w)",
        "love": r"(?:(?<=\b[Ii]ch )|(?P<we>(?<=\b[Ww]ir )))[❤♥]\ufe0f?(?= ?\w)",
        "at_most": r"\bMax\.(?=\s\d)",
        "coefficient": r"(?<![\w.,])(?P<cf>\d{1,4})(?=[α-ω])",
        "greek": r"(?<![^\W\d_])[α-ωΔΣΩ](?![^\W\d_]{2})",
        "operator": r"(?<![=!<>])(?:==|!=|>=|<=)(?!=)|&&|\|\||≠|∞|√|~(?=\s?\d)|(?<=\d)\s?\*\s?(?=\d)",
        "sharp": r"(?<=\b[CF])#",
        "hash": r"(?<![\w&#/])#(?=\w)",
        "inch": rf"(?<![\w.,])(?P<zo>{NUMBER})\s?(?:[″”]|\"(?!\w))",
        "rate": r"(?<=\d)/(?P<ra>min|h|Std\.?|Tag|Woche|Monat|Jahr|Person)(?!\w)",
        "per": rf"(?<=[\w€$£²³.])/\s?(?P<pe>(?:{units}|{either(german_words.RATES)})(?!\w)|(?=100\s?km\b))",
        "unit_name": rf"(?:(?<=\bpro )|(?<=\bje )|(?<=\bin ))(?P<bu>(?!\w\b){units})(?![\w.-])",
        "second_numeral": r"(?<=[IVX] und )(?P<sr>[IVX]{2,6})(?![\w.])",
        "compound": rf"(?<![\w.,])(?P<cn>{NUMBER})-(?:(?P<cu>{units}|{money})|(?P<cx>{either(words.scales)})\.?)(?=-)",
        "apostrophes": r"(?<![\w.,])\d{1,3}(?:['’]\d{3})+(?![\w'’])",
        "spaced": rf"(?<![\w.,+])[1-9]\d{{0,2}}(?: \d{{3}}){{1,4}}(?:\s?(?P<sm>{money})(?!\w)"
        r"|(?=\s(?:Euro|Dollar|Franken|Mark|Einwohner|Menschen|Personen|Zuschauer|Kilometer|Meter|Tonnen)\b))",
        "single": rf"(?<![\w.,:/+×=-])1(?=\s(?!(?:{units}|{either(words.scales)})(?!\w))(?P<sn_>[A-ZÄÖÜ][a-zäöüß]+))",
    }


class Notation(WrittenForms):
    """Readers of the groups of `patterns`. Methods are safe on any thread."""

    def __init__(self, tag: str) -> None:
        super().__init__(tag)
        # An amount with its unit or currency, at the end of a text.
        self._amounts = re.compile(
            rf"[\d⁰¹²³⁴⁵⁶⁷⁸⁹]\s?(?:{either(self._words.units)}|{either(self._words.money)}|Euro|Mio\.? €)$"
        )

    # Codes

    def _always(self, match: re.Match[str]) -> str:
        return f"{self._numbers.cardinal(24)} {self._numbers.cardinal(7)}"

    def _iban(self, match: re.Match[str]) -> str:
        return f"{' '.join(match['ib'])} {self._numbers.digits(match['ic'])}"

    def _coded(self, match: re.Match[str]) -> str:
        return self._numbers.digits(match["cd"])

    def _card(self, match: re.Match[str]) -> str:
        return self._numbers.digits(match.group())

    def _path(self, match: re.Match[str]) -> str:
        return addresses.words(match.group(), self._words.address, self._numbers)

    def _formula(self, match: re.Match[str]) -> str:
        return self._spelled(unicodedata.normalize("NFKC", match.group()))

    def _salt(self, match: re.Match[str]) -> str:
        return self._spelled(match.group())

    def _capitals(self, match: re.Match[str]) -> str:
        return self._spelled(match.group())

    def _spelled(self, text: str) -> str:
        """Return letters one by one, and digits as numbers."""
        return " ".join(
            part.upper()
            if not part.isdecimal()
            else self._numbers.digits(part)
            if part[0] == "0" and len(part) > 1
            else self._numbers.cardinal(int(part))
            for part in _PARTS.findall(text)
        )

    # Times

    def _month_year(self, match: re.Match[str]) -> str:
        return f"{self._words.months[int(match['my']) - 1]} {self._read(match['yy'])}"

    def _time(self, hour: str, minute: str | None) -> str:
        said = f"{self._numbers.cardinal(int(hour), 'm')} Uhr"
        return f"{said} {self._numbers.cardinal(int(minute))}" if minute and int(minute) else said

    def _clock(self, match: re.Match[str]) -> str:
        before = self._word_before(match)
        if before in german_words.PROPORTIONS:
            return f"{self._numbers.cardinal(int(match['h']))} zu {self._numbers.cardinal(int(match['mi']))}"
        return self._time(match["h"], match["mi"])

    def _lasting(self, match: re.Match[str]) -> str:
        hours, minutes, seconds = match["lh"], match["lm"], match["ls"]
        lasts = match["lu"] not in (None, "h") or self._word_before(match) in german_words.LASTING
        if not lasts:
            said = self._time(hours, minutes)
            if seconds is None:
                return said
            said = said if int(minutes) else f"{said} null"
            return f"{said} und {self._counted(int(seconds), 's')}"
        parts = [self._counted(int(value), unit) for value, unit in ((hours, "h"), (minutes, "min")) if int(value)]
        if seconds and int(seconds):
            parts.append(f"und {self._counted(int(seconds), 's')}")
        return " ".join(parts)

    def _minutes(self, match: re.Match[str]) -> str:
        said = f"{self._counted(int(match['ma']), 'min')} {self._numbers.cardinal(int(match['mc']))}"
        return f"{said} Komma {self._numbers.digits(match['md'])}" if match["md"] else said

    def _counted(self, value: int, unit: str) -> str:
        noun = self._words.units[unit]
        return f"{self._numbers.cardinal(value, noun.gender)} {noun.one if value == 1 else noun.many}"

    def _clock_h(self, match: re.Match[str]) -> str:
        return self._time(match["ch"], None)

    def _overtime(self, match: re.Match[str]) -> str:
        first, last = match["ov"][0], match["ov"][-2]
        return "nach Verlängerung" if last == "V" else f"{'nach' if first == 'n' else 'im'} Elfmeterschießen"

    # Quantities

    def _franc(self, match: re.Match[str]) -> Found:
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        amount = re.sub(r"['’]", "", match["fa"] or match["fc"])
        said = f"{self._read(amount, Noun('Franken', 'Franken'))}"
        cents = f" {self._numbers.cardinal(int(match['fb']))}" if match["fb"] and int(match["fb"]) else ""
        return match.start(), match.end() - last, said + cents

    def _halves(self, match: re.Match[str]) -> Found:
        noun = self._words.units[match["hu"]].one if match["hu"] else match["hn"]
        neuter = noun.lower() in german_words.NEUTER or german_words.NEUTER_ENDING.search(noun)
        half = "eine halbe" if self._is_feminine(noun) else "ein halbes" if neuter else "ein halber"
        if match["hu"]:
            return match.start(), match.end(), f"{half} {noun}"
        return match.start(), match.start("hn") - 1, half

    def _mixed(self, match: re.Match[str]) -> str | None:
        top, bottom = (match["mt"], match["mb"]) if match["mv"] is None else german_words.PARTS[match["mv"]]
        if int(bottom) < 2:
            return None
        whole = self._numbers.cardinal(int(match["mw"]), "m")
        half = int(top) == 1 and int(bottom) == 2
        unit = f" {self._words.units[match['mu_']].many}" if match["mu_"] else ""
        return f"{whole}{'einhalb' if half else f' {self._numbers.part(int(top), int(bottom))}'}{unit}"

    def _dimension(self, match: re.Match[str]) -> str:
        sizes = [f"{self._read(match[name])}" for name in ("da", "db", "dc") if match[name]]
        unit = f" {self._words.units[match['du']].many}" if match["du"] else ""
        return f"{' mal '.join(sizes)}{unit}"

    def _power(self, match: re.Match[str]) -> str:
        exponent = unicodedata.normalize("NFKC", match["pw"] or match["ce"]).strip("()").replace("−", "-")
        value = exponent.lstrip("-+")
        said = self._numbers.cardinal(int(value)) if value.isdecimal() else value
        minus = "minus " if exponent[0] == "-" else ""
        base = f"{self._read(match['pb'])} " if match["pb"] else ""
        unit = f" {self._words.units[match['pu']].many}" if match["pu"] else ""
        return f"{base}hoch {minus}{said}{unit}"

    def _minus(self, match: re.Match[str]) -> str:
        return self._words.minus

    def _pressure(self, match: re.Match[str]) -> str:
        high, low = match["ph"] or match["ph2"], match["pl"] or match["pl2"]
        return f"{self._numbers.cardinal(int(high))} zu {self._numbers.cardinal(int(low))}"

    def _ion(self, match: re.Match[str]) -> str:
        count = unicodedata.normalize("NFKC", match["ec"] or "")
        sign = "plus" if (match["es"] or match["es2"]) in "⁺+" else "minus"
        return f"{self._spelled((match['el'] or match['el2']) + count)} {sign}"

    def _verse(self, match: re.Match[str]) -> str:
        chapter, verse = (self._numbers.cardinal(int(match[name])) for name in ("vc_", "vv"))
        return f"{german_words.BIBLE[match['vb']]} {chapter} Vers {verse}"

    def _life(self, match: re.Match[str]) -> str:
        return "gestorben" if match.group()[0] == "†" else "geboren"

    def _house(self, match: re.Match[str]) -> str:
        return f"{self._numbers.cardinal(int(match['hs']))} {match['hl']}"

    def _inch(self, match: re.Match[str]) -> Found:
        said = f"{self._read(match['zo'], self._words.units['m'])}".rpartition(" ")[0]
        if match.group().endswith(("″", "”")) or match.string.count('"', 0, match.start()) % 2 == 0:
            return match.start(), match.end(), f"{said} Zoll"
        return match.start(), match.end("zo"), f"{self._read(match['zo'])}"

    def _per(self, match: re.Match[str]) -> Found | None:
        if not self._amounts.search(match.string[max(0, match.start() - _NEARBY) : match.start()]):
            return None
        noun = self._words.units.get(match["pe"])
        rate = noun.one if noun else german_words.RATES.get(match["pe"], "")
        return match.start(), match.end(), f"pro {rate}".rstrip()

    def _rate(self, match: re.Match[str]) -> str:
        unit = self._words.units.get(match["ra"]) or self._words.units.get(f"{match['ra']}.")
        return f"pro {unit.one if unit else match['ra']}"

    def _unit_name(self, match: re.Match[str]) -> str:
        noun = self._words.units[match["bu"]]
        return noun.many if match.string[: match.start()].endswith("in ") else noun.one

    def _second_numeral(self, match: re.Match[str]) -> str | None:
        value = roman(match["sr"])
        return None if value is None else self._numbers.cardinal(value)

    def _compound(self, match: re.Match[str]) -> str:
        if match["cx"]:
            return f"{self._read(match['cn'], self._words.scales[match['cx']])}"
        unit = match["cu"]
        noun = self._words.money[unit].noun if unit in self._words.money else self._words.units[unit]
        return f"{self._read(match['cn'])} {noun.many if noun.gender == 'f' else noun.one}"

    def _apostrophes(self, match: re.Match[str]) -> str:
        return self._numbers.cardinal(int(re.sub(r"\D", "", match.group())))

    def _spaced(self, match: re.Match[str]) -> str | None:
        digits = re.sub(r"\D", "", match.group())
        return self._read(digits, self._words.money[match["sm"]].noun) if match["sm"] else self._read(digits)

    def _single(self, match: re.Match[str]) -> str:
        """Read "1" before a noun: "1 Prise". After a noun it is a name: "Platz 1 Berlin"."""
        named = _NAME_BEFORE.search(match.string[max(0, match.start() - _NEARBY) : match.start()])
        feminine = self._is_feminine(match["sn_"])
        return self._numbers.cardinal(1, None if named else "f" if feminine else "m")

    # Signs

    def _until(self, match: re.Match[str]) -> str:
        return "bis"

    def _toward(self, match: re.Match[str]) -> str:
        return "nach"

    def _compared(self, match: re.Match[str]) -> str:
        return self._words.signs[match.group()]

    def _beside(self, match: re.Match[str]) -> Found:
        last = not match.string[match.end() :].strip()
        if match["be"]:
            said = {"f": "folgende", "ff": "fortfolgende", "S": "Seiten"}[match["be"]]
        else:
            dated = match.string[match.end() :].lstrip()[:1].isdecimal()
            said = ("vom" if dated else "von") if match["vo"] else "Heft" if match["he"] == "H" else "Größe"
        return match.start(), match.end() - last, said

    def _after_unit(self, match: re.Match[str]) -> str:
        return "mal"

    def _joined(self, match: re.Match[str]) -> str:
        return self._spelled(match["jo"])

    def _love(self, match: re.Match[str]) -> str:
        return "liebe" if match["we"] is None else "lieben"

    def _at_most(self, match: re.Match[str]) -> str:
        return "maximal"

    def _coefficient(self, match: re.Match[str]) -> str:
        return self._numbers.cardinal(int(match["cf"]))

    def _greek(self, match: re.Match[str]) -> str:
        return german_words.GREEK[match.group().lower()]

    def _operator(self, match: re.Match[str]) -> str:
        return german_words.OPERATORS[match.group().strip()]

    def _sharp(self, match: re.Match[str]) -> str:
        return "sharp"

    def _hash(self, match: re.Match[str]) -> str:
        return "Nummer" if match.string[match.end()].isdecimal() else "Hashtag"

    # Words around a form

    @staticmethod
    def _word_before(match: re.Match[str]) -> str:
        found = re.findall(r"[^\W\d_]+", match.string[max(0, match.start() - _NEARBY) : match.start()])
        return found[-1].lower() if found else ""

    @staticmethod
    def _is_feminine(noun: str) -> bool:
        noun = noun.capitalize() if noun.isupper() else noun
        return noun in german_words.FEMININES or german_words.FEMININE.search(noun) is not None
