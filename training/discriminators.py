"""Discriminators (PyTorch): HiFi-GAN's multi-period ones and complex-spectrogram ones, both thin.

Convolutions carry no weight norm: launches, not arithmetic, bound a training step of this size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.losses import Judged

PERIODS = (2, 3, 5, 7, 11)
WINDOWS = (2048, 1024, 512, 256)
SLOPE = 0.1


class PeriodDiscriminator(nn.Module):
    """Folds audio [batch, n] into rows of `period` samples and convolves along the columns."""

    def __init__(self, period: int, channels: tuple[int, ...] = (24, 64, 160, 256)) -> None:
        super().__init__()
        self.period = period
        self.layers = nn.ModuleList()
        before = 1
        for after in channels:
            self.layers.append(nn.Conv2d(before, after, (5, 1), (3, 1), padding=(2, 0)))
            before = after
        self.layers.append(nn.Conv2d(before, before, (5, 1), padding=(2, 0)))
        self.post = nn.Conv2d(before, 1, (3, 1), padding=(1, 0))

    def forward(self, audio: Tensor) -> tuple[Tensor, list[Tensor]]:
        missing = -audio.shape[-1] % self.period
        if missing:
            audio = F.pad(audio[:, None], (0, missing), mode="reflect")[:, 0]
        x = audio.view(audio.shape[0], 1, -1, self.period)
        maps = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), SLOPE)
            maps.append(x)
        return self.post(x), maps


class SpectrumDiscriminator(nn.Module):
    """Convolves over the compressed complex spectrogram of audio [batch, n] up to 12 kHz."""

    def __init__(self, size: int, channels: int = 32) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size))
        self.layers = nn.ModuleList([nn.Conv2d(2, channels, (3, 9), padding=(1, 4))])
        self.layers.extend(nn.Conv2d(channels, channels, (3, 9), (1, 2), padding=(1, 4)) for _ in range(3))
        self.layers.append(nn.Conv2d(channels, channels, 3, padding=1))
        self.post = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, audio: Tensor) -> tuple[Tensor, list[Tensor]]:
        with torch.autocast(audio.device.type, enabled=False):
            window = self.get_buffer("window")
            spectrum = torch.stft(audio.float(), self.size, self.size // 4, window=window, return_complex=True)
            shown = spectrum[:, : self.size // 2]
            x = torch.view_as_real(shown.transpose(1, 2)).permute(0, 3, 1, 2)
            x = x / (x.square().sum(1, keepdim=True) + 1e-6).pow(0.3)
        maps = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), SLOPE)
            maps.append(x)
        return self.post(x), maps


class Discriminators(nn.Module):
    """All of them over one batch of audio [batch, n]."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList([PeriodDiscriminator(period) for period in PERIODS])
        self.members.extend(SpectrumDiscriminator(size) for size in WINDOWS)

    def forward(self, audio: Tensor) -> Judged:
        return [member(audio) for member in self.members]
