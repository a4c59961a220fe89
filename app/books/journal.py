"""Speech of one chapter while it is made, on disk passage by passage: a process that ends loses one passage at most.

`<number>.pcm` holds int16 samples, mono, little endian. `<number>.jsonl` has a line for each passage that is whole.
Samples behind the last line are of a passage that was broken off. Methods block; one thread at a time may call them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import numpy as np

from app.audio.pcm import to_int16
from app.audio.subtitles import Cue
from app.threads import check_stopped
from models.contract import Pcm

_SAMPLE: Final = 2
# Samples that are read at once.
_CHUNK_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Record:
    """Passage that is whole. Its samples are [start, end) of the file; `cues` in seconds of the chapter.

    `failed`: it could not be spoken. `characters` are those of its text. `silence` samples, which are not in the file,
    come before it. `more`: this is a part of a long passage, and the next record goes on with it.
    """

    start: int
    end: int
    characters: int
    cues: tuple[Cue, ...] = ()
    failed: bool = False
    silence: int = 0
    more: bool = False


class ChapterJournal:
    """Journal of one chapter, open for more passages. Closes with the block.

    It counts the `passages` that are whole, those of them that `failed`, the `characters`, the samples of `silence`,
    and the characters of the long passage under way that are in records (`part`).
    """

    def __init__(self, folder: Path, number: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._samples: IO[bytes] = samples_path(folder, number).open("ab")
        self._lines: IO[bytes] = _lines_path(folder, number).open("ab")
        self.passages = self.failed = self.characters = self.silence = self.part = 0
        self._part_failed = False
        # After a loss of power the lines may be ahead of the samples.
        self.records, size = _read(folder, number, most=self._samples.tell() // _SAMPLE)
        for record in self.records:
            self._count(record)
        self._lines.truncate(size)
        self._lines.seek(0, 2)
        self.rewind()

    def __enter__(self) -> ChapterJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def length(self) -> int:
        """Samples in the file of the passages that are whole."""
        return self.records[-1].end if self.records else 0

    @property
    def position(self) -> int:
        """Samples of the passages that are whole, and of the silence before them."""
        return self.length + self.silence

    @property
    def bytes(self) -> int:
        """Size of the files, and of the silence that the file of the chapter will have between the passages."""
        return self._samples.tell() + self.silence * _SAMPLE + self._lines.tell()

    def write(self, pcm: Pcm) -> None:
        """Add samples, float32 [n], to the passage under way."""
        self._samples.write(to_int16(pcm).tobytes())

    def rewind(self) -> None:
        """Drop what was written of the passage under way."""
        self._samples.flush()
        self._samples.truncate(self.length * _SAMPLE)
        self._samples.seek(0, 2)

    def finish(self, characters: int, cues: Sequence[Cue] = (), **more: Any) -> Record:
        """End the passage under way, and return it. Arguments are fields of Record."""
        self._samples.flush()
        record = Record(self.length, self._samples.tell() // _SAMPLE, characters, tuple(cues), **more)
        self._write(record)
        return record

    def _write(self, record: Record) -> None:
        self._lines.write(json.dumps(asdict(record)).encode() + b"\n")
        self._lines.flush()
        self.records.append(record)
        self._count(record)

    def _count(self, record: Record) -> None:
        self.characters += record.characters
        self.silence += record.silence
        self._part_failed = self._part_failed or record.failed
        if record.more:
            self.part += record.characters
            return
        self.passages += 1
        self.failed += self._part_failed
        self.part, self._part_failed = 0, False

    def close(self) -> None:
        """Close the files."""
        self._samples.close()
        self._lines.close()


def samples_path(folder: Path, number: int) -> Path:
    """Return the place of a chapter's samples."""
    return folder / f"{number:05}.pcm"


def _lines_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.jsonl"


def read_records(folder: Path, number: int) -> list[Record]:
    """Return the passages of a chapter that are whole."""
    return _read(folder, number)[0]


def _read(folder: Path, number: int, most: int | None = None) -> tuple[list[Record], int]:
    """Return the passages that end within `most` samples, and the bytes of their lines."""
    result: list[Record] = []
    size = 0
    with suppress(FileNotFoundError), _lines_path(folder, number).open("rb") as lines:
        for line in lines:
            record = _record(line)
            if record is None or (most is not None and record.end > most):
                break
            result.append(record)
            size += len(line)
    return result, size


def _record(line: bytes) -> Record | None:
    """Return the passage of a line; None: it was broken off."""
    if not line.endswith(b"\n"):
        return None
    try:
        values: dict[str, Any] = json.loads(line)
        return Record(**{**values, "cues": tuple(Cue(**cue) for cue in values["cues"])})
    except (ValueError, TypeError, KeyError):
        return None


def read_samples(folder: Path, number: int, start: int = 0, end: int | None = None) -> Iterator[Pcm]:
    """Yield the samples [start, end) of a chapter in pieces, float32 [n]; None: to their end."""
    with samples_path(folder, number).open("rb") as file:
        file.seek(start * _SAMPLE)
        left = None if end is None else (end - start) * _SAMPLE
        while data := file.read(_CHUNK_BYTES if left is None else min(left, _CHUNK_BYTES)):
            check_stopped()
            left = None if left is None else left - len(data)
            yield np.frombuffer(data, "<i2").astype(np.float32) / 32_767.0
