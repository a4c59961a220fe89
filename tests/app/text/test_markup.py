"""Inline pronunciations and pauses."""

from __future__ import annotations

import pytest

from app.text import markup
from app.text.errors import MarkupError, NothingToSpeakError
from app.text.planner import get_phonemizer
from app.text.types import Pause, Utterance


def test_a_pronunciation_is_obeyed_and_its_word_found() -> None:
    text = "Ask [Nguyen](/wˈɪn/) now."
    (utterance,) = get_phonemizer("en").segments(text)
    assert isinstance(utterance, Utterance)
    assert utterance.phonemes == "ˈæsk wˈɪn nˈW."
    word = utterance.words[1]
    assert (word.text, text[word.char_start : word.char_end]) == ("Nguyen", "Nguyen")
    assert utterance.phonemes[word.phoneme_start : word.phoneme_end] == "wˈɪn"


def test_a_possessive_follows_its_pronunciation() -> None:
    (utterance,) = get_phonemizer("en").segments("[Kokoro](/kˈOkəɹO/)'s voice")
    assert isinstance(utterance, Utterance)
    assert utterance.phonemes == "kˈOkəɹOz vˈYs"


def test_common_ipa_becomes_kokoros() -> None:
    (mark,) = markup.parse("[gate](/ɡeɪt/)")
    assert isinstance(mark, markup.Pronunciation)
    assert mark.phonemes == "ɡAt"


@pytest.mark.parametrize(
    ("mark", "seconds"), [("0.5s", 0.5), ("500ms", 0.5), ("10s", 10.0), (" 1 S ", 1.0), (".25s", 0.25)]
)
def test_a_pause_separates_utterances(mark: str, seconds: float) -> None:
    segments = list(get_phonemizer("en").segments(f"One[pause:{mark}]two"))
    assert [type(segment) for segment in segments] == [Utterance, Pause, Utterance]
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
    assert isinstance(utterance, Utterance)
    assert [word.text for word in utterance.words] == ["see", "docs", "path", "to", "1"]


def test_only_pauses_is_nothing_to_speak() -> None:
    with pytest.raises(NothingToSpeakError):
        get_phonemizer("en").segments("[pause:1s] ... [pause:1s]")


def test_paragraphs_are_set_apart() -> None:
    segments = list(get_phonemizer("en").segments("One.\n\nTwo.\n\n[pause:2s]\n\nThree."))
    assert [segment.seconds for segment in segments if isinstance(segment, Pause)] == [0.35, 2.0]
