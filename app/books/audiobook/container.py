"""Files of an audiobook: their containers and codecs, tags and cover, as FFmpeg's muxers write them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal, get_args

import av
from av.container import OutputContainer
from av.stream import Disposition, Stream

from app.audio.encoders import INFO, Format
from app.books.cover import picture_size

ChapterFormat = Literal["m4a", "mp3", "opus", "flac", "wav"]
CHAPTER_FORMATS: Final[tuple[ChapterFormat, ...]] = get_args(ChapterFormat)
BookFormat = Literal["m4b", "mp3"]
# Chapters of a book are joined without another encoding: their format for each format of a book.
JOINED: Final[dict[BookFormat, ChapterFormat]] = {"m4b": "m4a", "mp3": "mp3"}
MEDIA_TYPES: Final[dict[str, str]] = {
    "m4b": "audio/mp4",
    "m4a": "audio/mp4",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "wav": "audio/wav",
}

_ENCODED_AS: Final[dict[ChapterFormat, Format]] = {
    "m4a": "aac",
    "mp3": "mp3",
    "opus": "opus",
    "flac": "flac",
    "wav": "wav",
}
# Containers that carry a picture.
_WITH_COVER: Final = frozenset(("mp4", "mp3", "flac"))
# FFmpeg's key of MP4's "stik": 2 is an audiobook.
_AUDIOBOOK: Final = "2"
_MAX_BYTES: Final = 255
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags of a book. `cover`: bytes of a JPEG or PNG file; others are left out. Each may be empty."""

    title: str
    author: str = ""
    language: str | None = None
    cover: bytes | None = None


@dataclass(frozen=True, slots=True)
class Coding:
    """Codec of a chapter, in FFmpeg's names; rate in Hz and bit/s (0: the codec has none to choose)."""

    container: str
    codec: str
    sample_format: str
    rate: int
    bit_rate: int


def coding(name: ChapterFormat, sample_rate: int) -> Coding:
    """Return the coding of format `name` for a model's rate: that rate, or the next one above that the codec has."""
    info = INFO[_ENCODED_AS[name]]
    rates = info.rates or (sample_rate,)
    rate = min((each for each in rates if each >= sample_rate), default=max(rates))
    if name == "wav":
        return Coding("wav", "pcm_s16le", "s16", rate, 0)
    container = "mp4" if name == "m4a" else info.container
    return Coding(container, info.codec, info.sample_format, rate, info.bit_rate)


def clean(text: str) -> str:
    """Return `text` as a tag: one line of at most 255 bytes of UTF-8."""
    line = _CONTROL.sub(" ", text).strip().encode("utf-8", "replace")
    return line[:_MAX_BYTES].decode("utf-8", "ignore")


@contextmanager
def written(path: Path, container: str, kind: ChapterFormat | BookFormat) -> Iterator[OutputContainer]:
    """Write a file under another name first, so that `path` is whole or absent. Raises OSError."""
    part = path.with_name(path.name + ".part")
    options = {"wav": {"rf64": "auto"}, "mp3": {"id3v2_version": "4"}, "mp4": {"movflags": "+faststart"}}
    chosen = dict(options.get(container, {}))
    if container == "mp4":
        # Players choose by it, as by the name.
        chosen["brand"] = f"{kind.upper()} "
    try:
        with av.open(str(part), "w", format=container, container_options=chosen) as output:
            yield output
        sync(part)
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def sync(path: Path) -> None:
    """Have the bytes of a file on its disk. Raises OSError."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def add_cover(output: OutputContainer, container: str, cover: bytes | None) -> Stream | None:
    """Add the stream of a cover, unless it is no picture that the container carries. Its bytes are not decoded."""
    size = picture_size(cover) if cover and container in _WITH_COVER else None
    if size is None:
        return None
    codec, width, height = size
    stream = output.add_mux_stream(codec, width=width, height=height)
    stream.disposition = Disposition.attached_pic
    stream.time_base = Fraction(1, 1000)
    return stream


def mux_cover(output: OutputContainer, stream: Stream | None, cover: bytes | None) -> None:
    """Write the cover, before the audio: MP3's muxer waits for it."""
    if stream is None or cover is None:
        return
    packet = av.Packet(cover)
    packet.stream = stream
    packet.time_base = Fraction(1, 1000)
    packet.pts = packet.dts = 0
    packet.is_keyframe = True
    output.mux_one(packet)


def book_tags(tags: Tags) -> dict[str, str]:
    """Return the tags of a whole book by FFmpeg's names."""
    result = {
        "title": tags.title,
        "album": tags.title,
        "artist": tags.author,
        "album_artist": tags.author,
        "genre": "Audiobook",
        "media_type": _AUDIOBOOK,
        "language": tags.language or "",
    }
    return {key: clean(value) for key, value in result.items() if clean(value)}
