"""Speech in this process, without a server: what `nightingale say` and `nightingale bench` run.

The parts are the server's own, so that what is heard and measured here is what the server does.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import soundfile

from app import metrics
from app.audio.encoders import FORMATS, check_format, make_encoder
from app.audio.pcm import to_int16
from app.catalog import Catalog
from app.config import Settings
from app.errors import UnsupportedFormatError
from app.jobs import ModelState, ModelStatus
from app.speech import SpeechOptions, SpeechService
from app.worker import ModelWorker
from models.contract import Pcm, Synthesizer
from models.timeline import Timeline

# Written by libsndfile, which puts exact sizes into the header; the others are streams by nature.
_SEEKABLE = ("wav", "flac")
_SUFFIXES = {"ogg": "opus", "m4a": "aac"}
# Programs that play a WAV file, in order of preference.
_PLAYERS = (("afplay",), ("paplay",), ("pw-play",), ("aplay", "-q"))


class PlaybackError(Exception):
    """Sound cannot be played on this machine; the message says what to do."""


class Destination(Protocol):
    """Where audio goes. `close` makes it final; `abandon` leaves nothing behind."""

    def write(self, pcm: Pcm) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class LocalSpeech:
    """A loaded model and the text front end."""

    def __init__(self, service: SpeechService, name: str, synthesizer: Synthesizer) -> None:
        self._service = service
        self.name = name
        self.synthesizer = synthesizer

    async def speak(self, text: str, options: SpeechOptions, timeline: Timeline) -> AsyncIterator[Pcm]:
        """The audio of `text`, float32 [samples] a piece, at the model's sample rate. Raises ServiceError."""
        speaker = await self._service.prepare(options)
        # A process of its own with nobody to scrape it: the label's value does not matter.
        stream = self._service.stream(speaker, timeline, metrics.Labels(speaker.model, "openai", True))
        stream.feed(text)
        stream.finish()
        outcome: metrics.Outcome = "cancelled"
        try:
            async for chunk in stream:
                stream.delivered(chunk)
                yield chunk.pcm
            outcome = "ok"
        finally:
            stream.close(outcome)


@asynccontextmanager
async def open_speech(settings: Settings, model: str | None) -> AsyncIterator[LocalSpeech]:
    """Load a model on a thread of its own. Raises UnknownModelError, ModelAbsentError, ModelFailedError."""
    catalog = Catalog(settings)
    # Only the shapes of this text are needed, and the first call of each compiles them.
    worker = ModelWorker(catalog.load, warmup=False)
    service = SpeechService(settings, catalog, worker)
    name = service.model_name(model)
    worker.start()
    try:
        await asyncio.to_thread(_wait_until_loaded, worker.request_load(name))
        _, synthesizer = service.model(name)
        yield LocalSpeech(service, name, synthesizer)
    finally:
        service.close()
        await asyncio.to_thread(worker.stop)


def _wait_until_loaded(state: ModelState) -> None:
    # Bounded by the load itself, which ends in READY, ABSENT or FAILED.
    while state.status in (ModelStatus.LOADING, ModelStatus.WARMING):
        time.sleep(0.005)


def open_file(path: Path, sample_rate: int) -> Destination:
    """An audio file whose format is its suffix. Raises UnsupportedFormatError, OSError."""
    name = file_format(path)
    return _SeekableFile(path, name, sample_rate) if name in _SEEKABLE else _StreamFile(path, name, sample_rate)


def file_format(path: Path) -> str:
    """The format of an audio file, by its suffix. Raises UnsupportedFormatError."""
    suffix = path.suffix.lower().removeprefix(".")
    if not suffix:
        raise UnsupportedFormatError(
            f"'{path.name}' has no suffix; accepted are: {', '.join('.' + f for f in FORMATS)}."
        )
    return check_format(_SUFFIXES.get(suffix, suffix))


class _SeekableFile:
    def __init__(self, path: Path, name: str, sample_rate: int) -> None:
        self._path, self._partial = path, _partial(path)
        # Opened here, so that the system's own reason reaches the user.
        self._raw = self._partial.open("wb+")
        self._file = soundfile.SoundFile(self._raw, "w", sample_rate, 1, "PCM_16", format=name.upper())

    def write(self, pcm: Pcm) -> None:
        self._file.write(to_int16(pcm))

    def close(self) -> None:
        self._file.close()
        self._raw.close()
        self._partial.replace(self._path)

    def abandon(self) -> None:
        self._file.close()
        self._raw.close()
        self._partial.unlink(missing_ok=True)


class _StreamFile:
    def __init__(self, path: Path, name: str, sample_rate: int) -> None:
        self._path, self._partial = path, _partial(path)
        self._encoder = make_encoder(check_format(name), sample_rate)
        self._file = self._partial.open("wb")

    def write(self, pcm: Pcm) -> None:
        self._file.write(self._encoder.encode(pcm))

    def close(self) -> None:
        self._file.write(self._encoder.finish())
        self._file.close()
        self._partial.replace(self._path)

    def abandon(self) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    """Written first and renamed at the end: an interrupted run leaves no half file under the name asked for."""
    return path.with_name(f".{path.name}.partial")


def open_player(sample_rate: int) -> Destination:
    """The machine's loudspeaker: the `play` extra, else a player program. Raises PlaybackError."""
    try:
        return _Device(sample_rate)
    except (ImportError, OSError):
        # OSError: the extra is there, PortAudio is not.
        pass
    for command in _PLAYERS:
        program = shutil.which(command[0])
        if program is not None:
            return _Program([program, *command[1:]], sample_rate)
    names = ", ".join(command[0] for command in _PLAYERS)
    raise PlaybackError(
        f"nothing here can play sound: install the extra 'play' (pip install sounddevice) or one of {names}, "
        "or write a file with -o speech.wav"
    )


class _Device:
    """Plays as audio arrives; `write` blocks while the device's buffer is full."""

    def __init__(self, sample_rate: int) -> None:
        import sounddevice

        self._errors = sounddevice.PortAudioError
        try:
            self._stream = sounddevice.OutputStream(samplerate=sample_rate, channels=1, dtype="float32")
            self._stream.start()
        except self._errors as error:
            raise PlaybackError(f"cannot open the sound device: {error}; write a file with -o speech.wav") from None

    def write(self, pcm: Pcm) -> None:
        try:
            self._stream.write(np.ascontiguousarray(pcm[:, np.newaxis]))
        except self._errors as error:
            raise PlaybackError(f"the sound device failed: {error}") from None

    def close(self) -> None:
        # Waits for what is buffered.
        self._stream.stop()
        self._stream.close()

    def abandon(self) -> None:
        self._stream.abort()
        self._stream.close()


class _Program:
    """Collects a WAV file and has a program play it."""

    def __init__(self, command: list[str], sample_rate: int) -> None:
        self._command = command
        self._folder = tempfile.TemporaryDirectory(prefix="nightingale-")
        self._path = Path(self._folder.name) / "speech.wav"
        self._file = open_file(self._path, sample_rate)

    def write(self, pcm: Pcm) -> None:
        self._file.write(pcm)

    def close(self) -> None:
        self._file.close()
        try:
            done = subprocess.run(  # noqa: S603 - a program found on PATH, with a path of ours
                [*self._command, str(self._path)], capture_output=True, text=True, check=False
            )
        finally:
            self._folder.cleanup()
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise PlaybackError(f"{Path(self._command[0]).name} cannot play: {reason}; write a file with -o speech.wav")

    def abandon(self) -> None:
        self._file.abandon()
        self._folder.cleanup()
