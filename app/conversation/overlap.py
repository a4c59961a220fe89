"""What a listener's words over an answer that is playing are: its echo, a sign of listening, or an interruption."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

# Of the letters of an echo, so many at least are the answer's, in its order and in runs: a recognizer errs in some.
_ECHO_SHARE: Final = 0.75
_MIN_RUN: Final = 3
# Letters of a hypothesis that are compared: the time grows with the product of both lengths.
_MAX_LETTERS: Final = 200
# Sounds and words that say "I am listening" in the languages of the voices, without spaces and marks.
_BACKCHANNEL: Final = re.compile(
    r"(?:m+h*m*|h+m+|m*h+m+|u+h+(?:hu+h+)?|u+m+|a+h*(?:ha+)?|o+h+|e+h+|yeah|yep|ok|okay|right|isee|aha|achso|genau|ouais|daccord|vale|claro|certo)+"
)
_WORD: Final = re.compile(r"\w+")


def is_interruption(text: str, spoken: Sequence[str]) -> bool:
    """Return whether `text`, recognized while the words `spoken` were playing, is for the one who speaks them.

    It is not if nothing was recognized, if it is a part of `spoken`, which the microphone picked up, or if it is a
    sign of listening alone, such as "mm-hm".
    """
    letters = "".join(_WORD.findall(text.casefold()))[:_MAX_LETTERS]
    if not letters or _BACKCHANNEL.fullmatch(letters):
        return False
    played = "".join(_WORD.findall(" ".join(spoken).casefold()))[: 5 * _MAX_LETTERS]
    runs = SequenceMatcher(None, played, letters, autojunk=False).get_matching_blocks()
    return sum(run.size for run in runs if run.size >= _MIN_RUN) < _ECHO_SHARE * len(letters)
