"""How many values a client's JSON has: each takes time and memory, in which nothing else is done."""

from __future__ import annotations

import re
from typing import Final

from app.errors import InvalidRequestError

LARGE: Final = 16_384
"""Bytes of a message that takes no time that others notice, whatever it holds."""
MAX_VALUES: Final = 20_000
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.S)
_MARKS: Final = (b",", b"[", b"{")
# White space, and marks of the byte order.
_BEFORE: Final = b" \t\r\n\0\xef\xbb\xbf\xfe\xff"


def check_values(message: bytes | bytearray, most: int = MAX_VALUES) -> None:
    """Raise InvalidRequestError for JSON with more than `most` values. A form is none, and passes."""
    if message.lstrip(_BEFORE)[:1] not in (b"{", b"["):
        return
    found = _count(message)
    if found > most and b"\0" not in message:  # which no string has but in UTF-16
        found = _count(_STRING.sub(b"", message))
    if found > most:
        raise InvalidRequestError(f"The JSON has {found} values; at most {most} are accepted.")


def _count(message: bytes | bytearray) -> int:
    return sum(map(message.count, _MARKS))
