r"""Scanner of text that arrives in fragments: rules that cut tokens off it, and the state between two tokens.

The first rule that matches decides. A rule may look at LOOK_AHEAD characters and at the one before them, never at where
the text at hand ends (`\Z` is the end of the whole text). So the tokens do not depend on how the text was cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from app.llm_text.output import Output

LOOK_AHEAD: Final = 256
"""Most characters that are held back to find out what they are."""

_PICTOGRAPHS: Final = (
    "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\ue000-\uf8ff\U0001f000-\U0001faff\U000e0020-\U000e007f"
)
# Square brackets, which would be markup of speech; variation selectors, the keycap, direction marks, soft hyphens,
# zero-width spaces.
_INVISIBLE: Final = r"\[\]\ufe00-\ufe0f\u20e3\u200b\u200e\u200f\u00ad\u2060\ufeff\u202a-\u202e\u2066-\u2069\r"
SILENT: Final = re.compile(f"[{_PICTOGRAPHS}{_INVISIBLE}]|(?<=[{_PICTOGRAPHS}\ufe0f])\u200d")
"""A character that is not spoken: a pictograph, the joiner of two, or an invisible character."""
WORD: Final = "[^\\W_\u2776-\u2793\U0001f100-\U0001f10c]+"
"""Pattern of letters and digits, without the pictographs among them."""
AFTER_WORD: Final = r"(?<=[^\W_])"
NOT_AFTER_WORD: Final = r"(?<![^\W_])"


@dataclass(slots=True)
class ScannerState:
    """State between two tokens. `announcement` is said in place of fenced code."""

    out: Output
    announcement: str
    context: str = "line"
    """Name of the mode, or "text" for the mode of the open marks."""
    line: Literal["", "heading", "row"] = ""
    """Kind of line, if a blank line is due after it."""
    code: int = 0
    """Count of the backticks that opened code; 0 outside code."""
    math: Literal["", "inline", "display"] = ""
    depth: int = 0
    """Count of the open parentheses of an address."""
    length: int = 0
    """Characters of a link's destination so far, without parentheses."""
    fence: str = ""
    """Mark of the open fence, as "```"."""

    @property
    def mode(self) -> str:
        """Name of the mode that reads the next token."""
        if self.context != "text":
            return self.context
        return "code" if self.code else "math" if self.math else "text"

    def break_block(self, at: int) -> None:
        """End the paragraph, and have a blank line before the text from character `at` on."""
        self.code, self.math = 0, ""
        self.out.break_block(at)


Action = Callable[[ScannerState, "re.Match[str]"], None]


class TokenRule(NamedTuple):
    """Kind of token, and what becomes of it.

    `unfinished` matches all text that can become such a token, or one of a later rule, if more text follows. It may
    match too much: then a token tokens_or_waits for one character more.
    """

    pattern: str
    action: Action
    unfinished: str = ""


class Mode:
    """Rules that hold in one context, such as the beginning of a line. One of them matches any text.

    The groups of `token` are names of `actions`. `token_or_wait`, for text that goes on, has other groups for text that
    is unfinished.
    """

    def __init__(self, *rules: TokenRule) -> None:
        self.actions: Final[dict[str | None, Action]] = {}
        tokens: list[str] = []
        tokens_or_waits: list[str] = []
        for number, (pattern, action, unfinished) in enumerate(rules):
            self.actions[f"rule{number}"] = action
            # A group around the pattern, instead of after it, would hide the first character from `re`.
            tokens.append(f"(?:{pattern})(?P<rule{number}>)")
            if unfinished:
                tokens_or_waits.append(rf"(?:{unfinished})\Z(?P<wait{number}>)")
            tokens_or_waits.append(tokens[-1])
        self.token: Final = re.compile("|".join(tokens), re.DOTALL)
        self.token_or_wait: Final = re.compile("|".join(tokens_or_waits), re.DOTALL)


def beginnings(*words: str) -> str:
    """Return a pattern for all proper beginnings of `words`, in capital or small letters."""
    result = {re.escape(word[:count]) for word in words for count in range(1, len(word))}
    return f"(?i:{'|'.join(sorted(result))})"


# Actions


def drop(state: ScannerState, token: re.Match[str]) -> None:
    """Say nothing for a token."""


def say(state: ScannerState, token: re.Match[str]) -> None:
    """Say a token as it is."""
    start, end = token.span()
    state.out.give(token.group(), start, end)


def say_as(spoken: Callable[[str], str]) -> Action:
    """Return the action that says `spoken(token)` for a token."""

    def action(state: ScannerState, token: re.Match[str]) -> None:
        state.out.give(spoken(token.group()), token.start(), token.end())

    return action


def space(state: ScannerState, token: re.Match[str]) -> None:
    """Have a space before the next text."""
    state.out.space(token.start(), token.start() + 1)


def break_block(state: ScannerState, token: re.Match[str]) -> None:
    """End the paragraph, and have a blank line before the next text."""
    state.break_block(token.start())


def change(**fields: object) -> Action:
    """Return the action that drops a token and changes fields of the state."""

    def action(state: ScannerState, token: re.Match[str]) -> None:
        for name, value in fields.items():
            setattr(state, name, value)

    return action
