"""Recording from the microphone until a speaker pauses, through the extra `play` (sounddevice)."""

from __future__ import annotations

import io

import numpy as np
import soundfile

from app.audio.vad import SAMPLE_RATE, VoiceDetector, VoiceOptions
from app.cli.command import CommandError
from app.extras import needs

# Seconds that are read at once.
PIECE = 0.1
# A word of a tenth of a second counts; a pause of a second ends the recording.
_SPOKEN = VoiceOptions(min_speech=0.1, min_silence=1.0)


def record(most: float) -> bytes:
    """Return a WAV file of what is spoken until the first pause, of `most` seconds at most. Raises CommandError."""
    try:
        import sounddevice
    except (ImportError, OSError):
        raise CommandError(needs("--mic", "play")) from None
    detector = VoiceDetector(_SPOKEN)
    pieces = []
    try:
        with sounddevice.InputStream(samplerate=SAMPLE_RATE, channels=1, dtype="float32") as stream:
            for _ in range(round(most / PIECE)):
                piece, _lost = stream.read(round(PIECE * SAMPLE_RATE))
                pieces.append(piece[:, 0].copy())
                if detector.push(pieces[-1]):
                    break
    except sounddevice.PortAudioError as error:
        raise CommandError(f"cannot record from the microphone: {error}") from None
    file = io.BytesIO()
    soundfile.write(file, np.concatenate(pieces), SAMPLE_RATE, format="WAV")
    return file.getvalue()
