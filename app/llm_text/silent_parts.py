"""Parts that are not spoken: fenced code, comments and elements such as `<think>`, destinations of links."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.cursor import LOOK_AHEAD, WAIT, Cursor
from app.llm_text.state import State

# The longest destination of a link.
_LONGEST_DESTINATION: Final = 2048
_SKIPPED: Final = re.compile(r"[^<\-]+")


def skip_fenced(state: State, cursor: Cursor) -> int:
    """Skip a line of fenced code, or the part of it that has arrived."""
    text, at = cursor.text, cursor.at
    newline = text.find("\n", at)
    line = text[at : newline if newline >= 0 else len(text)]
    count = len(line) + (newline >= 0)
    if state.in_code_line:
        state.in_code_line = newline < 0
        return count
    start = line[:LOOK_AHEAD].strip(" \t>\r")
    only_marks = not start.strip(state.fence[0])
    if newline < 0 and not cursor.final and len(line) < LOOK_AHEAD and only_marks:
        return WAIT
    state.in_code_line = newline < 0
    if start.startswith(state.fence) and only_marks:
        state.fence, state.in_code_line = "", False
    return count


def skip_element(state: State, cursor: Cursor) -> int:
    """Skip to the end of a comment or element."""
    end = state.skip_until
    if cursor.character == end[0]:
        found = cursor.text[cursor.at : cursor.at + len(end)].lower()
        if found == end:
            state.skip_until = ""
            return len(end)
        if not cursor.final and len(found) < len(end) and end.startswith(found):
            return WAIT
        return 1
    plain = _SKIPPED.match(cursor.text, cursor.at)
    return plain.end() - cursor.at if plain else 1


def skip_destination(state: State, cursor: Cursor) -> int:
    """Skip one character of a link's destination or reference."""
    character, paragraph = cursor.character, state.paragraph
    paragraph.destination_length += 1
    if character == "\n" or paragraph.destination_length > _LONGEST_DESTINATION:
        paragraph.destination, paragraph.reference = 0, False
        return 0
    if paragraph.reference:
        paragraph.reference = character != "]"
    elif character in "()":
        paragraph.destination += 1 if character == "(" else -1
    return 1
