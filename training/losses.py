"""Losses on audio (PyTorch): log-mel distance and spectral convergence at several resolutions, LSGAN."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.features import SAMPLE_RATE, mel_filters

RESOLUTIONS = ((2048, 160), (1024, 80), (512, 60), (256, 32), (128, 16), (64, 8))  # FFT size, mel bands
CONVERGENCE_SIZES = (2048, 1024, 512)
PHASE_SIZES = (1024, 512)
# Hz: below it the phase of the teacher follows from the pitch; above it small changes turn it round.
PHASE_BELOW = 2500


class SpectralLoss(nn.Module):
    """Mean L1 distance of log-mel spectra up to 12 kHz, spectral convergence, and distance of complex spectra."""

    def __init__(self) -> None:
        super().__init__()
        for size, bands in RESOLUTIONS:
            self.register_buffer(f"filters_{size}", mel_filters(size, bands))
            self.register_buffer(f"window_{size}", torch.hann_window(size))

    def forward(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(log-mel L1, spectral convergence, phase) of audio [batch, n] against audio [batch, n]."""
        both, batch = torch.cat([made, true.detach()]), len(made)
        mel_loss = made.new_zeros(())
        convergence, phase = made.new_zeros(()), made.new_zeros(())
        for size, _ in RESOLUTIONS:
            window = self.get_buffer(f"window_{size}")
            complex_spectrum = torch.stft(both, size, size // 4, size, window=window, return_complex=True)
            if size in PHASE_SIZES:
                phase = phase + phase_distance(complex_spectrum[:, : PHASE_BELOW * size // SAMPLE_RATE], batch)
            spectrum = complex_spectrum.abs()
            # The floor grows with the window as a sinusoid's magnitude does against noise.
            mel = torch.log(self.get_buffer(f"filters_{size}") @ spectrum + 1e-3 * math.sqrt(size / 64))
            mel_loss = mel_loss + F.l1_loss(mel[:batch], mel[batch:])
            if size in CONVERGENCE_SIZES:
                ours, theirs = spectrum[:batch], spectrum[batch:]
                error = (ours - theirs).square().sum((1, 2)) / (theirs.square().sum((1, 2)) + 1e-2)
                convergence = convergence + error.sqrt().mean()
        return mel_loss / len(RESOLUTIONS), convergence / len(CONVERGENCE_SIZES), phase / len(PHASE_SIZES)


def phase_distance(spectrum: Tensor, batch: int) -> Tensor:
    """Mean distance of complex spectra [2 batch, bins, frames], made then true, relative to the local level.

    About 1.3 for equal magnitudes and random phases.
    """
    parts = torch.view_as_real(spectrum)
    made, true = parts[:batch], parts[batch:]
    power = true.square().sum(-1)
    local = F.avg_pool2d(power[:, None], (9, 5), stride=1, padding=(4, 2), count_include_pad=False)[:, 0]
    level = local.sqrt() + 0.03 * power.mean((1, 2), keepdim=True).sqrt() + 1e-4
    # A square root has no slope at 0.
    error = ((made - true).square().sum(-1) + 1e-6 * level.square()).sqrt()
    return (error / level).mean()


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
