"""Translation as the surfaces see it: check a request, admit it to a model, open its stream of sentences."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app import errors, metrics
from app.config import Settings
from app.jobs import CancelToken
from app.library import Catalogue, Loads, Progress, require
from app.sentences import Plan, Route, TranslationOptions, make_plan
from app.text.errors import UnknownTranslationLanguage
from app.text.translate import codes, identify
from app.text.translate.document import Document
from app.text.translate.identify import Guess
from app.translating import TranslationStream
from app.worker import ModelWorker
from models.contract import Translator
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

T = TypeVar("T")

AUTO = "auto"
# Characters of a request that is taken apart in no time.
SHORT = 10_000


class TranslationService:
    """Checks requests and opens streams of translated sentences."""

    def __init__(self, settings: Settings, catalog: Catalogue, worker: ModelWorker) -> None:
        self.settings = settings
        self.catalog = catalog
        self.worker = worker
        self.default_model = catalog.default_translator()
        # Speech waits for its models in the same line.
        self.loads = Loads(worker, most=settings.queue_size, seconds=settings.queue_seconds)
        # Splitting must hold up neither the event loop nor G2P, and a long text no short one.
        self._short = ThreadPoolExecutor(1, thread_name_prefix="split")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="split-long")

    async def warm(self) -> None:
        """Load the language identifier and the splitter; without the first, requests that name their source work."""
        await self._in_thread(self._short, lambda: Document.parse("Warm.", "eng_Latn"))
        try:
            # Not in the thread of the splitter: this takes a second, and requests that name their source need it not.
            await asyncio.to_thread(identify.warm)
        except Exception:
            log.exception("languages cannot be detected")

    def close(self) -> None:
        """End the threads that split texts."""
        for threads in (self._short, self._long):
            threads.shutdown(wait=False, cancel_futures=True)

    def model(self, name: str | None) -> tuple[str, Translator]:
        """A warm model. Raises UnknownModelError, WrongModelKindError, ModelAbsentError; ModelLoadingError while it is
        being loaded.

        A model that is present and not loaded begins to load.
        """
        canonical = self._require(name)
        return canonical, self.worker.ready_translator(canonical)

    def _require(self, name: str | None) -> str:
        canonical = self.default_model if name is None else self.catalog.resolve(name)
        require(self.catalog, self.worker, canonical, "translation")
        return canonical

    async def route(
        self, model: str | None, target: str, param: str = "target", progress: Progress | None = None
    ) -> Route:
        """A warm model and a language it translates to; one that is being loaded is waited for.

        Raises what `model` raises, UnsupportedLanguageError and DrainingError.
        """
        name = self._require(model)
        await self.loads.wait(name, progress)
        translator = self.worker.ready_translator(name)
        return Route(name, translator, self.language(target, translator, param))

    @staticmethod
    def language(name: str, translator: Translator, param: str) -> str:
        """The FLORES-200 code of a language that `translator` knows. Raises UnsupportedLanguageError."""
        try:
            return codes.resolve(name, translator.languages)
        except UnknownTranslationLanguage as error:
            raise errors.UnsupportedLanguageError(str(error), param=param) from error

    async def detect(self, text: str, limit: int, timeline: Timeline) -> list[Guess]:
        """The languages that `text` may be in, the likeliest first."""

        def work() -> list[Guess]:
            with timeline.measure(Stage.DETECT):
                return identify.identify(text, limit)

        return await self._in_thread(self._short, work)

    async def prepare(self, texts: Sequence[str], options: TranslationOptions, timeline: Timeline) -> Plan:
        """Check a request and take its texts apart.

        Raises what `route` raises, EmptyInputError, TextTooLongError, LanguageNotDetectedError, OutsideCoverageError
        and InvalidRequestError.
        """
        self._check_size(texts)
        route = await self.route(options.model, options.target)
        source = None
        if options.source is not None and options.source.strip().lower() != AUTO:
            source = self.language(options.source, route.translator, "source")
        threads = self._short if sum(map(len, texts)) <= SHORT else self._long
        return await self._in_thread(threads, lambda: make_plan(texts, route, source, options, timeline))

    def stream(
        self,
        plan: Plan,
        timeline: Timeline,
        labels: metrics.Labels,
        *,
        in_order: bool = False,
        cancelled: CancelToken | None = None,
    ) -> TranslationStream:
        """Open a stream; call on the event loop.

        `in_order`: sentences can be iterated over, and the first is there soon; otherwise all texts are, soonest.
        `cancelled` is that of the request it is a part of, if it is one.
        """
        return TranslationStream(self.worker, plan, timeline, labels, in_order=in_order, cancelled=cancelled)

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

    @staticmethod
    async def _in_thread(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work)
