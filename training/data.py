"""Training batches (PyTorch): the teacher's utterances on the device, grouped by length.

Utterances are whole, so that the instance norms see in training what they see in use, and all utterances of a batch
have one length. A batch of a length always has the same shapes, so that a CUDA graph serves for it.
"""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from training.features import FRAME
from training.teacher import Utterances, most_tokens
from training.voices import VOICES

MAX_BATCH = 96
LEVEL = 0.1  # of full scale: the RMS of the speech of every voice, -20 dBFS
PEAK = 0.97  # of full scale: what 99 of 100 utterances stay below
AUDIBLE = 0.01  # of full scale: what is louder counts as speech


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's data on the device.

    `ids`, `durations` and `padding` are [batch, tokens], `index` [batch, frames] names the token of each frame,
    `audio` is [batch, 600 frames], `f0` (Hz) and `energy` are [batch, 2 frames], `voices` and `lengths` [batch].
    `prosody` [] is 1 where durations, F0 and energy are to be learned, 0 where they are the network's own.
    """

    ids: Tensor
    durations: Tensor
    padding: Tensor
    index: Tensor
    voices: Tensor
    lengths: Tensor
    audio: Tensor
    f0: Tensor
    energy: Tensor
    prosody: Tensor

    @property
    def seconds(self) -> float:
        """Seconds of audio in the batch."""
        return self.index.numel() / 40

    @property
    def shape(self) -> tuple[int, ...]:
        """What a graph of a step depends on."""
        return (*self.ids.shape, self.index.shape[1])

    def clone(self) -> Batch:
        """Return a copy in memory of its own."""
        return Batch(*(getattr(self, field.name).clone() for field in fields(self)))

    def copy_(self, other: Batch) -> None:
        """Take over the numbers of another batch of the same shape."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


