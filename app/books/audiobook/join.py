"""Chapters of an audiobook joined to one file with chapters: M4B (MP4 with AAC) or MP3 (ID3 CHAP frames).

The packets of the chapters are copied, not encoded again. Each chapter begins where its first sample is heard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av

from app.audio.subtitles import Cue
from app.books.audiobook.chapter_file import ChapterFile
from app.books.audiobook.container import (
    JOINED,
    BookFormat,
    Tags,
    add_cover,
    book_tags,
    clean,
    coding,
    mux_cover,
    written,
)
from app.threads import check_stopped

if TYPE_CHECKING:  # only in PyAV's annotations
    from av.container.core import Chapter

_MILLISECONDS: Final = Fraction(1, 1000)
_PACKETS_OF_A_TURN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Book:
    """Audiobook in one file. `starts`: seconds at which its chapters begin. `cues`: the subtitles of all of it."""

    path: Path
    seconds: float
    starts: tuple[float, ...]
    cues: tuple[Cue, ...]


def join(chapters: Sequence[ChapterFile], path: Path, kind: BookFormat, tags: Tags) -> Book:
    """Join chapters to one file. Blocks: call it on a thread.

    Args:
        chapters: At least one, all with the same rate and the format `JOINED[kind]`.
        path: File of the book, which is whole or absent.
        kind: Its format.
        tags: Its tags and cover.

    Returns:
        The book.

    Raises:
        ValueError: There are no chapters, or they have different formats or rates.
        OSError: A chapter cannot be read, or the disk is full.
        WorkStoppedError: Nobody waits for the book any more.
    """
    _check(chapters, kind)
    chosen = coding(JOINED[kind], chapters[0].rate)
    total = sum(chapter.encoded for chapter in chapters)
    starts = [end / chosen.rate for end in accumulate((chapter.encoded for chapter in chapters[:-1]), initial=0)]
    seconds = total / chosen.rate
    with written(path, chosen.container, kind) as output:
        with av.open(str(chapters[0].path)) as first:
            stream = output.add_stream_from_template(first.streams.audio[0])
        cover = add_cover(output, chosen.container, tags.cover)
        output.metadata.update(book_tags(tags))
        output.set_chapters(list(_marks(chapters, starts, seconds)))
        mux_cover(output, cover, tags.cover)
        position = 0
        for count, packet in enumerate(_packets(chapters)):
            if count == 0:
                # The codec's delay before the first sample: MP4 cuts it off by an edit list.
                position = min(0, packet.pts or 0)
            frame = chapters[0].frame
            packet.stream = stream
            packet.time_base = Fraction(1, chosen.rate)
            packet.pts = packet.dts = position
            packet.duration = frame
            position += frame
            output.mux_one(packet)
            if count % _PACKETS_OF_A_TURN == 0:
                check_stopped()
    cues = tuple(cue.later(start) for chapter, start in zip(chapters, starts, strict=True) for cue in chapter.cues)
    return Book(path, seconds, tuple(starts), cues)


def _check(chapters: Sequence[ChapterFile], kind: BookFormat) -> None:
    if not chapters:
        raise ValueError("A book needs a chapter.")
    expected = JOINED[kind], chapters[0].rate, chapters[0].frame
    for chapter in chapters:
        if (chapter.format, chapter.rate, chapter.frame) != expected:
            raise ValueError(f"The chapter in {chapter.path.name} is not of the format of the book.")


def _marks(chapters: Sequence[ChapterFile], starts: Sequence[float], seconds: float) -> Iterator[Chapter]:
    ends = [*starts[1:], seconds]
    for number, (chapter, start, end) in enumerate(zip(chapters, starts, ends, strict=True), 1):
        yield {
            "id": number,
            "start": round(start * 1000),
            "end": round(end * 1000),
            "time_base": _MILLISECONDS,
            "metadata": {"title": clean(chapter.title) or str(number)},
        }


def _packets(chapters: Sequence[ChapterFile]) -> Iterator[av.Packet[Any]]:
    """Yield the packets of all chapters. Raises OSError where a file has fewer or more than were written."""
    for chapter in chapters:
        left = chapter.encoded // chapter.frame
        with av.open(str(chapter.path)) as source:
            for packet in source.demux(source.streams.audio[0]):
                if packet.size:
                    left -= 1
                    yield packet
        if left:
            raise OSError(f"The chapter in {chapter.path.name} has changed since it was written.")
