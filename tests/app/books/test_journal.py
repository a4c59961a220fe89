"""Journal of a chapter: what is whole stays, what was broken off goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.audio.subtitles import Cue
from app.books.journal import ChapterJournal, read_records, read_samples, samples_path


def loud(samples: int, level: float = 0.5) -> np.ndarray:
    return np.full(samples, level, np.float32)


def test_passages_are_kept(tmp_path: Path) -> None:
    with ChapterJournal(tmp_path, 3) as journal:
        journal.write(loud(10))
        journal.write(loud(5))
        journal.finish(7, [Cue(0.0, 1.0, "ä\n")])
        journal.finish(2, failed=True)
    with ChapterJournal(tmp_path, 3) as journal:
        assert [(each.start, each.end, each.failed) for each in journal.records] == [(0, 15, False), (15, 15, True)]
        assert journal.records[0].cues == (Cue(0.0, 1.0, "ä\n"),)
        journal.write(loud(4, -2.0))
        journal.finish(1)
    assert len(read_records(tmp_path, 3)) == 3
    pcm = np.concatenate(list(read_samples(tmp_path, 3, 14, 19)))
    np.testing.assert_allclose(pcm, [0.5, -1, -1, -1, -1], atol=1e-4)


def test_a_passage_that_was_broken_off_is_dropped(tmp_path: Path) -> None:
    journal = ChapterJournal(tmp_path, 0)
    journal.write(loud(8))
    journal.finish(1)
    journal.write(loud(100))
    journal.close()  # as a process that ends
    with (tmp_path / "00000.jsonl").open("ab") as lines:
        lines.write(b'{"start": 8, "en')
    with ChapterJournal(tmp_path, 0) as again:
        assert again.length == 8
        again.write(loud(2))
        again.finish(1)
    assert [each.end for each in read_records(tmp_path, 0)] == [8, 10]
    assert samples_path(tmp_path, 0).stat().st_size == 20


def test_lines_ahead_of_the_samples_are_dropped(tmp_path: Path) -> None:
    with ChapterJournal(tmp_path, 0) as journal:
        for _ in range(3):
            journal.write(loud(8))
            journal.finish(1)
    with samples_path(tmp_path, 0).open("ab") as file:
        file.truncate(2 * 20)
    with ChapterJournal(tmp_path, 0) as journal:
        assert [each.end for each in journal.records] == [8, 16]
    assert samples_path(tmp_path, 0).stat().st_size == 32


def test_another_attempt_begins_anew(tmp_path: Path) -> None:
    with ChapterJournal(tmp_path, 0) as journal:
        journal.write(loud(8))
        journal.finish(1)
        journal.write(loud(3))
        journal.rewind()
        journal.write(loud(5))
        assert journal.finish(1).end == 13
