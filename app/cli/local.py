"""Speech, translation and recognition in this process, without a server, for `nightingale say`, `translate`,
`transcribe` and `bench`.

The parts are the server's own, so its sound and its speed can be heard and measured here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from app.assembly import Engine
from app.cli.command import print_unused
from app.config import Settings
from app.engine.catalog import Catalog
from app.engine.worker import ModelWorker
from app.interpretation.options import InterpretationOptions
from app.interpretation.session import Interpretation
from app.observability import metrics
from app.recognition.service import RecognitionOptions, RecognitionService
from app.recognition.stream import RecognitionStream
from app.speech.document import InputType, read_document
from app.speech.options import PreparedSpeech, SpeechOptions
from app.speech.service import SpeechService
from app.speech.stream import SpeechStream
from app.speech.variants import Variants
from app.translation.plan import TranslatedText, TranslationOptions
from app.translation.stream import TranslationStream
from models.contract import Pcm, Synthesizer
from models.timeline import Timeline


@contextmanager
def _closing(close: Callable[[metrics.Outcome], None]) -> Iterator[None]:
    """Close a stream or session with the outcome of the block."""
    outcome: metrics.Outcome = "cancelled"
    try:
        yield
        outcome = "ok"
    finally:
        close(outcome)


class LocalSpeech:
    """Loaded model and text front end."""

    def __init__(self, service: SpeechService, worker: ModelWorker, name: str, synthesizer: Synthesizer) -> None:
        self.service, self.worker = service, worker
        self.name = name
        self.synthesizer = synthesizer

    async def speak(
        self, text: str, options: SpeechOptions, timeline: Timeline, input_type: InputType = "auto"
    ) -> AsyncIterator[Pcm]:
        """Yield the audio of `text` in pieces, float32 [samples] at the model's sample rate. Raises ServiceError."""
        speech = await self.service.prepare(options)
        document = await read_document(self.service, text, speech, input_type)
        speech, document = await document.prepare(self.service, speech)
        print_unused(document.ignored)
        stream = self._stream(speech, timeline, document.variants)
        document.feed(stream)
        with _closing(stream.close):
            async for chunk in stream:
                stream.delivered(chunk)
                yield chunk.pcm

    async def open(self, options: SpeechOptions, timeline: Timeline) -> SpeechStream:
        """Return a stream that takes text as it comes; close it in the end. Raises ServiceError."""
        return self._stream(await self.service.prepare(options), timeline)

    def _stream(self, speech: PreparedSpeech, timeline: Timeline, variants: Variants | None = None) -> SpeechStream:
        # A process of its own with nobody to scrape it: the label's value does not matter.
        labels = metrics.Labels(speech.model, "openai", True)
        return SpeechStream(self.service, speech, timeline, labels, variants=variants)


@asynccontextmanager
async def open_speech(
    settings: Settings, model: str | None, *, translate: bool = False, translate_model: str | None = None
) -> AsyncIterator[LocalSpeech]:
    """Load a model on a thread of its own, and with `translate` a translation model, too.

    Raises UnknownModelError, WrongModelKindError, ModelAbsentError, ModelFailedError.
    """
    # Only the shapes of this text are needed, and the first call of each compiles them.
    async with Engine.open(settings) as engine:
        state = await engine.load(engine.speech.model_name(model), "text-to-speech")
        if translate:
            await engine.load(engine.translation.model_name(translate_model), "translation")
        yield LocalSpeech(engine.speech, engine.worker, state.name, state.ready_synthesizer())


async def translate(settings: Settings, text: str, options: TranslationOptions) -> TranslatedText:
    """Load the model of `options` on a thread of its own and translate `text`. Raises ServiceError."""
    async with Engine.open(settings) as engine:
        state = await engine.load(engine.translation.model_name(options.model), "translation")
        timeline = Timeline()
        plan = await engine.translation.prepare([text], options, timeline)
        stream = TranslationStream(engine.translation, plan, timeline, metrics.Labels(state.name, "translate", False))
        with _closing(stream.close):
            (translated,) = await stream.texts()
        return translated


@asynccontextmanager
async def open_recognition(
    settings: Settings, data: bytes, options: RecognitionOptions
) -> AsyncIterator[RecognitionStream]:
    """Load the model of `options` on a thread of its own, and yield the recognition of a recording.

    Raises ServiceError.
    """

    async def read() -> bytes:
        return data

    async with Engine.open(settings) as engine:
        state = await engine.load(engine.recognition.model_name(options.model), "speech-recognition")
        timeline = Timeline()
        prepared = await engine.recognition.prepare(options, read, timeline)
        stream = RecognitionStream(engine.recognition, prepared, timeline, metrics.Labels(state.name, "openai", False))
        with _closing(stream.close):
            yield stream


class LocalInterpretation:
    """Session of interpretation, and the decoder of its recordings."""

    def __init__(self, service: RecognitionService, session: Interpretation) -> None:
        self._service = service
        self.session = session

    async def decode(self, data: bytes) -> Pcm:
        """Return a recording as float32 mono [samples] at SAMPLE_RATE. Raises UnusableRecordingError."""

        async def read() -> bytes:
            return data

        return (await self._service.decode(read)).pcm


@asynccontextmanager
async def open_interpretation(
    settings: Settings, options: InterpretationOptions, catalog: Catalog | None = None
) -> AsyncIterator[LocalInterpretation]:
    """Load the models of `options` on a thread of their own, and yield a session. Raises ServiceError.

    `catalog`: None is that of this machine.
    """
    # Every shape is needed sooner or later, and a speaker does not wait.
    async with Engine.open(settings, catalog, warmup=settings.warmup != "none") as engine:
        await engine.load(engine.recognition.model_name(options.recognition_model), "speech-recognition")
        await engine.load(engine.translation.model_name(options.speech.translate_model), "translation")
        await engine.load(engine.speech.model_name(options.speech.model), "text-to-speech")
        session = await engine.interpretation.open(await engine.interpretation.prepare(options), "interpret")
        with _closing(session.close):
            yield LocalInterpretation(engine.recognition, session)
