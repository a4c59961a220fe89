"""Rules of the next token, each on scripted transcripts."""

from __future__ import annotations

import numpy as np
import pytest

from models.whisper.rules import TimestampRules, TokenRules, log_sum_exp
from tests.models.whisper.builder import tokenizer

TEXT, END, NO_TIMES, FIRST, SIZE = 10, 100, 105, 106, 120
TEXTS, TIMES = set(range(END)), set(range(FIRST, SIZE))


def allowed(sampled: list[int], latest: int | None = None, logits: np.ndarray | None = None) -> set[int]:
    """Tokens that may come after `sampled`; text and end are so likely that timestamps do not replace them."""
    if logits is None:
        logits = np.zeros(SIZE, np.float32)
        logits[[TEXT, END]] = 20
    row = logits[None].copy()
    TimestampRules(END, FIRST, NO_TIMES, latest).apply(row, [sampled])
    return set(np.flatnonzero(np.isfinite(row[0])).tolist())


def test_the_first_token_is_a_timestamp() -> None:
    assert allowed([]) == TIMES
    assert allowed([], latest=3) == {FIRST, FIRST + 1, FIRST + 2, FIRST + 3}


def test_text_follows_an_opening_timestamp() -> None:
    assert allowed([FIRST + 2]).isdisjoint(TIMES)
    assert allowed([FIRST, TEXT, FIRST + 3, FIRST + 3]).isdisjoint(TIMES)


def test_a_closing_timestamp_is_followed_by_an_opening_one_or_the_end() -> None:
    """It may repeat the time at which the segment ended, and never go back."""
    found = allowed([FIRST, TEXT, FIRST + 3])
    assert found & TIMES == {token for token in TIMES if token >= FIRST + 3}
    assert found.isdisjoint(TEXTS)
    assert END in found


def test_times_never_go_back_and_segments_have_a_length() -> None:
    """By value, not by place in the list."""
    found = allowed([FIRST + 5, TEXT, TEXT])
    assert found & TIMES == {token for token in TIMES if token > FIRST + 5}
    assert found >= TEXTS


def test_no_timestamps_never_comes() -> None:
    assert all(NO_TIMES not in allowed(tokens) for tokens in ([], [FIRST], [FIRST, TEXT]))


@pytest.mark.parametrize(("each", "text_may_come"), [(0.0, False), (-3.0, True)])
def test_many_unlikely_timestamps_beat_one_likely_text(each: float, text_may_come: bool) -> None:
    logits = np.full(SIZE, -50, np.float32)
    logits[TEXT] = 1
    logits[FIRST:] = each  # 8 of them are allowed
    found = allowed([FIRST + 5, TEXT], logits=logits)
    assert (TEXT in found) == text_may_come
    assert FIRST + 6 in found


def test_the_end_counts_as_text() -> None:
    logits = np.full(SIZE, -50, np.float32)
    logits[END], logits[FIRST:] = 5, 1
    assert END in allowed([FIRST, TEXT], logits=logits)


def test_blank_at_the_beginning_and_suppressed_tokens() -> None:
    one = tokenizer()
    rules = TokenRules.of(one, timestamps=False, suppress_blank=True, latest=None)
    for sampled, blank in (([], True), ([7], False)):
        logits = np.zeros((1, 51865), np.float32)
        rules.apply(logits, [sampled])
        forbidden = set(np.flatnonzero(~np.isfinite(logits[0])).tolist())
        assert forbidden == {*one.suppressed, *(one.blank if blank else ())}
    assert {one.start, one.translate, one.transcribe, one.no_speech, one.start_of_previous} <= set(one.suppressed)
    assert one.end not in one.suppressed
    assert one.no_timestamps not in one.suppressed
    few = TokenRules.of(one, timestamps=True, suppress_blank=False, latest=1.0)
    assert few.timestamps.latest == 50
    assert not few.blank


def test_log_sum_exp() -> None:
    assert log_sum_exp(np.log(np.array([1, 2, 3], np.float32)))[0] == pytest.approx(np.log(6))
    assert log_sum_exp(np.full(4, -np.inf, np.float32))[0] == -np.inf
