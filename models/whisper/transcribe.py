"""A whole recording, window by window: where the next begins, what it is told of the last, what is left out.

Follows openai-whisper's `transcribe`, frame by frame and token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from models.whisper.alignment import AlignedWord
from models.whisper.decoding import Decoded, DecodingOptions, Thresholds, decode_with_fallback
from models.whisper.features import FRAMES_A_SECOND
from models.whisper.text import TIMESTAMP_SECONDS, WhisperTokenizer
from models.whisper.voices import VoiceSpans
from models.whisper.words import WindowSegment, add_words, last_word_end, sentences

_FRAMES_A_TIMESTAMP = 2
_WARM = 0.5  # temperature above which a transcript is no prompt for the next window


class WindowModel(Protocol):
    """Encoder and decoder of one recording."""

    def hear(self, seek: int, size: int) -> Iterator[None]:
        """Encode the window of `size` frames from `seek` on, for `decode` and `align`."""
        ...

    def decode(self, options: DecodingOptions) -> Generator[None, None, Decoded]:
        """Decode the window."""
        ...

    def punctuate(self, found: Decoded, options: DecodingOptions, size: int) -> Generator[None, None, Decoded]:
        """Return the transcript with the marks that the tune of the window's `size` frames asks for."""
        ...

    def align(self, tokens: Sequence[int], size: int) -> list[AlignedWord]:
        """Return the words of text `tokens` in the window's `size` frames."""
        ...


@dataclass(frozen=True, slots=True)
class TranscriptionOptions:
    """Options of a recording. `decoding` holds those of each window; its temperature and prompt are set here.

    `temperatures` are tried in their order. `previous_text`: the text of earlier windows is a prompt. `word_times`: the
    words have their times. `prosody`: the tune of the speech weighs its marks again.
    """

    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    thresholds: Thresholds = field(default_factory=Thresholds)
    previous_text: bool = True
    word_times: bool = False
    prosody: bool = False


@dataclass(frozen=True, slots=True)
class WindowTranscript:
    """Segments of the window that began at frame `seek`, and how they were decoded."""

    seek: int
    segments: Sequence[WindowSegment]
    decoded: Decoded


@dataclass(frozen=True, slots=True)
class Cut:
    """Segments of a window, the frames to the next window, and whether speech ends with the last timestamp."""

    segments: list[WindowSegment]
    advance: int
    ends_with_speech: bool


def cut_segments(found: Decoded, first_timestamp: int, seek: int, size: int) -> Cut:
    """Split a window's tokens at pairs of timestamps.

    Args:
        found: The transcript, timestamps among its tokens.
        first_timestamp: Token of 0.00.
        seek: Frame at which the window begins.
        size: Frames of audio in it.
    """
    tokens, logprobs = found.tokens, found.logprobs
    offset = seek / FRAMES_A_SECOND
    is_time = [token >= first_timestamp for token in tokens]
    ends_with_speech = is_time[-2:] == [False, True]
    edges = [at + 1 for at in range(len(tokens) - 1) if is_time[at] and is_time[at + 1]]
    if not edges:
        duration = size / FRAMES_A_SECOND
        times = [token - first_timestamp for token in tokens if token >= first_timestamp]
        if times and times[-1] > 0:
            duration = times[-1] * TIMESTAMP_SECONDS
        return Cut([WindowSegment(offset, offset + duration, list(tokens), list(logprobs))], size, ends_with_speech)
    if ends_with_speech:
        edges.append(len(tokens))
    segments = []
    for start, stop in zip([0, *edges], edges, strict=False):
        part = list(tokens[start:stop])
        begin, end = ((token - first_timestamp) * TIMESTAMP_SECONDS for token in (part[0], part[-1]))
        segments.append(WindowSegment(offset + begin, offset + end, part, list(logprobs[start:stop])))
    # Without a last closing timestamp, the unfinished segment is heard again in the next window.
    advance = size if ends_with_speech else (tokens[edges[-1] - 1] - first_timestamp) * _FRAMES_A_TIMESTAMP
    return Cut(segments, advance, ends_with_speech)


class Transcriber:
    """Way through one recording of `content` frames, in windows of at most `window` frames.

    `voices` tell where somebody speaks; None: perhaps everywhere. `size_of` returns the frames of the window from a
    frame on; None: as many as are read together there.
    """

    def __init__(
        self,
        model: WindowModel,
        tokenizer: WhisperTokenizer,
        options: TranscriptionOptions,
        *,
        content: int,
        window: int,
        voices: VoiceSpans | None = None,
        size_of: Callable[[int], int] | None = None,
    ) -> None:
        self._model, self._tokenizer, self._options = model, tokenizer, options
        self._voices = known = VoiceSpans((), content, window) if voices is None else voices
        self._size_of = size_of or (lambda seek: min(window, known.left(seek)))
        self._draft = options.decoding.draft
        self._seek = 0
        self._tokens = list(options.decoding.prompt)
        self._prompt_from = 0
        self._last_speech = 0.0

    def run(self) -> Iterator[WindowTranscript | None]:
        """Yield each window with speech in it, and None wherever the thread may turn to other work."""
        options = self._options
        while (seek := self._voices.begin(self._seek)) is not None:
            size = self._size_of(seek)
            yield from self._model.hear(seek, size)
            prompt = tuple(self._tokens[self._prompt_from :])
            decoding = replace(options.decoding, prompt=prompt, draft=self._draft)
            found = yield from decode_with_fallback(
                self._model.decode, decoding, options.temperatures, options.thresholds, options.decoding.prompt
            )
            self._draft = self._draft[found.used :]
            if options.thresholds.is_silent(found) or not self._voices.allow(found.text, size):
                self._seek = seek + size
                continue
            if options.prosody:
                found = yield from self._model.punctuate(found, decoding, size)
            segments = self._segments(found, seek, size)
            if self._seek <= seek:  # a window that ends where it begins would be heard for ever
                self._seek = seek + size
            for segment in segments:
                text = self._tokenizer.decode(segment.tokens)
                if segment.start == segment.end or not text.strip():
                    segment.tokens, segment.logprobs, segment.words = [], [], []
            self._voices.place(segments, seek, size)
            yield WindowTranscript(seek, segments, found)
            self._tokens += [token for segment in segments for token in segment.tokens]
            if not options.previous_text or found.temperature > _WARM:
                self._prompt_from = len(self._tokens)

    def _segments(self, found: Decoded, seek: int, size: int) -> list[WindowSegment]:
        """Return the window's segments, and move to the next."""
        if not self._options.decoding.timestamps:
            self._seek = seek + size
            words = self._model.align(found.tokens, size)
            return sentences(words, found.logprobs, seek / FRAMES_A_SECOND, keep=self._options.word_times)
        cut = cut_segments(found, self._tokenizer.first_timestamp, seek, size)
        self._seek = seek + cut.advance
        if not self._options.word_times:
            return cut.segments
        end = self._tokenizer.end
        text = [token for segment in cut.segments for token in segment.tokens if token < end]
        words = self._model.align(text, size)
        add_words(cut.segments, words, seek / FRAMES_A_SECOND, self._last_speech, end)
        spoken_until = last_word_end(cut.segments)
        if not cut.ends_with_speech and spoken_until is not None and spoken_until > seek / FRAMES_A_SECOND:
            self._seek = round(spoken_until * FRAMES_A_SECOND)
        self._last_speech = self._last_speech if spoken_until is None else spoken_until
        return cut.segments
