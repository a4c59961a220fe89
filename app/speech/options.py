"""Options of a speech request: as a client gives them, and as they were checked against a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from app import errors
from app.audio.watermark import Marker, Name
from app.config import PauseKind
from app.speech.cache import Scope
from app.text.languages import is_spoken, language_name, normalize_language, primary_language
from app.text.lexicon import Lexicon
from app.text.types import PhonemizedSentence, Planner
from app.translation.plan import TranslationOptions
from app.voices.aliases import language_of, resolve_alias
from app.voices.store import StoredVoice
from models.contract import (
    MAX_SPEED,
    MIN_SPEED,
    SAMPLING_RANGES,
    Conditioning,
    ModelRequestError,
    Sampling,
    SpeechRequest,
    Synthesizer,
)

MAX_MODEL_SPEED: Final = 2.0
"""Speed above which a model of phonemes hardly becomes faster: each phoneme needs a frame.

Kokoro is 1.7 to 1.9 times as fast at 2, and 2.1 to 2.6 times at 4.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOptions:
    """Options of one request. None means the default. `speed` is in [0.25, 4].

    `any_language` allows a language that the model was not made for. With `translate_to` the text is translated from
    `source` (None or "auto": detected) by `translate_model` first, and `lang` and the voice default to those of that
    language. `lexicons` are ids of uploaded ones, or lexicons; `lexicon` maps words to `/phonemes/` or other words.
    `cache`: sentences may come from the cache, and go there.
    `voice_marks`: `[voice:NAME]` in a text changes the voice. `pauses` are seconds of silence between sentences and
    between paragraphs at speed 1; the settings have those that are not given.
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
    lexicons: tuple[str | Lexicon, ...] = ()
    lexicon: Mapping[str, str] = field(default_factory=dict)
    cache: bool = True
    voice_marks: bool = False
    pauses: Mapping[PauseKind, float] = field(default_factory=dict)

    @classmethod
    def of(cls, given: object, **changes: Any) -> SpeechOptions:
        """Return the options that `given`, a body, a message or a command's arguments, has under their names.

        `changes` count before them. Options that are in neither have their defaults.
        """
        names = [each.name for each in fields(cls) if each.name not in changes and hasattr(given, each.name)]
        return cls(**{name: getattr(given, name) for name in names}, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSpeech:
    """Options that were checked against a loaded model. `route` says how to translate first, if at all.

    `conditioning` is the cloned `voice`: a stream that has it goes on when the voice is deleted. `marker` puts a
    watermark into the audio. `scope` is the part of the cache that is read and written; None: none is. `options` are
    those that were checked; `lexicons` read words in their order.
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
    options: SpeechOptions = field(default_factory=SpeechOptions)
    lexicons: tuple[Lexicon, ...] = ()
    scope: Scope | None = None

    @property
    def watermark(self) -> Name:
        """Name of the watermark in the audio."""
        return "none" if self.marker is None else "perth"

    def at_speed(self, speed: float) -> PreparedSpeech:
        """Return the speech at another speed. Raises InvalidRequestError for a model of one speed."""
        check_speed(speed, self.model, self.synthesizer)
        return replace(self, speed=speed)

    def at_rate(self, rate: float) -> PreparedSpeech:
        """Return the speech `rate` times as fast, if the model can; within [MIN_SPEED, MAX_SPEED]."""
        speed = min(max(self.speed * rate, MIN_SPEED), MAX_SPEED)
        return replace(self, speed=speed) if self.synthesizer.changes_speed and speed != self.speed else self

    def request(self, utterance: PhonemizedSentence, *, first: bool) -> SpeechRequest:
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


def language_to_speak(
    lang: str | None, own: str, model: str, synthesizer: Synthesizer, *, named: bool, anything: bool
) -> str:
    """Return the tag of the language to speak.

    Args:
        lang: The language that is wanted; None: the voice's.
        own: The voice's own language.
        model: Name of the model, for messages.
        synthesizer: The model.
        named: Whether the request names `lang`, and does not only follow from its translation.
        anything: Whether a language may be tried that the model was not made for.

    Raises:
        UnsupportedLanguageError: The model was not made for it, or nobody speaks it here.
    """
    bare = lang is not None and lang.strip().lower() == primary_language(own)
    if bare or (not named and (lang is None or primary_language(lang) == primary_language(own))):
        lang = own  # the voice's variety of it
    if anything and lang:
        return normalize_language(lang)
    return spoken_language(lang or own, model, synthesizer, "lang" if named else "translate_to")


