"""Text of a document that is spoken in one manner, while it is read. Whole sentences leave it as passages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from app.text.marks import Mark, hide
from app.text.places import Places, SourceSpan
from app.text.sentence_buffer import SentenceBuffer
from app.text.types import Bookmark, Reading, Script, Style, TextSpan


@dataclass(frozen=True, slots=True)
class SsmlPassage:
    """Text to speak, and its script. Characters [start, end) of the document end with it."""

    text: str
    script: Script
    start: int
    end: int


class Run:
    """Text of one speaker. Sentences are cut as in plain text, but never within a reading.

    `pause` is the silence in seconds that is due before the next passage, and `gap` that between two paragraphs (None:
    the stream's choice), which an explicit pause replaces. A passage in which the style changes is spoken in that of
    most of it; `mixed`: one was. `source`: as in Script.
    """

    def __init__(self, language: str, source: str | None = None) -> None:
        self.mixed = False
        self._source = source
        self._manners = [(0, Style())]  # a style, and the character from which on it holds
        self.pause = 0.0
        self.gap: float | None = 0.0
        self._buffer = SentenceBuffer(language)
        self._text = ""
        self._places: list[SourceSpan] = []
        self._readings: list[Reading] = []
        self._spans: list[TextSpan] = []
        self._bookmarks: list[Bookmark] = []
        self._fed = 0  # characters that the buffer has
        self._ahead = 0  # characters that were taken before the buffer gave them out
        self._end = 0  # end of the last passage in the document

    @property
    def style(self) -> Style:
        """Style of the text that comes next."""
        return self._manners[-1][1]

    @style.setter
    def style(self, style: Style) -> None:
        if self._manners[-1][0] == len(self._text):
            self._manners.pop()
        self._manners.append((len(self._text), style))

    @property
    def length(self) -> int:
        """Characters of the text so far."""
        return len(self._text)

    @property
    def ends_with_space(self) -> bool:
        """Whether more white space would change nothing."""
        return not self._text or self._text[-1].isspace()

    def text_from(self, position: int) -> str:
        """Return the text from `position` on."""
        return self._text[position:]

    def add(self, text: str, start: int, end: int) -> None:
        """Add text that stands for characters [start, end) of the document."""
        if not text:
            return
        if self._places:
            last = self._places[-1]
            exact = last.length == last.end - last.start and len(text) == end - start
            if exact and last.end == start:
                self._places[-1] = SourceSpan(last.position, last.length + len(text), last.start, end)
                self._text += text
                return
        self._places.append(SourceSpan(len(self._text), len(text), start, end))
        self._text += text

    def reword(self, position: int, words: str) -> None:
        """Put `words` in the place of the text from `position` on."""
        if position < len(self._text):
            places = Places(self._places)
            place = SourceSpan(position, len(words), places.start(position), places.end(len(self._text)))
            self._places = [_clipped(each, position) for each in self._places if each.position < position] + [place]
            self._text = self._text[:position] + words
            self._bookmarks = [replace(each, position=min(each.position, len(self._text))) for each in self._bookmarks]

    def read(self, reading: Reading) -> None:
        """Have characters of the text read in another way."""
        self._readings.append(reading)

    def span(self, span: TextSpan) -> None:
        """Note another language or stress, from where the last span of its kind ended."""
        last = self._spans[-1] if self._spans else None
        if last is not None and last.end == span.start and replace(last, start=span.start, end=span.end) == span:
            self._spans[-1] = replace(last, end=span.end)
            return
        self._spans.append(span)

    def mark(self, name: str) -> None:
        """Put a bookmark at the end of the text."""
        self._bookmarks.append(Bookmark(name, len(self._text)))

    def sentences(self) -> list[SsmlPassage]:
        """Return the sentences that the text completes."""
        # Square brackets are text, which the buffer must not take for marks.
        marked: list[Mark] = list(self._readings)
        hidden = hide(self._text, marked).replace("[", "(").replace("]", ")").replace("<", " ").replace("\\", " ")
        fragment, self._fed = hidden[self._fed :], len(hidden)
        return self._cut([len(sentence) for sentence in self._buffer.feed(fragment)])

    def finish(self) -> list[SsmlPassage]:
        """End the text: return the rest of it."""
        passages = self.sentences()
        passages += self._cut([len(sentence) for sentence in self._buffer.flush()])
        self._ahead = self._fed = 0
        if self._bookmarks:
            passages += self._cut([0])
        return passages

    def close(self) -> list[SsmlPassage]:
        """End the document: return the rest of it, and a passage without text for a pause that nothing follows."""
        passages = self.finish()
        if self.pause:
            passages.append(SsmlPassage("", Script(Places(), self.style, self.pause), self._end, self._end))
        self.pause = 0.0
        return passages

    def _cut(self, lengths: list[int]) -> list[SsmlPassage]:
        passages: list[SsmlPassage] = []
        for length in lengths:
            count = length - self._ahead
            self._ahead = max(0, -count)
            if count <= 0 < length:
                continue
            inside = next((each.end for each in self._readings if each.start < count < each.end), count)
            self._ahead += inside - count  # a reading longer than any sentence
            if (passage := self._take(inside)) is not None:
                passages.append(passage)
        return passages

    def _take(self, count: int) -> SsmlPassage | None:
        """Remove the first `count` characters, and return them unless they are blank."""
        text, self._text = self._text[:count], self._text[count:]
        style = self._style_of(text)
        everything = not self._text
        self._fed -= count
        readings = [each for each in self._readings if each.start < count]
        spans = [replace(each, end=min(each.end, count)) for each in self._spans if each.start < count]
        marks = list(takewhile(lambda each: everything or each.position < count, self._bookmarks))
        places = [each for each in self._places if each.position < count]
        parts = tuple(_clipped(each, count) for each in places)
        self._readings = [_moved(each, count) for each in self._readings[len(readings) :]]
        self._spans = [
            replace(each, start=max(0, each.start - count), end=each.end - count)
            for each in self._spans
            if each.end > count
        ]
        self._bookmarks = [replace(each, position=each.position - count) for each in self._bookmarks[len(marks) :]]
        self._places = [_rest(each, count) for each in self._places if each.position + each.length > count]
        if not text.strip() and not marks:
            return None
        start, self._end = self._end, max(self._end, parts[-1].end if parts else 0)
        pause, self.pause, self.gap = self.pause or self.gap, 0.0, 0.0
        script = Script(Places(parts), style, pause, tuple(readings), tuple(spans), tuple(marks), self._source)
        return SsmlPassage(text, script, start, self._end)

    def _style_of(self, text: str) -> Style:
        """Return the style of `text`, which was removed from the beginning, and forget those that ended in it."""
        manners = self._manners
        begun = [style for position, style in manners if position <= len(text)]
        self._manners = [(0, begun[-1])] + [(at - len(text), style) for at, style in manners[len(begun) :]]
        if len(manners) == 1:
            return begun[0]
        spoken = dict.fromkeys(begun, 0)
        for (start, style), (end, _) in pairwise([*manners, (len(text), begun[-1])]):
            spoken[style] = spoken.get(style, 0) + sum(map(str.isalnum, text[start:end]))
        self.mixed = self.mixed or sum(map(bool, spoken.values())) > 1
        return max(spoken, key=lambda style: spoken[style])


def _clipped(place: SourceSpan, count: int) -> SourceSpan:
    over = place.position + place.length - count
    if over <= 0:
        return place
    exact = place.length == place.end - place.start
    return place._replace(length=place.length - over, end=place.end - over if exact else place.end)


def _rest(place: SourceSpan, count: int) -> SourceSpan:
    over = count - place.position
    if over <= 0:
        return place._replace(position=-over)
    exact = place.length == place.end - place.start
    return SourceSpan(0, place.length - over, place.start + over if exact else place.start, place.end)


def _moved(reading: Reading, count: int) -> Reading:
    return replace(
        reading,
        start=reading.start - count,
        end=reading.end - count,
        word_start=reading.word_start - count,
        word_end=reading.word_end - count,
    )
