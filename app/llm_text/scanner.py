"""Scanner: cuts the first token off text that arrives in fragments.

A `Mode` is a list of rules, and the first rule that matches decides. A rule may look at LOOK_AHEAD characters and at
the one before them, never at where the text at hand ends. So the tokens do not depend on how the text was cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from app.llm_text.state import State

LOOK_AHEAD: Final = 256
"""Most characters that are held back to find out what they are."""

WAIT: Final = -1
"""Result of a step that needs more text."""

Action = Callable[[State, "re.Match[str]"], None]


class Rule(NamedTuple):
    """Kind of token, and what becomes of it.

    `unfinished` matches all text that can become such a token, or another one, if more text follows. It may match too
    much: then a token waits for one character more.
    """

    pattern: str
    action: Action
    unfinished: str = ""


class Mode:
    """Rules that hold in one context, such as the beginning of a line. One of them matches any text."""

    def __init__(self, *rules: Rule) -> None:
        tokens: list[str] = []
        tokens_or_waits: list[str] = []
        self.actions: Final[dict[str | None, Action]] = {}
        for number, (pattern, action, unfinished) in enumerate(rules):
            # An empty group marks the rule. A group around the pattern would hide its first character from `re`.
            tokens.append(f"(?:{pattern})(?P<rule{number}>)")
            if unfinished:
                tokens_or_waits.append(rf"(?:{unfinished})\Z(?P<wait{number}>)")
            tokens_or_waits.append(tokens[-1])
            self.actions[f"rule{number}"] = action
        self.token: Final = re.compile("|".join(tokens), re.DOTALL)
        self.token_or_wait: Final = re.compile("|".join(tokens_or_waits), re.DOTALL)


def beginnings(*words: str) -> str:
    """Return a pattern for all proper beginnings of `words`, in capital or small letters."""
    found = {re.escape(word[:count]) for word in words for count in range(1, len(word))}
    return f"(?i:{'|'.join(sorted(found))})"


# Actions


def drop(state: State, token: re.Match[str]) -> None:
    """Say nothing for a token."""


def say(state: State, token: re.Match[str]) -> None:
    """Say a token as it is."""
    start, end = token.span()
    state.out.give(token.group(), start, end)


def space(state: State, token: re.Match[str]) -> None:
    """Have a space before the next text."""
    state.out.space(token.start(), token.start() + 1)


def break_block(state: State, token: re.Match[str]) -> None:
    """End the paragraph, and have a blank line before the next text."""
    state.break_block(token.start())


def go_to(context: str) -> Action:
    """Return the action that drops a token and goes on in another mode."""

    def action(state: State, token: re.Match[str]) -> None:
        state.context = context

    return action
