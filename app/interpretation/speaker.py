"""Voice of who speaks in a session: made of the first seconds of speech, for the sentences that follow.

What was heard stays in memory, and goes with the session.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from app import errors
from app.audio.vad import SAMPLE_RATE, Samples
from app.interpretation.events import VoiceCloned
from app.speech.options import PreparedSpeech
from app.voices.service import VoiceService
from models.contract import Conditioning, VoiceCloner

# Name of the voice in the requests to the model.
NAME: Final = "speaker"
# Seconds of speech that a voice is made of, if the model takes so many: more of them sound hardly closer.
SECONDS: Final = 8.0
# Seconds of audio that are kept until their utterance has its text.
RECENT: Final = 120.0


class SpeakerVoice:
    """Collects the speech of a session, and makes a voice of it for each model that is to speak. On the event loop."""

    def __init__(self, voices: VoiceService, cloner: VoiceCloner) -> None:
        """Take the service that makes voices, and the model of the session."""
        least, most = cloner.reference_seconds
        self._wanted = round(min(max(SECONDS, least), most) * SAMPLE_RATE)
        self._voices = voices
        self._recent: list[Samples] = []
        # Samples that came, and those that are in `_recent`.
        self._position = self._held = 0
        self._speech: list[Samples] = []
        self._recording: Samples | None = None
        self._asked: set[str] = set()
        self._made: dict[str, Conditioning] = {}

    def push(self, pcm: Samples) -> None:
        """Note float32 mono [samples] at SAMPLE_RATE that came."""
        if self._recording is not None:
            return
        self._recent.append(pcm)
        self._position += pcm.size
        self._held += pcm.size
        while self._held - self._recent[0].size >= RECENT * SAMPLE_RATE:
            self._held -= self._recent.pop(0).size

    def said(self, start: float, end: float) -> None:
        """Take the audio of an utterance, from `start` to `end` in seconds since the first sample."""
        if self._recording is not None or not self._recent:
            return
        recent = np.concatenate(self._recent)
        first = self._position - recent.size
        begin, stop = (max(0, round(seconds * SAMPLE_RATE) - first) for seconds in (start, end))
        self._speech.append(recent[begin:stop])
        self._recent = [recent[stop:]]
        self._held = self._recent[0].size
        if sum(piece.size for piece in self._speech) >= self._wanted:
            self._recording = np.concatenate(self._speech)[: self._wanted]
            self._speech, self._recent = [], []

    def lacks(self, speech: PreparedSpeech) -> bool:
        """Whether enough was heard, and nobody asked for a voice for the model of `speech` yet."""
        return self._recording is not None and speech.model not in self._asked

    async def make(self, speech: PreparedSpeech) -> VoiceCloned:
        """Make the voice for the model of `speech`, once enough was heard."""
        self._asked.add(speech.model)
        recording = np.zeros(0, np.float32) if self._recording is None else self._recording
        seconds = recording.size / SAMPLE_RATE
        try:
            found = await self._voices.clone(speech.model, (recording, SAMPLE_RATE))
        except errors.ServiceError as error:
            return VoiceCloned(speech.model, seconds, error)
        self._made[speech.model] = found
        return VoiceCloned(speech.model, seconds)

    def speak(self, speech: PreparedSpeech) -> PreparedSpeech:
        """Return `speech` in the voice of the speaker, once that is made for its model."""
        result = self._made.get(speech.model)
        # No cache: it would tell by nothing whose voice it was.
        return speech if result is None else replace(speech, voice=NAME, conditioning=result, scope=None)
