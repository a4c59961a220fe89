"""The voice encoder: three LSTMs over windows of a mel spectrogram, whose mean is the speaker vector of T3.

Source: chatterbox 0.1.7 models/voice_encoder/voice_encoder.py (`embeds_from_wavs` with its defaults), after Wan et al.
2018, arXiv:1710.10467; librosa 0.11 effects.py `trim`.
"""

from __future__ import annotations

import numpy as np
from mlx import nn
from numpy.lib.stride_tricks import sliding_window_view

from models.backend import mx
from models.chatterbox.config import VoiceEncoderConfig
from models.chatterbox.reference.front_ends import voice_mel
from models.layers.linear import Linear
from models.layers.lstm import LSTM
from models.layers.mel import Floats

_WINDOW = 160  # frames of 10 ms
_STEP = 77  # frames between windows: 1.3 of them a second
_COVERED = 0.8  # of the last window; a shorter one is left out
_TRIM_FRAME, _TRIM_HOP = 2048, 512
_TRIM_BELOW = 0.01  # of the loudest frame's power: 20 dB


class VoiceEncoder(nn.Module):
    """Windows of mel frames [B, 160, mels] -> unit vectors [B, size], none of whose elements is negative."""

    def __init__(self, config: VoiceEncoderConfig) -> None:
        super().__init__()
        widths = [config.mels, *[config.hidden] * (config.layers - 1)]
        self.layers = [LSTM(width, config.hidden) for width in widths]
        self.proj = Linear(config.hidden, config.size)
        self._mels = config.mels

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = layer(x)
        y = mx.maximum(self.proj(x[:, -1]), 0)
        return y / mx.linalg.norm(y, axis=1, keepdims=True)

    def embed(self, pcm: Floats) -> Floats:
        """Return the speaker vector [size] of 16 kHz pcm [N], of unit length; silence at both ends is left out."""
        mean = np.array(self(mx.array(windows(voice_mel(trim(pcm), self._mels))))).mean(axis=0)
        found: Floats = mean / np.linalg.norm(mean)
        return found


def windows(mel: Floats) -> Floats:
    """Cut mel [T, M] into windows [n, 160, M], 77 frames apart; fill up the last, or drop it if mostly empty."""
    count, rest = divmod(max(len(mel) - _WINDOW + _STEP, 0), _STEP)
    if count == 0 or (rest + _WINDOW - _STEP) / _WINDOW >= _COVERED:
        count += 1
    size = _WINDOW + _STEP * (count - 1)
    padded = np.pad(mel[:size], ((0, max(0, size - len(mel))), (0, 0)))
    return np.ascontiguousarray(sliding_window_view(padded, _WINDOW, axis=0)[::_STEP].transpose(0, 2, 1))


def trim(pcm: Floats) -> Floats:
    """Trim pcm [N] at both ends to 20 dB below its loudest 128 ms, in steps of 512 samples."""
    padded = np.pad(pcm.astype(np.float64), _TRIM_FRAME // 2)
    power = np.mean(np.square(sliding_window_view(padded, _TRIM_FRAME)[::_TRIM_HOP]), axis=1)
    heard = np.flatnonzero(power > power.max() * _TRIM_BELOW)
    if not len(heard):
        return pcm
    return pcm[heard[0] * _TRIM_HOP : (heard[-1] + 1) * _TRIM_HOP]
