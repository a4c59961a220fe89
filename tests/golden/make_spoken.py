"""Write spoken.ogg: two sentences in a voice of this server, for tests that need speech. Run from the repository."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import soundfile
import soxr

from app.cli.local import open_speech
from app.config import Settings
from app.speech.options import SpeechOptions
from models.timeline import Timeline

TEXT = "Please open the window and close the door. She has been in the city for twenty years."
RATE = 16_000
SAMPLES = 90_080  # tests count on its seconds


async def _spoken() -> np.ndarray:
    async with open_speech(Settings(), "house") as speech:
        pieces = [
            pcm
            async for pcm in speech.speak(
                TEXT, SpeechOptions(voice="am_michael", speed=0.83, pauses={"sentence": 0.3}), Timeline()
            )
        ]
        pcm = soxr.resample(np.concatenate(pieces), speech.synthesizer.sample_rate, RATE)
        return np.pad(pcm, (0, SAMPLES - pcm.size))


if __name__ == "__main__":
    file = Path(__file__).with_name("spoken.ogg")
    soundfile.write(file, asyncio.run(_spoken()), RATE, format="OGG", subtype="OPUS")
