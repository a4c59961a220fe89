"""Speech service: check a request's options against a loaded model, choose its voice and language."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from app import errors
from app.audio.watermark import Marker, Name, Watermark
from app.config import Settings, SettingsError
from app.engine.admission import Admission
from app.engine.catalog import OPENAI_NAMES, Catalog
from app.engine.model_loader import ModelLoads, Progress
from app.engine.service_errors import REQUEST_ERRORS, service_error
from app.engine.worker import ModelWorker
from app.text.errors import TextError
from app.text.executor import RoundRobinThread
from app.text.languages import is_spoken, language_name, normalize_language, primary_language
from app.text.planner import Phonemizer, TextPlanner, get_phonemizer, made_phonemizer
from app.text.types import Planner, Token, Utterance
from app.translation.plan import TranslationOptions
from app.translation.service import AUTO, TranslationService
from app.translation.text import codes
from app.voices.aliases import language_of, resolve_alias
from app.voices.service import VoiceService
from app.voices.store import StoredVoice, is_voice_id
from models.contract import (
    SAMPLING_RANGES,
    Conditioning,
    Model,
    ModelRequestError,
    Recognizer,
    Sampling,
    SpeechRequest,
    Synthesizer,
    Translator,
    VoiceCloner,
)
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

T = TypeVar("T")


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


class SpeechService:
    """Prepares speech requests, and holds the parts that their streams use."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        worker: ModelWorker,
        loads: ModelLoads,
        translation: TranslationService,
        admission: Admission,
    ) -> None:
        """Make the parts that streams use.

        Args:
            settings: the deployment's choices.
            catalog: the models of this machine.
            worker: the thread that computes.
            loads: the models that requests name.
            translation: the service that translates before speech.
            admission: slots and quotas of the server.
        """
        self.settings = settings
        self.catalog = catalog
        self.worker = worker
        self.translation = translation
        self.admission = admission
        self._loads = loads
        self.voices = VoiceService(settings, catalog, worker)
        self.watermark = Watermark(settings.watermark)
        self.g2p = RoundRobinThread("g2p")
        worker.loader.on_loaded = self._model_loaded
        # Fixed at start: weights that arrive later must not send every client to a model that is not warm.
        self.default_model = catalog.default()
        self.front_end: Literal["loading", "ready", "failed"] = "loading"

    async def warm(self, language: str = "en-us") -> None:
        """Load the lexicons of `language`; `front_end` tells how that went."""
        try:
            phonemizer = await self._phonemizer(language)
            await self.g2p.run(phonemizer.warm)
        except Exception:  # whatever it is, /readyz must say so rather than wait for ever
            log.exception("text in %s cannot be phonemized", language)
            self.front_end = "failed"
        else:
            self.front_end = "ready"

    def close(self) -> None:
        """End the threads besides the model's."""
        self.g2p.close()
        self.voices.close()
        self.watermark.close()

    def _model_loaded(self, name: str, model: Model) -> None:
        # On the model thread: while the model is warmed, the watermarker of its speech is loaded beside it.
        if isinstance(model, Translator | Recognizer):
            return
        if name == self.default_model and self.settings.default_voice is not None:
            self._check_default_voice(self.settings.default_voice, model)
        if model.watermarked:
            self.watermark.begin()

    def _check_default_voice(self, voice: str, synthesizer: Synthesizer) -> None:
        """Raise SettingsError unless everybody's requests can be spoken in `voice`."""
        name = resolve_alias(voice, synthesizer)
        try:
            if _may_be_cloned(name, synthesizer):
                if not isinstance(synthesizer, VoiceCloner):
                    raise errors.UnknownVoiceError("the model cannot speak in a cloned voice")
                self.voices.check_common(name)
            else:
                synthesizer.check_voice(name)
        except (ModelRequestError, errors.ServiceError) as error:
            raise SettingsError(f"setting 'default_voice' is {voice!r}: {error}") from None

    def model_name(self, name: str | None) -> str:
        """Return the catalog's name for a client's name of a model. Raises UnknownModelError."""
        if name is None or name.strip().lower() in OPENAI_NAMES:
            return self.default_model
        return self.catalog.resolve(name)

    def model(self, name: str | None) -> tuple[str, Synthesizer]:
        """Return a warm model and its name. A model that is present and not loaded begins to load.

        Raises UnknownModelError, WrongModelKindError, ModelAbsentError; ModelLoadingError while it is being loaded.
        """
        state = self._loads.require(self.model_name(name), "text-to-speech")
        return state.name, state.ready_synthesizer()

    async def prepare(
        self, options: SpeechOptions, timeline: Timeline | None = None, progress: Progress | None = None
    ) -> PreparedSpeech:
        """Check `options`; make a cloned voice ready, whose time goes into `timeline`.

        A model that is being loaded is waited for, at most `queue_seconds`; `progress` is called with its state.
        Raises ServiceError: unknown model or voice; a language that is unknown, or that the model was not made for; a
        parameter that the model does not take; model absent or loading; no room for a stream in a cloned voice. The
        language of the text itself is not checked.
        """
        state = self._loads.require(self.model_name(options.model), "text-to-speech")
        await self._loads.wait(state, progress)
        model, synthesizer = state.name, state.ready_synthesizer()
        _check_sampling(options.sampling, model, synthesizer)
        route = await self._route(options, progress)
        lang = codes.tag(route.target) if options.lang is None and route is not None else options.lang
        voice = resolve_alias(self._voice(options, lang, model, synthesizer), synthesizer, lang)
        cloned = await self._cloned(voice, model, synthesizer)
        try:
            if cloned is None:
                synthesizer.check_voice(voice)
            language = _language(options, lang, _own_language(voice, cloned, synthesizer), model, synthesizer)
            planner = await self._planner(language, synthesizer)
        except REQUEST_ERRORS as error:
            raise service_error(error) from error
        conditioning = None
        if cloned is not None:
            # Making a voice ready may take the model's time: not for a stream that has no room.
            self.admission.check(model)
            conditioning = await self.voices.conditioning(model, cloned, timeline or Timeline())
        return PreparedSpeech(
            model=model,
            synthesizer=synthesizer,
            planner=planner,
            voice=voice,
            language=planner.language.tag if isinstance(planner, Phonemizer) else language,
            speed=options.speed,
            seed=options.seed,
            route=route,
            sampling=options.sampling,
            conditioning=conditioning,
            marker=await self.watermark.marker() if synthesizer.watermarked else None,
        )

    async def phonemizer(self, language: str) -> Phonemizer | None:
        """Return the front end of a language; None: it has none here."""
        try:
            return await self._phonemizer(language)
        except TextError as error:
            log.warning("texts in %s cannot be compared: %s", language, error)
            return None

    async def tokens(self, text: str, options: SpeechOptions) -> AsyncIterator[list[Token]]:
        """Yield the tokens of each sentence of `text`, as `options` have it spoken.

        Raises ServiceError as `prepare` does, and for a model that has no phonemes.
        """
        speech = await self.prepare(options)
        if not isinstance(speech.planner, Phonemizer):
            raise errors.InvalidRequestError(
                f"Model '{speech.model}' reads text and uses no phonemes; name a model that does.", param="model"
            )
        planner, symbols = speech.planner, speech.synthesizer.symbols
        next_sentence = self.in_turns(lambda: planner.tokens(text, symbols=symbols), Timeline())
        while (sentence := await next_sentence()) is not None:
            yield sentence

    def in_turns(self, begin: Callable[[], Iterator[T]], timeline: Timeline) -> Callable[[], Awaitable[T | None]]:
        """Return a function that returns the next item of the iterator that `begin` returns; None: there is no more.

        Each item is made in a turn of the text thread, whose time is added to `timeline`. Errors of the text are raised
        as ServiceError.
        """
        items: Iterator[T] | None = None

        def step() -> T | None:
            nonlocal items
            with timeline.measure(Stage.G2P):
                items = begin() if items is None else items
                return next(items, None)

        async def next_item() -> T | None:
            try:
                return await self.g2p.run(step)
            except REQUEST_ERRORS as error:
                raise service_error(error) from error

        return next_item

    def _voice(self, options: SpeechOptions, lang: str | None, model: str, synthesizer: Synthesizer) -> str:
        """Return the voice asked for, or the default for the language."""
        default = self.settings.default_voice if model == self.default_model else None
        return options.voice or _voice_for(lang, synthesizer) or default or synthesizer.default_voice

    async def _cloned(self, voice: str, model: str, synthesizer: Synthesizer) -> StoredVoice | None:
        """Return the cloned voice of that id; None for one of the model's own, or a name that no cloned voice can have.

        Raises UnknownVoiceError: there is none, or the model cannot speak in it.
        """
        if not _may_be_cloned(voice, synthesizer):
            return None
        stored = await self.voices.get(voice)
        if not isinstance(synthesizer, VoiceCloner):
            able = ", ".join(self.voices.cloners())
            raise errors.UnknownVoiceError(
                f"Voice '{voice}' was cloned from a recording, which model '{model}' cannot speak in; models that can: "
                f"{able or 'none'}."
            )
        return stored

    async def _route(self, options: SpeechOptions, progress: Progress | None) -> TranslationOptions | None:
        """Return the checked options of the translation; None: none is wanted."""
        if options.translate_to is None:
            for param in ("source", "translate_model"):
                if getattr(options, param) is not None:
                    raise errors.InvalidRequestError(f"'{param}' has a meaning only with 'translate_to'.", param=param)
            return None
        service = self.translation
        route = await service.route(options.translate_model, options.translate_to, "translate_to", progress)
        source = options.source
        if source is not None and source.strip().lower() != AUTO:
            source = service.language(source, route.translator, "source")
        else:
            source = None
        return TranslationOptions(target=route.target, source=source, model=route.model, best_guess=True)

    async def _planner(self, language: str, synthesizer: Synthesizer) -> TextPlanner | Phonemizer:
        """Return the planner of a text in `language` for the model."""
        if synthesizer.reads == "text":
            return TextPlanner(language, name_emoji=self.settings.emoji == "named")
        return await self._phonemizer(language)

    async def _phonemizer(self, language: str) -> Phonemizer:
        named = self.settings.emoji == "named"
        made = made_phonemizer(language, name_emoji=named)
        if made is not None:
            return made
        return await self.g2p.run(lambda: get_phonemizer(language, name_emoji=named))


