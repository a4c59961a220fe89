"""Position in text that arrives in fragments, and the rule for waiting for more of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOOK_AHEAD: Final = 256
"""Most characters that are held back to find out what they are. A decision depends on no more than these."""

WAIT: Final = -1
"""Result of a step that needs more text. Other results are the count of characters that the step has dealt with."""


@dataclass(slots=True)
class Cursor:
    """Character `at` of `text`. `final` says that no more text follows."""

    text: str
    at: int
    final: bool

    @property
    def character(self) -> str:
        """The character at the cursor."""
        return self.text[self.at]

    @property
    def next(self) -> str:
        """The character after the cursor, or ""."""
        return self.text[self.at + 1 : self.at + 2]

    @property
    def window(self) -> str:
        """The characters from the cursor on that a decision may depend on."""
        return self.text[self.at : self.at + LOOK_AHEAD]

    @property
    def run(self) -> int:
        """Number of equal characters from the cursor on, at most LOOK_AHEAD."""
        window = self.window
        return len(window) - len(window.lstrip(window[0]))

    def may_go_on(self, count: int) -> bool:
        """Return whether the first `count` characters reach the end of the text and more may follow."""
        return not self.final and self.at + count >= len(self.text)
