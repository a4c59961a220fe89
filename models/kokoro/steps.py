"""Parts of the network as functions of arrays alone, which a GPU compiles once per bucket; their shapes and times.

A batch has one row per utterance, each of its own length. Padding is masked out, so that a row's result is that of the
utterance alone, within rounding. Copies of the first row pad a batch to its bucket.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.backend import cpu_streams, mx, on_cpu
from models.contract import IsCancelled
from models.kokoro.network import Kokoro
from models.layers.conv import PaddingMask
from models.timeline import Stage, Timeline

TOKEN_BUCKETS = (16, 32, 64, 128, 256, 512)
FRAME_BUCKETS = (100, 200, 300, 400, 600, 800, 1200, 1600)
BATCH_BUCKETS = (1, 2, 4, 8)
# A longer utterance fills the device alone: it joins no batch.
JOINED_TOKENS = 128
# Frames of all rows of a batch: those of the longest bucket, so that a batch needs no more memory than it does.
BATCH_FRAMES = FRAME_BUCKETS[-1]


@dataclass(frozen=True, slots=True, eq=False)
class BatchRow:
    """One utterance of a batch: token ids [T], a style row [1, 2 * style_dim], and its request's timeline.

    `noise` [frames * 600] replaces the source's seeded noise, for comparison with the reference.
    """

    ids: list[int]
    style: npt.NDArray[np.float32]
    speed: float
    seed: int
    timeline: Timeline
    cancelled: IsCancelled
    noise: npt.NDArray[np.float32] | None = None


class CompiledNetwork:
    """Parts of `network`, compiled on a GPU.

    `count` is int32 [B], the valid tokens or frames of each row, or None where nothing is padded.
    """

    def __init__(self, network: Kokoro) -> None:
        self.network = network
        wrap: Callable[[Any], Any] = (lambda f: f) if on_cpu() else mx.compile
        self.bert, self.durations = wrap(self._bert), wrap(self._durations)
        self.text, self.curves, self._whole = wrap(self._text), wrap(self._curves), wrap(self._audio)

    def _bert(self, ids: mx.array, count: mx.array | None) -> mx.array:
        """ids [B, T] -> [B, T, hidden]."""
        hidden: mx.array = self.network.bert_encoder(self.network.bert(ids, _valid(count, ids)))
        return hidden

    def _durations(self, hidden: mx.array, styles: mx.array, count: mx.array | None) -> tuple[mx.array, mx.array]:
        """hidden [B, T, hidden] -> encoding [B, T, hidden + style] and expected frames [B, T]."""
        return self.network.predictor.durations(hidden, _halves(styles)[1], _valid(count, hidden))

    def _text(self, ids: mx.array, count: mx.array | None) -> mx.array:
        """ids [B, T] -> [B, T, hidden]."""
        with mx.stream(cpu_streams()[-1]):  # in parallel with PL-BERT, unless profiling waits for each
            return self.network.text_encoder(ids, _valid(count, ids))

    def _curves(self, aligned: mx.array, styles: mx.array, count: mx.array | None) -> tuple[mx.array, mx.array]:
        """Aligned encoding [B, F, hidden + style] -> F0 and energy [B, 2F]."""
        return self.network.predictor.curves(aligned, _halves(styles)[1], _valid(count, aligned))

    def pieces(self, *given: Any) -> Iterator[list[mx.array]]:
        """Run decoder and generator (`_pieces`) in pieces of work. Each ends in arrays to evaluate, the last: samples.

        A GPU takes some milliseconds for all of it, and is faster with one compiled function: there it is one piece.
        """
        return self._pieces(*given) if on_cpu() else iter([[self._whole(*given)]])

    def _audio(self, *given: Any) -> mx.array:
        *_, (samples,) = self._pieces(*given)
        return samples

    def _pieces(
        self,
        text: mx.array,
        f0: mx.array,
        energy: mx.array,
        styles: mx.array,
        noise: mx.array,
        count: mx.array | None,
    ) -> Iterator[list[mx.array]]:
        """Compute samples [B, F * 600].

        Args:
            text: Aligned text features [B, F, hidden].
            f0: In Hz, [B, 2F].
            energy: [B, 2F].
            styles: [B, 2 * style_dim].
            noise: Merged noise [B, F * 600].
            count: Valid frames of each row.
        """
        decoder = self.network.decoder
        styled = _halves(styles)[0].astype(decoder.dtype)
        x = decoder.features(text, f0, energy, styled, _valid(count, text))
        yield from decoder.generator.pieces(x, styled, f0, noise, None if count is None else 2 * count[:, None])


def _halves(styles: mx.array) -> tuple[mx.array, mx.array]:
    first, second = mx.split(styles, 2, axis=-1)
    return first, second


def _valid(count: mx.array | None, x: mx.array) -> PaddingMask:
    return PaddingMask() if count is None else PaddingMask.of(count[:, None, None], x.shape[1])


def counted(lengths: Sequence[int], size: int, *, padded: bool) -> mx.array | None:
    """Return `count` for rows of these lengths in arrays of `size`; None where all are full and nothing is `padded`."""
    return mx.array(list(lengths)) if padded or any(length != size for length in lengths) else None


def align(x: mx.array, frames: Sequence[npt.NDArray[np.int64]], length: int) -> mx.array:
    """Repeat each token of x [B, T, C] for its frames: [B, length, C]; the last token fills a row up."""
    batch, tokens, width = x.shape
    index = np.zeros((batch, length), dtype=np.int64)
    for row, of_token in enumerate(frames):
        at = np.repeat(np.arange(len(of_token)), of_token)
        index[row] = row * tokens + np.pad(at, (0, length - len(at)), mode="edge")
    return mx.take(x.reshape(batch * tokens, width), mx.array(index), axis=0)


class StageTimer:
    """Clock of a batch's stages. Every row is charged the whole stage, for which it waited.

    Time between two stages counts for the second: a fifth of a millisecond a sentence on a CPU whose caches the network
    has filled.
    """

    def __init__(self, rows: Sequence[BatchRow], *, profile: bool) -> None:
        self._timelines = list({id(row.timeline): row.timeline for row in rows}.values())
        self._profile = profile
        self._ended: float | None = None

    @contextmanager
    def measure(self, stage: Stage) -> Iterator[None]:
        """Time the body as `stage`; it must end in an evaluation."""
        start = time.perf_counter() if self._ended is None else self._ended
        try:
            yield
        finally:
            self._ended = time.perf_counter()
            for timeline in self._timelines:
                timeline.add(stage, self._ended - start)

    def left(self) -> float:
        """Return the time at which this batch pauses for other work."""
        return time.perf_counter()

    def resumed(self, left: float) -> None:
        """Continue after a pause since `left`, which counts for no stage."""
        if self._ended is not None:
            self._ended += time.perf_counter() - left

    def profiled(self, stage: Stage, compute: Callable[[], Any]) -> Any:
        """Return `compute()`; with profiling, evaluate and time it. Without, this does not wait."""
        if not self._profile:
            return compute()
        with self.measure(stage):
            result = compute()
            mx.eval(result)
        return result
