"""Subtitles: SubRip (.srt) and WebVTT (.vtt), read by pysubs2. Each cue is a passage with its times."""

from __future__ import annotations

import re
from html import unescape
from typing import Final, Literal

import pysubs2

from app.documents.blocks import one_line
from app.documents.chapters import MOST_CHARACTERS
from app.documents.markup import decode_text
from app.documents.types import Chapter, Document, DocumentError, Passage

MOST_CUES: Final = 100_000
MOST_SECONDS: Final = 48 * 3600.0
MAX_SILENCE_SECONDS: Final = 600.0
"""Seconds that subtitles of any length may last, and those for each character: sixty times as long as its speech."""
SECONDS_PER_CHARACTER: Final = 4.0
# Characters of one cue: pysubs2 takes quadratic time for its tags.
MOST_CUE: Final = 10_000

_ACCEPTED: Final = "Accepted are cues with times such as '00:00:01,000 --> 00:00:02,500'"
_TAG: Final = re.compile(r"<[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")
# "[door slams]", "(MUSIC)", "♪ la la ♪": nobody says them.
_SOUND: Final = re.compile(r"\[[^\[\]]{0,200}\]|\([^()]{0,200}\)|[♪♫][^♪♫]{0,300}[♪♫]|[♪♫#]")
_DASH: Final = re.compile(r"(?m)^[^\S\n]*(?:[-–—]|>>)[^\S\n]*")


def read_captions(data: bytes, kind: Literal["srt", "vtt"]) -> Document:
    """Read subtitles, in order of their starts. Raises DocumentError: no cues, too many, times that are none."""
    text = decode_text(data).replace("\r\n", "\n").replace("\r", "\n")
    if kind == "vtt" and not text.lstrip().startswith("WEBVTT"):
        raise DocumentError("The file is no WebVTT: it does not begin with 'WEBVTT'.")
    _, *cues = text.split("-->")
    if len(cues) > MOST_CUES:
        raise DocumentError(f"The subtitles have more than {MOST_CUES} cues, which is the limit.")
    if max(map(len, cues), default=0) > MOST_CUE:
        raise DocumentError(f"A cue of the subtitles has more than {MOST_CUE} characters, which is the limit.")
    try:
        events = pysubs2.SSAFile.from_string(text, format_=kind).events
    except (pysubs2.exceptions.Pysubs2Error, ValueError, OverflowError) as error:
        raise DocumentError(f"The subtitles cannot be read: {str(error)[:200]}. {_ACCEPTED}.") from error
    if not events:
        raise DocumentError(f"The file has no subtitles. {_ACCEPTED}.")
    passages = [
        Passage(spoken, event.start / 1000, event.end / 1000)
        for event in sorted(events, key=lambda event: event.start)
        if (spoken := _spoken(unescape(event.plaintext) if kind == "vtt" else event.plaintext))
    ]
    for passage in passages:
        _check(passage)
    if not passages:
        raise DocumentError("The subtitles have no text that can be spoken.")
    characters = sum(len(passage.text) for passage in passages)
    seconds, most = (
        max(passage.end or 0.0 for passage in passages),
        MAX_SILENCE_SECONDS + SECONDS_PER_CHARACTER * characters,
    )
    if seconds > most:
        raise DocumentError(
            f"The subtitles last {seconds:.0f} seconds for {characters} characters of text; at most {most:.0f} are "
            "accepted. A time in them may be wrong."
        )
    if characters > MOST_CHARACTERS:
        raise DocumentError(f"The subtitles have more than {MOST_CHARACTERS} characters, which is the limit.")
    return Document("", "", None, None, (Chapter("", tuple(passages)),))


def _spoken(text: str) -> str:
    spoken = one_line(_DASH.sub("", _SOUND.sub(" ", _TAG.sub("", text))))
    return spoken if any(character.isalnum() for character in spoken) else ""


def _check(passage: Passage) -> None:
    start, end = passage.start or 0.0, passage.end or 0.0
    if not 0 <= start <= end <= MOST_SECONDS:
        raise DocumentError(
            f"A cue lasts from {start:g} to {end:g} seconds; accepted are times in order, up to {MOST_SECONDS:g}."
        )
