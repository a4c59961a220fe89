"""A book from its file to its sound: a real EPUB, the house voice, and a recognizer that hears each chapter begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import httpx
import numpy as np
import pytest
import soxr

from app.audio.audiobook.chapter_file import ChapterFile, ChapterWriter
from app.audio.audiobook.container import JOINED, BookFormat, Tags
from app.audio.audiobook.join import join
from app.documents.reader import read_document
from tests.app.documents.books import PNG, epub, page

RATE = 24_000
CHAPTERS = {
    "The Storm": "The rain fell all night on the old town.",
    "The Morning": "In the morning the sun came up over the water.",
}


def book() -> bytes:
    pages = {
        f"{number}.xhtml": page(f"<h1>{title}</h1><p>{text}</p>")
        for number, (title, text) in enumerate(CHAPTERS.items())
    }
    toc = "".join(f"<li><a href='{number}.xhtml'>{title}</a></li>" for number, title in enumerate(CHAPTERS))
    cover = '<item id="c" href="c.png" media-type="image/png" properties="cover-image"/>'
    return epub(pages, toc=f"<ol>{toc}</ol>", manifest=cover, files={"OEBPS/c.png": PNG})


@pytest.mark.parametrize("kind", JOINED)
def test_each_chapter_begins_where_its_mark_is(
    house_server: str, recognize: Callable[..., str], tmp_path: Path, kind: BookFormat
) -> None:
    document = read_document(book(), "book.epub")
    assert [chapter.title for chapter in document.chapters] == list(CHAPTERS)
    tags = Tags(document.title, document.author, document.language, document.cover)
    files: list[ChapterFile] = []
    for number, chapter in enumerate(document.chapters, 1):
        path = tmp_path / f"{number}.{JOINED[kind]}"
        with ChapterWriter(path, JOINED[kind], RATE, title=chapter.title, tags=tags, number=number) as writer:
            for text in (chapter.title, *(passage.text for passage in chapter.passages)):
                writer.begin_passage(text)
                body = {"input": text, "response_format": "pcm", "model": "house"}
                reply = httpx.post(f"{house_server}/v1/audio/speech", json=body).raise_for_status()
                writer.add(np.frombuffer(reply.content, "<i2").astype(np.float32) / 32_768)
            writer.close()
        found = ChapterFile.load(path)
        assert found is not None
        files.append(found)
    joined = join(files, tmp_path / f"book.{kind}", kind, tags)
    with av.open(str(joined.path)) as file:
        marks = [(mark["metadata"]["title"], mark["start"] * float(mark["time_base"])) for mark in file.chapters()]
        rate = file.streams.audio[0].codec_context.sample_rate
        pcm = np.concatenate([frame.to_ndarray().ravel() for frame in file.decode(file.streams.audio[0])])
    assert [title for title, _ in marks] == list(CHAPTERS)
    ends = [*(round(start * rate) for _, start in marks[1:]), pcm.size]
    for (title, start), end, words in zip(marks, ends, ({"rain", "night"}, {"morning", "sun"}), strict=True):
        heard = recognize(soxr.resample(pcm[round(start * rate) : end], rate, RATE), RATE)
        assert words & set(heard.split()), (title, heard)
    # The silence at the end of a chapter is whole, and nothing of the next one is before its mark.
    second = round(marks[1][1] * rate)
    assert np.abs(pcm[second - rate : second]).max() < 0.01
