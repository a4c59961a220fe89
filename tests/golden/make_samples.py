"""Write docs/audio: a sentence by each English voice of this server. `python -m tests.golden.make_samples`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import soundfile

from app.cli.local import open_speech
from app.config import Settings
from app.speech.options import SpeechOptions
from models.timeline import Timeline

TEXT = "The weather is fine today, and the train leaves in the morning."
VOICES = ("af_heart", "am_michael", "bf_emma", "bm_fable")
FOLDER = Path(__file__).parents[2] / "docs" / "audio"


async def main() -> None:
    """Speak and encode."""
    async with open_speech(Settings(), "house") as speech:
        for voice in VOICES:
            options = SpeechOptions(model="house", voice=voice)
            pcm = np.concatenate([pcm async for pcm in speech.speak(TEXT, options, Timeline())])
            soundfile.write(FOLDER / f"{voice}.mp3", pcm, speech.synthesizer.sample_rate, format="MP3")


if __name__ == "__main__":
    asyncio.run(main())
