"""Written forms of German: ordinals with the ending of their case, monarchs, times, telephone numbers, fractions.

An ordinal is digits and a full stop. Its ending follows from the word before it, and its gender from the noun after it.
"""

from __future__ import annotations

import re
from typing import Final

from app.text.written import german_notation, german_words
from app.text.written.forms import NUMBER, Found, either
from app.text.written.numbers import roman
from app.text.written.words import Noun

_NEARBY: Final = 40  # characters before a form that decide its ending
_ONE_BEFORE: Final = re.compile(r"(?:\d\.|\bpro|\bje|\bjede|\bletzten?|\bnächsten?)\s$")
_CHAIN: Final = re.compile(r"(?:\b\d{1,4}\.(?:,\s|\s(?:und|u\.|oder|bis)\s))+$")


class GermanForms(german_notation.Notation):
    """Written forms of German. Methods are safe on any thread."""

    def _groups(self) -> dict[str, str]:
        months, days = either(german_words.MONTHS), either(german_words.DAYS)
        money, scales = either(self._words.money), either(self._words.scales)
        base = super()._groups()
        notation = german_notation.patterns(self._words)
        single = notation.pop("single")  # after dates and times
        first = {
            "address": base.pop("address"),
            "iso": base.pop("iso"),
            "rate_name": base.pop("rate_name"),
            **notation,
            "phone": r"(?<![\w.,])(?:\+\d{1,3}(?:[ /-]?\(0\))?[ /-]?\(?\d{1,5}\)?|\(0\d{1,5}\)|0\d{1,5})"
            r"(?:[ /–-]{1,3}\d{2,9}){1,6}(?!\w|[.,]\d)",
            "dated": r"(?<![\d/.])(?<![A-Z]{2}\s)(?P<dd>0?[1-9]|[12]\d|3[01])\.\s?(?P<dm>0?[1-9]|1[0-2])\."
            r"(?:\s?(?P<dy>\d{4}|\d\d(?!\d)))?(?![\d/])",
            "days": rf"(?<!\d)(?P<f1>[1-9]|[12]\d|3[01])\.?\s?(?P<fs>[–/-]|bis)\s?(?P<f2>[1-9]|[12]\d|3[01])\."
            rf"(?=\s(?:{months})\b)",
            "in_month": rf"(?<!\d)(?P<id>\d{{1,2}})\.\s?(?P<im>{months})\b(?:\.(?=\s*\d))?"
            r"(?:\s(?P<iy>[12]\d{3})(?!\d))?",
            "hours": r"(?<![\d:.,])(?P<h1>[01]?\d|2[0-4])(?:[:.](?P<m1>[0-5]\d))?"
            r"(?:\s?[–-]\s?(?P<h2>[01]?\d|2[0-4])(?:[:.](?P<m2b>[0-5]\d))?)?(?:\s?Uhr\b|(?<=:\d\d)\s?h(?!\w))",
            "clock": r"(?<![\d:])(?P<h>[01]?\d|2[0-4]):(?P<mi>[0-5]\d)(?![\d:]|\.\d)",
            "divided": r"(?<=\d)\s:\s(?=\d)",
            "score": r"(?<![\d:.,])(?P<s1>\d{1,3}):(?P<s3>\d{4,7}|\d{1,3}(?:\.\d{3}){0,2})(?![\d:]|[.,]\d)",
            "day_span": rf"\b(?P<w1>{days})\.?\s?[–-]\s?(?P<w2>{days})\b\.?",
            "day_name": r"(?:(?<=\bam )|(?<=\bjeden )|(?<=\bbis )|(?<=\bab )|(?<=stens )|(?<=\bseit )|(?<=\baußer )"
            r"|(?<=sten )|(?<=tzten )|(?<=nden )|(?<=\bund )(?!Fr\.\s[A-ZÄÖÜ]))"
            rf"(?P<w3>{days})\.|\b(?P<w4>{days})"
            r"(?:\.(?=,?\s(?:\d|(?<!Fr\.\s)und\b|um\b|ab\b|bis\b|von\b))|(?=,\s\d)"
            r"|(?=\sbis\s(?:Mo|Di|Mi|Do|Fr|Sa|So)\b)|(?<=(?:Mo|Di|Mi|Do|Fr|Sa|So)\sbis\s..)(?!\w)"
            r"|(?=(?:,|\sund|\s&)\s(?:Mo|Di|Mi|Do|Fr|Sa|So)\b)|(?=\.?\s(?:Ruhetag|geschlossen|zu\b))"
            r"|(?=\s\d{1,2}(?:[.:–-]\d|\s?Uhr\b))|(?<!So)(?=\s(?:bis|ab|von|um)\s\d)"
            r"|(?=[/+](?:Mo|Di|Mi|Do|Fr|Sa|So)\b)|(?<=[/+]..)(?!\w))",
            "scaled": rf"(?:(?P<xc>{money})\s?)?(?<![\w.,])(?P<xn>{NUMBER})\s?(?P<x>{scales}"
            rf"|(?<=\d)(?:[KMm](?=\s{german_words.CROWD})"
            rf"|[KM](?=\+)))\b\.?(?:\s?(?P<xm>{money})(?!\w))?",
            "even": rf"(?:(?P<vc>{money})\s?)?(?<![\w.,])(?P<v>{NUMBER}),[-–—]{{1,2}}(?:\s?(?P<vm>{money})(?!\w))?",
            "fraction": rf"(?:(?<![\w.,/])(?P<fn>\d{{1,2}})/(?P<fd>\d{{1,2}})(?![\w/]|[.,]\d)|(?P<vf>[½⅓⅔¼¾⅛]))"
            rf"(?:\s?(?P<fu>{either(self._words.units)})(?!\w))?",
            "decade": r"(?<![\w.,])'?(?P<de>[1-9]\d?|1[1-9]\d\d|20\d\d|7[0-8]7)"
            r"(?:er(?P<dn>n)?|(?:(?<=(?:1[5-9]|20)\d0)|(?<=7\d7)|(?<=\b[A-Z]-\d\d)|(?<=d(?:ie|en|er) [2-9]0)"
            r"(?!s\s[A-ZÄÖÜ]))s)(?!\w)(?P<dj>[ -]Jahren?\b)?",
            "times": r"(?<![\w.,])(?P<t>\d{1,3})(?P<tw>-?mal|-?fache?[rnsm]?"
            r"|-[jJ]ährige?[rnsm]?|-prozentige?[rnsm]?|-köpfige[rnsm]?|-stündige[rnsm]?|-tägige[rnsm]?"
            r"|-(?:stell|minüt|wöch|monat|seit|teil)ige[rnsm]?|x(?=\s(?![-+=<>−])))\b",
            "monarch": r"\b(?!(?:[DIA][eaimn][rsmn]?|Zum|Zur|Vom|Beim)\s)(?P<k>[A-ZÄÖÜ][^\W\d_]{2,29})"
            r"\s(?P<kr>[IVX]{1,6})\."
            rf"|\b(?P<k2>{either(german_words.KINGS)})\s(?P<kr2>[IVX]{{1,6}})(?![\w.])",
            "percent_of": r"(?<![\w.,])(?P<po>\d{1,3})\s?%-?(?P<pi>ige?[rnsm]?)\b",
            "roman_ordinal": r"(?<![\w.])(?P<ro>[IVX]{1,6})\.(?=\s[A-ZÄÖÜ][a-zäöü])",
            "ordinal": r"(?<![\w.,:/-])(?P<o>[1-9]\d{0,3})\.(?!\d)(?:(?=\s+\w)|(?=\+\d)|(?=,\s\d{1,4}\.)|(?=[)\s]*$))",
            "letters": r"(?<![\w.-])(?<![A-ZÄÖÜ] )(?![IVX]{1,3}\b)"
            r"(?P<lt>(?=[A-Z]?[AEIOUÄÖÜ])[A-ZÄÖÜ]{2}|[AEIOU][A-Z][A-NP-Z])(?!\w|\.\w| [A-ZÄÖÜ]{2}|\$)",
            "street": r"\b(?P<sn>[A-ZÄÖÜ][a-zäöüß]{1,30})str(?:\.|(?=\s\d))",
            "pages": r"(?<![\w.])S\.(?=\s\d)",
            "paragraph": r"(?P<pg>§§?)(?=\s?\d)",
            "code": r"(?:(?<=, )|(?<=\bD-)|(?<![\w.,-]))(?P<z>0\d{4}|(?<=, )\d{5}|(?<=\bD-)\d{5})(?=\s[A-ZÄÖÜ])",
            "letter": r"(?<![\w.,])(?P<ln>\d{1,4})(?P<ll>[a-fnx-z])(?!\w|\.\w)",
            "single": single,
        }
        numbered = self._words.numbered.replace(".", "\\.").replace(" ", "|")
        base["roman"] = rf"(?!(?:{numbered})\s){base['roman']}"  # "Teil I" is read by "numeral"
        base["roman"] += r"(?!\.\s[A-ZÄÖÜ][a-zäöü])"  # "Der II. Weltkrieg"
        del base["date"], base["day_"], base["century"]
        for name in ("clock", "phone", "dial", "ordinal", "fraction", "scaled"):
            base.pop(name)
        return {**first, **base}

    # Cases of ordinals

    def _ordinal_of(self, value: int, text: str, start: int, end: int, *, day: bool = False) -> str:
        """Return an ordinal with the ending of its place in `text`."""
        stem = self._numbers.ordinal(value)
        # "am 2. und 3. Mai": the word before the first one decides.
        earlier = _CHAIN.sub("", text[max(0, start - _NEARBY) : start])
        before = re.findall(r"[^\W\d_]+", earlier)[-2:]
        last = before[-1].lower() if before else ""
        if last in german_words.WEAK or (
            last == "der" and len(before) > 1 and before[0].lower() in german_words.PREPOSITIONS
        ):
            return f"{stem}n"
        if last in german_words.STRONG_E:
            return stem
        following = re.match(r"\s+([^\W\d_]+)", text[end : end + _NEARBY])
        noun = "" if day or following is None else following.group(1)
        if noun.lower() in german_words.NEUTER or german_words.NEUTER_ENDING.search(noun):
            return f"{stem}s"
        return stem if noun[:1].isupper() and self._is_feminine(noun) else f"{stem}r"

    def _date_of(self, match: re.Match[str], day: int, month: int, year: str) -> str | None:
        if not (1 <= day <= 31 and 1 <= month <= 12):
            return None
        said = [
            self._ordinal_of(day, match.string, match.start(), match.end(), day=True),
            self._words.months[month - 1],
        ]
        if year:
            century = "" if len(year) > 2 else "20" if int(year) < 70 else "19"
            said.append(self._year(int(century + year)))
        return " ".join(said)

    def _year(self, value: int) -> str:
        return self._numbers.year(value) if 1100 <= value < 2000 else self._numbers.cardinal(value)

    def _iso(self, match: re.Match[str]) -> str | None:
        return self._date_of(match, int(match["d"]), int(match["m"]), match["y"])

    def _dated(self, match: re.Match[str]) -> str | None:
        return self._date_of(match, int(match["dd"]), int(match["dm"]), match["dy"] or "")

    def _in_month(self, match: re.Match[str]) -> str | None:
        return self._date_of(match, int(match["id"]), german_words.MONTHS[match["im"]], match["iy"] or "")

    def _days(self, match: re.Match[str]) -> str:
        first = self._ordinal_of(int(match["f1"]), match.string, match.start(), match.end(), day=True)
        last = self._numbers.ordinal(int(match["f2"]))
        link = "und" if match["fs"] == "/" else "bis"
        return f"{first} {link} {last}{first[len(self._numbers.ordinal(int(match['f1']))) :]}"

    def _ordinal(self, match: re.Match[str]) -> str | Found | None:
        last = not match.string[match.end() :].strip(" )")
        before = match.string[max(0, match.start() - _NEARBY) : match.start()].split()
        # At the end the full stop ends the sentence, too. A number without an article is no ordinal there.
        if last and (not before or before[-1].lower() not in german_words.ARTICLES):
            return match.start(), match.end("o"), f"{self._read(match['o'])}"
        said = self._ordinal_of(int(match["o"]), match.string, match.start(), match.end())
        return match.start(), match.end() - last, said

    def _roman_ordinal(self, match: re.Match[str]) -> str | None:
        value = roman(match["ro"])
        return self._ordinal_of(value, match.string, match.start(), match.end()) if value else None

    def _monarch(self, match: re.Match[str]) -> Found | None:
        name, numeral = match["k"] or match["k2"], match["kr"] or match["kr2"]
        value = roman(numeral)
        last = bool(match["k"]) and not match.string[match.end() :].strip()
        if value is None or name in self._words.numbered.split() or name in german_words.TITLES:
            return None
        before = re.findall(r"[^\W\d_]+", match.string[max(0, match.start() - _NEARBY) : match.start()])
        role = next((word for word in reversed(before[-4:]) if word[0].islower()), before[0] if before else "")
        ordinal = self._numbers.ordinal(value).capitalize()
        role = role.lower()
        if name in german_words.QUEENS or any(word.endswith(("önigin", "aiserin", "arin")) for word in before[-2:]):
            said = f"der {ordinal}n" if role in german_words.DATIVE or name.endswith("s") else f"die {ordinal}"
        elif role in german_words.DATIVE:
            said = f"dem {ordinal}n"
        elif role in german_words.ACCUSATIVE:
            said = f"den {ordinal}n"
        elif role == "des" or (name.endswith("s") and not german_words.NOMINATIVE.search(name)):
            said = f"des {ordinal}n"
        else:
            said = f"der {ordinal}"
        return match.start() + len(name) + 1, match.end() - last, said

    # Times

    def _hours(self, match: re.Match[str]) -> str:
        if match["h2"] is None:
            return self._time(match["h1"], match["m1"])
        if match["m1"] is None:
            return f"{self._numbers.cardinal(int(match['h1']), 'm')} bis {self._time(match['h2'], match['m2b'])}"
        return f"{self._time(match['h1'], match['m1'])} bis {self._time(match['h2'], match['m2b'])}"

    def _day_span(self, match: re.Match[str]) -> str:
        return f"{german_words.DAYS[match['w1']]} bis {german_words.DAYS[match['w2']]}"

    def _day_name(self, match: re.Match[str]) -> str:
        return german_words.DAYS[match["w3"] or match["w4"]]

    def _decade(self, match: re.Match[str]) -> str:
        value = int(match["de"])
        words = f"{self._year(value)}er{match['dn'] or ''}"
        return f"{words}{(match['dj'] or '').replace('-', ' ')}"

    # Quantities

    def _read(self, number: str, noun: Noun | None = None) -> str | None:
        if noun is None and number.isdecimal() and len(number) == 4 and 1100 <= int(number) < 2000:
            return self._year(int(number))
        return super()._read(number, noun)

    def _range(self, match: re.Match[str]) -> str | None:
        said = super()._range(match)
        if said is None or not (len(match["r1"]) == len(match["r2"]) == 4 and match["ru"] is None):
            return said
        return f"{self._read(match['r1'])} bis {self._read(match['r2'])}"

    def _amount(self, match: re.Match[str]) -> str | None:
        number, money = match["n1"] or match["n2"], self._words.money[match["c1"] or match["c2"]]
        cents = re.search(r"[.,](\d\d)$", number)
        if cents is None or int(number[: cents.start()].replace(".", "")) or not int(cents[1]):
            said = super()._amount(match)
            return None if said is None else said.removesuffix(f" {money.cents}") if money.cents else said
        return f"{self._numbers.cardinal(int(cents[1]), 'm')} {money.cents or money.noun.many}"

    def _scaled(self, match: re.Match[str]) -> str:
        money = self._words.money.get(match["xc"] or match["xm"] or "")
        scale = {"K": "k", "M": "Mio", "m": "Mio"}.get(match["x"], match["x"])
        said = f"{self._read(match['xn'], self._words.scales[scale])}"
        return f"{said} {money.noun.many}" if money else said

    def _even(self, match: re.Match[str]) -> str:
        money = self._words.money.get(match["vc"] or match["vm"] or "€", self._words.money["€"])
        return f"{self._read(match['v'], money.noun)}"

    def _unit(self, match: re.Match[str]) -> str | Found:
        said = super()._unit(match)
        if isinstance(said, str) and said.endswith(("Jahre", "Tage", "Monate")):
            said += "n" if self._word_before(match) in german_words.DATIVE else ""
        if isinstance(said, str) and match.group().endswith(".") and not match.string[match.end() :].strip():
            return match.start(), match.end() - 1, said
        return said

    def _fraction(self, match: re.Match[str]) -> str | None:
        unit = f" {self._words.units[match['fu']].one}" if match["fu"] else ""
        if match["vf"]:
            said = "ein halb" if match["vf"] == "½" else self._numbers.part(*german_words.PARTS[match["vf"]])
            return said + unit
        top, bottom = int(match["fn"]), int(match["fd"])
        if match.string[match.end() :].lstrip().startswith("="):
            return f"{self._numbers.cardinal(top)} {self._words.signs['÷']} {self._numbers.cardinal(bottom)}"
        if bottom < 2 or top >= 2 * bottom:
            return None
        return self._numbers.part(top, bottom) + unit

    def _score(self, match: re.Match[str]) -> str:
        return f"{self._read(match['s1'])} zu {self._read(match['s3'])}"

    def _percent_of(self, match: re.Match[str]) -> str:
        return f"{self._numbers.cardinal(int(match['po']))}prozent{match['pi']}"

    def _divided(self, match: re.Match[str]) -> str:
        return self._words.signs["÷"]

    def _times(self, match: re.Match[str]) -> str:
        value = int(match["t"])
        said = self._numbers.cardinal(value, "m" if value == 1 else None)
        return f"{said} mal" if match["tw"] == "x" else f"{said}{match['tw'].lstrip('-')}"

    # Telephone numbers, codes, streets

    def _phone(self, match: re.Match[str]) -> str:
        digits = self._numbers.digits(match.group().replace("(0)", ""))
        return f"plus {digits}" if match.group().startswith("+") else digits

    def _code(self, match: re.Match[str]) -> str:
        return self._numbers.digits(match["z"])

    def _street(self, match: re.Match[str]) -> Found:
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        return match.start(), match.end() - last, f"{match['sn']}straße"

    def _pages(self, match: re.Match[str]) -> str:
        # After a paragraph of a law it is a sentence: "Abs. 1 S. 2".
        law = re.search(r"Abs\.?\s\d{1,2}\w?\s$", match.string[max(0, match.start() - _NEARBY) : match.start()])
        return "Satz" if law else "Seite"

    def _paragraph(self, match: re.Match[str]) -> str:
        return "Paragrafen" if len(match["pg"]) > 1 else "Paragraf"

    def _percent(self, match: re.Match[str]) -> str:
        said = super()._percent(match)
        return said.replace("eins Prozent", "ein Prozent") if match["pn"] == "1" else said

    def _short(self, match: re.Match[str]) -> Found:
        start, end, said = super()._short(match)
        before = match.string[max(0, start - _NEARBY) : start]
        if match["a"] in german_words.ADJECTIVES and re.match(r"\s[A-ZÄÖÜ]", match.string[end : end + 2]):
            last = [name.lower() for name in re.findall(r"[^\W\d_]+", before)[-1:]]
            weak, strong = last[:1] and last[0] in german_words.WEAK, last[:1] and last[0] in german_words.STRONG_E
            ends_er = (
                re.match(
                    r"\s[A-ZÄÖÜ]\w+(?:end|tellt|rdnet|eamt|tiert|annt|lich)er\b", match.string[end : end + _NEARBY]
                )
                and not strong
            )
            said += "en" if weak else "er" if ends_er else "e"
        unit = self._words.units.get(match["a"])
        if unit is not None and _ONE_BEFORE.search(before):
            said = unit.one
        return start, end, said

    def _letters(self, match: re.Match[str]) -> str:
        return " ".join(match["lt"])

    def _letter(self, match: re.Match[str]) -> str:
        return f"{self._numbers.cardinal(int(match['ln']))} {match['ll']}"
