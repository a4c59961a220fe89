"""Finder of written forms: numbers, dates, times, money, units, ordinals, Roman numerals and abbreviations.

A language has a list of rules in order. One regular expression joins the patterns of the list, so that a text is read
in one pass: at each place the first rule that matches reads the form. The lists are the tables `german_rules.tsv` and
`romance_rules.tsv`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.text.word_sets import read_rules
from app.text.written.language import LanguageWords

_GROUP: Final = re.compile(r"\(\?(P<|P=|\()(\w+)")
_NEARBY: Final = 40
"""Characters on either side of a form that may decide its reading."""

Spoken = tuple[int, int, str]
"""First and last place of a form, and its words."""
Reading = str | Spoken | None
"""Words of a whole match, or of a part of it; None if the form is not read after all."""


class Match:
    """Text that the pattern of one rule matched. `match["hours"]` is the text of a group, None if it has none."""

    __slots__ = ("_match", "_prefix", "end", "start", "string", "text")

    def __init__(self, match: re.Match[str], rule: str) -> None:
        self._match, self._prefix = match, f"{rule}__"
        self.start, self.end = match.span()
        self.string, self.text = match.string, match.group()

    def __getitem__(self, group: str) -> Any:
        return self._match[self._prefix + group]

    def start_of(self, group: str) -> int:
        """Return the first place of a group."""
        return self._match.start(self._prefix + group)

    def end_of(self, group: str) -> int:
        """Return the last place of a group."""
        return self._match.end(self._prefix + group)

    @property
    def before(self) -> str:
        """The text shortly before the form."""
        return self.string[max(0, self.start - _NEARBY) : self.start]

    @property
    def after(self) -> str:
        """The text shortly after the form."""
        return self.string[self.end : self.end + _NEARBY]

    @property
    def word_before(self) -> str:
        """The text between spaces before the form, or ""."""
        words = self.string[: self.start].split()[-1:]
        return words[0] if words else ""

    @property
    def is_last(self) -> bool:
        """Whether only spaces follow."""
        return not self.string[self.end :].strip()

    def but_last_stop(self, words: str) -> Spoken:
        """Return `words` for the form without a full stop at the end of the text: it ends the sentence, too."""
        return self.start, self.end - (self.text.endswith(".") and self.is_last), words


Read = Callable[[Match, LanguageWords], Reading]
"""Function that returns the words of a form."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of written form: its name, the pattern that finds it, and the function that reads it.

    A group of the pattern is named for what it holds; two rules may have groups of the same name.
    """

    name: str
    pattern: str
    read: Read


class WrittenForms:
    """Written forms of one language. Methods are safe on any thread.

    `start` is an expression of the places where a form may begin.
    """

    def __init__(self, language: LanguageWords, rules: Sequence[Rule], start: str = "") -> None:
        self._language = language
        self._readers = {rule.name: rule.read for rule in rules}
        joined = "|".join(f"(?P<{rule.name}>{_own_groups(rule)})" for rule in rules)
        self._finder = re.compile(f"{start}(?:{joined})")

    def find(self, text: str) -> Iterator[Spoken]:
        """Yield the forms in `text`, in order. Takes time in proportion to its length."""
        for match in self._finder.finditer(text):
            rule = match.lastgroup or ""
            reading = self._readers[rule](Match(match, rule), self._language)
            if reading is not None:
                yield reading if isinstance(reading, tuple) else (match.start(), match.end(), reading)


def _own_groups(rule: Rule) -> str:
    """Return the pattern of a rule whose groups begin with its name, so that they are unique in a joined expression."""
    return _GROUP.sub(rf"(?\g<1>{rule.name}__\g<2>", rule.pattern)


def load_rules(language: LanguageWords, readers: Mapping[str, Read]) -> list[Rule]:
    """Return the rules of a language, in order, from the table beside this module.

    Columns of the table are the name of the rule, its reader, the languages that have it, or "-" for all of the table,
    and the pattern, which goes on in rows without a name. The reader is a name of `readers`, or of a word that is said
    for the form. Names in braces in the pattern stand for parts of the language: "{units}".
    """
    table = "german" if language.tag == "de" else "romance"
    return [
        Rule(name, language.expand(pattern), readers.get(reader) or _read_word(language.words[reader]))
        for name, reader, tags, pattern in read_rules(Path(__file__).with_name(f"{table}_rules.tsv"))
        if tags == "-" or language.tag in tags.split(",")
    ]


def _read_word(word: str) -> Read:
    return lambda match, language: word
