"""Where somebody speaks in a recording: which windows are read, and where their first words begin."""

from __future__ import annotations

from collections.abc import Sequence

from models.whisper.alignment import AlignedWord
from models.whisper.features import FRAMES_A_SECOND, HOP
from models.whisper.words import WindowSegment

_BEFORE = 30  # frames of a window before its first voice, and after its last
_REST = 20  # frames of a voice that are too few for a window of their own
_LETTERS = 25  # that are spoken in a second at most
_EARLY = 0.03  # seconds by which a word may begin before its voice is detected
_WORD = 0.2  # seconds of a word whose time nothing tells


class VoiceSpans:
    """Voices of a recording of `content` frames, which is read in windows of at most `window` frames.

    `spans` are those of samples, in their order. Without any, a voice may be everywhere.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], content: int, window: int) -> None:
        self._known = bool(spans)
        self._spans = [(start // HOP, -(-end // HOP)) for start, end in spans] or [(0, content)]
        self._content, self._window = content, window

    def begin(self, frame: int) -> int | None:
        """Return the frame, from `frame` on, at which the next window begins; None: nobody speaks any more."""
        if not self._known:
            return frame if frame < self._content else None
        for start, end in self._spans:
            if start >= frame or end - frame >= _REST:
                begin = max(frame, start - _BEFORE)
                return begin if begin < self._content else None  # a voice may end behind the recording
        return None

    def left(self, frame: int) -> int:
        """Return how many frames from `frame` on are read together: to a long pause, in which a model may stop."""
        ends = [*(start for start, _ in self._spans[1:]), self._content + self._window]
        for (_, end), following in zip(self._spans, ends, strict=True):
            if self._known and end > frame and following - end >= self._window // 5:
                return min(end + _BEFORE, self._content) - frame
        return self._content - frame

    def allow(self, text: str, size: int) -> bool:
        """Return whether a text can be spoken in `size` frames: models write whole sentences for a laugh."""
        return not self._known or len(text) <= _LETTERS * (size + _BEFORE) / FRAMES_A_SECOND

    def place(self, segments: Sequence[WindowSegment], seek: int, size: int) -> None:
        """Let segments and words of the window of `size` frames from `seek` on begin with a voice, not before it."""
        spans = [(start / FRAMES_A_SECOND - _EARLY, end / FRAMES_A_SECOND) for start, end in self._spans
                 if end > seek and start < seek + size]  # fmt: skip
        if not self._known or not spans:
            return
        first = max(spans[0][0], seek / FRAMES_A_SECOND)
        timed: list[WindowSegment | AlignedWord] = []
        for segment in segments:
            timed += segment.words or ([segment] if segment.tokens else [])
        later = min((one.start for one in timed if one.start >= first), default=first + _WORD)
        for one in timed:
            if one.start < first:
                one.start = round(first, 2)
                one.end = max(one.end, round(min(later, first + _WORD), 2))
            else:
                voice = next((start for start, end in spans if end > one.start), one.start)
                one.start = round(voice, 2) if one.start < voice < one.end else one.start
        for segment in segments:
            if segment.words:
                segment.start, segment.end = segment.words[0].start, max(segment.end, segment.words[-1].end)
