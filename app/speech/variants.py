"""Voices and languages that one text asks for beside those of its request: by markup, by lines, by `[voice:NAME]`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from app import errors
from app.audio.watermark import Marker
from app.speech.options import PreparedSpeech
from app.speech.service import SpeechService
from app.text import marks
from app.text.types import Style
from app.voices.aliases import outdated_names

MAX_VOICES: Final = 32
"""Most voices that the marks or lines of one text have."""
_MAX_IGNORED: Final = 20
# Another speed, as `x-ignored` names it where the model has one speed.
_RATE: Final = "prosody rate"
# A name that is none of these is no voice here.
_UNKNOWN: Final = (errors.UnknownVoiceError, errors.UnknownModelError, errors.WrongModelKindError)


class Variants:
    """Variants of one prepared speech. Each is prepared once.

    `ignored` are the marks that name no voice of this server, and what its models cannot do, as `x-ignored` tells them.
    `voice` is that of the last mark, or of one before the text.
    """

    def __init__(self, service: SpeechService, speech: PreparedSpeech, voice: str | None = None) -> None:
        self.ignored: list[str] = []
        self._service, self._speech = service, speech
        self._made: dict[tuple[str | None, str | None, str | None], PreparedSpeech] = {}
        self._named: dict[str, bool] = {}
        self.voice = voice

    @property
    def marker(self) -> Marker | None:
        """Watermark of the speech, or of the first variant that has one."""
        markers = (each.marker for each in (self._speech, *self._made.values()))
        return next((marker for marker in markers if marker is not None), None)

    async def prepare(self, style: Style, *, marked: bool = True) -> PreparedSpeech:
        """Return the voice, language and speed of a style.

        Raises ServiceError as `SpeechService.vary` does, and for speech that bears a watermark unless the text is
        `marked`.
        """
        key = style.voice, style.gender, style.language
        if key not in self._made:
            self._made[key] = await self._service.vary(self._speech, style)
            if style.voice:
                self._ignore(*outdated_names(self._made[key].options.voice, self._made[key].synthesizer))
        result = self._made[key]
        if result.marker is not None and not marked:
            raise errors.InvalidRequestError(
                f"Speech of model '{result.model}' bears a watermark: name that model for the whole text.",
                param="model",
            )
        if style.rate != 1.0 and not result.synthesizer.changes_speed:
            self._ignore(_RATE)
        return result.at_rate(style.rate)

    def _ignore(self, *names: str) -> None:
        new = [name for name in names if name not in self.ignored]
        self.ignored += new[: max(0, _MAX_IGNORED - len(self.ignored))]

    def rewind(self) -> None:
        """Begin the text again: no mark came yet."""
        self.voice = None

    async def parts(self, text: str, style: Style) -> list[tuple[int, int, Style]]:
        """Return start, end and style of the parts of a plain text between its `[voice:NAME]`, without blank ones.

        A voice lasts until the next mark, also in later texts. A mark that names no voice here is text. Raises
        MarkupError for more than MAX_VOICES voices, and as `prepare` does for a voice that cannot speak here.
        """
        parts: list[tuple[int, int, Style]] = []
        begin = 0
        if self._speech.options.voice_marks:
            for start, end, name in marks.voices(text):
                if await self._knows(name):
                    parts.append((begin, start, self._voiced(style)))
                    begin, self.voice = end, name
        whole = not parts
        parts.append((begin, len(text), self._voiced(style)))
        return parts if whole else [part for part in parts if text[part[0] : part[1]].strip()]

    def _voiced(self, style: Style) -> Style:
        """Return `style` in the voice of the last mark."""
        if self.voice is None:
            return style
        return replace(style, voice=self.voice, language=self._speech.options.lang)

    async def _knows(self, name: str) -> bool:
        """Return whether this server has a voice of that name, and keep it."""
        if name not in self._named:
            await asyncio.sleep(0)  # a text may be full of names
            try:
                await self.prepare(Style(voice=name, language=self._speech.options.lang))
                self._named[name] = True
            except _UNKNOWN:
                self._named[name] = False
                self._ignore(f"voice {name[:50]}")
            if sum(self._named.values()) > MAX_VOICES:
                raise errors.MarkupError(f"The text has more than {MAX_VOICES} voices.")
        return self._named[name]
