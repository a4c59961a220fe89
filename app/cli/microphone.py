"""Microphone, and a recording from it until a speaker pauses, through the extra `play` (sounddevice)."""

from __future__ import annotations

import io

import numpy as np
import soundfile

from app.audio.vad import SAMPLE_RATE, Samples, VoiceDetector, VoiceOptions
from app.cli.command import CommandError
from app.extras import needs

# Seconds that are read at once.
CHUNK_SECONDS = 0.1
# A word of a tenth of a second counts; a pause of a second ends the recording.
_DETECTION = VoiceOptions(min_speech=0.1, min_silence=1.0)


class Microphone:
    """Samples of the microphone, as a context. Raises CommandError where there is none."""

    def __init__(self) -> None:
        try:
            import sounddevice
        except (ImportError, OSError):
            raise CommandError(needs("the microphone", "play")) from None
        self._failure = sounddevice.PortAudioError
        try:
            self._stream = sounddevice.InputStream(samplerate=SAMPLE_RATE, channels=1, dtype="float32")
        except self._failure as error:
            raise self._error(error) from None

    def __enter__(self) -> Microphone:
        try:
            self._stream.__enter__()
        except self._failure as error:
            raise self._error(error) from None
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)

    def read(self) -> Samples:
        """Return the next CHUNK_SECONDS seconds, float32 mono [samples] at SAMPLE_RATE. Raises CommandError."""
        try:
            piece, _lost = self._stream.read(round(CHUNK_SECONDS * SAMPLE_RATE))
        except self._failure as error:
            raise self._error(error) from None
        samples: Samples = piece[:, 0].copy()
        return samples

    @staticmethod
    def _error(error: Exception) -> CommandError:
        return CommandError(f"cannot record from the microphone: {error}")


def record(most: float) -> bytes:
    """Return a WAV file of what is spoken until the first pause, of `most` seconds at most. Raises CommandError."""
    detector = VoiceDetector(_DETECTION)
    pieces = []
    with Microphone() as microphone:
        for _ in range(round(most / CHUNK_SECONDS)):
            pieces.append(microphone.read())
            if detector.push(pieces[-1]):
                break
    file = io.BytesIO()
    soundfile.write(file, np.concatenate(pieces), SAMPLE_RATE, format="WAV")
    return file.getvalue()