class Corpus:
    """Utterances: audio, F0 and energy end to end on the device, tokens on the host."""

    def __init__(self, device: torch.device, *, learns_prosody: bool = True) -> None:
        self.device = device
        self.learns_prosody = learns_prosody
        self.ids: list[npt.NDArray[np.int64]] = []
        self.durations: list[list[int]] = []  # the teacher's: what is to be predicted
        self.fitted: list[list[int]] = []  # on the grid: what the audio has
        self.voices: list[int] = []
        self.starts: list[int] = []  # first frame of each utterance in the tensors below
        self.by_length: dict[int, list[int]] = defaultdict(list)
        self.frames = 0
        self._audio = torch.zeros(0, dtype=torch.float16, device=device)
        self._f0 = self._energy = torch.zeros(0, device=device)
        self.gains = torch.ones(len(VOICES), device=device)

    @property
    def hours(self) -> float:
        return self.frames / 40 / 3600

    def add(self, spoken: Iterable[Utterances], gains: Tensor | None = None) -> None:
        """Add utterances; `gains` [voices] are those of another corpus, otherwise each voice is brought to LEVEL."""
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        squares, counts = torch.zeros(len(VOICES)), torch.zeros(len(VOICES))
        peaks: dict[int, list[float]] = defaultdict(list)
        for each in spoken:
            length = each.f0.shape[1] // 2
            loud = each.audio.abs() > AUDIBLE
            power = ((each.audio.square() * loud).sum(1).cpu(), loud.sum(1).cpu(), each.audio.abs().amax(1).cpu())
            for row, line in enumerate(each.lines):
                self.by_length[length].append(len(self.ids))
                self.ids.append(line.ids)
                self.voices.append(line.voice)
                self.starts.append(self.frames)
                self.frames += length
                squares[line.voice] += power[0][row]
                counts[line.voice] += power[1][row]
                peaks[line.voice].append(float(power[2][row]))
            self.durations.extend(each.durations)
            self.fitted.extend(each.fitted)
            parts.append((each.audio.half().flatten(), each.f0.float().flatten(), each.energy.float().flatten()))
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # of many shapes that will not come again
        if parts:
            audio, f0, energy = (torch.cat(part) for part in zip(*parts, strict=True))
            self._audio = torch.cat([self._audio, audio])
            self._f0, self._energy = torch.cat([self._f0, f0.clamp(min=0)]), torch.cat([self._energy, energy])
        if gains is not None:
            self.gains = gains
            return
        levels = torch.sqrt(squares / counts.clamp(min=1)).clamp(min=1e-3)
        bounds = torch.tensor([np.quantile(peaks[k], 0.99) if peaks[k] else 1.0 for k in range(len(VOICES))])
        self.gains = torch.minimum(LEVEL / levels, PEAK / bounds).float().to(self.device)

    def draw(self, seed: int, step: int, frames: int) -> dict[str, npt.NDArray[np.int64]]:
        """The host's half of the batch of `step`: about `frames` frames of utterances of one length.

        The draw depends on the seed, the step and the corpus alone. Lengths are drawn by their count times the root
        of their frames: between an utterance each (long ones seldom in a batch) and a frame each (short ones rare).
        """
        rng = np.random.default_rng((seed, step))
        lengths = sorted(self.by_length)
        weights = np.array([len(self.by_length[length]) * length**0.5 for length in lengths])
        length = lengths[rng.choice(len(lengths), p=weights / weights.sum())]
        members = self.by_length[length]
        size = max(2, min(frames // length, MAX_BATCH))
        chosen = [members[k] for k in rng.choice(len(members), size, replace=size > len(members))]
        tokens = most_tokens(length)
        ids, durations = np.zeros((size, tokens), np.int64), np.zeros((size, tokens), np.int64)
        index = np.zeros((size, length), np.int64)
        for row, number in enumerate(chosen):
            count = len(self.ids[number])
            ids[row, :count], durations[row, :count] = self.ids[number], self.durations[number]
            index[row] = np.repeat(np.arange(count), self.fitted[number])
        return {
            "ids": ids,
            "durations": durations,
            "index": index,
            "lengths": np.array([len(self.ids[n]) for n in chosen]),
            "voices": np.array([self.voices[n] for n in chosen]),
            "starts": np.array([self.starts[n] for n in chosen]),
        }

    def batch(self, drawn: dict[str, npt.NDArray[np.int64]]) -> Batch:
        """Finish a drawn batch on the device."""
        on_device = {}
        for name, array in drawn.items():
            host = torch.from_numpy(array)
            pinned = host.pin_memory() if self.device.type == "cuda" else host
            on_device[name] = pinned.to(self.device, non_blocking=True)
        frames = drawn["index"].shape[1]
        start = on_device["starts"][:, None]
        samples = start * FRAME + torch.arange(frames * FRAME, device=self.device)
        steps = start * 2 + torch.arange(frames * 2, device=self.device)
        places = torch.arange(drawn["ids"].shape[1], device=self.device)
        return Batch(
            ids=on_device["ids"],
            durations=on_device["durations"],
            padding=places[None] >= on_device["lengths"][:, None],
            index=on_device["index"],
            voices=on_device["voices"],
            lengths=on_device["lengths"],
            audio=self._audio[samples].float() * self.gains[on_device["voices"]][:, None],
            f0=self._f0[steps],
            energy=self._energy[steps],
            prosody=torch.full((), float(self.learns_prosody), device=self.device),
        )

    def summary(self) -> str:
        """Facts worth a line in the log."""
        counts = np.bincount(self.voices, minlength=len(VOICES)).tolist()
        gains = " ".join(f"{gain:.2f}" for gain in self.gains.tolist())
        return (
            f"{len(self.ids)} utterances {dict(zip(VOICES, counts, strict=True))}, {self.hours:.2f} h, "
            f"{len(self.by_length)} lengths, gains {gains}"
        )


class Feeder:
    """Draws batches on a thread of its own, a few steps ahead (the queue's bound), from step `first`.

    Several corpora take turns.
    """

    def __init__(self, corpora: list[Corpus], *, seed: int, first: int, frames: int) -> None:
        self._queue: queue.Queue[tuple[Corpus, dict[str, npt.NDArray[np.int64]]]] = queue.Queue(8)
        self._corpora, self._seed, self._frames = corpora, seed, frames
        threading.Thread(target=self._draw, args=(first,), daemon=True).start()

    def _draw(self, step: int) -> None:
        while True:
            corpus = self._corpora[step % len(self._corpora)]
            self._queue.put((corpus, corpus.draw(self._seed, step, self._frames)))
            step += 1

    def __iter__(self) -> Iterator[Batch]:
        while True:
            corpus, drawn = self._queue.get()
            yield corpus.batch(drawn)
