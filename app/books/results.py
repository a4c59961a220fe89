"""Results of a job: the file of each chapter as it is made, and in the end the audiobook with its subtitles.

Functions block: call them on a thread.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

from app.audio.pcm import LEAD, TRAIL
from app.audio.subtitles import MEDIA_TYPES as SUBTITLE_TYPES
from app.audio.subtitles import Cue, render
from app.books.audiobook.chapter_file import ChapterFile, ChapterWriter, Gaps
from app.books.audiobook.container import JOINED, MEDIA_TYPES, ChapterFormat, Tags
from app.books.audiobook.join import join
from app.books.documents.types import Chapter, Document
from app.books.journal import read_records, read_samples, samples_path
from app.books.types import Job, JobFile, JobOptions
from app.threads import check_stopped

CHAPTERS: Final = "chapters"
"""Folder of the chapters, in that of the job."""

_ZIP_TYPE: Final = "application/zip"
# Dubbed cues are in their places already.
_NO_GAPS: Final = Gaps(0.0, 0.0)
# Bytes that are copied at once.
_CHUNK_BYTES: Final = 1 << 20
# Characters of a name that are neither letters nor digits.
_OTHER: Final = re.compile(r"[^\w]+")
# With an ending it fits into the 255 bytes that a name may have.
_MAX_NAME: Final = 60


def tags(job: Job, document: Document) -> Tags:
    """Return the tags of the book."""
    options = job.options
    language = options.translate_to or options.lang or document.language
    return Tags(job.title, options.author or document.author, language, document.cover)


def finish_chapter(folder: Path, job: Job, document: Document, rate: int, pause: float) -> None:
    """Write the file of the chapter that `job` is at, and delete its samples. Raises OSError.

    Args:
        folder: the chapters of the job.
        job: the job.
        document: its document.
        rate: sample rate in Hz.
        pause: seconds of silence between the speech of two paragraphs.
    """
    number, kind = job.chapter, _chapter_format(job.options)
    shown: list[Cue] = []
    with ChapterWriter(
        chapter_path(folder, number, kind),
        kind,
        rate,
        title=document.chapters[number].title,
        tags=tags(job, document),
        number=number + 1,
        gaps=_NO_GAPS if document.timed else Gaps(passage=max(0.0, pause - TRAIL - LEAD)),
    ) as writer:
        more = False
        for record in read_records(folder, number):
            if record.end == record.start:
                more = more and record.more
                continue  # no silence for what is not spoken
            if document.timed:
                writer.silence(record.silence / rate)
                shown += record.cues
            else:
                if not more:
                    writer.begin_passage()
                moved = writer.seconds - record.start / rate
                shown += [cue.later(moved) for cue in record.cues]
            more = record.more
            for pcm in read_samples(folder, number, record.start, record.end):
                writer.add(pcm)
        writer.silence(track_end(document.chapters[number]) - writer.seconds)
        writer.close(shown)
    samples_path(folder, number).unlink(missing_ok=True)


def track_end(chapter: Chapter) -> float:
    """Return the seconds that a chapter lasts at least: until the end of its last cue."""
    return max((passage.end or 0.0) for passage in chapter.passages)


def _chapter_format(options: JobOptions) -> ChapterFormat:
    return options.chapter_format if options.format == "chapters" else JOINED[options.format]


def chapter_path(folder: Path, number: int, kind: ChapterFormat) -> Path:
    """Return the place of the file of a chapter."""
    return folder / f"{number:05}.{kind}"


def write(folder: Path, place: Path, job: Job, document: Document) -> tuple[JobFile, ...]:
    """Write the results of a job whose chapters are whole. Raises OSError.

    Args:
        folder: the chapters of the job.
        place: folder of the results, which is made anew.
        job: the job.
        document: its document.

    Returns:
        Files in `place`: the audio, and the subtitles that were asked for.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    options = job.options
    made = _chapters(folder, job)
    name = _file_name(job.title) or "audiobook"
    if options.format == "chapters":
        book, media_type = place / f"{name}.zip", _ZIP_TYPE
        _zip(book, made)
        starts = accumulate((each.seconds for each in made), initial=0.0)
        shown = tuple(cue.later(start) for each, start in zip(made, starts, strict=False) for cue in each.cues)
    else:
        book, media_type = place / f"{name}.{options.format}", MEDIA_TYPES[options.format]
        shown = join(made, book, options.format, tags(job, document)).cues
    files = [_file(book, media_type)]
    for kind in options.subtitles:
        path = place / f"{name}.{kind}"
        path.write_text(render(shown, kind), encoding="utf-8")
        files.append(_file(path, SUBTITLE_TYPES[kind]))
    return tuple(files)


def _chapters(folder: Path, job: Job) -> list[ChapterFile]:
    result = []
    for number in range(job.chapters):
        path = chapter_path(folder, number, _chapter_format(job.options))
        chapter = ChapterFile.load(path)
        if chapter is None:
            raise FileNotFoundError(None, "the chapter is missing or damaged", str(path))
        if chapter.samples:
            result.append(chapter)
    return result


def _file_name(title: str) -> str:
    return _OTHER.sub("-", title)[:_MAX_NAME].strip("-_")


def _zip(path: Path, made: Sequence[ChapterFile]) -> None:
    """Write an archive of the chapters, whose audio is small already."""
    digits = len(str(len(made)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for number, each in enumerate(made, 1):
            title = _file_name(each.title)
            name = f"{number:0{digits}}{'-' * bool(title)}{title}{each.path.suffix}"
            with each.path.open("rb") as audio, archive.open(name, "w", force_zip64=True) as part:
                while data := audio.read(_CHUNK_BYTES):
                    check_stopped()
                    part.write(data)


def _file(path: Path, media_type: str) -> JobFile:
    return JobFile(path.name, path.stat().st_size, media_type)


def folder_size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
