"""Decoding of uploaded recordings, in processes of their own, to mono samples at one rate.

FFmpeg's libraries read files of strangers. They do it in `decoder_process`, under limits of memory and time: a
recording that crashes them, or takes too much, ends that process, and its sender gets an error. Another process takes
the next recording.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from app.audio import decoder_process
from app.audio.decoder_process import CUT, MAX_REASON, REFUSED, REPLY, REQUEST, TOO_MUCH
from app.errors import DrainingError, UnavailableError, UnusableRecordingError
from app.isolation.process import IsolatedProcess, read_exactly

log = logging.getLogger(__name__)

# A recording needs a sample louder than this: the noise of a microphone is louder.
SILENCE: Final = 1e-3
# Seconds by the clock for one recording, besides the seconds that are decoded. The limit on CPU time is shorter; this
# one ends a process that waits.
DEADLINE: Final = 60.0
SAMPLE_BYTES: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Decoded recording. `pcm`: float32 mono [samples] in [-1, 1] at `sample_rate`. `cut`: the file held more."""

    pcm: npt.NDArray[np.float32]
    sample_rate: int
    cut: bool = False

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.pcm.size / self.sample_rate


class AudioDecoder:
    """Decoder of recordings in at most `processes` processes. One of them waits for the next recording.

    Args:
        sample_rate: Rate of the samples that `decode` returns, in Hz.
        min_seconds: Shortest recording that is accepted.
        max_seconds: Seconds of a recording that are decoded; the rest is cut.
        processes: Recordings that are decoded at the same time; others wait.
        accept_silence: A recording may be silent.
    """

    def __init__(
        self,
        *,
        sample_rate: int,
        min_seconds: float,
        max_seconds: float,
        processes: int = 1,
        accept_silence: bool = False,
    ) -> None:
        self._sample_rate = sample_rate
        self._accept_silence = accept_silence
        self._min_seconds = min_seconds
        self._max_seconds = max_seconds
        self._waiting: DecoderProcess | None = None
        self._busy: set[DecoderProcess] = set()
        self._retired: set[DecoderProcess] = set()
        self._closed = False
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="decode")

    def __enter__(self) -> AudioDecoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Have a process wait for the next recording, unless one does. Returns at once."""
        if self._waiting is None and not self._closed:
            self._waiting = DecoderProcess()
            self._threads.submit(self._waiting.start)

    async def decode(self, data: bytes) -> Recording:
        """Decode a recording, mix its channels to one and resample it. Cancelling it ends the work.

        Raises UnusableRecordingError with the reason: no audio, an unknown or damaged file, a codec that is not
        accepted, too many channels, a rate outside [8000, 192000] Hz, silence, less than `min_seconds`, or more work
        than the limits allow. Raises UnavailableError where no process can be started.
        """
        process = self._take()
        self._busy.add(process)
        decode = partial(process.decode, data, self._sample_rate, self._max_seconds)
        try:
            recording = await asyncio.get_running_loop().run_in_executor(self._threads, decode)
        except UnusableRecordingError:
            if self._closed:
                raise DrainingError("The server is shutting down.") from None
            raise
        except asyncio.CancelledError:
            process.kill()
            raise
        finally:
            self._busy.discard(process)
            self._keep(process)
        length, least = recording.seconds, self._min_seconds
        if length < least:
            raise UnusableRecordingError(
                f"The recording has {length:.2f} seconds of audio; at least {least:g} are needed."
            )
        if not self._accept_silence and float(np.abs(recording.pcm).max()) < SILENCE:
            raise UnusableRecordingError("The recording is silent.")
        return recording

    def close(self) -> None:
        """End every process. The recordings that they decode fail."""
        self._closed = True
        for process in self._busy:
            process.kill()
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None
        self._threads.shutdown(wait=False, cancel_futures=True)
        # A thread that had other work may not have begun to end these.
        for process in list(self._retired):
            process.end()

    def _take(self) -> DecoderProcess:
        """Take the process that waits, or a new one."""
        process, self._waiting = self._waiting, None
        if process is None or not process.ended:
            return process or DecoderProcess()
        self._retire(process)
        return DecoderProcess()

    def _keep(self, process: DecoderProcess) -> None:
        """Have one process wait: this one, if it takes another recording."""
        if self._closed:
            process.end()
        elif self._waiting is None and process.usable:
            self._waiting = process
        else:
            self._retire(process)
            self.start()

    def _retire(self, process: DecoderProcess) -> None:
        """End a process that is of no more use, on a thread."""

        def end() -> None:
            process.end()
            self._retired.discard(process)

        self._retired.add(process)
        self._threads.submit(end)


class DecoderProcess(IsolatedProcess):
    """Process that decodes one recording after the other, until one of them breaks it."""

    def __init__(self) -> None:
        # By its path: it needs nothing else of this package.
        super().__init__(decoder_process.__file__)
        self._more = False

    @property
    def usable(self) -> bool:
        """Whether the process takes another recording."""
        return self._more and not self.killed

    def decode(self, data: bytes, sample_rate: int, max_seconds: float) -> Recording:
        """Decode one recording. Blocks, for DEADLINE and `max_seconds` at most. `usable` tells if another may follow.

        Raises UnusableRecordingError and UnavailableError.
        """
        self._more = False
        with self.deadline(DEADLINE + max_seconds) as overdue:
            try:
                kind, self._more, rest = self._ask(data, sample_rate, max_seconds)
            finally:
                if overdue.is_set():
                    log.warning("a recording was not decoded in time")
        if kind == REFUSED:
            raise UnusableRecordingError(rest.decode("utf-8", "replace"))
        return Recording(np.frombuffer(rest, np.float32), sample_rate, kind == CUT)

    def _ask(self, data: bytes, sample_rate: int, max_seconds: float) -> tuple[int, bool, bytes]:
        """Send a request and return the reply: its kind, whether another may follow, and its bytes."""
        try:
            asked, replies = self.pipes()
        except OSError as error:
            if not self.killed:
                log.error("the program that decodes recordings does not start: %s", error)
            raise UnavailableError("Recordings cannot be decoded now; the server's log has the cause.") from error
        try:
            for part in (REQUEST.pack(len(data), sample_rate, max_seconds), data):
                asked.write(part)
            asked.flush()
            kind, more, size = REPLY.unpack(read_exactly(replies, REPLY.size))
            most = MAX_REASON if kind == REFUSED else round(max_seconds * sample_rate) * SAMPLE_BYTES
            if size > most or (kind != REFUSED and size % SAMPLE_BYTES):
                raise EOFError(f"a reply of {size} bytes, of at most {most}")
            return kind, more, read_exactly(replies, size)
        except (OSError, EOFError) as error:
            if not self.killed:
                log.warning("a recording broke its decoder process: status %s, %s", self.end(), error)
            raise UnusableRecordingError(TOO_MUCH) from error
