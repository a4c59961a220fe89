"""Translation service: check a request, choose its model and languages, and take its texts apart."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from app import errors
from app.config import Settings
from app.engine.catalog import Catalog
from app.engine.model_loader import ModelLoads, Progress
from app.engine.turns import Turns
from app.engine.worker import ModelWorker
from app.text.executor import RoundRobinThread, WorkTooLongError
from app.threads import REQUESTS
from app.translation.plan import Plan, Route, TranslationOptions, make_plan
from app.translation.text import codes, identify
from app.translation.text.document import SegmentedDocument
from app.translation.text.identify import LanguageGuess
from models.contract import Translator
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

AUTO = "auto"
# CPU seconds for taking a request apart, and the seconds that each character adds: several times the need of any text
# on a slow machine.
MAX_SECONDS = 10.0
MAX_SECONDS_PER_CHARACTER = 2e-4


class TranslationService:
    """Prepares translation requests, and holds the parts that their streams use."""

    def __init__(self, settings: Settings, catalog: Catalog, worker: ModelWorker, loads: ModelLoads) -> None:
        self.settings = settings
        self.catalog = catalog
        self.worker = worker
        self.default_model = catalog.default_translator()
        self._loads = loads
        # Splitting must hold up neither the event loop nor G2P, and a long text no short one.
        self.thread = RoundRobinThread("split")
        self.turns = Turns(1)

    async def warm(self, *, detect: bool) -> None:
        """Load the splitter and, where a model that translates is loaded at the start, the language identifier.

        The identifier takes 70 MB: elsewhere the first request that names no source loads it. Without it, requests that
        name their source work.
        """
        await self.thread.run(lambda: SegmentedDocument.parse("Warm.", "eng_Latn"))
        if not detect:
            return
        try:
            # Not on the splitter's thread: it takes a second, and requests that name their source do not need it.
            await REQUESTS.run(identify.warm)
        except Exception:
            log.exception("languages cannot be detected")

    def close(self) -> None:
        """End the thread that splits texts."""
        self.thread.close()

    async def model(self, name: str | None, progress: Progress | None = None) -> tuple[str, Translator]:
        """Return a warm model, which the request holds, and its name. Raises as `ModelLoads.obtain` does."""
        state = await self._loads.obtain(self.model_name(name), "translation", progress)
        return state.name, state.ready_translator()

    def model_name(self, name: str | None) -> str:
        """Return the canonical name of a model; None: of the default one. Raises UnknownModelError."""
        return self.default_model if name is None else self.catalog.resolve(name)

    async def route(
        self, model: str | None, target: str, param: str = "target", progress: Progress | None = None
    ) -> Route:
        """Return a warm model, which the request holds, and a language it translates to.

        Raises what `model` raises, and UnsupportedLanguageError.
        """
        name, translator = await self.model(model, progress)
        return Route(name, translator, self.language(target, translator, param))

    @staticmethod
    def language(name: str, translator: Translator, param: str) -> str:
        """Return the FLORES-200 code of a language that `translator` knows. Raises UnsupportedLanguageError."""
        try:
            return codes.resolve(name, translator.languages)
        except errors.UnsupportedLanguageError as error:
            raise errors.UnsupportedLanguageError(error.message, param=param) from error

    async def detect(self, text: str, limit: int, timeline: Timeline) -> list[LanguageGuess]:
        """Return the languages that `text` may be in, the likeliest first."""

        def work() -> list[LanguageGuess]:
            with timeline.measure(Stage.DETECT):
                return identify.identify(text, limit)

        return await self.thread.run(work)

    async def prepare(
        self, texts: Sequence[str], options: TranslationOptions, timeline: Timeline, progress: Progress | None = None
    ) -> Plan:
        """Check a request and take its texts apart.

        Args:
            texts: texts of the request.
            options: its options.
            timeline: gets the time of the detection.
            progress: is called after each step of a load that is waited for.

        Raises:
            ServiceError: what `route` raises, EmptyInputError, TextTooLongError, LanguageNotDetectedError,
                OutsideCoverageError and InvalidRequestError.
        """
        self._check_size(texts)
        route = await self.route(options.model, options.target, progress=progress)
        source = None
        if options.source is not None and options.source.strip().lower() != AUTO:
            source = self.language(options.source, route.translator, "source")
        limit = MAX_SECONDS + MAX_SECONDS_PER_CHARACTER * sum(map(len, texts))
        try:
            return await self.thread.run_steps(make_plan(texts, route, source, options, timeline), limit)
        except WorkTooLongError as error:
            raise errors.TextTooLongError(
                f"Taking the text apart took {error}; send it in parts.", param="text"
            ) from error

    def _check_size(self, texts: Sequence[str]) -> None:
        settings = self.settings
        if not any(text.strip() for text in texts):
            raise errors.EmptyInputError("There is no text to translate.", param="text")
        if len(texts) > settings.max_translate_texts:
            raise errors.TextTooLongError(
                f"The request has {len(texts)} texts; at most {settings.max_translate_texts} are accepted.",
                param="text",
            )
        characters = sum(map(len, texts))
        if characters > settings.max_translate_characters:
            raise errors.TextTooLongError(
                f"The texts have {characters} characters; at most {settings.max_translate_characters} are accepted.",
                param="text",
            )
