"""Inaudible mark in speech, which says that a machine spoke: Perth (github.com/resemble-ai/Perth).

Perth marks a whole recording. Here a stream is marked piece by piece, without holding any of it back: a piece is
marked together with the sound before it, and only the difference is taken from that. The difference is faded in and
out at the ends of every piece, so that the sound itself stays joined as it was and no seam can be heard.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt
import soxr

from app.errors import UnavailableError

log = logging.getLogger(__name__)

Float32 = npt.NDArray[np.float32]
Choice = Literal["auto", "perth", "none"]
Name = Literal["perth", "none"]  # the mark of a stream

RATE: Final = 32_000  # Perth's sample rate, in Hz
# Perth's network looks 15 frames of 10 ms around, each of 64 ms.
CONTEXT_SECONDS: Final = 0.25
FADE_SECONDS: Final = 0.01
# Perth's Fourier transform mirrors 1024 samples at either end: it needs more than those.
_MIN_SAMPLES: Final = 2_048
_NEEDED: Final = ("perth", "torch", "torchaudio", "librosa", "scipy", "yaml")


class Marker(Protocol):
    """Function that marks float32 [samples] at RATE, and returns about as many."""

    def __call__(self, pcm: Float32) -> Float32: ...


class MarkedStream:
    """State of one stream: pieces of float32 [samples] at `sample_rate` in, the same pieces marked out."""

    def __init__(self, marker: Marker, sample_rate: int) -> None:
        self._marker = marker
        self._rate = sample_rate
        self._context: Float32 = np.empty(0, np.float32)

    def push(self, pcm: Float32) -> Float32:
        """Mark the next piece."""
        samples = np.concatenate([self._context, pcm])
        self._context = samples[max(0, samples.size - round(CONTEXT_SECONDS * self._rate)) :]
        if not pcm.any():
            return pcm
        added = self._added(samples)[samples.size - pcm.size :]
        size = min(round(FADE_SECONDS * self._rate), pcm.size // 2)
        if size:
            rising = (0.5 - 0.5 * np.cos(np.pi * (np.arange(size) + 0.5) / size)).astype(np.float32)
            added[:size] *= rising
            added[-size:] *= rising[::-1]
        marked: Float32 = np.clip(pcm + added, -1.0, 1.0)
        return marked

    def reset(self) -> None:
        """Forget the sound before a silence: the sound after it does not depend on it."""
        self._context = np.empty(0, np.float32)

    def _added(self, pcm: Float32) -> Float32:
        """Return the difference that the mark makes to `pcm`, float32 of the same length."""
        plain = soxr.resample(pcm, self._rate, RATE).astype(np.float32)
        plain = np.pad(plain, (0, max(0, _MIN_SAMPLES - plain.size)))
        marked = self._marker(plain)[: plain.size]
        difference = np.zeros_like(plain)
        difference[: marked.size] = marked - plain[: marked.size]
        added = soxr.resample(difference, RATE, self._rate).astype(np.float32)[: pcm.size]
        return np.pad(added, (0, pcm.size - added.size))


class Marking:
    """Marking of one stream, on the thread of the watermark."""

    def __init__(self, stream: MarkedStream, thread: ThreadPoolExecutor) -> None:
        self._stream = stream
        self._thread = thread

    async def push(self, pcm: Float32) -> Float32:
        """Mark the next piece."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._stream.push, pcm)

    def reset(self) -> None:
        """Forget the sound before a silence. Call between two pieces."""
        self._stream.reset()


class Watermark:
    """Watermark that the deployment chose, and its one thread, which is neither the event loop's nor MLX's."""

    def __init__(self, choice: Choice, load: Callable[[], Marker] | None = None) -> None:
        """Take the function that makes the marker, once, on the thread; default: Perth."""
        self._choice = choice
        self._load = load or load_perth
        self._installed = load is not None or is_installed()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watermark")
        self._lock = threading.Lock()
        self._loading: Future[Marker] | None = None
        self._told = False

    @property
    def wanted(self) -> bool:
        """Whether models that ask for a mark get one. Until it is loaded this is only expected."""
        return self._choice == "perth" or (self._choice == "auto" and self._installed)

    def begin(self) -> Future[Marker] | None:
        """Begin to load the marker, unless that was begun or none is wanted. Return at once; safe on any thread."""
        if not self.wanted:
            return None
        with self._lock:
            if self._loading is None:
                try:
                    self._loading = self._thread.submit(self._load)
                except RuntimeError:  # closed: a model was loaded while the server went down
                    return None
            return self._loading

    async def marker(self) -> Marker | None:
        """Return the marker once it is loaded, or None: no mark. Raises UnavailableError if a required one fails."""
        loading = self.begin()
        if loading is None:
            return None
        try:
            return await asyncio.shield(asyncio.wrap_future(loading))
        except Exception as error:
            if self._choice == "perth":
                raise UnavailableError(f"The watermark that this server requires cannot be made: {error}.") from error
            if not self._told:
                self._told = True
                log.error("speech gets no watermark: Perth is installed but does not load: %s", error)
            return None

    def mark(self, marker: Marker, sample_rate: int) -> Marking:
        """Begin to mark a stream."""
        return Marking(MarkedStream(marker, sample_rate), self._thread)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def is_installed() -> bool:
    """Return whether everything that Perth's watermarker imports is on this machine."""
    return all(name in sys.modules or importlib.util.find_spec(name) is not None for name in _NEEDED)


def load_perth() -> Marker:
    """Return Perth's implicit watermarker on the CPU. Raises ImportError, and the errors of its checkpoint."""
    with _pkg_resources():
        network: Any = importlib.import_module("perth.perth_net.perth_net_implicit.model.perth_net")
        perth: Any = importlib.import_module("perth.perth_net.perth_net_implicit.perth_watermarker")
    # Perth prints to standard output, where a command's audio may go.
    network.print = lambda *_: None
    torch: Any = importlib.import_module("torch")
    # The thread that calls this also marks. The other cores are for the model.
    torch.set_num_threads(1)
    watermarker = perth.PerthImplicitWatermarker()

    def mark(pcm: Float32) -> Float32:
        with torch.inference_mode():
            marked: Float32 = watermarker.apply_watermark(pcm, RATE)
        return marked

    return mark


@contextmanager
def _pkg_resources() -> Iterator[None]:
    """Stand in for the one function of pkg_resources that Perth calls: setuptools has it no longer."""
    before = sys.modules.get("pkg_resources")
    module: Any = types.ModuleType("pkg_resources")
    module.resource_filename = lambda package, name: str(Path(sys.modules[package].__file__ or "").parent / name)
    sys.modules["pkg_resources"] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules["pkg_resources"]
        else:
            sys.modules["pkg_resources"] = before
