"""Measuring marks: who is counted where, scores and their intervals, and a fit that finds what it was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.whisper.prosody import FEATURES, MARKS, mark_model
from training.ear.prosody import Heard, compare, intervals, scores
from training.ear.tunes import clauses, confusion, examples, fit, save


def pairs(counts: np.ndarray) -> set[tuple[str, str, int]]:
    return {(MARKS[a], MARKS[b], int(counts[a, b])) for a, b in zip(*np.nonzero(counts), strict=True)}


@pytest.mark.parametrize(
    ("said", "heard", "found"),
    [
        ("The fox runs.", "The fox runs?", {(".", "?", 1)}),
        ("Yes, it is.", "Yes it is.", {(",", "", 1), (".", ".", 1)}),
        ("The fox runs.", "The, fox runs.", {("", ",", 1), (".", ".", 1)}),
        ("The fox runs.", "The vox ran!", {(".", "!", 1)}),
        ("The fox runs.", "", {(".", "", 1)}),
        ("It is.", "It is. Yes!", {(".", ".", 1), ("", "!", 1)}),
        ("What is it?", "Well, what is it?", {("?", "?", 1), ("", ",", 1)}),
    ],
)
def test_marks_behind_aligned_words(said: str, heard: str, found: set[tuple[str, str, int]]) -> None:
    assert pairs(compare(said, heard)) == found


def test_scores() -> None:
    counts = np.zeros((5, 5), np.int64)
    counts[2, 2], counts[2, 3], counts[3, 3], counts[0, 3] = 6, 2, 4, 2
    found = scores(counts)
    assert found[MARKS.index(".") - 1] == pytest.approx(12 / 14)
    assert found[MARKS.index("?") - 1] == pytest.approx(8 / 12)
    assert np.isnan(found[[0, 3]]).all()
    assert found[-1] == pytest.approx((12 / 14 + 8 / 12) / 2)


def test_intervals_hold_the_score_and_are_paired() -> None:
    right, wrong = np.zeros((5, 5), np.int64), np.zeros((5, 5), np.int64)
    right[3, 3] = wrong[3, 2] = 1
    plain = [Heard("", right if number % 2 else wrong, ()) for number in range(100)]
    bounds = intervals(plain, plain)
    question = MARKS.index("?") - 1
    low, high = bounds[:, 0, question]
    assert low < scores(np.sum([one.counts for one in plain], axis=0))[question] < high
    assert (bounds[:, 2, question] == 0).all()
    better = intervals(plain, [Heard("", right, ())] * 100)
    assert better[0, 2, question] > 0


def test_clauses_have_no_marks() -> None:
    source = clauses(3)
    assert all(next(source).replace(" ", "").replace("'", "").isalpha() for _ in range(100))


def test_a_fit_finds_the_tunes_of_espeak(tmp_path: Path) -> None:
    features, marks = examples(["espeak:en-us"], 60, 1)
    assert features.shape == (len(marks), len(FEATURES))
    assert set(marks.tolist()) == set(range(len(MARKS)))
    model = fit(features, marks)
    table = confusion(model, features, marks)
    assert np.trace(table) > 0.7 * table.sum()
    save(model, tmp_path / "prosody.json")
    assert (tmp_path / "prosody.json").read_text().count("\n") == 10


def test_the_weights_in_the_repository_know_voices_that_they_did_not_hear() -> None:
    table = confusion(mark_model(), *examples(["espeak:en-us+f4"], 60, 5))
    asked, told = MARKS.index("?"), MARKS.index(".")
    assert table[asked, asked] > 0.6 * table[asked].sum()
    assert table[told, asked] + table[asked, told] <= 0.1 * (table[told].sum() + table[asked].sum())
