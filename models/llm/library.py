"""mlx-lm, imported when the first language model is loaded."""

from __future__ import annotations

import importlib
import resource
import threading
from typing import Any

from models.backend import mx  # prepares the process, before mlx-lm makes a stream

_lock = threading.Lock()


def import_module(name: str) -> Any:
    """Return the module `name` of mlx-lm, such as "generate".

    At its first import mlx-lm lowers this process's limit of open files and sockets to 2,048, and the limit up to which
    it may be raised again to 4,096: a server would refuse clients. Here the limit stays as it is.
    """
    with _lock:
        set_limit = resource.setrlimit
        resource.setrlimit = lambda *_: None
        try:
            return importlib.import_module(f"mlx_lm.{name}")
        finally:
            resource.setrlimit = set_limit


def stream() -> Any:
    """Return the stream of every computation of a language model: the default one, which the other models use, too."""
    return mx.default_stream(mx.default_device())
