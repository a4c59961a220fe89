"""Mel spectrograms for the three networks that hear a recording.

Sources: chatterbox 0.1.7 models/s3gen/utils/mel.py, models/s3tokenizer/s3tokenizer.py, models/voice_encoder/melspec.py.
"""

from __future__ import annotations

import numpy as np

from models.layers.mel import Floats, MelBank


def prompt_mel(pcm: Floats, mels: int = 80) -> Floats:
    """Return S3Gen's log-mel of 24 kHz pcm [N], [N // 480, mels]; frames are centered on half a hop."""
    bank = MelBank(24_000, 1920, 480, mels, (1920 - 480) // 2)
    found: Floats = np.log(np.maximum(bank.spectrogram(pcm, lambda power: np.sqrt(power + 1e-9)), np.float32(1e-5)))
    return found


def token_mel(pcm: Floats, mels: int = 128) -> Floats:
    """Return the tokenizer's log-mel of 16 kHz pcm [N], [N // 160, mels], within 8 decades of its loudest value."""
    bank = MelBank(16_000, 400, 160, mels, 200)
    log = np.log10(np.maximum(bank.spectrogram(pcm)[:-1], np.float32(1e-10)))
    found: Floats = (np.maximum(log, log.max() - 8) + 4) / 4
    return found


def voice_mel(pcm: Floats, mels: int = 40) -> Floats:
    """Return the voice encoder's mel power of 16 kHz pcm [N], [1 + N // 160, mels], linear."""
    bank = MelBank(16_000, 400, 160, mels, 200)
    return bank.spectrogram(pcm)
