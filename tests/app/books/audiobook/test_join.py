"""Chapters as files, and the book that they become: read back by FFmpeg's libraries."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import av
import numpy as np
import pytest

from app.audio.subtitles import Cue, render
from app.books.audiobook.chapter_file import ChapterFile, ChapterWriter, Gaps
from app.books.audiobook.container import CHAPTER_FORMATS, JOINED, BookFormat, ChapterFormat, Tags, clean
from app.books.audiobook.join import join
from app.threads import WorkStoppedError
from tests.app.books.documents.books import PNG

ROOT = Path(__file__).parents[4]
RATE = 24_000
TAGS = Tags("Büch", "Ada Author", "en", PNG)
GAPS = Gaps(passage=0.5, chapter=1.0)
CUES = [Cue(0.0, 1.0, "First paragraph."), Cue(1.5, 2.5, "Second paragraph.")]
Write = Callable[..., ChapterFile]


def tone(seconds: float, rate: int = RATE) -> np.ndarray:
    return (np.sin(np.arange(round(seconds * rate)) * 2 * np.pi * 300 / rate) * 0.5).astype(np.float32)


def samples(path: Path) -> tuple[np.ndarray, int]:
    """The decoded samples of a file, and their rate."""
    with av.open(str(path)) as file:
        stream = file.streams.audio[0]
        parts = [frame.to_ndarray().astype(np.float32) for frame in file.decode(stream)]
        pcm = np.concatenate([part.ravel() for part in parts])
        return (pcm / 32_768 if np.abs(pcm).max() > 2 else pcm), stream.codec_context.sample_rate


def onsets(pcm: np.ndarray, rate: int) -> list[float]:
    """The seconds at which sound begins after silence."""
    loud = np.flatnonzero(np.abs(pcm) > 0.1)
    first = np.flatnonzero(np.diff(loud, prepend=-rate) > rate // 10)
    return [float(loud[index]) / rate for index in first]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(name, kind)`: a chapter of two paragraphs of a second each."""

    def chapter(name: str, kind: ChapterFormat, rate: int = RATE, title: str = "One", tags: Tags = TAGS) -> ChapterFile:
        path = tmp_path / f"{name}.{kind}"
        with ChapterWriter(path, kind, rate, title=title, tags=tags, number=3, gaps=GAPS) as writer:
            for _ in CUES:
                writer.begin_passage()
                writer.add(tone(0.5, rate))
                writer.add(tone(0.5, rate))
            assert writer.seconds == pytest.approx(2.5)
            return writer.close(CUES)

    return chapter


@pytest.mark.parametrize("rate", [RATE, 22_050])
@pytest.mark.parametrize("kind", CHAPTER_FORMATS)
def test_a_chapter_has_its_sound_its_gaps_and_its_tags(write: Write, kind: ChapterFormat, rate: int) -> None:
    chapter = write("a", kind, rate)
    assert chapter.seconds == pytest.approx(3.5, abs=0.01)
    pcm, own = samples(chapter.path)
    # An encoder adds less than a frame of 1152 samples at the end.
    assert pcm.size / own == pytest.approx(3.5, abs=0.06)
    assert onsets(pcm, own) == pytest.approx([0.0, 1.5], abs=0.02)
    with av.open(str(chapter.path)) as file:
        tags = file.metadata | file.streams.audio[0].metadata
        pictures = list(file.streams.video)
    assert (tags["title"], tags["artist"], tags["album"]) == ("One", "Ada Author", "Büch")
    assert len(pictures) == (kind in ("m4a", "mp3", "flac"))


def test_a_finished_chapter_is_found_again_and_no_other(write: Write, tmp_path: Path) -> None:
    chapter = write("a", "m4a")
    assert ChapterFile.load(chapter.path) == chapter
    assert ChapterFile.load(tmp_path / "absent.m4a") is None
    note = tmp_path / "a.m4a.json"
    whole = note.read_text()
    for damaged in ("", "[]", "{}", whole[:-5], json.dumps(json.loads(whole) | {"cues": [1]})):
        note.write_text(damaged)
        assert ChapterFile.load(chapter.path) is None
    note.write_text(whole)
    chapter.path.write_bytes(chapter.path.read_bytes()[:-1])
    assert ChapterFile.load(chapter.path) is None
    chapter.remove()
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_chapter_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        ChapterWriter(tmp_path / "a.mp3", "mp3", RATE, title="", tags=TAGS) as writer,
    ):
        writer.add(tone(1))
        raise ZeroDivisionError
    with ChapterWriter(tmp_path / "a.m4a", "m4a", RATE, title="", tags=TAGS) as writer:
        writer.add(tone(1))
    assert list(tmp_path.iterdir()) == []


