"""Training targets from the teacher's audio: 24 kHz audio, F0 and energy (PyTorch)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training.teacher import TEACHER_RATE

SAMPLE_RATE = 24000
FRAME = 600  # samples at 24 kHz of one duration frame; F0 and energy have two values a frame
ENERGY_FLOOR = 2e-3


@dataclass(frozen=True, slots=True)
class VoiceFacts:
    """Search range of a teacher voice's F0 in Hz, and the gain that brings its speech to about -20 dBFS."""

    f0_low: float
    f0_high: float
    gain: float


VOICE_FACTS = {"rms": VoiceFacts(55.0, 230.0, 1.15), "slt": VoiceFacts(90.0, 350.0, 0.62)}


def mel_filters(n_fft: int, bands: int, high: float = SAMPLE_RATE / 2) -> Tensor:
    """Triangular mel filters (HTK's scale) from 0 Hz to `high`, [bands, n_fft // 2 + 1], each summing to 1."""

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    points = 700 * (10 ** (np.linspace(0, mel(high), bands + 2) / 2595) - 1)
    bins = np.arange(n_fft // 2 + 1) * SAMPLE_RATE / n_fft
    low, center, top = points[:-2, None], points[1:-1, None], points[2:, None]
    filters = np.maximum(0, np.minimum((bins - low) / (center - low), (top - bins) / (top - center)))
    # A narrow low band may hold no bin at all; its row then stays zero.
    filters /= np.maximum(filters.sum(1, keepdims=True), 1e-3)
    return torch.tensor(filters, dtype=torch.float32)


def _resampling_kernels(half: int = 48, bandwidth: float = 0.97) -> Tensor:
    taps = np.arange(-half, half + 1)
    kernels = []
    for phase in (0, 2 / 3, 4 / 3):
        at = taps - phase
        window = np.cos(np.pi * np.clip(at / (half - 2), -1, 1) / 2) ** 2
        kernels.append(np.sinc(at * bandwidth) * bandwidth * window)
    return torch.tensor(np.array(kernels), dtype=torch.float32)[:, None]


_KERNELS = _resampling_kernels()


def to_24k(audio: Tensor) -> Tensor:
    """[batch, n] at 16 kHz -> [batch, 3 n / 2] at 24 kHz: windowed sinc, three phases; n must be even."""
    half = _KERNELS.shape[-1] // 2
    phases = F.conv1d(F.pad(audio[:, None], (half, half)), _KERNELS.to(audio.device), stride=2)
    return phases.transpose(1, 2).reshape(len(audio), -1)


def without_offset(audio: Tensor) -> Tensor:
    """[batch, n] at 16 kHz without its mean, taken off in proportion to the local level (25 ms).

    The teacher's rms has a mean of 0.005 while it speaks and none in its pauses; a high-pass filter would smear that
    step into the pauses, where it could be heard.
    """
    level = F.avg_pool1d(audio.square()[:, None], 401, stride=1, padding=200)[:, 0].sqrt()
    return audio - level * (audio.mean(1, keepdim=True) / (level.mean(1, keepdim=True) + 1e-9))


def _correlation(audio: Tensor, steps: int, longest: int, width: int) -> tuple[Tensor, Tensor]:
    """Normalized cross-correlation [batch, steps, lags 0..longest] and the RMS of each window [batch, steps]."""
    hop, total = TEACHER_RATE // 80, width + longest
    padded = F.pad(audio, (total, total))
    windows = padded[:, hop // 2 + total - total // 2 :].unfold(1, total + 1, hop)[:, :steps]
    windows = windows - windows.mean(-1, keepdim=True)
    spectrum, head = torch.fft.rfft(windows, 1024), torch.fft.rfft(windows[..., :width], 1024)
    product = torch.fft.irfft(spectrum * head.conj(), 1024)[..., : longest + 1]
    running = F.pad((windows * windows).cumsum(-1), (1, 0))
    energy = running[..., width : width + longest + 1] - running[..., : longest + 1]
    # The constant keeps near-silence from correlating with itself.
    correlation = product / torch.sqrt(energy[..., :1] * energy + 2.5e-8 * width)
    return correlation, torch.sqrt(energy[..., 0] / width)


def _smooth(f0: Tensor) -> Tensor:
    """Octave errors undone against the utterance's median, then a five-point median; lone values dropped."""
    nan = torch.full((), float("nan"), device=f0.device)
    median = torch.where(f0 > 0, f0, nan).nanmedian(1, keepdim=True).values.nan_to_num(100.0)
    f0 = torch.where(f0 > 1.7 * median, f0 / 2, f0)
    f0 = torch.where((f0 > 0) & (f0 < 0.58 * median), f0 * 2, f0)
    near = F.pad(f0, (2, 2)).unfold(1, 5, 1)
    voiced = near > 0
    local, count = torch.where(voiced, near, nan).nanmedian(-1).values, voiced.sum(-1)
    keep = torch.where(f0 > 0, count >= 3, count >= 4)
    return torch.where(keep, local, torch.zeros_like(f0))


def track_f0(audio: Tensor, facts: VoiceFacts, steps: int) -> Tensor:
    """F0 in Hz, 0 where unvoiced, [batch, steps] at 80 a second, of [batch, n] at 16 kHz.

    Normalized cross-correlation over 20 ms, the best peak with a small preference for short lags, refined by a
    parabola.
    """
    shortest, longest = int(TEACHER_RATE / facts.f0_high), int(TEACHER_RATE / facts.f0_low)
    correlation, rms = _correlation(audio, steps, longest, width=320)
    correlation = correlation[..., shortest:]
    lags = torch.arange(shortest, longest + 1, device=audio.device, dtype=torch.float32)
    score = correlation - 0.05 * torch.log2(lags / shortest)
    middle = correlation[..., 1:-1]
    peak = (middle >= correlation[..., :-2]) & (middle >= correlation[..., 2:])
    best, index = torch.where(peak, score[..., 1:-1], -9.0).max(-1)
    index = index + 1
    before, at, after = (correlation.gather(-1, (index + k)[..., None])[..., 0] for k in (-1, 0, 1))
    bend = (2 * (before - 2 * at + after) - 1e-9).clamp(max=-1e-6)
    f0 = TEACHER_RATE / (shortest + index + ((before - after) / bend).clamp(-0.5, 0.5))
    voiced = (at > 0.55) & (rms > 0.004) & (best > -5)
    return _smooth(torch.where(voiced, f0, torch.zeros_like(f0)))


def energy(audio: Tensor, steps: int) -> Tensor:
    """Log norm of an 80-band mel spectrum, [batch, steps] at 80 a second, of [batch, n] at 24 kHz."""
    window = torch.hann_window(1200, device=audio.device)
    frames = F.pad(audio, (450, 450)).unfold(1, 1200, 300)[:, :steps]
    spectrum = torch.fft.rfft(frames * window, 2048).abs()
    mel = spectrum @ mel_filters(2048, 80).to(audio.device).t()
    return torch.log(mel.norm(dim=-1) + ENERGY_FLOOR)
