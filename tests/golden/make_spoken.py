"""Write spoken.ogg: two sentences in a voice of this server, for tests that need speech. Run from the repository."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import soundfile
import soxr

from tests.golden.make_samples import speak

TEXT = "Please open the window and close the door. She has been in the city for twenty years."
RATE = 16_000
SAMPLES = 90_080  # tests count on its seconds


if __name__ == "__main__":
    pcm = soxr.resample(*asyncio.run(speak(TEXT, voice="am_michael", speed=0.83, pauses={"sentence": 0.3})), RATE)
    file = Path(__file__).with_name("spoken.ogg")
    soundfile.write(file, np.pad(pcm, (0, SAMPLES - pcm.size)), RATE, format="OGG", subtype="OPUS")
