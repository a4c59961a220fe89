"""Parameters of speech that the daemon sets, and the request that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.voices.aliases import RENAMED
from models.contract import MAX_SPEED, MIN_SPEED

# Speed and pitch at 100; at -100 they are its inverse. The pitch's is half an octave.
_MAX_SPEED = 3.0
_HIGHEST = 2.0**0.5
# Samples a second of the models here; the pitch is changed against it.
_RATE = 24_000

_NUMBERS = ("rate", "pitch", "pitch_range", "volume")
_CHOICES = {
    "punctuation_mode": ("none", "some", "most", "all"),
    "spelling_mode": ("off", "on"),
    "cap_let_recogn": ("none", "spell", "icon"),
}
_NAMES = ("voice", "language", "synthesis_voice")


@dataclass(frozen=True, slots=True)
class Speaker:
    """Voice of the server. `language` is a BCP-47 tag, or "" where it speaks any."""

    name: str
    id: str
    language: str
    gender: str | None
    model: str | None

    @property
    def line(self) -> str:
        """Name, language and variant, as the daemon lists them."""
        primary, _, region = self.language.partition("-")
        language = f"{primary}-{region.upper()}" if region else primary
        return f"{self.name}\t{language or 'none'}\t{self.gender or 'none'}"

    def speaks(self, language: str) -> bool:
        """Return whether the voice is of `language`, or of a region of it."""
        return f"{self.language}-".startswith(f"{language}-")


def speakers(entries: Sequence[dict[str, Any]]) -> list[Speaker]:
    """Return the voices of `GET /v1/audio/voices`. Voices with the same label are told apart by their ids."""
    labels = [str(entry["name"]) for entry in entries]
    result = []
    for entry, label in zip(entries, labels, strict=True):
        name = label if labels.count(label) == 1 and label.isprintable() else str(entry["id"])
        language = str(entry.get("language") or "").lower()
        result.append(Speaker(name, str(entry["id"]), language, entry.get("gender"), entry.get("model")))
    return result


class Parameters:
    """Values of SET; they hold for the messages that follow."""

    def __init__(self) -> None:
        self._numbers = dict.fromkeys(_NUMBERS, 0) | {"volume": 100}
        self._choices = {name: accepted[0] for name, accepted in _CHOICES.items()}
        self._names: dict[str, str] = {}

    def set(self, name: str, value: str) -> bool:
        """Take a value; return whether it is one. Numbers beyond -100 to 100 are brought into that range."""
        if name in self._numbers:
            try:
                self._numbers[name] = max(-100, min(100, int(value)))
            except ValueError:
                return False
            return True
        if name in _CHOICES:
            if value.lower() not in _CHOICES[name]:
                return False
            self._choices[name] = value.lower()
            return True
        if name in _NAMES:
            self._names[name] = "" if value == "NULL" else value
            return True
        return False

    @property
    def punctuation(self) -> str:
        """Punctuation that is named: none, some, most or all."""
        return self._choices["punctuation_mode"]

    @property
    def spelling(self) -> bool:
        """Whether texts are spelled."""
        return self._choices["spelling_mode"] == "on"

    @property
    def capitals(self) -> bool:
        """Whether capitals are announced."""
        return self._choices["cap_let_recogn"] != "none"

    @property
    def gain(self) -> float:
        """Factor of the samples, 0 to 1."""
        return (self._numbers["volume"] + 100) / 200

    def language(self, speaker: Speaker | None) -> str:
        """Return the language that will be spoken, for the names of signs."""
        if speaker is not None and speaker.language:
            return speaker.language
        return self._names.get("language", "").lower() or "en"

    def speaker(self, voices: Sequence[Speaker], default: str | None) -> Speaker | None:
        """Return the voice to speak in; None: the server's default.

        Args:
            voices: voices of the server.
            default: name of the user's usual voice.

        Returns:
            The voice that was asked for by name. Else one of the language that was asked for, or of any if none speaks
            it: the usual one, or the one whose gender and number the symbolic name (`female2`) has.
        """
        labels = {label for each in voices for label in (each.name, each.id)}
        # The user's files may hold a name from before.
        named, default = (
            RENAMED.get(name, name) if name and name not in labels else name
            for name in (self._names.get("synthesis_voice"), default)
        )
        for each in voices:
            if named and named in (each.name, each.id):
                return each
        language = self._names.get("language", "").lower().replace("_", "-")
        fitting = list(voices)
        if language:
            primary = language.partition("-")[0]
            near = [each for each in voices if each.speaks(primary)]
            fitting = [each for each in near if each.speaks(language)] or near or fitting
        symbolic = self._names.get("voice", "").lower()
        for each in fitting:
            if default in (each.name, each.id) and symbolic in ("", "male1"):  # male1 is what nobody chose
                return each
        gender = "female" if "female" in symbolic else "male"
        same = [each for each in fitting if each.gender == gender] or fitting
        digits = "".join(filter(str.isdigit, symbolic))
        return same[(int(digits or 1) - 1) % len(same)] if same else None

    def start(self, speaker: Speaker | None) -> dict[str, Any]:
        """Return the first message to `/v1/audio/stream`.

        The audio is to be played at `play_rate`. A higher pitch is speech that is slower by that factor, at fewer
        samples a second, played at the full rate.
        """
        pitch = _HIGHEST ** (self._numbers["pitch"] / 100)
        speed = _MAX_SPEED ** (self._numbers["rate"] / 100) / pitch
        start: dict[str, Any] = {
            "type": "start",
            "input": "ssml",
            "format": "pcm",
            "speed": round(max(MIN_SPEED, min(MAX_SPEED, speed)), 3),
        }
        if speaker is not None:
            start |= {"voice": speaker.id} | ({} if speaker.model is None else {"model": speaker.model})
        if self._numbers["pitch"]:
            start["sample_rate"] = round(_RATE / pitch)
        return start

    def play_rate(self, sample_rate: int) -> int:
        """Return the samples a second at which to play audio that came at `sample_rate`."""
        return _RATE if self._numbers["pitch"] else sample_rate
