"""Transcript of a recording, and its forms: OpenAI's JSON (platform.openai.com, "Audio"), text and subtitles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pydantic import BaseModel

from app.audio import subtitles
from app.audio.subtitles import MEDIA_TYPES
from app.recognition.languages import english_name
from models.contract import RecognitionTask, RecognizedSegment, RecognizedToken

TranscriptFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]
TRANSCRIPT_FORMATS: Final[tuple[TranscriptFormat, ...]] = get_args(TranscriptFormat)

# Tokens that a second of audio counts in `usage`: OpenAI's rate.
AUDIO_TOKENS_PER_SECOND: Final = 10
# Frames of `seek` in a second.
_SEEK_RATE: Final = 100


class LanguageEntry(BaseModel):
    """Language that was spoken: its ISO 639 code."""

    code: str


class LogprobEntry(BaseModel):
    """Token of the text, its UTF-8 bytes, and its log-probability."""

    token: str
    bytes: list[int]
    logprob: float


class InputTokens(BaseModel):
    """Tokens that were read: of the audio, and of the prompt."""

    audio_tokens: int
    text_tokens: int


class TokenUsage(BaseModel):
    """Tokens read and written."""

    type: Literal["tokens"] = "tokens"
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: InputTokens


class DurationUsage(BaseModel):
    """Length of the recording in seconds."""

    type: Literal["duration"] = "duration"
    seconds: float


class SegmentEntry(BaseModel):
    """Segment of the text. Times in seconds; `seek` of its window in hundredths of a second."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class WordEntry(BaseModel):
    """Word of the text with its times in seconds."""

    word: str
    start: float
    end: float


class TranscriptionReply(BaseModel):
    """Answer in the format `json`. `logprobs` are there if they were asked for, a `warning` if text was left out."""

    text: str
    languages: list[LanguageEntry]
    logprobs: list[LogprobEntry] | None = None
    usage: TokenUsage
    warning: str | None = None


class VerboseReply(BaseModel):
    """Answer in the format `verbose_json`. `language` is an English name; `segments` and `words` as asked for."""

    task: RecognitionTask
    language: str
    duration: float
    text: str
    segments: list[SegmentEntry] | None = None
    words: list[WordEntry] | None = None
    usage: DurationUsage
    warning: str | None = None


class DeltaEvent(BaseModel):
    """Part of the text, recognized just now."""

    type: Literal["transcript.text.delta"] = "transcript.text.delta"
    delta: str
    logprobs: list[LogprobEntry] | None = None


class TranscriptDoneEvent(TranscriptionReply):
    """End of a stream: the whole text."""

    type: Literal["transcript.text.done"] = "transcript.text.done"


