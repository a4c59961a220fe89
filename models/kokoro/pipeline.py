"""Phonemes to audio: the stages of Kokoro in order, shape buckets, and warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from models.backend import lanes, mx, on_cpu
from models.checkpoint import read_arrays
from models.contract import (
    AudioChunk,
    Cancelled,
    IsCancelled,
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
from models.kokoro.text import tokenize
from models.kokoro.voices import Pack, describe, load_voices, parse_blend, style
from models.kokoro.weights import load_weights
from models.layers.valid import Valid
from models.timeline import Stage, Timeline

TOKEN_BUCKETS = (16, 32, 64, 128, 256, 512)
FRAME_BUCKETS = (100, 200, 300, 400, 600, 800, 1200, 1600)
MIN_SPEED, MAX_SPEED = 0.25, 4.0

Frames = npt.NDArray[np.int64]


def bucket(size: int, buckets: tuple[int, ...]) -> int:
    """The smallest bucket that holds `size`; beyond the last, it doubles."""
    for candidate in buckets:
        if size <= candidate:
            return candidate
    last = buckets[-1]
    while last < size:
        last *= 2
    return last


def load(spec: ModelSpec) -> KokoroSynthesizer:
    """Load a checkpoint: spec.files has "config", "weights" and "voices". Raises WeightsError."""
    config = load_config(spec.files["config"])
    network = Kokoro(config)
    load_weights(network, read_arrays(spec.files["weights"]), spec.files["weights"])
    packs = load_voices(spec.files["voices"], 2 * config.style_dim)
    if spec.dtype == "bfloat16" and not on_cpu():
        network.decoder.to_bfloat16()
    return KokoroSynthesizer(config, network, packs, profile=spec.profile)


class _Stages:
    """The network's parts as functions of arrays alone, so that a GPU compiles each once per bucket.

    `count` is int32 [1], the valid tokens or frames, or None where nothing is padded.
    """

    def __init__(self, network: Kokoro) -> None:
        self.network = network
        wrap: Callable[[Any], Any] = (lambda f: f) if on_cpu() else mx.compile
        self.bert, self.durations = wrap(self._bert), wrap(self._durations)
        self.text, self.curves, self.audio = wrap(self._text), wrap(self._curves), wrap(self._audio)

    def _bert(self, ids: mx.array, count: mx.array | None) -> mx.array:
        """ids [1, T] -> [1, T, hidden]."""
        hidden: mx.array = self.network.bert_encoder(self.network.bert(ids, _valid(count, ids)))
        return hidden

    def _durations(self, hidden: mx.array, row: mx.array, count: mx.array | None) -> tuple[mx.array, mx.array]:
        """-> encoding [1, T, hidden + style] and expected frames [1, T]."""
        return self.network.predictor.durations(hidden, self._styles(row)[1], _valid(count, hidden))

    def _text(self, ids: mx.array, count: mx.array | None) -> mx.array:
        """ids [1, T] -> [1, T, hidden]."""
        with mx.stream(lanes()[-1]):  # beside PL-BERT, unless profiling waits for each
            return self.network.text_encoder(ids, _valid(count, ids))

    def _curves(self, aligned: mx.array, row: mx.array, count: mx.array | None) -> tuple[mx.array, mx.array]:
        """Aligned encoding [1, F, hidden + style] -> F0 and energy [1, 2F]."""
        return self.network.predictor.curves(aligned, self._styles(row)[1], _valid(count, aligned))

    def _audio(
        self,
        text: mx.array,
        f0: mx.array,
        energy: mx.array,
        row: mx.array,
        noise: mx.array,
        count: mx.array | None,
    ) -> mx.array:
        """Aligned text [1, F, hidden], curves [1, 2F] and unit or merged noise [1, F * 600] -> samples."""
        decoder = self.network.decoder
        styled = self._styles(row)[0].astype(decoder.dtype)
        x = decoder.features(text, f0, energy, styled, _valid(count, text))
        return decoder.generator(x, styled, f0, noise, None if count is None else 2 * count[:, None])

    def _styles(self, row: mx.array) -> tuple[mx.array, mx.array]:
        first, second = mx.split(row, 2, axis=-1)
        return first, second


def _valid(count: mx.array | None, x: mx.array) -> Valid:
    return Valid() if count is None else Valid.of(count[:, None, None], x.shape[1])


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
    ) -> None:
        self.config = config
        self.network = network
        self._packs = packs
        self._profile = profile
        self._padded = not on_cpu() if padded is None else padded
        self._stages = _Stages(network)
        self.voices: list[Voice] = [describe(name) for name in sorted(packs)]
        self.default_voice = "af_heart" if "af_heart" in packs else self.voices[0].id
        self.max_phonemes = config.max_phonemes
        self.symbols = frozenset(config.vocab)

    def check_voice(self, voice: str) -> None:
        """Raise UnknownVoiceError unless `voice` is a voice of this model or a blend of them."""
        parse_blend(voice, self._packs)

    def stream(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[AudioChunk]:
        """One chunk: AdaIN normalises over the whole utterance, so that no part of it can be exact earlier."""
        if not MIN_SPEED <= request.speed <= MAX_SPEED:
            raise ModelRequestError(f"speed must be between {MIN_SPEED} and {MAX_SPEED}, not {request.speed}")
        ids, places = tokenize(request.phonemes, self.config.vocab, self.max_phonemes)
        with timeline.measure(Stage.VOICE):
            row = style(request.voice, self._packs, len(ids) - 2)
        pcm, frames = self.synthesise(ids, row, request.speed, request.seed, timeline, cancelled)
        ends = np.cumsum(frames) * (SAMPLES_PER_FRAME / SAMPLE_RATE)
        yield AudioChunk(pcm, tuple(float(ends[place]) for place in places))

    def synthesise(
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

        `noise` [frames * 600] replaces the source's seeded noise (for comparison with the reference). Raises
        Cancelled between stages.
        """
        stages, row, tokens = self._stages, mx.array(style_row), len(ids)
        size = min(bucket(tokens, TOKEN_BUCKETS), self.max_phonemes + 2) if self._padded else tokens
        padded = mx.array([ids + [0] * (size - tokens)])
        count = mx.array([tokens]) if self._padded else None
        with self._profiled(timeline, Stage.BERT) as done:
            hidden = done(stages.bert(padded, count))
        with self._profiled(timeline, Stage.TEXT_ENCODER) as done:
            text = done(stages.text(padded, count))
        with timeline.measure(Stage.PREDICTOR):
            encoded, expected = stages.durations(hidden, row, count)
            mx.async_eval(expected, text)
            # The one host synchronisation: the number of frames decides every later shape.
            frames = round_durations(np.array(expected)[0, :tokens], speed)
        _check(cancelled)
        total = int(frames.sum())
        length = bucket(total, FRAME_BUCKETS) if self._padded else total
        rows = mx.array(np.pad(np.repeat(np.arange(tokens), frames), (0, length - total), mode="edge"))
        count = mx.array([total]) if self._padded else None
        with self._profiled(timeline, Stage.PREDICTOR) as done:
            f0, energy = done(*stages.curves(mx.take(encoded, rows, axis=1), row, count))
        _check(cancelled)
        with timeline.measure(Stage.DECODER):
            drawn = self._noise(seed, total) if noise is None else mx.array(noise)[None]
            drawn = mx.pad(drawn, [(0, 0), (0, length * SAMPLES_PER_FRAME - drawn.shape[1])])
            audio = stages.audio(mx.take(text, rows, axis=1), f0, energy, row, drawn, count)
            pcm = np.array(audio)[0, : total * SAMPLES_PER_FRAME]
        return pcm, frames

    def _noise(self, seed: int, frames: int) -> mx.array:
        """The source's noise [1, samples], a whole bucket's worth, from the seed."""
        size = (bucket(frames, FRAME_BUCKETS) if self._padded else frames) * SAMPLES_PER_FRAME
        drawn = mx.random.normal((1, size), key=mx.random.key(seed))
        return drawn * self.network.decoder.generator.source.noise_gain()

    def _profiled(self, timeline: Timeline, stage: Stage) -> _Profiled:
        """Time a stage that nothing else evaluates: only when profiling, since each evaluation is a wait."""
        return _Profiled(timeline, stage, self._profile)

    def warm(self, progress: Progress) -> None:
        """Run every bucket that will be served; on the CPU, where shapes cost nothing, a few lengths.

        A sentence longer than the last frame bucket (40 s) pays once for its own; running twice that bucket here would
        double the peak of memory to 9.6 GB.
        """
        longest = self.max_phonemes + 2
        tokens = (*(n for n in TOKEN_BUCKETS if n < longest), longest) if self._padded else (min(32, longest), longest)
        frames = FRAME_BUCKETS if self._padded else (5, 40, 400)
        steps = [("tokens", n) for n in tokens] + [("frames", n) for n in frames] + [("utterance", 1)]
        row = mx.array(style(self.default_voice, self._packs, 1))
        for done, (kind, size) in enumerate(steps, 1):
            start = time.perf_counter()
            if kind == "tokens":
                self._warm_tokens(size, row)
            elif kind == "frames":
                self._warm_frames(size, row)
            else:  # what lies between the stages
                token = next(iter(self.config.vocab.values()))
                self.synthesise([0, token, 0], np.array(row), 1.0, 0, Timeline(), lambda: False)
            progress(WarmupStep(f"{kind}={size}", done, len(steps), time.perf_counter() - start))

    def _warm_tokens(self, size: int, row: mx.array) -> None:
        count = mx.array([size]) if self._padded else None
        ids = mx.ones((1, size), dtype=mx.int32)
        mx.eval(self._stages.durations(self._stages.bert(ids, count), row, count), self._stages.text(ids, count))

    def _warm_frames(self, size: int, row: mx.array) -> None:
        count = mx.array([size]) if self._padded else None
        width = self.config.hidden_dim
        f0, energy = self._stages.curves(mx.zeros((1, size, width + self.config.style_dim)), row, count)
        mx.eval(self._stages.audio(mx.zeros((1, size, width)), f0, energy, row, self._noise(0, size), count))


class _Profiled:
    """Context of one stage; the arrays it is called with are evaluated there if profiling, and returned."""

    def __init__(self, timeline: Timeline, stage: Stage, profile: bool) -> None:
        self._profile = profile
        self._timer = timeline.measure(stage) if profile else nullcontext()

    def __enter__(self) -> Callable[..., Any]:
        self._timer.__enter__()
        return self._evaluate

    def _evaluate(self, *arrays: mx.array) -> Any:
        if self._profile:
            mx.eval(*arrays)
        return arrays if len(arrays) > 1 else arrays[0]

    def __exit__(self, *exception: Any) -> None:
        self._timer.__exit__(*exception)


def round_durations(expected: npt.NDArray[np.float32], speed: float) -> Frames:
    """Frames per token [T], at least 1. Speed scales the phonemes, not the two boundary tokens' silence."""
    scaled = expected.astype(np.float32)
    scaled[1:-1] = scaled[1:-1] / np.float32(speed)
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


def _check(cancelled: IsCancelled) -> None:
    if cancelled():
        raise Cancelled("cancelled between stages")
