"""Contract between `models` and `app`: the methods of a model family, its requests, results and errors.

PCM crosses it as float32 numpy in [-1, 1]; no `mx.array` does, because MLX arrays belong to the thread
that made them. Every method of a model is called on the one thread that owns MLX.

Exceptions:

    ModelError
    ├── ModelRequestError        the caller asked for something this model cannot do
    │   ├── UnknownVoiceError
    │   ├── UnknownLanguageError
    │   ├── OutsideCoverageError
    │   ├── UnusableReferenceError
    │   └── InputTooLongError
    ├── WeightsError             files that are missing, extra, misshapen, or not what they claim to be
    │   └── WeightsMissingError
    └── Cancelled                the caller went away; nothing was lost
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from models.timeline import Timeline

Pcm = npt.NDArray[np.float32]


class ModelError(Exception):
    """Base of the errors that a model raises on purpose."""


class ModelRequestError(ModelError):
    """The request cannot be served by this model; the message says what is accepted."""


class UnknownVoiceError(ModelRequestError):
    """No voice of that name, or a blend that cannot be parsed."""


class UnknownLanguageError(ModelRequestError):
    """The model does not translate from or to that language."""


class OutsideCoverageError(ModelRequestError):
    """A demonstration model was asked for text that it was not made for."""


class UnusableReferenceError(ModelRequestError):
    """A recording from which no voice can be made: too short, silent, or not like speech."""


class InputTooLongError(ModelRequestError):
    """More input in one request than the model's positions allow."""


class WeightsError(ModelError):
    """A checkpoint array is missing, extra or misshapen, or a file is malformed. The message names it."""


class WeightsMissingError(WeightsError):
    """The files of a model are not on this machine."""


