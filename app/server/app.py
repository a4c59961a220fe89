"""The application: parts put together, and their life: load, warm, ready, drain.

`create_app` makes an ASGI application for any server; `serve` runs it under uvicorn and drains on SIGTERM.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from app import __version__
from app.audio import watermark
from app.audio.encoders import check_format
from app.config import Settings, SettingsError, is_loopback
from app.engine.loading import Catalogue
from app.engine.worker import ModelWorker
from app.errors import UnknownModelError, UnsupportedFormatError
from app.extras import needs
from app.observability import logs, metrics, tracing
from app.server import error_responses
from app.server.compat import deepgram, libretranslate, wyoming
from app.server.compat.elevenlabs import rest
from app.server.compat.elevenlabs import websocket as elevenlabs_socket
from app.server.connections import Connections, Limits, raise_open_files
from app.server.exit import LastResort
from app.server.http_protocol import HttpProtocol
from app.server.middleware import auth, fast_path, origins, websocket_limits
from app.server.routes import health, pages, phonemes, stream, translate, voices
from app.server.routes import speech as openai
from app.server.schemas import SpeechBody
from app.server.state import Services
from app.server.websocket_protocol import WebSocketProtocol
from app.speech.service import SpeechService
from app.translation.service import TranslationService

log = logging.getLogger(__name__)

# A frame up to this many times `max_frame_bytes` is read, so that the refusal can say why; above it uvicorn closes.
FRAME_MARGIN = 16
# How long streams that are broken off at the end of draining have to say so.
ABORT_SECONDS = 1.0
# Seconds between two looks whether everything is warm.
_LOOK_EVERY = 0.05
# Seconds for the model's thread to end.
STOP_SECONDS = 1.0
# Seconds from the end of draining, and from a second signal, to the end of the process, whatever its threads do.
EXIT_SECONDS = 4.0
FORCED_SECONDS = 1.0
# Objects made and not freed between two of the collector's short turns.
COLLECT_EVERY = 5_000


def create_app(settings: Settings, catalog: Catalogue | None = None) -> FastAPI:
    """The ASGI application. `catalog` defaults to the models of this machine.

    Raises SettingsError when the settings name a model that the catalogue does not have, want a watermark that
    cannot be made, or name a file of keys that cannot be used.
    """
    known, preload = _models_to_serve(settings, catalog)
    traces = None if settings.otlp_endpoint is None else tracing.to_collector(settings.otlp_endpoint)
    if settings.watermark == "perth" and not watermark.is_installed():
        raise SettingsError(needs("setting 'watermark' = 'perth'", "watermark"))

    try:
        check_format(settings.default_format)
    except UnsupportedFormatError as error:
        raise SettingsError(f"setting 'default_format': {error.message}") from None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        worker = ModelWorker(
            known.load,
            warmup=settings.warmup != "none",
            queue_size=settings.queue_size,
            queue_seconds=settings.queue_seconds,
        )
        translation = TranslationService(settings, known, worker)
        speech = SpeechService(settings, known, worker, translation)
        services = Services(settings, known, worker, speech, translation, preload)
        app.state.services = services
        if traces is not None:
            traces.start()
        services.worker.start()
        for name in services.preload:
            services.worker.request_load(name)
        lag = asyncio.create_task(metrics.watch_event_loop())
        lexicons = asyncio.create_task(services.speech.warm())
        translates = any(known.kind(name) == "translation" for name in preload)
        languages = asyncio.create_task(services.translation.warm(detect=translates))
        await services.speech.voices.start()
        satellites = wyoming.WyomingServer(services)
        if settings.wyoming_port is not None:
            await satellites.start(settings.wyoming_host, settings.wyoming_port)
        try:
            yield
        finally:
            services.speech.drain()
            await satellites.stop()
            lag.cancel()
            lexicons.cancel()
            languages.cancel()
            services.speech.close()
            services.translation.close()
            # The thread finishes the chunk it computes; the event loop must not wait with it.
            await asyncio.to_thread(services.worker.stop, STOP_SECONDS)
            if traces is not None:
                await asyncio.to_thread(traces.stop)

    app = FastAPI(
        title="Nightingale",
        version=__version__,
        description="Low-latency local speech and translation.",
        lifespan=lifespan,
        # Theirs load scripts from elsewhere; `pages` has one that does not.
        docs_url=None,
        redoc_url=None,
    )
    error_responses.install(app, settings.max_body_bytes, {voices.PATH: settings.max_upload_bytes}, _guards(settings))
    # Innermost: whatever stands before every path stands before this, too.
    app.user_middleware.append(
        Middleware(fast_path.Direct, path=openai.PATH, body=SpeechBody, answer=openai.SpeechResponse)
    )
    app.include_router(openai.router, tags=["Speech and models"])
    app.include_router(voices.router, tags=["Voices"])
    app.include_router(stream.router)
    app.include_router(phonemes.router, tags=["Speech and models"])
    app.include_router(translate.router, tags=["Translation"])
    app.include_router(libretranslate.router, tags=["LibreTranslate"])
    app.include_router(deepgram.router, tags=["Deepgram"])
    app.include_router(rest.router, tags=["ElevenLabs"])
    app.include_router(elevenlabs_socket.router)
    app.include_router(health.router, tags=["Operation"])
    pages.install(app)
    return app


def _guards(settings: Settings) -> list[Middleware]:
    """What stands before every path, the outermost first."""
    keys = None
    if settings.keys_file is not None:
        keys = auth.KeyFile(settings.keys_file, auth.Quotas.of(settings))
    guards = [
        Middleware(
            auth.Guard,
            keys=keys,
            hosts=origins.Hosts(settings.host, settings.allowed_hosts),
            origins=settings.cors_origins,
            open_metrics=settings.open_metrics,
        ),
        Middleware(websocket_limits.SocketLimits, session_seconds=settings.session_seconds),
    ]
    if settings.cors_origins:
        # Before keys are looked at: browsers ask for leave without one. Never with credentials, which are for cookies.
        cors = Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
            expose_headers=("x-request-id", "server-timing", "x-sample-rate", "x-watermark", "retry-after"),
        )
        guards.insert(0, cors)
    return guards


def _models_to_serve(settings: Settings, catalog: Catalogue | None) -> tuple[Catalogue, tuple[str, ...]]:
    """The catalogue, and the names of the models that readiness waits for, the default one for speech first."""
    if catalog is None:
        from app.engine.catalog import Catalog

        catalog = Catalog(settings)
    key = "default_model"
    try:
        names = [catalog.default()]
        key = "translation_model"
        translator = catalog.default_translator()
        # Who installed the weights, or asked for a model, wants it warm; the others get speech alone.
        if settings.translation_model is not None or catalog.present(translator):
            names.append(translator)
        key = "preload"
        names += [catalog.resolve(name) for name in settings.preload]
    except UnknownModelError as error:
        raise SettingsError(f"setting '{key}': {error.message}") from None
    return catalog, tuple(dict.fromkeys(names))


def configure(app: ASGIApp, settings: Settings, **chosen: Any) -> uvicorn.Config:
    """Return uvicorn's settings for `app`, at the address of `settings` unless `chosen` names another."""
    connections = Connections(Limits.of(settings))
    options: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "log_config": None,
        "access_log": False,
        "http": partial(HttpProtocol, connections),
        # Without compression: speech does not deflate, and trying costs more than the model does.
        "ws": partial(WebSocketProtocol, connections),
        "ws_max_size": settings.max_frame_bytes * FRAME_MARGIN,
        "timeout_graceful_shutdown": 1,
    }
    return uvicorn.Config(app, **(options | chosen))


