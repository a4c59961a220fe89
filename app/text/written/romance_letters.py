"""Acronyms, formulas of substances, codes, paths and abbreviations of Spanish, French, Italian and Portuguese."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from app.text.written.language import LanguageWords
from app.text.written.numbers import roman
from app.text.written.quantities import abbreviation_words, address_words, join
from app.text.written.rules import Match, Spoken

_RUNS: Final = re.compile(r"\d+|[^\W\d_]")
LOWERED: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
"""Subscript digits to plain ones."""
_MAX_DIGITS: Final = 4  # digits of a code that are read as one number
_CAPITAL_WORD: Final = re.compile(r"[A-ZÀ-ÖØ-Ý]{2,}(?:['’][A-ZÀ-ÖØ-Ý]+)?")
# Words of these languages are syllables of a beginning, vowels and an end; at the end of a word there may be more.
_VOWELS: Final = "aeiouyàâäáãéèêëíìïîóòôõöúùûüœæ"
_BEGINNING: Final = r"(?:[bcdfgptv][rl]|qu|ch|ph|th|gn|ll|s[bcdfglmnpqtv]r?|ps|[a-zñç])?"
_INSIDE: Final = rf"(?:(?:[nrlsmcptbdgfvx]|[nr]s|mp|nc)(?=(?:[bcdfgptv][rlh]|qu|[b-df-hj-np-tv-zç])[{_VOWELS}]))?"
_END: Final = (
    r"(?:[nm][stcdgpkx]?s?|r[stdcmtpk]?s?|l[stdkf]?s?|s[tkhs]?s?|[xzdctpfgkb]s?|[csp]h|ck|[mr]ps"
    r"|[nr]gt?s?|ux|xt|ff|tt|pp|[tnrl]z)?"
)
_SPEAKABLE: Final = re.compile(rf"(?:{_BEGINNING}[{_VOWELS}]{{1,4}}{_INSIDE})+{_END}")
_FROM: Final = re.compile(r"\b(?:de|da|do|du|del|dal|al|au|hacia|vers|verso|para)\s$")
_RANGE: Final = re.compile(r":?\s?(\d{1,6})\s?[-–]\s?(\d{1,6})")
_RATES: Final = re.compile(r"\s?(?:pessoa|dia|mês|hora|noite|semana|ano|unidade|metro|quilo|kg|m²)(?!\w)")
_INITIAL: Final = re.compile(r"[A-Z]\.")
_INITIALS: Final = re.compile(r"(?<![\w.])(?:[A-ZÀ-Ý]\.|Drs?|Prs?|Mes?|Mmes?|Mlles?|Prof\.)\s?$")
_SAINT: Final = re.compile(r"\s?([A-Z][a-zà-ÿ]+)")
_OPEN: Final = "AEIOU"


# Letters


def letter_name(language: LanguageWords, letter: str) -> str:
    """Return the name of a letter that stands alone; espeak-ng says that of most letters."""
    letter = letter.lower()
    return language.tables["letter_alone"].get(letter, letter)


def spell(language: LanguageWords, text: str) -> str:
    """Return the names of letters, and numbers of up to four digits; longer ones digit by digit."""
    runs = _RUNS.findall(text.translate(LOWERED))
    alone = sum(not run.isdecimal() for run in runs) == 1
    return " ".join(_run_words(language, run, alone=alone) for run in runs)


def _run_words(language: LanguageWords, run: str, *, alone: bool) -> str:
    if run.isdecimal():
        whole = len(run) <= _MAX_DIGITS and (run[0] != "0" or run == "0")
        return language.cardinal(int(run)) if whole else language.digits(run)
    return letter_name(language, run) if alone else language.tables["letter"].get(run.lower(), run.lower())


def _is_spelled(language: LanguageWords, text: str, *, alone: bool) -> bool:
    """Return whether capitals are said letter by letter. `alone`: no other word in capitals stands beside them."""
    sets = language.sets
    if text.lower() in sets["short_words"]:
        return False
    if len(text) == 2:
        return alone
    spelled = text not in sets["word_acronyms"] and not _SPEAKABLE.fullmatch(text.lower())
    return spelled or text in sets["spelled_acronyms"]


def in_capitals(match: Match) -> bool:
    """Return whether a word beside this one is in capitals, too."""
    before = re.search(r"([^\W\d_]{2,})['’\s,:]+$", match.before[-30:])
    after = re.match(r"[\s,:]+([^\W\d_]{2,})", match.string[match.end : match.end + 30])
    return any(beside is not None and _CAPITAL_WORD.fullmatch(beside[1]) for beside in (before, after))


def read_account(match: Match, language: LanguageWords) -> str:
    """Read the number of an account letter by letter, digit by digit: `ES91 2100 0418`."""
    return " ".join(
        language.tables["letter"][character.lower()] if character.isalpha() else language.digits(character)
        for character in match.text
        if character.isalnum()
    )


def read_formula(match: Match, language: LanguageWords) -> str:
    """Read the formula of a substance: `H₂O`, `Na⁺`."""
    words, ion = spell(language, match["formula"] or match["in_brackets"] or match["before_brackets"]), match["ion"]
    if not ion:
        return words
    charge = {"²": 2, "³": 3, "⁴": 4}.get(ion[0])
    sign = language.tables["sign"]["+"] if ion[-1] == "⁺" else language.words["minus"]
    return join(words, language.cardinal(charge) if charge else "", sign)


def read_code(match: Match, language: LanguageWords) -> str:
    """Read a code of letters and digits: `A4`, `B-52`."""
    return spell(language, match.text)


def read_code_letters(match: Match, language: LanguageWords) -> str | None:
    """Read the letters of a code before its digits: `BMW 320`."""
    letters, sign = match.text[:-1], match.text[-1]
    if sign == " " and (roman(letters) is not None or len(letters) == 1):
        return None
    if sign == " " and not _is_spelled(language, letters, alone=not in_capitals(match)):
        return None
    return spell(language, letters)


def read_word_with_number(match: Match, language: LanguageWords) -> str:
    """Read a word with a number at its end: `SUMMER25`, `covid19`."""
    word, number = match["word"], match["number"]
    if word.isupper() and _is_spelled(language, word, alone=True):
        return spell(language, match.text)
    return f"{word} {spell(language, number)}"


def read_dotted(match: Match, language: LanguageWords) -> Spoken:
    """Read letters with full stops: `U.S.`."""
    return match.but_last_stop(spell(language, match.text))


def read_capitals(match: Match, language: LanguageWords) -> str | None:
    """Read a word in capitals that is spelled: `BBC`, `NE` behind "from"."""
    text, beside = match["capitals"], in_capitals(match)
    wind = text in language.sets["winds"] and _FROM.search(match.string, 0, match.start) and not beside
    if match["letter"] is None and not wind and not _is_spelled(language, text, alone=not beside):
        return None
    words = spell(language, text + (match["letter"] or ""))
    return f"{words}s" if match["plural"] and language.gendered else words


def read_path(match: Match, language: LanguageWords) -> Spoken:
    """Read the path of a file or folder, or a name with underscores: `~/notas.txt`, `mi_archivo`."""
    text = match.text if match["underscored"] or match["folder"] else match.text.rstrip(".")
    signs = {**language.tables["address"], "\\": language.words["backslash"]}
    return match.start, match.start + len(text), address_words(language, text, signs)


def read_variable(match: Match, language: LanguageWords) -> str:
    """Read the variable "y", which is also a word: `y = 2`."""
    return letter_name(language, "y")


# Abbreviations


def read_initial(match: Match, language: LanguageWords) -> str:
    """Read the first letter of a name: `J. Pérez`."""
    return letter_name(language, match["letter"])


def read_short(match: Match, language: LanguageWords) -> Spoken:
    """Read an abbreviation by what stands before and after it: `S. Anna`, `dr. Silva`."""
    first, last, words = abbreviation_words(match, language)
    short = match.text
    if language.tag == "it" and short == "S." and (name := _SAINT.match(match.string, match.end)):
        return first, name.end() if name[1][0] in _OPEN else last, _saint(name[1])
    if _INITIAL.fullmatch(short) and _INITIALS.search(match.string, 0, match.start):
        return first, match.end, short[0].lower()  # "I. D. Pérez": no title
    if short == "dr." and language.tag == "fr-fr" and match.string[match.end :].lstrip()[:1].isupper():
        words = "docteur"
    if short == "p/" and _RATES.match(match.string, match.end):
        words = "por"
    return first, last, _inflected(words, match, language)


def _saint(name: str) -> str:
    """Return "san" in the form that a name takes; with the name where it is elided."""
    if name[0] in _OPEN:
        return f"sant'{name}"
    if re.match(r"S[^aeiouàèìòù]|Z", name):
        return "santo"
    return "santa" if name.endswith("a") and name not in ("Luca", "Nicola", "Mattia", "Barnaba") else "san"


def _inflected(words: str, match: Match, language: LanguageWords) -> str:
    """Return the words of an abbreviation: the plural of pages, the feminine of what follows a feminine noun."""
    pages, before, tables = _RANGE.match(match.string, match.end), match.word_before, language.tables
    if words in language.sets["ranged"] and pages is not None and int(pages[1]) < int(pages[2]):
        return tables["plural"].get(words, f"{words}s")
    if words in tables["office"] and before.lower() in ("la", "a", "da", "na"):
        return tables["office"][words]
    if words not in language.sets["agreeing"] or not before or not match.string[match.start - 1].isspace():
        return words
    if before.isupper() and language.tag != "it":
        return words
    noun = language.abbreviations.get(before, before).lower()
    return f"{words[:-1]}a" if is_feminine(language, noun) else words


@cache
def _endings(language: LanguageWords) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the expressions of the ends of masculine and of feminine nouns."""
    return re.compile(language.patterns["masculine"]), re.compile(language.patterns["feminine"])


