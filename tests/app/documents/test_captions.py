"""Subtitles to passages with times."""

from __future__ import annotations

import pytest

from app.documents.formats import parse
from app.documents.types import DocumentError, Passage

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


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.srt", "no subtitles at all", "no subtitles"),
        ("a.vtt", SRT, "WEBVTT"),
        ("a.srt", "1\n00:00:05,000 --> 00:00:01,000\nBack\n", "times in order"),
        ("a.srt", "1\n99:00:05,000 --> 99:00:06,000\nFar\n", "times in order, up to 172800"),
        # Silence before the text, behind it, and between two texts, of 40 bytes.
        ("a.srt", "1\n11:00:00,000 --> 11:00:01,000\nHi.\n", "last 39601 seconds for 3 characters .* at most 612"),
        ("a.vtt", "WEBVTT\n\n00:00:00.000 --> 47:59:59.000\nHi.\n", "at most 612"),
        ("a.srt", "1\n00:00:00,000 --> 00:00:01,000\nHi.\n\n2\n00:10:30,000 --> 00:10:31,000\nHo.\n", "at most 624"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n[MUSIC]\n", "no text that can be spoken"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n" + "<a" * 1_000_000, "more than 10000 characters"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\na\n\n" * 100_001, "more than 100000 cues"),
    ],
)
def test_what_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse(text.encode(), name)