def test_a_chapter_that_is_written_again_is_unfinished_until_then(write: Write) -> None:
    chapter = write("a", "m4a")
    with ChapterWriter(chapter.path, "m4a", RATE, title="", tags=TAGS):
        assert ChapterFile.load(chapter.path) is None
    assert write("a", "m4a") == chapter


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    code = f"""
import resource, sys
import numpy as np
from pathlib import Path
from app.books.audiobook.chapter_file import ChapterWriter
from app.books.audiobook.container import Tags
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for kind in ("wav", "m4a", "mp3"):
    try:
        with ChapterWriter(Path({str(tmp_path)!r}) / kind, kind, 24_000, title="", tags=Tags("x")) as writer:
            for _ in range(60):
                writer.add(np.random.default_rng(0).uniform(-1, 1, 24_000).astype(np.float32))
            writer.close()
        print("written")
    except OSError as error:
        print(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == [str(errno.EFBIG)] * 3
    assert list(tmp_path.iterdir()) == []


def test_loudness_stays_and_samples_out_of_range_do_not_wrap(tmp_path: Path) -> None:
    for kind in CHAPTER_FORMATS:
        with ChapterWriter(tmp_path / f"a.{kind}", kind, RATE, title="", tags=Tags("x")) as writer:
            writer.add(tone(1))
            chapter = writer.close()
        pcm, rate = samples(chapter.path)
        middle = pcm[rate // 4 : rate // 2]
        assert np.sqrt((middle**2).mean()) == pytest.approx(0.5 / np.sqrt(2), rel=0.05), kind
    with ChapterWriter(tmp_path / "loud.flac", "flac", RATE, title="", tags=Tags("x")) as writer:
        writer.add(np.full(RATE, 3.0, np.float32))
        writer.add(np.full(RATE, np.nan, np.float32))
        assert samples(writer.close().path)[0].min() >= 0


@pytest.mark.parametrize("kind", JOINED)
def test_the_chapters_of_a_book(write: Write, tmp_path: Path, kind: BookFormat) -> None:
    chapters = [write(str(number), JOINED[kind], title=f"Kapitel {number} é") for number in range(1, 4)]
    book = join(chapters, tmp_path / f"book.{kind}", kind, TAGS)
    with av.open(str(book.path)) as file:
        marks = file.chapters()
        tags = file.metadata
        cover = next(packet for packet in file.demux(file.streams.video[0]) if packet.size)
        assert bytes(cover) == PNG
    assert [mark["metadata"]["title"] for mark in marks] == ["Kapitel 1 é", "Kapitel 2 é", "Kapitel 3 é"]
    starts = [mark["start"] * float(mark["time_base"]) for mark in marks]
    assert starts == pytest.approx(book.starts, abs=0.001)
    assert (tags["title"], tags["artist"], tags["genre"]) == ("Büch", "Ada Author", "Audiobook")
    # Each chapter is heard where its mark is, and its cues, too.
    pcm, rate = samples(book.path)
    assert onsets(pcm, rate)[::2] == pytest.approx(starts, abs=0.005)
    assert onsets(pcm, rate)[1::2] == pytest.approx(
        [cue.start for cue in book.cues if cue.text == "Second paragraph."], abs=0.005
    )
    assert book.seconds == pytest.approx(pcm.size / rate, abs=0.1)
    assert render(book.cues, "srt").count("Second paragraph.") == 3
    if kind == "m4b":
        assert book.path.read_bytes()[4:12] == b"ftypM4B "
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("kind", JOINED)
def test_more_chapters_than_a_byte_counts(write: Write, tmp_path: Path, kind: BookFormat) -> None:
    book = join([write("a", JOINED[kind])] * 300, tmp_path / "book", kind, Tags("Long"))
    with av.open(str(book.path)) as file:
        assert len(file.chapters()) == 300
        file.seek(round(book.starts[200] * 1e6))
        packet = next(file.demux(file.streams.audio[0]))
        assert float(packet.pts * packet.time_base) == pytest.approx(book.starts[200], abs=0.5)


def test_what_cannot_be_joined(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "book.m4b"
    first, second = write("1", "m4a"), write("2", "m4a")
    for chapters in ([], [first, write("3", "mp3")], [first, write("4", "m4a", rate=48_000)]):
        with pytest.raises(ValueError, match="chapter"):
            join(chapters, path, "m4b", TAGS)
    with pytest.raises(OSError, match="has changed"):
        join([first, replace(second, encoded=second.encoded + 1024)], path, "m4b", TAGS)
    second.path.unlink()
    with pytest.raises(OSError, match="No such file"):
        join([first, second], path, "m4b", TAGS)
    monkeypatch.setattr("app.books.audiobook.join.check_stopped", Mock(side_effect=WorkStoppedError))
    with pytest.raises(WorkStoppedError):
        join([first], path, "m4b", TAGS)
    assert not path.exists() and not list(tmp_path.glob("*.part"))


def test_tags_are_one_line_and_bounded(write: Write, tmp_path: Path) -> None:
    assert clean("a\0b\nc\ud800") == "a b c?"
    assert len(clean("é" * 500).encode()) == 254
    chapter = write("a", "m4a", title="\ud800\0", tags=Tags("\0", "x" * 10_000, "no language", b"no picture"))
    join([chapter], tmp_path / "a.m4b", "m4b", Tags("é" * 500, "\ud800", None, b"\xff\xd8\xff"))
    with av.open(str(tmp_path / "a.m4b")) as file:
        assert len(file.chapters()) == 1 and not file.streams.video
