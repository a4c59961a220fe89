"""Placeholders for parts of a text that a translation must not change.

A placeholder is capital letters and a number, `ZX1`. Translation models copy text that looks like the name of a product
or room: their training text has many of these, equal in both languages. Letters and digits are in every sentencepiece
vocabulary; brackets such as ⟦1⟧ are not, and become unknown tokens. The copy is not certain, so `Placeholders.find`
reports a loss, and the caller translates in another way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_PREFIXES: Final = ("ZX", "QJ", "XQ", "ZQ", "JX", "QZ")
_DIGITS: Final = 6

_ADDRESS: Final = (
    r"(?:https?://|ftp://|www\.)[^\s<>\"'`{}|\\^\[\]()\u3000-\u303f\uff00-\uffef]{1,2000}"
    r"(?:\([^\s<>()]{1,200}\)[^\s<>\"'`{}|\\^\[\]()\u3000-\u303f\uff00-\uffef]{0,2000})?(?<![.,;:!?*_~])"
    r"|(?<![\w.%+-])[A-Za-z0-9_%+-]{1,64}(?:\.[A-Za-z0-9_%+-]{1,64}){0,8}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
    r"(?<!-)"
)
# What programs put a value into: {{user.name}}, ${name}, %{count}, { name }, {0:.2f}, $name, %1$s, %(count)d, %1,
# %name%, <%= name %>, {% if name %}, $t(name), @:name, :name, emoji as :name:, and the
# elements of XLIFF and of react-i18next. A space is no flag ("100% sure"), and the branches of a plural are text.
_VARIABLE: Final = (
    r"\{{2,3}[^{}\n]{1,100}\}{2,3}|\{%[^%{}\n]{1,100}%\}|\$t\([^()\n]{1,100}\)|(?<!\w)@:[\w.]{1,60}(?<!\.)"
    r"|[$%#]?\{ ?\$?[\w.:!,#+\[\]<>^-]{0,100} ?\}"
    r"|\{ ?\w{1,60}, ?(?:number|date|time|ordinal|spellout|duration)(?:, ?[^{}\n]{1,60})? ?\}"
    r"|%\(\w{1,60}\)[-+0#]*\d{0,3}(?:\.\d{1,2})?[a-zA-Z]"
    r"|(?<![\w%])(?:%(?:\d{1,2}\$)?[-+0#]*\d{0,3}(?:\.\d{1,2})?(?:hh?|ll?|[Lqjzt])?[sdiufFeEgGxXcpn@]){1,9}"
    r"(?![A-Za-z])"
    r"|(?<![\w%])%\d{1,2}(?![\w%])|%%(?!\w)|<%[=-]?[^<>%\n]{1,100}%>|(?<![\w$])\$[a-z_]\w{1,40}"
    r"|(?<![\w%])%[A-Za-z_]\w{0,60}%|(?<![^\s(\[\"'«“]):[A-Za-z][\w+-]{1,40}:?(?!\w)"
    r"|</?(?:x|g|ph|bx|ex|it|mrk|pc|sc|ec|bpt|ept)"
    r"(?:\s{1,9}[\w:-]{1,40}=(?:\"[^\"<>]{0,99}\"|'[^'<>]{0,99}'|[\w.-]{1,40})){0,9}\s?/?>"
    r"|</?\d{1,3}\s?/?>"
)
VERBATIM: Final = re.compile(f"{_ADDRESS}|{_VARIABLE}")
"""Web or e-mail address, without the punctuation of a sentence that it ends; or the name of a value."""


def _would_join(character: str) -> bool:
    return character.isascii() and character.isalnum()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Placeholder number `index` at [start, end) of a text."""

    index: int
    start: int
    end: int


class Placeholders:
    """Placeholders that do not occur in `text`."""

    def __init__(self, text: str) -> None:
        for prefix in self._prefixes():
            pattern = self._compile(prefix)
            if not pattern.search(text):
                self._prefix, self._pattern = prefix, pattern
                return

    @staticmethod
    def _prefixes() -> itertools.chain[str]:
        # A text can hold all of the short ones, never all of the long ones.
        return itertools.chain(_PREFIXES, (f"ZX{'QJ' * length}" for length in itertools.count(1)))

    @staticmethod
    def _compile(prefix: str) -> re.Pattern[str]:
        # Models change case, set a space, or write the digits of the other script.
        return re.compile(rf"(?<![A-Za-z0-9])(?i:{prefix})[ \u00a0-]?(\d{{1,{_DIGITS}}})(?![A-Za-z0-9])")

    def __getitem__(self, index: int) -> str:
        return f"{self._prefix}{index + 1}"

    def insert(self, index: int, before: str, after: str) -> str:
        """Return placeholder `index` with spaces that separate it from Latin letters and digits on both sides."""
        return " " * _would_join(before[-1:]) + self[index] + " " * _would_join(after[:1])

    def find(self, translation: str, count: int) -> list[Placeholder] | None:
        """Return the places of the `count` placeholders in the order of the text, or None unless each is there once."""
        places = [
            Placeholder(int(match.group(1)) - 1, match.start(), match.end())
            for match in self._pattern.finditer(translation)
        ]
        if sorted(place.index for place in places) != list(range(count)):
            return None
        return places

    def fill(self, text: str, values: Sequence[str]) -> str:
        """Return a text, such as a message to the user, with the value of each placeholder in its place."""
        numbered = dict(enumerate(values, 1))
        return self._pattern.sub(lambda match: numbered.get(int(match.group(1)), match.group()), text)

    def remove(self, translation: str) -> str:
        """Return the translation without its placeholders."""
        return self._pattern.sub(" ", translation)
