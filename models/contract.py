"""What a model family offers and what it may be asked: the seam between `models` and `app`.

PCM crosses this seam as float32 numpy in [-1, 1]; no `mx.array` does, because MLX arrays belong to the thread
that made them. Every method of a model is called on the one thread that owns MLX.

Exceptions:

    ModelError
    ├── ModelRequestError        the caller asked for something this model cannot do
    │   ├── UnknownVoiceError
    │   ├── UnknownLanguageError
    │   ├── OutsideCoverageError
    │   └── InputTooLongError
    ├── WeightsError             files that are missing, extra, misshapen, or not what they claim to be
    │   └── WeightsMissingError
    └── Cancelled                the caller went away; nothing was lost
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from models.timeline import Timeline

Pcm = npt.NDArray[np.float32]


class ModelError(Exception):
    """Base of everything a model raises on purpose."""


class ModelRequestError(ModelError):
    """The request cannot be served by this model; the message says what is accepted."""


class UnknownVoiceError(ModelRequestError):
    """No voice of that name, or a blend that cannot be parsed."""


class UnknownLanguageError(ModelRequestError):
    """The model does not translate from or to that language."""


class OutsideCoverageError(ModelRequestError):
    """A demonstration model was asked for text that it was not made for."""


class InputTooLongError(ModelRequestError):
    """More input in one utterance than the model's positions allow."""


class WeightsError(ModelError):
    """A checkpoint array is missing, extra or misshapen, or a file is malformed. The message names it."""


class WeightsMissingError(WeightsError):
    """The files of a model are not on this machine."""


class Cancelled(ModelError):  # noqa: N818  (an outcome, not an error)
    """Raised inside a model when `cancelled()` turned true."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One speaker a model can use. `language` is a BCP-47 tag."""

    id: str
    language: str
    gender: str | None = None


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One utterance: a sentence or clause, never a whole document.

    `phonemes` is what phoneme-driven models read (Kokoro's symbols, misaki's alphabet); `text` is what text-driven
    models read and what error messages quote. `voice` is a voice id or a blend such as ``a(2)+b(1)``. `speed` is
    in [0.25, 4]. Equal requests with equal seeds give bit-identical PCM on one device.
    """

    text: str
    phonemes: str
    voice: str
    speed: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A piece of an utterance's audio.

    `pcm` is float32 [samples]. `phoneme_ends` holds, for each character of `SpeechRequest.phonemes` that this
    chunk finishes, the second (from the start of the utterance) at which it ends; it is empty for models without
    an alignment.
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
IsCancelled = Callable[[], bool]


class Synthesizer(Protocol):
    """A loaded text-to-speech model."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of the PCM it makes."""
        ...

    @property
    def voices(self) -> Sequence[Voice]: ...

    @property
    def default_voice(self) -> str: ...

    @property
    def max_phonemes(self) -> int:
        """Most characters of `SpeechRequest.phonemes` in one request."""
        ...

    @property
    def symbols(self) -> frozenset[str]:
        """The phoneme characters it knows; others are dropped before synthesis."""
        ...

    def check_voice(self, voice: str) -> None:
        """Raise UnknownVoiceError unless `voice` (or blend) can be used. Safe on any thread; touches no array."""
        ...

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""
        ...

    def stream(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[AudioChunk]:
        """Synthesise one utterance. Raises ModelRequestError before the first chunk, Cancelled between stages."""
        ...


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One sentence to translate. `source` and `target` are FLORES-200 codes that the model lists.

    `beams` in [1, 8] hypotheses are kept; `alternatives` (below `beams`) further ones are returned. `draft` holds the
    tokens of an earlier translation of the sentence's beginning: they are verified in one pass, and what comes out is
    what would have come out without them (greedy only).
    """

    text: str
    source: str
    target: str
    beams: int = 1
    alternatives: int = 0
    draft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation. `score` is its mean log-probability per token; NaN where it was not computed."""

    text: str
    score: float
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of request `index` of its batch: the best hypothesis, then the alternatives asked for.

    `source_tokens` counts what the encoder read; `accepted` how many tokens of the draft stood.
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
        """FLORES-200 codes it translates between."""
        ...

    @property
    def max_batch(self) -> int:
        """Most requests in one call of `translate`."""
        ...

    def check(self, request: TranslationRequest) -> None:
        """Raise ModelRequestError for what this model cannot do. Safe on any thread; touches no array."""
        ...

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""
        ...

    def translate(
        self, batch: Sequence[TranslationRequest], timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Translation | None]:
        """Translate a batch together; pairs of languages may be mixed. Each translation comes as soon as it is whole.

        None comes in between, every few steps, where the thread may turn to other work. Raises ModelRequestError
        before the first item, Cancelled between steps.
        """
        ...


# What a family's `load` returns, and what that is for.
Model = Synthesizer | Translator
Kind = Literal["text-to-speech", "translation"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Where a checkpoint's files are. `files` maps a role ("config", "weights", "voices", "tokenizer") to a path.

    `bits` (0, 4 or 8) quantises the weights of models that can; `shortlist` (0: off) bounds the output vocabulary of
    translation per target language.
    """

    name: str
    family: str
    files: dict[str, str] = field(default_factory=dict)
    profile: bool = False
    dtype: str = "float32"
    bits: int = 0
    shortlist: int = 0