@dataclass(frozen=True, slots=True)
class TranscriptOptions:
    """Form of a transcript. `segments` and `words` of `verbose_json`; `logprobs` of `json`."""

    format: TranscriptFormat = "json"
    segments: bool = True
    words: bool = False
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """Segments of a recording of `seconds`. `language`: code of what was spoken; None: nothing was.

    `warning`: why text was left out; None: none was.
    """

    task: RecognitionTask
    language: str | None
    seconds: float
    segments: tuple[RecognizedSegment, ...]
    prompt_tokens: int = 0
    warning: str | None = None

    @property
    def text(self) -> str:
        """Whole text."""
        return "".join(segment.text for segment in self.segments).strip()

    def render(self, options: TranscriptOptions) -> tuple[str, str]:
        """Return the transcript in a format, and its media type."""
        if options.format == "json":
            return _json(self.reply(logprobs=options.logprobs)), "application/json"
        if options.format == "verbose_json":
            return _json(self.verbose(options)), "application/json"
        if options.format == "text":
            return self.text + "\n", "text/plain; charset=utf-8"
        return subtitles.render(subtitles.cues(_pieces(self.segments)), options.format), MEDIA_TYPES[options.format]

    def reply(self, *, logprobs: bool = False) -> TranscriptionReply:
        """Return the answer in the format `json`."""
        tokens = [token for segment in self.segments for token in segment.tokens]
        audio = math.ceil(self.seconds * AUDIO_TOKENS_PER_SECOND)
        read = audio + self.prompt_tokens
        return TranscriptionReply(
            text=self.text,
            languages=[] if self.language is None else [LanguageEntry(code=self.language)],
            logprobs=logprob_entries(tokens) if logprobs else None,
            usage=TokenUsage(
                input_tokens=read,
                output_tokens=len(tokens),
                total_tokens=read + len(tokens),
                input_token_details=InputTokens(audio_tokens=audio, text_tokens=self.prompt_tokens),
            ),
            warning=self.warning,
        )

    def done(self, *, logprobs: bool = False) -> TranscriptDoneEvent:
        """Return the last event of a stream."""
        return TranscriptDoneEvent(**dict(self.reply(logprobs=logprobs)))

    def verbose(self, options: TranscriptOptions) -> VerboseReply:
        """Return the answer in the format `verbose_json`."""
        written = "en" if self.task == "translate" else self.language
        return VerboseReply(
            task=self.task,
            language="unknown" if written is None else english_name(written),
            duration=round(self.seconds, 3),
            text=self.text,
            segments=[_entry(number, each) for number, each in enumerate(self.segments)] if options.segments else None,
            words=[
                WordEntry(word=word.text.strip(), start=round(word.start, 3), end=round(word.end, 3))
                for segment in self.segments
                for word in segment.words
            ]
            if options.words
            else None,
            usage=DurationUsage(seconds=math.ceil(self.seconds)),
            warning=self.warning,
        )


class Deltas:
    """Increments of the text, segment by segment, which join to `Transcript.text`."""

    def __init__(self) -> None:
        self._begun = False
        self._space = ""

    def push(self, text: str) -> str:
        """Return what the text of the next segment adds. Space at its end waits for the next one."""
        text = self._space + text
        if not self._begun:
            text = text.lstrip()
        added = text.rstrip()
        self._space = text[len(added) :]
        self._begun = self._begun or bool(added)
        return added


def logprob_entries(tokens: Sequence[RecognizedToken]) -> list[LogprobEntry]:
    """Return tokens as they go over the wire. One may be a part of a character."""
    return [
        LogprobEntry(token=token.text.decode("utf-8", "replace"), bytes=list(token.text), logprob=token.logprob)
        for token in tokens
    ]


def _entry(number: int, segment: RecognizedSegment) -> SegmentEntry:
    return SegmentEntry(
        id=number,
        seek=round(segment.seek * _SEEK_RATE),
        start=round(segment.start, 3),
        end=round(segment.end, 3),
        text=segment.text,
        tokens=[token.id for token in segment.tokens],
        temperature=segment.temperature,
        avg_logprob=segment.mean_logprob,
        compression_ratio=segment.compression,
        no_speech_prob=segment.no_speech,
    )


@dataclass(frozen=True, slots=True)
class _Word:
    start: float
    end: float
    char_start: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """Segment as the subtitles take it. It begins at character `char_start` of the transcript."""

    text: str
    char_start: int
    start: float
    duration: float
    words: tuple[_Word, ...]


def _pieces(segments: Sequence[RecognizedSegment]) -> Iterator[_Piece]:
    begin = 0
    for segment in segments:
        text = segment.text.strip()
        words = []
        place = 0
        for word in segment.words:
            place = max(place, text.find(word.text.strip(), place))
            words.append(_Word(word.start, word.end, begin + place))
            place += len(word.text.strip())
        yield _Piece(text, begin, segment.start, segment.end - segment.start, tuple(words))
        begin += len(text) + 1


def _json(reply: BaseModel) -> str:
    return reply.model_dump_json(exclude_none=True)
