"""Losses on audio (PyTorch): log-mel distance and spectral convergence at several resolutions, LSGAN."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.features import mel_filters

RESOLUTIONS = ((2048, 160), (1024, 80), (512, 60), (256, 32), (128, 16), (64, 8))  # FFT size, mel bands
CONVERGENCE_SIZES = (2048, 1024, 512)


class SpectralLoss(nn.Module):
    """Mean L1 distance of log-mel spectra up to 12 kHz, and spectral convergence, over six resolutions."""

    def __init__(self) -> None:
        super().__init__()
        for size, bands in RESOLUTIONS:
            self.register_buffer(f"filters_{size}", mel_filters(size, bands))
            self.register_buffer(f"window_{size}", torch.hann_window(size))

    def forward(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """(log-mel L1, spectral convergence) of audio [batch, n] against audio [batch, n]."""
        both, batch = torch.cat([made, true.detach()]), len(made)
        mel_loss = made.new_zeros(())
        convergence = made.new_zeros(())
        for size, _ in RESOLUTIONS:
            window = self.get_buffer(f"window_{size}")
            spectrum = torch.stft(both, size, size // 4, size, window=window, return_complex=True).abs()
            # The floor grows with the window as a sinusoid's magnitude does against noise.
            mel = torch.log(self.get_buffer(f"filters_{size}") @ spectrum + 1e-3 * math.sqrt(size / 64))
            mel_loss = mel_loss + F.l1_loss(mel[:batch], mel[batch:])
            if size in CONVERGENCE_SIZES:
                ours, theirs = spectrum[:batch], spectrum[batch:]
                error = (ours - theirs).square().sum((1, 2)) / (theirs.square().sum((1, 2)) + 1e-2)
                convergence = convergence + error.sqrt().mean()
        return mel_loss / len(RESOLUTIONS), convergence / len(CONVERGENCE_SIZES)


Judged = list[tuple[Tensor, list[Tensor]]]  # of each discriminator: scores and feature maps


def discriminator_loss(judged: Judged, real: int) -> Tensor:
    """Least squares: the first `real` items of the batch should score 1, the rest 0."""
    return torch.stack(
        [(1 - score[:real]).square().mean().float() + score[real:].square().mean().float() for score, _ in judged]
    ).sum()


def adversarial_loss(judged: Judged, real: int) -> Tensor:
    """Least squares: the made items should score 1."""
    return torch.stack([(1 - score[real:]).square().mean().float() for score, _ in judged]).sum()


def feature_loss(judged: Judged, real: int) -> Tensor:
    """Distance of the feature maps of made and real items, relative to the size of the real ones."""
    ratios = []
    for _, maps in judged:
        for features in maps:
            true, made = features[:real].detach(), features[real:]
            size = torch.linalg.vector_norm(true, 1, dtype=torch.float32) / true.numel()
            ratios.append(F.l1_loss(made, true).float() / (size + 1e-3))
    return torch.stack(ratios).mean() * len(judged)