def check_public(settings: Settings) -> None:
    """Raises SettingsError where anybody could use the server who was not meant to."""
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


async def drain(speech: SpeechService, seconds: float) -> None:
    """Refuse new work; return when the last stream has ended, at the latest after `seconds` and ABORT_SECONDS."""
    speech.drain()
    try:
        await asyncio.wait_for(speech.idle(), seconds)
    except TimeoutError:
        log.warning("%d streams did not end in time and are broken off", speech.active)
        speech.abort()
        with suppress(TimeoutError):
            await asyncio.wait_for(speech.idle(), ABORT_SECONDS)


async def announce(app: Services, port: int) -> None:
    """Log what to do next, once everything is warm; nothing where it will not be."""
    while not app.ready:
        if app.speech.draining or app.speech.front_end == "failed":
            return
        if any(state.status in health.FAILED for state in app.states()):
            return
        await asyncio.sleep(_LOOK_EVERY)
    log.info("%s", invitation(app.settings, port))


def invitation(settings: Settings, port: int) -> str:
    """Return one line with the server's address and something to try."""
    host = settings.host
    if host in ("0.0.0.0", "::"):  # noqa: S104
        host = "localhost"
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    key = " -H 'Authorization: Bearer YOUR_KEY'" if settings.keys_file is not None else ""
    return (
        f"ready: open {url}/ in a browser, or try: curl {url}/v1/audio/speech{key} -H 'Content-Type: application/json' "
        f"""-d '{{"input": "Hello world."}}' -o hello.{settings.default_format}"""
    )


def serve(settings: Settings, catalog: Catalogue | None = None) -> None:
    """Run the server until SIGINT or SIGTERM; then drain for at most `drain_seconds`. A second signal ends it.

    The process ends within `drain_seconds` and five seconds more; see LastResort for its exit status.
    Raises what `create_app` raises, and SettingsError where anybody could use the server who was not meant to.
    """
    check_public(settings)
    raise_open_files()
    app = create_app(settings, catalog)
    logs.configure(settings.log_level, settings.log_format)
    # What is there by now stays; and a collection in the middle of a request costs it a tenth of a millisecond.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, 10, 10)
    server = _DrainingServer(configure(app, settings), app, settings.drain_seconds)
    server.run()
    server.leave()


class _DrainingServer(uvicorn.Server):
    """Keeps listening while it drains, so that probes and clients are told, and exits when the last stream ends."""

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
        if self._signals > 1 or self._loop is None:
            self.should_exit = True
            self.force_exit = self._signals > 1
            return
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
            await drain(services.speech, self._drain_seconds)
        self.should_exit = True

    def _services(self) -> Services | None:
        found = getattr(self._app.state, "services", None)
        return found if isinstance(found, Services) else None

    def _unserved(self) -> int:
        services = self._services()
        return 0 if services is None else services.speech.active
