"""Recordings to text: spectrogram, language, windows, and their results in the contract's form."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from models.backend import on_cpu, token_model_dtype
from models.contract import (
    Cancelled,
    InputTooLongError,
    IsCancelled,
    ModelRequestError,
    ModelSpec,
    Pcm,
    Progress,
    RecognitionRequest,
    RecognitionTask,
    RecognizedSegment,
    RecognizedToken,
    RecognizedWord,
    WeightsError,
    warm_up,
)
from models.layers.mel import Floats
from models.native import kernels
from models.native.transformer import GROUP, weight_bits
from models.timeline import Stage, Timeline
from models.whisper import features
from models.whisper.alignment import AlignedWord, ctc_words, find_words
from models.whisper.batch import Batch
from models.whisper.config import WhisperConfig
from models.whisper.ctc import best_tokens, confidence, draft_score
from models.whisper.decoding import Decoded, DecodingOptions, Thresholds, decode, detect_language
from models.whisper.network import Whisper
from models.whisper.prosody import mark_model
from models.whisper.punctuation import MarkScorer, rescore
from models.whisper.steps import Memory, Steps
from models.whisper.text import WhisperTokenizer
from models.whisper.transcribe import Transcriber, TranscriptionOptions, WindowTranscript
from models.whisper.voices import VoiceSpans
from models.whisper.weights import Heads, load_weights, read_checkpoint
from models.whisper.words import WindowSegment, add_words

logger = logging.getLogger(__name__)

MAX_BEAMS = 8
MAX_BATCH = 8  # parts of a recording that are recognized at once
_BATCH_BYTES, _GPU_BATCH_BYTES = 1 << 29, 1 << 32  # of what their decoder reads
_WARM_TOKENS = 4
SAMPLES = 5  # that are drawn at a temperature above 0
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

T = TypeVar("T")


def load(spec: ModelSpec) -> WhisperRecognizer:
    """Load a checkpoint: spec.files has "weights" and "tokenizer", and "config" unless the weights are OpenAI's `.pt`.

    The hub's "generation" config, which tells the heads that follow the audio, is optional. The CPU computes in
    float32; with `spec.dtype` bfloat16 its native kernels read weights in it. Raises WeightsError.
    """
    if spec.bits not in (0, 4, 8):
        raise WeightsError(f"{spec.name}: weights can have 4 or 8 bits (0: as they are), not {spec.bits}")
    config, arrays, heads = read_checkpoint(spec.files, spec.name)
    if spec.bits and config.n_text_state % GROUP:
        raise WeightsError(f"{spec.name}: only widths that are multiples of {GROUP} can be quantized")
    if on_cpu() and spec.bits and not kernels.available():
        logger.warning("%s: weights of %d bits are slower on this CPU, not faster", spec.name, spec.bits)
    tokenizer = WhisperTokenizer(spec.files["tokenizer"], config)
    network = Whisper(config)
    load_weights(network, arrays, spec.files["weights"], token_model_dtype(spec.dtype))
    arrays.clear()
    network.lower(weight_bits(spec.dtype, spec.bits))
    return WhisperRecognizer(config, network, tokenizer, heads)


class WhisperRecognizer:
    """A loaded Whisper. Implements `models.contract.Recognizer`."""

    sample_rate = features.SAMPLE_RATE

    def __init__(self, config: WhisperConfig, network: Whisper, tokenizer: WhisperTokenizer, heads: Heads) -> None:
        self.config, self.network, self.tokenizer, self.heads = config, network, tokenizer, heads
        self.languages: list[str] = list(tokenizer.languages)
        # Distilled decoders, which are shallower than their encoders, were not trained to translate.
        translates = config.multilingual and config.n_text_layer == config.n_audio_layer
        self.tasks: frozenset[RecognitionTask] = frozenset(
            ("transcribe", "translate") if translates else ("transcribe",)
        )
        # Nor do their heads follow the audio well enough to tell what was not heard to its end (turbo).
        self.takes_prefix = config.n_text_layer == config.n_audio_layer
        self.steps, self.marks = Steps(network), mark_model()
        window = 2 * config.n_text_layer * config.n_text_state * config.n_audio_ctx * self.steps.memory_dtype.size
        most = (_BATCH_BYTES if on_cpu() else _GPU_BATCH_BYTES) // window
        # Other models' windows differ in length, and each has a draft.
        self.max_batch = max(1, min(MAX_BATCH, most)) if tokenizer.timed and not config.n_ctc else 1
        self.beams = 5 if config.n_ctc else 1  # hypotheses for a file: the steps of a small decoder cost little
        self.marks_of_text = [id_ for id_, piece in enumerate(tokenizer.pieces) if not re.search(rb"\w", piece)]

    def check(self, request: RecognitionRequest) -> None:
        """Raise ModelRequestError for a request that this model cannot serve. Safe on any thread; touches no array."""
        if request.pcm.ndim != 1:
            raise ModelRequestError(f"a recording must be mono, not of shape {request.pcm.shape}")
        if request.language is not None:
            self.tokenizer.language(request.language)
        if request.task not in self.tasks:
            raise ModelRequestError(f"this model cannot {request.task}; it can {' and '.join(sorted(self.tasks))}")
        if request.temperature is not None and not 0 <= request.temperature <= 1:
            raise ModelRequestError(f"temperature must be between 0 and 1, not {request.temperature}")
        if not 1 <= request.beams <= MAX_BEAMS:
            raise ModelRequestError(f"beams must be between 1 and {MAX_BEAMS}, not {request.beams}")
        self._check_parts(request)
        self._check_prefix(request)
        if request.draft and (request.beams > 1 or request.temperature):
            raise ModelRequestError("a draft is verified by greedy search: it takes beams=1 and temperature 0")

    def _check_parts(self, request: RecognitionRequest) -> None:
        if request.parts and (request.draft or request.prefix is not None):
            raise ModelRequestError("a draft or a prefix is for a recording as a whole, not for parts of it")
        for name, spans in (("parts", request.parts), ("voices", request.voices)):
            edges = [0, *(edge for span in spans for edge in span), request.pcm.size]
            if edges != sorted(edges):
                raise ModelRequestError(f"{name} of a recording are spans of its samples, in their order")

    def _check_prefix(self, request: RecognitionRequest) -> None:
        if request.prefix is None:
            return
        if request.beams > 1 or request.temperature:
            raise ModelRequestError("a prefix is continued by greedy search: it takes beams=1 and temperature 0")
        most = self.config.n_text_ctx // 2
        if len(request.prefix) >= most or any(not 0 <= token < self.tokenizer.end for token in request.prefix):
            raise ModelRequestError(f"a prefix has fewer than {most} tokens, all of text")
        if len(request.pcm) // features.HOP > self.config.window:
            raise InputTooLongError(f"with a prefix, at most {self.config.window / 100:g} seconds are heard")

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a transcript `text`, for a draft. Safe on any thread."""
        return tuple(self.tokenizer.encode_prompt(text))

    def recognize(
        self, request: RecognitionRequest, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[RecognizedSegment | None]:
        """Yield the segments of each window when it is decoded, None every few steps.

        Digital silence has no segments, whatever the network would write. Raises ModelRequestError before the first
        segment, Cancelled between steps.
        """
        self.check(request)
        recognize = self._recognize_parts if request.parts else self._recognize
        for item in recognize(request, timeline, cancelled):
            if item is None and cancelled():
                raise Cancelled("cancelled between steps of recognition")
            yield item

    def _recognize_parts(
        self, request: RecognitionRequest, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[RecognizedSegment | None]:
        """Recognize part by part until one has text, which is then there early and tells the language; then batches."""

        def recognize(part: RecognitionRequest, start: int, batch: Batch) -> Iterator[RecognizedSegment | None]:
            for item in self._recognize(part, timeline, cancelled, batch if self.max_batch > 1 else None):
                yield None if item is None else item.moved(start / self.sample_rate)

        begun, language, left = False, request.language, list(request.parts)
        while left:
            count = self.max_batch if begun else 1
            batch, whole = self._batch(timeline, cancelled), replace(request, language=language, parts=())
            runs = [recognize(_part(whole, start, end), start, batch) for start, end in left[:count]]
            del left[:count]
            for item in batch.together(runs):
                if item is not None:
                    begun, language = True, item.language
                yield item

    def _batch(self, timeline: Timeline, cancelled: IsCancelled) -> Batch:
        def encode_windows(mels: Sequence[Floats]) -> Generator[None, None, list[Memory]]:
            return (yield from _timed(self.steps.encode_windows(mels), timeline, Stage.ENCODE))

        def decode_windows(memory: Memory, options: DecodingOptions) -> Generator[None, None, list[Decoded]]:
            found = decode(self.steps, self.tokenizer, memory, options, cancelled)
            return (yield from _timed(found, timeline, Stage.DECODE))

        return Batch(encode_windows, decode_windows)

    def _recognize(
        self, request: RecognitionRequest, timeline: Timeline, cancelled: IsCancelled, batch: Batch | None = None
    ) -> Iterator[RecognizedSegment | None]:
        """Recognize one recording; a `batch` encodes and decodes its windows with those of others."""
        content = len(request.pcm) // features.HOP
        if not content or not request.pcm.any():
            return
        spectrogram = features.recording(request.pcm, self.config.n_mels, self.config.window)
        mel = yield from _timed(spectrogram, timeline, Stage.MEL)
        window = _Window(self, mel, timeline, cancelled, batch)
        window.task, window.pcm = request.task, request.pcm
        longest = self.config.window
        voices = VoiceSpans(request.voices, content, longest)

        def size_of(seek: int) -> int:
            left = voices.left(seek)
            return min(longest, left) if self.tokenizer.timed else features.quiet_cut(mel[: seek + left], seek, longest)

        if request.language is None:
            first = voices.begin(0) or 0
            yield from window.hear(first, size_of(first))
            window.language, window.probability = window.detect()
        else:
            window.language = self.tokenizer.language(request.language)
        options = self._options(request, window.language)
        if request.prefix is not None:
            yield from self._continue(window, options.decoding, request.prefix, content, voices)
            return
        transcriber = Transcriber(
            window, self.tokenizer, options, content=content, window=longest, voices=voices, size_of=size_of
        )
        for item in transcriber.run():
            if item is None:
                yield None
            else:
                score = window.score(request.draft, content) if content <= longest else None
                sure = window.confidence()
                yield from self._segments(item, window.language, window.probability, score, sure)

    def _continue(
        self, window: _Window, options: DecodingOptions, prefix: tuple[int, ...], size: int, voices: VoiceSpans
    ) -> Iterator[RecognizedSegment | None]:
        """Yield one segment of the window: the text that begins with `prefix`, without timestamps.

        Args:
            window: Of the whole recording.
            options: Of the search.
            prefix: Tokens with which the text begins.
            size: Frames of the window.
            voices: Where somebody speaks in it.
        """
        yield from window.hear(0, size)
        # A text to which nothing is added may end at once.
        options = replace(options, prefix=prefix, timestamps=False, suppress_blank=not prefix)
        decoded = yield from window.decode(options)
        if not prefix and Thresholds().is_silent(decoded):
            return
        pairs = [pair for pair in zip(decoded.tokens, decoded.logprobs, strict=True) if pair[0] < self.tokenizer.end]
        tokens = [*prefix, *(token for token, _ in pairs)]
        logprobs = [*(0.0 for _ in prefix), *(logprob for _, logprob in pairs)]
        segment = WindowSegment(0.0, size / features.FRAMES_A_SECOND, tokens, logprobs)
        add_words([segment], window.align(tokens, size), 0.0, 0.0, self.tokenizer.end)
        voices.place([segment], 0, size)
        item, sure = WindowTranscript(0, [segment], decoded), window.confidence()
        yield from self._segments(item, options.language, window.probability, None, sure)

    def _options(self, request: RecognitionRequest, language: str) -> TranscriptionOptions:
        official = self.tokenizer.official  # other models were trained without earlier text, and to be right at once
        prompt = self.tokenizer.encode_prompt(request.prompt) if official and request.prompt.strip() else []
        decoding = DecodingOptions(
            language=language,
            task=request.task,
            beams=request.beams,
            best_of=SAMPLES,
            prompt=tuple(prompt),
            timestamps=self.tokenizer.timed,
            draft=request.draft,
            seed=request.seed,
        )
        default = TEMPERATURES if official else TEMPERATURES[:1]
        temperatures = default if request.temperature is None else (request.temperature,)
        return TranscriptionOptions(
            decoding,
            temperatures,
            previous_text=official,
            word_times=request.word_times,
            # Other languages have other tunes, and a translation has none.
            prosody=request.prosody and language == "en" and request.task == "transcribe",
        )

    def _segments(
        self, found: WindowTranscript, language: str, probability: float, score: float | None, sure: float | None
    ) -> Iterator[RecognizedSegment]:
        """Yield a window's segments with text, in the contract's form.

        Args:
            found: The window.
            language: What is spoken.
            probability: That of the language.
            score: That of the draft.
            sure: How sure the encoder is of the words.
        """
        decoded, end = found.decoded, self.tokenizer.end
        accepted = decoded.accepted  # of the window: its first segment tells
        for segment in found.segments:
            if not segment.tokens:
                continue
            pairs = zip(segment.tokens, segment.logprobs, strict=True)
            yield RecognizedSegment(
                start=segment.start,
                end=segment.end,
                text=self.tokenizer.decode(segment.tokens),
                language=language,
                tokens=tuple(RecognizedToken(id_, self.tokenizer.bytes_of(id_), p) for id_, p in pairs if id_ < end),
                words=tuple(
                    RecognizedWord(word.word, word.start, word.end, word.probability, word.heard)
                    for word in segment.words
                ),
                seek=found.seek / features.FRAMES_A_SECOND,
                temperature=decoded.temperature,
                mean_logprob=decoded.average_logprob,
                compression=decoded.compression_ratio,
                no_speech=decoded.no_speech,
                accepted=accepted,
                draft_score=score,
                confidence=sure,
                language_probability=probability,
            )
            accepted = 0

    def warm(self, progress: Progress) -> None:
        """Run windows of noise: encoder and alignment, language, then the searches.

        A GPU runs the searches for every number of windows, hypotheses and samples that is served at once: each may
        need kernels, or plans of libraries, of its own.
        """
        pcm: Pcm = np.random.default_rng(0).standard_normal(self.sample_rate).astype(np.float32) * 0.01
        mel = drain(features.recording(pcm, self.config.n_mels, self.config.window))
        window = _Window(self, mel, Timeline())
        window.language = self.languages[0]

        def hear() -> None:
            drain(window.hear(0, features.FRAMES_A_SECOND))
            window.align(self.tokenizer.encode(" a"), features.FRAMES_A_SECOND)
            if not on_cpu():
                window.detect()
                window.language = self.languages[0]

        def search(windows: int, options: DecodingOptions) -> None:
            drain(window.decode(options) if windows == 1 else self._together(mel, windows, options))

        runs: list[tuple[str, Callable[[], None]]] = [("window", hear)]
        warm_up([*runs, *((_warm_name(*case), partial(search, *case)) for case in self._warm_cases())], progress)

    def _warm_cases(self) -> list[tuple[int, DecodingOptions]]:
        """Return the numbers of windows, and options, to run."""
        usual = DecodingOptions(language=self.languages[0], limit=_WARM_TOKENS, timestamps=self.tokenizer.timed)
        if on_cpu():
            return [(1, usual), (1, replace(usual, beams=2))]
        one = [
            *(replace(usual, beams=beams) for beams in range(1, MAX_BEAMS + 1)),
            replace(usual, temperature=TEMPERATURES[1], best_of=SAMPLES),
            replace(usual, timestamps=False),  # a prefix is continued so
        ]
        if self.tokenizer.official:  # a prompt has more tokens than a kernel has rows
            one.append(replace(usual, prompt=tuple(self.tokenizer.encode(" a") * self.config.n_text_ctx)))
        several = [(windows, usual) for windows in range(2, self.max_batch + 1)]
        most = [(windows, replace(usual, beams=MAX_BEAMS)) for windows, _ in several[:1] + several[-1:]]
        return [*((1, options) for options in one), *several, *most]

    def _together(self, mel: Floats, windows: int, options: DecodingOptions) -> Generator[None, None, None]:
        """Decode a window so many times as one batch."""
        batch = self._batch(Timeline(), lambda: False)

        def recognize() -> Generator[None, None, None]:
            window = _Window(self, mel, Timeline(), batch=batch)
            window.language = options.language
            yield from window.hear(0, features.FRAMES_A_SECOND)
            yield from window.decode(options)

        yield from batch.together([recognize() for _ in range(windows)])


def _warm_name(windows: int, options: DecodingOptions) -> str:
    """Return the name of a step of warming: how it differs from one window with one hypothesis."""
    parts = {"windows": windows if windows > 1 else 0, "beams": options.beams, "temperature": options.temperature}
    return " ".join(f"{key}={value:g}" for key, value in parts.items() if value)


class _Window:
    """The window of a recording that is heard: a `models.whisper.transcribe.WindowModel` by the network."""

    def __init__(
        self,
        recognizer: WhisperRecognizer,
        mel: Floats,
        timeline: Timeline,
        cancelled: IsCancelled = lambda: False,
        batch: Batch | None = None,
    ) -> None:
        self._recognizer, self._mel, self._batch = recognizer, mel, batch
        self._timeline, self._cancelled = timeline, cancelled
        self._heard: tuple[int, int] | None = None
        self._memory: Memory = []
        self._labels: Floats | None = None
        self.pcm: Pcm = np.zeros(0, np.float32)
        self.language, self.task = "en", "transcribe"
        # Of the language.
        self.probability = 1.0

    def hear(self, seek: int, size: int) -> Generator[None, None, None]:
        """Encode the window, unless it is the one that was encoded last."""
        if self._heard == (seek, size):
            return
        self._heard = None
        if self._recognizer.tokenizer.timed:
            frames = features.padded_features(self._mel, seek, size, self._recognizer.config.window)
        else:
            frames = features.short_window(self._mel, seek, size)
        if self._batch is not None:  # models that have one have no labels
            self._memory = yield from self._batch.encode(frames)
        else:
            encoding = self._recognizer.steps.hear(frames[None])
            self._memory, self._labels = yield from _timed(encoding, self._timeline, Stage.ENCODE)
        self._heard = (seek, size)

    def detect(self) -> tuple[str, float]:
        """Return the likeliest language of the window, and its probability."""
        if len(self._recognizer.languages) == 1:
            return self._recognizer.languages[0], 1.0
        with self._timeline.measure(Stage.DECODE):
            shares = detect_language(self._recognizer.steps, self._recognizer.tokenizer, self._memory)
        language = max(shares, key=lambda code: shares[code])
        return language, shares[language]

    def decode(self, options: DecodingOptions) -> Generator[None, None, Decoded]:
        """Decode the window."""
        one = self._recognizer
        if self._labels is not None and not options.draft and options.beams == 1 and options.temperature == 0:
            draft, count = tuple(best_tokens(self._labels[0])), len(options.prefix)
            options = replace(options, draft=draft[count:] if draft[:count] == options.prefix else draft)
        elif self._batch is not None and options.temperature == 0:
            return (yield from self._batch.decode(self._memory, options))
        found = decode(one.steps, one.tokenizer, self._memory, options, self._cancelled)
        return (yield from _timed(found, self._timeline, Stage.DECODE))[0]

    def score(self, draft: Sequence[int], size: int) -> float | None:
        """Return how likely a text is in the window's `size` frames; None without a text or a head that tells."""
        if self._labels is None or not draft:
            return None
        with self._timeline.measure(Stage.ALIGN):
            return draft_score(self._labels[0][: size // 2], draft)

    def confidence(self) -> float | None:
        """Return how sure the head is of the words in the window that was heard last; None without such a head."""
        if self._labels is None or self._heard is None:
            return None
        return confidence(self._labels[0][: self._heard[1] // 2], self._recognizer.marks_of_text)

    def punctuate(self, found: Decoded, options: DecodingOptions, size: int) -> Generator[None, None, Decoded]:
        """Weigh the marks of the window that was heard last again, by the tune of its `size` frames."""
        one = self._recognizer
        try:
            scorer = MarkScorer(one.steps, one.tokenizer, self._memory, options, found.tokens)
        except ValueError:  # a text that fills the decoder stays as it is
            return found
        words = self.align([token for token in found.tokens if token < one.tokenizer.end], size)
        start = 0 if self._heard is None else self._heard[0]
        pcm = self.pcm[start * features.HOP : (start + size) * features.HOP]
        work = rescore(scorer, one.tokenizer, found, words, pcm, one.marks)
        return (yield from _timed(work, self._timeline, Stage.DECODE))

    def align(self, tokens: Sequence[int], size: int) -> list[AlignedWord]:
        """Return the words of text `tokens` in the window's `size` frames."""
        one = self._recognizer
        with self._timeline.measure(Stage.ALIGN):
            if self._labels is not None:
                return ctc_words(self._labels[0], one.tokenizer, tokens, self.language, size // 2)
            return find_words(
                one.network, one.tokenizer, one.heads, self._memory, tokens, (self.language, self.task), size
            )


def _part(request: RecognitionRequest, start: int, end: int) -> RecognitionRequest:
    """Return the request for the samples from `start` to `end`."""
    voices = tuple((max(a, start) - start, min(b, end) - start) for a, b in request.voices if a < end and b > start)
    return replace(request, pcm=request.pcm[start:end], voices=voices)


def _timed(work: Generator[None, None, T], timeline: Timeline, stage: Stage) -> Generator[None, None, T]:
    """Run `work`, and time what it does between its pauses as `stage`."""
    while True:
        with timeline.measure(stage):
            try:
                next(work)
            except StopIteration as stop:
                found: T = stop.value
                return found
        yield


def drain(work: Generator[object, None, T]) -> T:
    """Run `work` to its end, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            found: T = stop.value
            return found
