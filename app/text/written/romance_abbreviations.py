"""Abbreviations of Spanish, French, Italian and Portuguese, by what stands before and after them."""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set
from app.text.written.forms import Found
from app.text.written.numbers import roman
from app.text.written.romance_numerals import NumeralForms

_RANGED: Final = word_set(
    "página artículo capítulo figura page article chapitre figure pagina articolo capitolo artigo"
)
"""Nouns that are plural before a range of numbers."""
_ITALIAN_PLURALS: Final = {"pagina": "pagine", "articolo": "articoli", "capitolo": "capitoli"}
_RANGE: Final = re.compile(r":?\s?(\d{1,6})\s?[-–]\s?(\d{1,6})")
_OFFICES: Final = {"director": "dirección", "diretor": "direção", "direttore": "direzione"}
"""Holders of an office, and the office itself, which follows a feminine article."""
_AGREEING: Final = word_set("máximo mínimo massimo minimo incluido incluso escluso adjunto")
"""Adjectives that stand as abbreviations after a noun."""
_RATES: Final = re.compile(r"\s?(?:pessoa|dia|mês|hora|noite|semana|ano|unidade|metro|quilo|kg|m²)(?!\w)")
_INITIAL: Final = re.compile(r"[A-Z]\.")
_INITIALS: Final = re.compile(r"(?<![\w.])(?:[A-ZÀ-Ý]\.|Drs?|Prs?|Mes?|Mmes?|Mlles?|Prof\.)\s?$")
_SAINT: Final = re.compile(r"\s?([A-Z][a-zà-ÿ]+)")
_OPEN: Final = "AEIOU"
_LADIES: Final = word_set("Isabel Leonor Beatriz Inês Ester Raquel Carmen Irene Alice Judite Matilde Luz Mercedes")


class AbbreviationForms(NumeralForms):
    """Abbreviations. Methods are safe on any thread."""

    def _initial(self, match: re.Match[str]) -> str:
        letter = match["it"].lower()
        return self._more.single.get(letter, letter)

    def _short(self, match: re.Match[str]) -> Found:
        first, last, said = super()._short(match)
        if self._tag == "it" and match["a"] == "S." and (name := _SAINT.match(match.string, match.end())):
            return first, name.end() if name[1][0] in _OPEN else last, self._saint(name[1])
        if _INITIAL.fullmatch(match["a"]) and _INITIALS.search(match.string, 0, match.start()):
            return first, match.end(), match["a"][0].lower()  # "I. D. Pérez": no title
        if match["a"] == "dr." and self._french and match.string[match.end() :].lstrip()[:1].isupper():
            said = "docteur"
        if match["a"] == "p/" and _RATES.match(match.string, match.end()):
            said = "por"
        return first, last, self._inflected(said, match)

    @staticmethod
    def _saint(name: str) -> str:
        """Return "san" in the form that a name takes; with the name where it is elided."""
        if name[0] in _OPEN:
            return f"sant'{name}"
        if re.match(r"S[^aeiouàèìòù]|Z", name):
            return "santo"
        return "santa" if name.endswith("a") and name not in ("Luca", "Nicola", "Mattia", "Barnaba") else "san"

    def _title(self, match: re.Match[str]) -> str:
        return self._words.abbreviations[f"{match['ti']}."]

    def _inflected(self, said: str, match: re.Match[str]) -> str:
        """Return the words of an abbreviation: the plural of pages, the feminine of what follows a feminine noun."""
        pages = _RANGE.match(match.string, match.end())
        if said in _RANGED and pages is not None and int(pages[1]) < int(pages[2]):
            return _ITALIAN_PLURALS.get(said, f"{said}s")
        before = match.string[: match.start()].split()[-1:]
        if said in _OFFICES and before and before[0].lower() in ("la", "a", "da", "na"):
            return _OFFICES[said]
        if said not in _AGREEING or not before or not match.string[match.start() - 1].isspace():
            return said
        if before[0].isupper() and self._tag != "it":
            return said
        noun = self._words.abbreviations.get(before[0], before[0]).lower()
        return f"{said[:-1]}a" if self._feminine(noun) else said

    def _numbered(self, match: re.Match[str]) -> str:
        said = self._inflected(self._before_number[match["nb"]], match)
        value = roman(match["nr"] or "")
        if value is None:
            return said
        ordinal = self._tag == "it" and said.startswith(("secol", "scen", "att"))
        return f"{said} {self._numbers.ordinal(value) if ordinal else self._numbers.cardinal(value)}"

    def _see(self, match: re.Match[str]) -> str:
        return {"es": "véase", "fr-fr": "voir", "it": "vedi"}.get(self._tag, "ver")

    def _unnumbered(self, match: re.Match[str]) -> Found:
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, "senza numero civico"

    def _lady(self, match: re.Match[str]) -> str:
        name = match["ln"]
        return "dona" if name.endswith("a") or name in _LADIES else "dom"
