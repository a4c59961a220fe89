"""Cleaner of a language model's text: Markdown, HTML, addresses and pictographs out, so that it can be spoken.

Dropped or replaced: marks of emphasis, headings, bullets, quotes, rules and tables (their text stays, a blank line
between blocks), fenced code, HTML tags, destinations of links and images, bare addresses (their host stays), emoji and
other pictographs, citation numbers, and all but the signs of LaTeX. Brackets go, so that no text of a model is taken
for the markup of speech.

The raw text is cut first: the rules of a mode cut one token after the other off it, and keep an unfinished token back.
Then the rule of each token says what is spoken for it. Only the `ScannerState` goes from token to token.
"""

from __future__ import annotations

from typing import Final

from app.llm_text.markdown import MODES
from app.llm_text.output import CleanText, Output
from app.llm_text.scanner import LOOK_AHEAD, ScannerState

__all__ = ["LOOK_AHEAD", "Cleaner"]

_WAIT: Final = -1
"""Result of a step that needs more text."""


class Cleaner:
    """Cleaner of text that arrives in fragments cut anywhere.

    Words are given out as they arrive. At most LOOK_AHEAD characters are held back, and only those that can still turn
    out to be something else. `code`, if given, is said in place of each fenced block. Positions in the original are
    counted from the first character fed, across flushes.
    """

    def __init__(self, *, code: str = "") -> None:
        self._announcement = code
        self._begin(-1)

    def _begin(self, base: int) -> None:
        self._text = "\n"  # the last character dealt with, and those that are held back
        self._state = ScannerState(Output(base), self._announcement)

    def feed(self, fragment: str) -> list[CleanText]:
        """Add a fragment. Return the text that can be spoken by now."""
        self._text += fragment
        return self._run(final=False)

    def flush(self) -> list[CleanText]:
        """End the text and return the rest of it. A later fragment begins another text."""
        done = self._run(final=True)
        self._begin(self._state.out.base)
        return done

    @property
    def held(self) -> str:
        """The characters that are held back."""
        return self._text[1:]

    def _run(self, *, final: bool) -> list[CleanText]:
        position = 1
        while position < len(self._text):
            count = self._step(self._text, position, final)
            if count == _WAIT:
                break
            position += count
        done = self._state.out.collect()
        self._state.out.base += position - 1
        self._text = self._text[position - 1 :]
        return done

    def _step(self, text: str, at: int, final: bool) -> int:
        """Deal with the token at `at`. Return its length, which may be 0 if the mode has changed, or _WAIT."""
        mode = MODES[self._state.mode]
        end = at + LOOK_AHEAD
        pattern = mode.token if final or end <= len(text) else mode.token_or_wait
        token = pattern.match(text, at, end)
        if token is None:
            raise ValueError("no rule matches")
        action = mode.actions.get(token.lastgroup)
        if action is None:
            return _WAIT
        action(self._state, token)
        return token.end() - at
