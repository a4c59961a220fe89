"""Characters that are not spoken: pictographs and invisible characters."""

from __future__ import annotations

import re
from typing import Final

_PICTOGRAPHS: Final = re.compile(
    "[\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\ue000-\uf8ff\U0001f000-\U0001faff\U000e0020-\U000e007f]"
)
# Square brackets, which would be markup of speech; variation selectors, the keycap, direction marks, soft hyphens,
# zero-width spaces.
_INVISIBLE: Final = re.compile(
    r"[\[\]\ufe00-\ufe0f\u20e3\u200b\u200e\u200f\u00ad\u2060\ufeff\u202a-\u202e\u2066-\u2069\r]"
)
_SILENT: Final = re.compile(f"{_PICTOGRAPHS.pattern}|{_INVISIBLE.pattern}")
JOINER: Final = "\u200d"


def has_silent(text: str, start: int, end: int) -> bool:
    """Return whether one of the characters [start, end) is never spoken."""
    return _SILENT.search(text, start, end) is not None


def is_silent(character: str, after_pictograph: bool) -> bool:
    """Return whether a character is not spoken. A joiner is silent only `after_pictograph`."""
    return _SILENT.match(character) is not None or (after_pictograph and character == JOINER)


def is_pictograph(character: str) -> bool:
    """Return whether a character is an emoji, arrow, box, dingbat or of private use."""
    return _PICTOGRAPHS.match(character) is not None
