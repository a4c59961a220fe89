"""Cutter of the first clause of a stream, so that speech begins before the sentence has ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from app.text.languages import primary_language

# Languages with the verb last. A first clause cannot be translated between them and other languages.
_VERB_LAST_CODES: Final = """
    ja ko tr hi az uz kk ky tk tt ba ug mn ne mr gu pa bn as or ta te kn ml si ur sd ks mai bho awa mag hne sa fa ps ku
    ckb tg am ti om so my bo dz eu mni sat kac lus shn crh
"""
_VERB_LAST: Final = frozenset(_VERB_LAST_CODES.split())
# Languages whose subordinate clauses stand between commas, with the verb last.
_VERB_LAST_BEHIND_COMMAS: Final = frozenset(("de", "nl", "af", "lb", "li"))
_UNSPACED: Final = frozenset(("zh", "yue", "ja", "th", "lo", "km", "my", "shn", "bo", "dz"))
WITHOUT_STOPS: Final = frozenset(("th", "lo"))
"""Languages with only a space between sentences."""

_CLOSERS: Final = "[\"'”’»)\\]]*"
_STRONG: Final = rf"[;:؛፤፥·]{_CLOSERS}(?=\s)|[；：]|(?<=\S)[^\S\n]+[-–—]+(?=[^\S\n]+[^\W\d])|(?<=\w)—(?=[^\W\d])"
_WEAK: Final = rf"(?<!\.)[,،፣]{_CLOSERS}(?=\s)|[，、၊]"
_SPACE: Final = r"(?<=\S)(?=\s)"
_BLANK: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"\S+")
_LETTER: Final = re.compile(r"\w")
_LINK: Final = re.compile(r"://|^www\.|@", re.IGNORECASE)
_CODE: Final = re.compile(r"```.*?```|(?<!`)`(?!`)[^`]*`", re.DOTALL)
_OPEN_TAG: Final = re.compile(r"<[/!a-zA-Z][^<>]*$")
TRIES: Final = 32
"""Most places of a text that are tried as a cut, so that time is linear."""
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "（": "）", "「": "」", "『": "』", "《": "》", "【": "】"}
_CLOSING: Final = frozenset(_BRACKETS.values())


@dataclass(frozen=True, slots=True)
class ClauseCutter:
    """Cutter of a first clause, at a separator after `words` or `characters`, else at a space after `forced` words."""

    separators: re.Pattern[str] | None
    spaced: bool
    words: int
    characters: int
    forced: int

    @classmethod
    def between(cls, language: str, target: str | None, *, words: int, characters: int, forced: int) -> ClauseCutter:
        """Return the cutter for speech in `language`, or for translation to `target`. Some pairs allow fewer cuts."""
        source = primary_language(language)
        into = primary_language(target) if target is not None else source
        separators: str | None = f"{_STRONG}|{_WEAK}"
        if source != into:
            if (source in _VERB_LAST) != (into in _VERB_LAST):
                separators, forced = None, 0
            elif {source, into} & _VERB_LAST_BEHIND_COMMAS:
                separators, forced = _STRONG, 0
        if separators is not None and source in WITHOUT_STOPS:
            separators += f"|{_SPACE}"
        spaced = source not in _UNSPACED
        # Without spaces words cannot be counted, and a character stands for about two.
        return cls(
            re.compile(separators) if separators is not None else None,
            spaced,
            words,
            characters if spaced else -(-characters // 2),
            forced if spaced else 0,
        )

    def find(self, text: str, *, forced: bool = True) -> int:
        """Return the length of the first clause of `text` with the white space after it, or 0 if there is none yet.

        A cut needs the character after it, so it is never at the end of `text`.
        """
        if self.separators is None:
            return 0
        ends = (match.end() for match in self.separators.finditer(text))
        long = (end for end in ends if end < len(text) and self.suffices(text[:end]))
        for position in islice(long, TRIES):
            if _is_free(text, position):
                return _past_blank(text, position)
        if forced and self.forced:
            for position in islice(self._word_ends(text), TRIES):
                if _is_free(text, position):
                    return _past_blank(text, position)
        return 0

    def is_long(self, text: str) -> bool:
        """Return whether a whole sentence has more words than the limit of a forced cut."""
        return bool(self.forced) and count_words(text) > self.forced

    def suffices(self, clause: str) -> bool:
        """Return whether a clause is long enough to be spoken by itself."""
        return len(clause.strip()) >= self.characters or (self.spaced and count_words(clause) >= self.words)

    def _word_ends(self, text: str) -> Iterator[int]:
        """Yield the ends of words before a space, from number `forced` on, without numbers and abbreviations."""
        words = (match for match in _WORD.finditer(text) if _LETTER.search(match.group()))
        for number, match in enumerate(words, 1):
            after = text[match.end() : match.end() + 2]
            if number < self.forced or len(after) < 2 or not after[0].isspace():
                continue
            if text[match.end() - 1] != "." and not text[match.end() - 1].isdigit() and not after[1].isdigit():
                yield match.end()


def count_words(text: str) -> int:
    """Return the number of words. A word has a letter or digit."""
    return sum(1 for word in text.split() if _LETTER.search(word))


def is_open(text: str) -> bool:
    """Return whether code, emphasis, a tag or a bracket is open at the end of `text`."""
    prose = _CODE.sub("", text)  # marks inside code do not count
    if "`" in prose or prose.count("**") % 2 or prose.count("__") % 2 or _OPEN_TAG.search(prose):
        return True
    waiting: list[str] = []
    for character in prose:
        if character in _BRACKETS:
            waiting.append(_BRACKETS[character])
        elif character in _CLOSING and character in waiting:
            del waiting[waiting.index(character) :]
    return bool(waiting)


def in_link(text: str) -> bool:
    """Return whether the last word of `text` is an address that may go on."""
    if not text or text[-1].isspace():
        return False
    return _LINK.search(text.rsplit(maxsplit=1)[-1].lstrip("(<[\"'")) is not None


def _is_free(text: str, position: int) -> bool:
    before, blank = text[:position], text[position : position + 1].isspace()
    return not is_open(before) and (blank or not in_link(before))


def _past_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match is not None else position
