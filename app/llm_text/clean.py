"""Cleaner of a language model's text: Markdown, HTML, addresses and pictographs out, so that it can be spoken.

Dropped or replaced: marks of emphasis, headings, bullets, quotes, rules and tables (their text stays, a blank line
between blocks), fenced code, HTML tags, destinations of links and images, bare addresses (their host stays), emoji and
other pictographs, citation numbers, and all but the signs of LaTeX. Brackets go, so that no text of a model is taken
for the markup of speech.

The cleaner works in steps. A step reads one mark or a run of words, or waits for more text. It may look at LOOK_AHEAD
characters, never at where the text at hand ends: so the result does not depend on how the text was cut.
"""

from __future__ import annotations

from app.llm_text.cursor import LOOK_AHEAD, WAIT, Cursor
from app.llm_text.inline import read_inline
from app.llm_text.lines import begin_line
from app.llm_text.output import CleanText, Output
from app.llm_text.silent_parts import skip_destination, skip_element, skip_fenced
from app.llm_text.state import State

__all__ = ["LOOK_AHEAD", "Cleaner"]


class Cleaner:
    """Cleaner of text that arrives in fragments cut anywhere.

    Words are given out as they arrive. At most LOOK_AHEAD characters are held back, and only those that can still turn
    out to be something else. `code`, if given, is said in place of each fenced block. Positions in the original are
    counted from the first character fed, across flushes.
    """

    def __init__(self, *, code: str = "") -> None:
        self._announcement = code
        self._text = ""
        self._out = Output()
        self._state = State(code)
        self._cursor = Cursor("", 0, False)

    def feed(self, fragment: str) -> list[CleanText]:
        """Add a fragment. Return the text that can be spoken by now."""
        self._text += fragment
        return self._run(final=False)

    def flush(self) -> list[CleanText]:
        """End the text and return the rest of it. A later fragment begins another text."""
        done = self._run(final=True)
        self._out.reset()
        self._state = State(self._announcement)
        return done

    @property
    def held(self) -> str:
        """The characters that are held back."""
        return self._text

    def _run(self, *, final: bool) -> list[CleanText]:
        text, position = self._text, 0
        while position < len(text):
            count = self._step(text, position, final)
            if count == WAIT:
                break
            if count:
                self._state.previous = text[position + count - 1]
            position += count
        self._text = text[position:]
        done = self._out.collect()
        self._out.base += position
        return done

    def _step(self, text: str, at: int, final: bool) -> int:
        """Return how many characters from `at` were dealt with (0 if only the state moved on), or WAIT."""
        state, cursor = self._state, self._cursor  # one cursor for all steps: there are many
        cursor.text, cursor.at, cursor.final = text, at, final
        if state.fence:
            return skip_fenced(state, cursor)
        if state.skip_until:
            return skip_element(state, cursor)
        if state.line_start:
            return begin_line(state, cursor, self._out)
        if state.paragraph.destination or state.paragraph.reference:
            return skip_destination(state, cursor)
        if state.address is not None:
            count = state.address.step(text, at, final, self._out)
            if not count:
                state.address = None
            return count
        return read_inline(state, cursor, self._out)
