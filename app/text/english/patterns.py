"""What the English normaliser looks for: one regular expression with a named group for each kind of token."""

from __future__ import annotations

import re
from typing import Final

from app.text.canonical import COMBINING
from app.text.english import tables

NUM: Final = r"(?:\d+(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_INT: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
MERIDIEM: Final = r"(?:[aApP]\.[mM]\.|[aApP][mM](?![\w]))"
# Digits that are not decimal digits: superscripts, fractions, Roman, circled.
_NUMERALS: Final = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u2189\u2460-\u249b\u24ea-\u24ff\u2776-\u2793"
# A run of letters with their marks. The two kinds of character exclude each other, so that matching stays linear.
_RUN: Final = rf"[^\W\d_{_NUMERALS}](?:[^\W\d_{_NUMERALS}]|(?!\w)[{COMBINING}])*"
_LETTERS: Final = rf"{_RUN}(?:'{_RUN})*"
_UNIT: Final = "|".join(re.escape(unit.replace("µ", "μ")) for unit in sorted(tables.UNITS, key=len, reverse=True))
SCALE_WORD: Final = r"thousand|million|billion|trillion"
SIGN: Final = r"[Uu][Ss]\$|[AC]\$|[$£€¥₹₩₽₿₴₺]"
SPACED_UNITS: Final = frozenset(unit for unit in tables.UNITS if len(unit) > 1 and unit != "in") | set("mgLWV°%‰")

_KINDS: Final = {
    "url": r"(?:https?|ftp)://[^\s<>\"]+|www\.[^\s<>\"]+"
    r"|(?<![\w@.-])(?:[A-Za-z0-9-]+\.)+(?:com|org|net|edu|gov|io|ai|dev|app|uk|ca|fr|jp|cn)(?![\w-])(?:/[^\s<>\"]*)?",
    "filename": r"(?<![\w.])[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
    r"\.(?:js|ts|py|rs|txt|md|json|html|css|pdf|png|jpg|csv|toml|yaml|yml|exe|cpp|zip|xml|wav|mp3|mp4)(?!\w)",
    "email": r"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    "clock": rf"(?<![\d:.])(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d)?(?![\d:])(?:\s?{MERIDIEM})?",
    "hour": rf"(?<![\d:.])(?:1[0-2]|[1-9])\s?{MERIDIEM}",
    "iso_date": r"(?<![\d-])\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![\d-])",
    "slash_date": r"(?<![\d/])\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})(?![\d/])",
    "phone": r"(?<![\w-])(?:\+?\d{1,3}[ .-])?(?:\(\d{2,4}\)[ .-]?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"
    r"|(?<![\w-])\+\d[\d ()-]{6,18}\d(?!\w)|(?<![\w.,-])\d{3}-\d{4}(?![\w-])",
    "height": r"(?<![\w.])\d{1,2}'\d{1,2}\"",
    "money": rf"(?:(?<!\w)-)?(?:{SIGN})\s?-?(?:{NUM})(?:\s?(?:{SCALE_WORD})\b|(?:bn|mn|tn|[kKmMbBT])\b)?",
    "money_after": rf"(?:{NUM})(?:\s?(?:{SCALE_WORD})\b|(?:bn|mn|tn|[kKmMbB])\b)?"
    r"\s?(?:[€£¥₹₽¢]|(?:USD|EUR|GBP|JPY)\b)",
    "scientific": r"(?<![\w.])\d+(?:\.\d+)?[eE][+-]?\d+(?!\w)",
    "dotted": r"(?<![\d.,])\d+(?:\.\d+){2,}(?!\d)",
    "mixed_fraction": r"(?<![\d.,/])\d+ \d{1,3}/\d{1,3}(?![\d/.])",
    "ratio": r"(?<![\d.,/])\d{1,3}/\d{1,3}(?![\d/]|\.\d)",
    "dimension": r"(?<![\w.,])\d+(?:\.\d+)?\s?x\s?\d+(?:\.\d+)?(?![\w])",
    "ordinal": rf"(?<![\w.]){_INT}(?:st|nd|rd|th|ST|ND|RD|TH)(?!\w)",
    "decade": r"(?<![\w.,])'?(?:\d{3}0|\d0)'?s(?!\w)",
    "quantity": rf"(?<![\w.])(?:{NUM})\s?(?:{_UNIT})(?!\w|\.\w)",
    "range": rf"(?<![\w.,-])(?:{NUM})(?:\s?–\s?|-)(?:{NUM})(?![\w-]|[.,]\d)",
    "roman": r"\b[IVXL]{2,7}\b|(?<=\w )[IVX](?=[\s.,;:!?]|$)",
    "hashtag": r"(?<![\w&])#(?:[^\W_]|_)+",
    "handle": r"(?<![\w.])@(?:[^\W_]|_)+",
    "initials": r"\b(?:[A-Za-z]\.){2,}(?:[A-Za-z](?![\w']))?|\b[Pp]h\.\s?[Dd]\.",
    "latin": r"\bw/o\b|\bb/c\b|\bw/(?=\s)|\bet al\.",
    "abbreviation": r"(?<![\w.])[A-Za-z]+\.(?!\w)|(?<![\w.])(?:[Nn]os?|[Vv]ol|[Ff]ig|pp?|[Cc]h|[Ss]ec)\.(?=\d)",
    "sharp": r"(?<!\w)[CF]#(?!\w)",
    "dot_name": r"(?<![\w.])\.(?=[A-Za-z]{2})",
    "power": r"[⁺⁻]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+",
    "index": r"[\u2080-\u2089]+",
    "operator": r"[<>!=]=|->|<-|=>|&&|\|\|",
    "mixed": rf"(?:{_RUN})?\d+{_RUN}[^\W_]*|{_RUN}\d[^\W_]*",
    "number": rf"(?:{NUM})",
    "word": rf"(?<!\w)'(?:tis|twas|em|til|cause|bout|n)\b|{_LETTERS}(?:-{_LETTERS})*",
    "ellipsis": r"\.{2,}|…",
    "dash": r"\s+[-–]+\s+(?!\d)|-{2,}>?|–|—|(?<=\S)-(?=\s)",
    "mark": r"[.!?]+|[,;:]",
    "bracket": r"[()\[\]{}]",
    "numeral": r"[^\W_]",
    "symbol": r"[^\w\s]",
}
FINDER: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS.items()))
