"""Surface: a protocol that programs of others speak, and the form of its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Surface:
    """A protocol over HTTP and WebSockets.

    Guards, limits and the cluster's proxy refuse a request before it has a route, so that its path says whose it is.
    """

    paths: tuple[str, ...]
    """Its paths; one that ends in `*` stands for all that begin so."""
    error_body: Callable[[ServiceError], dict[str, Any]]
    """Returns the JSON of an error as the clients of this protocol expect it."""

    def has(self, path: str) -> bool:
        return any(path.startswith(own[:-1]) if own.endswith("*") else path == own for own in self.paths)
