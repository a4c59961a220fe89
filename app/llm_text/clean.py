"""Markdown, HTML, addresses and pictographs out of text that arrives in fragments, so that it can be spoken.

What is dropped or replaced: marks of emphasis, headings, bullets, quotes, rules and tables (their text stays, blocks
are kept apart by blank lines), fenced code, HTML tags, destinations of links and images, bare addresses (their host
stays), emoji and other pictographs, citation numbers, and all but the signs of LaTeX. Brackets go, so that nothing a
model writes is taken for the markup of speech.
"""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.addresses import LOOK_AHEAD, Address, scheme_length
from app.llm_text.output import Clean, Output
from app.llm_text.signs import is_silent, tex_symbol
from app.text.html_tags import ENTITY, ENTITY_START, TAG, TAG_START, decode

# The longest destination of a link.
_LONGEST_DESTINATION: Final = 2048

# A word, and with it the plain words after it that cannot begin an address: most of a text in few steps.
_WORDS: Final = re.compile(r"[^\W_]+(?: [^\W_hHwWfF][^\W_]*)*")
_CODE: Final = re.compile(r"[^`\n]+")
_SKIPPED: Final = re.compile(r"[^<\-]+")
_COMMENT: Final = "<!--"
_BREAKING: Final = re.compile(r"(?:br|p|div|li|ul|ol|tr|table|h[1-6]|hr|blockquote|section)", re.IGNORECASE)
# Elements whose content is not for a listener; open models write their thinking between such tags.
_SILENT_ELEMENTS: Final = frozenset(("script", "style", "think", "thinking"))
_HEADING: Final = re.compile(r"#{1,6}(?=[ \t\n])")
_RULE: Final = re.compile(r"([-*_=])(?:[ \t]*\1)*[ \t]*")
_BULLET: Final = re.compile(r"[-+*•‣▪–][ \t]+")
_TASK: Final = re.compile(r"\[[ xX]\][ \t]")
_NUMBER: Final = re.compile(r"\d{1,9}[.)](?=[ \t])")
_TABLE_RULE: Final = re.compile(r"[|\-: \t]+")
_CITATION: Final = re.compile(r"\[(?:\d{1,3}|\^[^\]\n]{0,40})(?=\])")
_CITATION_START: Final = re.compile(r"\[(?:\d{0,3}|\^[^\]\n]{0,40})$")


