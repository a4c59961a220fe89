"""Recognition service: check a request, choose its model and language, and decode its recording."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from app import errors
from app.audio.decode import AudioDecoder, Recording
from app.audio.vad import SAMPLE_RATE, VoiceOptions
from app.config import Settings
from app.engine.admission import Admission
from app.engine.catalog import OPENAI_RECOGNIZERS, RECOMMENDED_RECOGNIZER, Catalog
from app.engine.model_loader import ModelLoads, Progress
from app.engine.spool import Spool
from app.engine.turns import Turns
from app.engine.worker import ModelWorker
from app.observability import metrics
from app.recognition.events import LiveOptions, SpeechContext
from app.recognition.languages import resolve
from app.recognition.listener import StreamRecognizer
from app.recognition.live import LiveRecognition
from app.recognition.passes import Passes, request_error
from app.text.executor import RoundRobinThread
from app.text.languages import primary_language
from models.contract import ModelRequestError, RecognitionRequest, RecognitionTask, Recognizer
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

# Recordings that are decoded at once, each in a process of its own; others wait, with their files on the disk.
DECODERS: Final = 2
# Longest recordings that are in memory at once. A short one, of so many seconds, always finds room.
HELD: Final = 2
SHORT: Final = 30.0
# Largest uploads that lie on the disk at once.
SPOOLED: Final = 8
# Characters of a key's quota that a second of a recording costs: about those of a second of speech.
CHARACTERS_PER_SECOND: Final = 16
MAX_PROMPT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognitionOptions(SpeechContext):
    """Options of one request. None means the default.

    `temperature` in [0, 1]: None is 0, and higher ones where the text looks wrong.
    `chunks`: cut the recording at its pauses, and leave the silence out; None: recognize it as a whole.
    """

    task: RecognitionTask = "transcribe"
    temperature: float | None = None
    chunks: VoiceOptions | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRecognition:
    """Request that was checked against a loaded model. `languages`: codes that may be spoken; empty: any.

    `request` has the whole recording, of `seconds`. `prompt_tokens` counts the tokens of its prompt.
    """

    model: str
    recognizer: Recognizer
    request: RecognitionRequest
    languages: tuple[str, ...]
    chunks: VoiceOptions | None
    seconds: float
    prompt_tokens: int


class RecognitionService:
    """Prepares recognition requests, and holds the parts that their streams use."""

    def __init__(
        self, settings: Settings, catalog: Catalog, worker: ModelWorker, loads: ModelLoads, admission: Admission
    ) -> None:
        """Make the parts that streams use."""
        self.settings = settings
        self.worker = worker
        self.thread = RoundRobinThread("vad")
        self.spool = Spool(SPOOLED * settings.max_recording_bytes)
        self._catalog = catalog
        self._loads = loads
        self._admission = admission
        self._decoder = AudioDecoder(
            sample_rate=SAMPLE_RATE,
            min_seconds=0.0,
            max_seconds=settings.recognition_seconds,
            processes=DECODERS,
            accept_silence=True,
        )
        self._decoding = Turns(DECODERS)
        self._held = 0.0
        # Fixed at start if it is installed: a model that arrives later must not take all requests before it is warm.
        default = catalog.default_recognizer()
        self._fixed = default if default is not None and catalog.present(default) else None

    def close(self) -> None:
        """End the thread and the processes besides the model's."""
        self.thread.close()
        self._decoder.close()

    @property
    def default_model(self) -> str | None:
        """Name of the model of requests that name none; None: the catalog has none that recognizes speech."""
        return self._fixed or self._catalog.default_recognizer()

    def model_name(self, name: str | None) -> str:
        """Return the catalog's name for a client's name of a model. Raises UnknownModelError."""
        if name is not None and name.strip().lower() not in OPENAI_RECOGNIZERS:
            return self._catalog.resolve(name)
        default = self.default_model
        if default is None:
            raise errors.UnknownModelError("This installation has no model that recognizes speech.")
        return default

    async def model(
        self, name: str | None, progress: Progress | None = None, *, patient: bool = False
    ) -> tuple[str, Recognizer]:
        """Return a warm model, which the request holds, and its name. `patient`: wait for it in any case.

        Raises UnknownModelError, WrongModelKindError, ModelAbsentError, ModelLoadingError and DrainingError.
        """
        canonical = self.model_name(name)
        state = await self._loads.obtain(canonical, "speech-recognition", progress, patient=patient)
        return state.name, state.ready_recognizer()

    async def reader(self, name: str | None, progress: Progress | None = None) -> tuple[str, Recognizer]:
        """Return what `model` returns: a model that reads SAMPLE_RATE. Raises what `model` raises."""
        name, recognizer = await self.model(name, progress)
        if recognizer.sample_rate != SAMPLE_RATE:
            raise errors.ModelFailedError(f"Model '{name}' reads {recognizer.sample_rate} Hz, not {SAMPLE_RATE}.")
        return name, recognizer

    def advice(self, model: str) -> str:
        """Return the warning that a model left out what it was not sure of, and how to install a better one."""
        hints = (info.install_hint for info in self._catalog.models() if info.name == RECOMMENDED_RECOGNIZER)
        return (
            f"Model '{model}' left out speech of which it was not sure: it hears this server's voices, and "
            f"people in part. For people install {RECOMMENDED_RECOGNIZER}. {next(hints, '')}"
        ).rstrip()

    def charge(self, seconds: float) -> None:
        """Take a recording from the client's quota. Raises QuotaExceededError."""
        self._admission.charge_client(round(seconds * CHARACTERS_PER_SECOND))

    async def listener(self, tag: str) -> StreamRecognizer | None:
        """Return the default model's listener for speech in the language of a BCP-47 tag; None: nothing can hear it."""
        try:
            name, recognizer = await self.model(None, patient=True)
            language = resolve(primary_language(tag), recognizer.languages)
        except errors.ServiceError as error:
            log.warning("speech cannot be verified: %s", error)
            return None
        return StreamRecognizer(self.worker, name, recognizer, language, partial(self._catalog.judges, name))

    async def prepare(
        self,
        options: RecognitionOptions,
        read: Callable[[], Awaitable[bytes]],
        timeline: Timeline,
        progress: Progress | None = None,
    ) -> PreparedRecognition:
        """Check a request and decode its recording. `release` must be called in the end.

        Args:
            options: options of the request.
            read: returns the recording once there is room for it in memory.
            timeline: gets the time of the decoding.
            progress: is called after each step of a load that is waited for.

        Raises:
            ServiceError: what `model` raises, UnsupportedLanguageError, TextTooLongError, UnusableRecordingError,
                QuotaExceededError, OverloadedError and InvalidRequestError.
        """
        name, recognizer = await self.reader(options.model, progress)
        language, languages = resolve_languages(options, recognizer.languages)
        prompt = prompt_of(options)
        with timeline.measure(Stage.AUDIO_DECODE):
            recording = await self.decode(read)
        request = RecognitionRequest(
            pcm=recording.pcm,
            language=language,
            task=options.task,
            prompt=prompt,
            temperature=options.temperature or None,
            beams=getattr(recognizer, "beams", 1),
            word_times=options.word_times,
            prosody=self.settings.recognition_prosody,
        )
        try:
            recognizer.check(request)
        except ModelRequestError as error:
            raise request_error(error) from error
        self.charge(recording.seconds)
        tokens = len(recognizer.encode_text(prompt)) if prompt else 0
        held = self._held + recording.seconds
        if recording.seconds > SHORT and self._held and held > HELD * self.settings.recognition_seconds:
            raise errors.OverloadedError(
                f"{self._held:.0f} seconds of recordings are being recognized already; try again shortly."
            )
        self._held = held
        return PreparedRecognition(name, recognizer, request, languages, options.chunks, recording.seconds, tokens)

    async def live(
        self, options: LiveOptions, timeline: Timeline | None = None, labels: metrics.Labels | None = None
    ) -> LiveRecognition:
        """Check options and start a live recognition; call on the event loop. Close it in the end.

        Raises what `model` raises, UnsupportedLanguageError, TextTooLongError and InvalidRequestError.
        """
        name, recognizer, languages, request = await self.check_live(options)
        passes = Passes(self.worker, name, recognizer, languages)
        labels = labels or metrics.Labels(name, "openai", streaming=True)
        return LiveRecognition(self, passes, options, request, timeline or Timeline(), labels)

    async def check_live(self, options: LiveOptions) -> tuple[str, Recognizer, tuple[str, ...], RecognitionRequest]:
        """Return model, languages and request, once they are checked and the model is there. Raises as `live` does."""
        name, recognizer = await self.reader(options.model)
        language, languages = resolve_languages(options, recognizer.languages)
        if options.policy == "attention" and not getattr(recognizer, "takes_prefix", False):
            raise errors.InvalidRequestError(f"Model '{name}' does not tell to what it listens.", param="policy")
        request = RecognitionRequest(pcm=np.empty(0, np.float32), language=language, prompt=prompt_of(options))
        try:
            recognizer.check(request)
        except ModelRequestError as error:
            raise request_error(error) from error
        return name, recognizer, languages, request

    def release(self, prepared: PreparedRecognition) -> None:
        """Note that the recording is in memory no more."""
        self._held -= prepared.seconds

    async def decode(self, read: Callable[[], Awaitable[bytes]]) -> Recording:
        """Return the recording that `read` returns, decoded at SAMPLE_RATE.

        Raises UnusableRecordingError, also for one that is too long, and OverloadedError.
        """
        async with self._decoding_place():
            try:
                recording = await self._decoder.decode(await read())
            except errors.UnusableRecordingError as error:
                raise errors.UnusableRecordingError(error.message, param="file") from error
        if recording.cut:
            raise errors.UnusableRecordingError(
                f"The recording is too long: at most {self.settings.recognition_seconds:g} seconds are recognized.",
                param="file",
            )
        return recording

    @asynccontextmanager
    async def _decoding_place(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self.settings.queue_seconds):
                    await held.enter_async_context(self._decoding.place())
            except TimeoutError:
                reason = "Enough recordings are being decoded already; try again shortly."
                raise errors.OverloadedError(reason) from None
            yield


def resolve_languages(options: SpeechContext, known: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the codes in `known` of the language (None: it is detected) and of those that may be spoken.

    Raises UnsupportedLanguageError.
    """
    languages = tuple(resolve(each, known, "languages") for each in options.languages)
    language = None if options.language is None else resolve(options.language, known)
    if language is None and len(languages) == 1:
        language = languages[0]
    return language, languages


def prompt_of(options: SpeechContext) -> str:
    """Return the prompt with the keywords before it: of a long one, models read the end. Raises TextTooLongError."""
    keywords = ", ".join(filter(None, (word.strip() for word in options.keywords)))
    prompt = " ".join(filter(None, (f"{keywords}." if keywords else "", options.prompt.strip())))
    if len(prompt) > MAX_PROMPT:
        raise errors.TextTooLongError(
            f"The prompt has {len(prompt)} characters, its keywords included; at most {MAX_PROMPT} are accepted.",
            param="prompt",
        )
    return prompt
