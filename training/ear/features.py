"""Log-mel features on the training device, Whisper's, of a batch of one padded length."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F

RATE, WINDOW, HOP, MELS = 16_000, 400, 160, 80
# Slaney's mel scale: linear below _KNEE hertz, logarithmic above. _TOP is the mel of the highest tone.
_STEP, _KNEE, _GROWTH = 200.0 / 3, 1000.0, math.log(6.4) / 27
_TOP = _KNEE / _STEP + math.log(RATE / 2 / _KNEE) / _GROWTH


def _hertz(mel: torch.Tensor) -> torch.Tensor:
    above = _KNEE * torch.exp(_GROWTH * (mel - _KNEE / _STEP))
    return torch.where(mel < _KNEE / _STEP, mel * _STEP, above)


def _mel(hertz: torch.Tensor) -> torch.Tensor:
    above = _KNEE / _STEP + torch.log(hertz.clamp(min=1) / _KNEE) / _GROWTH
    return torch.where(hertz < _KNEE, hertz / _STEP, above)


@cache
def _filters(device: torch.device) -> torch.Tensor:
    """Return Slaney's mel filters, float32 [MELS, WINDOW / 2 + 1]."""
    edges = _hertz(torch.linspace(0, _TOP, MELS + 2, dtype=torch.float64))
    bins = torch.linspace(0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)
    slopes = edges[:, None] - bins
    widths = edges.diff()[:, None]
    ramps = torch.minimum(-slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]).clamp(min=0)
    return (ramps * (2.0 / (edges[2:] - edges[:-2]))[:, None]).float().to(device)


def log_mel(audio: torch.Tensor) -> torch.Tensor:
    """Return log-mel features float32 [B, MELS, samples / HOP] of audio float32 [B, samples], by each row's maximum."""
    window = torch.hann_window(WINDOW, device=audio.device)
    spectrum = torch.stft(audio, WINDOW, HOP, window=window, center=True, pad_mode="reflect", return_complex=True)
    power = spectrum[..., :-1].abs().square()
    mel = (_filters(audio.device) @ power).clamp(min=1e-10).log10()
    mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8)
    return (mel + 4) / 4


def masked(mel: torch.Tensor, rng: torch.Generator, widths: int = 2, times: int = 2) -> torch.Tensor:
    """Return features with bands and stretches of each row set to their mean (SpecAugment, Park et al. 2019)."""
    batch, bands, frames = mel.shape

    def stripes(size: int, most: int, count: int) -> torch.Tensor:
        start = torch.rand(count, batch, 1, device=mel.device, generator=rng) * size
        width = torch.rand(count, batch, 1, device=mel.device, generator=rng) * most
        at = torch.arange(size, device=mel.device)
        return ((at >= start) & (at < start + width)).any(0)

    hidden = stripes(bands, 27, widths)[:, :, None] | stripes(frames, round(0.05 * frames), times)[:, None, :]
    return torch.where(hidden, mel.mean((1, 2), keepdim=True), mel)


def warped(mel: torch.Tensor, rng: torch.Generator, most: float = 0.16) -> torch.Tensor:
    """Return features of speakers whose mouths are up to `most` larger or smaller: tones of each row move together."""
    hertz = _hertz(torch.linspace(0, 1, MELS + 2, device=mel.device)[1:-1] * _TOP)
    drawn = torch.rand(2, mel.shape[0], 1, device=mel.device, generator=rng).sum(0) - 1  # most are near none
    moved = _mel(hertz * torch.exp(drawn * most))
    place = (moved / _TOP * (MELS + 1) - 1).clamp(0, MELS - 1.001)
    low = place.long()
    index = low[:, :, None].expand(-1, -1, mel.shape[2])
    return torch.lerp(mel.gather(1, index), mel.gather(1, index + 1), (place - low)[:, :, None])


def resampled(audio: torch.Tensor, factor: float) -> torch.Tensor:
    """Return audio [B, samples] played `factor` times as fast; pitch and formants move with it."""
    length = round(audio.shape[1] / factor)
    return F.interpolate(audio[:, None], size=length, mode="linear", align_corners=False)[:, 0]
