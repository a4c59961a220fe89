"""Query of Deepgram's two ways to listen: model, language, words to expect, and the form of the audio.

Parameters that change only how a text is written (`punctuate`, `smart_format`, `numerals`, `filler_words` and the like)
are not used: the model writes as it does. Those that ask for something that is not made here are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from app.audio.decoder_process import MAX_CHANNELS, MAX_RATE, MIN_RATE
from app.audio.pcm import Coding, frame_bytes
from app.audio.samples import SampleCoding
from app.engine.catalog import Catalog
from app.errors import InvalidRequestError, UnknownModelError, UnsupportedFormatError
from app.server.deepgram.speak.schemas import WHOLE, parse_number, parse_rate

# Encodings without a container, by Deepgram's names.
ENCODINGS: Final[dict[str, Coding]] = {"linear16": "pcm", "linear32": "float32", "mulaw": "mulaw", "alaw": "alaw"}
# How each encoding is decoded when it arrives in a stream.
LIVE_CODINGS: Final[dict[Coding, SampleCoding]] = {
    "pcm": "pcm16",
    "float32": "float32",
    "mulaw": "mulaw",
    "alaw": "alaw",
}
# Names of containers: what they hold is seen in their bytes.
_CONTAINERS: Final = ("flac", "opus", "ogg-opus")
_MODELS: Final = re.compile(r"(\d-)?(nova|enhanced|base|general|flux|whisper)(-[\w-]*)?", re.IGNORECASE | re.ASCII)
_LIST: Final = 100
_REFUSED: Final = {
    "callback": "this server calls nobody",
    "diarize": "speakers are not told apart",
    "diarize_model": "speakers are not told apart",
    "multichannel": "channels are mixed to one",
    "redact": "nothing is left out of a text",
    "replace": "nothing in a text is replaced",
    "search": "texts are not searched",
    "summarize": "texts are not summarized",
    "topics": "topics are not detected",
    "intents": "intents are not detected",
    "sentiment": "sentiments are not detected",
    "detect_entities": "entities are not detected",
    "paragraphs": "texts are not divided into paragraphs; 'utterances' divides them at pauses",
}


@dataclass(frozen=True, slots=True)
class RawAudio:
    """Form of audio without a container."""

    coding: Coding
    rate: int
    channels: int

    @property
    def frame(self) -> int:
        """Bytes of one sample of all channels."""
        return frame_bytes(self.coding, self.channels)


def is_true(query: QueryParams, name: str) -> bool:
    """Whether a parameter is on."""
    return query.get(name, "").lower() in ("true", "1")


def parse_listen(query: QueryParams, catalog: Catalog) -> dict[str, Any]:
    """Return what both ways have as options, by its names in SpeechContext. Raises InvalidRequestError."""
    for name, reason in _REFUSED.items():
        if query.get(name, "").lower() not in ("", "false", "0"):
            raise InvalidRequestError(f"'{name}' is not supported: {reason}.", param=name)
    language: str | None = query.get("language", "")
    languages = [*_listed(query, "language_hint")]
    detect = [value for value in _listed(query, "detect_language") if value.lower() not in ("true", "false")]
    if language == "multi" or is_true(query, "detect_language") or detect:
        language = None
    keywords = [*_listed(query, "keyterm"), *(word.partition(":")[0] for word in _listed(query, "keywords"))]
    return {
        "model": parse_model(query.get("model", ""), catalog),
        "language": language or None,
        "languages": tuple(detect or languages),
        "keywords": tuple(keywords),
        "word_times": True,
    }


def parse_model(name: str, catalog: Catalog) -> str | None:
    """Return the catalog's name of a model; None: the default, as for Deepgram's own names."""
    if not name:
        return None
    try:
        return catalog.resolve(name)
    except UnknownModelError:
        if _MODELS.fullmatch(name):
            return None
        raise


def parse_audio(query: QueryParams, *, live: bool) -> RawAudio | None:
    """Return the form of audio without a container; None: it has one, which a `live` stream may not have.

    Raises UnsupportedFormatError and InvalidRequestError.
    """
    name = query.get("encoding", "").lower()
    accepted = ", ".join(ENCODINGS)
    if not name and live:
        raise UnsupportedFormatError(
            f"'encoding' is missing: a stream has no container here; accepted are: {accepted}.", param="encoding"
        )
    if not live and (not name or name in _CONTAINERS):
        return None
    if name not in ENCODINGS:
        if not live:
            accepted += f"; {', '.join(_CONTAINERS)} in their containers; or none for another file"
        raise UnsupportedFormatError(f"Unknown encoding {name[:40]!r}; accepted are: {accepted}.", param="encoding")
    rate = parse_rate(query)
    if rate is None:
        raise InvalidRequestError(f"'sample_rate' is missing: {name} does not tell it.", param="sample_rate")
    if not MIN_RATE <= rate <= MAX_RATE:
        message = f"'sample_rate' is {rate}; accepted are {MIN_RATE} to {MAX_RATE} Hz."
        raise InvalidRequestError(message, param="sample_rate")
    channels = parse_number(query, "channels", f"[1-{MAX_CHANNELS}]" + WHOLE, f"from 1 to {MAX_CHANNELS}")
    return RawAudio(ENCODINGS[name], rate, int(channels or 1))


def parse_milliseconds(query: QueryParams, name: str) -> float | None:
    """Return a time in seconds; None: it is not given. Raises InvalidRequestError."""
    milliseconds = parse_number(query, name, r"\d{1,5}" + WHOLE, "of milliseconds")
    return None if milliseconds is None else milliseconds / 1_000


def _listed(query: QueryParams, name: str) -> list[str]:
    """Return the values of a parameter that may come several times. Raises InvalidRequestError."""
    values = [value.strip() for value in query.getlist(name) if value.strip()]
    if len(values) > _LIST:
        raise InvalidRequestError(f"'{name}' has {len(values)} values; at most {_LIST} are accepted.", param=name)
    return values
