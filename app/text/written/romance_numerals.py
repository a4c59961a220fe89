"""Roman numerals of Spanish, French, Italian and Portuguese: of monarchs, centuries, events and parts of books."""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set
from app.text.written.forms import Found
from app.text.written.numbers import roman
from app.text.written.romance_quantities import NO_NOUNS, QuantityForms

_CAPITAL_WORD: Final = re.compile(r"[A-ZÀ-ÖØ-Ý]{2,}(?:['’][A-ZÀ-ÖØ-Ý]+)?")
_CENTURIES: Final = re.compile(r"(?:secol[oi]|[Ss]ecc?\.)\s(?:[IVX]+(?:\s?[-–,]\s?|\s(?:e|o|ed|al)\s))?$")
_FEMININE_ARTICLES: Final = {
    "es": word_set("la una esta"),
    "fr-fr": word_set("la une cette"),
    "it": word_set("la una alla della nella dalla questa"),
    "pt-br": word_set("a uma na da à esta"),
}
_CENTURY_AFTER: Final = re.compile(r"\ssec(?:\.|olo|oli)")
_OF_CENTURIES: Final = re.compile(r"\b(?:siglos?|ss?\.|s[ée]cs?\.|séculos?|secol[oi]|secc?\.)\s$", re.IGNORECASE)
_REIGN: Final = re.compile(r"[A-ZÀ-Ý][a-zà-ÿ]+\s[IVX]+(?:er)?\s(?:d['’]|d[eiao]\s)")
_MAX_NUMERAL: Final = 20  # the last ordinal that is said for a Roman numeral before a noun


class NumeralForms(QuantityForms):
    """Roman numerals. Methods are safe on any thread."""

    @staticmethod
    def _in_capitals(match: re.Match[str]) -> bool:
        """Return whether a word beside this one is in capitals, too."""
        before = re.search(r"([^\W\d_]{2,})['’\s,:]+$", match.string[max(0, match.start() - 30) : match.start()])
        after = re.match(r"[\s,:]+([^\W\d_]{2,})", match.string[match.end() : match.end() + 30])
        return any(found is not None and _CAPITAL_WORD.fullmatch(found[1]) for found in (before, after))

    def _french_ordinal(self, match: re.Match[str]) -> Found | str | None:
        value = roman(match["fo1"])
        if value is None:
            return None
        said = self._numbers.ordinal(value, "f" if re.search(r"(?:re|ère)$", match.group()) else "m")
        if match["fs"] is None:
            return said
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, f"{said} siècle"

    def _ordinal_range(self, match: re.Match[str]) -> str | None:
        value = roman(match["og1"])
        return None if value is None else f"{self._numbers.ordinal(value)} {self._words.to}"

    def _roman_range(self, match: re.Match[str]) -> Found | str | None:
        first, last = roman(match["ra1"]), roman(match["ra2"])
        before = match.string[max(0, match.start() - 40) : match.start()]
        after = _CENTURY_AFTER.match(match.string, match.end())
        falling = after is not None or _OF_CENTURIES.search(before) is not None  # before Christ
        if first is None or last is None or first == last or (first > last and not falling):
            return None
        century = self._tag == "it" and (_CENTURIES.search(before) is not None or after is not None)
        said = [self._numbers.ordinal(value) if century else self._numbers.cardinal(value) for value in (first, last)]
        words = f"{said[0]} {self._words.to} {said[1]}"
        if century and after is not None and after.group().endswith("."):
            return match.start(), after.end() - (not match.string[after.end() :].strip()), f"{words} secolo"
        return words

    def _centuries(self, match: re.Match[str]) -> str | None:
        return self._of_century(match["rm"])

    def _century_after(self, match: re.Match[str]) -> Found | None:
        said = self._of_century(match["ca2"])
        last = not match.string[match.end() :].strip()
        return None if said is None else (match.start(), match.end() - last, f"{said} secolo")

    def _roman_first(self, match: re.Match[str]) -> Found | None:
        return self._ordinal_before(match, match["rf"], match["rx"] or match["ry"])

    def _roman_and(self, match: re.Match[str]) -> str | None:
        """Read the second numeral of "Charles I of Spain and V of Germany"."""
        value = roman(match["rk"])
        if value is None or not _REIGN.search(match.string, 0, match.start()):
            return None
        return self._numbers.ordinal(value) if value <= self._words.regnal else self._numbers.cardinal(value)

    def _roman_noun(self, match: re.Match[str]) -> Found | None:
        return None if match["rz"] in NO_NOUNS else self._ordinal_before(match, match["rv"], match["rz"])

    def _ordinal_before(self, match: re.Match[str], numeral: str, noun: str) -> Found | None:
        """Return the ordinal of a Roman numeral by the gender of the noun after it."""
        value = roman(numeral)
        if value is None:
            return None
        if value > _MAX_NUMERAL and self._tag == "es":
            return match.start(), match.end() - 1, self._numbers.cardinal(value)
        article = match.string[: match.start()].split()[-1:]
        named = {word.lower() for word in article} & _FEMININE_ARTICLES[self._tag]
        feminine = bool(named) or (self._feminine(noun.lower()) and not self._french)
        said = self._numbers.ordinal(value, "f" if feminine else "m", short=not feminine)
        return match.start(), match.end() - 1, said

    def _roman_alone(self, match: re.Match[str]) -> str | None:
        value = roman(match["rl"])
        # "VI" is a word of Italian.
        if value is None or (match["rl"] == "VI" and self._tag == "it" and self._in_capitals(match)):
            return None
        nearby = match.string[max(0, match.start() - 40) : match.start()]
        if self._tag == "it" and _CENTURIES.search(nearby):
            return self._numbers.ordinal(value)
        return self._numbers.cardinal(value)

    def _numeral(self, match: re.Match[str]) -> str | None:
        before = match.string[: match.start()].split()
        return self._of_play(match["br"], before[-1] if before else "") or super()._numeral(match)

    def _roman(self, match: re.Match[str]) -> Found | None:
        said = self._of_play(match["rn"], match["rw"])
        if said is None and match["rw"].lower() in self._words.numbered.split():
            said = super()._numeral(match)
        return (match.start("rn"), match.end(), said) if said else super()._roman(match)

    def _of_play(self, numeral: str, noun: str) -> str | None:
        """Return the ordinal of an act or a scene in Italian; None: the numeral is read in another way."""
        value = roman(numeral)
        if value is None or self._tag != "it" or noun.lower() not in ("atto", "scena"):
            return None
        return self._numbers.ordinal(value, "f" if noun.endswith("a") else "m")
