"""Destinations of audio for the command line: a file, standard output, the loudspeaker."""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import soundfile

from app.audio.encoders import FORMATS, Format, check_format, make_encoder
from app.audio.pcm import to_int16
from app.cli.command import USAGE_ERROR, CommandError
from app.errors import UnsupportedFormatError
from app.extras import needs
from models.contract import Pcm

# Formats that libsndfile writes, with exact sizes in the header; the others are streams.
_SEEKABLE = ("wav", "flac")
_SUFFIXES = {"ogg": "opus", "m4a": "aac"}
# Seconds between two looks of a blocked writer whether it was abandoned.
_PATIENCE = 0.1
# Programs that play a WAV file, in order of preference.
_PLAYERS = (("afplay",), ("paplay",), ("pw-play",), ("aplay", "-q"))


class PlaybackError(CommandError):
    """Sound cannot be played on this machine; the message says what to do."""


class Destination(Protocol):
    """Destination of audio. `close` makes it final; `abandon` leaves nothing behind."""

    def write(self, pcm: Pcm) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


def check_output(path: Path | None, format_name: str | None) -> None:
    """Raise CommandError or UnsupportedFormatError for an output that cannot be written, before a model is loaded."""
    if format_name is not None:
        if path is None:
            raise CommandError("--format needs -o FILE, or -o - for standard output", USAGE_ERROR)
        check_format(format_name)
    elif path is not None and str(path) != "-":
        file_format(path)


def open_destination(
    path: Path | None, format_name: str | None, sample_rate: int, *, live: bool = False
) -> Destination:
    """Return the file at `path`, standard output for `-`, or the loudspeaker for None; `live` as in `open_player`.

    Raises PlaybackError, UnsupportedFormatError, OSError.
    """
    if path is None:
        return open_player(sample_rate, live=live)
    if str(path) == "-":
        return open_output(format_name or "wav", sample_rate)
    return open_file(path, sample_rate, format_name)


@asynccontextmanager
async def destination(
    arguments: argparse.Namespace, sample_rate: int, *, live: bool = False
) -> AsyncIterator[Destination]:
    """Yield the destination that the options `output` and `format` name, which is final after the block.

    After an error nothing is left of it. Raises as `open_destination` does.
    """
    out = open_destination(arguments.output, arguments.format, sample_rate, live=live)
    try:
        yield out
    except BaseException:
        out.abandon()
        raise
    await asyncio.to_thread(out.close)


def open_file(path: Path, sample_rate: int, format_name: str | None = None) -> Destination:
    """Return an audio file of that format, or of that of its suffix. Raises UnsupportedFormatError, OSError."""
    name = check_format(format_name) if format_name is not None else file_format(path)
    return _SeekableFile(path, name, sample_rate) if name in _SEEKABLE else _StreamFile(path, name, sample_rate)


def file_format(path: Path) -> str:
    """Return the format of an audio file by its suffix. Raises UnsupportedFormatError."""
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
    """Return the name of a file until it is whole: an interrupted run leaves no half file under `path`."""
    return path.with_name(f".{path.name}.partial")


def open_output(format_name: str, sample_rate: int) -> Destination:
    """Return standard output, in a format that needs no seeking. Raises UnsupportedFormatError."""
    return _StandardOutput(check_format(format_name), sample_rate)


class _StandardOutput:
    def __init__(self, name: Format, sample_rate: int) -> None:
        self._encoder = make_encoder(name, sample_rate)
        self._abandoned = False

    def write(self, pcm: Pcm) -> None:
        self._send(self._encoder.encode(pcm))

    def close(self) -> None:
        self._send(self._encoder.finish())

    def abandon(self) -> None:
        self._abandoned = True  # written bytes cannot be taken back

    def _send(self, data: bytes) -> None:
        """Write all of `data`, unless abandoned: a reader that stands still must not keep the process from ending."""
        output = sys.stdout.fileno()
        left = memoryview(data)
        while left and not self._abandoned:
            if select.select([], [output], [], _PATIENCE)[1]:
                # A pipe that is ready takes this much without blocking (POSIX.1-2017, PIPE_BUF).
                left = left[os.write(output, left[: select.PIPE_BUF]) :]


def open_player(sample_rate: int, *, live: bool = False) -> Destination:
    """Return the machine's loudspeaker: the `play` extra, else a player program. Raises PlaybackError.

    A program plays all the audio at its end, or with `live` each piece that is written when its turn comes.
    """
    try:
        return _Device(sample_rate)
    except (ImportError, OSError):
        # OSError: the extra is there, PortAudio is not.
        pass
    for command in _PLAYERS:
        program = shutil.which(command[0])
        if program is not None:
            player = _LiveProgram if live else _Program
            return player([program, *command[1:]], sample_rate)
    names = ", ".join(command[0] for command in _PLAYERS)
    raise PlaybackError(
        f"{needs('playing here', 'play')}, or install one of {names}, or write a file with -o speech.wav"
    )


class _Device:
    """Sound device that plays audio as it arrives; `write` blocks while its buffer is full."""

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
        # Waits until the buffer is empty.
        self._stream.stop()
        self._stream.close()

    def abandon(self) -> None:
        self._stream.abort()
        self._stream.close()


class _Program:
    """Program that plays all the audio as one WAV file, at the end."""

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
            _play(self._command, self._path)
        finally:
            self._folder.cleanup()

    def abandon(self) -> None:
        self._file.abandon()
        self._folder.cleanup()


class _LiveProgram:
    """Program that plays one WAV file after the other, each as soon as it is written and the last one has ended."""

    def __init__(self, command: list[str], sample_rate: int) -> None:
        self._command, self._sample_rate = command, sample_rate
        self._folder = tempfile.TemporaryDirectory(prefix="nightingale-")
        self._count = 0
        # Bounded: a writer that is far ahead of the listener waits.
        self._files: queue.Queue[Path | None] = queue.Queue(maxsize=4)
        self._error: PlaybackError | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="player", daemon=True)
        self._thread.start()

    def write(self, pcm: Pcm) -> None:
        if self._error is not None:
            raise self._error
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.wav"
        soundfile.write(path, to_int16(pcm), self._sample_rate, "PCM_16")
        self._files.put(path)

    def close(self) -> None:
        self._files.put(None)
        self._thread.join()
        self._folder.cleanup()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        # An interrupt from the keyboard reaches the player as well; otherwise the piece being played is heard out.
        self._abandoned = True
        self._files.put(None)
        self._thread.join()
        self._folder.cleanup()

    def _run(self) -> None:
        while (path := self._files.get()) is not None:
            if self._error is None and not self._abandoned:
                try:
                    _play(self._command, path)
                except PlaybackError as error:
                    self._error = error
            path.unlink()


def _play(command: list[str], path: Path) -> None:
    """Play a file to its end. Raises PlaybackError."""
    done = subprocess.run(  # noqa: S603 - a program found on PATH, with a path of ours
        [*command, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise PlaybackError(f"{Path(command[0]).name} cannot play: {reason}; write a file with -o speech.wav")
