"""Cache of spoken sentences: in memory, then on disk, each bounded by bytes, least recently used first out.

The key of a sentence has all that its audio depends on: the model's revision, the phonemes or text, voice, speed, seed
and sampling. New rules of reading change the phonemes, and so the key. A stored file holds its own key: one that is
damaged, or another's, is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from app.engine.jobs import Results
from app.threads import REQUESTS
from models.contract import AudioChunk, SpeechRequest
from models.private import FolderError, private_folder

log = logging.getLogger(__name__)

# Sentences that wait to be written to the disk; beyond, they stay in memory alone.
WAITING: Final = 32
_SUFFIX: Final = ".safetensors"

Source = Literal["memory", "disk", "miss"]
Spoken = tuple[AudioChunk, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Part of the cache that one request reads: the `revision` of its model, and the `owner` of what it speaks.

    `owner`: name of a key; None: everybody's. `stored`: whether its sentences may lie on the disk.
    """

    revision: str
    owner: str | None
    stored: bool

    def key(self, request: SpeechRequest, *, reads_text: bool) -> str:
        """Return the key of a sentence, 64 hexadecimal digits."""
        parts = {
            "revision": self.revision,
            "owner": self.owner,
            "spoken": request.text if reads_text else request.phonemes,
            "voice": request.voice,
            "speed": request.speed,
            "seed": request.seed,
            "first": request.first,
            "sampling": asdict(request.sampling),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def common(self) -> Scope:
        """Return the scope of everybody's sentences for the same model."""
        return Scope(self.revision, None, self.stored)


class SpeechCache:
    """Sentences by key. For the event loop; the disk is read and written on threads."""

    def __init__(self, folder: Path, *, memory_bytes: int, disk_bytes: int) -> None:
        """Keep up to `memory_bytes` of float32 samples, and `disk_bytes` of files in `folder`, which is made if needed.

        0 is none. A folder that others can write is not used.
        """
        self._memory_bytes = memory_bytes
        self._held: OrderedDict[str, Spoken] = OrderedDict()
        self._size = 0
        self._writer = ThreadPoolExecutor(1, "speech-cache")
        self._waiting = threading.Semaphore(WAITING)
        self._disk: _Disk | None = None
        if disk_bytes:
            try:
                self._disk = _Disk(private_folder(folder), disk_bytes)
            except FolderError as error:
                log.warning("spoken sentences are not kept on the disk: %s: %s", folder, error.why)
        # Whether anything can be kept.
        self.enabled = memory_bytes > 0 or self._disk is not None

    def close(self) -> None:
        """End the thread, once it has written the sentence that it writes."""
        self._writer.shutdown(wait=False, cancel_futures=True)

    async def find(self, key: str, *, stored: bool) -> tuple[Spoken | None, Source]:
        """Return the audio of a sentence, or None, and its source. `stored`: look on the disk, too."""
        held = self._held.get(key)
        if held is not None:
            self._held.move_to_end(key)
            return held, "memory"
        if self._disk is not None and stored and self._disk.has(key):
            read = await REQUESTS.run(self._disk.read, key)
            if read is not None:
                self._hold(key, read)
                return read, "disk"
        return None, "miss"

    def keep(self, key: str, spoken: Sequence[AudioChunk], *, stored: bool) -> None:
        """Keep the whole audio of a sentence; `stored`: on the disk, too."""
        kept = tuple(_frozen(chunk) for chunk in spoken)
        self._hold(key, kept)
        if self._disk is not None and stored and self._waiting.acquire(blocking=False):
            try:
                self._writer.submit(self._write, self._disk, key, kept)
            except RuntimeError:  # closed
                self._waiting.release()

    def _write(self, disk: _Disk, key: str, spoken: Spoken) -> None:
        try:
            disk.write(key, spoken)
        finally:
            self._waiting.release()

    def _hold(self, key: str, spoken: Spoken) -> None:
        size = _bytes(spoken)
        if size > self._memory_bytes:
            return
        before = self._held.pop(key, None)
        self._size += size - (0 if before is None else _bytes(before))
        self._held[key] = spoken
        while self._size > self._memory_bytes:
            _, oldest = self._held.popitem(last=False)
            self._size -= _bytes(oldest)


class _Disk:
    """Files of sentences, one each, in a folder of this user. The time of change of a file is that of its last use."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._lock = threading.Lock()
        found = []
        for path in folder.iterdir():
            with suppress(OSError):
                if path.suffix == _SUFFIX:
                    status = path.stat()
                    found.append((status.st_mtime_ns, path.stem, status.st_size))
                else:  # a file that was not finished
                    path.unlink()
        self._sizes = OrderedDict((key, size) for _, key, size in sorted(found))
        self._evict()

    def has(self, key: str) -> bool:
        """Whether there is a file."""
        return key in self._sizes

    def read(self, key: str) -> Spoken | None:
        """Return the audio of a sentence; None: its file is gone or damaged."""
        path = self._path(key)
        try:
            spoken = _unpacked(path.read_bytes(), key)
            os.utime(path)
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            log.warning("a spoken sentence of the cache cannot be read: %s", error)
            self._remove(key)
            return None
        with self._lock, suppress(KeyError):
            self._sizes.move_to_end(key)
        return spoken

    def write(self, key: str, spoken: Spoken) -> None:
        """Store a sentence, and drop the oldest that have no room. A disk that is full is logged."""
        # Samples, ends of phonemes, and how many of each a chunk has.
        arrays = {
            "pcm": np.concatenate([chunk.pcm for chunk in spoken]),
            "ends": np.array([end for chunk in spoken for end in chunk.phoneme_ends], np.float64),
            "counts": np.array([(chunk.pcm.size, len(chunk.phoneme_ends)) for chunk in spoken], np.int64),
        }
        data = save(arrays, {"key": key})
        if len(data) > self._most:
            return
        partial = self._folder / f"{key}.{secrets.token_hex(4)}"
        try:
            partial.write_bytes(data)
            partial.replace(self._path(key))
        except OSError as error:
            log.warning("a spoken sentence is not kept on the disk: %s", error)
            with suppress(OSError):
                partial.unlink()
            return
        with self._lock:
            self._sizes.pop(key, None)
            self._sizes[key] = len(data)
        self._evict()

    def _evict(self) -> None:
        while True:
            with self._lock:
                if sum(self._sizes.values()) <= self._most:
                    return
                key = next(iter(self._sizes))
            self._remove(key)

    def _remove(self, key: str) -> None:
        with self._lock:
            self._sizes.pop(key, None)
        with suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        return self._folder / (key + _SUFFIX)


class CachedSentence:
    """Results of a sentence that was spoken before."""

    def __init__(self, spoken: Spoken) -> None:
        self._chunks = iter(spoken)

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration

    def close(self) -> None:
        """Drop the rest."""
        self._chunks = iter(())


class RecordedSentence:
    """Results of a sentence that is spoken now, and kept once it is whole."""

    def __init__(self, results: Results[AudioChunk], cache: SpeechCache, key: str, *, stored: bool) -> None:
        self.results = results
        self._cache, self._key, self._stored = cache, key, stored
        self._chunks: list[AudioChunk] = []

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        chunk = await anext(self.results)
        self._chunks.append(chunk)
        if chunk.last:
            self._cache.keep(self._key, self._chunks, stored=self._stored)
        return chunk

    def close(self) -> None:
        """Give up on the rest: nothing is kept."""
        self.results.close()


def _frozen(chunk: AudioChunk) -> AudioChunk:
    """Return a chunk with samples of its own, which nobody can change."""
    pcm = np.array(chunk.pcm, np.float32)
    pcm.flags.writeable = False
    return AudioChunk(pcm, tuple(chunk.phoneme_ends), chunk.last)


def _bytes(spoken: Spoken) -> int:
    return sum(chunk.pcm.nbytes + 8 * len(chunk.phoneme_ends) for chunk in spoken)


def _unpacked(data: bytes, key: str) -> Spoken:
    """Return the sentence of a file. Raises SafetensorError, KeyError or ValueError for one that is not of `key`."""
    arrays = load(data)
    size = int.from_bytes(data[:8], "little")
    if json.loads(data[8 : 8 + size])["__metadata__"]["key"] != key:
        raise ValueError("the file is of another sentence")
    pcm, ends, counts = arrays["pcm"], arrays["ends"], arrays["counts"]
    shapes = pcm.dtype == np.float32 and pcm.ndim == 1 and ends.ndim == 1 and counts.ndim == 2 and len(counts) > 0
    if not shapes or counts.min() < 0 or counts.sum(0).tolist() != [pcm.size, ends.size] or not np.isfinite(pcm).all():
        raise ValueError("the file does not hold what its header says")
    stops = counts.cumsum(0)
    last = len(counts) - 1
    return tuple(
        _frozen(AudioChunk(pcm[stop - count : stop], tuple(ends[end - found : end].tolist()), number == last))
        for number, ((count, found), (stop, end)) in enumerate(zip(counts.tolist(), stops.tolist(), strict=True))
    )
