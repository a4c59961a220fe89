"""Voices that a text asks for: watermarks, bounds, and how often each is prepared."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from app.audio.watermark import Marker
from app.errors import InvalidRequestError, MarkupError, UnknownVoiceError
from app.speech.document import DocumentPart, Line, SpeechDocument, read_dialogue
from app.speech.options import PreparedSpeech, SpeechOptions
from app.speech.service import SpeechService
from app.speech.variants import MAX_VOICES, Variants
from app.text.planner import TextPlanner
from app.text.types import PLAIN, Style
from tests.app.standins import Tone

MARKER = cast(Marker, object())


class Voices:
    """Knows each voice but those that begin with "no"; that of "marked" bears a watermark."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    async def vary(self, speech: PreparedSpeech, style: Style) -> PreparedSpeech:
        self.asked.append(style.voice)
        if style.voice is not None and style.voice.startswith("no"):
            raise UnknownVoiceError(f"no {style.voice}")
        return replace(speech, voice=style.voice or "own", marker=MARKER if style.voice == "marked" else None)


def speech(*, marks: bool = True) -> PreparedSpeech:
    options = SpeechOptions(voice_marks=marks)
    planner = TextPlanner("en-us")
    return PreparedSpeech(
        model="tone", synthesizer=Tone(), planner=planner, voice="own", language="en-us", options=options
    )


def variants(voices: Voices, **options: Any) -> Variants:
    return Variants(cast(SpeechService, voices), speech(**options))


def parts(found: Variants, text: str) -> list[tuple[str, str | None]]:
    return [(text[start:end], style.voice) for start, end, style in asyncio.run(found.parts(text, PLAIN))]


def test_a_voice_lasts_until_the_next_mark_also_in_later_texts() -> None:
    found = variants(Voices())
    assert parts(found, "One. [voice:a] Two.") == [("One. ", None), (" Two.", "a")]
    assert parts(found, "Three. [voice:b][voice:c]Four.") == [("Three. ", "a"), ("Four.", "c")]
    found.rewind()
    assert parts(found, "Five.") == [("Five.", None)]
    assert parts(found, "") == [("", None)]
    assert parts(found, "[voice:a] ") == []


@pytest.mark.parametrize(
    "text",
    ["[voice:nobody]", "[voice:]", "[voice: a b]", "[voice:a", "voice:a]", "[[voice:nobody]]", "[voice:a](/a/)",
     "[a:voice]", "[voice:" + "a" * 101 + "]", "[voice:\n a]", "[voices:a]", r"[voice:no\]"],
)  # fmt: skip
def test_everything_else_is_text(text: str) -> None:
    assert parts(variants(Voices()), text) == [(text, None)]


def test_no_mark_counts_unless_the_request_has_them() -> None:
    voices = Voices()
    assert parts(variants(voices, marks=False), "[voice:a] One.") == [("[voice:a] One.", None)]
    assert voices.asked == []


def test_each_name_is_looked_up_once_and_at_most_32_voices_speak() -> None:
    voices = Voices()
    found = variants(voices)
    parts(found, "[voice:a] One. [voice:nobody] Two. " * 50)
    assert voices.asked == ["a", "nobody"]
    assert found.ignored == ["voice nobody"]
    parts(found, "".join(f"[voice:no{number}] a" for number in range(500)))
    assert len(found.ignored) == 20
    with pytest.raises(MarkupError, match=f"more than {MAX_VOICES} voices"):
        parts(found, "".join(f"[voice:v{number}] a" for number in range(MAX_VOICES)))


def test_one_watermark_marks_the_whole_text() -> None:
    voices = cast(SpeechService, Voices())
    for part in (DocumentPart("One.", style=Style(voice="marked")), DocumentPart("One. [voice:marked] Two.")):
        prepared, _ = asyncio.run(SpeechDocument((part,)).prepare(voices, speech()))
        assert prepared.marker is MARKER
    prepared, _ = asyncio.run(SpeechDocument((DocumentPart("One. [voice:a] Two."),)).prepare(voices, speech()))
    assert prepared.marker is None
    # A text in fragments, whose first audio may be on its way without a watermark.
    with pytest.raises(InvalidRequestError, match="watermark"):
        asyncio.run(variants(Voices()).prepare(Style(voice="marked"), marked=False))


def test_characters_are_counted_through_all_lines() -> None:
    lines = [Line("One.", "a"), Line("Two.", "b", "es")]
    read = asyncio.run(read_dialogue(cast(SpeechService, Voices()), lines, "en-us", param="inputs"))
    assert [(part.text, part.offset, part.manner) for part in read.parts] == [
        ("One.", 0, Style(voice="a")),
        ("Two.", 4, Style(voice="b", language="es")),
    ]
