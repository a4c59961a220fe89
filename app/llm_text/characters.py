"""Classes of characters, as parts of patterns."""

from __future__ import annotations

from typing import Final

_PICTOGRAPHS: Final = (
    "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\ue000-\uf8ff\U0001f000-\U0001faff\U000e0020-\U000e007f"
)
# Square brackets, which would be markup of speech; variation selectors, the keycap, direction marks, soft hyphens,
# zero-width spaces.
_INVISIBLE: Final = r"\[\]\ufe00-\ufe0f\u20e3\u200b\u200e\u200f\u00ad\u2060\ufeff\u202a-\u202e\u2066-\u2069\r"

WORD: Final = "[^\\W_\u2776-\u2793\U0001f100-\U0001f10c]+"
"""Letters and digits, without the pictographs among them."""
AFTER_WORD: Final = r"(?<=[^\W_])"
NOT_AFTER_WORD: Final = r"(?<![^\W_])"
SILENT: Final = f"[{_PICTOGRAPHS}{_INVISIBLE}]|(?<=[{_PICTOGRAPHS}\ufe0f])\u200d"
"""A character that is not spoken: a pictograph, what joins two of them, or an invisible character."""
