r"""Parts of a language model's output that are not for a listener, covered by white space.

Hidden are special tokens, thoughts, calls of tools and their results, and citations, in the forms in which models and
their programs write these, and tags with data. Of Markdown, blocks of code, destinations of links, notes, the marks of
quotes and the frames of tables are hidden; a bar between two cells becomes a comma. The text keeps its length, so every
character stays at its place.

A tag such as `<think>` opens a hidden part, and one such as `<answer>` is hidden itself, at the beginning of a line,
after the end of a sentence, and where a word follows it without a space; one such as `<answer>` also where its end is
near. Elsewhere ("the <think> tag") it is a word of the text. What a whole text does not close is text, too, but for
calls of tools, and a thought at its beginning, which was cut off. In a stream only its end would tell.
"""

from __future__ import annotations

import math
import re
from typing import Final

_LOOK_AHEAD: Final = 1_200
"""Most characters that are held back to find out what they are."""
_CONTEXT: Final = 8
"""Characters before a part that tell whether it is one."""
_TAIL: Final = 64
"""Characters at the end of a hidden part that may begin its end."""

_THOUGHTS: Final = (
    r"(?:\w{1,20}[:_]|ant)?think(?:ing)?(?:_process)?|(?:inner_)?(?:thoughts?|monologue)|reason(?:ing(?:_content)?)?|analysis"
    r"|\w{1,20}:cot_budget_reflect"
)
_NAMES: Final = (
    rf"{_THOUGHTS}|(?:\w{{1,20}}[:_])?tool_?calls?|reflection|scratch_?pad|antml:\w{{1,20}}|function(?==)"
    r"|tool_(?:code|use|responses?|results?|outputs?)|(?:[|｜]DSML[|｜])?function_(?:calls?|results?)"
)
_WRAPPER: Final = r"(?:(?:final|assistant|model)[_-]?)?(?:answer|response|reply|output|result|solution)"
_ATTRIBUTES: Final = r"(?:[\s=][^<>\n]{0,300})?"
_TURN: Final = r"(?:<\|im_start\|>|<start_of_turn>|<\|turn>)"
_HEADER: Final = r"<\|(?:start|channel|constrain)\|>[^<]{0,100}"
_INDENTATION: Final = r"[ \t>]{0,8}(?:(?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?"
_LINK: Final = (
    r"(?<=\])\((?!/[^/\n()]*/\))<?(?:[a-zA-Z][\w+.-]{0,30}:|\#|\.{0,2}/|[\w%-]{1,80}[./][a-zA-Z])[^\s()]{0,800}"
    r"(?:\([^\s()]{0,99}\)[^\s()]{0,99}){0,2}(?:[ \t](?:\"[^\"\n]{0,99}\"|'[^'\n]{0,99}'))?\)"
)
_ANYWHERE: Final = rf"""
    (?P<tag><(?P<name>{_NAMES}){_ATTRIBUTES}>)
    | (?P<details><details\s[^<>\n]{{0,300}}type\s?=\s?["']?(?:reasoning|tool_calls|code_interpreter)[^<>\n]{{0,300}}>)
    | (?P<think>◁think▷|\[(?P<bracket>THINK|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|SYSTEM_PROMPT)\])
    | (?P<calls>\[TOOL_CALLS\]|<\|python_tag\|>)
    | (?P<wrapper><(?P<wrapped>{_WRAPPER})>(?P<whole>(?=[^<\n]{{0,160}}</(?P=wrapped)>))?)
    | (?P<channel>(?:{_HEADER}){{1,4}}<\|message\|>)
    | (?P<role>{_TURN}\w{{0,20}}|<\|start_header_id\|>\w{{0,20}}<\|end_header_id\|>)
    | (?P<gemma><\|(?P<open>channel|tool(?:_\w{{1,20}})?)>|<start_(?P<started>function_\w{{1,20}})>)
    | (?P<section><[|｜](?:begin_of_(?P<of>thoughts?|reasoning)|START_(?P<part>(?!RESPONSE)\w{{1,30}})
        |(?P<kind>[\w▁]{{1,40}}[_▁](?=begin)|(?:tool|function|think)\w{{0,30}}_(?=start))(?:begin|start))[|｜]>)
    | (?P<special><[|｜][\w▁.:/-]{{1,60}}[|｜]?>|<[\w▁.:/-]{{1,60}}[|｜]>|<</?SYS>>|(?-i:\[/?(?:[gs]MASK|INST)\])
        |</?(?:(?:start|end)_of_(?:turn|text|image|audio)|[be]os|pad|unk|eo[pt]|sop)>)
    | (?P<citation>【[^【】†\n]{{0,30}}†[^【】\n]{{0,80}}】|\ue200(?!entity)[^\ue200\ue201\n]{{0,300}}\ue201
        |(?<=:)contentReference\[oaicite:[^\]\s]{{1,20}}\](?:\{{index=\d{{1,4}}\}})?)
    | (?P<data><[a-z]\w{{0,20}}[ \t][^<>\n]{{0,200}}?=[ \t]?["']?(?:data:|[^\s<>"']{{300}}))
"""
_MARKDOWN: Final = rf"""
    | (?P<fence>(?<=\n){_INDENTATION}(?P<ticks>`{{3,9}}(?=[^`\n]{{0,200}}\n)
        |~{{3,9}}(?=[ \t]?[\w+\#.-]{{1,30}}[ \t]*\n))[^\n]{{0,200}}\n)
    | (?P<row>(?<=\n)[ \t]{{0,8}}\|[^\n]{{0,1000}}\|[ \t]{{0,8}}(?:\n|\Z))
    | (?P<link>{_LINK})
    | (?P<address>(?<=\])\(<?[^\s()]{{800}})
    | (?P<quote>(?<=\n)[ \t]{{0,2}}(?:>[ \t]?){{1,3}}(?=[^\W\d_]|(?<=[ \t])[^\s<=>]))
    | (?P<box>(?<=[-*+•][ \t])\[x\](?=[ \t]))
    | (?P<reference>(?<=[^\W\d_][^\W\d_]\])\[\d{{0,3}}\])
    | (?P<definition>(?<=\n)[ \t]{{0,8}}\[(?:\^[^\]\s]{{1,40}}\]:[^\n]{{0,1000}}
        |[^\]\n]{{1,80}}\]:[ \t]+<?https?://\S{{1,800}}(?:[ \t]+["'(][^\n]{{0,99}})?[ \t]*)(?:\n|\Z))
    | (?P<note>(?<=[^\s\[])\[\^[^\]\s]{{1,40}}\])
"""
# Text at the end of the fragments that may become a part with the next one.
_BEGUN: Final = rf"""
    (?:{_TURN}|<\|start_header_id\|>)\w{{0,20}}(?:<[|\w]{{0,20}})?\Z
    | (?:{_HEADER}){{0,4}}<{{1,2}}(?:[a-zA-Z|｜/][^<>\n]{{0,700}}>{{0,2}})?\Z | (?:{_HEADER}){{1,4}}\Z
    | <{_WRAPPER}>[^<\n]{{0,160}}(?:</?[\w-]{{0,20}})?\Z
    | ◁[^▷\s]{{0,8}}▷?\Z | \[/?[A-Z_]{{0,16}}\]?\Z | 【[^【】†\n]{{0,30}}(?:†[^【】\n]{{0,80}})?\Z
    | \ue200[^\ue200\ue201\n]{{0,300}}\Z | (?<=:)c[a-z]{{0,15}}(?:\[[^\]\s]{{0,30}}(?:\](?:\{{[^}}\s]{{0,12}})?)?)?\Z
"""
_BEGUN_MARKDOWN: Final = r"""
    | (?<=\n)[ \t>]{0,8}(?:[-*+]|\d{1,3}[.)]?)?[ \t]{0,4}(?<!\n)\Z
    | (?<=\n)[ \t>]{0,8}(?:(?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?(?:`{1,9}[^`\n]{0,200}|~{1,9}[^\n]{0,200})\Z
    | (?<=\n)[ \t]{0,8}(?:\|[^\n]{0,1000}|\[[^\]\n]{0,80}(?:\](?::[^\n]{0,1000})?)?)\Z
    | \](?:\([^\s()]{0,800}(?:\([^\s()]{0,99}\)?[^\s()]{0,99}){0,2}(?:[ \t](?:["'][^"'\n]{0,99}["']?)?)?)?\Z
    | \[\^[^\]\s]{0,40}\Z | (?<=\])\[\d{0,3}\Z
"""
_FLAGS: Final = re.VERBOSE | re.IGNORECASE
_PARTS: Final = {False: re.compile(_ANYWHERE, _FLAGS), True: re.compile(_ANYWHERE + _MARKDOWN, _FLAGS)}
_UNFINISHED: Final = {False: re.compile(_BEGUN, _FLAGS), True: re.compile(_BEGUN + _BEGUN_MARKDOWN, _FLAGS)}
_SIGNS: Final = re.compile(r"[<>◁\[\]`~|【\ue200]|:c|\n[ \t>\d.)*+-]+\Z")
# The end of a thought that the template of a prompt has begun.
_CLOSING: Final = re.compile(
    rf"(?:^[^\S\n]*|[.!?…][\"'”’»)*_]{{0,3}})(?:</(?:{_THOUGHTS})>|◁/think▷|\[/THINK\])", re.IGNORECASE | re.MULTILINE
)
_OPENING: Final = re.compile(rf"<(?:{_THOUGHTS})\b|◁think▷|\[THINK\]", re.IGNORECASE)
_CUT_OFF: Final = re.compile(r"[^\W_]|[\r\n*_\"'“‘(\[{<#>-]|\Z")
_CHANNEL_END: Final = r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)"
_VISIBLE: Final = re.compile(r"[^\n]")
_FRAME: Final = re.compile(r"[|\-:=+\s]*")
_LIKE_WORDS: Final = ("tag", "think", "calls", "gemma", "wrapper")
_MAY_STAY_OPEN: Final = ("calls", "gemma", "address", "data")
_MAX_ENDS: Final = 64
"""Most different ends that are looked for in a whole text, each in linear time."""
_STOPS: Final = ".!?…"
_CLOSERS: Final = "\"'”’»)*_"


