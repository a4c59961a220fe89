"""Policies of live recognition: which words of a hypothesis are final.

A hypothesis is what a recognizer makes of the audio so far. It is compared word by word; in languages without spaces,
character by character. Case and marks do not count, but a word is taken as it was written last.

- LocalAgreement-2 (arXiv:2307.14743): words on which two hypotheses in a row agree. It takes any recognizer.
- AlignAtt (arXiv:2305.11408): words that the recognizer wrote while it listened to audio that is not the newest. It
  asks for one hypothesis less, and for a model whose attention follows the audio.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, Literal

from models.contract import RecognizedSegment, RecognizedWord

# Scripts that are written without spaces: Thai, Lao, Burmese, Khmer, kana and Chinese characters.
_DENSE: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# A dense character with the marks that follow it, or a word; with the space before it.
_WORD: Final = re.compile(rf"\s*(?:[{_DENSE}](?:(?!\s|\w).)*|(?:(?![{_DENSE}])\S)+)(?:\s+$)?")
_DENSE_END: Final = re.compile(rf"[{_DENSE}](?:(?!\s|\w).)*$")
_MARKS: Final = re.compile(r"\W+")

Words = list[RecognizedWord]
PolicyName = Literal["agreement", "attention"]
# Seconds of the newest audio: a word to which they belong may go on. Seconds that attention may go back.
NEWEST: Final = 0.3
REWIND: Final = 4.0


class Policy(ABC):
    """Text of the audio in a buffer: `agreed` words, which never change, and `pending` ones after them.

    `continues`: hypotheses must begin with the agreed words, and tell to what the recognizer listened.
    """

    continues: ClassVar[bool] = False

    def __init__(self) -> None:
        self.agreed: Words = []
        self.pending: Words = []

    def push(self, words: Sequence[RecognizedWord], until: float) -> None:
        """Take the hypothesis of the audio so far, which ends at second `until`."""
        new = self.beyond(words)
        count = self.certain(new, until)
        self.agreed += new[:count]
        self.pending = new[count:]

    @abstractmethod
    def certain(self, new: Words, until: float) -> int:
        """Return how many words after the agreed ones are final."""

    def beyond(self, words: Sequence[RecognizedWord]) -> Words:
        """Return the words of a hypothesis that come after the agreed ones."""
        return list(words[self.place(len(self.agreed), words) :])

    def place(self, count: int, words: Sequence[RecognizedWord]) -> int:
        """Return how many words of a hypothesis are another form of the first `count` agreed ones."""
        return _aligned([key(word) for word in self.agreed[:count]], [key(word) for word in words])

    def cut(self, count: int) -> Words:
        """Remove and return the first `count` words: their audio leaves the buffer."""
        words = self.agreed + self.pending
        gone, self.agreed = words[:count], self.agreed[count:]
        self.pending = words[max(count, len(words) - len(self.pending)) :]
        return gone


class LocalAgreement(Policy):
    """Policy of LocalAgreement-2."""

    def certain(self, new: Words, until: float) -> int:
        """Return how many words the last hypothesis has, too."""
        return _common(self.pending, new)


class AlignAtt(Policy):
    """Policy of AlignAtt."""

    continues = True

    def certain(self, new: Words, until: float) -> int:
        """Return how many words were heard before the newest audio, in their order; the last may be half a word."""
        before = 0.0
        for count, word in enumerate(new[:-1]):
            if word.heard is None or word.heard > until - NEWEST or word.heard < before - REWIND:
                return count
            before = word.heard
        return max(0, len(new) - 1)


POLICIES: Final[dict[PolicyName, type[Policy]]] = {"agreement": LocalAgreement, "attention": AlignAtt}


def words_of(segments: Iterable[RecognizedSegment]) -> Iterator[RecognizedWord]:
    """Yield the words to compare. One whose time the recognizer did not tell has its share of the segment's."""
    for segment in segments:
        if not segment.text:
            continue
        timed: Sequence[RecognizedWord] = segment.words
        if "".join(word.text for word in timed) != segment.text:
            timed = (RecognizedWord(segment.text, segment.start, segment.end, 1.0),)
        times = [(time, word) for word in timed for time in _spread(word)]
        times.append((segment.end if timed is not segment.words else timed[-1].end, timed[-1]))
        for match in _WORD.finditer(segment.text):
            begin = match.end() - len(match[0].lstrip())
            word = times[match.end() - 1][1]
            # At the end of a word, not at the beginning of the next: there may be a pause between the two.
            last = times[match.end()][1] is not word
            yield RecognizedWord(
                match[0], times[begin][0], word.end if last else times[match.end()][0], word.probability, word.heard
            )


def _spread(word: RecognizedWord) -> Iterator[float]:
    """Yield the time of each character: spaces before the word take none."""
    space = len(word.text) - len(word.text.lstrip())
    share = (word.end - word.start) / max(1, len(word.text) - space)
    for place in range(len(word.text)):
        yield word.start + share * max(0, place - space)


def join(words: Iterable[RecognizedWord]) -> str:
    """Return the text of words, which may come from several hypotheses."""
    text = ""
    for word in words:
        apart = text and not (word.text[0].isspace() or _DENSE_END.search(text) or _DENSE_END.match(word.text[0]))
        text += f" {word.text}" if apart else word.text
    return text.strip()


def key(word: RecognizedWord) -> str:
    """Return what two equal words have in common; marks alone stand for themselves."""
    return _MARKS.sub("", word.text).casefold() or word.text.strip()


def _common(old: Sequence[RecognizedWord], new: Sequence[RecognizedWord]) -> int:
    """Return how many words both begin with. The last must have equal marks: the end of audio invents a full stop."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if key(one) != key(other):
            break
        count += 1
    while count and old[count - 1].text.strip().casefold() != new[count - 1].text.strip().casefold():
        count -= 1
    return count


def _aligned(agreed: Sequence[str], words: Sequence[str]) -> int:
    """Return how many of `words` are another form of `agreed`: the prefix of the least edit distance."""
    if list(words[: len(agreed)]) == list(agreed):
        return len(agreed)
    row = list(range(len(words) + 1))
    for done, word in enumerate(agreed, 1):
        before, row[0] = row[0], done
        for place, other in enumerate(words, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != other))

    def distance(place: int) -> tuple[int, bool, int]:
        # Of equal ones that which ends with the same word.
        other_end = not (place and agreed) or words[place - 1] != agreed[-1]
        return row[place], other_end, abs(place - len(agreed))

    return min(range(len(row)), key=distance)
