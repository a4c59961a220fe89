"""Any text keeps all its words in its phonemes."""

from __future__ import annotations

import importlib.util
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.text import markup
from app.text.errors import TextError
from app.text.html_tags import ENTITY, TAG
from app.text.phonemizer import get_phonemizer
from app.text.symbols import KOKORO_SYMBOLS
from app.text.types import Pause, Utterance

ALNUM_RUN = re.compile(r"[^\W_]+")

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
    "\n", "\n\n",
]  # fmt: skip
plausible = st.lists(
    st.tuples(st.sampled_from(_WORDS), st.sampled_from(["", " ", " ", " ", ", ", ". "])), max_size=25
).map(lambda parts: "".join(word + gap for word, gap in parts))
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(text: str, language: str = "en-us", max_phonemes: int = 510) -> None:
    """Assert the promises on the segments of `text`, or that it is refused with a TextError."""
    try:
        marks = markup.parse(text)
        segments = list(get_phonemizer(language).segments(text, max_phonemes=max_phonemes))
    except TextError as error:
        assert str(error)
        return
    utterances = [segment for segment in segments if isinstance(segment, Utterance)]
    assert utterances
    assert all(0 < segment.seconds <= 10 for segment in segments if isinstance(segment, Pause))
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
    for mark in marks:  # the brackets, the phonemes and the pauses are not spoken themselves
        inside = range(mark.start, mark.end)
        if isinstance(mark, markup.Pronunciation):
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
@example("a\u2028b.\u2029C")
def test_any_unicode_is_spoken_whole_or_refused(text: str) -> None:
    check(text)


@quick
@given(plausible, st.integers(1, 60))
def test_small_models_get_small_utterances(text: str, max_phonemes: int) -> None:
    check(text, max_phonemes=max_phonemes)


_OTHERS = ["en-gb", "es", "fr-fr", "hi", "it", "pt-br"]
_OTHERS += [tag for tag, module in (("ja", "fugashi"), ("zh", "jieba")) if importlib.util.find_spec(module)]


@settings(max_examples=60, deadline=None)
@given(st.one_of(plausible, st.text(max_size=40)), st.sampled_from(_OTHERS))
def test_other_languages_are_spoken_whole(text: str, language: str) -> None:
    check(text, language)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 2000,
        "a" * 5000,
        "1" * 3000,
        "日本語" * 700,
        "no stop here but, many, many clauses, " * 60,
        "One. " * 800,
        "[x](/ˈɛks/)" * 300,
        "((((" * 300 + "end",
        "a-" * 1500,
        "'" * 800 + "q",
        "1." * 600,
        "x@" * 400,
        "कि" * 400,
        "é" * 900,
        "a'" * 500,
        "[" * 3000 + "a",
        "\n " * 3000 + "a",
        "\n\n".join(f"Paragraph {i}." for i in range(200)),
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.timeout(120)
def test_long_and_hostile_texts(text: str) -> None:
    check(text)
