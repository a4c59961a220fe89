"""Write the reference package's results on small random networks and a second of sound (in .venv-parity).

Writes golden.npz beside this file; the everyday tests compare with it without PyTorch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.models.chatterbox.reference import package
from tests.models.chatterbox.reference.builder import official, small, speech

SECONDS = 1.3


def main() -> None:
    """Compute and write."""
    whole = np.round(speech(SECONDS, 24_000) * 32768).astype(np.int16)
    pcm = whole.astype(np.float32) / 32768
    low = package.resample_hann(pcm)
    config = small()
    voice, s3gen = official(config)
    found = {
        "pcm": whole,
        # Every seventh sample and eighth frame: more would prove no more.
        "hann": low[::7],
        "soxr": package.resample_soxr(pcm, 24_000, 16_000)[::7],
        "prompt_mel": package.prompt_mel(pcm)[::8],
        "token_mel": package.token_mel(low)[::8],
        "voice_mel": package.voice_mel(low)[::8],
        "fbank": package.fbank(low)[::8],
        "voice": package.voice_encoder(config, voice).embeds_from_wavs([low], 16_000)[0],
        "speaker": package.embed(package.speaker(config, s3gen), low),
        "tokens": package.tokens(package.tokenizer(config, s3gen), low),
    }
    made = package.Conditioner(config, voice, s3gen)(pcm)
    found |= {name: array[::4] if name == "s3gen_mel" else array for name, array in made.items()}
    np.savez_compressed(Path(__file__).parent / "golden.npz", **found)


if __name__ == "__main__":
    main()