class Cancelled(ModelError):  # noqa: N818  (an outcome, not an error)
    """A model stopped because `cancelled()` turned true."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One speaker a model can use. `language` is a BCP-47 tag; `gender` "female", "male" or None: unknown."""

    id: str
    language: str
    gender: str | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parameters of a model that draws its speech at random. None: the model's default. Ranges: `SAMPLING_RANGES`.

    `exaggeration` of the emotion; `cfg_weight` of classifier-free guidance (0: none, and half the work);
    `temperature` (0: always the likeliest token); `min_p` and `top_p` cut off unlikely tokens; `repetition_penalty`
    divides the probability of tokens that came already.
    """

    exaggeration: float | None = None
    cfg_weight: float | None = None
    temperature: float | None = None
    min_p: float | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None

    def given(self) -> dict[str, float]:
        """Return the parameters that are not None, by name."""
        return {name: value for name in SAMPLING_RANGES if (value := getattr(self, name)) is not None}


# Least and greatest accepted value of each field of `Sampling`.
SAMPLING_RANGES: dict[str, tuple[float, float]] = {
    "exaggeration": (0.0, 2.0),
    "cfg_weight": (0.0, 2.0),
    "temperature": (0.0, 5.0),
    "min_p": (0.0, 1.0),
    "top_p": (0.01, 1.0),
    "repetition_penalty": (1.0, 3.0),
}


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Conditioning:
    """A cloned voice as one model family needs it: named arrays of numbers, made by `VoiceCloner.condition`.

    Each family has names and shapes of its own, which `VoiceCloner.check_conditioning` checks.
    """

    arrays: Mapping[str, npt.NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


MIN_SPEED: Final = 0.25
MAX_SPEED: Final = 4.0
"""Bounds of `SpeechRequest.speed`."""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One sentence or clause to speak, never a whole document.

    Phoneme-driven models read `phonemes` (Kokoro's symbols, misaki's alphabet), text-driven models read `text`, which
    error messages quote, too. `voice` is a voice id or a blend such as ``a(2)+b(1)``; with a `conditioning` it is only
    the name of that cloned voice. `speed` is in [0.25, 4]. `first`: nothing of the stream was spoken before, so the
    model may begin with a smaller piece. Equal requests with equal seeds give bit-identical PCM on one device, unless
    they are spoken with others (`BatchSynthesizer`).
    """

    text: str
    phonemes: str
    voice: str
    speed: float = 1.0
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    conditioning: Conditioning | None = None
    first: bool = True


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A piece of the audio of one request. `last`: no piece follows.

    `pcm` is float32 [samples]. `phoneme_ends` holds the end of each character of `SpeechRequest.phonemes` that ends in
    this chunk, in seconds from the start of the request's audio; it is empty for models without an alignment.
    """

    pcm: Pcm
    phoneme_ends: tuple[float, ...] = ()
    last: bool = True


@dataclass(frozen=True, slots=True)
class WarmupStep:
    """Progress of `warm`: bucket `done` of `total`, named, and the seconds it took."""

    name: str
    done: int
    total: int
    seconds: float


Progress = Callable[[WarmupStep], None]
Reads = Literal["phonemes", "text"]
IsCancelled = Callable[[], bool]


class Synthesizer(Protocol):
    """A loaded text-to-speech model."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of its PCM."""

    @property
    def voices(self) -> Sequence[Voice]: ...

    @property
    def default_voice(self) -> str: ...

    @property
    def languages(self) -> Sequence[str]:
        """BCP-47 tags of the languages that it was made to speak, the most usual first."""

    @property
    def reads(self) -> Reads:
        """Field of a `SpeechRequest` that it reads."""

    @property
    def max_phonemes(self) -> int:
        """Most characters, in one request, of the field it reads."""

    @property
    def symbols(self) -> frozenset[str]:
        """Phoneme characters that it knows; others are dropped before synthesis. Empty if it reads text."""

    @property
    def parameters(self) -> frozenset[str]:
        """Fields of `Sampling` that it uses; empty if it draws nothing at random but noise."""

    @property
    def changes_speed(self) -> bool:
        """Whether the speed of a request may be another one than 1."""

    @property
    def watermarked(self) -> bool:
        """Whether its makers ask for a watermark in its audio."""

    def check_voice(self, voice: str) -> None:
        """Raise UnknownVoiceError unless `voice` (or blend) can be used. Safe on any thread; touches no array."""

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""

    def stream(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[AudioChunk | None]:
        """Yield the audio of one request, and None wherever the thread may turn to other work.

        Raises ModelRequestError before the first chunk, Cancelled between stages and steps.
        """


@dataclass(frozen=True, slots=True, eq=False)
class BatchItem:
    """One request of a batch. Its stages go into its own timeline; a cancelled one is left out."""

    request: SpeechRequest
    timeline: Timeline
    cancelled: IsCancelled


@runtime_checkable
class BatchSynthesizer(Protocol):
    """A synthesizer that can speak several requests at once, in less time than one after the other.

    The audio of each equals that of `stream` within rounding, not to the bit: its last bits depend on the batch.
    """

    @property
    def max_batch(self) -> int:
        """Most requests in one call of `speak`; 1: each is spoken alone."""

    def batch_key(self, request: SpeechRequest) -> Hashable | None:
        """Return a key: requests of equal keys may be spoken at once. None: alone. Safe on any thread."""

    def speak(self, batch: Sequence[BatchItem]) -> Iterator[tuple[int, AudioChunk | ModelError]]:
        """Yield the number of each request with its only chunk, or with its error, as soon as that is known.

        A ModelRequestError or Cancelled concerns one request. An exception concerns all that did not come yet.
        """


@runtime_checkable
class VoiceCloner(Protocol):
    """A synthesizer that can also speak in the voice of a recording."""

    @property
    def reference_seconds(self) -> tuple[float, float]:
        """Least and greatest length of a recording, in seconds: a longer one is cut, a shorter one refused."""

    def condition(
        self, pcm: Pcm, sample_rate: int, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Conditioning | None]:
        """Make a voice from a recording, float32 mono [samples] at `sample_rate`; yield one Conditioning, last.

        Yields None wherever the thread may turn to other work. Raises UnusableReferenceError, and Cancelled between
        stages.
        """

    def check_conditioning(self, conditioning: Conditioning) -> None:
        """Raise WeightsError naming an array that is missing, extra or misshapen. Safe on any thread."""


@runtime_checkable
class TokenSynthesizer(Protocol):
    """A synthesizer that draws speech tokens one after the other."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of its PCM."""

    def forced(
        self, text: str, tokens: int, sampling: Sampling, seed: int, timeline: Timeline
    ) -> Iterator[AudioChunk | None]:
        """Yield speech of exactly so many `tokens` in the default voice, whatever the text: to time it."""


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One sentence to translate. `source` and `target` are FLORES-200 codes that the model lists.

    `beams` in [1, 8] hypotheses are kept; `alternatives` (below `beams`) further ones are returned. `draft` holds the
    tokens of an earlier translation of the sentence's beginning: they are verified in one pass, and never change the
    translation (greedy only).
    """

    text: str
    source: str
    target: str
    beams: int = 1
    alternatives: int = 0
    draft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation. `score` is its mean log-probability per token; NaN if it was not computed."""

    text: str
    score: float
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """Translation of request `index` of its batch: the best hypothesis, then the alternatives.

    `source_tokens` counts the tokens that the encoder read, `accepted` those of the draft that were right.
    """

    index: int
    best: Hypothesis
    alternatives: tuple[Hypothesis, ...] = ()
    source_tokens: int = 0
    accepted: int = 0


@runtime_checkable
class Translator(Protocol):
    """A loaded translation model."""

    @property
    def languages(self) -> Sequence[str]:
        """FLORES-200 codes of the languages that it translates between."""

    @property
    def max_batch(self) -> int:
        """Most requests in one call of `translate`."""

    def targets(self, source: str) -> Sequence[str]:
        """Return the languages to which it translates from `source`, without `source` itself."""

    def check(self, request: TranslationRequest) -> None:
        """Raise ModelRequestError for a request that it cannot serve. Safe on any thread; touches no array."""

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""

    def translate(
        self, batch: Sequence[TranslationRequest], timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Translation | None]:
        """Translate a batch at once, of any pairs of languages; yield each translation as soon as it is whole.

        Yields None every few steps, where the thread may turn to other work. Raises ModelRequestError before the first
        item, Cancelled between steps.
        """


RecognitionTask = Literal["transcribe", "translate"]


@dataclass(frozen=True, slots=True, eq=False)
class RecognitionRequest:
    """Speech to write down. `pcm` is float32 mono [samples] at the recognizer's sample rate.

    `language` is a code that the model lists; None: it is detected. `task` "translate" writes English. `prompt` is text
    that comes before, or words to expect. `temperature` None: 0, and higher ones where the text looks wrong. `beams` in
    [1, 8] hypotheses are kept at temperature 0. `word_times` asks for the time of each word. `draft` holds the tokens
    of a text that was probably said: they are verified in one pass, and never change the result (one beam at
    temperature 0). `prefix` holds tokens with which the text begins, final ones of earlier audio: the text goes on from
    there, in one segment with words, greedily; None: as usual. It is for models that say `takes_prefix`, and for one
    window. `parts` are spans of samples in their order: each is recognized as if it were alone, several at once where
    that is faster, and the language of the first that has text is that of all; empty: all of `pcm` as one. `prosody`:
    the tune of English speech weighs the marks at clause ends again; words stay (not with a prefix). Equal requests
    with equal seeds give equal results on one device.
    """

    pcm: Pcm
    language: str | None = None
    task: RecognitionTask = "transcribe"
    prompt: str = ""
    temperature: float | None = None
    beams: int = 1
    word_times: bool = False
    draft: tuple[int, ...] = ()
    prefix: tuple[int, ...] | None = None
    parts: tuple[tuple[int, int], ...] = ()
    prosody: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RecognizedToken:
    """One token of a text: its number, its UTF-8 bytes (perhaps a part of a character), its log-probability."""

    id: int
    text: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class RecognizedWord:
    """One word with the spaces and marks that belong to it, its times in seconds, its probability in [0, 1].

    `heard`: second to which the model listened while it wrote the word; None: it does not tell.
    """

    text: str
    start: float
    end: float
    probability: float
    heard: float | None = None


@dataclass(frozen=True, slots=True)
class RecognizedSegment:
    """A piece of what was said, a sentence or less, in the order of time. Times are in seconds from the start.

    `seek` is the start of its window. `temperature`, `mean_logprob`, `compression` (of the text by zlib) and
    `no_speech` (the probability of silence) are those of the window. `words` are empty unless they were asked for.
    `accepted` counts the tokens of the draft that were right. `draft_score`: log-probability of the whole draft, less
    that of what was heard, by a model that tells it, for a recording of one window. `language_probability`: of a
    language that was detected; 1 for one that was given.
    """

    start: float
    end: float
    text: str
    language: str
    tokens: tuple[RecognizedToken, ...] = ()
    words: tuple[RecognizedWord, ...] = ()
    seek: float = 0.0
    temperature: float = 0.0
    mean_logprob: float = 0.0
    compression: float = 0.0
    no_speech: float = 0.0
    accepted: int = 0
    draft_score: float | None = None
    language_probability: float = 1.0

    def moved(self, offset: float) -> RecognizedSegment:
        """Return this segment, of audio that begins at second `offset`, in its place there."""
        if not offset:
            return self
        words = tuple(
            replace(
                word,
                start=word.start + offset,
                end=word.end + offset,
                heard=None if word.heard is None else word.heard + offset,
            )
            for word in self.words
        )
        start, end, seek = (seconds + offset for seconds in (self.start, self.end, self.seek))
        return replace(self, start=start, end=end, seek=seek, words=words)


@runtime_checkable
class Recognizer(Protocol):
    """A loaded speech recognition model."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of the PCM that it reads."""

    @property
    def languages(self) -> Sequence[str]:
        """ISO 639 codes of the languages that it writes, such as "en"; the first is the usual one."""

    def check(self, request: RecognitionRequest) -> None:
        """Raise ModelRequestError for a request that it cannot serve. Safe on any thread; touches no array."""

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, for a draft. Safe on any thread."""

    def recognize(
        self, request: RecognitionRequest, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[RecognizedSegment | None]:
        """Yield the segments of one recording as soon as each is final; none for silence.

        Yields None every few steps, where the thread may turn to other work. Raises ModelRequestError before the first
        segment, Cancelled between steps.
        """


# Result of a family's `load`, and its task.
Model = Synthesizer | Translator | Recognizer
ModelKind = Literal["text-to-speech", "translation", "speech-recognition"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Files and options of a checkpoint. `files` maps a role ("config", "weights", "voices", "tokenizer") to a path.

    `profile` times the stages inside the model; `dtype` is the number format, "float32", "bfloat16" or the family's
    choice for this device ("auto"). `bits` (0, 4 or 8) quantizes the weights of models that can, `cache_bits` (0, 4 or
    8) their keys and values. `shortlist` (0: off) bounds the output vocabulary of translation per target language.
    `steps` (0: the model's own) counts the evaluations of a flow-matching decoder. `draft` names the drafter of tokens
    ("": none). `batch` bounds the requests that a model speaks at once. `target_first`: the source of a translation
    begins with its target language.
    """

    name: str
    family: str
    files: dict[str, str] = field(default_factory=dict)
    profile: bool = False
    dtype: str = "float32"
    bits: int = 0
    cache_bits: int = 0
    shortlist: int = 0
    steps: int = 0
    draft: str = ""
    batch: int = 1
    target_first: bool = False
