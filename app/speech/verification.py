"""Comparison of a text that was to be spoken with the words that a recognizer heard.

Both sides pass the front end that speaks them, so that "$7.50" equals "seven dollars and fifty cents". Words are equal
if their letters are, or their phonemes without stress: names and homophones have many spellings. One word equals two
that it joins.

A whole text's share of errors hides a long stretch that went wrong, so the longest run counts on its own, and so does
what was added at the end. A recognizer writes other words for a name, but about as many sounds: where more than
MAX_MISSING_PHONEMES are missing, speech is missing. Of 132 good sentences of Kokoro, heard by Whisper tiny.en and base,
none loses more; of 100 out of which 0.35 s are cut, 23 and 21 of the 47 that pass by their words do.

A recognizer that hears well may spell badly. One that tells how likely the expected text is beside what it heard passes
a sentence by that score, too. MAX_UNLIKELINESS is a whole number at which 100 sentences of the house voices pass
(`training/ear/verify.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.errors import ServiceError
from app.text.planner import Phonemizer

MAX_ERROR_RATE: Final = 0.15
"""Share of the words that may be wrong; one word of fewer than seven."""
MAX_ERRORS_IN_A_ROW: Final = 3
MAX_MISSING_PHONEMES: Final = 2
"""Phonemes by which wrong words in a row may be shorter than what was expected."""
MAX_UNLIKELINESS: Final = 8.0
"""Least score of a passed sentence, below 0, by the square root of its words: faults add up, and so does chance."""
_FEW_WORDS: Final = 7
_PAUSES: Final = frozenset(";:—–…")
_MARKS: Final = frozenset(".,?!")
_STRESS: Final = str.maketrans("", "", "ˈˌ")
_LETTERS: Final = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """One word as it is spoken: its letters in lower case, and its phonemes without stress ("": not known)."""

    letters: str
    phonemes: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences of the words that were heard from those that were expected.

    `errors` are words left out, added or replaced, `longest` the most of them in a row, `added` the words heard after
    the last expected one, `lost` the most phonemes that are missing in a row.
    """

    words: int
    errors: int
    longest: int
    added: int
    lost: int

    @property
    def passed(self) -> bool:
        """Whether a listener would accept it: few errors, few in a row, nothing missing, nothing added at the end."""
        most = 1 if self.words < _FEW_WORDS else MAX_ERROR_RATE * self.words
        few = self.errors <= most and self.longest <= MAX_ERRORS_IN_A_ROW
        return few and self.lost <= MAX_MISSING_PHONEMES and not self.added


def spoken_words(text: str, phonemizer: Phonemizer) -> list[SpokenWord]:
    """Return the words that speak a text; none for a text without any."""
    try:
        tokens = [token for sentence in phonemizer.tokens(text) for token in sentence if token.source != "punctuation"]
    except ServiceError:
        return []
    result = []
    for token in tokens:
        words, sounds = token.spoken.lower().replace("-", " ").split(), token.phonemes.translate(_STRESS).split()
        known = sounds if len(sounds) == len(words) else [""] * len(words)
        if len(words) == 1:
            known = ["".join(sounds)]
        result += [SpokenWord(_LETTERS.sub("", word), sound) for word, sound in zip(words, known, strict=True)]
    return [word for word in result if word.letters]


def spoken_text(text: str, phonemizer: Phonemizer) -> str:
    """Return a text as a recognizer of spoken words writes it: words, commas for pauses, and ends of sentences."""
    try:
        tokens = [token for sentence in phonemizer.tokens(text) for token in sentence]
    except ServiceError:
        return text
    result = ""
    for token in tokens:
        spoken = token.spoken
        if token.source == "punctuation":
            spoken = "," if spoken in _PAUSES else spoken if spoken in _MARKS else ""
        if spoken:
            result += spoken if token.glued or not result else f" {spoken}"
    return result.replace("-", " ")


def likely(score: float | None, words: int) -> bool:
    """Whether a sentence of so many words passes by the score of its text beside what was heard; None: no score."""
    return score is not None and score >= -MAX_UNLIKELINESS * math.sqrt(words)


def _equal(one: Sequence[SpokenWord], other: Sequence[SpokenWord]) -> bool:
    letters = ["".join(word.letters for word in side) for side in (one, other)]
    sounds = ["".join(word.phonemes for word in side) for side in (one, other)]
    known = all(word.phonemes for word in (*one, *other))
    return letters[0] == letters[1] or (known and sounds[0] == sounds[1])


def compare(expected: Sequence[SpokenWord], heard: Sequence[SpokenWord]) -> Comparison:
    """Return the fewest word errors that turn `expected` into `heard`. Takes time by the product of their lengths."""
    rows, columns = len(expected) + 1, len(heard) + 1
    cost = [[row + column if not row or not column else 0 for column in range(columns)] for row in range(rows)]
    step = [[(0, 1) if not row else (1, 0) for column in range(columns)] for row in range(rows)]
    for row in range(1, rows):
        for column in range(1, columns):
            same = _equal(expected[row - 1 : row], heard[column - 1 : column])
            # Of equal costs the first is taken: a word that was said twice was added the second time.
            choices = [(cost[row][column - 1] + 1, (0, 1)), (cost[row - 1][column - 1] + (not same), (1, 1))]
            choices.append((cost[row - 1][column] + 1, (1, 0)))
            for down, right in ((1, 2), (2, 1)):
                if row < down or column < right:
                    continue
                if _equal(expected[row - down : row], heard[column - right : column]):
                    choices.append((cost[row - down][column - right], (down, right)))
            cost[row][column], step[row][column] = min(choices, key=lambda choice: choice[0])
    # The table's cheapest path, from its end.
    row, column = len(expected), len(heard)
    longest = run = added = most_lost = lost = 0
    at_end = True
    while row or column:
        down, right = step[row][column]
        wrong = cost[row][column] > cost[row - down][column - right]
        at_end = at_end and wrong and not down
        added += at_end
        run = run + 1 if wrong else 0
        sides = expected[row - down : row], heard[column - right : column]
        lost = lost + _phonemes(sides[0]) - _phonemes(sides[1]) if wrong else 0
        longest, most_lost = max(longest, run), max(most_lost, lost)
        row, column = row - down, column - right
    return Comparison(len(expected), cost[-1][-1], longest, added, most_lost)


def _phonemes(words: Sequence[SpokenWord]) -> int:
    return sum(len(word.phonemes) for word in words)
