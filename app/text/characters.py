"""Characters of a text to what they mean, before anything else reads it, on every surface and in every language.

Invisible characters, units that are one character, signs that stand for a degree, numbers of notes, groups of digits,
zeros that only pad a number, lines of signs, and words that a line's end divides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from app.text.markup import PICTURE
from app.text.places import Places, SourceSpan
from app.text.scripts import script_of
from app.text.word_sets import expand, read_rows, read_rules

Steps = Sequence[Places]
"""Maps from a normal text back to the original, the last one first."""
_Found = tuple[int, int, str]
"""First and last place of characters, and those that take their place."""


def normalize(text: str, language: str) -> tuple[str, Steps]:
    """Return the normal text of `text`, and how it was made. Without steps no character differs.

    `language` is a BCP-47 tag. Takes time in proportion to the length of the text.
    """
    language = language.partition("-")[0]
    steps: list[Places] = []
    for pattern in _STEPS:
        found: list[_Found] = []
        for match in pattern.finditer(text):
            found += _READERS[match.lastgroup or ""](match, language)
        if found:
            text, places = _replaced(text, found)
            steps.append(places)
    return text, steps


def original_span(steps: Steps, start: int, end: int) -> tuple[int, int]:
    """Return the span of the original that [start, end) of the normal text stands for."""
    for places in reversed(steps):
        start, end = places.start(start), max(places.start(start), places.end(end))
    return start, end


def _replaced(text: str, found: list[_Found]) -> tuple[str, Places]:
    """Return the text with what was found replaced, and its map to `text`."""
    shown: list[str] = []
    parts: list[SourceSpan] = []
    position = length = 0
    for start, end, said in [*sorted(found), (len(text), len(text), "")]:
        if start < position:
            continue
        for new, first, last in ((text[position:start], position, start), (said, start, end)):
            if new:
                parts.append(SourceSpan(length, len(new), first, last))
                shown.append(new)
                length += len(new)
        position = end
    return "".join(shown), Places(parts)


_ROWS: Final = read_rows(Path(__file__).with_name("written") / "characters.tsv")


def _words(name: str) -> frozenset[str]:
    return frozenset(word for row in _ROWS[name] for word in row[0].split())


# Single characters

_JOINERS: Final = "\u200c\u200d"
_GAP: Final = "\u00a0\u2007\u2009\u202f"  # spaces that group digits
_RAISED: Final = "⁰¹²³⁴-⁹"
_EXPONENT: Final = "ⁿˣʸᵏᵐⁱ"
_UNITS: Final = {unit: dict(zip(("zh", "ja", "hi"), names, strict=True)) for unit, *names in _ROWS["unit"]}
_PARTS: Final = {
    "after_number": rf"(?:(?<=\d)|(?<=\d[ {_GAP}]))",
    "exponent": _EXPONENT,
    "gap": _GAP,
    "letters": f"{_EXPONENT}ᵃᵈᵉᵍˡᵒʳˢᵗᵛ",
    "raised": _RAISED,
    "scale": r"(?=\s?[CFK](?!\w))",
    "sign": r"[^\w\s.,;:!?…'\"“”‘’„«»()\[\]{}。、，！？\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]",
    "units": "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True))),
}
_RULES: Final = read_rules(Path(__file__).with_name("written") / "character_rules.tsv")
_STEPS: Final = [
    re.compile("|".join(f"(?P<{name}>{expand(pattern, _PARTS)})" for name, each, _, pattern in _RULES if each == step))
    for step in ("character", "part")
]
_APART: Final = frozenset(("Thai", "Laoo", "Khmr", "Mymr", "Hani", "Kana"))
"""Scripts without spaces, in which a space of no width ends a word."""
_NOT_JOINED: Final = frozenset(("", "Latn", "Grek", "Cyrl", "Armn", "Geor", "Hani", "Kana", "Hang"))
"""Scripts in which joiners change no letter."""


def _invisible(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Leave invisible characters out, but for joiners and flags. One divides words of scripts without spaces."""
    text, run, (start, end) = match.string, match.group(), match.span()
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    script = script_of(before) if before else ""
    if "\u200b" in run and (script in _APART or (after and script_of(after) in _APART)):
        said = " "
    elif before and PICTURE.match(before):
        said = re.sub("[^\u200d\ufe0e\ufe0f]" if PICTURE.match(after) else "[^\ufe0e\ufe0f]", "", run)
    else:
        said = "" if script in _NOT_JOINED else re.sub(f"[^{_JOINERS}]", "", run)
    if said != run and before != "\U0001f3f4":
        yield *match.span(), said