class Cleaner:
    """Cleans text that arrives in fragments cut anywhere: what comes out, joined, does not depend on the cuts.

    Nothing is held back but what cannot be told yet, at most LOOK_AHEAD characters. `code`, if given, is said in place
    of each fenced block. The original's characters are counted from the first fed, across flushes.
    """

    def __init__(self, *, code: str = "") -> None:
        self._announcement = code
        self._text = ""
        self._out = Output()
        self._reset()

    def _reset(self) -> None:
        self._previous = "\n"  # the last character of the original
        self._line_start = True
        self._bullet = False
        self._heading = False
        self._table = False
        self._fence = ""
        self._in_code_line = False
        self._until = ""  # what ends the part that is skipped
        self._address: Address | None = None
        self._end_paragraph()

    def _end_paragraph(self) -> None:
        self._code = 0
        self._math = ""  # "inline" or "display"
        self._angle = False
        self._brackets: list[bool] = []  # of each open one, whether it is a citation
        self._destination = 0  # depth of parentheses
        self._destination_length = 0
        self._reference = False

    def feed(self, fragment: str) -> list[Clean]:
        """Add a fragment; return what can be said of it by now."""
        self._text += fragment
        return self._run(final=False)

    def flush(self) -> list[Clean]:
        """The text ends here; return the rest. What is fed next is another text."""
        done = self._run(final=True)
        self._out.reset()
        self._reset()
        return done

    @property
    def held(self) -> str:
        """The characters that cannot be told yet."""
        return self._text

    def _run(self, *, final: bool) -> list[Clean]:
        text, position = self._text, 0
        while position < len(text):
            count = self._step(text, position, final)
            if count < 0:
                break
            if count:
                self._previous = text[position + count - 1]
            position += count
        self._text = text[position:]
        done = self._out.collect()
        self._out.base += position
        return done

    # Every step below returns how many characters of `text` from `at` are dealt with (0: none, but the state moved on),
    # or -1 to wait for more of them. What it decides may depend on LOOK_AHEAD characters only, not on where text ends.

    def _step(self, text: str, at: int, final: bool) -> int:
        if self._fence:
            return self._fenced(text, at, final)
        if self._until:
            return self._skip(text, at, final)
        if self._line_start:
            return self._begin_line(text, at, final)
        if self._destination or self._reference:
            return self._link_end(text, at)
        if self._address is not None:
            count = self._address.step(text, at, final, self._out)
            if not count:
                self._address = None
            return count
        return self._inline(text, at, final)

    # Blocks

    def _begin_line(self, text: str, at: int, final: bool) -> int:
        character = text[at]
        if character == "\n":
            self._end_paragraph()
            return self._newline(at)
        if character.isspace() or character == ">":
            return 1
        window = text[at : at + LOOK_AHEAD]
        sure = final or len(window) == LOOK_AHEAD
        if self._bullet:
            if not sure and (len(window) < 4 and re.fullmatch(r"\[[ xX]?\]?", window)):
                return -1
            self._bullet = False
            if _TASK.match(window):
                return 3
        if character in "`~":
            return self._begin_fence(window, at, sure)
        if character == "|":
            return self._begin_row(window, at, sure)
        if character in "-*_=+•‣▪–" and (count := self._begin_item(window, at, sure)):
            return count
        if character == "#":
            if not sure and window.strip("#") == "" and len(window) <= 6:
                return -1
            if heading := _HEADING.match(window):
                self._break_block(at)
                self._heading, self._line_start = True, False
                return heading.end()
        if character.isdecimal():
            if not sure and re.fullmatch(r"\d{1,9}[.)]?", window):
                return -1
            if _NUMBER.match(window):
                self._break_block(at)
        self._line_start = False
        return 0

    def _begin_item(self, window: str, at: int, sure: bool) -> int:
        """A rule, or an item of a list; 0 if it is neither."""
        rule = _RULE.match(window)
        if rule is not None:
            rest = window[rule.end() : rule.end() + 1]
            if not rest and not sure:
                return -1
            if rest in ("", "\n", "\r") and sum(map(str.isspace, rule.group())) + 3 <= rule.end():
                self._break_block(at)
                return rule.end()
        elif len(window) == 1 and not sure:
            return -1
        bullet = _BULLET.match(window)
        if bullet is None:
            return 0
        self._break_block(at)
        self._bullet = True
        return bullet.end()

    def _begin_fence(self, window: str, at: int, sure: bool) -> int:
        run = len(window) - len(window.lstrip(window[0]))
        line, newline, _ = window.partition("\n")
        if run < 3 and (run < len(window) or sure):
            self._line_start = False
            return 0
        if run >= 3 and "`" in line[run:] and window[0] == "`":  # code within a line
            self._line_start = False
            return 0
        if not newline and not sure:
            return -1
        self._break_block(at)
        if self._announcement:
            self._out.give(self._announcement, at, at + run)
            self._break_block(at + run)
        self._fence = window[:run]
        self._in_code_line = not newline
        return len(line) + len(newline)

    def _begin_row(self, window: str, at: int, sure: bool) -> int:
        line, newline, _ = window.partition("\n")
        rule = _TABLE_RULE.match(line)
        length = rule.end() if rule else 0
        if length == len(line) and (newline or sure):
            return length + len(newline)
        if length == len(line):
            return -1
        self._break_block(at)
        self._table, self._line_start = True, False
        return len(line) - len(line.lstrip("| \t"))

    def _fenced(self, text: str, at: int, final: bool) -> int:
        newline = text.find("\n", at)
        line = text[at : newline if newline >= 0 else len(text)]
        if self._in_code_line:
            self._in_code_line = newline < 0
            return len(line) + (newline >= 0)
        shown = line[:LOOK_AHEAD].strip(" \t>\r")
        closing = shown.startswith(self._fence) and not shown.strip(self._fence[0])
        if newline < 0 and not final and len(line) < LOOK_AHEAD and not shown.strip(self._fence[0]):
            return -1
        self._in_code_line = newline < 0
        if closing:
            self._fence, self._in_code_line = "", False
        return len(line) + (newline >= 0)

    def _newline(self, at: int) -> int:
        if self._heading or self._table:
            self._heading = self._table = False
            self._out.newline(at)
            self._out.break_block(at + 1)
        else:
            self._out.newline(at)
        self._line_start = True
        self._math = "" if self._math == "inline" else self._math
        return 1

    def _break_block(self, at: int) -> None:
        """Have a blank line before what follows."""
        self._end_paragraph()
        self._out.break_block(at)

    # Parts that are not spoken

    def _skip(self, text: str, at: int, final: bool) -> int:
        end = self._until
        if text[at] == end[0]:
            found = text[at : at + len(end)].lower()
            if found == end:
                self._until = ""
                return len(end)
            if not final and len(found) < len(end) and end.startswith(found):
                return -1
            return 1
        plain = _SKIPPED.match(text, at)
        return plain.end() - at if plain else 1

    def _link_end(self, text: str, at: int) -> int:
        character = text[at]
        self._destination_length += 1
        if character == "\n" or self._destination_length > _LONGEST_DESTINATION:
            self._destination, self._reference = 0, False
            return 0
        if self._reference:
            self._reference = character != "]"
        elif character in "()":
            self._destination += 1 if character == "(" else -1
        return 1

    # Text

    def _inline(self, text: str, at: int, final: bool) -> int:
        character = text[at]
        following = text[at + 1] if at + 1 < len(text) else ""
        if character == "\n":
            return self._newline(at)
        if character == "`":
            return self._backticks(text, at, final)
        if self._code:
            code = _CODE.match(text, at)
            return self._out.verbatim(text, at, code.end() - at if code else 1)
        if character.isalnum():
            return self._word(text, at, final)
        if character.isspace():
            self._out.space(at, at + 1)
            return 1
        if character in "*_~":
            return self._emphasis(text, at, final)
        if character == "#" and self._heading and self._out.in_gap:
            rest = text[at : at + LOOK_AHEAD].lstrip("#")
            if not rest and not final and len(text) - at < LOOK_AHEAD:
                return -1
            return 1 if rest[:1] in ("", "\n", "\r", "#") else self._out.verbatim(text, at, 1)
        if character == "|" and self._table:
            self._out.comma(at, at + 1)
            return 1
        if character == "!" and not (self._previous.isalnum() or self._previous in "!?.)]\"'”’"):
            if not following and not final:
                return -1
            return 1 if following == "[" else self._out.verbatim(text, at, 1)
        if character in "[]":
            return self._bracket(text, at, final)
        if character == "<":
            return self._tag(text, at, final)
        if character == ">" and self._angle:
            self._angle = False
            return 1
        if character == "&":
            return self._entity(text, at, final)
        if character == "\\":
            return self._backslash(text, at, final)
        if character == "$":
            return self._dollar(text, at, final)
        if self._math and character in "{}":
            return self._brace(text, at, final)
        return self._out.verbatim(text, at, 1)

    def _word(self, text: str, at: int, final: bool) -> int:
        if not self._previous.isalnum():
            scheme = scheme_length(text, at, final)
            if scheme:
                self._address = Address() if scheme > 0 else None
                return scheme
        words = _WORDS.match(text, at)
        return self._out.verbatim(text, at, words.end() - at if words else 1)

    def _backticks(self, text: str, at: int, final: bool) -> int:
        run = _run_length(text, at)
        if at + run == len(text) and not final and run < LOOK_AHEAD:
            return -1
        if run < LOOK_AHEAD and self._code in (0, run):
            self._code = run - self._code
            return run
        return self._out.verbatim(text, at, run)

    def _emphasis(self, text: str, at: int, final: bool) -> int:
        mark, run = text[at], _run_length(text, at)
        if at + run == len(text) and not final and run < LOOK_AHEAD:
            return -1
        if run == LOOK_AHEAD:
            return run
        before, after = self._previous, text[at + run : at + run + 1] or " "
        if mark == "~":
            spoken = run != 2
        elif before.isspace() and after.isspace():
            spoken = run == 1
        elif mark == "*":
            spoken = before.isdigit() and after.isdigit()
        else:
            spoken = before.isalnum() and after.isalnum() and not self._math
        if spoken:
            return self._out.verbatim(text, at, run)
        if self._math and mark == "_":
            self._out.space(at, at + run)
        return run

    def _bracket(self, text: str, at: int, final: bool) -> int:
        if text[at] == "[":
            window = text[at : at + LOOK_AHEAD]
            if not final and len(window) < LOOK_AHEAD and _CITATION_START.fullmatch(window):
                return -1
            citation = _CITATION.match(window)
            if len(self._brackets) < LOOK_AHEAD:
                self._brackets.append(citation is not None)
            if citation is not None:
                return citation.end()
            if self._previous.isalnum():
                self._out.space(at, at + 1)
            return 1
        if not self._brackets:
            return 1
        if at + 1 == len(text) and not final:
            return -1
        citation_ends = self._brackets.pop()
        following = text[at + 1 : at + 2]
        if following in ("(", "["):
            self._destination, self._reference = int(following == "("), following == "["
            self._destination_length = 0
            return 2
        return 2 if citation_ends and following == ":" else 1

    def _tag(self, text: str, at: int, final: bool) -> int:
        window = text[at : at + LOOK_AHEAD]
        if window.startswith(_COMMENT):
            self._until = "-->"
            return len(_COMMENT)
        tag = TAG.match(window)
        if tag is not None:
            name = tag.group(1).lower()
            opens = window[1] != "/" and window[tag.end() - 2] != "/"
            if name in _SILENT_ELEMENTS and opens and self._previous == "\n":
                self._until = f"</{name}>"
            elif _BREAKING.fullmatch(name):
                self._break_block(at)
            return tag.end()
        if window[1:8].lower() in ("https:/", "http://"):  # an address between angle brackets
            self._angle = True
            return 1
        unsure = TAG_START.fullmatch(window) is not None or "<https:/".startswith(window.lower())
        if unsure and not final and len(window) < LOOK_AHEAD:
            return -1
        return self._out.verbatim(text, at, 1)

    def _entity(self, text: str, at: int, final: bool) -> int:
        window = text[at : at + 40]
        entity = ENTITY.match(window)
        if entity is not None:
            said = decode(entity.group())
            if said.isspace():
                self._out.space(at, at + entity.end())
            elif said and not is_silent(said, False):
                self._out.give(said, at, at + entity.end())
            if said:
                return entity.end()
        elif not final and len(window) < 40 and ENTITY_START.fullmatch(window):
            return -1
        return self._out.verbatim(text, at, 1)

    def _backslash(self, text: str, at: int, final: bool) -> int:
        if at + 1 == len(text):
            return self._out.verbatim(text, at, 1) if final else -1
        following = text[at + 1]
        if following in "()[]":
            self._math = {"(": "inline", "[": "display"}.get(following, "")
            return 2
        if following == "\n":
            return 1
        if self._math and following.isalpha():
            stop = at + 1
            while stop < len(text) and stop - at < 32 and text[stop].isascii() and text[stop].isalpha():
                stop += 1
            if stop == len(text) and not final and stop - at < 32:
                return -1
            symbol = tex_symbol(text[at + 1 : stop])
            if symbol:
                self._out.give(symbol, at, stop)
            return max(stop - at, 2)
        if following.isascii() and not following.isalnum() and not following.isspace():
            if following in "{}," and self._math:
                return 2
            self._out.give(following, at, at + 2)
            return 2
        return self._out.verbatim(text, at, 1)

    def _dollar(self, text: str, at: int, final: bool) -> int:
        if at + 2 >= len(text) and not final:
            return -1
        following, then = text[at + 1 : at + 2], text[at + 2 : at + 3]
        if following == "$":
            self._math = "" if self._math else "display"
            return 2
        if self._math == "inline":
            self._math = ""
            return 1
        # A capital letter alone; "$PATH" is none, and "$5" is money.
        variable = following == "\\" or following.islower() or (following.isalpha() and not then.isalnum())
        if variable and not self._previous.isalnum():
            self._math = "inline"
            return 1
        return self._out.verbatim(text, at, 1)

    def _brace(self, text: str, at: int, final: bool) -> int:
        if text[at] == "}":
            if at + 1 == len(text) and not final:
                return -1
            if text[at + 1 : at + 2] == "{":
                self._out.give("/", at, at + 2)
                return 2
        return 1


def _run_length(text: str, at: int) -> int:
    """How often the character at `at` stands there, at most LOOK_AHEAD times."""
    window = text[at : at + LOOK_AHEAD]
    return len(window) - len(window.lstrip(window[0]))
