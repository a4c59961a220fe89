"""Policies of live recognition on hypotheses that are known, and on random ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.audio.vad import SAMPLE_RATE
from app.recognition.agreement import POLICIES, AlignAtt, LocalAgreement, Policy, join, words_of
from app.recognition.utterance import OpenUtterance, is_plausible
from models.contract import RecognizedSegment, RecognizedWord


def segment(text: str, *, begin: float = 0.0, rate: float = 2.0, timed: bool = False) -> RecognizedSegment:
    """A segment with `rate` words a second."""
    end = begin + len(text.split()) / rate
    whole = RecognizedSegment(begin, end, text, "en")
    return replace(whole, words=tuple(words_of([whole]))) if timed else whole


def words(text: str) -> list[RecognizedWord]:
    return list(words_of([segment(text)]))


def pushed(policy: Policy, *texts: str) -> tuple[str, str]:
    for text in texts:
        policy.push(words(text), 100.0)
    return join(policy.agreed), join(policy.pending)


@pytest.mark.parametrize(
    ("texts", "agreed", "pending"),
    [
        ([" The cat"], "", "The cat"),
        ([" The cat", " The cat sat"], "The cat", "sat"),
        # Case and marks may change; the end of the audio invents a full stop.
        ([" the cat.", " The cat sat"], "The", "cat sat"),
        ([" The cat", " A dog", " A dog ran"], "A dog", "ran"),
        ([" The cat", " The cat sat", " A cat sat down"], "The cat sat", "down"),
        ([" The cat", " The cat sat", " The big cat sat on it"], "The cat sat", "on it"),
        ([" The cat", " The cat", ""], "The cat", ""),
        (["今天天气", "今天天气很好"], "今天天气", "很好"),
        (["สวัสดี", "สวัสดีครับ"], "สวัสดี", "ครับ"),
    ],
)
def test_local_agreement(texts: list[str], agreed: str, pending: str) -> None:
    assert pushed(LocalAgreement(), *texts) == (agreed, pending)


def test_align_att() -> None:
    def heard(text: str, *times: float) -> list[RecognizedWord]:
        return [replace(word, heard=time) for word, time in zip(words(text), times, strict=True)]

    policy = AlignAtt()
    policy.push(heard(" one two three", 0.5, 1.0, 1.9), 2.0)
    assert (join(policy.agreed), join(policy.pending)) == ("one two", "three")
    # The last word is never final, however old its audio.
    policy.push(heard(" one two three four", 0.5, 1.0, 1.9, 2.0), 9.0)
    assert join(policy.agreed) == "one two three"
    # Attention that goes far back tells nothing.
    policy.push(heard(" one two three four five six", 0.5, 1.0, 1.9, 7.0, 1.0, 1.0), 9.0)
    assert join(policy.agreed) == "one two three four"
    policy.push(words(" one two three four five six"), 9.0)
    assert join(policy.agreed) == "one two three four"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (" Hello, web-based world! ", [" Hello,", " web-based", " world! "]),
        ("日本は、2024年です。", ["日", "本", "は、", "2024", "年", "で", "す。"]),
        ("", []),
        ("   ", []),
        ("... a", ["...", " a"]),
    ],
)
def test_words(text: str, pieces: list[str]) -> None:
    found = list(words_of([RecognizedSegment(1.0, 2.0, text, "en")]))
    assert [word.text for word in found] == pieces
    assert all(1.0 <= word.start <= word.end <= 2.0 for word in found)


def test_times_of_words_stay() -> None:
    timed = (
        RecognizedWord(" web", 1.0, 1.5, 0.5),
        RecognizedWord("-based", 1.5, 2.0, 0.7),
        RecognizedWord(" x", 3, 4, 1),
    )
    found = list(words_of([RecognizedSegment(0, 5, " web-based x", "en", words=timed)]))
    assert [(word.text, word.start, word.end) for word in found] == [(" web-based", 1.0, 2.0), (" x", 3, 4)]


def test_what_does_not_look_like_speech() -> None:
    assert is_plausible([segment(" a b")])
    assert not is_plausible([replace(segment(" a"), compression=3.0)])
    assert not is_plausible([segment(" a"), replace(segment(" b"), mean_logprob=-1.5)])


TEXTS = st.lists(st.sampled_from(["one", "two", "Two.", "three", "four", "go", "今", "。", "-", "five!"]), max_size=30)


STEPS = st.lists(st.tuples(TEXTS, st.floats(0.1, 6.0), st.booleans()), max_size=12)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from(list(POLICIES)), TEXTS)
def test_committed_text_stays_whatever_is_heard(
    steps: list[tuple[list[str], float, bool]], policy: str, last: list[str]
) -> None:
    item = OpenUtterance(0, 1_000, POLICIES[policy]())  # type: ignore[index]
    covered, committed = 1_000, ""
    for texts, seconds, timed in steps:
        covered += round(seconds * SAMPLE_RATE)
        begin = item.begin / SAMPLE_RATE
        text = "".join(f" {one}" for one in texts)
        heard = [segment(text, begin=begin, rate=len(texts) / (covered / SAMPLE_RATE - begin) or 1, timed=timed)]
        item.take(heard if texts else [], covered)
        assert item.committed.startswith(committed)
        assert (item.committed + item.pending).strip() == join(item.words)
        assert 1_000 <= item.begin <= covered
        committed = item.committed
    item.end = covered
    item.heard = covered
    text = "".join(f" {one}" for one in last)
    final, segments = item.finish([segment(text, begin=item.begin / SAMPLE_RATE)] if last else [])
    assert final.startswith(committed)
    assert "".join("".join(each.text for each in segments).split()) == "".join(final.split())


def test_a_long_utterance_keeps_a_short_buffer() -> None:
    item = OpenUtterance(0, 0)
    for second in range(1, 120):
        begin = int(np.ceil(item.begin / 8_000))
        heard = tuple(
            RecognizedWord(f" w{count}{'.' if count % 9 == 8 else ''}", count / 2, count / 2 + 0.5, 1.0)
            for count in range(begin, 2 * second)
        )
        text = "".join(word.text for word in heard)
        item.take([RecognizedSegment(begin / 2, second, text, "en", words=heard)], second * SAMPLE_RATE)
        assert second - item.begin / SAMPLE_RATE <= 16
    assert item.committed.split()[:200] == [f"w{count}{'.' if count % 9 == 8 else ''}" for count in range(200)]
