"""Part of the product that not everybody needs, as the application mounts it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI

from app.config import Settings
from app.server.middleware.key_file import KeyFile
from app.server.state import Services


@dataclass(frozen=True, slots=True)
class Part:
    """Routes of a part, and the work that it does while the application serves.

    `heading` is that of its routes in the OpenAPI description. `max_body_bytes` returns the paths whose bodies may be
    larger than others', and how large. `serving` is entered when the services are there, and left when they drain.
    """

    router: APIRouter
    heading: str
    max_body_bytes: Callable[[Settings], dict[str, int]]
    serving: Callable[[FastAPI, Services, KeyFile | None], AbstractAsyncContextManager[None]]
