"""Query of Deepgram's two ways to speak: model, encoding, rates and speed.

Parameters are read by name, because Deepgram's clients send others, too.
"""

from __future__ import annotations

import re
from typing import Any, cast, get_args

from pydantic import ValidationError
from starlette.datastructures import QueryParams

from app.audio.encoders import Format, check_bit_rate
from app.engine.catalog import Catalog
from app.errors import InvalidRequestError, UnsupportedFormatError
from app.server.exception_handlers import explain
from app.server.exchange import first_error
from app.server.model_voice import model_and_voice
from app.server.streaming import events
from app.speech.verifier import Mode
from app.voices.aliases import find_aura

# Encodings over the socket: those without a container.
SOCKET_ENCODINGS: dict[str, Format] = {"linear16": "pcm", "mulaw": "mulaw", "alaw": "alaw"}
# Format of each encoding in each container that it may have; the first container is the default.
ENCODINGS: dict[str, dict[str, Format]] = {
    "mp3": {"none": "mp3"},
    "linear16": {"wav": "wav", "none": "pcm"},
    "mulaw": {"wav": "mulaw", "none": "mulaw"},
    "alaw": {"wav": "alaw", "none": "alaw"},
    "opus": {"ogg": "opus"},
    "flac": {"none": "flac"},
    "aac": {"none": "aac"},
}
_WITH_BIT_RATE = ("mp3", "opus", "aac")
# Hz: Deepgram's default, and that of the models here.
_DEFAULT_RATE = 24_000


def describe(name: str, description: str, **schema: Any) -> dict[str, Any]:
    """Return the description of a query parameter for OpenAPI."""
    return {"name": name, "in": "query", "description": description, "schema": {"type": "string", **schema}}


def parse_names(query: QueryParams, catalog: Catalog) -> tuple[str | None, str | None, str | None]:
    """Return model, voice and language of a request; None: the default.

    `model` is one of Deepgram's names, which stand for a voice of their gender and language, or one of ours as
    `model_and_voice` reads it.
    """
    name = query.get("model", "")
    if not name:
        return None, None, None
    aura = find_aura(name)
    if aura is None:
        return (*model_and_voice(name, catalog), None)
    # Only the language is known of Deepgram's newest voices: they get the default voice of it.
    voice = None if aura.gender is None else name
    return None, voice, None if aura.language.startswith("en") else aura.language


def parse_socket_encoding(query: QueryParams) -> Format:
    """Return the format of a socket's audio. Raises UnsupportedFormatError."""
    name = query.get("encoding", "linear16").lower()
    if name not in SOCKET_ENCODINGS:
        raise UnsupportedFormatError(
            f"Unknown encoding {name[:40]!r}; accepted over a WebSocket are: {', '.join(SOCKET_ENCODINGS)}.",
            param="encoding",
        )
    return SOCKET_ENCODINGS[name]


def parse_start(query: QueryParams, catalog: Catalog) -> events.Start:
    """Return the message that opens a socket's session. Raises InvalidRequestError."""
    model, voice, lang = parse_names(query, catalog)
    try:
        return events.Start(
            type="start",
            model=model,
            voice=voice,
            lang=lang,
            format=parse_socket_encoding(query),
            sample_rate=parse_rate(query),
            speed=parse_speed(query),
            verify=parse_verify(query),
            voice_marks=False,
        )
    except ValidationError as error:
        raise explain(first_error(error)) from None


# The SDK writes whole numbers as floating-point ones.
WHOLE = r"(\.0*)?"


def parse_number(query: QueryParams, name: str, pattern: str, kind: str) -> float | None:
    """Return a parameter that must be a number of some `kind`; None: it is not given. Raises InvalidRequestError."""
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(pattern, text, re.ASCII):
        raise InvalidRequestError(f"'{name}' is {text[:40]!r}; it must be a number {kind}.", param=name)
    return float(text)


def parse_rate(query: QueryParams) -> int | None:
    """Return the sample rate in Hz; None: the default. Raises InvalidRequestError."""
    rate = parse_number(query, "sample_rate", r"[1-9]\d{0,5}" + WHOLE, "of Hz")
    return None if rate is None else int(rate)


def parse_bit_rate(query: QueryParams, encoding: str) -> int | None:
    """Return the bit rate in bit/s; None: the encoding's default. Raises InvalidRequestError."""
    if query.get("bit_rate") and encoding not in _WITH_BIT_RATE:
        raise UnsupportedFormatError(
            f"{encoding} has no bit rate to choose; these have: {', '.join(_WITH_BIT_RATE)}.", param="bit_rate"
        )
    bit_rate = parse_number(query, "bit_rate", r"[1-9]\d{0,3}000" + WHOLE, "of bit/s, in whole thousands")
    if bit_rate is None:
        return None
    (name,) = ENCODINGS[encoding].values()
    return check_bit_rate(name, parse_rate(query) or _DEFAULT_RATE, int(bit_rate) // 1000)


def parse_speed(query: QueryParams) -> float:
    """Return the speed; 1 is normal. Raises InvalidRequestError."""
    text = query.get("speed", "")
    try:
        return float(text) if text else 1.0
    except ValueError:
        raise InvalidRequestError(f"'speed' is {text[:40]!r}; it must be a number.", param="speed") from None


def parse_verify(query: QueryParams) -> Mode:
    """Return whether a recognizer hears the speech. Not Deepgram's, but this server's. Raises InvalidRequestError."""
    text = query.get("verify", "off") or "off"
    if text not in get_args(Mode):
        accepted = ", ".join(get_args(Mode))
        raise InvalidRequestError(f"'verify' is {text[:40]!r}; accepted are: {accepted}.", param="verify")
    return cast(Mode, text)
