"""Durations from a teacher's phone timings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.alignment import (
    PAUSE,
    PHONE_SYMBOLS,
    PUNCTUATION,
    SILENT,
    AlignmentError,
    align,
    at_least_one_frame,
    isotonic,
    units_of,
)

PHONEMES = st.text(alphabet=sorted(set("".join(PHONE_SYMBOLS.values())) | SILENT), min_size=1, max_size=60)


@st.composite
def utterances(draw: st.DrawFn) -> tuple[str, list[tuple[str, float]], int]:
    """Any phonemes with any phones: what the teacher said need not fit."""
    names = draw(st.lists(st.sampled_from([*PHONE_SYMBOLS, PAUSE]), min_size=1, max_size=60))
    lengths = draw(st.lists(st.floats(0.005, 0.4), min_size=len(names) + 2, max_size=len(names) + 2))
    phones, end = [], 0.0
    for name, seconds in zip([PAUSE, *names, PAUSE], lengths, strict=True):
        end += seconds
        phones.append((name, end))
    return draw(PHONEMES), phones, round(end * 40)


@given(utterances())
def test_every_token_gets_a_frame_and_all_frames_are_given(
    utterance: tuple[str, list[tuple[str, float]], int],
) -> None:
    phonemes, phones, frames = utterance
    sounds = any(symbol not in SILENT for symbol in phonemes)
    if not sounds or frames < len(phonemes) + 2:
        with pytest.raises(AlignmentError):
            align(phonemes, phones, frames)
        return
    found = align(phonemes, phones, frames)
    assert len(found.durations) == len(phonemes) + 2
    assert min(found.durations) >= 1
    assert sum(found.durations) == frames
    assert found.cost >= 0


@given(st.lists(st.floats(-50, 400), min_size=1, max_size=80), st.integers(0, 300))
def test_boundaries_are_kept_in_order_within_the_utterance(ends: list[float], spare: int) -> None:
    frames = len(ends) + 1 + spare
    durations = at_least_one_frame(ends, frames)
    assert len(durations) == len(ends) + 1
    assert min(durations) >= 1
    assert sum(durations) == frames


def test_boundaries_that_already_fit_do_not_move() -> None:
    assert at_least_one_frame([3.0, 5.0, 11.0], 20) == [3, 2, 6, 9]


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(AlignmentError, match="2 frames cannot hold 3 tokens"):
        at_least_one_frame([1.0, 2.0], 2)


@given(st.lists(st.floats(-100, 100), max_size=50))
def test_isotonic_is_ordered_and_keeps_the_mean(values: list[float]) -> None:
    fitted = isotonic(values)
    assert fitted == sorted(fitted)
    assert sum(fitted) == pytest.approx(sum(values), abs=1e-6)


def test_isotonic_leaves_ordered_values() -> None:
    assert isotonic([1.0, 2.0, 2.0, 7.0]) == [1.0, 2.0, 2.0, 7.0]


def test_phones_land_on_their_phonemes() -> None:
    """ "Yes." as flite times it: 0.232 s of silence, y, eh, s, silence."""
    phones = [("pau", 0.232), ("y", 0.278), ("eh", 0.427), ("s", 0.662), ("pau", 0.751)]
    found = align("jˈɛs.", phones, 30)
    assert found.cost == 0
    boundary, j, stress, vowel, s, stop, closing = found.durations
    assert boundary == pytest.approx(0.232 * 40, abs=1)
    assert j + stress + vowel == pytest.approx((0.427 - 0.232) * 40, abs=2)
    assert s == pytest.approx((0.662 - 0.427) * 40, abs=2)
    assert stop + closing == pytest.approx(30 - 0.662 * 40, abs=2)


def test_an_inner_pause_belongs_to_its_comma() -> None:
    phones = [("pau", 0.2), ("ow", 0.4), ("pau", 0.9), ("n", 1.0), ("ow", 1.2), ("pau", 1.4)]
    found = align("ˈO, nˈO.", phones, 56)
    comma = found.durations[1 + "ˈO, nˈO.".index(",")]
    assert comma >= 18


def test_a_teacher_that_says_something_else_costs_much() -> None:
    phones = [("pau", 0.2), ("s", 0.3), ("iy", 0.4), ("m", 0.5), ("pau", 0.8)]
    assert align("kɹˈæb.", phones, 32).cost > 0.3


@pytest.mark.parametrize(
    ("phones", "message"),
    [([("pau", 0.2), ("zz", 0.3), ("pau", 0.5)], "'zz' is not known"), ([("s", 0.3), ("pau", 0.5)], "begin and end")],
)
def test_bad_phones_are_named(phones: list[tuple[str, float]], message: str) -> None:
    with pytest.raises(AlignmentError, match=message):
        align("sˈ", phones, 20)


def test_er_is_two_units() -> None:
    units = units_of([("pau", 0.1), ("er", 0.3), ("pau", 0.5)])
    assert [unit.symbol for unit in units] == ["ɜ", "ɹ"]
    assert units[0].end == units[1].start == pytest.approx(0.2)
    assert units[1].end == 0.3


def test_punctuation_alone_has_no_alignment() -> None:
    with pytest.raises(AlignmentError, match="nothing sounds"):
        align("".join(sorted(PUNCTUATION)), [("pau", 0.1), ("s", 0.3), ("pau", 0.5)], 60)
