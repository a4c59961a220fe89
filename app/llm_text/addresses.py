"""Web addresses in text that arrives in fragments. Only the host is spoken."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.cursor import LOOK_AHEAD, WAIT
from app.llm_text.output import Output

_SCHEMES: Final = ("https://", "http://", "ftp://", "www.")
_HOST: Final = re.compile(r"[\w\-]+|[.:@](?=\w)")
_LINK_TAIL: Final = re.compile(r"[^\s<>\[\]()\"'.,;:!?*|`。，！？、]+")
_STOPS: Final = ".,;:!?*'"


def scheme_length(text: str, at: int, final: bool) -> int:
    """Return the length of the scheme of an address at `at`; 0 if there is none, or WAIT."""
    if text[at] not in "hHwWfF":
        return 0
    start = text[at : at + 8].lower()
    for scheme in _SCHEMES:
        if start.startswith(scheme):
            # "www." is not spoken either.
            bare = text[at + len(scheme) : at + len(scheme) + 4].lower()
            if len(bare) < 4 and "www.".startswith(bare) and not final:
                return WAIT
            return len(scheme) + (4 if bare == "www." else 0)
    return WAIT if not final and any(scheme.startswith(start) for scheme in _SCHEMES) else 0


class Address:
    """Address after its scheme."""

    def __init__(self) -> None:
        self._in_host = True
        self._depth = 0  # open parentheses

    def step(self, text: str, at: int, final: bool, out: Output) -> int:
        """Return how many characters from `at` belong to the address; 0 at its end, or WAIT. The host is given out."""
        character = text[at]
        if self._in_host:
            part = _HOST.match(text, at)
            if part is not None:
                return out.verbatim(text, at, part.end() - at)
            if character in ".:@" and at + 1 == len(text) and not final:
                return WAIT
            self._in_host = False
            return 1 if character in "/?#" else 0
        if character == "(" or (character == ")" and self._depth):
            self._depth += 1 if character == "(" else -1
            return 1
        if character in _STOPS:
            window = text[at : at + LOOK_AHEAD]
            run = len(window) - len(window.lstrip(_STOPS))
            if at + run == len(text) and not final and run < LOOK_AHEAD:
                return WAIT
            # Punctuation belongs to the address if more of it follows.
            return run if run < LOOK_AHEAD and _LINK_TAIL.match(text, at + run) else 0
        tail = _LINK_TAIL.match(text, at)
        return tail.end() - at if tail is not None else 0
