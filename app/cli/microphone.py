"""Microphone, and a recording from it until a speaker pauses, through the extra `play` (sounddevice)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

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
        with self._explained():
            self._stream = sounddevice.InputStream(samplerate=SAMPLE_RATE, channels=1, dtype="float32")

    def __enter__(self) -> Microphone:
        with self._explained():
            self._stream.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)

    def read(self) -> Samples:
        """Return the next CHUNK_SECONDS seconds, float32 mono [samples] at SAMPLE_RATE. Raises CommandError."""
        with self._explained():
            piece, _lost = self._stream.read(round(CHUNK_SECONDS * SAMPLE_RATE))
        samples: Samples = piece[:, 0].copy()
        return samples

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._failure as error:
            raise CommandError(f"cannot record from the microphone: {error}") from None


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
