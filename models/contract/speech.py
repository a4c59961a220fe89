"""Models that speak: requests, what they yield, and their methods."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy.typing as npt

from models.contract.calls import IsCancelled, Pcm, Progress
from models.contract.errors import ModelError
from models.timeline import Timeline

Reads = Literal["phonemes", "text"]


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
