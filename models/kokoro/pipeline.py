"""Phonemes to audio: the parts of Kokoro in order, shape buckets, and warm-up.

Several utterances can be one batch. Copies of the first row pad a batch to its bucket.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from models.backend import bucket, compiled_cache, cpu_streams, mx, note_shape, on_cpu
from models.checkpoint import read_arrays
from models.contract import (
    AudioChunk,
    BatchItem,
    Cancelled,
    Description,
    IsCancelled,
    ModelError,
    ModelRequestError,
    ModelSpec,
    Pcm,
    Progress,
    Reads,
    SpeechRequest,
    warm_up,
)
from models.kokoro.config import SAMPLE_RATE, SAMPLES_PER_FRAME, KokoroConfig, load_config
from models.kokoro.network import CompiledKokoro, Kokoro, align, alignment
from models.kokoro.text import tokenize
from models.kokoro.voices import Pack, describe_checkpoint, load_voices, parse_blend, style, voice_names
from models.kokoro.weights import load_weights
from models.layers.kernels.host_memory import downloaded, upload
from models.timeline import Stage, StageTimer, Timeline

TOKEN_BUCKETS = (16, 32, 64, 128, 256, 512)
FRAME_BUCKETS = (50, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1200, 1600)
# Rows of one of these share a batch, which is then padded to the bucket of its longest row.
BATCH_FRAME_BUCKETS = (100, 200, 300, 400, 600, 800, 1200, 1600)
BATCH_BUCKETS = (1, 2, 4, 8)
# A longer utterance fills the device alone: it joins no batch.
JOINED_TOKENS = 128
# Frames of all rows of a batch: those of the longest bucket, so that a batch needs no more memory than it does.
BATCH_FRAMES = FRAME_BUCKETS[-1]

MIN_SPEED, MAX_SPEED = 0.25, 4.0

Frames = npt.NDArray[np.int64]
T = TypeVar("T")


def describe(spec: ModelSpec) -> Description:
    """Return the languages and voices of a checkpoint from its config and the names of its voices.

    Raises WeightsError.
    """
    return describe_checkpoint(load_config(spec.files["config"]), voice_names(spec.files["voices"]))


def load(spec: ModelSpec) -> KokoroSynthesizer:
    """Load a checkpoint: spec.files has "config", "weights" and "voices".

    Unless `spec.dtype` is float32, a CPU that can multiplies in bfloat16. Raises WeightsError.
    """
    config = load_config(spec.files["config"])
    network = Kokoro(config)
    if spec.dtype != "float32" and on_cpu():
        network.decoder.multiply_in_bfloat16()
    load_weights(network, read_arrays(spec.files["weights"]), spec.files["weights"])
    packs = load_voices(spec.files["voices"], 2 * config.style_dim)
    if spec.dtype == "bfloat16" and not on_cpu():
        network.decoder.to_bfloat16()
    return KokoroSynthesizer(config, network, packs, profile=spec.profile, batch=spec.batch)


@dataclass(slots=True, eq=False)
class BatchRow:
    """One utterance of a batch, with its request's timeline.

    `ids` are token ids [T], `style` is [1, 2 * style_dim]. `noise` [frames * 600] replaces the source's seeded noise,
    for comparison with the reference: that of all rows of a batch, or of none. `places` holds the token of each
    character of the request's phonemes. `frames` are the frames per token [T], which the predictor sets.
    """

    ids: list[int]
    style: npt.NDArray[np.float32]
    speed: float
    seed: int
    timeline: Timeline
    cancelled: IsCancelled
    noise: npt.NDArray[np.float32] | None = None
    places: Sequence[int] = ()
    frames: Frames = field(init=False)

    def chunk(self, samples: Pcm) -> AudioChunk:
        """Return the utterance's only chunk: a copy of its own samples, which padding may follow."""
        ends = np.cumsum(self.frames) * (SAMPLES_PER_FRAME / SAMPLE_RATE)
        pcm = samples[: int(self.frames.sum()) * SAMPLES_PER_FRAME].copy()
        return AudioChunk(pcm, tuple(float(ends[place]) for place in self.places))


