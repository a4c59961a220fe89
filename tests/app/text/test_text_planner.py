"""Plans for models that read text: nothing is lost or too long; pauses are those of other models."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text import markup
from app.text.errors import MarkupError, NothingToSpeakError
from app.text.phonemizer import get_phonemizer
from app.text.pieces import KOKORO_SYMBOLS
from app.text.planner import PARAGRAPH_PAUSE
from app.text.text_planner import TextPlanner
from app.text.types import Pause, SpeechSegment, Utterance


def plan(text: str, limit: int = 300, language: str = "en-us") -> list[SpeechSegment]:
    return list(TextPlanner(language).segments(text, symbols=frozenset(), max_phonemes=limit))


def read(text: str, limit: int = 300) -> list[str]:
    return [segment.phonemes for segment in plan(text, limit) if isinstance(segment, Utterance)]


def test_sentences_are_read_as_they_are_written() -> None:
    assert read("Dr. Smith paid $3.50. Really?\nYes!") == ["Dr. Smith paid $3.50.", "Really?", "Yes!"]


def test_of_markup_the_word_is_read_and_the_pause_kept() -> None:
    text = "I met [Nguyen](/wˈɪn/) here. [pause:0.5s] Good [day](/dˈA/)"
    first, pause, second = plan(text)
    assert first.phonemes == "I met Nguyen here."
    assert first.text == "I met [Nguyen](/wˈɪn/) here."
    assert pause == Pause(0.5)
    assert second.phonemes == "Good day"
    assert (second.char_start, second.char_end) == (text.index("Good"), len(text))
    assert second.words == ()


def test_a_pronunciation_where_a_sentence_begins_and_ends() -> None:
    text = "[Ada](/ˈAdə/) spoke. Then came [Bob](/bˈɑb/)."
    assert read(text) == ["Ada spoke.", "Then came Bob."]
    assert [each.text for each in plan(text)] == ["[Ada](/ˈAdə/) spoke.", "Then came [Bob](/bˈɑb/)."]


def test_paragraphs_are_apart_as_for_other_models() -> None:
    text = "One.\n\n\nTwo.\n\n[pause:1s]\n\nThree."
    seconds = [segment.seconds for segment in plan(text) if isinstance(segment, Pause)]
    other = get_phonemizer("en-us").segments(text)
    assert seconds == [segment.seconds for segment in other if isinstance(segment, Pause)] == [PARAGRAPH_PAUSE, 1.0]


def test_long_sentences_are_cut_at_clauses() -> None:
    clause = "and then the people of the village took the ferry across the river, "
    pieces = read("Once upon a time, " + clause * 12 + "and that was that.", 120)
    assert len(pieces) > 6
    assert all(len(piece) <= 120 for piece in pieces)
    assert all(piece.endswith((",", ".")) for piece in pieces)


def test_what_cannot_be_read_is_left_out() -> None:
    assert read("Well. ... — !!! \n\n***\n\nYes.") == ["Well. ... — !!!", "Yes."]
    for nothing in ("", "...", " \n ", "😀 !", "[pause:1s]"):
        with pytest.raises(NothingToSpeakError):
            plan(nothing)


def test_malformed_markup_is_refused_before_anything_is_read() -> None:
    with pytest.raises(MarkupError):
        TextPlanner("en-us").segments("Good. [pause:ever]", symbols=frozenset(), max_phonemes=300)


WORDS = ["Hello", "the", "a", "$3.50", "Dr.", "e.g.", "[laugh]", "日本語", "don't", "“", "”", ".", "!", "?", "…", "—",
         "\n", "\n\n", "[pause:0.5s]", "[Kokoro](/kˈOkəɹO/)", "1.", "-", "x" * 40]  # fmt: skip
texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(["", " ", ". "])), max_size=30).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)


@settings(max_examples=300, deadline=None)
@given(texts, st.sampled_from([1, 7, 30, 300]))
def test_no_letter_is_lost_and_no_limit_passed(text: str, limit: int) -> None:
    try:
        marks = markup.parse(text)
        segments = plan(text, limit)
    except (MarkupError, NothingToSpeakError):
        return
    utterances = [segment for segment in segments if isinstance(segment, Utterance)]
    last = (0, 0)
    for utterance in utterances:
        assert utterance.char_start < utterance.char_end
        assert last[1] <= utterance.char_start or last == (utterance.char_start, utterance.char_end)
        last = (utterance.char_start, utterance.char_end)
        assert utterance.text == text[utterance.char_start : utterance.char_end]
        assert 0 < len(utterance.phonemes) <= limit
    expected = ""
    position = 0
    for mark in marks:
        expected += text[position : mark.start]
        position = mark.end
        if isinstance(mark, markup.Pronunciation):
            expected += text[mark.word_start : mark.word_end]
    expected += text[position:]
    spoken = "".join(utterance.phonemes for utterance in utterances)
    assert re.sub(r"[\W_]", "", spoken) == re.sub(r"[\W_]", "", expected)


def test_a_text_with_nothing_to_say_leaves_turns_to_others() -> None:
    text = "! " * 20_000 + "Good."
    for planner in (get_phonemizer("en-us"), TextPlanner("en-us")):
        segments = list(planner.segments(text, symbols=KOKORO_SYMBOLS, max_phonemes=510))
        assert isinstance(segments[-1], Utterance)
        assert segments[-1].text.endswith("Good.")
        # No step reads more than a few sentences.
        assert len(segments) > 5
        assert all(segment == Pause(0.0) for segment in segments[:-1])
