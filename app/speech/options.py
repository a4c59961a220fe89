"""Options of a speech request: as the client gives them, and checked against a loaded model."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.audio.watermark import Marker, Name
from app.text.types import Planner, Utterance
from app.translation.plan import TranslationOptions
from models.contract import Conditioning, Sampling, SpeechRequest, Synthesizer


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOptions:
    """Options of one request. None means the default. `speed` is in [0.25, 4].

    `any_language` allows a language that the model was not made for. With `translate_to` the text is translated from
    `source` (None or "auto": detected) by `translate_model` first, and `lang` and the voice default to those of that
    language.
    """

    model: str | None = None
    voice: str | None = None
    lang: str | None = None
    any_language: bool = False
    speed: float = 1.0
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    translate_to: str | None = None
    source: str | None = None
    translate_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSpeech:
    """Options that were checked against a loaded model. `route` says how to translate first, if at all.

    `conditioning` is the cloned `voice`: a stream that has it goes on when the voice is deleted. `marker` puts a
    watermark into the audio.
    """

    model: str
    synthesizer: Synthesizer
    planner: Planner
    voice: str
    language: str
    speed: float = 1.0
    seed: int = 0
    route: TranslationOptions | None = None
    sampling: Sampling = field(default_factory=Sampling)
    conditioning: Conditioning | None = None
    marker: Marker | None = None

    @property
    def watermark(self) -> Name:
        """Name of the watermark in the audio."""
        return "none" if self.marker is None else "perth"

    def request(self, utterance: Utterance, *, first: bool) -> SpeechRequest:
        """Return the model's request for one utterance; `first` of its stream."""
        reads_text = self.synthesizer.reads == "text"
        return SpeechRequest(
            text=utterance.phonemes if reads_text else utterance.text,
            phonemes="" if reads_text else utterance.phonemes,
            voice=self.voice,
            speed=self.speed,
            seed=self.seed,
            sampling=self.sampling,
            conditioning=self.conditioning,
            first=first,
        )
