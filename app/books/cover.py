"""Covers: which bytes are a JPEG or PNG picture, and how large it is. Nothing is decoded."""

from __future__ import annotations

import struct
from typing import Final

MAX_BYTES: Final = 16 << 20
MAX_SIDE_PIXELS: Final = 20_000

_PNG: Final = b"\x89PNG\r\n\x1a\n"
# Markers of a JPEG frame (ITU-T T.81, table B.1), all but the tables among them.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE: Final = frozenset((0x01, *range(0xD0, 0xD9)))


def is_cover(data: bytes) -> bool:
    """Return whether `data` is a JPEG or PNG picture of an acceptable size."""
    return picture_size(data) is not None


def picture_size(data: bytes) -> tuple[str, int, int] | None:
    """Return the kind ("mjpeg" or "png", FFmpeg's names), width and height of a picture; None where it is neither."""
    if len(data) > MAX_BYTES:
        return None
    if data.startswith(_PNG) and len(data) >= 24 and data[12:16] == b"IHDR":
        return _checked("png", *struct.unpack_from(">II", data, 16))
    if data.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    return None


def _jpeg_size(data: bytes) -> tuple[str, int, int] | None:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF or marker in _ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return _checked("mjpeg", width, height)
        at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    return None


def _checked(kind: str, width: int, height: int) -> tuple[str, int, int] | None:
    return (kind, width, height) if 0 < width <= MAX_SIDE_PIXELS and 0 < height <= MAX_SIDE_PIXELS else None
