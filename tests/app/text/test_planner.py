"""Plans of any text keep all its words, for models that read phonemes and for models that read text."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.errors import MarkupError, NothingToSpeakError, ServiceError
from app.text import marks
from app.text.markup import ENTITY, TAG
from app.text.pieces import KOKORO_SYMBOLS
from app.text.planner import TextPlanner, get_phonemizer
from app.text.types import Pause, PhonemizedSentence, Reading, SpeechSegment

CASES = json.loads(Path(__file__).with_name("planner_cases.json").read_text(encoding="utf-8"))
ALNUM_RUN = re.compile(r"[^\W_⁰¹²³⁴-⁹]+")  # raised digits may be numbers of notes

_WORDS = [
    "hello", "world", "the", "a", "an", "to", "in", "used", "read", "live", "close", "record", "U.S.", "Dr.", "Mr.",
    "St.", "e.g.", "i.e.", "No.", "5", "$5", "$3.50", "€20", "15€", "25%", "3/4", "1,234", "3.14", "-5", "1990s",
    "21st", "10-20", "5km", "25°C", "5:30", "p.m.", "2024-03-05", "3/4/2024", "https://a.example.com/x?y=1",
    "bob@example.com", "#NewThing", "@some_one", "mp3", "COVID-19", "GPT4", "NASA", "KUBERNETES", "well-known",
    "don't", "it's", "dogs'", "'tis", "café", "naïve", "日本語", "Привет", "½", "2½", "x²", "…", "—", "--", "(", ")",
    '"', "“", "”", "'", ",", ".", "!", "?", ";", ":", "[", "]", "[pause:0.5s]", "[Kokoro](/kˈOkəɹO/)", "&", "+",
    "=", "😀", "zyzzyva", "_", "*", "#", "/", "I", "II", "IV", "Chapter", "Louis", "XIV", "May", "March", "5'11\"",
    "<b>", "</b>", "<br/>", "&amp;", "&#39;", "&nbsp;", "&", "Dec 3", "Mon-Fri", "3-5pm", "$3-5", "£5m-£10m", "5GB/s",
    "2 tsp.", "apt. 5C", "020 7946 0958", "4111 1111 1111 1111", "CA 90210", "192.168.0.1:8080", "10^-3", ">5", "<3",
    "EUR 20", "/etc/hosts", "C:\\Users", "2h 30m", "1 000 000", "5\"", "6' tall", "221B Baker St", "2001:db8::1", "¶ 3",
    "(555)", "123-4567", "192.168.0.1", "v2.0.1", "12345678901234567890",
    "\n", "\n\n", "pro\u00adnun\u200bce", "25 ℃", "5㎏", "word¹", "Chapter 01", "==", "+++",
    "strik-\ning", "2\u202f500", "8s", "2m", "500k", "ºC",
]  # fmt: skip
plausible = st.lists(
    st.tuples(st.sampled_from(_WORDS), st.sampled_from(["", " ", " ", " ", ", ", ". "])), max_size=25
).map(lambda parts: "".join(word + gap for word, gap in parts))
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(text: str, language: str = "en-us", max_phonemes: int = 510) -> None:
    """Assert the promises on the segments of `text`, or that it is refused with a ServiceError."""
    try:
        found = marks.parse(text)
        segments = list(get_phonemizer(language).segments(text, max_phonemes=max_phonemes))
    except ServiceError as error:
        assert str(error)
        return
    utterances = [segment for segment in segments if isinstance(segment, PhonemizedSentence)]
    assert utterances
    assert all(0 < (segment.seconds or 1) <= 10 for segment in segments if isinstance(segment, Pause))
    covered = [False] * len(text)
    last_character = 0
    for utterance in utterances:
        assert 0 < len(utterance.phonemes) <= max_phonemes
        assert KOKORO_SYMBOLS.issuperset(utterance.phonemes)
        assert utterance.text == text[utterance.char_start : utterance.char_end]
        assert utterance.words
        last_phoneme = 0
        for word in utterance.words:
            assert last_character <= word.char_start <= word.char_end
            assert word.text == text[word.char_start : word.char_end]
            assert last_phoneme <= word.phoneme_start < word.phoneme_end <= len(utterance.phonemes)
            assert utterance.phonemes[word.phoneme_start : word.phoneme_end].strip()
            last_character, last_phoneme = word.char_end, word.phoneme_end
            covered[word.char_start : word.char_end] = [True] * (word.char_end - word.char_start)
    for mark in found:  # the brackets, the phonemes and the pauses are not spoken themselves
        inside = range(mark.start, mark.end)
        if isinstance(mark, Reading):
            assert all(covered[mark.word_start : mark.word_end])
        for i in inside:
            covered[i] = True
    for unseen in (*TAG.finditer(text), *ENTITY.finditer(text)):
        covered[unseen.start() : unseen.end()] = [True] * len(unseen.group())
    lost = [run.group() for run in ALNUM_RUN.finditer(text) if not all(covered[run.start() : run.end()])]
    assert not lost


@quick
@given(plausible)
@example("It cost $5. About $3.50, $5 million, -$4, 15 € and 3k€.")
@example("'s")
@example("[a](/ɐ/)'s [b](/bˈi/)b")
def test_plausible_english_is_spoken_whole(text: str) -> None:
    check(text)


@quick
@given(st.text(max_size=60))
@example("ﷺ ꙮ 𐌰 ⅷ ① ٣ ₂ \u0301a\u200b ª")
@example("a\u2028b.\u2029C ==\u00ad\n25℃Word")
def test_any_unicode_is_spoken_whole_or_refused(text: str) -> None:
    check(text)


@quick
@given(plausible, st.integers(1, 60))
def test_small_models_get_small_utterances(text: str, max_phonemes: int) -> None:
    check(text, max_phonemes=max_phonemes)


_OTHERS = ["en-gb", "de", "es", "fr-fr", "hi", "it", "pt-br"]
_OTHERS += [tag for tag, module in (("ja", "fugashi"), ("zh", "jieba")) if importlib.util.find_spec(module)]


@settings(max_examples=60, deadline=None)
@given(st.one_of(plausible, st.text(max_size=40)), st.sampled_from(_OTHERS))
def test_other_languages_are_spoken_whole(text: str, language: str) -> None:
    check(text, language)


@pytest.mark.parametrize(
    "text",
    ["word " * 2000, "a" * 5000, "1" * 3000, "日本語" * 700, "no stop here but, many, many clauses, " * 60,
     "One. " * 800, "[x](/ˈɛks/)" * 300, "((((" * 300 + "end", "a-" * 1500, "'" * 800 + "q", "1." * 600, "x@" * 400,
     "कि" * 400, "é" * 900, "a'" * 500, "[" * 3000 + "a", "\n " * 3000 + "a",
     "\n\n".join(f"Paragraph {i}." for i in range(200))],
    ids=lambda text: text[:12],
)  # fmt: skip
@pytest.mark.timeout(120)
def test_long_and_hostile_texts(text: str) -> None:
    check(text)


# Plans for models that read text: nothing is lost or too long; pauses are those of other models.


def plan(text: str, limit: int = 300, language: str = "en-us") -> list[SpeechSegment]:
    return list(TextPlanner(language).segments(text, symbols=frozenset(), max_phonemes=limit))


def read(text: str, limit: int = 300) -> list[str]:
    return [segment.phonemes for segment in plan(text, limit) if isinstance(segment, PhonemizedSentence)]


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
    assert seconds == [segment.seconds for segment in other if isinstance(segment, Pause)] == [None, 1.0]


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


_READ = ["Hello", "the", "a", "$3.50", "Dr.", "e.g.", "[laugh]", "日本語", "don't", "“", "”", ".", "!", "?", "…", "—",
         "\n", "\n\n", "[pause:0.5s]", "[Kokoro](/kˈOkəɹO/)", "1.", "-", "x" * 40]  # fmt: skip
readable = st.lists(st.tuples(st.sampled_from(_READ), st.sampled_from(["", " ", ". "])), max_size=30).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)


@settings(max_examples=300, deadline=None)
@given(readable, st.sampled_from([1, 7, 30, 300]))
def test_no_letter_is_lost_and_no_limit_passed(text: str, limit: int) -> None:
    try:
        found = marks.parse(text)
        segments = plan(text, limit)
    except (MarkupError, NothingToSpeakError):
        return
    utterances = [segment for segment in segments if isinstance(segment, PhonemizedSentence)]
    last = (0, 0)
    for utterance in utterances:
        assert utterance.char_start < utterance.char_end
        assert last[1] <= utterance.char_start or last == (utterance.char_start, utterance.char_end)
        last = (utterance.char_start, utterance.char_end)
        assert utterance.text == text[utterance.char_start : utterance.char_end]
        assert 0 < len(utterance.phonemes) <= limit
    expected = ""
    position = 0
    for mark in found:
        expected += text[position : mark.start]
        position = mark.end
        if isinstance(mark, Reading):
            expected += text[mark.word_start : mark.word_end]
    expected += text[position:]
    spoken = "".join(utterance.phonemes for utterance in utterances)
    assert re.sub(r"[\W_]", "", spoken) == re.sub(r"[\W_]", "", expected)


def test_a_text_with_nothing_to_say_leaves_turns_to_others() -> None:
    text = "! " * 20_000 + "Good."
    for planner in (get_phonemizer("en-us"), TextPlanner("en-us")):
        segments = list(planner.segments(text, symbols=KOKORO_SYMBOLS, max_phonemes=510))
        assert isinstance(segments[-1], PhonemizedSentence)
        assert segments[-1].text.endswith("Good.")
        # No step reads more than a few sentences.
        assert len(segments) > 5
        assert all(segment == Pause(0.0) for segment in segments[:-1])


@pytest.mark.parametrize(("language", "text", "expected"), CASES["quotation_marks_reach_a_model_that_knows_them"])
def test_quotation_marks_reach_a_model_that_knows_them(language: str, text: str, expected: list[str]) -> None:
    for symbols, wanted in (
        (KOKORO_SYMBOLS, expected),
        (KOKORO_SYMBOLS - set('"“”'), [re.sub("[“”]", "", each) for each in expected]),
    ):
        segments = get_phonemizer(language).segments(text, symbols=symbols)
        assert [segment.phonemes for segment in segments if isinstance(segment, PhonemizedSentence)] == wanted


def test_a_sentence_that_fills_an_utterance_keeps_its_marks() -> None:
    whole = "".join(each.phonemes for each in get_phonemizer("en-us").segments("We met them all today?!"))
    for limit in (len(whole), len(whole) - 1, len(whole) - 2, len(whole) - 3):
        found = [
            each.phonemes for each in get_phonemizer("en-us").segments("We met them all today?!", max_phonemes=limit)
        ]
        assert (" ".join(found), len(found)) == (whole, 1 if limit == len(whole) else 2)


def test_quotation_marks_leave_room_for_the_words() -> None:
    (segment,) = get_phonemizer("en-us").segments('She said "no".', max_phonemes=len("ʃˌi sˈɛd nˈO."))
    assert isinstance(segment, PhonemizedSentence) and segment.phonemes == "ʃˌi sˈɛd nˈO."
    assert [segment.phonemes[word.phoneme_start : word.phoneme_end] for word in segment.words] == ["ʃˌi", "sˈɛd", "nˈO"]
