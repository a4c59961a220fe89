"""espeak-ng from the wheel `espeakng_loader`, called through its C interface (speak_lib.h).

The library has one state for the process. Each call holds a lock and sets its voice first.
"""

from __future__ import annotations

import ctypes
import logging
import re
import threading
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

_LOG = logging.getLogger(__name__)
_FLAG: Final = re.compile(r"\([a-z\u0361-]+\)")  # marks where espeak-ng changes language inside a text
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

# Numbers of speak_lib.h: espeak_AUDIO_OUTPUT, the options of espeak_Initialize, espeakCHARS and espeakPHONEMES.
_SYNCHRONOUS: Final = 2
_DONT_EXIT: Final = 0x8000
_UTF8: Final = 1
_TIED_IPA: Final = 0x02 | 1 << 7 | 0x361 << 8


class EspeakPaths(NamedTuple):
    """The shared library and the data directory of espeak-ng."""

    library: str
    data: str


class _Voice(ctypes.Structure):
    """The first fields of espeak_VOICE; `languages` begins with a byte of priority."""

    _fields_ = (("name", ctypes.c_char_p), ("languages", ctypes.c_char_p), ("identifier", ctypes.c_char_p))


class _Library:
    """The loaded library and its current voice. Raises OSError if it does not start."""

    def __init__(self, paths: EspeakPaths) -> None:
        self.lock = threading.Lock()
        self._set: bytes | None = None
        self._calls = calls = ctypes.CDLL(paths.library)
        calls.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))
        calls.espeak_TextToPhonemes.restype = ctypes.c_char_p
        if not (Path(paths.data) / "phontab").is_file():
            raise OSError(f"there is no espeak-ng data in {paths.data}")
        if calls.espeak_Initialize(_SYNCHRONOUS, 0, paths.data.encode(), _DONT_EXIT) <= 0:
            raise OSError(f"espeak-ng does not start with the data in {paths.data}")
        # Several voices may speak a language. espeak-ng lists its preferred one first.
        self.voices: dict[str, bytes] = {}
        listed = calls.espeak_ListVoices(None)
        while listed and listed[0]:
            voice = listed[0].contents
            self.voices.setdefault(voice.languages[1:].decode(), voice.identifier)
            listed = ctypes.cast(ctypes.addressof(listed[0]) + ctypes.sizeof(ctypes.c_void_p), type(listed))

    def phonemes(self, voice: bytes, text: bytes) -> str:
        """Return the IPA of UTF-8 `text`. The caller holds the lock. Raises OSError for a voice without data."""
        if voice != self._set:
            if self._calls.espeak_SetVoiceByName(voice):
                raise OSError(f"espeak-ng cannot load its voice {voice.decode()}")
            self._set = voice
        left = ctypes.c_char_p(text)
        found = []
        while left.value is not None:
            found.append((self._calls.espeak_TextToPhonemes(ctypes.byref(left), _UTF8, _TIED_IPA) or b"").decode())
        return " ".join(found)


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
        with self._library.lock:
            ipa = self._library.phonemes(self._voice, _CONTROL.sub(" ", text).encode())
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
