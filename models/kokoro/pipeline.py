"""Phonemes to audio: the stages of Kokoro in order, shape buckets, and warm-up."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from models.backend import mx, on_cpu
from models.checkpoint import read_arrays
from models.contract import (
    AudioChunk,
    BatchItem,
    Cancelled,
    IsCancelled,
    ModelError,
    ModelRequestError,
    ModelSpec,
    Pcm,
    Progress,
    Reads,
    SpeechRequest,
    Voice,
    WarmupStep,
)
from models.kokoro.config import SAMPLE_RATE, SAMPLES_PER_FRAME, KokoroConfig, load_config
from models.kokoro.network import Kokoro
from models.kokoro.steps import (
    BATCH_BUCKETS,
    BATCH_FRAMES,
    FRAME_BUCKETS,
    JOINED_TOKENS,
    TOKEN_BUCKETS,
    Row,
    Stages,
    Timed,
    align,
    counted,
)
from models.kokoro.text import tokenize
from models.kokoro.voices import LANGUAGES, Pack, describe, load_voices, parse_blend, style
from models.kokoro.weights import load_weights
from models.layers.buckets import bucket
from models.layers.compiled import note_shape
from models.timeline import Stage, Timeline

MIN_SPEED, MAX_SPEED = 0.25, 4.0

Frames = npt.NDArray[np.int64]
# A row's number, its samples and its frames per token [T].
Done = tuple[int, Pcm, Frames]
T = TypeVar("T")


def load(spec: ModelSpec) -> KokoroSynthesizer:
    """Load a checkpoint: spec.files has "config", "weights" and "voices". Raises WeightsError."""
    config = load_config(spec.files["config"])
    network = Kokoro(config)
    load_weights(network, read_arrays(spec.files["weights"]), spec.files["weights"])
    packs = load_voices(spec.files["voices"], 2 * config.style_dim)
    if spec.dtype == "bfloat16" and not on_cpu():
        network.decoder.to_bfloat16()
    return KokoroSynthesizer(config, network, packs, profile=spec.profile, batch=spec.batch)


class KokoroSynthesizer:
    """A loaded Kokoro. Implements `models.contract.Synthesizer`.

    On a GPU shapes are padded to buckets, since each new shape costs kernels or plans there; the results equal the
    unpadded ones. On the CPU a new shape costs nothing, so nothing is padded, unless `padded` says so.
    """

    sample_rate = SAMPLE_RATE
    reads: Reads = "phonemes"
    parameters: frozenset[str] = frozenset()
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
        self._stages = Stages(network)
        self.languages: tuple[str, ...] = config.languages or LANGUAGES
        self.voices: list[Voice] = [
            describe(name, self.languages[0], config.voices.get(name, {}).get("gender")) for name in sorted(packs)
        ]
        self.default_voice = "af_heart" if "af_heart" in packs else self.voices[0].id
        self.max_phonemes = config.max_phonemes
        self.symbols = frozenset(config.vocab)

    def check_voice(self, voice: str) -> None:
        """Raise UnknownVoiceError unless `voice` is a voice of this model or a blend of them."""
        parse_blend(voice, self._packs)

    def stream(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[AudioChunk | None]:
        """One chunk: AdaIN normalizes over the whole utterance, so that no part of it can be exact earlier.

        None comes before it after every piece of the work, unless it is the first of its stream: of two who wait for
        their first sound none gains if the later one goes between.
        """
        row, places = self._row(request, timeline, cancelled)
        for done in self._steps([row]):
            if done is not None:
                _, pcm, frames = done
                yield _chunk(pcm, frames, places)
                return
            if not request.first:
                yield None
        raise Cancelled("cancelled between stages")

    def batch_key(self, request: SpeechRequest) -> Hashable | None:
        """Return the bucket of the request's tokens; None for a long one, which fills the device alone."""
        size = bucket(len(request.phonemes) + 2, TOKEN_BUCKETS)
        return size if size <= JOINED_TOKENS else None

    def speak(self, batch: Sequence[BatchItem]) -> Iterator[tuple[int, AudioChunk | ModelError]]:
        """What `stream` gives for each of `batch`, or why not, as soon as it is there."""
        rows, places, numbers = [], [], []
        for number, item in enumerate(batch):
            try:
                row, place = self._row(item.request, item.timeline, item.cancelled)
            except ModelRequestError as error:
                yield number, error
            else:
                rows.append(row)
                places.append(place)
                numbers.append(number)
        left = dict(enumerate(numbers))
        if rows:
            for at, pcm, frames in self.together(rows):
                yield left.pop(at), _chunk(pcm, frames, places[at])
        for number in left.values():
            yield number, Cancelled("cancelled between stages")

    def _row(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> tuple[Row, list[int]]:
        """Check a request; return its row and the token of each phoneme. Raises ModelRequestError."""
        if not MIN_SPEED <= request.speed <= MAX_SPEED:
            raise ModelRequestError(f"speed must be between {MIN_SPEED} and {MAX_SPEED}, not {request.speed}")
        with timeline.measure(Stage.VOICE):
            ids, places = tokenize(request.phonemes, self.config.vocab, self.max_phonemes)
            row = style(request.voice, self._packs, len(ids) - 2)
        return Row(ids, row, request.speed, request.seed, timeline, cancelled), places

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
        """Token ids [T] and a style row [1, 2 * style_dim] -> samples and frames per token [T].

        `noise` as in Row. Raises Cancelled between stages.
        """
        row = Row(ids, style_row, speed, seed, timeline, cancelled, noise)
        for _, pcm, frames in self.together([row]):
            return pcm, frames
        raise Cancelled("cancelled between stages")

    def together(self, rows: Sequence[Row]) -> Iterator[Done]:
        """The rows, each as soon as it is there, computed together.

        The sound is computed in groups of rows whose frames fill one bucket. Rows that are cancelled meanwhile are left
        out. On the CPU, and for products on a GPU, a row's last bits depend on what it is computed with.
        """
        return (done for done in self._steps(rows) if done is not None)

    def _steps(self, rows: Sequence[Row]) -> Iterator[Done | None]:
        """What `together` gives; None after every piece of the work, where nothing is under way."""
        stages, timed = self._stages, Timed(rows, profile=self._profile)
        with timed.measure(Stage.VOICE):
            filled = self._filled(rows)
            lengths = [len(row.ids) for row in filled]
            size = max(lengths)
            if self._padded:
                size = min(bucket(size, TOKEN_BUCKETS), self.max_phonemes + 2)
            ids = mx.array([row.ids + [0] * (size - len(row.ids)) for row in filled])
            count, styles = counted(lengths, size, padded=self._padded), _styles(filled)
        hidden = timed.profiled(Stage.BERT, lambda: stages.bert(ids, count))
        text = timed.profiled(Stage.TEXT_ENCODER, lambda: stages.text(ids, count))
        with timed.measure(Stage.PREDICTOR):
            encoded, expected = stages.durations(hidden, styles, count)
            mx.async_eval(expected, text)
            # The one host synchronization: the number of frames decides every later shape.
            found = np.array(expected)
            frames = [round_durations(found[at, : len(row.ids)], row.speed) for at, row in enumerate(rows)]
            remaining = [at for at, row in enumerate(rows) if not row.cancelled()]
            groups = self._groups(remaining, [int(each.sum()) for each in frames])
        for group in groups:
            yield None
            yield from self._sound(group, rows, frames, encoded, text)

    def _sound(
        self, group: list[int], rows: Sequence[Row], frames: Sequence[Frames], encoded: mx.array, text: mx.array
    ) -> Iterator[Done | None]:
        """The rows of one group, from their alignment to samples."""
        stages, timed = self._stages, Timed([rows[at] for at in group], profile=self._profile)
        with timed.measure(Stage.PREDICTOR):
            numbers = self._filled(group)
            if len(numbers) != encoded.shape[0] or group != list(range(len(group))):
                index = mx.array(numbers)
                encoded, text = mx.take(encoded, index, axis=0), mx.take(text, index, axis=0)
            chosen, spoken = [rows[at] for at in numbers], [frames[at] for at in numbers]
            totals = [int(each.sum()) for each in spoken]
            length = bucket(max(totals), FRAME_BUCKETS) if self._padded else max(totals)
            count, styles = counted(totals, length, padded=self._padded), _styles(chosen)
            if not self._padded:
                note_shape("kokoro", encoded.shape, length)
            f0, energy = stages.curves(align(encoded, spoken, length), styles, count)
            if self._profile:
                mx.eval(f0, energy)
        if all(rows[at].cancelled() for at in group):
            return
        with timed.measure(Stage.DECODER):
            noise = mx.concatenate([self._noise(row, total, length) for row, total in zip(chosen, totals, strict=True)])
            pieces = stages.pieces(align(text, spoken, length), f0, energy, styles, noise, count)
            piece = following = next(pieces)
        while following:
            with timed.measure(Stage.DECODER):
                piece = following  # the arrays of the one before are freed
                mx.async_eval(piece)
                following = next(pieces, [])  # whose graph is built meanwhile
                mx.eval(piece)
            if following:
                left = timed.left()
                yield None
                timed.resumed(left)
                if all(rows[at].cancelled() for at in group):
                    return
        with timed.measure(Stage.DECODER):
            audio = np.array(piece[0])
        for at, pcm in zip(group, audio, strict=False):
            yield at, pcm[: int(frames[at].sum()) * SAMPLES_PER_FRAME], frames[at]

    def _filled(self, rows: Sequence[T]) -> list[T]:
        """On a GPU as many rows as the bucket has, by repeating the first."""
        more = bucket(len(rows), BATCH_BUCKETS) - len(rows) if self._padded else 0
        return [*rows, *[rows[0]] * more]

    def _groups(self, rows: Sequence[int], totals: Sequence[int]) -> list[list[int]]:
        """Rows whose frames fill one bucket, as many in a group as BATCH_FRAMES allow."""
        groups: dict[int, list[list[int]]] = {}
        for at in rows:
            size = bucket(totals[at], FRAME_BUCKETS)
            of_size = groups.setdefault(size, [[]])
            if bucket(len(of_size[-1]) + 1, BATCH_BUCKETS) * size > BATCH_FRAMES and of_size[-1]:
                of_size.append([])
            of_size[-1].append(at)
        return [group for of_size in groups.values() for group in of_size]

    def _noise(self, row: Row, frames: int, length: int) -> mx.array:
        """The source's noise [1, length * 600]: what the row would have alone, from its seed, then zeros."""
        if row.noise is None:
            drawn = self._drawn(row.seed, bucket(frames, FRAME_BUCKETS) if self._padded else frames)
        else:
            drawn = mx.array(row.noise)[None]
        return mx.pad(drawn, [(0, 0), (0, length * SAMPLES_PER_FRAME - drawn.shape[1])])

    def _drawn(self, seed: int, frames: int) -> mx.array:
        """Merged noise [1, frames * 600] from a seed; other lengths have other noise."""
        drawn = mx.random.normal((1, frames * SAMPLES_PER_FRAME), key=mx.random.key(seed))
        return drawn * self.network.decoder.generator.m_source.noise_gain()

    def warm(self, progress: Progress) -> None:
        """Run every bucket that will be served; on the CPU, where shapes cost nothing, a few lengths.

        A sentence longer than the last frame bucket (40 s) pays once for its own; running twice that bucket here would
        double the peak of memory to 9.6 GB.
        """
        longest = self.max_phonemes + 2
        tokens = (*(n for n in TOKEN_BUCKETS if n < longest), longest) if self._padded else (min(32, longest), longest)
        frames = FRAME_BUCKETS if self._padded else (5, 40, 400)
        steps = [("tokens", n, 1) for n in tokens] + [("frames", n, 1) for n in frames]
        if self._padded:
            for batch in BATCH_BUCKETS[1:]:
                if batch < 2 * self.max_batch:
                    steps += [("tokens", n, batch) for n in tokens if n <= JOINED_TOKENS]
                    steps += [("frames", n, batch) for n in frames if batch * n <= BATCH_FRAMES]
        steps += [("utterance", 1, batch) for batch in ((1, 2) if self.max_batch > 1 else (1,))]
        row = style(self.default_voice, self._packs, 1)
        for done, (kind, size, batch) in enumerate(steps, 1):
            start = time.perf_counter()
            if kind == "tokens":
                self._warm_tokens(size, batch, row)
            elif kind == "frames":
                self._warm_frames(size, batch, row)
            else:  # what lies between the stages
                token = next(iter(self.config.vocab.values()))
                spoken = [[0, *[token] * (n + 1), 0] for n in range(batch)]
                for _ in self.together([Row(ids, row, 1.0, 0, Timeline(), lambda: False) for ids in spoken]):
                    pass
            name = f"{kind}={size}" if batch == 1 else f"{kind}={size}x{batch}"
            progress(WarmupStep(name, done, len(steps), time.perf_counter() - start))

    def _warm_tokens(self, size: int, batch: int, row: Pack) -> None:
        count = counted([size] * batch, size, padded=self._padded)
        ids, styles = mx.ones((batch, size), dtype=mx.int32), mx.array(np.repeat(row, batch, axis=0))
        mx.eval(self._stages.durations(self._stages.bert(ids, count), styles, count), self._stages.text(ids, count))

    def _warm_frames(self, size: int, batch: int, row: Pack) -> None:
        count = counted([size] * batch, size, padded=self._padded)
        width, styles = self.config.hidden_dim, mx.array(np.repeat(row, batch, axis=0))
        f0, energy = self._stages.curves(mx.zeros((batch, size, width + self.config.style_dim)), styles, count)
        noise = mx.repeat(self._drawn(0, size), batch, axis=0)
        for piece in self._stages.pieces(mx.zeros((batch, size, width)), f0, energy, styles, noise, count):
            mx.eval(piece)


def round_durations(expected: npt.NDArray[np.float32], speed: float) -> Frames:
    """Frames per token [T], at least 1. Speed scales the phonemes, not the two boundary tokens' silence."""
    scaled = expected.astype(np.float32)
    scaled[1:-1] = scaled[1:-1] / np.float32(speed)
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


def _chunk(pcm: Pcm, frames: Frames, places: Sequence[int]) -> AudioChunk:
    """An utterance's only chunk; `places` are the tokens of its phonemes."""
    ends = np.cumsum(frames) * (SAMPLES_PER_FRAME / SAMPLE_RATE)
    return AudioChunk(pcm, tuple(float(ends[place]) for place in places))


def _styles(rows: Sequence[Row]) -> mx.array:
    """[B, 2 * style_dim]."""
    return mx.array(np.concatenate([row.style for row in rows]))
