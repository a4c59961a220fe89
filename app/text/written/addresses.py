"""Addresses of the web and of mail, names of files, and versions: words, numbers, and names of signs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from app.text.written.numbers import Numbers

_DOMAINS: Final = r"com|org|net|info|edu|gov|io|dev|app|eu|de|at|ch|es|mx|fr|it|br|pt"
FILES: Final = (
    r"(?i:pdf|txt|docx?|xlsx?|pptx?|csv|json|xml|html?|css|js|py|zip|exe|png|jpe?g|gif|svg|mp3|mp4|wav|md|ya?ml|toml|sh"
    r"|log|tar|gz|7z|rar|iso|bak|mkv|avi|mov|webp|webm|heic|bmp|tiff?|od[tsp]|rtf|epub|ini|cfg|conf|sql|tsx?|cpp|java|php"
    r"|ipynb|apk|dmg|deb|psd|ogg|flac|srt|ics|eml|dat|db|bat|ps1|jar|dll)"
)
PATTERNS: Final = {
    "address": r"(?<!\w)https?://[^\s<>\"]+|(?<![\w.@-])www\.[^\s<>\"]+"
    r"|(?<![\w.+-])[A-Za-z0-9_.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,6}"
    rf"|(?<![\w@.-])(?:[A-Za-z0-9-]{{2,63}}\.){{1,4}}(?:{_DOMAINS})(?![\w-]|\.\w)(?:/[^\s<>\"]*)?"
    rf"|(?<![\w.-])[\w-]{{1,64}}(?:\.[\w-]{{1,20}}){{0,2}}\.(?:{FILES})(?!\w)",
}
"""Expressions of the groups of `WrittenForms`."""
# Thousands in groups and dates are no versions.
VERSION: Final = (
    r"(?<![\w.,])(?!\d{1,3}(?:\.\d{3})+(?!\d|\.\d))[vV]?\d{1,4}(?:\.\d{1,4}){2,4}(?!\w|[.,]\d)"
    r"|(?<!\w)[vV]\d{1,4}\.\d{1,4}(?!\w|[.,]\d)"
)
_PROTOCOL: Final = re.compile(r"https?://")
_PARTS: Final = re.compile(r"\d+|[^\W\d_]+|[^\w\s]|_")
_MAX_DIGITS: Final = 4  # digits that are read as one number


def words(text: str, signs: Mapping[str, str], numbers: Numbers) -> str:
    """Return the words of an address without its protocol. `signs` names signs; others are not read."""
    said = []
    for part in _PARTS.findall(_PROTOCOL.sub("", text)):
        if part.isdecimal():
            plain = len(part) <= _MAX_DIGITS and (part[0] != "0" or len(part) == 1)
            said.append(numbers.cardinal(int(part)) if plain else numbers.digits(part))
        elif part in signs:
            said.append(signs[part])
        else:
            said.append("".join(character for character in part if character.isalpha()))
    return " ".join(filter(None, said))
