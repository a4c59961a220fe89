"""Choice of a reply's format from the `Accept` header (RFC 9110 section 12.5.1), where the request names none."""

from __future__ import annotations

import math
import re

from app.audio.encoders import FORMATS, Format

# Characters that are read: no client's list is as long.
_MOST = 2_000
# A media range and its parameters. In quotes, a comma or a semicolon separates nothing.
_RANGES = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_PARAMETERS = re.compile(r';\s*([\w.-]+)\s*=\s*("(?:\\.|[^"\\])*"?|[^;\s]*)')
_TYPES: dict[str, Format] = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/pcm": "pcm",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/ogg": "opus",
    "audio/opus": "opus",
    "audio/aac": "aac",
    "audio/x-aac": "aac",
    "audio/basic": "mulaw",
    "audio/pcmu": "mulaw",
    "audio/pcma": "alaw",
}


def negotiate(accept: str, default: Format) -> Format:
    """Return the format with the highest quality in `accept`; of several `default`, else the one named first.

    Return `default` also if `accept` has no audio: a client that sends `application/json` takes audio all the same.
    """
    named: dict[Format, float] = {}
    others = 0.0
    exact = -1
    for found in _RANGES.finditer(accept[:_MOST]):
        kind, quality, codecs = _range(found.group())
        name = _TYPES.get(kind)
        if name is not None and codecs in ("", "opus" if name == "opus" else codecs):
            named[name] = max(quality, named.get(name, 0.0))
        elif kind in ("audio/*", "*/*"):
            # The narrower of the two decides, in any order.
            width = ("*/*", "audio/*").index(kind)
            others, exact = (quality, width) if width > exact else (others, exact)
    liked = {name: named.get(name, others) for name in dict.fromkeys((default, *named, *FORMATS))}
    best = max(liked.values())
    return default if best <= 0.0 else next(name for name, quality in liked.items() if quality == best)


def _range(text: str) -> tuple[str, float, str]:
    """Return the media type, quality in [0, 1] and `codecs` of one range; a malformed one has the quality 0."""
    kind = text.partition(";")[0].strip().lower()
    parameters = {key.lower(): value.strip('"').lower() for key, value in _PARAMETERS.findall(text)}
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        quality = 0.0
    return kind, quality if math.isfinite(quality) and 0.0 <= quality <= 1.0 else 0.0, parameters.get("codecs", "")