def _language(options: SpeechOptions, lang: str | None, own: str, model: str, synthesizer: Synthesizer) -> str:
    """Return the tag of the language to speak: `lang`, or the voice's `own` where no other is wanted.

    Raises UnsupportedLanguageError.
    """
    if options.lang is None and (lang is None or primary_language(lang) == primary_language(own)):
        lang = own  # the voice's variety of it
    if options.any_language and lang:
        return normalize_language(lang)
    return _spoken_language(lang or own, model, synthesizer, "lang" if options.lang is not None else "translate_to")


def _may_be_cloned(voice: str, synthesizer: Synthesizer) -> bool:
    """Whether `voice` can be the id of a cloned voice, and is none of the model's own."""
    return all(known.id != voice for known in synthesizer.voices) and is_voice_id(voice)


def _voice_for(lang: str | None, synthesizer: Synthesizer) -> str | None:
    """Return the first voice of a language that the default voice does not speak; None: the default will do."""
    if lang is None:
        return None
    wanted = primary_language(lang)
    spoken = primary_language(language_of(synthesizer.default_voice, synthesizer.voices))
    if wanted == spoken:
        return None
    return next((voice.id for voice in synthesizer.voices if primary_language(voice.language) == wanted), None)


def _own_language(voice: str, cloned: StoredVoice | None, synthesizer: Synthesizer) -> str:
    """Return the language of a voice; of a cloned one that language, if the model speaks it, or the default voice's."""
    if cloned is None:
        return language_of(voice, synthesizer.voices)
    wanted = primary_language(cloned.language or "")
    spoken = {primary_language(known.language): known.language for known in reversed(synthesizer.voices)}
    return spoken.get(wanted) or language_of(synthesizer.default_voice, synthesizer.voices)


def _spoken_language(lang: str, model: str, synthesizer: Synthesizer, param: str) -> str:
    """Return the tag under which a model speaks `lang`, or its nearest variety. Raises UnsupportedLanguageError."""
    near = [tag for tag in synthesizer.languages if primary_language(tag) == primary_language(lang)]
    if not near:
        accepted = ", ".join(f"{tag} ({language_name(tag)})" for tag in synthesizer.languages)
        hint = " It was made for no other; 'any_language' has it try." if is_spoken(lang) else ""
        raise errors.UnsupportedLanguageError(
            f"Model '{model}' does not speak '{lang[:40]}'; accepted are: {accepted}.{hint}", param=param
        )
    exact = normalize_language(lang) if is_spoken(lang) else lang
    return exact if exact in near else near[0]


def _check_sampling(sampling: Sampling, model: str, synthesizer: Synthesizer) -> None:
    """Raise InvalidRequestError for a parameter that the model would ignore."""
    for name in sampling.given():
        if name not in synthesizer.parameters:
            taken = ", ".join(known for known in SAMPLING_RANGES if known in synthesizer.parameters)
            raise errors.InvalidRequestError(
                f"Model '{model}' takes no '{name}'; of such parameters it takes {taken or 'none'}.", param=name
            )
