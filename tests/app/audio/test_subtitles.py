"""Cues from words, and the two file formats."""

import itertools
import re
import time
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.audio.subtitles import LINE, LINES, MAX_CUE_SECONDS, Cue, cues, render
from app.speech.sentence import SpokenChunk, Word

LONG = (
    "When the nightingale had finished her song, the old gardener put down his spade, and he stood there for a while, "
    "listening to the river that runs behind the wall of the garden."
)


def piece(text: str, start: float = 0.0, per_word: float = 0.4, offset: int = 0, *, words: bool = True) -> SpokenChunk:
    """A sentence whose words take `per_word` seconds each, with a little silence after each."""
    found = tuple(
        Word(
            match.group(),
            start + index * per_word,
            start + (index + 0.9) * per_word,
            offset + match.start(),
            offset + match.end(),
        )
        for index, match in enumerate(re.finditer(r"\w+", text))
    )
    seconds = per_word * max(1, len(found))
    silent = np.zeros(0, np.float32)
    return SpokenChunk(silent, start, seconds, text, offset, offset + len(text), found if words else ())


def pause(start: float, seconds: float) -> SpokenChunk:
    return SpokenChunk(np.zeros(0, np.float32), start, seconds, "", 0, 0, ())


def test_a_sentence_is_a_cue_from_its_first_word_to_its_last() -> None:
    found = cues([piece("Hello there, world.", 1.0), pause(2.2, 0.5), piece("How are you?", 2.7, offset=20)])
    assert [cue.text for cue in found] == ["Hello there, world.", "How are you?"]
    assert [(round(cue.start, 3), round(cue.end, 3)) for cue in found] == [(1.0, 2.16), (2.7, 3.86)]


def test_marks_of_a_text_are_not_shown() -> None:
    """Words have their places in the text with its marks."""
    text = "Then [Ioan](/ˈaɪən/) [pause:1s] said <phoneme alphabet='ipa' ph='ɪt'>it</phoneme> again and again. "
    words = re.sub(r"\([^)]*\)|\[pause:1s\]|<[^>]*>", lambda mark: " " * len(mark[0]), text)
    spoken = replace(piece(words, 1.0, offset=7), text=text)
    assert [cue.text for cue in cues([spoken])] == ["Then Ioan said it again and again."]
    long = replace(piece(f"{LONG} {words}"), text=f"{LONG} {text}")
    assert " ".join(cue.text.replace("\n", " ") for cue in cues([long])).endswith("Then Ioan said it again and again.")
    assert cues([piece("A [pause:x] b.")])[0].text == "A [pause:x] b."


def test_a_word_of_very_much_white_space_takes_no_time() -> None:
    begun = time.process_time()
    found = cues([piece(f"[a{chr(9) * 20_000}b](/a/) and more.")])
    assert [cue.text for cue in found] == ["a b and more."]
    assert time.process_time() - begun < 0.5


def test_a_long_sentence_is_cut_at_a_clause() -> None:
    found = cues([piece(LONG)])
    assert len(found) > 2
    assert " ".join(cue.text.replace("\n", " ") for cue in found) == LONG
    assert found[0].text.replace("\n", " ").endswith(",")


def test_lines_and_seconds_are_bounded() -> None:
    for per_word in (0.2, 0.6, 1.5):
        found = cues([piece(LONG, per_word=per_word)])
        assert max(len(line) for cue in found for line in cue.text.split("\n")) <= LINE
        assert max(cue.text.count("\n") for cue in found) < LINES
        assert max(cue.end - cue.start for cue in found) <= MAX_CUE_SECONDS


def test_two_lines_are_of_about_the_same_length() -> None:
    (cue,) = cues([piece("The quick brown fox jumps over the lazy dog again.")])
    first, second = cue.text.split("\n")
    assert abs(len(first) - len(second)) < 12


def test_short_words_stay_until_they_can_be_read_or_something_else_comes() -> None:
    found = cues([piece("Oh.", 0.0, 0.2), piece("No.", 0.3, 0.2, offset=4), piece("Well.", 5.0, 0.2, offset=8)])
    assert [round(cue.end, 3) for cue in found] == [0.3, 1.1, 5.8]


def test_without_word_times_lines_share_the_time() -> None:
    found = cues([piece(LONG, words=False)])
    assert " ".join(cue.text.replace("\n", " ") for cue in found) == LONG
    assert all(before.end <= after.start + 1e-9 for before, after in itertools.pairwise(found))


def test_a_sentence_in_several_pieces_is_one() -> None:
    whole = piece("Hello there, world.")
    first = SpokenChunk(whole.pcm, 0.0, 0.4, whole.text, 0, 19, whole.words[:1])
    second = SpokenChunk(whole.pcm, 0.4, 0.8, whole.text, 0, 19, whole.words[1:])
    assert cues([first, second]) == cues([whole])


@given(st.lists(st.text("ab, .\n", max_size=200), max_size=4))
def test_nothing_is_lost_and_nothing_overlaps(texts: list[str]) -> None:
    pieces, start, offset = [], 0.0, 0
    for text in texts:
        pieces.append(piece(text, start, offset=offset))
        start += pieces[-1].duration
        offset += len(text) + 1
    found = cues(pieces)
    shown = "".join(cue.text for cue in found)
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", "".join(texts))
    assert all(cue.start <= cue.end for cue in found)
    assert all(before.end <= after.start for before, after in itertools.pairwise(found))


def test_srt() -> None:
    assert render([Cue(0, 1.5, "One."), Cue(3661.0004, 3662.25, "Two\nlines.")], "srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nOne.\n\n2\n01:01:01,000 --> 01:01:02,250\nTwo\nlines.\n"
    )


def test_vtt_escapes_its_markup() -> None:
    assert render([Cue(0, 1.5, "a < b & c --> d")], "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\na &lt; b &amp; c --&gt; d\n"
    )
    assert render([], "vtt") == "WEBVTT\n"
