"""Cloned voices on disk: one recording per voice, and beside it the conditioning that each model made of it.

`<id>.safetensors` holds the array "pcm", float32 mono [samples], and in its header the voice's name and properties;
`<id>.<model>.safetensors` holds the arrays of a Conditioning, which can be made again from the recording.

Files are written beside their place, synced, and renamed into it, so a reader finds a whole file or none. The disk is
the truth: another process (`nightingale voices`) may add and remove voices while a server runs. Names are labels for
people, and several voices may have the same one. The store makes the id of a voice; it is the only part of a path that
a request can choose. Methods block, and are safe on any thread.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from app.errors import StorageError, TooManyVoicesError, storage_error
from models.contract import Conditioning, Pcm

log = logging.getLogger(__name__)

SAMPLE_RATE: Final = 24_000
MAX_NAME: Final = 100
_FORMAT: Final = "nightingale-voice-1"
_SUFFIX: Final = ".safetensors"
_PARTIAL: Final = ".partial"
_ID: Final = re.compile(r"voice_[0-9a-f]{24}")
# Names of models that may become part of a path, whatever the catalog says.
_MODEL: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class StoredVoice:
    """A cloned voice. `created` in seconds since 1970; `seconds` of recording; `language` is a BCP-47 tag.

    `owner`: the name of the key that made it; None: it was made without a key, and everybody may use it.
    """

    id: str
    name: str
    created: int
    seconds: float
    language: str | None = None
    gender: str | None = None
    owner: str | None = None


def is_voice_id(name: str) -> bool:
    """Whether `name` can be the id of a cloned voice: no other text ever becomes part of a path."""
    return _ID.fullmatch(name) is not None


class VoiceStore:
    """Voices in one directory, which is made with the first voice."""

    def __init__(self, directory: Path, *, max_voices: int) -> None:
        self.directory = directory
        self._max_voices = max_voices
        # Voices by id, each with the version of its file: inode, time of change, size.
        self._known: dict[str, tuple[tuple[int, int, int], StoredVoice]] = {}
        self._adding = threading.Lock()

    def sweep(self) -> None:
        """Remove the remains of an interrupted process: half-written files, and conditionings whose voice is gone.

        Does nothing while another process writes. A recording that cannot be read stays for a person to look at, and is
        not listed.
        """
        if not self.directory.is_dir():
            return
        try:
            with self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB):
                removed = self._sweep()
        except (BlockingIOError, StorageError) as error:
            log.warning("the voices in %s were not swept: %s", self.directory, error)
            return
        if removed:
            log.warning("removed unfinished or orphaned files of voices: %s", ", ".join(removed))
        for path in self._recordings():
            if self._read_voice(path) is None:
                log.warning("%s is not the recording of a voice, or damaged; it is left alone and not listed", path)

    def _sweep(self) -> list[str]:
        removed = []
        for path in sorted(self.directory.iterdir()):
            voice, _, rest = path.name.partition(".")
            orphan = (
                is_voice_id(voice)
                and rest not in ("", _SUFFIX[1:])
                and path.suffix == _SUFFIX
                and not self._recording(voice).is_file()
            )
            if path.is_file() and (path.suffix == _PARTIAL or orphan):
                path.unlink(missing_ok=True)
                removed.append(path.name)
        return removed

    def add(
        self,
        name: str,
        pcm: Pcm,
        *,
        language: str | None = None,
        gender: str | None = None,
        owner: str | None = None,
        most: int = 0,
    ) -> StoredVoice:
        """Keep a recording. The caller has asked for consent: the file records that it was given.

        Args:
            name: a label.
            pcm: float32 mono [samples] at SAMPLE_RATE.
            language: a BCP-47 tag.
            gender: female or male.
            owner: the name of the key that makes it.
            most: voices that `owner` may have; 0: any number.

        Raises:
            TooManyVoicesError: the store is full, or its owner has as many as it may.
            StorageFullError, StorageError: it cannot be written. Nothing is left behind.
        """
        with self._adding:
            if sum(1 for _ in self._recordings()) >= self._max_voices:
                raise TooManyVoicesError(f"{self._max_voices} voices are kept already; delete one first.")
            if most and sum(1 for voice in self.voices() if voice.owner == owner) >= most:
                raise TooManyVoicesError(f"This key has {most} voices already, which is all it may; delete one first.")
            voice = StoredVoice(
                id=f"voice_{secrets.token_hex(12)}",
                name=name,
                created=int(time.time()),
                seconds=round(pcm.size / SAMPLE_RATE, 3),
                language=language,
                gender=gender,
                owner=owner,
            )
            header = {"format": _FORMAT, "sample_rate": str(SAMPLE_RATE), "consent": "true", "name": name}
            header |= {"created": str(voice.created), "seconds": repr(voice.seconds)}
            said = {"language": language, "gender": gender, "owner": owner}
            header |= {key: text for key, text in said.items() if text is not None}
            with self._lock(fcntl.LOCK_SH):
                self._write(self._recording(voice.id), save({"pcm": np.ascontiguousarray(pcm, np.float32)}, header))
        return voice

    def voices(self) -> list[StoredVoice]:
        """Return every voice that can be read, the oldest first."""
        result = [voice for path in self._recordings() if (voice := self._read_voice(path)) is not None]
        return sorted(result, key=lambda voice: (voice.created, voice.id))

    def get(self, voice: str) -> StoredVoice | None:
        """Return the voice of that id, or None."""
        return self._read_voice(self._recording(voice)) if is_voice_id(voice) else None

    def recording(self, voice: str) -> Pcm | None:
        """Return the samples of a voice, float32 [samples] at SAMPLE_RATE; None if it is gone or damaged."""
        if not is_voice_id(voice):
            return None
        read = self._read(self._recording(voice))
        if read is None or read[0].get("format") != _FORMAT or set(read[1]) != {"pcm"}:
            return None
        pcm: npt.NDArray[Any] = read[1]["pcm"]
        return pcm if pcm.dtype == np.float32 and pcm.ndim == 1 else None

    def remove(self, voice: str) -> bool:
        """Delete a voice and its conditionings; return whether there was one. Raises StorageError."""
        if not is_voice_id(voice):
            return False
        self._known.pop(voice, None)
        with self._explained("deleted"):
            try:
                # The recording first: without it, files that are left over are swept.
                self._recording(voice).unlink()
            except FileNotFoundError:
                return False
            # Not files that are being written: their writer removes them once the voice is gone.
            for path in self.directory.glob(f"{voice}.*{_SUFFIX}"):
                path.unlink(missing_ok=True)
            self._sync_directory()
        return True

    def conditioning(self, voice: str, model: str) -> Conditioning | None:
        """Return the conditioning of a voice for `model`, or None. A damaged one is removed."""
        path = self._made(voice, model)
        if path is None or not path.is_file():
            return None
        read = self._read(path)
        if read is None or read[0].get("format") != _FORMAT or read[0].get("model") != model:
            log.warning("%s is damaged and will be made again", path)
            self.forget_conditioning(voice, model)
            return None
        return Conditioning(read[1])

    def keep_conditioning(self, voice: str, model: str, conditioning: Conditioning) -> None:
        """Keep the conditioning of a voice for `model`, unless the voice is gone. Raises StorageError."""
        path = self._made(voice, model)
        if path is None or not self._recording(voice).is_file():
            return
        arrays = {name: np.ascontiguousarray(array) for name, array in conditioning.arrays.items()}
        with self._lock(fcntl.LOCK_SH):
            self._write(path, save(arrays, {"format": _FORMAT, "model": model}))
        if not self._recording(voice).is_file():
            path.unlink(missing_ok=True)  # deleted meanwhile

    def forget_conditioning(self, voice: str, model: str) -> None:
        """Remove the conditioning of a voice for `model`."""
        path = self._made(voice, model)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    # Files.

    def _recording(self, voice: str) -> Path:
        return self.directory / f"{voice}{_SUFFIX}"

    def _made(self, voice: str, model: str) -> Path | None:
        if not is_voice_id(voice) or not _MODEL.fullmatch(model):
            return None
        return self.directory / f"{voice}.{model}{_SUFFIX}"

    def _recordings(self) -> Iterator[Path]:
        if self.directory.is_dir():
            yield from (path for path in self.directory.glob(f"voice_*{_SUFFIX}") if is_voice_id(path.stem))

    def _read_voice(self, path: Path) -> StoredVoice | None:
        try:
            found = path.stat()
        except OSError:
            self._known.pop(path.stem, None)
            return None
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = self._known.get(path.stem)
        if known is not None and known[0] == version:
            return known[1]
        try:
            with safe_open(str(path), framework="numpy") as file:
                header = file.metadata() or {}
                if header["format"] != _FORMAT or header["consent"] != "true" or list(file.keys()) != ["pcm"]:
                    return None
            voice = StoredVoice(
                id=path.stem,
                name=header["name"],
                created=int(header["created"]),
                seconds=float(header["seconds"]),
                language=header.get("language"),
                gender=header.get("gender"),
                owner=header.get("owner"),
            )
        except (SafetensorError, OSError, KeyError, ValueError):
            return None
        self._known[path.stem] = (version, voice)
        return voice

    @staticmethod
    def _read(path: Path) -> tuple[Mapping[str, str], dict[str, npt.NDArray[Any]]] | None:
        try:
            with safe_open(str(path), framework="numpy") as file:
                return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError, TypeError, json.JSONDecodeError):
            return None

    def _write(self, path: Path, data: bytes) -> None:
        """Write `data` to `path`, whole or not at all."""
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_PARTIAL}")
        with self._explained("stored"):
            try:
                with partial.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
                self._sync_directory()
            except OSError:
                for left in (partial, path):
                    with suppress(OSError):
                        left.unlink(missing_ok=True)
                raise

    def _sync_directory(self) -> None:
        """Sync the directory: a new name is not durable before."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        """Hold the lock of the directory, shared by writers and exclusive for a sweep."""
        with self._explained("stored"):
            # Recordings of people: nobody else's to read.
            self.directory.mkdir(0o700, parents=True, exist_ok=True)
            file = (self.directory / ".lock").open("a")
        with file:
            fcntl.flock(file, kind)
            yield

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise storage_error(f"The voice cannot be {done}", error) from error
