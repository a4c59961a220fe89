"""Log-mel spectrograms, the encoder's input: frames of 25 ms every 10 of samples at 16 kHz.

Values lie within 8 decades of the loudest of the whole recording. Numbers from openai-whisper's audio.py.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from models.layers.mel import Floats, MelBank

SAMPLE_RATE = 16_000
HOP = 160  # samples a frame
FRAMES_A_SECOND = SAMPLE_RATE // HOP
_N_FFT = 400
_BLOCK = 3000  # frames that are transformed at a time
_PAUSE = 20  # frames of a pause that are looked at together
_STEP = 50  # frames: lengths of short windows are multiples
_FLOOR, _DECADES = 1e-10, 8


def log_mel(pcm: Floats, mels: int, silence: int = 0) -> Generator[None, None, Floats]:
    """Compute the spectrogram of pcm [N] and of `silence` zeros behind it, [(N + silence) // 160, mels].

    Both ends are mirrored, hence N + silence must be above 200. Yields after every 30 seconds.
    """
    bank = MelBank(SAMPLE_RATE, _N_FFT, HOP, mels, 0)
    half = _N_FFT // 2
    mirrored = np.pad(np.pad(pcm.astype(np.float32), (0, min(silence, _N_FFT))), half, mode="reflect")
    count = (len(pcm) + silence) // HOP
    log = np.empty((count, mels), np.float32)
    heard = count if silence < _N_FFT else min(count, (len(pcm) + half) // HOP + 1)  # frames with a sample of pcm
    loudest = lowest = np.log10(np.float32(_FLOOR))
    for start in range(0, heard, _BLOCK):
        stop = min(start + _BLOCK, heard)
        energy = bank.spectrogram(mirrored[start * HOP : (stop - 1) * HOP + _N_FFT])
        np.log10(np.maximum(energy, np.float32(_FLOOR), out=energy), out=log[start:stop])
        loudest = max(loudest, log[start:stop].max())
        yield
    least, spoken = max(lowest, loudest - _DECADES), log[:heard]
    np.maximum(spoken, least, out=spoken)
    spoken += 4
    spoken /= 4
    log[heard:] = (least + 4) / 4
    return log


def recording(pcm: Floats, mels: int, frames: int) -> Generator[None, None, Floats]:
    """Compute the spectrogram [N // 160 + frames, mels] of pcm [N] and of `frames` of silence, to cut windows from."""
    return (yield from log_mel(pcm, mels, frames * HOP))


def quiet_cut(mel: Floats, start: int, window: int) -> int:
    """Return how many frames to take from `start` on, `window` at most: to the quietest place of the second half.

    All that is left is taken where it fits.
    """
    left = len(mel) - start
    if left <= window:
        return left
    level = mel[start : start + window].mean(axis=-1)
    smooth = np.convolve(level, np.full(_PAUSE, 1 / _PAUSE, np.float32), mode="valid")
    first = window // 2
    place = first + int(smooth[first:].argmin()) + _PAUSE // 2
    return place - place % 2


def short_window(mel: Floats, start: int, size: int) -> Floats:
    """Return `size` frames from `start` on, filled up with silent samples to a multiple of half a second."""
    cut = mel[start : start + size]
    return np.pad(cut, ((0, -len(cut) % _STEP), (0, 0)), constant_values=mel.min() if mel.size else 0)


def padded_features(mel: Floats, start: int, size: int, frames: int) -> Floats:
    """Return `size` frames from `start` on, filled up with zeros to [frames, mels], as `transcribe` of openai-whisper.

    Zeros lie above the values of silent samples: the encoder hears another silence than behind a short recording.
    """
    cut = mel[start : start + size]
    return np.pad(cut, ((0, frames - len(cut)), (0, 0)))