class KokoroSynthesizer:
    """A loaded Kokoro. Implements `models.contract.Synthesizer`.

    On a GPU shapes are padded to buckets, since each new shape costs kernels or plans there. The results equal the
    unpadded ones. On the CPU a new shape costs nothing: nothing is padded, unless `padded` is true.
    """

    sample_rate = SAMPLE_RATE
    reads: Reads = "phonemes"
    parameters: frozenset[str] = frozenset()
    changes_speed = True
    watermarked = False

    def __init__(
        self,
        config: KokoroConfig,
        network: Kokoro,
        packs: dict[str, Pack],
        *,
        profile: bool = False,
        padded: bool | None = None,
        batch: int = 1,
    ) -> None:
        self.max_batch = min(batch, BATCH_BUCKETS[-1])
        self.config = config
        self.network = network
        self._packs = packs
        self._profile = profile
        self._padded = not on_cpu() if padded is None else padded
        self._compiled = CompiledKokoro(network)
        self._noise_gain = network.decoder.generator.m_source.noise_gain()
        mx.eval(self._noise_gain)
        known = describe_checkpoint(config, packs)
        self.languages, self.voices, self.default_voice = known.languages, known.voices, known.default_voice
        self.max_phonemes = config.max_phonemes
        self.symbols = frozenset(config.vocab)

    def check_voice(self, voice: str) -> None:
        """Raise UnknownVoiceError unless `voice` is a voice of this model or a blend of them."""
        parse_blend(voice, self._packs)

    def stream(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[AudioChunk | None]:
        """Yield one chunk: AdaIN normalizes over the whole utterance, so that no part of it can be exact earlier.

        Before it, None comes after every piece of the work, so that other requests can run. The first utterance of a
        stream gives no such turns: where two streams wait for their first sound, turns would delay one and help none.
        """
        for done in self._steps([self._row(request, timeline, cancelled)]):
            if done is not None:
                yield done[1]
                return
            if not request.first:
                yield None
        raise Cancelled("cancelled between stages")

    def batch_key(self, request: SpeechRequest) -> Hashable | None:
        """Return the bucket of the tokens, as requests of one bucket can join a batch; None for a long request."""
        size = bucket(len(request.phonemes) + 2, TOKEN_BUCKETS)
        return size if size <= JOINED_TOKENS else None

    def speak(self, batch: Sequence[BatchItem]) -> Iterator[tuple[int, AudioChunk | ModelError]]:
        """Yield the number of each item of `batch` with its chunk or error, as soon as it is there."""
        rows = {}
        for number, item in enumerate(batch):
            try:
                rows[number] = self._row(item.request, item.timeline, item.cancelled)
            except ModelRequestError as error:
                yield number, error
        left = dict(enumerate(rows))
        if rows:
            for at, chunk in self.synthesize_batch(list(rows.values())):
                yield left.pop(at), chunk
        for number in left.values():
            yield number, Cancelled("cancelled between stages")

    def _row(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> BatchRow:
        """Check a request; return its row. Raises ModelRequestError."""
        if not MIN_SPEED <= request.speed <= MAX_SPEED:
            raise ModelRequestError(f"speed must be between {MIN_SPEED} and {MAX_SPEED}, not {request.speed}")
        with timeline.measure(Stage.VOICE):
            ids, places = tokenize(request.phonemes, self.config.vocab, self.max_phonemes)
            row = style(request.voice, self._packs, len(ids) - 2)
        return BatchRow(ids, row, request.speed, request.seed, timeline, cancelled, places=places)

    def synthesize(
        self,
        ids: list[int],
        style_row: npt.NDArray[np.float32],
        speed: float,
        seed: int,
        timeline: Timeline,
        cancelled: IsCancelled,
        noise: npt.NDArray[np.float32] | None = None,
    ) -> tuple[Pcm, Frames]:
        """Compute samples and frames per token [T] of one `BatchRow`. Raises Cancelled between stages."""
        row = BatchRow(ids, style_row, speed, seed, timeline, cancelled, noise)
        for _, chunk in self.synthesize_batch([row]):
            return chunk.pcm, row.frames
        raise Cancelled("cancelled between stages")

    def synthesize_batch(self, rows: Sequence[BatchRow]) -> Iterator[tuple[int, AudioChunk]]:
        """Compute `rows` as one batch; yield the number of each row with its chunk, as soon as it is there.

        The sound is computed in groups of rows of about as many frames. Rows that are cancelled meanwhile are left
        out. On the CPU, and for products on a GPU, a row's last bits depend on the other rows of the batch.
        """
        return (done for done in self._steps(rows) if done is not None)

    def _steps(self, rows: Sequence[BatchRow]) -> Iterator[tuple[int, AudioChunk] | None]:
        """Do the work of `synthesize_batch`; yield None after every piece of it, when no computation is running."""
        compiled, timer = self._compiled, StageTimer(row.timeline for row in rows)
        with timer.measure(Stage.VOICE):
            filled = self._filled(rows)
            lengths = [len(row.ids) for row in filled]
            size = max(lengths)
            if self._padded:
                size = min(bucket(size, TOKEN_BUCKETS), self.max_phonemes + 2)
            padded_ids = np.array([row.ids + [0] * (size - len(row.ids)) for row in filled], dtype=np.int32)
            counted = self._counted(lengths, size)
            ids, styles, keys, *counts = upload(padded_ids, _styles(filled), _keys(filled), *counted)
            count = counts[0] if counts else None
        hidden = compiled.bert(ids, count)
        self._begin(hidden)
        text = compiled.text(ids, count)
        self._begin(text)
        encoded, expected = compiled.durations(hidden, styles, count)
        mx.async_eval(expected, text)
        self._wait(timer, Stage.BERT, hidden)
        self._wait(timer, Stage.TEXT_ENCODER, text)
        with timer.measure(Stage.PREDICTOR):
            # The only host synchronization: the number of frames decides every later shape.
            with downloaded(expected) as found:
                for row, expected_frames in zip(rows, found, strict=False):
                    row.frames = round_durations(expected_frames[: len(row.ids)], row.speed)
            remaining = [at for at, row in enumerate(rows) if not row.cancelled()]
            groups = self._groups(remaining, [int(row.frames.sum()) for row in rows])
        for group in groups:
            yield None
            yield from self._sound(group, rows, encoded, text, styles, keys)

    def _begin(self, *arrays: mx.array) -> None:
        """Begin the computation of `arrays`: a GPU does it while the host prepares more.

        On a CPU only with profiling, so that a stage has an end.
        """
        if self._profile or not on_cpu():
            mx.async_eval(*arrays)

    def _wait(self, timer: StageTimer, stage: Stage, *arrays: mx.array) -> None:
        """With profiling, wait for the `arrays` of a stage, which end it, while later ones are under way."""
        if self._profile:
            with timer.measure(stage):
                mx.eval(*arrays)

    def _sound(
        self,
        group: list[int],
        rows: Sequence[BatchRow],
        encoded: mx.array,
        text: mx.array,
        styles: mx.array,
        keys: mx.array,
    ) -> Iterator[tuple[int, AudioChunk] | None]:
        """Compute the rows of one group, from their alignment to samples; the arrays are those of all rows."""
        compiled, timer = self._compiled, StageTimer(rows[at].timeline for at in group)
        with timer.measure(Stage.PREDICTOR):
            numbers = self._filled(group)
            chosen, frames = [rows[at] for at in numbers], [rows[at].frames for at in numbers]
            if len(numbers) != encoded.shape[0] or group != list(range(len(group))):
                index, styles, keys = upload(np.array(numbers, dtype=np.int32), _styles(chosen), _keys(chosen))
                encoded, text = mx.take(encoded, index, axis=0), mx.take(text, index, axis=0)
            totals = [int(each.sum()) for each in frames]
            length = bucket(max(totals), FRAME_BUCKETS) if self._padded else max(totals)
            if not self._padded:
                note_shape("kokoro", encoded.shape, length)
            placed = alignment(frames, encoded.shape[1], length)
            places, *counts = upload(placed, *self._counted(totals, length))
            count = counts[0] if counts else None
            f0, energy = compiled.curves(align(encoded, places), styles, count)
            self._begin(f0, energy)
        with mx.stream(cpu_streams()[-1]):  # beside the curves
            noise = self._noise(chosen, keys, totals, length)
        pieces = compiled.pieces(align(text, places), f0, energy, styles, noise, count)
        piece = next(pieces)
        mx.async_eval(piece)
        self._wait(timer, Stage.PREDICTOR, f0, energy)
        while True:
            with timer.measure(Stage.DECODER):
                following = next(pieces, [])  # whose graph is built meanwhile
                if not following:
                    with downloaded(piece[0]) as audio:
                        chunks = [rows[at].chunk(samples) for at, samples in zip(group, audio, strict=False)]
                    break
                mx.eval(piece)
            left = timer.left()
            yield None
            timer.resumed(left)
            if all(rows[at].cancelled() for at in group):
                return
            piece = following  # the arrays of the one before are freed
            mx.async_eval(piece)
        yield from zip(group, chunks, strict=True)

    def _filled(self, rows: Sequence[T]) -> list[T]:
        """Repeat the first row until the batch fills its bucket (GPU)."""
        more = bucket(len(rows), BATCH_BUCKETS) - len(rows) if self._padded else 0
        return [*rows, *[rows[0]] * more]

    def _groups(self, rows: Sequence[int], totals: Sequence[int]) -> list[list[int]]:
        """Group rows of one of BATCH_FRAME_BUCKETS, as many in a group as BATCH_FRAMES allow."""
        groups: dict[int, list[list[int]]] = {}
        for at in rows:
            size = bucket(totals[at], BATCH_FRAME_BUCKETS)
            of_size = groups.setdefault(size, [[]])
            if bucket(len(of_size[-1]) + 1, BATCH_BUCKETS) * size > BATCH_FRAMES and of_size[-1]:
                of_size.append([])
            of_size[-1].append(at)
        return [group for of_size in groups.values() for group in of_size]

    def _counted(self, lengths: Sequence[int], size: int) -> list[npt.NDArray[np.int32]]:
        """Return the valid rows, [B], of arrays of `size` rows; nothing where all are full and nothing is padded."""
        full = not self._padded and all(length == size for length in lengths)
        return [] if full else [np.array(list(lengths), dtype=np.int32)]

    def _noise(self, rows: Sequence[BatchRow], keys: mx.array, totals: Sequence[int], length: int) -> mx.array:
        """Return the source's noise [B, length * 600]: of each row what it has alone, from its key, then zeros."""
        sizes = [bucket(total, FRAME_BUCKETS) for total in totals] if self._padded else totals
        drawn = [mx.array(row.noise)[None] for row in rows if row.noise is not None]
        first = 0
        for size, run in groupby(() if drawn else sizes):  # neighbors of one size, in frames, are drawn together
            last = first + len(list(run))
            drawn.append(self._drawn(keys[first:last], size))
            first = last
        samples = length * SAMPLES_PER_FRAME
        missing = [samples - each.shape[1] for each in drawn]  # MLX copies what it pads by nothing
        return mx.concatenate(
            [mx.pad(each, [(0, 0), (0, more)]) if more else each for each, more in zip(drawn, missing, strict=True)]
        )

    def _drawn(self, keys: mx.array, frames: int) -> mx.array:
        """Return merged noise [B, frames * 600] from keys [B, 2]; another length gives other noise."""
        drawn: mx.array = _normal(frames * SAMPLES_PER_FRAME)(keys, self._noise_gain)
        return drawn

    def warm(self, progress: Progress) -> None:
        """Run every bucket that requests can need; on the CPU, where shapes cost nothing, a few lengths.

        The first sentence beyond the last frame bucket (40 s) compiles its own shape. To run twice that bucket here
        would double the peak of memory to 9.6 GB.
        """
        run = {"tokens": self._warm_tokens, "frames": self._warm_frames, "utterance": self._warm_utterance}
        row = style(self.default_voice, self._packs, 1)
        steps = [
            (f"{kind}={size}" if batch == 1 else f"{kind}={size}x{batch}", partial(run[kind], size, batch, row))
            for kind, size, batch in self._warm_steps()
        ]
        warm_up(steps, progress)

    def _warm_steps(self) -> list[tuple[str, int, int]]:
        """Return the kind, size and number of rows of each step of `warm`."""
        longest = self.max_phonemes + 2
        tokens = (*(n for n in TOKEN_BUCKETS if n < longest), longest) if self._padded else (min(32, longest), longest)
        frames = FRAME_BUCKETS if self._padded else (5, 40, 400)
        steps = [("tokens", n, 1) for n in tokens] + [("frames", n, 1) for n in frames]
        for batch in BATCH_BUCKETS[1:] if self._padded else ():
            if batch < 2 * self.max_batch:
                steps += [("tokens", n, batch) for n in tokens if n <= JOINED_TOKENS]
                steps += [("frames", n, batch) for n in frames if batch * n <= BATCH_FRAMES]
        return steps + [("utterance", 1, batch) for batch in ((1, 2) if self.max_batch > 1 else (1,))]

    def _warm_tokens(self, size: int, batch: int, row: Pack) -> None:
        count = next(map(mx.array, self._counted([size] * batch, size)), None)
        ids, styles = mx.ones((batch, size), dtype=mx.int32), mx.array(np.repeat(row, batch, axis=0))
        mx.eval(
            self._compiled.durations(self._compiled.bert(ids, count), styles, count), self._compiled.text(ids, count)
        )

    def _warm_frames(self, size: int, batch: int, row: Pack) -> None:
        count = next(map(mx.array, self._counted([size] * batch, size)), None)
        width, styles = self.config.hidden_dim, mx.array(np.repeat(row, batch, axis=0))
        f0, energy = self._compiled.curves(mx.zeros((batch, size, width)), styles, count)
        noise = self._drawn(mx.zeros((batch, 2), dtype=mx.uint32), size)
        for piece in self._compiled.pieces(mx.zeros((batch, size, width)), f0, energy, styles, noise, count):
            mx.eval(piece)

    def _warm_utterance(self, size: int, batch: int, row: Pack) -> None:
        """Run the operations between the compiled parts, on utterances of `size` phonemes and more."""
        token = next(iter(self.config.vocab.values()))
        spoken = [[0, *[token] * (size + n), 0] for n in range(batch)]
        rows = [BatchRow(ids, row, 1.0, 0, Timeline(), lambda: False) for ids in spoken]
        for _ in self.synthesize_batch(rows):
            pass


@compiled_cache
def _normal(samples: int):  # type: ignore[no-untyped-def]
    """Return a function of keys [B, 2] and a gain to normal noise [B, samples]: few launches for all rows."""

    def noise(keys: mx.array, gain: mx.array) -> mx.array:
        if keys.shape[0] == 1:  # two launches; `vmap` takes more
            drawn = mx.random.normal((1, samples), key=keys.reshape(2))
        else:
            drawn = mx.vmap(lambda key: mx.random.normal((samples,), key=key))(keys)
        return drawn * gain

    return mx.compile(noise)


def round_durations(expected: npt.NDArray[np.float32], speed: float) -> Frames:
    """Return the frames per token [T], at least 1. Speed scales the phonemes, not the boundary tokens' silence."""
    scaled = expected.astype(np.float32)
    scaled[1:-1] = scaled[1:-1] / np.float32(speed)
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


def _styles(rows: Sequence[BatchRow]) -> npt.NDArray[np.float32]:
    """Return the styles of `rows`, [B, 2 * style_dim]."""
    return np.concatenate([row.style for row in rows])


def _keys(rows: Sequence[BatchRow]) -> npt.NDArray[np.uint32]:
    """Return the keys of the rows' noise [B, 2], those of `mx.random.key`."""
    seeds = np.array([row.seed for row in rows], dtype=np.uint64)
    return np.stack([seeds >> np.uint64(32), seeds & np.uint64(0xFFFFFFFF)], axis=1).astype(np.uint32)
