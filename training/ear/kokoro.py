"""Speech by Kokoro's network, made in batches on the training device: many speakers, rates, pitches and moods.

A teacher is a folder of Kokoro's official layout, or of the house voice's, which is the same network. A speaker is a
voice, or a mixture of two; one utterance in five has the prosody of a third, and half are said less clearly than
written (`liberties.py`). Utterances of the same number of frames share a batch of the decoder: its norms are over time,
and would hear padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from training.ear.features import RATE
from training.ear.liberties import loosened
from training.ear.lines import Line
from training.model import HouseVoice, read_config

FRAME_SECONDS = 0.025
ROUND = 8  # frames: totals are multiples, so that groups are large
MAX_FRAMES = 600  # 15 s
POOL = 3072  # utterances that are planned together
TOKEN_ROWS = 128  # of a batch of the text's side
BATCH_FRAMES = 6400  # of a batch of the decoder: 160 s
BLENDED, OTHER_PROSODY, FAVORED, LOOSE = 0.5, 0.2, 0.2, 0.5  # shares of the utterances
BLEND = (-0.2, 1.2)  # share of the second voice in a blend: some go beyond both
FAVORITES = ("af_heart", "am_michael", "bf_emma", "bm_fable")  # teachers of the house's voices
SPEED, PITCH, RANGE, EFFORT = (0.65, 1.6), (0.75, 1.3), (0.4, 1.6), (-0.5, 0.4)
RHYTHM = (0.05, 0.3)  # standard deviation of the logarithm of a token's duration, of an utterance
VOICED = 30.0  # Hz: below, a frame has no pitch
LEVEL, PEAK = 0.1, 0.98  # of an utterance: -20 dBFS, and its bound
EDGE, PAD = 0.003, 0.1  # of full scale: quieter ends are silence; seconds of it that stay
FULL = 32767

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]


class Speech(NamedTuple):
    """Utterances: int16 audio at RATE end to end on the device, samples of each, texts, and names of the speakers."""

    audio: Tensor
    samples: Numbers
    texts: list[str]
    speakers: list[str]


@dataclass(frozen=True, slots=True)
class Manner:
    """How each utterance of a pool is said: style rows [P, 2 style] and a factor or offset [P] each."""

    styles: Tensor
    speed: Floats
    pitch: Tensor
    spread: Tensor
    effort: Tensor


@dataclass(frozen=True, slots=True)
class Plan:
    """The text's side of a pool, its tokens end to end: features of both halves, durations of each utterance's."""

    prosody: Tensor
    text: Tensor
    durations: list[Numbers]
    begins: Numbers


def _arrays(folder: Path) -> dict[str, Tensor]:
    found = [path for path in sorted(folder.glob("*.safetensors")) if path.name != "voices.safetensors"]
    if found:
        return load_file(str(found[0]))
    parts = torch.load(next(folder.glob("*.pth")), map_location="cpu", weights_only=True)
    return {f"{part}.{name.removeprefix('module.')}": array for part, of in parts.items() for name, array in of.items()}


def load(folder: Path, device: torch.device) -> tuple[HouseVoice, dict[str, int], dict[str, Tensor]]:
    """Return the network of a folder, its vocabulary, and style rows [lengths, 2 style] of each voice on the host.

    Raises ValueError where weights are missing.
    """
    config = read_config(folder)
    network = HouseVoice(config, voices=1)
    given, wanted = _arrays(folder), network.state_dict()
    missing = [name for name in wanted if name not in given and not name.startswith("voices.")]
    if missing:
        raise ValueError(f"{folder} lacks {len(missing)} weights, the first {missing[0]}")
    network.load_state_dict({name: array for name, array in given.items() if name in wanted}, strict=False)
    for module in network.modules():
        if hasattr(module, "weight_g"):
            torch.nn.utils.remove_weight_norm(module)
    voices = load_file(str(folder / "voices.safetensors"))
    tables = {name: rows.float().reshape(-1, rows.shape[-1]) for name, rows in voices.items()}
    return network.to(device).eval().requires_grad_(False), config["vocab"], tables


def _kernels(half: int = 48, bandwidth: float = 0.645) -> Tensor:
    """Return two phases of a windowed sinc that passes `bandwidth` of the band at 24 kHz: a bit less than 8 kHz."""
    at = np.arange(-half, half + 1) - np.array([[0.0], [1.5]])
    window = np.cos(np.pi * np.clip(at / (half - 2), -1, 1) / 2) ** 2
    return torch.tensor(np.sinc(at * bandwidth) * bandwidth * window, dtype=torch.float32)[:, None]


_KERNELS = _kernels()


def to_16k(audio: Tensor) -> Tensor:
    """[batch, n] at 24 kHz -> [batch, 2 n / 3] at 16 kHz; n must be a multiple of 3."""
    half = _KERNELS.shape[-1] // 2
    phases = F.conv1d(F.pad(audio[:, None], (half, half)), _KERNELS.to(audio.device), stride=3)
    return phases[..., : audio.shape[1] // 3].transpose(1, 2).flatten(1)


def bounds(audio: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first sample and the end [batch] of each row without its silence, of which PAD seconds stay."""
    loud = audio.abs() > EDGE
    length, pad = audio.shape[1], round(PAD * RATE)
    first = loud.float().argmax(1)
    last = length - loud.flip(1).float().argmax(1)
    return (first - pad).clamp(min=0), torch.where(loud.any(1), (last + pad).clamp(max=length), 0)


