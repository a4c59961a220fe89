"""The corpus in memory, and random batches of utterances of like length."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from training.ear.features import RATE
from training.ear.record import Utterance, read_shard
from training.ear.texts import encode
from training.teacher import shards_in


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded utterances: audio float32 [B, N], samples [B], tokens int64 [B, L] padded with -1, lengths [B]."""

    audio: torch.Tensor
    samples: torch.Tensor
    tokens: torch.Tensor
    lengths: torch.Tensor


class Corpus:
    """Utterances of all shards: audio int16 end to end, their tokens, in the order of the shards."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._read: set[Path] = set()
        self.audio: list[torch.Tensor] = []
        self.tokens: list[list[int]] = []
        self.texts: list[str] = []
        self.speakers: list[str] = []

    def read_new(self, folder: Path) -> int:
        """Read the shards that are new; return the number of utterances."""
        for path in shards_in(folder):
            if path not in self._read:
                self._read.add(path)
                self.add(read_shard(path))
        return len(self.audio)

    def add(self, utterances: Sequence[Utterance]) -> None:
        """Add utterances."""
        for each in utterances:
            self.audio.append(torch.from_numpy(np.ascontiguousarray(each.audio)))
            self.tokens.append(encode(self._tokenizer, each.text))
            self.texts.append(each.text)
            self.speakers.append(each.speaker)

    @property
    def hours(self) -> float:
        """Hours of speech."""
        return sum(len(audio) for audio in self.audio) / RATE / 3600

    def batch(self, chosen: Sequence[int], device: torch.device) -> Batch:
        """Return utterances as one batch on the device, padded to half a second."""
        audio, tokens = [self.audio[i] for i in chosen], [self.tokens[i] for i in chosen]
        step = RATE // 2
        longest = -(-max(map(len, audio)) // step) * step
        padded = torch.zeros(len(chosen), longest, dtype=torch.int16)
        words = torch.full((len(chosen), max(map(len, tokens))), -1, dtype=torch.long)
        for row, (pcm, ids) in enumerate(zip(audio, tokens, strict=True)):
            padded[row, : len(pcm)] = pcm
            words[row, : len(ids)] = torch.tensor(ids)
        counts = torch.tensor([len(pcm) for pcm in audio]), torch.tensor([len(ids) for ids in tokens])
        if device.type == "cuda":
            padded = padded.pin_memory()
        moved = padded.to(device, non_blocking=True)
        return Batch(moved.float() / 32768, *(part.to(device) for part in (counts[0], words, counts[1])))


def batches(corpus: Corpus, seconds: float, seed: int, first: int) -> Iterator[list[int]]:
    """Yield the utterances of each batch of about `seconds` of padded audio, from the seed and the batch's number."""
    number = first
    while True:
        order = sorted(range(len(corpus.audio)), key=lambda i: len(corpus.audio[i]))
        for _ in range(100):  # then shards that have appeared are looked at
            rng = random.Random(f"{seed} {number}")
            start = rng.randrange(len(order))
            count = max(1, int(seconds * RATE / len(corpus.audio[order[start]])))
            low = max(0, min(start - count, len(order) - 3 * count))
            yield rng.sample(order[low : low + 3 * count], min(count, len(order)))
            number += 1
