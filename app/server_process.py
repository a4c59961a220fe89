"""Run the application under uvicorn, and drain on SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from app.application import create_app
from app.config import Settings, SettingsError, is_loopback
from app.engine.catalog import Catalog
from app.lifecycle import announce, drain
from app.observability import logs
from app.private_files import make_private
from app.server.connections import ConnectionLimits, Connections, raise_open_files
from app.server.exit import LastResort
from app.server.http_protocol import HttpProtocol
from app.server.state import Services
from app.server.websocket_protocol import WebSocketProtocol

log = logging.getLogger(__name__)

# A frame up to this many times `max_audio_frame_bytes` is read, so that the refusal can say why;
# above it uvicorn closes.
FRAME_MARGIN = 2
# Seconds from the end of draining, and from a second signal, to the end of the process, whatever its threads do.
EXIT_SECONDS = 4.0
FORCED_SECONDS = 1.0
# Objects made and not freed between two short collections.
COLLECT_EVERY = 5_000


def configure(app: ASGIApp, settings: Settings, **chosen: Any) -> uvicorn.Config:
    """Return uvicorn's settings for `app`, at the address of `settings` unless `chosen` names another."""
    connections = Connections(ConnectionLimits.of(settings))
    options: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "log_config": None,
        "access_log": False,
        "http": partial(HttpProtocol, connections),
        # Without compression: speech does not deflate, and trying costs more than the model does.
        "ws": partial(WebSocketProtocol, connections),
        "ws_max_size": settings.max_audio_frame_bytes * FRAME_MARGIN,
        "timeout_graceful_shutdown": 1,
    }
    return uvicorn.Config(app, **(options | chosen))


def check_public(settings: Settings) -> None:
    """Raise SettingsError for an address that others reach, without keys or the setting that permits it."""
    if not (is_loopback(settings.host) or settings.keys_file or settings.allow_public):
        raise SettingsError(
            f"others reach a server on {settings.host}, and it would ask them for no key: set 'keys_file', or "
            "'allow_public' to true if that is meant"
        )
    if settings.wyoming_port is not None and not (is_loopback(settings.wyoming_host) or settings.allow_public):
        raise SettingsError(
            f"others reach a Wyoming server on {settings.wyoming_host}, and its protocol has no keys: set "
            "'allow_public' to true if that is meant"
        )


def serve(settings: Settings, catalog: Catalog | None = None) -> None:
    """Run the server until SIGINT or SIGTERM; then drain for at most `drain_seconds`. A second signal ends it.

    The process ends within `drain_seconds` and five seconds more; see LastResort for its exit status.
    Raises the errors of `create_app` and `check_public`.
    """
    check_public(settings)
    raise_open_files()
    make_private(settings.data_dir)
    app = create_app(settings, catalog)
    logs.configure(settings.log_level, settings.log_format)
    # Objects that exist by now stay. A collection in the middle of a request costs a tenth of a millisecond.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, 10, 10)
    server = _DrainingServer(configure(app, settings), app, settings.drain_seconds)
    server.run()
    server.leave()


class _DrainingServer(uvicorn.Server):
    """Server that listens while it drains, so that probes and clients are told, and exits after the last stream."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, drain_seconds: float) -> None:
        super().__init__(config)
        self._app = app
        self._drain_seconds = drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: asyncio.Task[None] | None = None
        self._announcement: asyncio.Task[None] | None = None
        self._signals = 0
        self._last_resort = LastResort(self._unserved)

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            self._announcement = asyncio.create_task(announce(self._app.state.services, port))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1
        self._last_resort.arm(FORCED_SECONDS if self._signals > 1 else self._drain_seconds + EXIT_SECONDS)
        if self._loop is None:
            self.should_exit = True
        elif self._signals > 1:
            self._loop.call_soon_threadsafe(self._last_resort.end)
        else:
            log.info("%s: draining for up to %g seconds", signal.Signals(sig).name, self._drain_seconds)
            self._loop.call_soon_threadsafe(self._begin)

    def leave(self) -> None:
        """End the process at once if the model's thread still runs: the interpreter would wait for it, or with it."""
        services = self._services()
        if services is not None and services.worker.alive:
            self._last_resort.end()

    def _begin(self) -> None:
        self._drain = asyncio.create_task(self._drain_and_exit())

    async def _drain_and_exit(self) -> None:
        services = self._services()
        if services is not None:
            await drain(services.admission, self._drain_seconds)
        self.should_exit = True

    def _services(self) -> Services | None:
        result = getattr(self._app.state, "services", None)
        return result if isinstance(result, Services) else None

    def _unserved(self) -> int:
        services = self._services()
        return 0 if services is None else services.admission.active
