"""Values of SSML's attributes (W3C SSML 1.1, and what SSML 1.0 and its speech services allow besides)."""

from __future__ import annotations

import re
from typing import Final

from app.errors import MarkupError

MAX_GAIN: Final = 4.0
"""Greatest gain of `volume`: 12 dB."""
RATES: Final = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.5}
LOUDNESS: Final = {
    "silent": 0.0,
    "x-soft": 0.25,
    "soft": 0.5,
    "medium": 1.0,
    "default": 1.0,
    "loud": 1.6,
    "x-loud": 2.5,
}
"""Gain of each name of a volume. The specification leaves them open."""
# Rate and gain of strong emphasis, which stands apart; stress of each level, by misaki's scale.
STRONG: Final = (0.85, 1.4)
STRESSES: Final = {"strong": 2.0, "moderate": 2.0, "none": -1.0, "reduced": -2.0}

_NUMBER: Final = r"(\d+(?:\.\d+)?|\.\d+)"
_PERCENT: Final = re.compile(rf"([+-]?){_NUMBER}%")
_FACTOR: Final = re.compile(_NUMBER)
_DECIBEL: Final = re.compile(rf"([+-]?){_NUMBER}\s*dB", re.IGNORECASE)
_RELATIVE: Final = re.compile(rf"([+-]){_NUMBER}")


def rate(text: str) -> float:
    """Return the factor of a `rate`: a name, `80%`, `+10%`, `1.2`. Raises MarkupError."""
    value = text.strip().lower()
    result = RATES.get(value)
    if result is None and (match := _PERCENT.fullmatch(value)):
        result = _relative(match) if match.group(1) else float(match.group(2)) / 100
    elif result is None and (match := _FACTOR.fullmatch(value)):
        result = float(match.group(1))
    if result is None or not 0.1 <= result <= 10.0:
        raise MarkupError(
            f"prosody rate {text[:40]!r} is not accepted; write {', '.join(RATES)}, a percentage such as 80% or +10%, "
            "or a factor such as 1.2, from 0.1 to 10"
        )
    return result


def gain(text: str) -> float:
    """Return the factor of a `volume`: a name, `+6dB`, `-20%`, or 0 to 100; at most MAX_GAIN. Raises MarkupError."""
    value = text.strip()
    result = LOUDNESS.get(value.lower())
    if result is None and (match := _DECIBEL.fullmatch(value)):
        sign = -1.0 if match.group(1) == "-" else 1.0
        result = 10.0 ** (sign * min(float(match.group(2)), 120.0) / 20.0)
    elif result is None and (match := _PERCENT.fullmatch(value)):
        result = _relative(match) if match.group(1) else float(match.group(2)) / 100
    elif result is None and (match := _RELATIVE.fullmatch(value)):
        result = _relative(match)
    elif result is None and (match := _FACTOR.fullmatch(value)) and float(value) <= 100.0:
        result = float(value) / 100
    if result is None:
        raise MarkupError(
            f"prosody volume {text[:40]!r} is not accepted; write {', '.join(LOUDNESS)}, decibels such as +6dB, a "
            "percentage such as -20%, or a number from 0 to 100"
        )
    return min(max(result, 0.0), MAX_GAIN)


def _relative(match: re.Match[str]) -> float:
    change = min(float(match.group(2)), 1_000.0) / 100
    return max(0.0, 1.0 - change if match.group(1) == "-" else 1.0 + change)
