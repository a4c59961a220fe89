"""Results of a job: the file of each chapter as it is made, and in the end the audiobook with its subtitles."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from app.audio import audiobook
from app.audio.subtitles import MEDIA_TYPES, Cue, render
from app.documents.types import Chapter, Document
from app.jobs.journal import Record, read_records, read_samples, samples_path
from app.jobs.types import BookFormat, Job, JobFile
from models.contract import Pcm

CHAPTERS: Final = "chapters"
"""Folder of the chapters, in that of the job."""
PARAGRAPH_GAP: Final = 0.5
"""Seconds of silence between two paragraphs."""
CHAPTER_GAP: Final = 1.5
"""Seconds of silence at the end of a chapter."""

_AUDIO_TYPES: Final[dict[BookFormat, str]] = {"m4b": "audio/mp4", "mp3": "audio/mpeg", "chapters": "application/zip"}
_SUFFIXES: Final[dict[BookFormat, str]] = {"m4b": ".m4b", "mp3": ".mp3", "chapters": ".zip"}
# Codec of the chapters: those of an M4B file are joined as they are.
_CODECS: Final[dict[BookFormat, audiobook.BookFormat]] = {"m4b": "m4b", "mp3": "mp3", "chapters": "mp3"}
_SILENCE_PIECE: Final = 1 << 18
_NAME: Final = re.compile(r"[^\w-]+")
_MAX_NAME: Final = 80

Placed: TypeAlias = tuple[int, Record]
"""A passage, and the sample of its chapter at which it is heard."""


def silence(seconds: float, rate: int) -> Pcm:
    """Return silence, float32 [seconds * rate]."""
    return np.zeros(round(seconds * rate), np.float32)


def finish_chapter(folder: Path, job: Job, chapter: Chapter, rate: int, *, timed: bool) -> None:
    """Write the file of the chapter that `job` is at, and delete its samples. Blocks. Raises OSError.

    Args:
        folder: the chapters of the job.
        job: the job.
        chapter: its chapter.
        rate: sample rate in Hz.
        timed: the passages are cues, each of which is heard at its own time.
    """
    number = job.chapter
    records = read_records(folder, number)
    placed = _placed(records, chapter, rate) if timed else [(record.start, record) for record in records]
    pieces = _pieces(folder, number, placed, rate, gap=0.0 if timed else CHAPTER_GAP)
    length = audiobook.write_chapter(_chapter_path(folder, number), pieces, rate, _CODECS[job.options.format])
    shown = [_moved(cue, (start - record.start) / rate) for start, record in placed for cue in record.cues]
    facts = {"title": chapter.title, "seconds": length, "cues": [[cue.start, cue.end, cue.text] for cue in shown]}
    _facts_path(folder, number).write_text(json.dumps(facts), encoding="utf-8")
    samples_path(folder, number).unlink(missing_ok=True)


def _placed(records: list[Record], chapter: Chapter, rate: int) -> list[Placed]:
    """Return cues in their places. One that is still spoken when the next begins delays it."""
    placed: list[Placed] = []
    position = 0
    for record, passage in zip(records, chapter.passages, strict=True):
        position = max(position, round((passage.start or 0.0) * rate))
        placed.append((position, record))
        position += record.end - record.start
    return placed


def _pieces(folder: Path, number: int, placed: list[Placed], rate: int, *, gap: float) -> Iterator[Pcm]:
    """Yield the samples of a chapter with silence between its passages, and a gap at its end."""
    position = 0
    for start, record in placed:
        yield from _silence(start - position)
        yield from read_samples(folder, number, record.start, record.end)
        position = start + record.end - record.start
    yield from _silence(round(gap * rate))


def _silence(samples: int) -> Iterator[Pcm]:
    for start in range(0, samples, _SILENCE_PIECE):
        yield np.zeros(min(_SILENCE_PIECE, samples - start), np.float32)


def _moved(cue: Cue, seconds: float) -> Cue:
    return replace(cue, start=cue.start + seconds, end=cue.end + seconds)


def _chapter_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.audio"


def _facts_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.json"


@dataclass(frozen=True, slots=True)
class _Made:
    """Chapter that is whole: its file, its title, its length in seconds, its cues from its beginning."""

    path: Path
    title: str
    seconds: float
    cues: list[Cue]


def _made(folder: Path, number: int) -> _Made:
    facts = json.loads(_facts_path(folder, number).read_text(encoding="utf-8"))
    cues = [Cue(start, end, text) for start, end, text in facts["cues"]]
    return _Made(_chapter_path(folder, number), facts["title"], facts["seconds"], cues)


async def write(folder: Path, place: Path, job: Job, document: Document) -> tuple[JobFile, ...]:
    """Write the results of a job whose chapters are whole into the folder `place`. Raises OSError.

    Args:
        folder: that of the job.
        place: that of the results, which is made anew.
        job: the job.
        document: its document.

    Returns:
        Files in `place`: the audio, and the subtitles that were asked for.
    """
    return await asyncio.to_thread(_write, folder, place, job, document)


def _write(folder: Path, place: Path, job: Job, document: Document) -> tuple[JobFile, ...]:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    made = [_made(folder / CHAPTERS, number) for number in range(job.chapters)]
    name = _NAME.sub("-", job.title)[:_MAX_NAME].strip("-_") or "audiobook"
    options = job.options
    book = place / f"{name}{_SUFFIXES[options.format]}"
    if options.format == "chapters":
        _zip(book, made)
    else:
        about = audiobook.About(job.title, options.author or document.author, options.language, document.cover)
        audiobook.join([(each.path, each.title, each.seconds) for each in made], book, options.format, about)
    files = [_file(book, _AUDIO_TYPES[options.format])]
    shown = _all_cues(made)
    for kind in options.subtitles:
        path = place / f"{name}.{kind}"
        path.write_text(render(shown, kind), encoding="utf-8")
        files.append(_file(path, MEDIA_TYPES[kind]))
    return tuple(files)


def _zip(path: Path, made: list[_Made]) -> None:
    """Write an archive of the chapters. Their audio is small already."""
    digits = len(str(len(made)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for number, each in enumerate(made, 1):
            title = _NAME.sub("-", each.title)[:_MAX_NAME].strip("-_")
            archive.write(each.path, f"{number:0{digits}}{'-' * bool(title)}{title}.mp3")


def _all_cues(made: list[_Made]) -> list[Cue]:
    found: list[Cue] = []
    begin = 0.0
    for each in made:
        found += [_moved(cue, begin) for cue in each.cues]
        begin += each.seconds
    return found


def _file(path: Path, media_type: str) -> JobFile:
    return JobFile(path.name, path.stat().st_size, media_type)


def folder_size(folder: Path) -> int:
    """Return the bytes of all files in a folder. Blocks."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
