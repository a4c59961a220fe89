"""The real server with the house voice, and with faults that no client can cause: python server.py PORT.

Seeds FAIL_FIRST and FAIL_SECOND make the model fail: in the first chunk of a stream, or in the first after a chunk was
sent. SIGUSR1 puts the wall clock a day forward, SIGUSR2 two days back. /metrics also counts asyncio tasks, and
gives free memory back to the system, for whoever reads it next.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import Gauge

from app.config import load_settings
from app.engine.catalog import Catalog
from app.server_process import serve
from models.contract import AudioChunk, SpeechRequest
from models.timeline import Timeline

FAIL_FIRST, FAIL_SECOND = 666_001, 666_002
DAY = 86_400.0


class FaultyCatalog(Catalog):
    """The catalog of this machine; its house voice fails when asked to."""

    def load(self, name: str) -> Any:
        model: Any = super().load(name)
        if name != "house":
            return model
        computes = model.stream

        def stream(request: SpeechRequest, timeline: Timeline, cancelled: Callable[[], bool]) -> Iterator[AudioChunk]:
            for chunk in computes(request, timeline, cancelled):
                # Computed and not handed over: in the middle.
                if request.seed == FAIL_FIRST or (request.seed == FAIL_SECOND and not request.first):
                    raise MemoryError("a failure in the middle of a chunk")
                yield chunk

        model.stream = stream
        return model


def give_back() -> float:
    """Have glibc return what `models.process.tune_malloc` has it keep, which is no leak. Elsewhere nothing is kept."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return 0.0 if trim is None else float(trim(0))


def main() -> None:
    """Serve until SIGTERM."""
    honest, offset = time.time, 0.0

    def jump(days: float) -> None:
        nonlocal offset
        offset += days * DAY

    time.time = lambda: honest() + offset
    signal.signal(signal.SIGUSR1, lambda *_: jump(1))
    signal.signal(signal.SIGUSR2, lambda *_: jump(-2))
    # Read by /metrics, on the event loop.
    Gauge("faults_tasks", "asyncio tasks").set_function(lambda: len(asyncio.all_tasks()))
    Gauge("faults_clock", "the wall clock's offset").set_function(lambda: offset)
    Gauge("faults_trimmed", "whether free memory was given back").set_function(give_back)
    settings = load_settings(None).model_copy(update={"port": int(sys.argv[1])})
    serve(settings, FaultyCatalog(settings))


if __name__ == "__main__":
    main()
