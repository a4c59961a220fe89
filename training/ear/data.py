"""The corpus on the training device, and random batches of rows of like length.

A row is one utterance or two, with silence before and between them, or silence alone. The device holds all the audio:
a batch is gathered there from a few numbers a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from training.ear.features import RATE
from training.ear.lines import encode

MAX_SECONDS = 15.0  # seconds: the positions of the recognizer
MIN_SECONDS = 0.2
BUCKET = RATE // 2  # samples: lengths of batches are multiples, so that few shapes and transforms exist
MAX_SAMPLES = round(MAX_SECONDS * RATE)
MAX_TOKENS = 184  # the decoder's positions, less what it begins with
JOINED, SILENT = 0.3, 0.01  # share of batches of two utterances a row, and of rows of silence
_LEAD, _GAP = 0.6, 0.8  # most seconds before and between utterances

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded rows: audio float32 [B, N], samples [B] on the host, tokens int64 [B, L] padded with -1, lengths [B]."""

    audio: torch.Tensor
    samples: Numbers
    tokens: torch.Tensor
    lengths: Numbers


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a batch: utterances [B, 2] or -1, and samples [B, 2] of silence before each."""

    utterances: Numbers
    silence: Numbers


def single(chosen: Sequence[int]) -> Rows:
    """Return rows of one utterance each, with no silence."""
    first = np.array(chosen, np.int64)
    return Rows(np.stack([first, np.full_like(first, -1)], 1), np.zeros((len(first), 2), np.int64))


class Corpus:
    """Utterances in the order of their arrival: audio int16 end to end on the device, and their tokens."""

    def __init__(self, tokenizer: Tokenizer, device: torch.device) -> None:
        self._tokenizer, self._device = tokenizer, device
        self._audio = torch.zeros(RATE, dtype=torch.int16, device=device)  # grows by doubling
        self._end = 0
        self._tokens = np.zeros(0, np.int64)
        self.samples = np.zeros(0, np.int64)
        self._begins = self._token_begins = np.zeros(0, np.int64)  # of each utterance
        self.lengths = np.zeros(0, np.int64)
        self.texts: list[str] = []
        self.speakers: list[str] = []

    def __len__(self) -> int:
        return len(self.texts)

    def encoded(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return encode(self._tokenizer, text)

    def add(self, audio: torch.Tensor, samples: Numbers, texts: Sequence[str], speakers: Sequence[str]) -> None:
        """Add utterances: int16 audio end to end, and samples, text and speaker of each; none too short or long."""
        fits = (samples >= MIN_SECONDS * RATE) & (samples <= MAX_SAMPLES)
        kept = np.flatnonzero(fits).tolist()
        if not kept:
            return
        if len(kept) < len(fits):
            counts, there = (torch.from_numpy(each).to(audio.device) for each in (samples, fits))
            audio = audio[there.repeat_interleave(counts)]
        end = self._end + len(audio)
        if end > len(self._audio):
            larger = torch.zeros(max(end, 2 * len(self._audio)), dtype=torch.int16, device=self._device)
            larger[: self._end] = self._audio[: self._end]
            self._audio = larger
        self._audio[self._end : end] = audio
        self._end = end
        tokens = [self.encoded(texts[row]) for row in kept]
        self._tokens = np.concatenate([self._tokens, *map(np.array, tokens)])
        self.samples = np.concatenate([self.samples, samples[kept]])
        self.lengths = np.concatenate([self.lengths, [len(ids) for ids in tokens]])
        self._begins = np.cumsum(self.samples) - self.samples
        self._token_begins = np.cumsum(self.lengths) - self.lengths
        self.texts.extend(texts[row] for row in kept)
        self.speakers.extend(speakers[row] for row in kept)

    @property
    def hours(self) -> float:
        """Hours of speech."""
        return float(self.samples.sum()) / RATE / 3600

    def batch(self, rows: Rows) -> Batch:
        """Return rows as one batch on the device, its length a multiple of BUCKET."""
        there = rows.utterances >= 0
        counts = np.where(there, self.samples[rows.utterances], 0)
        begins = np.where(there, self._begins[rows.utterances], 0)
        total = (counts + rows.silence).sum(1)
        length = -(-int(total.max()) // BUCKET) * BUCKET
        at = torch.arange(length, device=self._device)
        audio = torch.zeros(len(total), length, device=self._device)
        offset = np.zeros(len(total), np.int64)
        for part in range(2 if there[:, 1].any() else 1):  # most batches have no second utterance
            offset = offset + rows.silence[:, part]
            first, count, begin = (self._moved(each)[:, None] for each in (offset, counts[:, part], begins[:, part]))
            inside = (at >= first) & (at < first + count)
            source = (begin + at - first).clamp(0, len(self._audio) - 1)
            audio += torch.where(inside, self._audio[source], 0).float() / 32768
            offset = offset + counts[:, part]
        tokens, lengths = self._words(rows.utterances, there)
        return Batch(audio, total, self._moved(tokens), lengths)

    def _moved(self, numbers: Numbers) -> torch.Tensor:
        return torch.from_numpy(numbers).to(self._device, non_blocking=True)

    def _words(self, utterances: Numbers, there: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        counts = np.where(there, self.lengths[utterances], 0)
        begins = self._token_begins[utterances]
        lengths = counts.sum(1)
        at = np.arange(max(1, int(lengths.max())))
        second = at >= counts[:, :1]
        source = np.where(second, begins[:, 1:] + at - counts[:, :1], begins[:, :1] + at)
        found = self._tokens[np.clip(source, 0, len(self._tokens) - 1)]
        return np.where(at < lengths[:, None], found, -1), lengths


def batches(
    corpus: Corpus, seconds: float, seed: int, first: int, longest: Callable[[], float] = lambda: MAX_SECONDS
) -> Iterator[Rows]:
    """Yield batches of about `seconds` of padded audio, drawn from the seed and the batch's number.

    Each utterance is as likely as another. Utterances that have arrived are noticed.

    Args:
        corpus: The utterances.
        seconds: Padded audio of a batch.
        seed: Of all batches.
        first: Number of the first batch.
        longest: Asked before each batch for the most seconds of an utterance; below MAX_SECONDS a row has one.
    """
    number, known = first, 0
    while True:
        if known != len(corpus):
            known = len(corpus)
            order = np.argsort(corpus.samples, kind="stable")
            ordered = corpus.samples[order]
            ends = np.cumsum(ordered)
        yield _draw(corpus, order, ordered, ends, seconds, np.random.default_rng([seed, number]), longest())
        number += 1


def _draw(
    corpus: Corpus,
    order: Numbers,
    ordered: Numbers,
    ends: Numbers,
    seconds: float,
    rng: np.random.Generator,
    longest: float,
) -> Rows:
    """Return the rows of a batch.

    Args:
        corpus: All utterances.
        order: Utterances by length, of which `ordered` has the samples and `ends` their running sum.
        seconds: Padded audio of the batch.
        rng: Draws everything.
        longest: Seconds of an utterance.
    """
    joined = rng.random() < JOINED and longest >= MAX_SECONDS
    most = int(np.searchsorted(ordered, MAX_SAMPLES * 0.45 if joined else longest * RATE, "right"))
    share = rng.random() * ends[max(0, most - 1)]
    start = min(int(np.searchsorted(ends, share)), len(order) - 1)
    length = int(ordered[start])
    count = max(1, int(seconds * RATE / (length * (2 if joined else 1) + BUCKET)))
    low = max(int(np.searchsorted(ordered, 0.85 * length - BUCKET)), start - 2 * count)
    high = min(int(np.searchsorted(ordered, 1.15 * length + BUCKET, "right")), start + 2 * count + 1)
    pool = rng.permutation(order[low:high])
    firsts = pool[:count]
    seconds_of_row = np.full_like(firsts, -1)
    if joined:
        seconds_of_row = rng.permutation(pool)[: len(firsts)]
    silence = (rng.random((len(firsts), 2)) * [_LEAD * RATE, _GAP * RATE]).astype(np.int64)
    silence[rng.random(len(firsts)) < 0.3, 0] = 0
    silence[:, 1] *= seconds_of_row >= 0
    speech = corpus.samples[firsts] + np.where(seconds_of_row >= 0, corpus.samples[seconds_of_row], 0)
    tokens = corpus.lengths[firsts] + np.where(seconds_of_row >= 0, corpus.lengths[seconds_of_row], 0)
    alone = (speech + silence.sum(1) > MAX_SAMPLES) | (tokens > MAX_TOKENS)
    seconds_of_row[alone] = -1
    silence[alone] = 0
    silent = rng.random(len(firsts)) < SILENT
    silence[silent, 0] += corpus.samples[firsts[silent]]
    return Rows(np.stack([np.where(silent, -1, firsts), np.where(silent, -1, seconds_of_row)], 1), silence)
