"""Requests to a server that runs: the options of the commands that need one, and its answers and errors."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from app.cli.command import USAGE_ERROR, CommandError, add_option

if TYPE_CHECKING:
    import httpx2

# Seconds to connect, and to wait for the next byte: a recording is answered after all of it was heard.
_CONNECT, _READ = 5.0, 600.0
# Bytes of a key file, and of an answer that is not audio.
_KEY_BYTES = 4_096
_ANSWER_BYTES = 8 << 20


class ServerError(Exception):
    """A server that cannot be reached, or that refuses; the message says what to do.

    `code` is that of the server, and `status` that of HTTP; None: there was no whole answer.
    """

    def __init__(self, message: str, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code, self.status = code, status


def add_server_arguments(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add the options that say where the server is; without an address `otherwise`, in words, happens."""
    help_ = f"address of a running server (default: {otherwise})"
    add_option(parser, "--url", {"kind": "url", "help": help_})
    add_option(parser, "--key-file")


def read_key(path: Path | None) -> str | None:
    """Return the key in a file, None without one. Raises CommandError and OSError."""
    if path is None:
        return None
    with path.open("rb") as file:
        key = file.read(_KEY_BYTES).strip()
    if not key or not key.isascii() or not key.decode("ascii").isprintable() or b" " in key:
        raise CommandError(f"{path} does not hold one API key, a line of printable ASCII", USAGE_ERROR)
    return key.decode("ascii")


def unreachable(url: str) -> ServerError:
    """Return the error of an address at which no server answers."""
    return ServerError(f"no server answers at {url}; start one with: nightingale serve", "unreachable")


class ServerClient:
    """Client of one server, to be used as an asynchronous context manager."""

    def __init__(self, url: str, key: str | None = None) -> None:
        import httpx2  # here, as most commands need no client of HTTP

        self.url = url
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # Without the environment's proxies: the key is for this address alone.
        self._http = httpx2.AsyncClient(
            base_url=url, headers=headers, timeout=httpx2.Timeout(_READ, connect=_CONNECT), trust_env=False
        )

    async def __aenter__(self) -> ServerClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        """Return the JSON object that the server answers. Raises ServerError."""
        import httpx2

        async with self.stream(method, path, **content) as reply:
            body = b""
            async for piece in reply.aiter_bytes():
                body += piece
                if len(body) > _ANSWER_BYTES:
                    raise ServerError(f"{self.url} answered with more than {_ANSWER_BYTES} bytes")
            return _object(httpx2.Response(200, content=body), self.url)

    @asynccontextmanager
    async def stream(self, method: str, path: str, **content: Any) -> AsyncIterator[httpx2.Response]:
        """Yield the answer to a request, whose body is not read yet. Raises ServerError, also within the block."""
        import httpx2

        try:
            async with self._http.stream(method, path, **content) as reply:
                if not reply.is_success:
                    raise await self._refusal(reply)
                yield reply
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise unreachable(self.url) from error
        except httpx2.TimeoutException as error:
            raise ServerError(f"{self.url} did not answer in {_READ:g} seconds") from error
        except httpx2.HTTPError as error:
            raise ServerError(f"{self.url} broke off its answer: {error}") from error

    async def _refusal(self, reply: httpx2.Response) -> ServerError:
        if int(reply.headers.get("content-length") or 0) <= _ANSWER_BYTES:
            await reply.aread()
            result = _object(reply, self.url).get("error")
            if isinstance(result, dict) and isinstance(result.get("message"), str):
                hint = "; name a file with the key: --key-file" if reply.status_code == 401 else ""
                return ServerError(f"{result['message'].rstrip('.')}{hint}", result.get("code"), reply.status_code)
        return ServerError(f"{self.url} refused with status {reply.status_code}", status=reply.status_code)


def _object(reply: httpx2.Response, url: str) -> dict[str, Any]:
    try:
        result = reply.json()
    except ValueError:
        result = None
    if not isinstance(result, dict):
        raise ServerError(f"{url} did not answer as a Nightingale server does")
    return result
