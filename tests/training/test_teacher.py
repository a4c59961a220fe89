"""Shards of the teacher's audio. flite itself is not needed: its output is text and samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training.teacher import (
    Recording,
    batched,
    jobs_for,
    parse_phones,
    plain,
    read_corpus,
    read_shard,
    shards_in,
    write_shard,
)


def recording(tokens: int, samples: int, voice: int) -> Recording:
    rng = np.random.default_rng(tokens)
    return Recording(
        rng.integers(0, 178, tokens).astype(np.int16),
        rng.integers(1, 9, tokens).astype(np.int16),
        rng.integers(-999, 999, samples).astype(np.int16),
        voice,
    )


def test_phones_are_read_from_flites_line() -> None:
    assert parse_phones("pau:0.232 y:0.278 eh:0.427 s:0.662 pau:0.751 \n") == [
        ("pau", 0.232),
        ("y", 0.278),
        ("eh", 0.427),
        ("s", 0.662),
        ("pau", 0.751),
    ]


def test_a_shard_gives_back_what_was_written(tmp_path: Path) -> None:
    written = [recording(7, 400, 0), recording(3, 900, 1), recording(12, 100, 1)]
    write_shard(tmp_path / "00000.npz", written)
    for before, after in zip(written, read_shard(tmp_path / "00000.npz"), strict=True):
        assert np.array_equal(before.ids, after.ids)
        assert np.array_equal(before.durations, after.durations)
        assert np.array_equal(before.audio, after.audio)
        assert before.voice == after.voice


def test_an_unfinished_shard_is_not_seen(tmp_path: Path) -> None:
    write_shard(tmp_path / "00001.npz", [recording(3, 100, 0)])
    (tmp_path / "00000.part.npz").write_bytes(b"half")
    assert [path.name for path in shards_in(tmp_path)] == ["00001.npz"]


def test_voices_take_turns() -> None:
    lines = [("One.", "wˈʌn."), ("Two.", "tˈu."), ("Three.", "θɹˈi.")]
    jobs = jobs_for(lines, ["rms:0:3", "slt:1:2"])
    assert [(job.voice, job.text) for job in jobs] == [
        ("rms", "One."),
        ("slt", "Two."),
        ("rms", "Two."),
        ("rms", "Three."),
    ]


@pytest.mark.parametrize("part", ["rms", "rms:0", "kal:0:5"])
def test_a_bad_part_says_what_is_accepted(part: str) -> None:
    with pytest.raises(ValueError, match=r"must be voice:start:stop with a voice of rms, slt"):
        jobs_for([("One.", "wˈʌn.")], [part])


def test_the_corpus_is_read_by_columns(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text("short\tYes.\tjˈɛs.\n", encoding="utf-8")
    assert read_corpus(path) == [("Yes.", "jˈɛs.")]


def test_batches_leave_nothing_out() -> None:
    items = [recording(3, 10, 0) for _ in range(7)]
    assert [len(batch) for batch in batched(items, 3)] == [3, 3, 1]


def test_marks_that_flite_skips_become_ones_it_pauses_at() -> None:
    assert plain("Wait — no… go—now.") == "Wait, no... go, now."
