"""Several processes behind one address: the same application under Ray Serve (extra `cluster`).

Each replica is a process with a model thread, a cache and quotas of its own. It gets requests once everything is warm,
and is replaced when its process ends or its model thread is stuck. Ray's proxy hands each request, and each socket for
as long as it lasts, to the replica with fewer under way; `app.cluster.proxy` stands around it. Each replica
answers the paths of its own, such as `/metrics`, at a port of its own: `replica_port` and those after it, on each
machine.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from app.application import create_app
from app.cluster import proxy
from app.config import PREFIX, Settings, SettingsError
from app.errors import SaturatedError, UnavailableError
from app.extras import needs
from app.lifecycle import ABORT_SECONDS, drain
from app.observability import logs
from app.server.native.health import FAILED
from app.server.openai.realtime.secrets import share_key
from app.server.state import Services
from app.server_process import check_public, configure

log = logging.getLogger(__name__)

NAME: Final = "nightingale"
MISSING: Final = needs("setting 'replicas'", "cluster")
# Nothing large crosses between processes; this is near the least that Ray starts with.
_STORE_BYTES: Final = 80 << 20
# Seconds between two checks whether a replica is warm, and whether its port is free.
_CHECK_SECONDS: Final = 0.1
_PORT_CHECK_SECONDS: Final = 2.0
# Seconds within which the end of a process is noticed.
_CHECK_PERIOD: Final = 2.0
# Tries of a replica that cannot start: its model is broken, and stays so.
_TRIES: Final = 2
# Paths that a replica answers at its own port.
_OWN_PATHS: Final = proxy.PER_REPLICA | {"/livez", "/readyz"}
_OWN_FOLDER: Final = "/web/"


class Replica:
    """Process that serves. Ray makes it, runs its application's lifespan once, and asks for its health."""

    def __init__(self, settings: Settings, ending: Any, secret_key: bytes) -> None:
        """Take the settings, `ending`, the handle of an Ending, and what all replicas sign client secrets with."""
        share_key(secret_key)
        self._settings = settings
        self._ending = ending
        self._app: FastAPI | None = None

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the application. Ray calls this once, after the constructor."""
        from ray import serve

        logs.configure(self._settings.log_level, self._settings.log_format)
        if self._settings.ray_address is None:
            _stay_on_loopback()
        context = serve.get_replica_context()
        self._app = create_app(self._settings)
        marked = proxy.Marked(self._app, context.replica_tag)
        port = self._settings.replica_port + context.rank.local_rank
        _warm_first(self._app, _serve_own_paths(marked, self._settings, port), self._drain_in_the_end())
        return marked

    @property
    def _services(self) -> Services | None:
        return None if self._app is None else getattr(self._app.state, "services", None)

    async def check_health(self) -> None:
        """Raise RuntimeError when only a new process helps, as `/livez` does. Ray asks warm replicas only."""
        services = self._services
        if services is None:
            return
        age = services.worker.heartbeat_age
        if not services.worker.alive or age >= self._settings.liveness_seconds:
            raise RuntimeError(f"the model thread has shown no progress for {age:.0f} seconds")

    async def _drain_in_the_end(self) -> None:
        await self._ending.wait.remote()
        if self._services is not None:
            await drain(self._services.admission, self._settings.drain_seconds)


class ShutdownActor:
    """Actor that tells every replica of the end at once. A call of a replica would wait for its streams."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()

    async def begin(self) -> None:
        """Have every replica refuse new work, and break off streams that last longer than `drain_seconds`."""
        self._begun.set()

    async def wait(self) -> None:
        """Wait until the end begins."""
        await self._begun.wait()


def _warm_first(app: FastAPI, *beside: Coroutine[Any, Any, None]) -> None:
    """Have `app` start only when it is ready: until then Ray sends it nothing, and does not ask for its health.

    `beside` runs from then on until the application ends.
    """
    whole = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with whole(app) as state:
            services: Services = app.state.services
            while not services.ready:
                broken = [f"{each.name}: {each.error}" for each in services.states() if each.status in FAILED]
                if broken or services.speech.front_end == "failed":
                    raise RuntimeError(f"it cannot be made ready: {'; '.join(broken) or 'no text can be read'}")
                await asyncio.sleep(_CHECK_SECONDS)
            tasks = [asyncio.create_task(each) for each in beside]
            try:
                yield state
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    app.router.lifespan_context = lifespan


async def _serve_own_paths(app: ASGIApp, settings: Settings, port: int) -> None:
    """Answer the replica's own paths at its own `port`. Wait for a port that is not free."""
    host, taken = settings.host, False
    while True:
        try:
            listening = socket.create_server((host, port), family=_family(host))
            break
        except OSError as error:
            if not taken:
                log.warning("replica's own port %d: %s; waiting until it is free", port, error.strerror)
            taken = True
            await asyncio.sleep(_PORT_CHECK_SECONDS)
    log.info("metrics of this replica: http://%s:%d/metrics", host, port)

    async def only_own(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and (path in _OWN_PATHS or path.startswith(_OWN_FOLDER)):
            await app(scope, receive, send)
            return
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "websocket.close", "code": 1008})

    config = configure(only_own, settings, lifespan="off")
    with listening:
        await uvicorn.Server(config).serve(sockets=[listening])


