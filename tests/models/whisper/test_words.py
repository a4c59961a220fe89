"""Tokens' times of one window (`make parity` has all sizes of medians and paths); punctuation and lengths of words."""

from __future__ import annotations

import numpy as np
import pytest

from models.whisper.alignment import AlignedWord, follow, median_filter, token_times, warp
from models.whisper.words import WindowSegment, add_words, last_word_end, merge_punctuation

END = 1000


def words(*given: tuple[str, float, float]) -> list[AlignedWord]:
    return [AlignedWord(word, [k], start, end, 0.9) for k, (word, start, end) in enumerate(given)]


def test_punctuation_joins_its_word() -> None:
    found = words(
        (' "', 0, 1), ("Yes", 1, 2), (",", 2, 3), ('"', 3, 4), (" he", 4, 5), (" (", 5, 6), ("said", 6, 7), (").", 7, 8)
    )
    merge_punctuation(found)
    assert [word.word for word in found if word.word] == [' "Yes,"', " he", " (said", ")."]
    assert [word.tokens for word in found if word.word] == [[0, 1, 2, 3], [4], [5, 6], [7]]


def test_words_are_shared_out_by_their_tokens() -> None:
    segments = [WindowSegment(10, 11, [0, 1, END]), WindowSegment(11, 12, [2, 3])]
    found = words((" one", 0.1, 0.3), (" two", 0.3, 0.6), (" three", 1.1, 1.3), (".", 1.3, 1.4))
    add_words(segments, found, 10.0, 9.9, END)
    assert [[word.word for word in segment.words] for segment in segments] == [[" one", " two"], [" three."]]
    assert segments[0].words[0].start == 10.1
    assert (segments[0].start, segments[0].end) == (10.1, 10.6)
    assert segments[1].start == 11.1


def test_a_long_mark_is_cut_and_so_is_a_long_word_after_it() -> None:
    found = words((" a", 0, 0.2), (" b", 0.2, 0.4), (".", 0.4, 3), (" c", 3, 6), (" d", 6, 6.2))
    segments = [WindowSegment(0, 6.2, [0, 1, 2, 3, 4])]
    add_words(segments, found, 0.0, 0.0, END)
    assert found[2].end == pytest.approx(0.8)
    assert found[3].start == pytest.approx(5.6)


def test_the_first_word_after_a_pause_is_not_long() -> None:
    segments = [WindowSegment(5.0, 6.0, [0, 1, 2])]
    add_words(segments, words((" a", 1, 5.4), (" b", 5.4, 5.6), (" c", 5.6, 5.8)), 0.0, 0.5, END)
    assert segments[0].words[0].start == pytest.approx(5.0)
    assert segments[0].start == pytest.approx(5.0)


def test_the_last_word_ends_with_its_segment() -> None:
    segments = [WindowSegment(0.0, 1.0, [0, 1])]
    add_words(segments, words((" a", 0, 0.4), (" b", 0.4, 3)), 0.0, 0.0, END)
    assert segments[0].words[-1].end == pytest.approx(1.1)
    assert segments[0].end == 1.0


def test_no_words() -> None:
    segments = [WindowSegment(0.0, 1.0, [END])]
    add_words(segments, [], 0.0, 0.0, END)
    assert segments[0].words == []
    assert last_word_end(segments) == 1.0
    assert last_word_end([]) is None


def test_few_frames_have_no_median() -> None:
    x = np.random.RandomState(0).standard_normal((2, 3, 3)).astype(np.float32)
    assert np.array_equal(median_filter(x), x)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
def test_one_row_or_one_column_is_the_path(shape: tuple[int, int]) -> None:
    rows, columns = warp(np.random.RandomState(0).standard_normal(shape))
    assert (rows.tolist(), columns.tolist()) == tuple(each.ravel().tolist() for each in np.indices(shape))


def test_tokens_begin_where_their_attention_begins() -> None:
    """Six tokens between a start sequence of 3 and the end, each listening to ten positions."""
    logits = np.zeros((2, 3 + 1 + 6 + 1, 100), np.float32)
    for token in range(7):
        logits[:, 3 + token, 10 * token : 10 * token + 10] = 8
    begins = token_times(follow(logits, 70, 3))
    assert len(begins) == 7
    assert np.abs(begins - np.arange(7) * 0.2).max() < 0.05
