"""Voice service: add, list, delete cloned voices, and make them ready for a model.

A voice belongs to the key that made it: for other keys it does not exist. Everybody may use a voice that was made
without a key, and a request without a key may delete it: on a server that wants keys, only the machine's owner.

The conditioning of a voice for a model comes from memory, else from disk, else from the model, which makes it of the
recording. Requests that want the same one at the same time share one task; when the last of them goes, it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, ParamSpec, TypeVar

from app import errors
from app.audio.decode import AudioDecoder
from app.config import Settings
from app.engine.admission import client, key_name
from app.engine.catalog import Catalog
from app.engine.jobs import CancelToken, ConditioningJob, Priority
from app.engine.model_loader import ModelStatus
from app.engine.spool import Spool
from app.engine.worker import ModelWorker
from app.errors import UnsupportedLanguageError
from app.observability import metrics
from app.text.languages import normalize_language
from app.voices.aliases import GENDERS
from app.voices.store import MAX_NAME, SAMPLE_RATE, StoredVoice, VoiceStore, is_voice_id
from models.contract import (
    Cancelled,
    Conditioning,
    ModelRequestError,
    Pcm,
    UnusableReferenceError,
    WeightsError,
)
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# A shorter recording makes no voice with any model; a model may ask for more.
MIN_SECONDS: Final = 1.0
# Recordings that are in memory at once; others wait on disk, where the parser puts them.
UPLOADS: Final = 2
# Recordings on the disk at once that are not stored yet: each of `max_upload_bytes` at most.
SPOOLED: Final = 16
DISK_THREADS: Final = 2
# Seconds from the server's start to that of the process that decodes recordings: the models come first.
DECODER_AFTER: Final = 5.0

# Id of a voice, and name of a model.
Key = tuple[str, str]


class ConditioningCache:
    """Conditionings that were used last, in at most `limit` bytes. For one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Key, Conditioning] = OrderedDict()
        self.nbytes = 0

    def get(self, key: Key) -> Conditioning | None:
        """Return the conditioning of `key`, or None, and note that it was used."""
        result = self._kept.get(key)
        if result is not None:
            self._kept.move_to_end(key)
        return result

    def put(self, key: Key, conditioning: Conditioning) -> None:
        """Keep a conditioning, unless it alone is too large; drop those that were not used for longest."""
        self._drop(key)
        if conditioning.nbytes <= self._limit:
            self._kept[key] = conditioning
            self.nbytes += conditioning.nbytes
        while self.nbytes > self._limit:
            self._drop(next(iter(self._kept)))
        metrics.voice_cache.set(self.nbytes)

    def forget(self, part: str) -> None:
        """Drop all conditionings of a voice, or all for a model."""
        for key in [key for key in self._kept if part in key]:
            self._drop(key)
        metrics.voice_cache.set(self.nbytes)

    def _drop(self, key: Key) -> None:
        dropped = self._kept.pop(key, None)
        self.nbytes -= 0 if dropped is None else dropped.nbytes


@dataclass(slots=True)
class _Making:
    task: asyncio.Task[Conditioning]
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class NewVoice:
    """Properties of a voice to be added, which `new_voice` checked."""

    name: str
    language: str | None
    gender: str | None


def new_voice(name: str, *, consent: bool, language: str | None = None, gender: str | None = None) -> NewVoice:
    """Check the properties of a voice. `language`: BCP-47 tag or alias; `gender`: female or male.

    Raises ConsentMissingError, UnsupportedLanguageError and InvalidRequestError.
    """
    if not consent:
        raise errors.ConsentMissingError(
            "A voice is cloned only with the consent of its speaker: send 'consent' as true once you have it."
        )
    name = name.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise errors.InvalidRequestError(f"'name' must be 1 to {MAX_NAME} printable characters.", param="name")
    if gender is not None and gender not in GENDERS:
        raise errors.InvalidRequestError(f"'gender' must be one of {', '.join(GENDERS)}.", param="gender")
    try:
        return NewVoice(name, None if language is None else normalize_language(language), gender)
    except UnsupportedLanguageError as error:
        raise errors.UnsupportedLanguageError(str(error), param="language") from error


