"""Subtitles to passages with times."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

from app.books.documents.formats import parse
from app.books.documents.types import DocumentError, Passage

# What goes in, and what comes out, by the name of the test.
CASES = json.loads(Path(__file__).with_name("captions_cases.json").read_text(encoding="utf-8"))

SRT = (
    "\ufeff2\r\n00:00:05,000 --> 00:00:06,250\r\nBye\r\n\r\n"
    "1\r\n00:00:01,000 --> 00:00:02,500\r\n- <i>Hello</i> [door]\r\n"
    "there\r\n\r\n3\r\n00:00:07,000 --> 00:00:08,000\r\n[MUSIC]\r\n\r\n4\r\n00:06:00,000 --> 00:06:02,000\r\n"
    "{\\an8}Caf\u00e9\r\n"
)
VTT = (
    "WEBVTT - Title\n\nNOTE\nnot spoken\n\nSTYLE\n::cue { color: red }\n\nid\n00:01.000 --> 00:02.500 align:start\n"
    "<v Bob>Fish &amp; chips</v>\n\n00:00:03.000 --> 00:00:04.000\n\u266a la la \u266a\n"
)
ROLLING = (
    "WEBVTT\nKind: captions\n\n00:00:00.160 --> 00:00:02.000 align:start\n \nso<00:00:00.500><c> today</c>"
    "<00:00:01.000><c> we</c>\n\n00:00:02.000 --> 00:00:02.010\nso today we\n \n\n00:00:02.010 --> 00:00:04.000\n"
    "so today we\ntalk<00:00:02.500><c> about</c><00:00:03.000><c> birds</c>\n\n00:00:04.000 --> 00:00:04.010\n"
    "talk about birds\n \n"
)


def cues(*texts: str, seconds: float = 2.0) -> str:
    """SubRip with these texts, each `seconds` long, three seconds after the one before."""
    stamps = [f"00:00:{3 * n:02},000 --> 00:00:{3 * n + seconds:06.3f}".replace(".", ",") for n in range(len(texts))]
    return "".join(f"{n}\n{stamp}\n{text}\n\n" for n, (stamp, text) in enumerate(zip(stamps, texts, strict=True), 1))


def read(text: str, name: str = "a.srt") -> list[tuple[str, float | None]]:
    return [(each.text, each.start) for each in parse(text.encode(), name).chapters[0].passages]


def test_srt() -> None:
    document = parse(SRT.encode(), "film.srt")
    assert document.timed and document.title == "film"
    assert document.chapters[0].passages == (
        Passage("Hello there", 1.0, 2.5),
        Passage("Bye", 5.0, 6.25),
        Passage("Café", 360.0, 362.0),
    )


def test_vtt() -> None:
    assert parse(VTT.encode(), "film.vtt").chapters[0].passages == (Passage("Fish & chips", 1.0, 2.5),)


@pytest.mark.parametrize(("text", "spoken"), CASES["tags_and_escapes_of_webvtt"])
def test_tags_and_escapes_of_webvtt(text: str, spoken: str) -> None:
    assert read(f"WEBVTT\n\n00:01.000 --> 00:05.000\n{text}\n", "a.vtt") == [(spoken, 1.0)]


@pytest.mark.parametrize(("text", "spoken"), CASES["what_is_said_stays_and_what_is_a_sound_goes"])
def test_what_is_said_stays_and_what_is_a_sound_goes(text: str, spoken: str) -> None:
    assert read(cues("[door slams]", text, "(SIGHS)", "♪ la la ♪")) == [(spoken, 3.0)]
    assert read(cues(text)) == [(spoken, 0.0)]


def test_each_line_of_captions_that_roll_is_spoken_once_at_its_time() -> None:
    assert read(ROLLING, "a.vtt") == [("so today we", 0.16), ("talk about birds", 2.01)]
    rolling = cues("hello my friends", "hello my friends\nhow are you", "how are you\ntoday", seconds=3.0)
    assert read(rolling) == [("hello my friends", 0.0), ("how are you", 3.0), ("today", 6.0)]
    growing = cues("so", "so today", "so today we talk", seconds=3.0)
    assert read(growing) == [("so", 0.0), ("today", 3.0), ("we talk", 6.0)]


def test_what_is_said_twice_is_spoken_twice() -> None:
    said = ["No.", "No.", "No.", "No.\nI said no.", "Why?", "Go."]
    assert [text for text, _ in read(cues(*said, seconds=3.0))] == [text.replace("\n", " ") for text in said]
    assert len(read(cues("What are you doing?", "What are you doing?", "Stop."))) == 3


@pytest.mark.parametrize(("name", "text", "spoken", "warnings"), CASES["a_bad_cue_is_named_and_the_others_are_spoken"])
def test_a_bad_cue_is_named_and_the_others_are_spoken(
    name: str, text: str, spoken: list[tuple[str, float]], warnings: list[str]
) -> None:
    assert read(text, name) == [tuple(each) for each in spoken]
    found = parse(text.encode(), name).warnings
    assert len(found) == len(warnings)
    assert all(warning.startswith(begin) for warning, begin in zip(found, warnings, strict=True)), found


def test_warnings_are_bounded() -> None:
    bad = "".join(f"{n}\n00:00:04,000 --> 00:00:03,000\nBack {n}\n\n" for n in range(30))
    found = parse(bad.encode(), "a.srt").warnings
    assert (len(found), found[-1]) == (21, "There are 10 more warnings.")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        *CASES["what_is_refused"],
        ("a.vtt", SRT, "WEBVTT"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n" + "<a" * 1_000_000, "more than 10000 characters"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\na\n\n" * 100_001, "more than 100000 cues"),
    ],
)
def test_what_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse(text.encode(), name)


def test_a_long_cue_comes_in_parts_that_share_its_time() -> None:
    text = "word and more. " * 200
    passages = parse(f"1\n00:00:01,000 --> 00:00:31,000\n{text}\n".encode(), "a.srt").chapters[0].passages
    assert " ".join(each.text for each in passages) == text.strip()
    assert max(len(each.text) for each in passages) <= 500
    assert (passages[0].start, passages[-1].end) == (1, 31)
    assert all(one.end == pytest.approx(other.start, abs=0.02) for one, other in pairwise(passages))


def test_lines_of_blanks_take_no_time() -> None:
    begun = time.process_time()
    parse(("0:01" + " " * 290 + "x\n").encode() * 1_000 + b"0:00:01,0 --> 0:00:02,0\nHi.", "a.srt")
    assert time.process_time() - begun < 0.5
