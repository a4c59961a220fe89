"""The vocoder half of the network (PyTorch): harmonic source, iSTFTNet generator, decoder.

After StyleTTS 2's iSTFTNet decoder as the reference package (`kokoro` 0.9.4) has it; parameter names are the same.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.features import SAMPLE_RATE
from training.layers import AdainResBlk1d, AdaINResBlock1, normed

HARMONICS = 9
VOICED_ABOVE = 10.0  # Hz


def inverse_stft(magnitude: Tensor, phase: Tensor, window: Tensor, hop: int) -> Tensor:
    """Centered inverse STFT of [batch, bins, frames] -> [batch, hop (frames - 1)].

    Equals `torch.istft`, whose check of the window waits for the device in every call.
    """
    size = window.shape[0]
    real, imaginary = magnitude * torch.cos(phase), magnitude * torch.sin(phase)
    pieces = torch.fft.irfft(torch.complex(real, imaginary), size, dim=1) * window[:, None]
    overlaps = size // hop

    def overlap_add(frames: Tensor) -> Tensor:
        parts = frames.unflatten(1, (overlaps, hop)).unbind(1)
        added = sum(F.pad(part, (k, overlaps - 1 - k)) for k, part in enumerate(parts))
        return added.transpose(1, 2).flatten(1)

    total = overlap_add((window * window)[None, :, None].expand(1, size, pieces.shape[-1]))
    inside = slice(size // 2, size // 2 + hop * (pieces.shape[-1] - 1))
    return overlap_add(pieces)[:, inside] / total[:, inside]


class SourceModule(nn.Module):
    """Nine harmonics to one signal. The reference never trains this layer; 0.4 each drives tanh moderately."""

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(HARMONICS, 1)
        nn.init.constant_(self.l_linear.weight, 0.4)
        nn.init.zeros_(self.l_linear.bias)

    def forward(self, harmonics: Tensor) -> Tensor:
        """[batch, harmonics, n] -> [batch, n], in float32."""
        weight, bias = self.l_linear.weight.float().view(1, HARMONICS, 1), self.l_linear.bias.float()
        return torch.tanh((harmonics * weight).sum(1) + bias)


class Generator(nn.Module):
    """Features [batch, channels, 2 frames] and F0 [batch, 2 frames] -> audio [batch, 600 frames] at 24 kHz."""

    def __init__(self, style: int, istftnet: dict[str, Any]) -> None:
        super().__init__()
        rates, kernels = istftnet["upsample_rates"], istftnet["upsample_kernel_sizes"]
        channels = istftnet["upsample_initial_channel"]
        shapes = list(zip(istftnet["resblock_kernel_sizes"], istftnet["resblock_dilation_sizes"], strict=True))
        self.size, self.hop = istftnet["gen_istft_n_fft"], istftnet["gen_istft_hop_size"]
        self.scale = math.prod(rates) * self.hop
        self.m_source = SourceModule()
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        self.noise_convs, self.noise_res = nn.ModuleList(), nn.ModuleList()
        self.blocks_a_stage = len(shapes)
        for stage, (rate, kernel) in enumerate(zip(rates, kernels, strict=True)):
            before, after = channels // 2**stage, channels // 2 ** (stage + 1)
            up = nn.ConvTranspose1d(before, after, kernel, rate, padding=(kernel - rate) // 2)
            self.ups.append(normed(up, std=0.01))
            self.resblocks.extend(AdaINResBlock1(after, size, dilations, style) for size, dilations in shapes)
            step = math.prod(rates[stage + 1 :])
            last = stage + 1 == len(rates)
            width, padding = (1, 0) if last else (step * 2, (step + 1) // 2)
            self.noise_convs.append(nn.Conv1d(self.size + 2, after, width, step, padding=padding))
            self.noise_res.append(AdaINResBlock1(after, 11 if last else 7, [1, 3, 5], style))
        self.conv_post = normed(nn.Conv1d(after, self.size + 2, 7, padding=3), std=0.01)
        self.register_buffer("window", torch.hann_window(self.size), persistent=False)
        self.noise = 1.0  # share of the reference's noise in the source

    @torch.no_grad()
    def source(self, f0: Tensor) -> Tensor:
        """F0 in Hz [batch, n] -> STFT magnitude and phase of the harmonic source [batch, size + 2, frames]."""
        f0 = f0.float()
        numbers = torch.arange(1, HARMONICS + 1, device=f0.device).view(1, HARMONICS, 1)
        turns = (f0[:, None] * numbers / SAMPLE_RATE) % 1
        phase = torch.cumsum(turns, -1) * 2 * math.pi
        phase = F.interpolate(phase * self.scale, scale_factor=float(self.scale), mode="linear")
        voiced = F.interpolate((f0 > VOICED_ABOVE).float()[:, None], scale_factor=float(self.scale))
        noise = (voiced * 0.003 + (1 - voiced) * 0.1 / 3) * torch.randn_like(phase)
        wave = self.m_source(torch.sin(phase) * 0.1 * voiced + self.noise * noise)
        window = self.get_buffer("window")
        spectrum = torch.stft(wave, self.size, self.hop, self.size, window=window, return_complex=True)
        return torch.cat([spectrum.abs(), spectrum.angle()], 1)

    def forward(self, x: Tensor, style: Tensor, f0: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            harmonics = self.source(f0)
        for stage, up in enumerate(self.ups):
            source = self.noise_res[stage](self.noise_convs[stage](harmonics), style)
            x = up(F.leaky_relu(x, 0.1))
            if stage + 1 == len(self.ups):
                x = F.pad(x, (1, 0), mode="reflect")
            x = x + source
            first = stage * self.blocks_a_stage
            blocks = self.resblocks[first : first + self.blocks_a_stage]
            x = sum(block(x, style) for block in blocks) / self.blocks_a_stage
        with torch.autocast(x.device.type, enabled=False):
            x = self.conv_post(F.leaky_relu(x.float()))
            bins = self.size // 2 + 1
            # The clamp keeps an early, wild step from overflowing; speech stays far below it.
            magnitude, phase = torch.exp(x[:, :bins].clamp(max=6.0)), torch.sin(x[:, bins:])
            return inverse_stft(magnitude, phase, self.get_buffer("window"), self.hop)


class Decoder(nn.Module):
    """Text features [batch, hidden, frames], F0 and energy [batch, 2 frames] -> audio [batch, 600 frames]."""

    def __init__(self, hidden: int, style: int, width: int, residual: int, istftnet: dict[str, Any]) -> None:
        super().__init__()
        out = istftnet["upsample_initial_channel"]
        joined = width + 2 + residual
        self.encode = AdainResBlk1d(hidden + 2, width, style)
        self.decode = nn.ModuleList([AdainResBlk1d(joined, width, style) for _ in range(3)])
        self.decode.append(AdainResBlk1d(joined, out, style, upsample=True))
        self.F0_conv = normed(nn.Conv1d(1, 1, 3, 2, padding=1))
        self.N_conv = normed(nn.Conv1d(1, 1, 3, 2, padding=1))
        self.asr_res = nn.Sequential(normed(nn.Conv1d(hidden, residual, 1)))
        self.generator = Generator(style, istftnet)
        with torch.no_grad():  # averages, scaled so that Hz and log energy come in at order 1
            for convolution, scale in ((self.F0_conv, 300.0), (self.N_conv, 9.0)):
                convolution.weight_v.fill_(1.0)
                convolution.weight_g.fill_(3**0.5 / scale)
                convolution.bias.zero_()

    def forward(self, text: Tensor, f0: Tensor, energy: Tensor, style: Tensor) -> Tensor:
        prosody = [self.F0_conv(f0.unsqueeze(1)), self.N_conv(energy.unsqueeze(1))]
        x = self.encode(torch.cat([text, *prosody], 1), style)
        residual = self.asr_res(text)
        for block in self.decode:
            x = block(torch.cat([x, residual, *prosody], 1), style)
        return self.generator(x, style, f0)