class VoiceService:
    """Cloned voices of a server. All methods run on the event loop."""

    def __init__(self, settings: Settings, catalog: Catalog, worker: ModelWorker) -> None:
        self.store = VoiceStore(settings.data_dir / "voices", max_voices=settings.max_voices)
        self.uploads = asyncio.Semaphore(UPLOADS)
        self._decoder = AudioDecoder(
            sample_rate=SAMPLE_RATE, min_seconds=MIN_SECONDS, max_seconds=settings.voice_seconds, processes=UPLOADS
        )
        self.spool = Spool(SPOOLED * settings.max_upload_bytes)
        self._catalog = catalog
        self._worker = worker
        self._cache = ConditioningCache(settings.voice_cache_bytes)
        self._making: dict[Key, _Making] = {}
        self._ahead: set[asyncio.Task[None]] = set()
        # The event loop must not wait for the disk.
        self._disk = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="voices")

    async def start(self) -> None:
        """Sweep the store and count the voices. Start the decoding process a little later."""
        asyncio.get_running_loop().call_later(DECODER_AFTER, self._decoder.start)
        await self._run(self.store.sweep)
        await self.voices()

    def close(self) -> None:
        """Cancel all conditionings that are being made."""
        for making in self._making.values():
            making.task.cancel()
        for task in self._ahead:
            task.cancel()
        self._decoder.close()
        self._disk.shutdown(wait=False, cancel_futures=True)

    def forget_model(self, model: str) -> None:
        """Drop the conditionings for a model that was unloaded; those on the disk stay."""
        self._cache.forget(model)

    def cloners(self) -> list[str]:
        """Return the names of the models that can speak in the voice of a recording."""
        return [info.name for info in self._catalog.models() if info.cloning]

    async def add(self, voice: NewVoice, data: bytes) -> StoredVoice:
        """Decode and keep a recording, and begin to make its conditionings for the models that are loaded.

        Raises UnusableRecordingError, UnavailableError, TooManyVoicesError, StorageFullError and StorageError.
        """
        recording = await self._decoder.decode(data)
        who = client.get()
        stored = await self._run(
            self.store.add,
            voice.name,
            recording.pcm,
            language=voice.language,
            gender=voice.gender,
            owner=key_name(),
            most=0 if who is None else who.voices,
        )
        metrics.voices_stored.inc()
        for model in self.cloners():
            if self._worker.state(model).status is ModelStatus.READY:
                task = asyncio.create_task(self._make_ahead(model, stored))
                self._ahead.add(task)
                task.add_done_callback(self._ahead.discard)
        return stored

    async def voices(self) -> list[StoredVoice]:
        """Return the cloned voices that the request's key may use, the oldest first."""
        result = await self._run(self.store.voices)
        metrics.voices_stored.set(len(result))
        return [voice for voice in result if voice.owner in (None, key_name())]

    async def get(self, voice: str) -> StoredVoice:
        """Return the voice of that id. Raises UnknownVoiceError if the request's key may use none of that id."""
        result = await self._run(self.store.get, voice) if is_voice_id(voice) else None
        if result is None:
            self._cache.forget(voice)
        if result is None or result.owner not in (None, key_name()):
            raise errors.UnknownVoiceError(f"There is no cloned voice '{voice[:40]}'; it may have been deleted.")
        return result

    def check_common(self, voice: str) -> None:
        """Raise UnknownVoiceError unless the voice exists and everybody may use it. Blocks; safe on any thread."""
        found = self.store.get(voice)
        if found is None or found.owner is not None:
            raise errors.UnknownVoiceError(f"There is no cloned voice '{voice[:40]}' that everybody may use.")

    async def remove(self, voice: str) -> None:
        """Delete a voice. Streams that speak in it go on.

        Raises UnknownVoiceError, PermissionDeniedError for one that the request's key may use and did not make, and
        StorageError.
        """
        if (await self.get(voice)).owner != key_name():
            raise errors.PermissionDeniedError(
                f"Voice '{voice}' was made without a key: `nightingale voices remove` on the server's machine does it."
            )
        if not await self._run(self.store.remove, voice):
            raise errors.UnknownVoiceError(f"There is no cloned voice '{voice[:40]}'; it may have been deleted.")
        self._cache.forget(voice)
        metrics.voices_stored.dec()

    async def conditioning(
        self, model: str, voice: StoredVoice, timeline: Timeline, priority: Priority = Priority.FIRST_AUDIO
    ) -> Conditioning:
        """Return the conditioning of a voice for `model`, which is warm. The wait is added to `timeline`.

        Cancelling the last request that waits cancels the making, too. Raises UnknownVoiceError if the voice is deleted
        meanwhile, UnusableRecordingError, and errors of `ModelWorker.submit`.
        """
        key = (voice.id, model)
        result = self._cache.get(key)
        if result is not None:
            metrics.voice_conditionings.labels("memory").inc()
            return result
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = _Making(asyncio.create_task(self._make(model, voice.id, priority)))
            making.task.add_done_callback(partial(self._made, key))
        making.waiting += 1
        try:
            with timeline.measure(Stage.CONDITION):
                return await asyncio.shield(making.task)
        finally:
            making.waiting -= 1
            if making.waiting == 0 and not making.task.done():
                making.task.cancel()
                self._making.pop(key, None)

    def _made(self, key: Key, task: asyncio.Task[Conditioning]) -> None:
        making = self._making.get(key)
        if making is not None and making.task is task:
            del self._making[key]
        if not task.cancelled():
            task.exception()  # those that wait were told; perhaps nobody waits any more

    async def _make(self, model: str, voice: str, priority: Priority) -> Conditioning:
        result = await self._run(self.store.conditioning, voice, model)
        if result is not None and await self._fits(model, voice, result):
            metrics.voice_conditionings.labels("disk").inc()
        else:
            pcm = await self._run(self.store.recording, voice)
            if pcm is None:
                raise errors.UnknownVoiceError(f"The recording of voice '{voice}' is gone.")
            result = await self._compute(model, (pcm, SAMPLE_RATE), f"of voice '{voice}'", priority)
            try:
                await self._run(self.store.keep_conditioning, voice, model, result)
            except errors.StorageError as error:
                log.warning("voice %s works, but will be made again after a restart: %s", voice, error)
        self._cache.put((voice, model), result)
        return result

    async def _fits(self, model: str, voice: str, conditioning: Conditioning) -> bool:
        """Whether the conditioning fits the model: another release of it may have made it."""
        try:
            self._worker.state(model).ready_cloner().check_conditioning(conditioning)
        except WeightsError as error:
            log.warning("voice %s does not fit model %s and is made again: %s", voice, model, error)
            await self._run(self.store.forget_conditioning, voice, model)
            return False
        return True

    async def clone(self, model: str, recording: tuple[Pcm, int]) -> Conditioning:
        """Return a voice for `model`, which is warm, of the samples of a `recording` and its rate. Nothing keeps it.

        It is made after the jobs of those who wait. Raises UnusableRecordingError, and errors of `ModelWorker.submit`.
        """
        return await self._compute(model, recording, "of who speaks", Priority.CONTINUATION)

    async def _compute(self, model: str, recording: tuple[Pcm, int], whose: str, priority: Priority) -> Conditioning:
        """Have the model make a voice; `whose` recording that is, for errors."""
        cancelled = CancelToken()
        start = time.perf_counter()
        cloner = self._worker.state(model).ready_cloner()
        job = ConditioningJob(model, cloner, recording, Timeline(), cancelled, priority)
        results = self._worker.submit(job)
        result: Conditioning | None = None
        try:
            async for made in results:
                result = made
        except UnusableReferenceError as error:
            raise errors.UnusableRecordingError(
                f"Model '{model}' cannot use the recording {whose}: {error}", param="voice"
            ) from error
        except Cancelled:
            raise errors.UnavailableError("The making of the voice was given up; try again.") from None
        except ModelRequestError as error:
            raise errors.InvalidRequestError(str(error), param="voice") from error
        finally:
            if result is None:
                cancelled.cancel()
            results.close()
        if result is None:
            raise errors.ModelFailedError(f"Model '{model}' made nothing of the recording {whose}.")
        metrics.voice_conditionings.labels("computed").inc()
        metrics.voice_conditioning_seconds.labels(model).observe(time.perf_counter() - start)
        return result

    async def _make_ahead(self, model: str, voice: StoredVoice) -> None:
        """Make a conditioning that nobody waits for yet, after the jobs of those who wait."""
        try:
            await self.conditioning(model, voice, Timeline(), Priority.CONTINUATION)
        except errors.ServiceError as error:
            log.info("voice %s is not ready for model %s: %s", voice.id, model, error)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, partial(work, *args, **kwargs))
