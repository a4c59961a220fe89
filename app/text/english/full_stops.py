"""English full stops that end no sentence, although the library of the splitter takes them for ends."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import tables
from app.text.word_sets import word_set

# Abbreviations before a number, before a word in small letters, before any word.
_NUMBERED: Final = word_set(
    "vol vols fig figs ch chs ex pg pgs pp sec secs eq eqs ext pt approx ca est tel fax apt ste rm rt rte hwy min max "
    "temp qty bldg cat para precip ed op str lat wt ht exp "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun dept"
)
_INSIDE: Final = word_set(
    "sq cu tsp tbsp tsps tbsps oz lb lbs yd yds qt qts pt pts gal gals mins hr hrs secs yr yrs mos wk wks approx dept "
    "misc incl excl intl natl govt univ assn corp inc ltd bros etc est temp avg max min orig cont asst qty vol vols "
    "doz fig figs pp ave blvd rd ln pkwy hwy apt ste bldg jan feb mar apr jun jul aug sep sept oct nov dec mon tue "
    "tues wed thu thur thurs fri sat sun jr sr esq eds viz ext tel capt prof supt messrs"
)
_ANY: Final = word_set("attn atty mr mrs ms messrs prof")
_STREETS: Final = word_set("st ave rd blvd ln dr ct sq pkwy hwy")
_SMALL_ONLY: Final = word_set("ed")  # with a capital it is a name
_WORDS_TOO: Final = word_set("sat sun mar cat")  # abbreviations only with a capital
ABBREVIATIONS: Final = _NUMBERED | _INSIDE | _ANY | _STREETS

# "Dr." after the name of a street, "Elm Dr."; elsewhere it is a title.
_DRIVE: Final = re.compile(r"\b(?!(?:Ask|See|Call|Meet|Visit|Dear|Hi|Hello|And|But|The|When|If)\s)[A-Z][\w']*\s+Dr\.$")
# "6 p.m. Friday", "1 p.m. EST".
_MERIDIEM: Final = re.compile(r"\b[ap]\.m\.$", re.IGNORECASE)
_DAY_OR_ZONE: Final = re.compile(
    r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
    r"|(?:January|February|March|April|June|July|August|September|October|November|December)\s\d"
    r"|(?:[ECMP][SD]?T|GMT|UTC|BST|CES?T|IST|JST|A[EW][SD]T|Eastern|Pacific|Central|Mountain)\b)"
)
_VERSE: Final = re.compile(r"\d{1,3}:\d")
_LAST: Final = re.compile(r"(?<![^\W\d_])([^\W\d_]{1,8})\.$")
_NUMBER: Final = re.compile(r"[#(+$£€-]{0,2}\d|(?:[IVXLC]{2,}|[VX])\b")
_PLACE: Final = re.compile(r"(?:Apt|Ste|Suite|Unit|Floor|Rm|Bldg)\b")


def continues_sentence(before: str, after: str) -> bool:
    """Return whether the sentence of `before` goes on in `after`. `before` ends with a full stop and white space."""
    stem, following = before.rstrip(), after.lstrip()
    if not following or not stem.endswith("."):
        return False
    if len(stem) == len(before) and len(following) == len(after):  # nothing between: ".NET", "ASP.NET", "Mon.-Fri."
        inside = after[0].isalnum() and (not stem[-2:-1].strip(" (") or (stem[-2].isupper() and after[:2].isupper()))
        return inside or after[0] in "-–/"
    if _MERIDIEM.search(stem[-5:]):
        return _DAY_OR_ZONE.match(following) is not None
    last = _LAST.search(stem[-12:])
    if last is None:
        return False
    name = last.group(1).lower()
    if name in _WORDS_TOO and not last.group(1)[0].isupper():
        return False
    if following[0].islower() or following[0] == "&":
        return name in _INSIDE
    if name in _SMALL_ONLY and last.group(1)[0].isupper():
        return False
    if _NUMBER.match(following):
        return name in _NUMBERED or (name in tables.BIBLE_BOOKS and _VERSE.match(following) is not None)
    if name == "dr" and following[0].isupper() and not _DRIVE.search(stem[-24:]):
        return True
    return name in _ANY or (name in _STREETS and _PLACE.match(following) is not None)