def is_feminine(language: LanguageWords, noun: str) -> bool:
    """Return whether a noun, in the singular or plural, is feminine by its ending."""
    stems = [noun]
    if language.tag != "it":
        stems += [noun.removesuffix("s"), noun.removesuffix("es"), re.sub("ces$", "z", noun)]
    if language.tag == "pt-br":
        stems += [re.sub("ções$", "ção", noun), re.sub("ns$", "m", noun)]
    masculine, feminine = _endings(language)
    return not any(map(masculine.search, stems)) and any(map(feminine.search, stems))


def read_title(match: Match, language: LanguageWords) -> str:
    """Read a title that lacks its full stop: `Dr Pérez`."""
    return language.abbreviations[f"{match.text}."]


def read_before_number(match: Match, language: LanguageWords) -> str:
    """Read an abbreviation before a number, and a Roman numeral after it: `p. 3`, `cap. IV`."""
    words = _inflected(language.before_number[match["short"]], match, language)
    value = roman(match["numeral"] or "")
    if value is None:
        return words
    ordinal = language.tag == "it" and words.startswith(("secol", "scen", "att"))
    return f"{words} {language.ordinal(value) if ordinal else language.cardinal(value)}"


def read_lady(match: Match, language: LanguageWords) -> str:
    """Read the Portuguese title of a lady or a lord: `D. Maria`."""
    return "dona" if match["name"].endswith("a") or match["name"] in language.sets["ladies"] else "dom"
