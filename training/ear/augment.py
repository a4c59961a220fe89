"""Distortions of a batch of speech on the training device: what stands between a loudspeaker and a recognizer.

Each is applied to a random part of the rows. Audio is float32 [B, samples] in [-1, 1].
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from training.ear.features import RATE

_WALLS, _BANDS, _TONES = 6, 9, 512


class Augmentation:
    """Random distortions from one seed."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self.rng = torch.Generator(device=device).manual_seed(seed)
        self._host = np.random.default_rng(seed)  # which rows: the device need not be asked
        self._device = device

    def _uniform(self, low: float, high: float, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, device=self._device, generator=self.rng) * (high - low) + low

    def _noise(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self._device, generator=self.rng)

    def _chosen(self, batch: int, share: float) -> torch.Tensor:
        return self._uniform(0, 1, batch, 1) < share

    def __call__(self, audio: torch.Tensor, strength: float = 1.0) -> torch.Tensor:
        """Return the distorted batch, of the same shape; `strength` in [0, 1] is the share of rows of the usual one."""
        batch = audio.shape[0]
        # Those that transform every row are given only the rows that they change; the share of the rows is about exact.
        for distort, share in (
            (self.room, 0.45), (self.tilt, 0.6), (self.muffle, 0.2), (self.add_noise, 0.65), (self.codec, 0.15),
            (self.telephone, 0.15),
        ):  # fmt: skip
            count = int(batch * share * strength + self._host.random())
            if count:
                rows = torch.from_numpy(self._host.permutation(batch)[:count]).to(self._device)
                audio = audio.index_copy(0, rows, distort(audio[rows]))
        for distort, share in ((self.add_babble, 0.15), (self.clip, 0.05)):
            if strength > 0:
                audio = torch.where(self._chosen(batch, share * strength), distort(audio), audio)
        return audio * 10 ** (self._uniform(-20, 6, batch, 1) / 20)

    def room(self, audio: torch.Tensor) -> torch.Tensor:
        """Add reverberation: walls within 40 ms, and noise that decays by 60 dB in 0.1 to 0.9 s, behind the speech."""
        batch, length = audio.shape
        size = RATE // 2
        at = torch.arange(size, device=self._device) / RATE
        decay = torch.exp(-math.log(1000) * at / self._uniform(0.1, 0.9, batch, 1))
        response = self._noise(batch, size) * decay * self._uniform(0.005, 0.07, batch, 1)
        walls = (self._uniform(0.001, 0.04, batch, _WALLS) * RATE).long()
        response.scatter_add_(1, walls, self._uniform(-0.35, 0.35, batch, _WALLS))
        response[:, 0] = 1.0
        total = length + size
        spectrum = torch.fft.rfft(audio, total) * torch.fft.rfft(response, total)
        return torch.fft.irfft(spectrum, total)[:, :length]

    def tilt(self, audio: torch.Tensor) -> torch.Tensor:
        """Change the balance of low and high tones by up to 6 dB an octave, and of bands by 8, and cut the lowest."""
        spectrum = torch.fft.rfft(audio)
        hertz = torch.linspace(0, RATE / 2, spectrum.shape[1], device=self._device).clamp(min=50)
        octaves = torch.log2(hertz / 1000)
        bands = self._uniform(-8, 8, audio.shape[0], _BANDS)
        place = ((octaves - octaves[0]) / (octaves[-1] - octaves[0]) * (_BANDS - 1)).clamp(max=_BANDS - 1.001)
        low = place.long()
        band = torch.lerp(bands[:, low], bands[:, low + 1], place - low)
        gain = 10 ** ((self._uniform(-6, 6, audio.shape[0], 1) * octaves + band) / 20)
        low = 1 / (1 + (self._uniform(20, 250, audio.shape[0], 1) / hertz) ** 4)
        found = torch.fft.irfft(spectrum * gain * low, audio.shape[1])
        return found * (_level(audio) / _level(found).clamp(min=1e-6))

    def muffle(self, audio: torch.Tensor) -> torch.Tensor:
        """Cut high tones, above 2 to 7 kHz, by 12 to 48 dB an octave."""
        spectrum = torch.fft.rfft(audio)
        hertz = torch.linspace(0, RATE / 2, spectrum.shape[1], device=self._device)
        corner, order = self._uniform(2000, 7000, audio.shape[0], 1), self._uniform(4, 16, audio.shape[0], 1)
        return torch.fft.irfft(spectrum * (1 + (hertz / corner) ** order).rsqrt(), audio.shape[1])

    def add_noise(self, audio: torch.Tensor) -> torch.Tensor:
        """Add noise between white and brown, steady or swelling, or the hum of mains, 0 to 35 dB below the speech."""
        spectrum = torch.fft.rfft(self._noise(*audio.shape))
        hertz = torch.linspace(0, RATE / 2, spectrum.shape[1], device=self._device).clamp(min=20)
        colored = torch.fft.irfft(spectrum * hertz ** -self._uniform(0, 1, audio.shape[0], 1), audio.shape[1])
        size = math.ceil(audio.shape[1] / RATE * 3) + 1
        swell = F.interpolate(self._uniform(-25, 0, audio.shape[0], 1, size), audio.shape[1], mode="linear")[:, 0]
        noise = torch.where(self._chosen(audio.shape[0], 0.5), colored * 10 ** (swell / 20), colored)
        at = torch.arange(audio.shape[1], device=self._device) / RATE
        mains = torch.where(self._chosen(audio.shape[0], 0.5), 50.0, 60.0)
        hum = torch.zeros_like(audio)
        for harmonic in range(1, 6):
            hum += self._uniform(0, 1, audio.shape[0], 1) * torch.sin(2 * math.pi * mains * harmonic * at)
        return self._mixed(audio, torch.where(self._chosen(audio.shape[0], 0.1), hum, noise), 0, 35)

    def codec(self, audio: torch.Tensor) -> torch.Tensor:
        """Keep of each moment its loudest tones, in coarse steps, as music's codecs of few bits do."""
        window = torch.hann_window(_TONES, device=self._device)
        spectrum = torch.stft(audio, _TONES, window=window, return_complex=True)
        level = spectrum.abs().clamp(min=1e-7).log2()
        loudest = F.max_pool1d(level.transpose(1, 2).flatten(0, 1)[:, None], 33, 1, 16)[:, 0]
        loudest = loudest.unflatten(0, (audio.shape[0], -1)).transpose(1, 2)
        step = self._uniform(0.1, 0.8, audio.shape[0], 1, 1)
        coarse = 2 ** ((level / step).round() * step - level)
        kept = level > loudest - self._uniform(1.5, 5, audio.shape[0], 1, 1)
        return torch.istft(spectrum * coarse * kept, _TONES, window=window, length=audio.shape[1])

    def add_babble(self, audio: torch.Tensor) -> torch.Tensor:
        """Add the sum of three other rows, 5 to 25 dB below."""
        others = torch.stack([audio.roll(shift, 0).roll(RATE * shift // 3, 1) for shift in (1, 2, 3)]).sum(0)
        return self._mixed(audio, others, 5, 25)

    def _mixed(self, audio: torch.Tensor, other: torch.Tensor, low: float, high: float) -> torch.Tensor:
        ratio = 10 ** (-self._uniform(low, high, audio.shape[0], 1) / 20)
        return audio + other * (ratio * _level(audio).clamp(min=1e-3) / _level(other).clamp(min=1e-6))

    def telephone(self, audio: torch.Tensor) -> torch.Tensor:
        """Pass about 300 to 3400 Hz in eight bits of mu-law."""
        spectrum = torch.fft.rfft(audio)
        hertz = torch.linspace(0, RATE / 2, spectrum.shape[1], device=self._device)
        low, high = self._uniform(200, 400, audio.shape[0], 1), self._uniform(3000, 3800, audio.shape[0], 1)
        found = torch.fft.irfft(spectrum * ((hertz > low) & (hertz < high)), audio.shape[1])
        peak = found.abs().amax(1, keepdim=True).clamp(min=1e-6)
        scaled = found / peak
        coded = torch.sign(scaled) * torch.log1p(255 * scaled.abs()) / math.log(256)
        coded = torch.round(coded * 127) / 127
        return torch.sign(coded) * torch.expm1(coded.abs() * math.log(256)) / 255 * peak

    def clip(self, audio: torch.Tensor) -> torch.Tensor:
        """Cut the peaks."""
        peak = audio.abs().amax(1, keepdim=True) * self._uniform(0.2, 0.7, audio.shape[0], 1)
        return audio.clamp(-peak, peak)


def _level(audio: torch.Tensor) -> torch.Tensor:
    return F.avg_pool1d(audio.square()[:, None], audio.shape[1])[:, 0].sqrt()