def options(settings: Settings) -> dict[str, Any]:
    """Return Ray Serve's options of the deployment."""
    chosen: dict[str, Any] = {
        "name": NAME,
        "max_ongoing_requests": settings.max_streams,
        "max_queued_requests": settings.max_waiting,
        "backpressure_config": {"status_code": SaturatedError.status, "retry_after_s": SaturatedError.retry_after},
        "health_check_period_s": _CHECK_PERIOD,
        # Streams that have not ended by then are broken off.
        "graceful_shutdown_timeout_s": settings.drain_seconds + ABORT_SECONDS,
        "graceful_shutdown_wait_loop_s": 0.2,
        "ray_actor_options": {"num_cpus": settings.replica_cpus, "num_gpus": settings.replica_gpus},
        "max_constructor_retry_count": _TRIES,
        # The application logs every request itself.
        "logging_config": {"enable_access_log": False},
    }
    if settings.max_replicas:
        chosen["autoscaling_config"] = {
            "min_replicas": settings.replicas,
            "max_replicas": settings.max_replicas,
            "target_ongoing_requests": settings.target_streams,
            # A stream lasts minutes, and a late replica does not help a client that waits.
            "upscale_delay_s": 5.0,
            "look_back_period_s": 10.0,
            "metrics_interval_s": 2.0,
        }
    else:
        chosen["num_replicas"] = settings.replicas
    return chosen


def check(settings: Settings) -> None:
    """Raise SettingsError, one line, for settings that several processes cannot use."""
    if settings.max_replicas and settings.max_replicas < settings.replicas:
        raise SettingsError(
            f"setting 'max_replicas' is {settings.max_replicas}: it is 0, or at least 'replicas', {settings.replicas}"
        )
    if settings.max_replicas and settings.target_streams > settings.max_streams:
        raise SettingsError(
            f"setting 'target_streams' is {settings.target_streams:g}: no replica has more than 'max_streams', "
            f"{settings.max_streams}"
        )
    if settings.wyoming_port is not None:
        raise SettingsError("setting 'wyoming_port': Wyoming's clients need a process without replicas")
    check_public(settings)


def serve(settings: Settings) -> None:
    """Run `settings.replicas` processes until SIGINT or SIGTERM; then drain them. A second signal ends it at once.

    Raises SettingsError for settings that cannot be used, and without the extra; UnavailableError when no
    replica starts.
    """
    check(settings)
    _prepare_environment(settings)
    try:
        import ray
        from ray import serve as ray_serve
    except ImportError:
        raise SettingsError(MISSING) from None
    logs.configure(settings.log_level, settings.log_format)
    port = settings.port
    if not port:
        with socket.create_server((settings.host, 0), family=_family(settings.host)) as probe:
            port = int(probe.getsockname()[1])
    most = max(settings.replicas, settings.max_replicas)
    if settings.ray_address is None:
        # Every replica that is asked for gets room, whatever this machine has.
        local = {"num_cpus": math.ceil(most * settings.replica_cpus), "object_store_memory": _STORE_BYTES}
        ray.init(address="local", include_dashboard=False, namespace=NAME, **local)
    else:
        ray.init(address=settings.ray_address, namespace=NAME)
    try:
        where = "HeadOnly" if settings.ray_address is None else "EveryNode"
        ray_serve.start(proxy_location=where, http_options={"host": settings.host, "port": port})
        try:
            deployment = ray_serve.deployment(ray_serve.ingress()(Replica), **options(settings))
            ending = ray.remote(num_cpus=0, max_concurrency=2 * most + 2)(ShutdownActor).remote()
            try:
                ray_serve.run(deployment.bind(settings, ending, secrets.token_bytes(32)), name=NAME, route_prefix="/")
            except RuntimeError:
                # Ray keeps the reason from its caller.
                raise UnavailableError("no replica could be started; the lines above say why") from None
            log.info("running on http://%s:%d, replicas: %d", settings.host, port, settings.replicas)
            # Not sooner: Ray has handlers of its own, which end the program while it starts.
            _wait_for_signal()
            log.info("draining for up to %g seconds", settings.drain_seconds)
            ray.get(ending.begin.remote())
        finally:
            # The proxy stays until the last replica has gone: streams end through it.
            ray_serve.delete(NAME, _blocking=False)
            while NAME in ray_serve.status().applications:
                time.sleep(_CHECK_SECONDS)
            if settings.ray_address is None:
                ray_serve.shutdown()
    finally:
        ray.shutdown()


def _prepare_environment(settings: Settings) -> None:
    """Set the environment that Ray reads when it is imported, and hands down to its processes."""
    chosen = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": f"{proxy.__name__}:{proxy.middlewares.__name__}",
        **{f"{PREFIX}{name.upper()}": str(getattr(settings, name)) for name in proxy.SETTINGS},
        # Similar lines must all be logged, and without colors.
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
    }
    if settings.ray_address is None:
        chosen |= {
            # With 0, Ray keeps to the loopback address, as it does on macOS: nobody else may reach it.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            # Nor may other users of this machine. By default the token would be a file in the user's home.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            # The only proxy counts the requests of each replica correctly. If old counts expired, a burst of requests
            # would go to the one replica whose count is left.
            "RAY_SERVE_QUEUE_LENGTH_CACHE_TIMEOUT_S": "86400",
        }
    os.environ.update(chosen)


def _stay_on_loopback() -> None:
    """Have replicas listen for each other on the loopback address; Ray would have them listen on every one."""
    from ray.serve._private import replica

    add = replica.add_port_to_grpc_server

    def add_on_loopback(server: Any, address: str) -> int:
        return int(add(server, f"127.0.0.1:{address.rpartition(':')[2]}"))

    replica.add_port_to_grpc_server = add_on_loopback


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _wait_for_signal() -> None:
    """Wait for SIGINT or SIGTERM. A second signal raises KeyboardInterrupt."""
    asked = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    asked.wait()
