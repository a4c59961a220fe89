"""Times of words, from the ends of their phonemes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.speech.sentence import LATE, Origin, SubmittedSentence
from app.text.types import PhonemizedSentence, WordSpan
from models.contract import SpeechRequest

PHONEMES = "hi, ju tu."
"""Two words after a first one with a comma, whose spaces are of 0.1 and 0.2 s."""
ENDS = (0.4, 0.5, 0.8, 0.9, 1.0, 1.1, 1.3, 1.4, 1.5, 1.9)


def a_sentence(phonemes: str = PHONEMES) -> SubmittedSentence:
    spans = [("hi", 0, 2), ("you", 4, 6), ("two", 7, 9)]
    words = tuple(WordSpan(text, start, end, start, end) for text, start, end in spans)
    speech: Any = SimpleNamespace(synthesizer=SimpleNamespace(sample_rate=24_000), gain=1.0)
    utterance = PhonemizedSentence(phonemes, 0, len(phonemes), phonemes, words)
    return SubmittedSentence(utterance, Origin(), speech, SpeechRequest(phonemes, phonemes, "a"), None)  # type: ignore[arg-type]


def test_words_meet_in_the_middle_of_a_space_three_frames_earlier() -> None:
    sentence = a_sentence()
    sentence.phoneme_ends.extend(ENDS)
    (_, *one), (_, *two), (_, *three) = [
        (word.text, word.start, word.end) for word in sentence.take_words(0.0, 0.0, 9.0)
    ]
    assert (one, two, three) == (
        pytest.approx([0.0, 0.5 - LATE]),
        pytest.approx([0.85 - LATE, 1.2 - LATE]),
        pytest.approx([1.2 - LATE, 1.5 - LATE]),
    )


def test_no_word_lies_in_the_silence_around_the_sound() -> None:
    sentence = a_sentence()
    sentence.begin = 10.0
    sentence.phoneme_ends.extend(ENDS)
    words = sentence.take_words(-0.1, 0.45, 1.4)
    assert [word.start for word in words] == pytest.approx([10.45, 10.95 - LATE, 11.3 - LATE])
    assert words[-1].end == pytest.approx(11.4)
    quiet = a_sentence()
    quiet.phoneme_ends.extend(ENDS)
    assert {word.end for word in quiet.take_words(0.0, 0.3, 0.0)} == {0.0}


def test_a_word_waits_for_the_space_after_it() -> None:
    sentence = a_sentence()
    sentence.phoneme_ends.extend(ENDS[:6])
    assert [word.text for word in sentence.take_words(0.0, 0.0, 9.0)] == ["hi"]
    sentence.phoneme_ends.extend(ENDS[6:7])
    assert [word.text for word in sentence.take_words(0.0, 0.0, 9.0)] == ["you"]
