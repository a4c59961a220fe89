"""Inline pronunciations and pauses."""

from __future__ import annotations

import pytest

from app.errors import MarkupError, NothingToSpeakError
from app.text import marks
from app.text.planner import get_phonemizer
from app.text.sentence_buffer import SentenceBuffer
from app.text.types import Pause, PhonemizedSentence


def test_a_pronunciation_is_obeyed_and_its_word_found() -> None:
    text = "Ask [Nguyen](/wˈɪn/) now."
    (utterance,) = get_phonemizer("en").segments(text)
    assert utterance.phonemes == "ˈæsk wˈɪn nˈW."
    word = utterance.words[1]
    assert (word.text, text[word.char_start : word.char_end]) == ("Nguyen", "Nguyen")
    assert utterance.phonemes[word.phoneme_start : word.phoneme_end] == "wˈɪn"


def test_a_possessive_follows_its_pronunciation() -> None:
    (utterance,) = get_phonemizer("en").segments("[Kokoro](/kˈOkəɹO/)'s voice")
    assert utterance.phonemes == "kˈOkəɹOz vˈYs"


def test_common_ipa_becomes_kokoros() -> None:
    (mark,) = marks.parse("[gate](/ɡeɪt/)")
    assert mark.phonemes == "ɡAt"


@pytest.mark.parametrize(
    ("mark", "seconds"), [("0.5s", 0.5), ("500ms", 0.5), ("10s", 10.0), (" 1 S ", 1.0), (".25s", 0.25)]
)
def test_a_pause_separates_utterances(mark: str, seconds: float) -> None:
    segments = list(get_phonemizer("en").segments(f"One[pause:{mark}]two"))
    assert [type(segment) for segment in segments] == [PhonemizedSentence, Pause, PhonemizedSentence]
    assert segments[1] == Pause(seconds)


@pytest.mark.parametrize(
    "text",
    ["a [pause:] b", "a [pause:5] b", "a [pause:-1s] b", "a [pause:1e3s] b", "a [pause:1s b", "a [pause:10.1s] b",
     "a [pause:99999ms] b", "a [pause:half a second] b"],
)  # fmt: skip
def test_a_bad_pause_is_refused_at_once_with_the_right_form(text: str) -> None:
    with pytest.raises(MarkupError, match="seconds"):
        get_phonemizer("en").segments(text)


@pytest.mark.parametrize(("text", "reason"), [("[a](/❓/)", "❓"), ("[a](/ /)", "empty"), ("[a](//)", "empty"),
                                              ("[a](/" + "a" * 201 + "/)", "at most 200")])  # fmt: skip
def test_a_bad_pronunciation_is_refused_at_once(text: str, reason: str) -> None:
    with pytest.raises(MarkupError, match=reason):
        get_phonemizer("en").segments(text)


def test_other_brackets_are_text() -> None:
    (utterance,) = get_phonemizer("en").segments("see [docs](/path/to) [1]")
    assert [word.text for word in utterance.words] == ["see", "docs", "path", "to", "1"]


def test_only_pauses_is_nothing_to_speak() -> None:
    with pytest.raises(NothingToSpeakError):
        list(get_phonemizer("en").segments("[pause:1s] ... [pause:1s]"))


def test_paragraphs_are_set_apart() -> None:
    segments = list(get_phonemizer("en").segments("One.\n\nTwo.\n\n[pause:2s]\n\nThree."))
    assert [segment.seconds for segment in segments if isinstance(segment, Pause)] == [None, 2.0]


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ('a <phoneme alphabet="ipa" ph="wˈɪn">Nguyen</phoneme> b', "wˈɪn"),
        ("a <phoneme alphabet='x-sampa' ph='w\"In'>Nguyen</phoneme> b", "wˈɪn"),
        ('a <phoneme alphabet="cmu-arpabet" ph="W IH1 N">Nguyen</phoneme> b', "wˈɪn"),
        (r'a \{"word": "Nguyen", "pronounce": "wˈɪn"\} b', "wˈɪn"),
        ('a {"word":"Nguyen","pronounce":"wˈɪn"} b', "wˈɪn"),
    ],
)
def test_pronunciations_of_other_services(text: str, phonemes: str) -> None:
    (utterance,) = get_phonemizer("en").segments(text)
    assert [word.text for word in utterance.words] == ["a", "Nguyen", "b"]
    word = utterance.words[1]
    assert utterance.phonemes[word.phoneme_start : word.phoneme_end] == phonemes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [('One <break time="2.0s" /> two', 2.0), ("One <break time='250ms'></break> two", 0.25), ("One <break/> two", 0.5),
     ('One <break strength="strong"/> two', 0.8), (r"One \{pause:1s\} two", 1.0)],
)  # fmt: skip
def test_pauses_of_other_services(text: str, seconds: float) -> None:
    assert list(get_phonemizer("en").segments(text))[1] == Pause(seconds)


@pytest.mark.parametrize(
    "text",
    ['It is. <break time="1.5s" /> Late.', 'Ask. <phoneme alphabet="ipa" ph="wˈɪn">Ng. Uyen</phoneme> now.',
     r"It is. \{pause:1s\} Late.", "It is. [pause:1s] Late."],
)  # fmt: skip
def test_a_mark_cut_anywhere_stays_whole(text: str) -> None:
    for size in range(1, 8):
        buffer = SentenceBuffer("en-us")
        pieces = [piece for start in range(0, len(text), size) for piece in buffer.feed(text[start : start + size])]
        pieces += buffer.flush()
        assert "".join(pieces) == text
        whole = {text[mark.start : mark.end] for mark in marks.parse(text)}
        assert {piece[mark.start : mark.end] for piece in pieces for mark in marks.parse(piece)} == whole


def test_signs_that_begin_no_mark_hold_nothing_back() -> None:
    buffer = SentenceBuffer("en-us")
    assert buffer.feed("We have 5 < 6 {now}. I <3 you. Then what <b is it? Yes ") != []