MAX_THOUGHTS: Final = 9
"""Hidden characters that a text may have for each one that may be spoken: a model thinks longer than it speaks."""


class HiddenParts:
    """Cover of the hidden parts of a text that arrives in fragments cut anywhere.

    Not `markdown`: only what is for a machine is hidden. Only text that may turn out to be hidden is held back.
    `covered` counts the characters of thoughts and other long parts.
    """

    def __init__(self, *, markdown: bool = True) -> None:
        self._markdown = markdown
        self._begin()

    def _begin(self) -> None:
        self.covered = 0
        self._text = "\n"  # some characters that were given out, and those that are held back
        self._at = 1
        self._end: re.Pattern[str] | None = None  # end of the open part
        self._fenced = False
        self._spoken = False
        self._ends: dict[re.Pattern[str], float] = {}  # where the next end of a kind lies

    def feed(self, fragment: str) -> str:
        """Add a fragment. Return the text that is known to be spoken or hidden by now."""
        self._text += fragment
        return self._run(final=False)

    def flush(self, fragment: str = "") -> str:
        """End the text with its last fragment, and return the rest of it. A later fragment begins another text."""
        self._text += fragment
        done = self._run(final=True)
        self._begin()
        return done

    def _run(self, *, final: bool) -> str:
        out: list[str] = []
        going = True
        while going and self._at < len(self._text):
            hiding = self._end is not None
            shown, going = self._read(final) if self._end is None else self._skip(self._end, final)
            self.covered += len(shown) if hiding else 0
            self._spoken = self._spoken or bool(shown.strip())
            self._at += len(shown)
            out.append(shown)
        kept = max(0, self._at - _CONTEXT)
        self._text, self._at = self._text[kept:], self._at - kept
        return "".join(out)

    def _read(self, final: bool) -> tuple[str, bool]:
        """Return text up to a hidden part and the part covered, or to what may become one; and whether to go on."""
        text, at = self._text, self._at
        if _SIGNS.search(text, at - 1) is None:
            return text[at:], False
        begun = None if final else _UNFINISHED[self._markdown].search(text, max(at, len(text) - _LOOK_AHEAD))
        most = len(text) if begun is None else begun.start()
        for match in _PARTS[self._markdown].finditer(text, at):
            if match.start() >= most:
                break
            end = _end_of(match)
            if not self._opens(match, end, final):
                continue
            if end is not None and match.lastgroup != "wrapper":
                self._end, self._fenced = end, match.lastgroup == "fence"
            shown = _row(match.group()) if match.lastgroup == "row" else _cover(match.group())
            return text[at : match.start()] + shown, True
        return text[at:most], False

    def _skip(self, end: re.Pattern[str], final: bool) -> tuple[str, bool]:
        """Return the cover of the open part, as far as it is there, and whether it has ended."""
        text = self._text
        match = end.search(text, self._at)
        if match is not None and (final or not self._fenced or match.end() < len(text)):
            self._end = None
            return _cover(text[self._at : match.end()]), True
        return _cover(text[self._at : len(text) if final else max(self._at, len(text) - _TAIL)]), False

    def _opens(self, found: re.Match[str], closing: re.Pattern[str] | None, final: bool) -> bool:
        """Return whether a token opens a part, whose end is `closing`, and is no word of the text."""
        text, start, end = found.string, found.start(), found.end()
        after = text[end : end + 1]
        if found.lastgroup in _LIKE_WORDS:
            last = text[max(0, start - _CONTEXT) : start].rstrip(" \t")[-1:]
            apart = text[start - 1].isspace()
            begins = last in ("", *"\n>▷") or last in _STOPS or (apart and last in _CLOSERS) or found["whole"] == ""
            if text[start - 1] == "`" or not (begins or after.isalnum() or after in ("\n", "{", "[")):
                return False
        if not final or closing is None or found.lastgroup in _MAY_STAY_OPEN:
            return True
        # The whole text is there. What nothing closes is text, but for a thought that was cut off.
        if self._ends.get(closing, -1) < end:
            ended = closing.search(text, end) if len(self._ends) < _MAX_ENDS else None
            self._ends[closing] = math.inf if ended is None else ended.start()
        if self._ends[closing] < math.inf:
            return True
        first = _OPENING.match(text, start) and not self._spoken and not text[self._at : start].strip()
        return bool(first and _CUT_OFF.match(text, end))


