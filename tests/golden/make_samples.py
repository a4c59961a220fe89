"""Write docs/audio: a sentence by each English voice of this server. `python -m tests.golden.make_samples`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from app.cli.local import open_speech
from app.config import Settings
from app.speech.options import SpeechOptions
from models.timeline import Timeline

TEXT = "The weather is fine today, and the train leaves in the morning."
VOICES = ("af_heart", "am_michael", "bf_emma", "bm_fable")
FOLDER = Path(__file__).parents[2] / "docs" / "audio"


async def speak(text: str, **options: Any) -> tuple[np.ndarray, int]:
    """Return the samples of a text in a voice of this server, and their rate."""
    async with open_speech(Settings(), "house") as speech:
        pieces = [pcm async for pcm in speech.speak(text, SpeechOptions(**options), Timeline())]
        return np.concatenate(pieces), speech.synthesizer.sample_rate


if __name__ == "__main__":
    for voice in VOICES:
        soundfile.write(FOLDER / f"{voice}.mp3", *asyncio.run(speak(TEXT, voice=voice)), format="MP3")
