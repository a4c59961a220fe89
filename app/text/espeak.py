"""espeak-ng from the wheel `espeakng_loader`, in a process of its own: see `app.text.espeak_process`.

The library has one state. Each call holds a lock and names its voice.
"""

from __future__ import annotations

import atexit
import json
import logging
import re
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final, NamedTuple

from app.text import espeak_process

_LOG = logging.getLogger(__name__)
_FLAG: Final = re.compile(r"\([a-z\u0361-]+\)")  # marks where espeak-ng changes language inside a text
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class EspeakPaths(NamedTuple):
    """The shared library and the data directory of espeak-ng."""

    library: str
    data: str


class _Library:
    """The library, in a process of its own. Raises OSError if it does not start."""

    def __init__(self, paths: EspeakPaths) -> None:
        self._lock = threading.Lock()
        self._paths = paths
        self._start()
        atexit.register(self._end)

    def _end(self) -> bytes:
        """End the process and return what it says of why it could not start."""
        return self._process.communicate()[1]

    def _start(self) -> None:
        # A session of its own: Ctrl-C is for the server.
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", espeak_process.__file__, *self._paths],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        line = self._line()
        if not line:
            raise OSError(self._end().decode(errors="replace").strip() or "it ended at once")
        self.voices: dict[str, str] = json.loads(line)

    def phonemes(self, voice: str, text: str) -> str:
        """Return the IPA of `text`, or "" where the library died of it. Raises OSError for a voice without data."""
        with self._lock:
            line = self._line(f"{voice}\0{text}\n")
            if not line:
                self._end()
                self._start()
        if line == f"{espeak_process.VOICE_FAILED}\n":
            raise OSError(f"espeak-ng cannot load its voice {voice}")
        return line

    def _line(self, request: str = "") -> str:
        """Write `request` and return the next line; "" where the process has ended."""
        requests, replies = self._process.stdin, self._process.stdout
        if requests is None or replies is None:
            return ""
        with suppress(BrokenPipeError):
            requests.write(request.encode())
            requests.flush()
        return replies.readline().decode()


class Espeak:
    """One voice of espeak-ng. Thread-safe. Raises OSError if it cannot be used."""

    def __init__(self, voice: str, paths: EspeakPaths) -> None:
        self._library = _library(paths)
        if voice not in self._library.voices:
            raise OSError(f"it has no voice {voice!r}")
        self._voice = self._library.voices[voice]
        if not self.phonemes("a"):
            raise OSError(f"the data of its voice {voice!r} is not whole")

    def phonemes(self, text: str) -> str:
        """Return IPA with stress marks, words separated by one space, and U+0361 tying the parts of one sound."""
        ipa = self._library.phonemes(self._voice, _CONTROL.sub(" ", text))
        return " ".join(_FLAG.sub("", ipa).split())


@cache
def _library(paths: EspeakPaths) -> _Library:
    return _Library(paths)


@lru_cache(maxsize=64)
def get_espeak(voice: str) -> Espeak | None:
    """Return espeak-ng set to a voice ("en-us", "fr-fr", ...), or None, with a warning, if it cannot run here."""
    paths = find_espeak()
    try:
        if paths is None:
            raise OSError("the package espeakng-loader is not installed")
        return Espeak(voice, paths)
    except OSError as error:
        _LOG.warning("espeak-ng cannot be used (%s): words outside the lexicon are spelled letter by letter", error)
        return None


def find_espeak() -> EspeakPaths | None:
    """Return the paths of espeak-ng in its wheel, or None if it is not installed."""
    try:
        import espeakng_loader
    except ImportError:
        return None
    return EspeakPaths(str(espeakng_loader.get_library_path()), str(espeakng_loader.get_data_path()))