class Narrator:
    """One teacher, which says lines in a manner of its own each time."""

    def __init__(self, folder: Path, device: torch.device, seed: int) -> None:
        self._network, self._vocabulary, self._voices = load(folder, device)
        self._device, self._rng = device, np.random.default_rng(seed)
        self._names = sorted(self._voices)
        self._favorites = [name for name in FAVORITES if name in self._voices] or self._names

    def speak(self, lines: Sequence[Line], voices: Sequence[str] | None = None) -> Speech:
        """Return the lines as speech: each by a voice of `voices` as it is, or by default by drawn speakers."""
        ids, names, manner = self._planned(lines, voices)
        with torch.no_grad():
            plan = self._text_side(ids, manner, rhythm=RHYTHM if voices is None else None)
            totals = np.array([each.sum() for each in plan.durations])
            pieces: list[Tensor] = []
            samples: list[Tensor] = []
            order: list[int] = []
            for total in np.unique(totals[totals <= MAX_FRAMES]).tolist():
                chosen = np.flatnonzero(totals == total)
                for rows in np.array_split(chosen, math.ceil(len(chosen) * total / BATCH_FRAMES)):
                    audio = self._decoded(plan, rows, manner)
                    first, end = bounds(audio)
                    at = torch.arange(audio.shape[1], device=self._device)
                    inside = (at >= first[:, None]) & (at < end[:, None])
                    pieces.append((audio * FULL).round().short()[inside])
                    samples.append(inside.sum(1))
                    order.extend(rows.tolist())
        none = torch.zeros(0, dtype=torch.int16, device=self._device)
        counts = torch.cat(samples).cpu().numpy() if samples else np.zeros(0, np.int64)
        return Speech(
            torch.cat([none, *pieces]), counts, [lines[row].text for row in order], [names[row] for row in order]
        )

    def _planned(
        self, lines: Sequence[Line], voices: Sequence[str] | None
    ) -> tuple[list[list[int]], list[str], Manner]:
        """Return the tokens of each line, its speaker's name, and how it is said."""
        rng, count = self._rng, len(lines)
        ids: list[list[int]] = []
        names: list[str] = []
        styles: list[Tensor] = []
        for row, line in enumerate(lines):
            name = voices[row] if voices is not None else self._drawn()
            # An accent reads its own phonemes; one time in five another's, as people from elsewhere do.
            british = name.startswith("b") != (voices is None and rng.random() < 0.2)
            phonemes = (line.british if british else line.american) or line.american
            if voices is None and rng.random() < LOOSE:
                phonemes = loosened(phonemes, rng)
            ids.append([0, *(self._vocabulary[sign] for sign in phonemes if sign in self._vocabulary), 0])
            style = self._row(name, len(ids[-1]))
            half = len(style) // 2
            if voices is None and rng.random() < BLENDED:
                other = self._drawn()
                share = float(rng.uniform(*BLEND))
                style = torch.lerp(style, self._row(other, len(ids[-1])), share)
                name = f"{name}+{other}"
            if voices is None and rng.random() < OTHER_PROSODY:
                style = torch.cat([style[:half], self._row(self._drawn(), len(ids[-1]))[half:]])
            names.append(name)
            styles.append(style)

        def drawn(low: float, high: float, plain: float) -> Floats:
            found = rng.triangular(low, plain, high, count) if voices is None else np.full(count, plain)
            return found.astype(np.float32)

        pitch, spread, effort = (
            torch.from_numpy(drawn(*limits, plain)).to(self._device)[:, None]
            for limits, plain in ((PITCH, 1.0), (RANGE, 1.0), (EFFORT, 0.0))
        )
        return ids, names, Manner(torch.stack(styles).to(self._device), drawn(*SPEED, 1.0), pitch, spread, effort)

    def _drawn(self) -> str:
        favored = self._rng.random() < FAVORED
        names = self._favorites if favored else self._names
        return names[int(self._rng.integers(len(names)))]

    def _row(self, name: str, tokens: int) -> Tensor:
        rows = self._voices[name]
        return rows[max(0, min(tokens - 3, len(rows) - 1))]

    def _text_side(self, ids: Sequence[Sequence[int]], manner: Manner, rhythm: tuple[float, float] | None) -> Plan:
        """Return what the tokens of all utterances give; the closing silence fills the last ROUND of frames."""
        counts = np.array([len(each) for each in ids])
        order = np.argsort(counts, kind="stable")
        network, half = self._network, manner.styles.shape[1] // 2
        prosody: list[Tensor] = []
        text: list[Tensor] = []
        expected: list[Tensor] = []
        for rows in np.split(order, range(TOKEN_ROWS, len(order), TOKEN_ROWS)):
            lengths = torch.from_numpy(counts[rows]).to(self._device)
            padded = np.zeros((len(rows), int(counts[rows].max())), np.int64)
            for at, row in enumerate(rows):
                padded[at, : counts[row]] = ids[row]
            tokens = torch.from_numpy(padded).to(self._device)
            there = torch.arange(padded.shape[1], device=self._device) < lengths[:, None]
            style = manner.styles[torch.from_numpy(rows).to(self._device), half:]
            features, logits = network.tokens(tokens, lengths, ~there, style)
            prosody.append(features[there])
            text.append(network.text_encoder(tokens, lengths, ~there).transpose(1, 2)[there])
            expected.append(torch.sigmoid(logits).sum(-1)[there])
        begins = np.zeros(len(ids), np.int64)
        begins[order] = np.cumsum(counts[order]) - counts[order]
        frames = torch.cat(expected).float().cpu().numpy()
        if rhythm is not None:
            spread = np.zeros(len(frames))
            for begin, count in zip(begins, counts, strict=True):
                spread[begin : begin + count] = self._rng.uniform(*rhythm)
            frames = frames * np.exp(self._rng.normal(0.0, 1.0, len(frames)) * spread)
        durations = []
        for row, begin in enumerate(begins):
            own = np.round(frames[begin : begin + counts[row]] / manner.speed[row]).clip(1).astype(np.int64)
            own[-1] += -own.sum() % ROUND
            durations.append(own)
        return Plan(torch.cat(prosody), torch.cat(text), durations, begins)

    def _decoded(self, plan: Plan, rows: Numbers, manner: Manner) -> Tensor:
        """Return the audio [batch, samples] at RATE of utterances of equal totals, levelled."""
        durations = [plan.durations[row] for row in rows]
        index = np.stack(
            [
                plan.begins[row] + np.repeat(np.arange(len(each)), each)
                for row, each in zip(rows, durations, strict=True)
            ]
        )
        at = torch.from_numpy(index).to(self._device)
        chosen = torch.from_numpy(rows).to(self._device)
        styles = manner.styles[chosen]
        half = styles.shape[1] // 2
        f0, energy = self._network.predictor.f0_and_energy(plan.prosody[at], styles[:, half:])
        f0 = self._sung(f0, manner.pitch[chosen], manner.spread[chosen])
        energy = energy + manner.effort[chosen]
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            audio = self._network.decoder(plan.text[at].transpose(1, 2), f0, energy, styles[:, :half])
        audio = to_16k(audio.float())
        level = LEVEL / audio.square().mean(1, keepdim=True).sqrt().clamp(min=1e-4)
        limit = PEAK / audio.abs().amax(1, keepdim=True).clamp(min=1e-4)
        return audio * torch.minimum(level, limit)

    @staticmethod
    def _sung(f0: Tensor, pitch: Tensor, spread: Tensor) -> Tensor:
        """Return F0 `pitch` times as high, its distance from each row's mean `spread` times as far."""
        voiced = f0 > VOICED
        mean = (f0 * voiced).sum(1, keepdim=True) / voiced.sum(1, keepdim=True).clamp(min=1)
        return torch.where(voiced, ((mean + (f0 - mean) * spread) * pitch).clamp(min=VOICED), f0)


def speech(folders: Sequence[Path], lines: Sequence[Line], device: torch.device, seed: int) -> Iterator[Speech]:
    """Yield speech without end: the lines from the first to the last, again and again, by a teacher after the other."""
    narrators = [Narrator(folder, device, seed + number) for number, folder in enumerate(folders)]
    turn = 0
    while True:
        for first in range(0, len(lines), POOL):
            yield narrators[turn % len(narrators)].speak(lines[first : first + POOL])
            turn += 1
