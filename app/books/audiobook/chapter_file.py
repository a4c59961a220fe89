"""A chapter of an audiobook as a file, and its cues beside it as JSON.

The JSON is written last: a chapter that `ChapterFile.load` finds is whole, also after a crash. Memory does not grow
with the length of a chapter, apart from its cues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import av
import numpy as np
import numpy.typing as npt
from av.audio.stream import AudioStream

from app.audio.pcm import to_int16
from app.audio.resample import Resampler
from app.audio.subtitles import Cue
from app.books.audiobook.container import (
    ChapterFormat,
    Coding,
    Tags,
    add_cover,
    book_tags,
    clean,
    coding,
    mux_cover,
    sync,
    written,
)
from app.threads import check_stopped

Float32 = npt.NDArray[np.float32]

# Samples of one frame of audio: long chunks are given to the codec in parts.
_FRAME: Final = 48_000


@dataclass(frozen=True, slots=True)
class Gaps:
    """Silence in seconds: between two paragraphs, and at the end of a chapter."""

    passage: float = 0.6
    chapter: float = 1.5


@dataclass(frozen=True, slots=True)
class ChapterFile:
    """Chapter in a file. `samples` at `rate` Hz are its length; the times of `cues` are seconds from its beginning.

    `encoded` samples, with those that the codec adds, are in packets of `frame` samples each.
    """

    path: Path
    title: str
    format: ChapterFormat
    rate: int
    samples: int
    encoded: int
    frame: int
    cues: tuple[Cue, ...]

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.samples / self.rate

    @classmethod
    def load(cls, path: Path) -> ChapterFile | None:
        """Return the chapter in `path`; None where it is absent or was not finished."""
        try:
            value = json.loads(_sidecar(path).read_text("utf-8"))
            if path.stat().st_size != value["bytes"]:
                return None
            result = tuple(Cue(**cue) for cue in value["cues"])
            rate, samples, encoded, frame = (value[key] for key in ("rate", "samples", "encoded", "frame"))
            return cls(path, value["title"], value["format"], rate, samples, encoded, frame, result)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self) -> None:
        """Write the JSON. Raises OSError."""
        value = asdict(self) | {"path": self.path.name, "bytes": self.path.stat().st_size}
        part = _sidecar(self.path).with_suffix(".json.part")
        part.write_text(json.dumps(value), "utf-8")
        sync(part)
        part.replace(_sidecar(self.path))

    def remove(self) -> None:
        """Delete the chapter, its JSON first."""
        _sidecar(self.path).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".json")


class ChapterWriter:
    """Writer of one chapter, a context: `begin_passage` and `add` in turns, then `close`.

    Its methods encode and write to disk: call them on a thread, from one at a time. All raise OSError where the disk is
    full, and WorkStoppedError where nobody waits for them any more. Without `close`, nothing remains.

    Args:
        path: File of the chapter.
        kind: Its format.
        sample_rate: Rate of the samples that `add` gets, in Hz.
        title: Title of the chapter.
        tags: Tags of the book.
        number: Number of the chapter, from 1.
        gaps: Silence between paragraphs and at the end.
    """

    def __init__(
        self,
        path: Path,
        kind: ChapterFormat,
        sample_rate: int,
        *,
        title: str,
        tags: Tags,
        number: int = 1,
        gaps: Gaps = Gaps(),
    ) -> None:
        self._path, self._kind, self._title = path, kind, title
        self._rate, self._gaps = sample_rate, gaps
        self._samples = 0
        self._done: ChapterFile | None = None
        self._coding = coding(kind, sample_rate)
        # Those of an earlier chapter in this file say nothing of the new one.
        _sidecar(path).unlink(missing_ok=True)
        with ExitStack() as stack:
            self._output = stack.enter_context(written(path, self._coding.container, kind))
            own = {"title": clean(title) or clean(tags.title), "track": str(number)}
            self._encoder = _Encoder(self._output, self._coding, sample_rate, {**book_tags(tags), **own})
            cover = add_cover(self._output, self._coding.container, tags.cover)
            mux_cover(self._output, cover, tags.cover)
            self._stack = stack.pop_all()

    @property
    def seconds(self) -> float:
        """Seconds that are written."""
        return self._samples / self._rate

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._done is None:
            unfinished = error or _UnfinishedError()
            with suppress(_UnfinishedError):
                self._stack.__exit__(type(unfinished), unfinished, trace)

    def begin_passage(self) -> None:
        """Begin a paragraph, after the silence between two."""
        if self._samples:
            self.silence(self._gaps.passage)

    def add(self, pcm: Float32) -> None:
        """Add float32 samples [n] of the paragraph."""
        self._samples += pcm.size
        for start in range(0, pcm.size, _FRAME):
            self._encoder.encode(pcm[start : start + _FRAME])

    def silence(self, seconds: float) -> None:
        """Add silence. Without a length above 0, nothing."""
        left = max(0, round(seconds * self._rate))
        self._samples += left
        while left > 0:
            count = min(left, _FRAME)
            self._encoder.encode(np.zeros(count, np.float32))
            left -= count

    def close(self, cues: Sequence[Cue] = ()) -> ChapterFile:
        """End the chapter after its silence, and return it with its subtitles. Raises OSError."""
        if self._done is None:
            self.silence(self._gaps.chapter)
            self._encoder.finish()
            self._stack.close()
            encoder = self._encoder
            self._done = ChapterFile(
                self._path,
                self._title,
                self._kind,
                self._coding.rate,
                encoder.position,
                encoder.encoded,
                encoder.frame,
                tuple(cues),
            )
            self._done.save()
        return self._done


class _UnfinishedError(Exception):
    """Raised within the file that is written, so that it is removed."""


class _Encoder:
    """Codec of one chapter, at its own rate."""

    def __init__(
        self, output: av.container.OutputContainer, chosen: Coding, sample_rate: int, tags: dict[str, str]
    ) -> None:
        stream = output.add_stream(chosen.codec, rate=chosen.rate)
        if not isinstance(stream, AudioStream):
            raise TypeError(f"{chosen.codec} is not an audio codec")
        stream.layout = "mono"
        stream.format = chosen.sample_format
        if chosen.bit_rate:
            stream.bit_rate = chosen.bit_rate
        # Ogg has the tags of its streams only.
        (stream if chosen.container == "ogg" else output).metadata.update(tags)
        self._output, self._stream, self._coding = output, stream, chosen
        self._resampler = Resampler(sample_rate, chosen.rate)
        self.position = 0
        self.encoded = 0
        self.frame = 0

    def encode(self, pcm: Float32) -> None:
        check_stopped()
        self._put(self._resampler.push(np.ascontiguousarray(pcm, np.float32)))

    def finish(self) -> None:
        self._put(self._resampler.push(np.empty(0, np.float32), last=True))
        self._mux(self._stream.encode(None))

    def _put(self, pcm: Float32) -> None:
        if not pcm.size:
            return
        # A sample beyond full scale would wrap around or distort all of its frame.
        bounded = np.clip(np.nan_to_num(pcm, nan=0.0), -1.0, 1.0)
        kind = self._coding.sample_format
        frame = av.AudioFrame.from_ndarray(
            (to_int16(bounded) if kind == "s16" else bounded)[np.newaxis, :], format=kind, layout="mono"
        )
        frame.sample_rate = self._coding.rate
        frame.pts = self.position
        frame.time_base = Fraction(1, self._coding.rate)
        self.position += pcm.size
        self._mux(self._stream.encode(frame))

    def _mux(self, packets: list[av.Packet[Any]]) -> None:
        # Codecs of samples have no frames: each packet has its own size.
        self.frame = self._stream.codec_context.frame_size
        self.encoded += self.frame * len(packets)
        self._output.mux(packets)