def hide(text: str) -> str:
    """Return a whole text with its hidden parts covered. It may begin within a thought."""
    if _SIGNS.search(text) is None:
        return text
    parts = HiddenParts()
    begun = _CLOSING.search(text)
    if begun is not None and _OPENING.search(text, 0, begun.start()) is None:
        return _cover(text[: begun.end()]) + parts.flush(text[begun.end() :])
    return parts.flush(text)


def _end_of(found: re.Match[str]) -> re.Pattern[str] | None:
    """Return the pattern for the end of a part; None: it is whole."""
    kind, end = found.lastgroup, ""
    if kind in ("tag", "wrapper", "details"):
        end = rf"</{re.escape(found['name'] or found['wrapped'] or kind)}\s{{0,9}}>"
    elif kind == "think":
        end = rf"\[/{found['bracket']}\]" if found["bracket"] else "◁/think▷"
    elif kind == "calls":
        end = r"<\|eo[mt]_id\|>|</s>"
    elif kind == "gemma":
        end = rf"<{found['open']}\|>" if found["open"] else f"<end_{found['started']}>"
    elif kind in ("address", "data"):
        end = r"\)|(?=\s)" if kind == "address" else ">"
    elif kind == "channel":
        channel = found["channel"].lower().rpartition("<|channel|>")[2]
        end = "" if channel.startswith(("final", "<|start|>")) else _CHANNEL_END
    elif kind == "section":
        ending = f"END_{found['part']}" if found["part"] else f"{found['kind']}end"
        ending = f"end_of_{found['of']}" if found["of"] else ending
        end = rf"<[|｜]{re.escape(ending)}[|｜]>"
    elif kind == "fence":
        end = rf"(?<=\n)[ \t>]*{found['ticks']}[`~]*[ \t]*(?=\n|\Z)"
    return re.compile(end, re.IGNORECASE) if end else None


def _row(line: str) -> str:
    """Return a line of a table as a sentence: a comma between its cells, and a stop after the last."""
    if _FRAME.fullmatch(line):
        return _cover(line)
    cells = line.replace("|", " ", 1).rstrip()
    stop = cells.endswith("|")
    cells = (cells[:-1] if stop else cells).replace("|", ",")
    if stop:
        cells += " " if cells.rstrip()[-1:] in ("", *",.!?:;…") else "."
    return cells + line[len(cells) :]


def _cover(text: str) -> str:
    return _VISIBLE.sub(" ", text)
