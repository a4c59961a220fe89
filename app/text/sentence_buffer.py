"""Buffer that cuts sentences from text that arrives in fragments."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from app.errors import MarkupError
from app.text import marks
from app.text.languages import primary_language
from app.text.sentence_splitter import ABBREVIATIONS, MAX_SENTENCE_CHARACTERS, best_cut, sentences

# A sentence end that the next word cannot undo: no abbreviation, initial or number is before the stop. It matches the
# reversed text, so that the time does not depend on the length.
_CERTAIN_END: Final = re.compile(
    r"\s*+[\"'”’)\]»」』]*+(?:[!?。！？।…፧።។៕؟۔]|\.(?=[^\W\d_]{3}[^\W\d_]*?[^\W\d_A-Z])[^\W\d_]++(?![.\w]))"
)
_LAST_WORD: Final = re.compile(r"\W*+([^\W\d_]++)")
# A beginning that no abbreviation takes for its own next word.
_NEXT: Final = " Xavier went."
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*+\n\s*+")
_VISIBLE: Final = re.compile(r"\S")
_WHOLE_WORD: Final = re.compile(r"\W*+\w++\W")


class SentenceBuffer:
    """Buffer of text that holds a sentence until it is complete.

    All text comes out exactly once and unchanged: the sentences joined equal the fragments joined. At most `limit`
    characters are held back. `language` is a BCP-47 tag or FLORES-200 code. Unknown languages are cut as English.
    """

    def __init__(self, language: str = "en-us", *, limit: int = MAX_SENTENCE_CHARACTERS) -> None:
        self._language = primary_language(language)
        self._limit = limit
        self._held = ""

    def feed(self, fragment: str) -> list[str]:
        """Add a fragment. Return the sentences that it completes, with the white space after them."""
        self._held += fragment
        done: list[str] = []
        while len(self._held) > 2 * self._limit:  # cut a long fragment in windows
            taken = self._take(self._held[: 2 * self._limit])
            self._held = self._held[sum(map(len, taken)) :]
            done += taken or [self._cut()]
        taken = self._take(self._held)
        done += taken
        self._held = self._held[sum(map(len, taken)) :]
        while len(self._held) > self._limit:
            done.append(self._cut())
        return done

    def _cut(self) -> str:
        """Remove and return the beginning of text that is too long for a sentence."""
        _, end, inside = _view(self._held[: 2 * self._limit])
        stop = min(end or self._limit, self._limit)
        return self.take(_outside(inside, best_cut(self._held, 0, stop, stop)))

    def flush(self) -> list[str]:
        """Empty the buffer and return its text, cut into sentences; the last one may be incomplete."""
        held, self._held = self._held, ""
        if not held:
            return []
        if not held.strip():
            return [held]
        view, _, inside = _view(held)
        cuts = {_outside(inside, cut) for _, cut in sentences(view, 0, len(view), self._language)}
        return [held[start:end] for start, end in pairwise([0, *sorted(cuts)])]

    def take(self, count: int) -> str:
        """Remove and return the first `count` characters of the buffer."""
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    def ends_sentence(self) -> bool:
        """Return whether the buffer holds only complete sentences, if a new one began now."""
        text = self._held.rstrip()
        if _is_certain(text):
            return True
        return bool(text) and sum(map(len, self._take(text + _NEXT))) >= len(text)

    @property
    def held(self) -> str:
        """Text of the sentence that is not complete."""
        return self._held

    def _take(self, text: str) -> list[str]:
        """Return the complete sentences at the start of `text`."""
        view, end, inside = _view(text)
        view = view[:end]
        # Without the white space at the end, which may go on.
        paragraph_ends = [match.end() for match in _PARAGRAPH.finditer(view, 0, len(view.rstrip()))]
        done: list[str] = []
        position = 0
        bounds = [0, *paragraph_ends, len(view)]
        between = frozenset(paragraph_ends)
        for start, end in pairwise(bounds):
            for _, found in sentences(view, start, end, self._language):
                cut = _outside(inside, found)
                if cut == len(view) or not view[position:cut].strip():
                    continue
                if cut - position >= self._limit - 1 or cut in between or _is_settled(view, position, cut):
                    done.append(text[position:cut])
                    position = cut
        return done


def _is_settled(view: str, start: int, cut: int) -> bool:
    """Return whether the text after the cut shows that a sentence ended there."""
    if _VISIBLE.search(view, cut) is None:
        return False
    if _is_certain(view[start:cut]):
        return True
    # "the U.S. A" may go on as "Army": wait for the whole word.
    return _WHOLE_WORD.match(view, cut) is not None


def _is_certain(sentence: str) -> bool:
    backwards = sentence[::-1]
    if _CERTAIN_END.match(backwards) is None:
        return False
    last = _LAST_WORD.match(backwards)
    return last is None or last.group(1)[::-1].lower() not in ABBREVIATIONS


def _view(text: str) -> tuple[str, int, frozenset[int]]:
    """Return a text whose marks are hidden, the start of one that it has only begun, and the places inside of marks."""
    end = marks.unfinished(text)
    try:
        result = marks.parse(text[:end])
    except MarkupError:
        result = []  # reported when the text is spoken
    return marks.hide(text, result), end, frozenset(at for mark in result for at in range(mark.start + 1, mark.end))


def _outside(inside: frozenset[int], cut: int) -> int:
    """Return the first place from `cut` on that is inside of no mark."""
    while cut in inside:
        cut += 1
    return cut
