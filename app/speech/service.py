"""Speech service: check a request's options against a loaded model, choose its voice and language."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

from app import errors
from app.audio.loudness import Leveller
from app.audio.watermark import Watermark
from app.config import Settings, SettingsError
from app.engine.admission import Admission, key_name
from app.engine.catalog import OPENAI_NAMES, Catalog
from app.engine.jobs import CancelToken, Priority, SpeechJob
from app.engine.model_loader import ModelLoads, ModelStatus, Progress
from app.engine.service_errors import service_error
from app.engine.worker import ModelWorker
from app.errors import ServiceError
from app.lexicons.service import LexiconService
from app.speech.cache import Scope, SpeechCache
from app.speech.options import (
    PreparedSpeech,
    SpeechOptions,
    check_sampling,
    check_speed,
    has_voice,
    language_to_speak,
    own_language,
    voice_for,
    voice_of,
)
from app.text.executor import RoundRobinThread
from app.text.languages import primary_language
from app.text.planner import Phonemizer, TextPlanner, get_phonemizer, made_phonemizer
from app.text.types import Pause, Script, Style, Token
from app.threads import REQUESTS
from app.translation.plan import TranslationOptions
from app.translation.service import AUTO, TranslationService
from app.translation.text import codes
from app.voices.aliases import outdated_names, resolve_alias
from app.voices.service import VoiceService
from app.voices.store import StoredVoice, is_voice_id
from models.contract import (
    Description,
    LanguageModel,
    Model,
    ModelRequestError,
    Recognizer,
    Sampling,
    Synthesizer,
    Translator,
    VoiceCloner,
)
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

# Voices that a style may name, of which the first known one speaks: each is looked for in every model.
MAX_VOICE_NAMES: Final = 8

T = TypeVar("T")


class SpeechService:
    """Prepares speech requests, and holds the parts that their streams use, which it makes."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        worker: ModelWorker,
        loads: ModelLoads,
        translation: TranslationService,
        admission: Admission,
    ) -> None:
        self.settings = settings
        self.catalog = catalog
        self.worker = worker
        self.translation = translation
        self.admission = admission
        self._loads = loads
        self.lexicons = LexiconService(settings)
        self.voices = VoiceService(settings, catalog, worker)
        self.watermark = Watermark(settings.watermark)
        self.cache = SpeechCache(
            settings.data_dir / "speech-cache",
            memory_bytes=settings.speech_cache_bytes,
            disk_bytes=settings.speech_cache_disk_bytes,
        )
        self._revisions: dict[str, str] = {}
        self.g2p = RoundRobinThread("g2p")
        self.leveller = None if settings.loudness is None else Leveller(settings.loudness, self.g2p.run)
        worker.loader.on_loaded = self._model_loaded
        # Fixed at start: weights that arrive later must not send every client to a model that is not warm.
        self.default_model = catalog.default()
        self.front_end: Literal["loading", "ready", "failed"] = "loading"

    async def warm(self) -> None:
        """Load what English text needs; `front_end` tells how that went. Then what the default model's voices need."""
        try:
            await self._warm("en-us")
        except Exception:  # whatever it is, /readyz must say so rather than wait for ever
            log.exception("English text cannot be phonemized")
            self.front_end = "failed"
            return
        self.front_end = "ready"
        with suppress(errors.ServiceError):  # its files are not there: a request is told
            _, model = await self.describe(None)
            for language in dict.fromkeys(voice.language for voice in model.voices):
                with suppress(ServiceError):  # its extra is not installed, likewise
                    await self._warm(language)

    async def _warm(self, language: str) -> None:
        phonemizer = await self._phonemizer(language)
        await self.g2p.run(phonemizer.warm)

    def close(self) -> None:
        """End the threads besides the model's."""
        self.g2p.close()
        self.voices.close()
        self.watermark.close()
        self.cache.close()

    def _model_loaded(self, name: str, model: Model) -> None:
        # On the model thread: while the model is warmed, the watermarker of its speech is loaded beside it.
        if isinstance(model, Translator | Recognizer | LanguageModel):
            return
        if self.cache.enabled:
            self._revisions[name] = self.catalog.revision(name)
        if name == self.default_model and self.settings.default_voice is not None:
            self._check_default_voice(self.settings.default_voice, model)
        if model.watermarked:
            self.watermark.begin()

    def _check_default_voice(self, voice: str, synthesizer: Synthesizer) -> None:
        """Raise SettingsError unless everybody's requests can be spoken in `voice`."""
        name = resolve_alias(voice, synthesizer)
        try:
            if is_voice_id(name) and name not in [known.id for known in synthesizer.voices]:
                if not isinstance(synthesizer, VoiceCloner):
                    raise errors.UnknownVoiceError("the model cannot speak in a cloned voice")
                self.voices.check_common(name)
            else:
                synthesizer.check_voice(name)
            for outdated in outdated_names(voice, synthesizer):
                log.warning("setting 'default_voice': %s", outdated)
        except (ModelRequestError, errors.ServiceError) as error:
            raise SettingsError(f"setting 'default_voice' is {voice!r}: {error}") from None

    def model_name(self, name: str | None) -> str:
        """Return the catalog's name for a client's name of a model. Raises UnknownModelError."""
        if name is None or name.strip().lower() in OPENAI_NAMES:
            return self.default_model
        return self.catalog.resolve(name)

    async def describe(self, name: str | None) -> tuple[str, Description]:
        """Return the catalog's name and the properties of a model that speaks. Raises as `ModelLoads.describe` does."""
        model = self.model_name(name)
        return model, await self._loads.describe(model, "text-to-speech")

    async def prepare(
        self, options: SpeechOptions, timeline: Timeline | None = None, progress: Progress | None = None
    ) -> PreparedSpeech:
        """Check `options`; make a cloned voice ready, whose time goes into `timeline`.

        A voice MODEL/VOICE is that of the model, whatever model the options name.

        The request holds its model; `ModelLoads.obtain` says when it waits for the load, and calls `progress`.
        Raises ServiceError: unknown model or voice; a language that is unknown, or that the model was not made for; a
        parameter that the model does not take; model absent or loading; no room for a stream in a cloned voice. The
        language of the text itself is not checked.
        """
        if options.voice is not None and "/" in options.voice:
            named, _, voice = options.voice.rpartition("/")
            options = replace(options, model=named, voice=voice or None)
        state = await self._loads.obtain(self.model_name(options.model), "text-to-speech", progress)
        model, synthesizer = state.name, state.ready_synthesizer()
        check_sampling(options.sampling, model, synthesizer)
        check_speed(options.speed, model, synthesizer)
        route = await self._route(options, progress)
        lang = codes.tag(route.target) if options.lang is None and route is not None else options.lang
        default = self.settings.default_voice if model == self.default_model else None
        wanted = options.voice or voice_for(lang, synthesizer) or default or synthesizer.default_voice
        voice = resolve_alias(wanted, synthesizer, lang)
        cloned = await self._cloned(voice, model, synthesizer)
        try:
            if cloned is None:
                synthesizer.check_voice(voice)
            own = own_language(voice, cloned, synthesizer)
            language = language_to_speak(
                lang, own, model, synthesizer, named=options.lang is not None, anything=options.any_language
            )
            planner: TextPlanner | Phonemizer
            if synthesizer.reads == "text":
                planner = TextPlanner(language, name_emoji=self.settings.emoji == "named")
            else:
                planner = await self._phonemizer(language)
        except ModelRequestError as error:
            raise service_error(error) from error
        lexicons = await self.lexicons.resolve(options.lexicons, options.lexicon, language)
        conditioning = scope = None
        if options.cache and self.cache.enabled:
            # A cloned voice leaves nothing on the disk.
            owner = None if self.settings.speech_cache_shared else key_name()
            scope = Scope(self._revisions[model], owner, stored=cloned is None)
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
            options=options,
            lexicons=lexicons,
            scope=scope,
        )

    async def vary(self, speech: PreparedSpeech, style: Style) -> PreparedSpeech:
        """Return `speech` in the voice and language of a style.

        A voice that the model does not have is looked for in the other models that are loaded. Raises ServiceError as
        `prepare` does.
        """
        language = style.language
        if style.voice is None and (
            language is None or primary_language(language) == primary_language(speech.language)
        ):
            return speech
        model, voice = speech.model, speech.options.voice
        if style.voice:
            model, voice = self._find_voice(style.voice.split(maxsplit=MAX_VOICE_NAMES)[:MAX_VOICE_NAMES], speech)
        elif style.voice is not None:
            voice = voice_of(language or speech.language, style.gender, speech.synthesizer)
        options = replace(speech.options, model=model, voice=voice, lang=language or None)
        if model != speech.model:
            options = replace(options, sampling=Sampling())
        return await self.prepare(options)

    def _find_voice(self, names: list[str], speech: PreparedSpeech) -> tuple[str, str]:
        """Return the first of `names` that is known, with its model; the first name if none is."""
        for name in names:
            model, slash, voice = name.rpartition("/")
            if slash:
                return self.model_name(model), voice
            if has_voice(name, speech.synthesizer) or is_voice_id(name):
                return speech.model, name
            for info in self.catalog.models():
                loaded = self.worker.state(info.name)
                synthesizer = loaded.synthesizer if loaded.status is ModelStatus.READY else None
                if synthesizer is not None and (
                    any(known.id == name for known in synthesizer.voices) or outdated_names(name, synthesizer)
                ):
                    return info.name, name
        return speech.model, names[0]

    async def keep_phrases(self, path: Path) -> None:
        """Speak each line of a file in the default voice, after everybody else, and keep it for all.

        Logs what cannot be read or spoken.
        """
        try:
            lines = (await REQUESTS.run(path.read_text, "utf-8")).splitlines()
        except (OSError, ValueError) as error:
            log.warning("the sentences of %s cannot be kept: %s", path, error)
            return
        for line in filter(None, map(str.strip, lines)):
            try:
                await self._keep_phrase(line)
            except errors.ServiceError as error:
                log.warning("a line of %s cannot be kept: %s", path, error)

    async def _keep_phrase(self, text: str) -> None:
        speech = await self.prepare(SpeechOptions())
        if speech.scope is None:
            return
        model, timeline, first = speech.synthesizer, Timeline(), True
        begin = partial(
            speech.planner.segments,
            text,
            symbols=model.symbols,
            max_phonemes=model.max_phonemes,
            lexicons=speech.lexicons,
        )
        next_segment = self.in_turns(begin, timeline)
        while (segment := await next_segment()) is not None:
            if isinstance(segment, Pause):
                continue
            request = speech.request(segment, first=first)
            first = False
            key = speech.scope.common().key(request, reads_text=model.reads == "text")
            if (await self.cache.find(key, stored=True))[0] is not None:
                continue
            job = SpeechJob(speech.model, model, request, timeline, CancelToken(), Priority.CONTINUATION)
            results = self.worker.submit(job)
            try:
                self.cache.keep(key, [chunk async for chunk in results], stored=True)
            finally:
                results.close()

    async def phonemizer(self, language: str) -> Phonemizer | None:
        """Return the front end of a language; None: it has none here."""
        try:
            return await self._phonemizer(language)
        except ServiceError as error:
            log.warning("texts in %s cannot be compared: %s", language, error)
            return None

    async def prepare_phonemes(self, options: SpeechOptions) -> PreparedSpeech:
        """Return what `prepare` returns. Raises ServiceError as it does, and for a model that has no phonemes."""
        speech = await self.prepare(options)
        _phonemizer_of(speech)
        return speech

    async def tokens(
        self, speech: PreparedSpeech, text: str, script: Script | None = None
    ) -> AsyncIterator[list[Token]]:
        """Yield the tokens of each sentence of `text`, as `speech` speaks it. Raises ServiceError."""
        planner, symbols = _phonemizer_of(speech), speech.synthesizer.symbols
        read = partial(planner.tokens, text, symbols=symbols, script=script, lexicons=speech.lexicons)
        next_sentence = self.in_turns(read, Timeline())
        while (sentence := await next_sentence()) is not None:
            yield sentence

    def in_turns(self, begin: Callable[[], Iterator[T]], timeline: Timeline) -> Callable[[], Awaitable[T | None]]:
        """Return a function that returns the next item of the iterator that `begin` returns; None: there is no more.

        Each item is made in a turn of the text thread, whose time is added to `timeline`.
        """
        items: Iterator[T] | None = None

        def step() -> T | None:
            nonlocal items
            with timeline.measure(Stage.G2P):
                items = begin() if items is None else items
                return next(items, None)

        return partial(self.g2p.run, step)

    async def _cloned(self, voice: str, model: str, synthesizer: Synthesizer) -> StoredVoice | None:
        """Return the cloned voice of that id; None for one of the model's own, or a name that no cloned voice can have.

        Raises UnknownVoiceError: there is none, or the model cannot speak in it.
        """
        if voice in [known.id for known in synthesizer.voices] or not is_voice_id(voice):
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

    async def _phonemizer(self, language: str) -> Phonemizer:
        named = self.settings.emoji == "named"
        made = made_phonemizer(language, name_emoji=named)
        if made is not None:
            return made
        return await self.g2p.run(lambda: get_phonemizer(language, name_emoji=named))


def _phonemizer_of(speech: PreparedSpeech) -> Phonemizer:
    if not isinstance(speech.planner, Phonemizer):
        raise errors.InvalidRequestError(
            f"Model '{speech.model}' reads text and uses no phonemes; name a model that does.", param="model"
        )
    return speech.planner
