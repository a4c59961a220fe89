"""Training batches (PyTorch): shards to features on the device, utterances grouped by length.

Utterances are whole, so that the instance norms see in training what they see in use, and their lengths are rounded
to 16 frames, so that a batch needs no padding in time and the device sees about twenty shapes.
"""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from training.features import FRAME, VOICE_FACTS, energy, to_24k, track_f0, without_offset
from training.teacher import SAMPLES_PER_FRAME, VOICES, Recording, read_shard, shards_in

GRID = 16  # frames
MAX_BATCH = 96
_CHUNK = 256  # utterances whose features are computed at once


def on_grid(durations: Sequence[int], grid: int = GRID) -> list[int]:
    """`durations` with their sum brought to a multiple of `grid` by the closing silence: longer, or a little shorter.

    The two last tokens (closing punctuation and boundary) give up at most 7 frames and keep at least one each.
    """
    fitted = list(durations)
    over = sum(fitted) % grid
    if over and over <= 7 and fitted[-1] + fitted[-2] - over >= 3:
        cut = min(over, fitted[-1] - 1)
        fitted[-1] -= cut
        fitted[-2] -= over - cut
    elif over:
        fitted[-1] += grid - over
    return fitted


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's data on the device.

    `ids`, `durations` and `padding` are [batch, tokens], `index` [batch, frames] names the token of each frame,
    `audio` is [batch, 600 frames], `f0` (Hz) and `energy` (log) are [batch, 2 frames], `voices` [batch], `lengths`
    (on the CPU) [batch].
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

    @property
    def seconds(self) -> float:
        """Seconds of audio in the batch."""
        return self.index.numel() / 40


class Corpus:
    """All utterances so far: features on the device, token data on the host."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.ids: list[npt.NDArray[np.int16]] = []
        self.durations: list[npt.NDArray[np.int16]] = []  # the teacher's: what is to be predicted
        self.fitted: list[list[int]] = []  # on the grid: what the audio has
        self.voices: list[int] = []
        self.starts: list[int] = []  # first frame of each utterance in the tensors below
        self.by_length: dict[int, list[int]] = defaultdict(list)
        self.frames = 0
        self.read: set[str] = set()
        self._audio = torch.zeros(0, dtype=torch.int16, device=device)
        self._f0 = torch.zeros(0, device=device)
        self._energy = torch.zeros(0, device=device)

    @property
    def hours(self) -> float:
        return self.frames / 40 / 3600

    def read_new(self, folder: Path) -> bool:
        """Add the shards of `folder` that were not read yet; True if there were any."""
        new = [path for path in shards_in(folder) if path.name not in self.read]
        recordings = [recording for path in new for recording in read_shard(path)]
        self.read |= {path.name for path in new}
        if recordings:
            self._add(recordings)
        return bool(new)

    def _add(self, recordings: list[Recording]) -> None:
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        first = len(self.ids)
        before = self.frames
        for recording in recordings:
            fitted = on_grid(recording.durations.tolist())
            number, length = len(self.ids), sum(fitted)
            self.ids.append(recording.ids)
            self.durations.append(recording.durations)
            self.fitted.append(fitted)
            self.voices.append(recording.voice)
            self.starts.append(self.frames)
            self.frames += length
            groups[length, recording.voice].append(number)
        count = self.frames - before
        audio = torch.zeros(count * FRAME, dtype=torch.int16, device=self.device)
        f0, loud = torch.zeros(count * 2, device=self.device), torch.zeros(count * 2, device=self.device)
        for (length, voice), numbers in groups.items():
            for k in range(0, len(numbers), _CHUNK):
                part = numbers[k : k + _CHUNK]
                made = self._features([recordings[n - first].audio for n in part], length, VOICES[voice])
                at = torch.tensor([self.starts[n] - before for n in part], device=self.device)[:, None]
                audio[at * FRAME + torch.arange(length * FRAME, device=self.device)] = made[0]
                steps = at * 2 + torch.arange(length * 2, device=self.device)
                f0[steps], loud[steps] = made[1], made[2]
        self._audio = torch.cat([self._audio, audio])
        self._f0, self._energy = torch.cat([self._f0, f0]), torch.cat([self._energy, loud])
        for (length, _), numbers in groups.items():
            self.by_length[length].extend(numbers)

    def _features(self, audio: list[npt.NDArray[np.int16]], length: int, voice: str) -> tuple[Tensor, Tensor, Tensor]:
        samples = length * SAMPLES_PER_FRAME
        rows = np.zeros((len(audio), samples), np.int16)
        for row, wave in zip(rows, audio, strict=True):
            row[: min(samples, len(wave))] = wave[:samples]
        low = without_offset(torch.from_numpy(rows).to(self.device).float() / 32768)
        facts = VOICE_FACTS[voice]
        high = (to_24k(low) * facts.gain).clamp(-1, 1)
        f0, loud = track_f0(low, facts, length * 2), energy(high, length * 2)
        return (high * 32767).round().to(torch.int16), f0, loud

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
        tokens = max(len(self.ids[n]) for n in chosen)
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
        lengths = torch.from_numpy(drawn["lengths"])
        on_device = {}
        for name in ("ids", "durations", "index", "voices", "starts", "lengths"):
            host = torch.from_numpy(drawn[name])
            on_device[name] = (
                host.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else host
            )
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
            lengths=lengths,
            audio=self._audio[samples].float() / 32767,
            f0=self._f0[steps],
            energy=self._energy[steps],
        )

    def summary(self) -> str:
        """Facts worth a line in the log."""
        voiced = self._f0[self._f0 > 0][:: max(1, len(self._f0) // 1_000_000)]
        quantiles = torch.quantile(voiced, torch.tensor([0.01, 0.5, 0.99], device=self.device)).tolist()
        counts = np.bincount(self.voices, minlength=len(VOICES)).tolist()
        return (
            f"{len(self.ids)} utterances {dict(zip(VOICES, counts, strict=True))}, {self.hours:.2f} h, "
            f"{len(self.by_length)} lengths, F0 1/50/99 % {' '.join(f'{q:.0f}' for q in quantiles)} Hz, "
            f"peak {int(self._audio.abs().max()) / 32767:.2f}"
        )


class Feeder:
    """Draws batches on a thread of its own, a few steps ahead (the queue's bound). Iterate from `first` step."""

    def __init__(self, corpus: Corpus, *, seed: int, first: int, frames: int) -> None:
        self._queue: queue.Queue[dict[str, npt.NDArray[np.int64]]] = queue.Queue(8)
        self._lock = threading.Lock()
        self._corpus, self._seed, self._frames = corpus, seed, frames
        threading.Thread(target=self._draw, args=(first,), daemon=True).start()

    def _draw(self, step: int) -> None:
        while True:
            with self._lock:
                drawn = self._corpus.draw(self._seed, step, self._frames)
            self._queue.put(drawn)
            step += 1

    def refresh(self, folder: Path) -> bool:
        """Let the corpus read new shards while no batch is being drawn; True if there were any."""
        with self._lock:
            return self._corpus.read_new(folder)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self._corpus.batch(self._queue.get())