def _unit(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write a unit with several characters: "㎢" as "km²"."""
    character = match.group()
    said = unicodedata.normalize("NFKC", character).replace("∕", "/").replace("μ", "µ")
    if "\u3371" <= character <= "\u33df":
        said = re.sub("[23]$", lambda found: "²³"[found[0] == "3"], said)
    yield *match.span(), "L" if character == "ℓ" and language == "en" else said


def _degree(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write the sign of a degree for one that looks like it. "1º" is an ordinal in three languages."""
    if match["degree"] or language not in ("es", "it", "pt"):
        yield *match.span(), "°"


# Parts of a text


def _blank(match: re.Match[str], language: str) -> Iterator[_Found]:
    yield *match.span(), " " * len(match.group())


def _marked(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Leave out the signs around marked text: "==this=="."""
    yield *match.span(), "  "
    yield match.end("inner"), match.end("inner") + 2, "  "


def _heading(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Leave out signs around a line: "=== Title ===", "=== Title"."""
    text, start, sign = match.string, match.end(), match["sign"]
    stop = text.find("\n", start)
    line = text[start : stop if stop >= 0 else len(text)].rstrip()
    before, after = match.group().count(sign), len(line) - len(line.rstrip(sign))
    least = 2 if sign == "=" else 3
    if (
        before >= least
        and (after >= least or (not after and (before > 2 or line[:1].isspace())))
        and line.strip(sign + " ")
    ):
        yield *match.span(), " " * len(match.group())
        yield start + len(line) - after, start + len(line), " " * after


_POWER: Final = re.compile(rf"[⁺⁻]?[{_RAISED}]*[{_EXPONENT}](?:[⁺⁻][{_RAISED}]+|[⁺⁻][{_EXPONENT}])?")


def _letters(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write raised letters as an exponent, "xⁿ" as "x^n", or as those of an abbreviation: "XXᵉ" as "XXe"."""
    text, start = match.string, match.start()
    plain = unicodedata.normalize("NFKC", match.group()).replace("−", "-")
    variable = not text[start - 1].isalpha() or not text[max(0, start - 2) : start - 1].isalpha()
    if _POWER.fullmatch(match.group()) and variable:
        plain = "^" + plain[0] + re.sub("([+-])", r" \1 ", plain[1:]).replace(" - ", " − ")
    elif plain in ("o", "a") and language in ("es", "it", "pt"):
        plain = "ºª"[plain == "a"]
    elif plain == "o" and text[start - 1] in "nN":
        plain = "°"
    yield *match.span(), plain


def _isotope(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write the number of an isotope on the line: "¹⁴C" as "14C"."""
    yield *match.span(), unicodedata.normalize("NFKC", match.group())


def _note(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Leave out the raised number of a note: "slept.⁴ Then", but not that of "mc²"."""
    text, (start, end) = match.string, match.span()
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    spaced = before.isspace() and before != "\n"
    start -= spaced
    last = text[max(0, start - 1) : start] or "\n"
    if last in ".,;:!?…“”’«»‹›\"'。，」！？\n%™®":
        is_note = after.isspace() or (last != "\n" and not (spaced and after))
    else:
        follows = _follows_number if last.isdecimal() else _follows_word
        is_note = follows(text, start, end, match.group())
    if is_note and not after.isalnum() and after not in tuple("⁺⁻+−/"):
        yield start, end, ""
    elif language in _POWER_OF and script_of(last) not in _APART:  # their rules know none
        exponent, (power, minus) = unicodedata.normalize("NFKC", match.group()), _POWER_OF[language]
        yield start - (before == "⁻"), end, power.format(minus * (before == "⁻") + exponent)


_POWER_OF: Final = {"hi": (" की घात {}", "ऋण "), "ja": ("の{}乗", "マイナス"), "zh": ("的{}次方", "负")}
_OPERATORS: Final = tuple("=×*/+−÷^·√<>≈∝")
_POWERS: Final = re.compile("|".join(_words("power")), re.IGNORECASE)
"""Words that have powers: units, functions and Greek letters."""
_DECADE_BEFORE: Final = re.compile(r"[0-9]0['’]?s$")
_SHORT_WORDS: Final = _words("short")


_MARKED_NUMBER: Final = re.compile(
    rf"(?P<before>[^\s\d][\s({_GAP}]{{0,2}}|)(?<![\w.,^])(?:(?P<year>(?:1[5-9]|20)(?!00)\d\d)|(?P<large>\d{{1,3}}(?:[.,'’{_GAP}]\d{{3}})+)"
    r"|(?P<small>\d+(?:\.\d+)*))$"
)


def _follows_number(text: str, start: int, end: int, raised: str) -> bool:
    """Return whether a raised number is that of a note: behind a year or a large number outside a formula, or a one."""
    found = _MARKED_NUMBER.search(text, max(0, start - 24), start)
    formula = text[end : end + 2].lstrip()[:1] in (*_OPERATORS, "-")
    if found is None or formula or found["before"][:1] in _OPERATORS or "⁻" in raised:
        return False
    one = raised == "¹" and found["small"] != "10"
    return one or found["year"] is not None or found["large"] is not None


def _follows_word(text: str, start: int, end: int, raised: str) -> bool:
    """Return whether a raised number stands behind a word, and not in a formula."""
    if _DECADE_BEFORE.search(text, max(0, start - 5), start):
        return text[end : end + 2].lstrip()[:1] not in _OPERATORS
    bracket = text[start - 1] == ")"
    if bracket and raised in ("¹", "²", "³"):  # (a + b)²
        return raised == "¹"
    first = last = start - bracket
    while first and last - first < 40 and (text[first - 1].isalpha() or unicodedata.category(text[first - 1]) == "Mn"):
        first -= 2 if text[first - 2 : first - 1] in ("'", "’") else 1
    word, before = text[first:last], text[max(0, first - 3) : first]
    formula = before[-1:].isalnum() or before.rstrip()[-1:] in _OPERATORS
    if formula or text[end : end + 2].lstrip()[:1] in _OPERATORS:
        return False
    if word and script_of(word[-1]) in _APART:
        return len(word) > 1 and word[-1] not in "米里"
    if len(word) < 4 and before.rstrip()[-1:].isdecimal():  # 5 kWh²
        return False
    return (len(word) > 2 or word.lower() in _SHORT_WORDS) and _POWERS.fullmatch(word) is None


_GROUPS: Final = {"fr": "\u202f", "ja": "", "zh": "", **dict.fromkeys(("de", "es", "it", "pt"), ".")}


def _grouped(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write the mark of the language between groups of digits."""
    mark = _GROUPS.get(language, ",")
    following = match.string[match.end() : match.end() + 2]
    if following[:1] == mark and following[1:].isdecimal():  # a decimal comma
        mark = ""
    if mark != "," and match.group()[-4] in "'’":  # a decimal point may follow
        mark = ""
    for gap in re.finditer(f"[{_GAP}'’]", match.group()):
        yield match.start() + gap.start(), match.start() + gap.end(), mark


def _gap(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write a plain space between the letters of an abbreviation and before a unit, none beside a sign."""
    joined = language == "en" and re.match(r"\.[^.]+\w\.", match.string[match.start() - 1 : match.end() + 2])
    yield *match.span(), match.group().strip().replace("–", "−") or ("" if joined else " ")


_SHARED: Final = _words("shared")
_NUMBERED: Final = _SHARED | _words("numbered")
_LISTED: Final = re.compile(r"(?:[.):]|\s[-–—])\s+[^\W\d_]")
_NUMBERED_BEFORE: Final = re.compile(
    r"(?<![\w/\\.@-])(?:N[or]s?\.|n\.|(?i:number|nummer|número|numéro|numero|núm\.)|[nN]\.?[°ºo]\.?|№"
    r"|(?P<word>[^\W\d_]{2,12})\.?)[\s#_-]{0,2}"
    r"(?P<first>(?:[0-9]{1,4}(?:\s?[-–,&]\s?|\s(?:to|and|or|of|bis|und|à|et|al|a|y|e)\s)){1,4})?$"
)


def _padded(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Leave out zeros before the number of a chapter or the like, or of an item of a list: "Chapter 01"."""
    text, (start, end) = match.string, match.span()
    digits = match.group().lstrip("0") or "0"
    indent = text[max(0, start - 8) : start].rpartition("\n")
    if not indent[2].strip() and (indent[1] or start < 8) and _LISTED.match(text, end):
        yield start, end - len(digits) + 1, digits[0]
        return
    before = _NUMBERED_BEFORE.search(text, max(0, start - 40), start)
    if before is None or (before["first"] and text[end : end + 1] in ("-", "–")):
        return
    if before["word"].lower() in _NUMBERED if before["word"] else end - start < 4:
        joined = start == before.end("word") or text[start - 1] == "."
        yield start, end - len(digits) + 1, f" {digits[0]}" if joined else digits[0]


_OF: Final = {"en": "of", "de": "von", "fr": "sur", "it": "di", "es": "de", "pt": "de"}


def _share(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write the number of a chapter or the like, and of all of them, with a word: "Chapter 01/12" as "1 of 12"."""
    before = re.search(r"[^\W\d_]+ $", match.string[max(0, match.start() - 16) : match.start()])
    nth, every = (number.lstrip("0") for number in match.group().split("/"))
    if before and before.group()[:-1].lower() in _SHARED and language in _OF and int(nth) <= int(every):
        yield *match.span(), f"{nth} {_OF[language]} {every}"


def _product(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write the dots of a product as "×" in English, whose rules leave dots between words out: "F = m·a"."""
    if language == "en":
        yield *match.span(), match.group().replace("·", "×")


_LINKS: Final = {language: _words(f"links_{language}") for language in ("en", "fr")}
"""Words that are no second part of a divided word, by language; and those of other languages."""
_LINKS_OF_OTHERS: Final = _words("links")


def _divided(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Join a word that a line's end divides, without its hyphen if that is only there for the line's end."""
    first, second = match["first"], match["second"]
    keeps = bool(match["more"]) or "-" in first or not second[0].islower()
    if second in _LINKS.get(language, _LINKS_OF_OTHERS) and not match["more"]:
        return
    if not keeps and language == "en":
        from app.text.english.lexicon import get_lexicon  # loads a dictionary

        keeps = get_lexicon(british=False).pronounce((first + second).lower()) is None
    if not (keeps and len(first) == 1):
        yield match.end("first"), match.start("second"), "-" if keeps else ""


def _measure(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write units in Japanese, Chinese and Hindi, whose rules know none."""
    if unit := _UNITS[match.group().strip()].get(language):
        yield *match.span(), unit


_LASTING: Final = re.compile(
    rf"\b(?:(?:{'|'.join(_words('lasting'))})\.?(?:\s(?:time|for))?|(?:{'|'.join(_words('time'))})(?=\s?:))\s?:?\s{{0,2}}[0-9]+$",
    re.IGNORECASE,
)


def _minutes(match: re.Match[str], language: str) -> Iterator[_Found]:
    """Write the minutes of a recipe or the like, which are no meters: "Prep: 15m" as "Prep: 15min"."""
    text, start = match.string, match.start()
    ago = language == "en" and re.match(r"m\s(?:ago|later)\b", text[start : start + 8])
    if ago or _LASTING.search(text[max(0, start - 40) : start]):
        yield *match.span(), "min"


_READERS: Final = {name: globals()[f"_{reader}"] for name, _, reader, _ in _RULES}
