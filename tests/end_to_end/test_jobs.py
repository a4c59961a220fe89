"""Jobs on a real server, and the command that makes a book with a server and without one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import httpx
import numpy as np
import pytest

from app import main
from app.books.documents.reader import read_document
from tests.app.books.documents.books import PNG, epub, page
from tests.processes import clean_environment, run

BOOK = "# Morning\n\nThe last bus was late again.\n\n# Evening\n\nThe office closes at six.\n"
CHAPTERS = {"In the morning": "The last bus was late again.", "In the city": "The office closes at six."}


def book(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = clean_environment() | {"NIGHTINGALE_DATA_DIR": str(folder / "data")}
    return run(sys.executable, "-m", "app", "book", *arguments, seconds=300, env=environment)


def hear(path: Path, recognize: Callable[..., str]) -> list[tuple[str, set[str]]]:
    """Title of each chapter, and the words that are heard in it. A chapter ends in a second of silence."""
    with av.open(str(path)) as container:
        pcm = np.concatenate([frame.to_ndarray().mean(axis=0) for frame in container.decode(audio=0)])
        rate = container.streams.audio[0].rate
        heard = []
        for each in container.chapters():
            start, end = (round(each[edge] * each["time_base"] * rate) for edge in ("start", "end"))
            # Nothing of a chapter is before its mark.
            assert np.abs(pcm[max(0, start - rate) : start]).max(initial=0) < 0.01
            heard.append((each["metadata"]["title"], set(recognize(pcm[start:end], rate).split())))
    return heard


def electronic_book() -> bytes:
    """An EPUB with a table of contents and a cover."""
    pages = {f"{number}.xhtml": page(f"<h1>{each}</h1><p>{CHAPTERS[each]}</p>") for number, each in enumerate(CHAPTERS)}
    toc = "".join(f"<li><a href='{number}.xhtml'>{title}</a></li>" for number, title in enumerate(CHAPTERS))
    cover = '<item id="c" href="c.png" media-type="image/png" properties="cover-image"/>'
    return epub(pages, toc=f"<ol>{toc}</ol>", manifest=cover, files={"OEBPS/c.png": PNG})


@pytest.mark.parametrize("kind", ["m4b", "mp3"])
def test_a_server_makes_a_book(server: str, tmp_path: Path, recognize: Callable[..., str], kind: str) -> None:
    content = electronic_book()
    assert [chapter.title for chapter in read_document(content, "day.epub").chapters] == list(CHAPTERS)
    (tmp_path / "day.epub").write_bytes(content)
    out = tmp_path / f"day.{kind}"
    done = book(tmp_path, tmp_path / "day.epub", "-o", out, "--url", server, "--subtitles", "vtt")
    assert (done.returncode, done.stderr) == (0, "")
    (morning, first), (city, second) = hear(out, recognize)
    assert (morning, city) == ("In the morning", "In the city")
    assert {"morning", "bus", "late"} <= first, first
    assert {"city", "office", "six"} <= second, second
    assert "The office closes at six." in (tmp_path / "day.vtt").read_text()


def test_a_book_reads_words_as_a_file_says(server: str, tmp_path: Path, recognize: Callable[..., str]) -> None:
    (tmp_path / "day.md").write_text("# Morning\n\nPlease take the XKZ and the gate.\n")
    (tmp_path / "my words.txt").write_text("XKZ = train\n")
    words = ["--lexicon", tmp_path / "my words.txt"]
    for where in (["--url", server], ["--url", server], []):
        kept = httpx.get(f"{server}/v1/lexicons").json()["data"]
        other = httpx.post(f"{server}/v1/lexicons", files={"file": ("more.txt", "gate = door")}).json()["id"]
        ids = ["--lexicon", other] if where else []
        done = book(tmp_path, tmp_path / "day.md", "-o", tmp_path / "day.m4b", *where, *words, *ids)
        httpx.delete(f"{server}/v1/lexicons/{other}").raise_for_status()
        assert (done.returncode, done.stderr) == (0, "")
        ((_, heard),) = hear(tmp_path / "day.m4b", recognize)
        assert "train" in heard
        assert ("door" in heard) == bool(where)
    # The second command found what the first one had uploaded.
    assert [each["name"][:12] for each in kept].count("my words.txt") == 1
    (tmp_path / "my words.txt").write_text("XKZ\n")
    done = book(tmp_path, tmp_path / "day.md", "-o", tmp_path / "day.m4b", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "my words.txt: line 1" in done.stderr


def test_a_book_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "day.md").write_text(BOOK)
    out = tmp_path / "day.mp3"
    done = book(tmp_path, tmp_path / "day.md", "-o", out, "--title", "A day", "--author", "Nobody")
    assert (done.returncode, done.stderr) == (0, "")
    with av.open(str(out)) as container:
        assert [each["metadata"]["title"] for each in container.chapters()] == ["Morning", "Evening"]
        assert (container.metadata["title"], container.metadata["artist"]) == ("A day", "Nobody")
    assert not list((tmp_path / "data" / "books").iterdir())


def test_wrong_commands(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NIGHTINGALE_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "a.xyz").write_text("text")
    (tmp_path / "film.srt").write_text("1\n00:00:01,000 --> 00:00:03,000\nHello.\n")
    film, text = str(tmp_path / "film.srt"), str(tmp_path / "a.xyz")
    for arguments, message in (
        ((film, "-o", str(tmp_path / "film.mp3"), "--subtitles", "srt"), "over the document"),
        ((text, "-o", "a.wav"), "must end in"),
        ((text, "-o", str(tmp_path / "none" / "a.m4b")), "there is no folder"),
        ((text, "-o", str(tmp_path / "a.m4b"), "--url", server), "accepted are .txt"),
        ((text, "-o", str(tmp_path / "a.m4b"), "--url", "ftp://x"), "is not an address"),
        ((text, "-o", str(tmp_path / "a.m4b"), "--url", "http://127.0.0.1:9"), "127.0.0.1:9"),
    ):
        try:
            status: object = main.main(["book", *arguments])
        except SystemExit as exit_:
            status = exit_.code
        assert status in ((2,) if film in arguments else (1, 2))
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1, error