def voice_for(lang: str | None, synthesizer: Synthesizer) -> str | None:
    """Return the first voice of a language that the default voice does not speak; None: the default will do."""
    if lang is None:
        return None
    wanted = primary_language(lang)
    spoken = primary_language(language_of(synthesizer.default_voice, synthesizer.voices))
    if wanted == spoken:
        return None
    return next((voice.id for voice in synthesizer.voices if primary_language(voice.language) == wanted), None)


def voice_of(lang: str, gender: str | None, synthesizer: Synthesizer) -> str | None:
    """Return the first voice of a language and gender, or of that language; None: there is none."""
    near = [known for known in synthesizer.voices if primary_language(known.language) == primary_language(lang)]
    fitting = [known.id for known in near if gender is None or known.gender == gender]
    return next(iter([*fitting, *(known.id for known in near)]), None)


def has_voice(name: str, synthesizer: Synthesizer) -> bool:
    """Whether a model has the voice of that name, or of another service's name for it."""
    try:
        synthesizer.check_voice(resolve_alias(name, synthesizer))
    except ModelRequestError:
        return False
    return True


def own_language(voice: str, cloned: StoredVoice | None, synthesizer: Synthesizer) -> str:
    """Return the language of a voice; of a cloned one that language, if the model speaks it, or the default voice's."""
    if cloned is None:
        return language_of(voice, synthesizer.voices)
    wanted = primary_language(cloned.language or "")
    spoken = {primary_language(known.language): known.language for known in reversed(synthesizer.voices)}
    return spoken.get(wanted) or language_of(synthesizer.default_voice, synthesizer.voices)


def spoken_language(lang: str, model: str, synthesizer: Synthesizer, param: str) -> str:
    """Return the tag under which a model speaks `lang`, or its nearest variety. Raises UnsupportedLanguageError."""
    near = [tag for tag in synthesizer.languages if primary_language(tag) == primary_language(lang)]
    if not near:
        accepted = ", ".join(f"{tag} ({language_name(tag)})" for tag in synthesizer.languages)
        hint = (
            " The model was not made for other languages; set 'any_language' to let it try." if is_spoken(lang) else ""
        )
        raise errors.UnsupportedLanguageError(
            f"Model '{model}' does not speak '{lang[:40]}'; accepted are: {accepted}.{hint}", param=param
        )
    exact = normalize_language(lang) if is_spoken(lang) else lang
    return exact if exact in near else near[0]


def check_sampling(sampling: Sampling, model: str, synthesizer: Synthesizer) -> None:
    """Raise InvalidRequestError for a parameter that the model would ignore."""
    for name in sampling.given():
        if name not in synthesizer.parameters:
            taken = ", ".join(known for known in SAMPLING_RANGES if known in synthesizer.parameters)
            raise errors.InvalidRequestError(
                f"Model '{model}' takes no '{name}'; of such parameters it takes {taken or 'none'}.", param=name
            )


def check_speed(speed: float, model: str, synthesizer: Synthesizer) -> None:
    """Raise InvalidRequestError for another speed than 1 of a model that has one speed."""
    if speed != 1.0 and not synthesizer.changes_speed:
        raise errors.InvalidRequestError(f"Model '{model}' speaks at speed 1 only, not {speed:g}.", param="speed")


def unused_speed(speed: float, synthesizer: Synthesizer) -> tuple[str, ...]:
    """Return a speed that the model does not reach, as `x-ignored` names it; empty for one that it does."""
    limited = synthesizer.changes_speed and synthesizer.reads == "phonemes"
    return (f"speed above {MAX_MODEL_SPEED:g}",) if limited and speed > MAX_MODEL_SPEED else ()
