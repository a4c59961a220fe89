"""espeak-ng, carried by the wheel `espeakng_loader`, driven through phonemizer's wrapper.

A data directory that espeak-ng cannot read makes its C library end the whole process, so the first use on a
machine is tried in a child process; success is remembered in a file of the user's cache directory.
"""

from __future__ import annotations

import hashlib
import logging
import re
import subprocess
import sys
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

_LOG = logging.getLogger(__name__)
_PROBE_TIMEOUT: Final = 20.0
_FLAG: Final = re.compile(r"\([a-z\u0361-]+\)")  # marks where espeak-ng changes language inside a text
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_PROBE: Final = """
import sys
from phonemizer.backend.espeak.wrapper import EspeakWrapper
EspeakWrapper.set_library(sys.argv[1])
EspeakWrapper.set_data_path(sys.argv[2])
espeak = EspeakWrapper()
espeak.set_voice("en-us")
sys.exit(0 if espeak.text_to_phonemes("probe", tie=True) else 3)
"""


class EspeakPaths(NamedTuple):
    """The shared library and the data directory of espeak-ng."""

    library: str
    data: str


class Espeak:
    """One espeak-ng voice. `phonemes` may be called from any thread."""

    def __init__(self, voice: str, paths: EspeakPaths) -> None:
        from phonemizer.backend.espeak.wrapper import EspeakWrapper

        EspeakWrapper.set_library(paths.library)
        EspeakWrapper.set_data_path(paths.data)
        self._lock = threading.Lock()
        self._wrapper: Any = EspeakWrapper()
        self._wrapper.set_voice(voice)

    def phonemes(self, text: str) -> str:
        """Return IPA with stress marks, words separated by one space, and U+0361 tying the parts of one sound."""
        with self._lock:
            ipa: str = self._wrapper.text_to_phonemes(_CONTROL.sub(" ", text), tie=True)
        return " ".join(_FLAG.sub("", ipa).split())


@lru_cache(maxsize=64)
def get_espeak(voice: str) -> Espeak | None:
    """Return espeak-ng set to a voice ("en-us", "fr-fr", ...), or None, with a warning, if it cannot run here."""
    paths = find_espeak()
    if paths is None or not is_usable(paths):
        _LOG.warning("espeak-ng cannot be used: English words outside the lexicon will be spelled letter by letter")
        return None
    try:
        return Espeak(voice, paths)
    except (RuntimeError, OSError) as error:
        _LOG.warning("espeak-ng has no voice %r: %s", voice, error)
        return None


def find_espeak() -> EspeakPaths | None:
    """Return where the wheel put espeak-ng, or None if it is not installed."""
    try:
        import espeakng_loader
    except ImportError:
        return None
    return EspeakPaths(str(espeakng_loader.get_library_path()), str(espeakng_loader.get_data_path()))


def is_usable(paths: EspeakPaths, cache: Path | None = None) -> bool:
    """Whether espeak-ng starts with these paths; tried once per installation in a child process.

    `cache` is the directory that remembers success (default: the user's cache directory).
    """
    if not Path(paths.library).is_file() or not (Path(paths.data) / "phontab").is_file():
        return False
    marker = _marker(paths, cache)
    if marker is not None and marker.is_file():
        return True
    try:
        probe = subprocess.run(  # noqa: S603 - our own interpreter, our own code
            [sys.executable, "-c", _PROBE, *paths], capture_output=True, timeout=_PROBE_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _LOG.warning("espeak-ng could not be tried: %s", error)
        return False
    if probe.returncode != 0:
        reason = probe.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it ended the process"]
        _LOG.warning("espeak-ng does not start (exit status %d): %s", probe.returncode, reason[0])
        return False
    if marker is not None:
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=marker.parent, delete=False) as file:
                temporary = Path(file.name)
            temporary.replace(marker)
        except OSError:
            _LOG.debug("cannot remember that espeak-ng works in %s", marker.parent)
    return True


def _marker(paths: EspeakPaths, cache: Path | None) -> Path | None:
    """The file whose existence says that this very installation has been tried."""
    try:
        directory = cache if cache is not None else Path.home() / ".cache" / "nightingale"
    except RuntimeError:
        return None
    stamps = [Path(paths.library).stat(), (Path(paths.data) / "phontab").stat()]
    identity = repr((sys.version_info[:2], *paths, *((s.st_size, s.st_mtime_ns) for s in stamps)))
    return directory / f"espeak-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
