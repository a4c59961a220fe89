"""`nightingale serve`: run the server, in this process or in several under Ray."""

from __future__ import annotations

import argparse
import gc
import socket

from app.cli.command import CommandError
from app.config import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve until the process is told to end."""
    names = ("host", "port", "wyoming_host", "wyoming_port", "replicas", "max_replicas")
    given = {name: getattr(arguments, name) for name in names}
    settings = settings.model_copy(update={key: value for key, value in given.items() if value is not None})
    _check_address(settings.host, settings.port)
    if settings.wyoming_port is not None:
        _check_address(settings.wyoming_host, settings.wyoming_port)
    # Imports make objects that stay: to look for garbage among them takes a tenth of the time.
    gc.disable()
    from app.engine.catalog import Catalog
    from app.server_process import serve

    gc.enable()
    catalog = Catalog(settings)
    for name in (catalog.default(), catalog.default_translator(), *settings.preload):
        # A misspelled model must end here, not in the middle of the start.
        catalog.resolve(name)

    if settings.replicas:
        from app.cluster.replicas import serve as serve_replicas

        serve_replicas(settings)
    else:
        serve(settings, catalog)
    return 0


def _check_address(host: str, port: int) -> None:
    """Raise CommandError, before any model is loaded, if the address cannot be listened on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --host or --port"
        ) from None
