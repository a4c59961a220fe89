"""Scripts of languages, and the script of a letter: shortlists of the vocabulary are made by script."""

from __future__ import annotations

import unicodedata
from functools import cache

# ISO 15924 codes of FLORES-200 -> first words of the Unicode names of their letters.
_SCRIPTS: dict[str, tuple[str, ...]] = {
    "Arab": ("ARABIC",),
    "Armn": ("ARMENIAN",),
    "Beng": ("BENGALI", "OL"),  # FLORES writes Santali as sat_Beng; it is in Ol Chiki
    "Cyrl": ("CYRILLIC",),
    "Deva": ("DEVANAGARI",),
    "Ethi": ("ETHIOPIC",),
    "Geor": ("GEORGIAN",),
    "Grek": ("GREEK",),
    "Gujr": ("GUJARATI",),
    "Guru": ("GURMUKHI",),
    "Hang": ("HANGUL", "CJK"),
    "Hans": ("CJK", "IDEOGRAPHIC"),
    "Hant": ("CJK", "IDEOGRAPHIC", "BOPOMOFO"),
    "Hebr": ("HEBREW",),
    "Jpan": ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH"),
    "Khmr": ("KHMER",),
    "Knda": ("KANNADA",),
    "Laoo": ("LAO",),
    "Latn": ("LATIN",),
    "Mlym": ("MALAYALAM",),
    "Mymr": ("MYANMAR",),
    "Orya": ("ORIYA",),
    "Sinh": ("SINHALA",),
    "Taml": ("TAMIL",),
    "Telu": ("TELUGU",),
    "Tfng": ("TIFINAGH",),
    "Thai": ("THAI",),
    "Tibt": ("TIBETAN",),
}


_KNOWN = frozenset(name for names in _SCRIPTS.values() for name in names)


def scripts(script: str) -> frozenset[str]:
    """Return the first words of the Unicode names of a script's letters."""
    return frozenset(_SCRIPTS.get(script, ("LATIN",)))


@cache
def script_of(character: str) -> str:
    """Return the first word of a letter's or mark's Unicode name; "" for a character of no script in particular."""
    if unicodedata.category(character)[0] not in "LM":
        return ""
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return name if name in _KNOWN else ""
