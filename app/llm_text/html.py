"""HTML tags and character references in a language model's text."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.cursor import LOOK_AHEAD, WAIT, Cursor
from app.llm_text.output import Output
from app.llm_text.signs import is_silent
from app.llm_text.state import State
from app.text.markup import ENTITY, ENTITY_START, TAG, TAG_START, decode

_COMMENT: Final = "<!--"
_BREAKING: Final = re.compile(r"(?:br|p|div|li|ul|ol|tr|table|h[1-6]|hr|blockquote|section)", re.IGNORECASE)
# Elements whose content is not for a listener; open models write their thinking between such tags.
_SILENT_ELEMENTS: Final = frozenset(("script", "style", "think", "thinking"))
_LONGEST_ENTITY: Final = 40


def read_tag(state: State, cursor: Cursor, out: Output) -> int:
    """Drop a tag or comment at "<". Keep the character if it begins none."""
    window = cursor.window
    if window.startswith(_COMMENT):
        state.skip_until = "-->"
        return len(_COMMENT)
    tag = TAG.match(window)
    if tag is not None:
        name = tag.group(1).lower()
        opens = window[1] != "/" and window[tag.end() - 2] != "/"
        if name in _SILENT_ELEMENTS and opens and state.previous == "\n":
            state.skip_until = f"</{name}>"
        elif _BREAKING.fullmatch(name):
            state.break_block(out, cursor.at)
        return tag.end()
    if window[1:8].lower() in ("https:/", "http://"):
        state.paragraph.angle = True
        return 1
    unsure = TAG_START.fullmatch(window) is not None or "<https:/".startswith(window.lower())
    if unsure and not cursor.final and len(window) < LOOK_AHEAD:
        return WAIT
    return out.verbatim(cursor.text, cursor.at, 1)


def read_angle(state: State, cursor: Cursor, out: Output) -> int:
    """Drop the ">" after an address between angle brackets."""
    if state.paragraph.angle:
        state.paragraph.angle = False
        return 1
    return out.verbatim(cursor.text, cursor.at, 1)


def read_entity(state: State, cursor: Cursor, out: Output) -> int:
    """Say the character that a reference at "&" stands for."""
    at = cursor.at
    window = cursor.text[at : at + _LONGEST_ENTITY]
    entity = ENTITY.match(window)
    if entity is not None:
        decoded = decode(entity.group())
        if decoded.isspace():
            out.space(at, at + entity.end())
        elif decoded and not is_silent(decoded, False):
            out.give(decoded, at, at + entity.end())
        if decoded:
            return entity.end()
    elif not cursor.final and len(window) < _LONGEST_ENTITY and ENTITY_START.fullmatch(window):
        return WAIT
    return out.verbatim(cursor.text, at, 1)
