"""Words in their segments: punctuation, and lengths that cannot be.

Rules and numbers from openai-whisper's timing.py and transcribe.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from models.whisper.alignment import AlignedWord

_BEFORE = "\"'“¿([{-"  # punctuation that belongs to the next word
_AFTER = "\"'.。,，!！?？:：”)]}、"
_SENTENCE_END = ".。!！?？"
_MAX_MEDIAN_SECONDS = 0.7  # seconds
_LOOSE = 0.5  # seconds by which a word may leave its segment before it is cut


@dataclass(slots=True)
class WindowSegment:
    """Passage of a window: times in seconds from the recording's start, tokens with timestamps, words.

    `logprobs` are those of the tokens.
    """

    start: float
    end: float
    tokens: list[int]
    logprobs: list[float] = field(default_factory=list)
    words: list[AlignedWord] = field(default_factory=list)


def merge_punctuation(words: Sequence[AlignedWord]) -> None:
    """Move punctuation to the word that it belongs to; the words that lose it become empty."""
    following = len(words) - 1
    for at in range(len(words) - 2, -1, -1):
        previous = words[at]
        if previous.word.startswith(" ") and previous.word.strip() in _BEFORE:
            words[following].word = previous.word + words[following].word
            words[following].tokens = previous.tokens + words[following].tokens
            previous.word, previous.tokens = "", []
        else:
            following = at
    previous_at = 0
    for at in range(1, len(words)):
        previous, mark = words[previous_at], words[at]
        if not previous.word.endswith(" ") and mark.word in _AFTER:
            previous.word += mark.word
            previous.tokens = previous.tokens + mark.tokens
            mark.word, mark.tokens = "", []
        else:
            previous_at = at


def add_words(
    segments: Sequence[WindowSegment], words: Sequence[AlignedWord], offset: float, last_speech: float, end: int
) -> None:
    """Share out `words`, with times from the window's start, among the segments of the window.

    Args:
        segments: Of one window; their times then follow their words.
        words: Of all segments' text.
        offset: Seconds at which the window begins.
        last_speech: Seconds at which the last word before the window ends.
        end: The end's token; text tokens lie below.
    """
    durations = np.array([word.end - word.start for word in words])
    durations = durations[durations.nonzero()]
    median = min(_MAX_MEDIAN_SECONDS, float(np.median(durations)) if len(durations) else 0.0)
    if len(durations):
        _cut_sentence_ends(words, 2 * median)
    merge_punctuation(words)
    at = 0
    for segment in segments:
        wanted, seen = sum(token < end for token in segment.tokens), 0
        segment.words = []
        while at < len(words) and seen < wanted:
            word = words[at]
            if word.word:
                start, stop = round(offset + word.start, 2), round(offset + word.end, 2)
                heard = offset + word.heard
                segment.words.append(AlignedWord(word.word, word.tokens, start, stop, word.probability, heard))
            seen += len(word.tokens)
            at += 1
        if segment.words:
            _fit(segment, median, last_speech)
            last_speech = segment.end


def sentences(words: list[AlignedWord], logprobs: Sequence[float], offset: float, *, keep: bool) -> list[WindowSegment]:
    """Return a segment for each sentence of a window whose tokens have no timestamps.

    Args:
        words: Of all its tokens, with times from the window's start.
        logprobs: Of these tokens.
        offset: Seconds at which the window begins.
        keep: Keep the words in the segments.
    """
    merge_punctuation(words)
    found: list[WindowSegment] = []
    at, ended = 0, True
    for word in words:
        if not word.word:
            continue
        start, stop = round(offset + word.start, 2), round(offset + word.end, 2)
        if ended:
            found.append(WindowSegment(start, stop, []))
        segment = found[-1]
        segment.end = stop
        segment.tokens += word.tokens
        segment.logprobs += logprobs[at : at + len(word.tokens)]
        if keep:
            segment.words.append(AlignedWord(word.word, word.tokens, start, stop, word.probability))
        at += len(word.tokens)
        ended = word.word[-1] in _SENTENCE_END
    return found


def _cut_sentence_ends(words: Sequence[AlignedWord], longest: float) -> None:
    """Bound the length of marks that end sentences, and of the words after them."""
    for before, word in pairwise(words):
        if word.end - word.start > longest:
            if word.word in _SENTENCE_END:
                word.end = word.start + longest
            elif before.word in _SENTENCE_END:
                word.start = word.end - longest


def _fit(segment: WindowSegment, median: float, last_speech: float) -> None:
    """Bound the words after a pause, and let words and segment agree on their ends."""
    words, longest = segment.words, 2 * median
    first, last = words[0], words[-1]
    second = words[1] if len(words) > 1 else None
    after_pause = first.end - last_speech > median * 4
    long = first.end - first.start > longest or (second is not None and second.end - first.start > longest * 2)
    if after_pause and long:
        if second is not None and second.end - second.start > longest:
            first.end = second.start = max(second.end / 2, second.end - longest)
        first.start = max(0, first.end - longest)
    if segment.start < first.end and segment.start - _LOOSE > first.start:
        first.start = max(0, min(first.end - median, segment.start))
    else:
        segment.start = first.start
    if segment.end > last.start and segment.end + _LOOSE < last.end:
        last.end = max(last.start + median, segment.end)
    else:
        segment.end = last.end


def last_word_end(segments: Sequence[WindowSegment]) -> float | None:
    """Return the end of the last word, or of the last segment if there are no words; None without segments."""
    for segment in reversed(segments):
        if segment.words:
            return segment.words[-1].end
    return segments[-1].end if segments else None
