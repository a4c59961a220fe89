"""Kokoro-82M in PyTorch, used well: the reference's own modules, captured as two CUDA graphs a shape.

The reference launches thousands of small kernels from Python, and the host bounds it. A graph is one launch. So this is
the peer that shows what the GPU can do without kernels of one's own: `kokoro_peers` runs it where there is CUDA. One
utterance without padding, so nothing is masked or packed. The host reads the frames of each token between the graphs,
since they decide the shape of the sound. TF32 products are allowed, and cuDNN measures its convolutions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from loadtest.kokoro_reference import Reference
from loadtest.torch_graphs import capture, missing

SAMPLES_PER_FRAME = 600
"""At 24 kHz."""


class Spectra(torch.nn.Module):
    """The reference's STFT with its window on the device; the inverse omits a check that waits for the GPU."""

    window: Tensor

    def __init__(self, size: int, hop: int) -> None:
        super().__init__()
        self.hop = hop
        self.register_buffer("window", torch.hann_window(size))

    def transform(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Samples [B, N] -> magnitude and phase, both [B, size / 2 + 1, M]."""
        found = torch.stft(samples, len(self.window), self.hop, window=self.window, return_complex=True)
        return found.abs(), found.angle()

    def inverse(self, magnitude: Tensor, phase: Tensor) -> Tensor:
        """Magnitude and phase [B, size / 2 + 1, M] -> samples [B, 1, hop * (M - 1)]."""
        size, count = len(self.window), magnitude.shape[2]
        window = self.window[:, None]
        length = size + self.hop * (count - 1)

        def added(frames: Tensor) -> Tensor:
            whole = F.fold(frames, (1, length), (1, size), stride=(1, self.hop))
            return whole[:, 0, :, size // 2 : length - size // 2]

        frames = torch.fft.irfft(torch.polar(magnitude, phase), dim=1) * window
        return added(frames) / added((window * window).expand(1, size, count))


class Harmonics(torch.nn.Module):
    """The reference's `SineGen` with the numbers of the harmonics on the device. It draws as that does."""

    numbers: Tensor

    def __init__(self, reference: Any) -> None:
        super().__init__()
        self.reference = reference
        self.register_buffer("numbers", torch.arange(1.0, reference.harmonic_num + 2))

    def forward(self, f0: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pitch in Hz [B, N, 1] -> waves [B, N, H], whether voiced [B, N, 1], and the noise in the waves [B, N, H]."""
        of = self.reference
        waves = of._f02sine(f0 * self.numbers) * of.sine_amp
        voiced = of._f02uv(f0)
        noise = (voiced * of.noise_std + (1 - voiced) * of.sine_amp / 3) * torch.randn_like(waves)
        return waves * voiced + noise, voiced, noise


class Network:
    """Kokoro's arithmetic for one utterance, without masks, packing and constants from the host."""

    def __init__(self, reference: Reference, style: Tensor) -> None:
        """Take over `reference` on its device, with `style` [1, 256] there; its weight norms become plain weights."""
        generator = reference.decoder.generator
        generator.stft = Spectra(generator.stft.filter_length, generator.stft.hop_length).to(style.device)
        source = generator.m_source
        source.l_sin_gen = Harmonics(source.l_sin_gen).to(style.device)
        for module in reference.modules():
            with contextlib.suppress(ValueError):  # most modules have none
                torch.nn.utils.remove_weight_norm(module)
            if isinstance(module, torch.nn.LSTM):
                module.flatten_parameters()
        self.reference, self.sound_style, self.prosody = reference, style[:, :128], style[:, 128:]

    def text(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ids [1, T] -> prosody's features [1, T, D], text's features [1, C, T], frames of each token [T]."""
        of, predictor = self.reference, self.reference.predictor
        # AlbertModel itself builds a mask of ones and waits for the GPU to look at it.
        x = of.bert_encoder(of.bert.encoder(of.bert.embeddings(ids)).last_hidden_state)
        prosody = self.prosody[:, None].expand(-1, ids.shape[1], -1)
        x = torch.cat([x, prosody], -1)
        for block in predictor.text_encoder.lstms:
            is_lstm = isinstance(block, torch.nn.LSTM)
            x = block(x)[0] if is_lstm else torch.cat([block(x, self.prosody), prosody], -1)
        expected = torch.sigmoid(predictor.duration_proj(predictor.lstm(x)[0])).sum(-1)
        text = of.text_encoder.embedding(ids).transpose(1, 2)
        for block in of.text_encoder.cnn:
            text = block(text)
        text = of.text_encoder.lstm(text.transpose(1, 2))[0].transpose(1, 2)
        return x, text, torch.round(expected).clamp(min=1).long()[0]

    def sound(self, features: Tensor, text: Tensor, at: Tensor) -> Tensor:
        """Features of the tokens, and the token of each frame [N] -> samples [600 N]."""
        f0, energy = self.reference.predictor.F0Ntrain(features[:, at].transpose(1, 2), self.prosody)
        samples: Tensor = self.reference.decoder(text[:, :, at], f0, energy, self.sound_style)
        return samples.flatten()


class Utterance:
    """Utterances of one number of tokens, in memory that is the same in every run."""

    def __init__(self, network: Network, tokens: int, *, text_graph: bool = True) -> None:
        """Prepare for `tokens` ids. With CUDA, capture the sound, and the text's side where `text_graph` says so."""
        self._network = network
        self._device = network.prosody.device
        self._sounds: dict[int, tuple[Tensor, Tensor, Callable[[], object]]] = {}
        self._ids = torch.zeros((1, tokens), dtype=torch.long, device=self._device)
        self._made = [torch.empty_like(each) for each in network.text(self._ids)]

        def text() -> None:
            for to, each in zip(self._made, network.text(self._ids), strict=True):
                to.copy_(each)

        self._text = capture(text) if text_graph and self._device.type == "cuda" else text

    def _sound(self, frames: int) -> tuple[Tensor, Tensor, Callable[[], object]]:
        """Return the places of `frames` frames, their samples, and the work between them."""
        if frames not in self._sounds:
            at = torch.zeros(frames, dtype=torch.long, device=self._device)
            samples = torch.zeros(frames * SAMPLES_PER_FRAME, device=self._device)
            features, text, _ = self._made

            def work() -> None:
                samples.copy_(self._network.sound(features, text, at))

            self._sounds[frames] = at, samples, capture(work) if self._device.type == "cuda" else work
        return self._sounds[frames]

    def __call__(self, ids: Sequence[int]) -> Tensor:
        """Return the samples of an utterance in the host's memory."""
        self._ids.copy_(torch.tensor([ids]))
        self._text()
        frames = self._made[2].cpu()
        places = torch.repeat_interleave(frames)
        at, samples, work = self._sound(len(places))
        at.copy_(places)
        work()
        return samples.cpu()


def runner(network: Network, *, text_graph: bool = True) -> Callable[[list[int]], int]:
    """Return a function from ids to the number of samples; it captures each shape once."""
    kept: dict[int, Utterance] = {}

    def run(ids: list[int]) -> int:
        with torch.inference_mode():
            if len(ids) not in kept:
                kept[len(ids)] = Utterance(network, len(ids), text_graph=text_graph)
            return len(kept[len(ids)](ids).numpy())

    return run


def make(*, text_graph: bool) -> Callable[[list[int]], int]:
    """Return `runner` on the GPU, for the reference's weights. Raises RuntimeError where there is no CUDA."""
    if reason := missing():
        raise RuntimeError(reason)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    style = torch.randn(1, 256, generator=torch.Generator().manual_seed(2)) * 0.5
    return runner(Network(Reference().to("cuda"), style.to("cuda")), text_graph=text_graph)
