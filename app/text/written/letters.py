"""Acronyms, formulas of substances and codes of letters and digits: names of letters, and numbers."""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set
from app.text.written.numbers import Numbers
from app.text.written.romance_tables import Romance

_CAPITALS: Final = "A-ZÀ-ÖØ-Ý"
# A code has a digit and a capital. A single letter and a number may have a space or a hyphen between them.
_ELEMENT: Final = (
    r"(?:A[cglmrstu]|B[aeihkr]?|C[adeflmorsu]?|D[bsy]|E[rsu]|F[emr]?|G[ade]|H[efgos]?|I[nr]?|K[r]?|L[airuv]|M[gnot]"
    r"|N[abdeip]?|O[s]?|P[abdmortu]?|R[abefghnu]|S[bcegimnr]?|T[abcehilm]|U|V|W|X[e]|Y[b]?|Z[nr])"
)
# Elements of two letters that are no words and common in formulas without digits, such as NaClO.
_COMMON: Final = r"(?:Na|Cl|Ca|Fe|Mg|Zn|Cu|Ag|Br|Al|Li|Mn|Cr|Ni|Pb|Hg|Ba|Sn|Sr|Ti)"
PATTERNS: Final = {
    "account": r"(?<!\w)(?P<ac>[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?)(?!\w)",
    "formula": rf"(?<![\w-])(?P<fo>(?=\w*(?:[₀-₉0-9]|[²-⁴]?[⁺⁻]))(?:{_ELEMENT}[₀-₉0-9]{{0,2}}){{1,8}}"
    rf"|NaOH|KOH|(?=[A-Za-z]*[a-z])(?:{_COMMON}|[HCNOFKSPI]){{2,5}})(?P<io>[²³⁴]?[⁺⁻])?(?![\w-])"
    rf"|(?<=\()(?P<fo2>{_COMMON}|OH)(?=\))"
    rf"|(?<!\w)(?P<fo3>{_COMMON})(?=\((?:{_ELEMENT}\d?){{1,4}}\)\d)",
    "code": r"(?<![\w.,/@#-])(?P<co>(?!\d+(?:er|e|h)\b)(?=[\w-]*\d)(?=[\w-]*[A-Z])"
    r"(?:(?:(?<![A-Z])[A-Z]{1,3}(?![A-Z])|(?<!\d)\d{1,9}(?!\d))(?:-(?=\w))?){2,8})(?![\w@]|-\w|[.,:]\d)"
    r"|(?<![\w.,/@#-])(?P<co2>[a-zA-Z]\d{1,4}|\d{1,4}[a-zA-Z])(?!\w|[.,:/]\d|\s\d)"
    r"|(?<![\w.,/@#-])(?P<co3>[A-Z]{1,3}(?:[ -]))(?=\d{1,4}(?![\w.,:/-]))"
    r"|(?<![\w.,/@#-])(?P<co5>(?=\w*[A-Z])(?=\w*[a-z])[A-Za-z]{1,3}\d{1,4}[A-Za-z]{1,3}(?:\d{1,4}[A-Za-z]{0,3})?)(?![\w-])"
    r"|(?<![\w.,/@#-])(?P<co4>[A-Z]{4,12}\d{1,4})(?![\w-])"
    r"|(?<![\w.,/@#])(?P<co6>[a-zà-ÿ]{2,12}\d{1,4})(?![\w-]|[.,]\d)"
    r"|(?<![\w.,/@#-])(?P<co7>(?=\d*[A-Z])(?=[A-Z]*\d)[A-Z\d]{6,24})(?![\w-])",
    "dotted": rf"(?<![\w.])(?P<dl>(?:[{_CAPITALS}]\.){{2,6}})(?![{_CAPITALS}a-z])",
    "capitals": rf"(?<![\w.-])(?P<ca>[{_CAPITALS}]{{2,6}})(?P<cx>-[A-Z](?!\w))?(?P<cs>s)?(?![\w.]\w|\w|['’])",
}
"""Expressions of the groups of `RomanceForms`."""
_RUNS: Final = re.compile(r"\d+|[^\W\d_]")
LOWERED: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
"""Subscript digits to plain ones."""
_MAX_DIGITS: Final = 4  # digits of a code that are read as one number
# Words of these languages are syllables of a beginning, vowels and an end; at the end of a word there may be more.
_VOWELS: Final = "aeiouyàâäáãéèêëíìïîóòôõöúùûüœæ"
_BEGINNING: Final = r"(?:[bcdfgptv][rl]|qu|ch|ph|th|gn|ll|s[bcdfglmnpqtv]r?|ps|[a-zñç])?"
_INSIDE: Final = rf"(?:(?:[nrlsmcptbdgfvx]|[nr]s|mp|nc)(?=(?:[bcdfgptv][rlh]|qu|[b-df-hj-np-tv-zç])[{_VOWELS}]))?"
_END: Final = (
    r"(?:[nm][stcdgpkx]?s?|r[stdcmtpk]?s?|l[stdkf]?s?|s[tkhs]?s?|[xzdctpfgkb]s?|[csp]h|ck|[mr]ps"
    r"|[nr]gt?s?|ux|xt|ff|tt|pp|[tnrl]z)?"
)
_SPEAKABLE: Final = re.compile(rf"(?:{_BEGINNING}[{_VOWELS}]{{1,4}}{_INSIDE})+{_END}")
_READ_AS_WORDS: Final = word_set("USP INPS UNAM ASL")
"""Acronyms that could be spelled, but are not."""
_SPELLED: Final = word_set(
    "ICMS IPTU IPVA INSS FGTS PSOE ONG ONGS RER OMS UEFA CEE CSIC OVH USA EUA CHU UTI IBGE IPI ISS AOC IUT UMP IGN OGM"
)
"""Acronyms that could be said as words, but are not."""


