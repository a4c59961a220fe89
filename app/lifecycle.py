"""Life of the server: load, warm, ready, drain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import fields
from typing import Any

from fastapi import FastAPI

from app.assembly import Engine
from app.config import Settings
from app.engine.admission import Admission
from app.engine.catalog import Catalog
from app.engine.unloading import UnloadRules
from app.observability import metrics, tracing
from app.server.middleware.key_file import KeyFile
from app.server.native import health
from app.server.part import Part
from app.server.state import CHECK_SECONDS, Services
from app.server.wyoming import server as wyoming
from app.threads import REQUESTS

log = logging.getLogger(__name__)

# Seconds for streams that are broken off at the end of draining to tell their clients.
ABORT_SECONDS = 1.0
# Seconds for the models' thread to end.
STOP_SECONDS = 1.0

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def lifespan(
    settings: Settings,
    catalog: Catalog,
    preload: tuple[str, ...],
    traces: tracing.Traces | None,
    keys: KeyFile | None = None,
    parts: Sequence[Part] = (),
) -> Lifespan:
    """Return the context in which the application serves: services start before it and end after it.

    Readiness waits for the models `preload`, canonical names. `keys`: None: no key is needed. `parts` work beside the
    services.
    """

    @asynccontextmanager
    async def serving(app: FastAPI) -> AsyncIterator[None]:
        limits = settings.idle_unload_seconds
        rules = UnloadRules(
            settings.memory_budget,
            limits["default"],
            {catalog.resolve(name): limit for name, limit in limits.items() if name != "default"},
        )
        opening = Engine.open(
            settings,
            catalog,
            warmup=settings.warmup != "none",
            rules=rules,
            queue_seconds=settings.queue_seconds,
            stop_seconds=STOP_SECONDS,
        )
        async with opening as engine:
            loop = asyncio.get_running_loop()

            def forget(name: str) -> None:
                with suppress(RuntimeError):  # the loop is closed: nothing is left to forget
                    loop.call_soon_threadsafe(engine.speech.voices.forget_model, name)

            engine.worker.loader.on_unloaded = forget
            shared: dict[str, Any] = {field.name: getattr(engine, field.name) for field in fields(engine)}
            services = Services(**shared, preload=preload)
            app.state.services = services
            if traces is not None:
                traces.start()
            for name in preload:
                engine.worker.request_load(name)
            lag = asyncio.create_task(metrics.watch_event_loop())
            lexicons = asyncio.create_task(engine.speech.warm())
            translates = any(catalog.kind(name) == "translation" for name in preload)
            phrases = asyncio.create_task(_keep_phrases(services))
            languages = asyncio.create_task(engine.translation.warm(detect=translates))
            await engine.speech.voices.start()
            satellites = wyoming.WyomingServer(services)
            if settings.wyoming_port is not None:
                await satellites.start(settings.wyoming_host, settings.wyoming_port)
            try:
                async with AsyncExitStack() as stack:
                    for part in parts:
                        await stack.enter_async_context(part.serving(app, services, keys))
                    try:
                        yield
                    finally:
                        engine.admission.drain()
            finally:
                await satellites.stop()
                for task in (lag, lexicons, phrases, languages):
                    task.cancel()
        if traces is not None:
            await REQUESTS.run(traces.stop)

    return serving


async def _keep_phrases(app: Services) -> None:
    """Have the sentences of the settings spoken once everything is warm."""
    path = app.settings.speech_cache_phrases
    if path is not None and await app.until_ready():
        await app.speech.keep_phrases(path)


async def drain(admission: Admission, seconds: float) -> None:
    """Refuse new work; return when the last stream has ended, at the latest after `seconds` and ABORT_SECONDS."""
    admission.drain()
    try:
        await asyncio.wait_for(admission.idle(), seconds)
    except TimeoutError:
        log.warning("%d streams did not end in time and are broken off", admission.active)
        admission.abort()
        with suppress(TimeoutError):
            await asyncio.wait_for(admission.idle(), ABORT_SECONDS)


async def announce(app: Services, port: int) -> None:
    """Log the address and an example once everything is warm; log nothing if it never will be."""
    while not app.ready:
        if app.admission.draining or app.speech.front_end == "failed":
            return
        if any(state.status in health.FAILED for state in app.states()):
            return
        await asyncio.sleep(CHECK_SECONDS)
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
