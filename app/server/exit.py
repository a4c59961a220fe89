"""End of the process at a known time, whatever its threads compute."""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

# Seconds between the two ways to end. The second is for a process in which Python no longer runs; one that was merely
# stopped for a moment must end by the first.
_LATER = 3.0


class LastResort:
    """Timer that ends the process, unless the process ends by itself before. `unserved` counts the waiting clients.

    Exit status: 0 if no client waits, 1 otherwise. A process in which a thread keeps the interpreter lock ends a little
    later, with status 1 and the place of every thread on standard error.
    """

    def __init__(self, unserved: Callable[[], int]) -> None:
        self._unserved = unserved
        self._timer: threading.Timer | None = None

    def arm(self, seconds: float) -> None:
        """End the process in `seconds` at the latest. A later call sets another time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self.end)
        self._timer.daemon = True
        self._timer.start()
        faulthandler.dump_traceback_later(seconds + _LATER, exit=True)

    def end(self) -> None:
        """End the process at once, without waiting for its threads."""
        names = sorted(thread.name for thread in threading.enumerate() if thread is not threading.current_thread())
        unserved = self._unserved()
        log.warning("the process ends with %d streams open, without waiting for its threads: %s", unserved, names)
        logging.shutdown()
        os._exit(1 if unserved else 0)
