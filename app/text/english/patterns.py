"""Kinds of token of the English normalizer: one regular expression with a named group for each kind.

Kinds are tried in order. No quantifier contains another one that matches the same characters, so that time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from app.text.english import tables, units
from app.text.pieces import COMBINING, RATE


def _one_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(item) for item in sorted(words, key=len, reverse=True))


NUM: Final = r"(?:\d{1,2}(?:,\d\d(?=,)){1,4},\d{3}(?!\d)|\d+(?:,\d{3})++(?!\d)|\d++)(?:\.\d+)?|\.\d+"
_INT: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
MERIDIEM: Final = r"(?:[aApP]\.[mM]\.|[aApP][mM](?![\w]))"
# Digits that are not decimal digits: superscripts, fractions, Roman, circled.
_NUMERALS: Final = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u2189\u2460-\u249b\u24ea-\u24ff\u2776-\u2793"
_POWERS: Final = "\u00b2\u00b3\u00b9\u2070\u2074-\u2079"
# A run of letters with their marks. The two kinds of character exclude each other, so that matching stays linear.
_RUN: Final = rf"[^\W\d_{_NUMERALS}](?:[^\W\d_{_NUMERALS}]|(?!\w)[{COMBINING}])*"
_LETTERS: Final = rf"{_RUN}(?:'{_RUN})*"
SCALE_WORD: Final = r"thousand|million|billion|trillion|lakh|crore"
_CONTINENTAL: Final = r"\d{1,3}(?:\.\d{3})+,\d\d(?!\d)"
# After the comma: "€1,5m".
_TENTH: Final = rf"\d(?=(?:bn|mn|tn|[kKmMbB]|\s(?:{SCALE_WORD}))\b)"
SIGN: Final = r"(?<![A-Za-z])(?:[Uu][Ss]|AU|CA|HK|MX|NT|NZ|[ACRS])\$|[$£€¥₹₩₽₿₴₺]"
_SMALL_CODES: Final = frozenset(("zł", "kr"))
_CODE: Final = _one_of(
    {name.upper() for name in units.CURRENCIES if name.isalpha() and name not in _SMALL_CODES | {"rs"}} | _SMALL_CODES
)

# Units that a space may separate from their number. Of one letter, only those that have no other meaning.
_SPACED: Final = frozenset(unit for unit in units.UNITS if len(unit) > 1 and unit != "in") | set("mgshLWVΩ°%‰")
UNIT: Final = _one_of({unit.replace("µ", "μ") for unit in units.UNITS} | set(units.ATTACHED))
# An inch with a full stop or before an adjective of size; an amp at the end of a clause.
_INCH: Final = r"in(?:\.(?=,|\s+[a-z\d])|(?=\s+(?:wide|tall|long|high|deep|thick|x)\b))"
SPACED_UNIT: Final = (
    r"(?!W\.?\s+(?:\d+(?:st|nd|rd|th)\b|[A-Z][a-z]))"  # the direction: "42 W. 3rd St."
    rf"(?:(?:{_one_of({unit.replace('µ', 'μ') for unit in _SPACED})})(?!\w)(?:/(?:{UNIT})(?!\w))?"
    rf"|{_INCH}|A(?=[.,;:!?)]|$|\s(?:at|and|per|fuse|breaker|charger|current)\b))"
)
_MEASURE: Final = rf"(?!W-\d)(?:\s(?:{SPACED_UNIT})|(?:{UNIT})(?:/(?:{UNIT}))?)(?!\w|\.\w)"
_NO_PLURAL: Final = r"(?!(?:was|is|has|as|this|its|plus|across|less|vs|thus|always|perhaps|does)\b)"
PLURAL: Final = rf"(?:people|children|men|women|{_NO_PLURAL}[a-z]{{2,}}s)\b"
CROWD: Final = (
    r"(?:people|users|viewers|customers|followers|dollars|pounds|euros|copies|views|downloads|subscribers|residents"
    r"|homes|jobs|lives|years|tons|tonnes|barrels|likes|subs|fans|plays|streams|listeners|members)\b"
)
_EXTENSION: Final = (
    r"js|ts|py|rs|txt|md|json|html|css|pdf|png|jpe?g|gif|svg|csv|toml|ya?ml|exe|cpp|zip|xml|wav|mp3|mp4|sh|docx?|xlsx?"
    r"|pptx?|log|ini|cfg|conf|gz|tar|bz2|rar|dmg|iso|apk|deb|rpm|sql|bak|tmp|php|tsx|jsx|ipynb|epub|mov|avi|mkv|flac|ogg|webp"
)
_MONTHS: Final = _one_of([name.capitalize() for name in tables.MONTHS if name not in tables.FULL_MONTHS])
_DAYS: Final = _one_of([name.capitalize() for name, full in tables.DAYS.items() if name != full])
CALENDAR: Final = rf"(?:{_MONTHS}|{_DAYS}|{_one_of([n.capitalize() for n in (*tables.MONTH_NAMES, *tables.DAYS)])})"

_KINDS: Final = {
    # Most words of a text, in one step.
    "plain": r"(?<![^\s(\"])(?!et al\.)[a-z]++(?=[ ,]\s*[a-z(])",
    "url": r"(?:https?|ftp)://[^\s<>\"]+|www\.[^\s<>\"]+|(?<![\w@.-])localhost:\d{1,5}(?!\d)(?:/[^\s<>\"]*)?"
    r"|(?<![\w@.-])(?:[A-Za-z0-9-]+\.)+(?:com|org|net|edu|gov|io|ai|dev|app|uk|ca|fr|jp|cn|de|eu|(?:ly|co|be|gg|gl|tv)(?=/\w))(?![\w-])"
    r"(?::\d{1,5}(?!\d))?(?:/[^\s<>\"]*)?",
    "path": r"(?<!\w)[A-Za-z]:(?:\\[\w.-]+)++\\?"
    r"|(?<![\w/.<~])(?<!\]\()(?:(?:~|\.{1,2})?(?:/[\w.-]*\w){2,}+|(?:~|\.{1,2})/[\w.-]*\w)/?"
    r"|(?<![\w./-])(?:[A-Za-z0-9_.-]+/)*+[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
    rf"\.(?:{_EXTENSION})(?!\w)",
    "email": r"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    "hex": r"(?<!\w)0[xX][\da-fA-F]{1,16}(?!\w)"
    r"|(?<![\w:-])(?:(?:[\da-fA-F]{2}:){5}|(?:[\da-fA-F]{2}-){5})[\da-fA-F]{2}(?![\w:-])"
    r"|(?<![\w-])[\da-fA-F]{8}-(?:[\da-fA-F]{4}-){3}[\da-fA-F]{12}(?![\w-])",
    "version": r"(?<![\w.-])[vV]\d+(?:\.\d+)+(?!\w)",
    "digits": "",  # the kinds of `_DIGITS` stand here
    "money": rf"(?:(?<!\w)-)?(?:{SIGN})\s?-?(?:{_CONTINENTAL}|\d+,(?:\d\d(?!\d|,\d)|{_TENTH})|{NUM})"
    rf"(?:\s?(?:{SCALE_WORD})\b|(?:bn|mln|mn|tn|MM|[kKmMbBT])\b)?",
    "money_code": rf"(?<!\w)(?:{_CODE}|Rs\.?)\s?(?:\d+,\d\d(?!\d|,\d)|{NUM})"
    rf"(?:\s?(?:{SCALE_WORD})\b|(?:bn|mln|mn|tn|MM|[kKmMbB])\b)?(?!\w)",
    "ipv6": r"(?<![\w:])(?=[\da-fA-F:]{0,39}::|(?:[\da-fA-F]{1,4}:){7})(?=[a-fA-F:]{0,30}\d)"
    r"(?:[\da-fA-F]{0,4}:){2,7}[\da-fA-F]{0,4}(?![\w:])",
    "zip": rf"(?<!\w)(?:{_one_of(tables.STATES)})\.? \d{{5}}(?:-\d{{4}})?(?![\w-])",
    "roman": r"\b(?:[IVXL]{2,7}|M{1,3}[MCDXLVI]{3,12})\b|(?<=\w )[IVX](?=[\s.,;:!?]|$)",
    "hashtag": r"(?<![\w&])#(?:[^\W_]|_)+",
    "handle": r"(?<![\w.])@(?:[^\W_]|_)+",
    "initials": r"\b(?:[A-Za-z]\.){2,}(?:[A-Za-z](?![\w']))?|\b[Pp]h\.\s?[Dd]\.",
    "function": r"(?<![\w.])[A-Za-z][′']?\((?:[a-z]|\d{1,3})\)(?=\s?[=<>≤≥≈+])",
    "flag": r"(?<=\w\s)-(?![AIa])[A-Za-z](?=\s[\w\"'./~-]|$)",
    "latin": r"(?<=[a-z]\s)v\.(?=\s[A-Z])|\bw/o(?:ut)?\b|\bb/c\b|\b[cy]/o\b|\bw/(?=\s)|\bet al\.",
    "calendar": rf"(?<!\w)(?:{_MONTHS}|{_DAYS}|{_MONTHS.upper()}|{_DAYS.upper()})(?!\w|')\.?",
    "compass": r"(?<![\w.'&/-])(?:[NS][EW]|[NSEW])(?=[\s,;:!?)]|$|\.(?:[\s,]|$))",
    "abbreviation": r"(?<![\w.])[A-Za-z]+\.(?!\w)|(?<![\w.])(?:[Nn]os?|[Vv]ol|[Ff]ig|pp?|[Cc]h|[Ss]ec)\.(?=\d)",
    "grade": r"(?<![\w'-])[A-F]-(?=[.,;:!?)\"]|$|\s(?!(?:and|or|to)\s))",
    "sharp": r"(?<!\w)[CF]#(?!\w)",
    "dot_name": r"(?<![\w.])\.(?=[A-Za-z]{2})|(?<=[A-Z]{2})\.(?=[A-Z]{2,}\b)|(?<=\w)\.(?=[A-Za-z_]\w*\()",
    # `canonical` makes plain signs of small ones.
    "charge": r"(?<=[A-Za-z\u2080-\u2089\])])(?:[\u00b9\u00b2\u00b3\u2074-\u2079][+−]|−)(?![\w(\u2070-\u2079])",
    "power": r"[⁺⁻−]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+",
    "caret": r"(?<=[\w)])\s?\^\s?(?:[-−]?(?:\d+|[a-z](?!\w))|\([-−]?(?:\d+|[a-z])\))",
    "index": r"[\u2080-\u2089]+",
    "ten_power": r"(?<=\d)\s?x\s?(?=10(?:\^|[-−⁻]?[\u00b9\u00b2\u00b3\u2070-\u2079]))",
    "operator": r"(?<=[\w\])] )[-+*]=(?=\s?[\w\"'(-])|[<>!=]=|->|<-|=>|&&|\|\|",
    "rate": RATE,
    "mixed": rf"(?:{_RUN})?\d+{_RUN}[^\W_{_POWERS}]*|{_RUN}\d[^\W_{_POWERS}]*",
    "number": rf"(?:{NUM})",
    "word": rf"(?<!\w)'(?:tis|twas|em|til|cause|bout|n)\b|{_LETTERS}(?:-{_LETTERS})*",
    "ellipsis": r"\.{2,}|…",
    "dash": r"\s+[-–]+\s+(?!\d)|-{2,}>?|–|—|(?<=\S)-(?=\s)",
    "mark": r"[.!?]+|[,;:]",
    "bracket": r"\(\)|[()\[\]{}]",
    "numeral": r"[^\W_]",
    "symbol": r"[^\w\s]",
}
_DIGITS: Final = {
    "arc": r"(?<![\w.])\d{1,3}°\s?\d{1,2}['′](?:\s?\d{1,2}(?:\.\d+)?[\"″])?",
    "month_year": r"(?<![\d/.])(?:0[1-9]|1[0-2])/20\d\d(?![\d/])",
    "short_year": r"(?<![\w'])'0\d(?!\w)",
    "decimal_comma": r"(?<![\w.,])\d+,\d{1,2}(?=\s?%)",
    "clock": rf"(?<![\d:.])(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d)?(?![\d:]|,\d{{3}})(?:\s?{MERIDIEM}|[ap](?!\w))?"
    rf"|(?<![\d:.])(?:1[0-2]|0?[1-9])\.[0-5]\d\s?{MERIDIEM}",
    "minutes": r"(?<![\d:.])(?:2[5-9]|[3-9]\d|1\d\d):[0-5]\d(?![\d:]|\s(?:split|ratio|odds|rule|mix)\b)",
    "hour": rf"(?<![\d:.])(?:1[0-2]|0?[1-9])\s?{MERIDIEM}",
    "iso_date": r"(?<![\d./-])\d{4}(?P<date_sign>[-/.])(?:0[1-9]|1[0-2])(?P=date_sign)"
    r"(?:0[1-9]|[12]\d|3[01])(?![\d/-]|\.\d)(?:T(?=\d\d:))?"
    r"|(?<![\d./-])(?:19|20)\d\d(?P<short_sign>[-/])(?:0?[1-9]|1[0-2])(?P=short_sign)(?:[12]\d|3[01]|0?[1-9])(?![\d/-])",
    "slash_date": r"(?<![\d/])\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})(?![\d/])"
    r"|(?<![\d.-])(?:0?[1-9]|[12]\d|3[01])(?P<day_sign>[.-])(?:[12]\d|3[01]|0?[1-9])(?P=day_sign)(?:19|20)\d\d(?![\d-]|\.\d)"
    r"|(?<![\w/.])\d{1,3}(?:/\d{1,3}){2,}(?![\w/]|\.\d|\s?=)",
    "day_span": r"(?<![\d/])(?:0?[1-9]|1[0-2])/(?:[12]\d|3[01]|0?[1-9])[-–]"
    r"(?:0?[1-9]|1[0-2])/(?:1[3-9]|2\d|3[01])(?![\d/-])"
    r"|(?<![\d/])(?:0?[1-9]|1[0-2])/(?:1[3-9]|2\d|3[01])[-–](?:0?[1-9]|1[0-2])/(?:[12]\d|3[01]|0?[1-9])(?![\d/-])",
    "clause": r"(?<![\w.])[1-9]\d{2}\([a-z]\)(?:\(\d{1,2}\))?",
    "named_date": rf"(?<![\w-])(?:0?[1-9]|[12]\d|3[01])-(?:{_MONTHS}|May)-(?:\d{{4}}|\d\d)(?![\w-])",
    "season": r"(?<![\w/.-])(?:19|20)\d\d/\d\d(?![\d/])",
    "phone": r"(?<![\w-])(?:\+?\d{1,3}[ .-])?(?:\(\d{2,5}\)[ .-]?|\d{3}[ .-])\d{3,4}[ .-]\d{4}(?![\w-]|\.\d| \d{4})"
    r"|(?<![\w-])\+\d[\d ().-]{6,18}\d(?!\w)|(?<![\w.,-])\d{3}-\d{4}(?![\w-])"
    r"|(?<![\w-])1-8\d\d-[A-Z\d-]{3,10}[A-Z\d](?![\w-])"
    r"|(?<!\w)\(0\)\d{2,4}[ -]\d{3,4}[ -]\d{3,4}(?![\w-])"
    r"|(?<![\w.,/-])(?=0\d(?:[ -]?\d){7,13}(?![\w-]| \d))0\d{1,5}(?:[ -]\d{2,8}){1,5}",
    "code": r"(?<![\w.,/-])(?:\d{4}(?P<card_sign>[ -])\d{4}(?P=card_sign)\d{4}(?P=card_sign)\d{1,7}"
    r"|\d{4}[ -]\d{6}[ -]\d{4,5}|\d{3}-\d{2}-\d{4}"
    r"|97[89][ -]?\d{1,5}[ -]\d{1,7}[ -]\d{1,7}[ -]\d"
    r"|(?=[\d-]{12}[\dXx](?![\w-]))\d{1,5}-\d{1,7}-\d{1,7}-[\dXx])(?![\w-])",
    "ip": r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)(?:[:/]\d{1,5}(?!\d))?",
    "height": r"(?<![\w.])[4-7]ft\s?(?:1[01]|\d)(?!\w)|(?<![\w.])\d{1,2}'\s?\d{1,2}\"|(?<![\w.])\d'\d{1,2}(?![\w'])",
    "feet_inches": r"(?<![\w.])\d{1,2}\s?ft\.?\s\d{1,2}\s?in(?!\w)",
    "inches": r"(?<![\w.])\d+(?:\.\d+)?\"(?!(?!x\d)\w)",
    "feet": r"(?<![\w.])\d+'(?=\s+(?:tall|wide|long|high|deep|x)\b|\s?×)|(?:(?<=[x×])|(?<=[x×] ))\d{1,3}'(?!\w)",
    "factorial": r"(?<![\w.,])\d{1,3}!(?=\s?[=+×/*−-]\s?\d)",
    "first": rf"(?<![\w.,/-])(?:{NUM})(?:\s?–\s?|-|\s-\s(?=[\d:]+\s?{MERIDIEM}))"
    rf"(?=(?:{NUM})(?:\s?{MERIDIEM}|:[0-5]\d(?![\d:])|{_MEASURE}|\s(?:{SCALE_WORD})\b))",
    "money_after": rf"(?:{_CONTINENTAL}|\d+,\d\d(?=\s?€)|{NUM})"
    rf"(?:\s?(?:{SCALE_WORD})\b|(?:bn|mln|mn|tn|MM|[kKmMbB])\b)?\s?(?:[€£¥₹₽¢]|(?:{_CODE})\b)|(?<![\w.,])\d{{1,2}}p(?!\w)",
    "scientific": r"(?<![\w.])\d+(?:\.\d+)?[eE][+-]?\d+(?!\w)",
    "dotted": r"(?<![\d.,])\d+(?:\.\d+){2,}(?!\d)",
    "duration": r"(?<![\w.])(?:\d+h\s?\d+m(?:in)?(?:\s?\d+s)?|\d+m\s?\d+s)(?!\w)",
    "grouped": r"(?<![\w.,/+-])(?<!\d )[1-9]\d{0,2}"
    r"(?:(?: \d{3})+(?<= 000)|(?<!\d\d\d)(?: \d{3}){2,})(?![\w-]| \d|[.,/]\d)",
    "scaled": rf"(?<![\w.])(?!401k)(?:{NUM})(?:(?:bn|mn|tn|k(?!\s+(?:run|race|video|tv|TV)\b))(?!\w)"
    rf"|[KMB](?=\+(?!\w))|[KMBT](?=\s+(?:{PLURAL}|[A-Z]{{3,}}S\b))|m(?=\s+{CROWD}))",
    "mixed_fraction": r"(?<![\d.,/])\d+ (?:\d{1,3}/\d{1,3}(?![\d/.])|[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞])"
    r"|(?<![\d.,/-])\d{1,2}-[1-9]\d?/(?:2|3|4|8|16|32)(?![\d/.])",
    "ratio": r"(?<![\d.,/])\d{1,3}/\d{1,3}(?:(?:rds?|ths?|nds)(?!\w))?(?![\d/]|\.\d)",
    # "relay" and "dimension" are no powers of ten: "5 x 10^3".
    "relay": rf"(?<![\w.,])(?![24][x×][4-8]s)\d{{1,2}}\s?[x×]\s?\d+{_MEASURE}",
    "dimension": r"(?<![\w.,])\d{3,5}×\d{3,5}(?!\w)"
    r"|(?<![\w.,])\d+(?:\.\d+)?\s?x\s?\d+(?:\.\d+)?(?![\w^]|−[\u00b9\u00b2\u00b3\u2074-\u2079])",
    "times": r"(?<![\w.,])\d+(?:\.\d+)?[xX](?!\w|\s?[-+*/=^²³])",
    "ordinal": rf"(?<![\w.]){_INT}(?:st|nd|rd|th|ST|ND|RD|TH)(?!\w)",
    "round": r"(?<![\w.,])(?:10{1,2}|1,?000|10,?000|100,?000)s(?=\sof\b)"
    r"|(?:(?<=s of )|(?<=[Ff]ew ))(?:100|10{0,2},?000)s(?!\w)",
    "decade": r"(?<![\w.,])(?:'?(?:\d{3}0|\d0)'?|(?<![A-Za-z]{4}-)\d{1,4}|[24][x×][4-8])s(?!\w)"
    r"|(?:(?<=[Tt]he )|(?<=[Tt]wo )|(?<=and ))\.(?:22|25|32|38|40|44|45|50|357|380)s(?!\w)",
    "quantity": rf"(?<![\w.])(?<![A-Za-z]{{4}}-)(?<!I-)(?:{NUM}){_MEASURE}",
    "range": rf"(?<![\w.,-])(?:{NUM})(?:\s?–\s?|-)(?:{NUM})(?![\w-]|[.,]\d)",
}


def _named(kinds: dict[str, str]) -> str:
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in kinds.items())


FINDER: Final = re.compile(_named(_KINDS).replace("(?P<digits>)", rf"(?=[-+(.'\d])(?:{_named(_DIGITS)})"))