class Letters:
    """Letters of one language."""

    def __init__(self, words: Romance, numbers: Numbers) -> None:
        names = (name.replace("_", " ") for name in words.letters.split())
        self._names = dict(zip("abcdefghijklmnopqrstuvwxyz", names, strict=True))
        self._numbers, self._single, self._short = numbers, words.single, words.short_words

    def spell(self, text: str) -> str:
        """Return the names of letters, and numbers of up to four digits; longer ones digit by digit."""
        runs = _RUNS.findall(text.translate(LOWERED))
        alone = sum(not run.isdecimal() for run in runs) == 1
        return " ".join(self._run(run, alone=alone) for run in runs)

    def _run(self, run: str, *, alone: bool) -> str:
        if run.isdecimal():
            whole = len(run) <= _MAX_DIGITS and (run[0] != "0" or run == "0")
            return self._numbers.cardinal(int(run)) if whole else self._numbers.digits(run)
        # espeak-ng says the name of most letters that stand alone.
        letter = run.lower()
        return self._single.get(letter, letter) if alone else self._names.get(letter, letter)

    def code_word(self, text: str) -> str:
        """Return a word in capitals with a number at its end: SUMMER25."""
        word = text.rstrip("0123456789")
        return self.spell(text) if self.is_spelled(word, alone=True) else f"{word} {self.spell(text[len(word) :])}"

    def account(self, text: str) -> str:
        """Return letters and digits one by one."""
        return " ".join(self._names[c.lower()] if c.isalpha() else self._numbers.digits(c) for c in text if c.isalnum())

    def is_spelled(self, text: str, *, alone: bool) -> bool:
        """Return whether capitals are said letter by letter. `alone`: no other word in capitals stands beside them."""
        if text.lower() in self._short:
            return False
        if len(text) == 2:
            return alone
        return text in _SPELLED or (text not in _READ_AS_WORDS and not _SPEAKABLE.fullmatch(text.lower()))
