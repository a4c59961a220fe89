"""Patterns of HTML tags and character references, complete or only begun."""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5
from typing import Final

ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
ENTITY_START: Final = re.compile(r"&#?\w{0,32}$")
TAG: Final = re.compile(r"</?([A-Za-z][\w:-]*)(?:\s+[\w:@.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=`]+))*\s*/?>")
TAG_START: Final = re.compile(
    r"<(?:/?(?:[A-Za-z][\w:-]*(?:\s+[\w:@.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=`]+))*"
    r"(?:\s*/?|\s+[\w:@.-]+\s*(?:=\s*(?:\"[^\"<>]*|'[^'<>]*|[^\s\"'<>=`]*))?))?|!(?:-)?)?$"
)


def decode(entity: str) -> str:
    """Return the characters of a reference such as `&amp;`, or "" if the name is unknown."""
    return unescape(entity) if entity[1] == "#" or entity[1:] in html5 else ""
