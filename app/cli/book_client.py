"""A book made by a server: send the document, follow the job, fetch its files. A lost connection is made again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2

from app.cli.command import CommandError
from app.cli.interrupt import shielded

if TYPE_CHECKING:
    from app.cli.book import Bar
    from app.jobs.types import JobOptions

# Name of the metadata by which a job is found again.
_MARK: Final = "nightingale_book"
# Seconds without a byte after which a connection counts as lost; the server sends something more often.
_SILENCE: Final = 30.0
# Seconds between two attempts, and for which a server that is away is tried.
_AGAIN: Final = 2.0
_AWAY: Final = 600.0
_ENDED: Final = ("completed", "failed", "expired", "cancelled")
_PIECE: Final = 1 << 16


class BookClient:
    """Client of one server for one book."""

    def __init__(self, url: str, key: str | None, bar: Bar) -> None:
        if not url.startswith(("http://", "https://")):
            raise CommandError(f"'{url}' is no address: it must begin with http:// or https://", 2)
        self._url = url.rstrip("/").removesuffix("/v1") + "/v1/jobs"
        self._headers = {} if not key else {"authorization": f"Bearer {key}"}
        self._bar = bar

    async def make(self, name: str, data: bytes, options: JobOptions, mark: str, output: Path) -> None:
        """Write the book to `output`. Interrupted, it cancels the job. Raises CommandError and OSError.

        Args:
            name: name of the document.
            data: the document.
            options: options of the job.
            mark: by which a job that an earlier command left is found.
            output: place of the book.
        """
        timeout = httpx2.Timeout(_SILENCE, read=300.0)
        try:
            async with httpx2.AsyncClient(headers=self._headers, timeout=timeout) as client:
                try:
                    job = await self._find(client, mark) or await self._send(client, name, data, options, mark)
                    try:
                        job = await self._follow(client, job)
                    except asyncio.CancelledError:
                        await shielded(self._ask(client, "POST", f"/{job['id']}/cancel"))
                        print("\nnightingale: the job is cancelled", file=sys.stderr)
                        raise
                    await self._fetch(client, job, output)
                    await self._ask(client, "DELETE", f"/{job['id']}")
                except httpx2.HTTPError as error:
                    raise CommandError(f"{self._url}: {error or type(error).__name__}") from None
        finally:
            self._bar.close()

    async def _ask(self, client: httpx2.AsyncClient, method: str, path: str = "", **sent: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises CommandError with the server's message."""
        reply = await client.request(method, self._url + path, **sent)
        try:
            body = reply.json()
        except ValueError:
            body = {}
        if reply.status_code >= 400 or not isinstance(body, dict):
            found = body.get("error", {}) if isinstance(body, dict) else {}
            raise CommandError(found.get("message") or f"{self._url}{path}: status {reply.status_code}")
        return body

    async def _find(self, client: httpx2.AsyncClient, mark: str) -> dict[str, Any] | None:
        """Return the newest job of the same command that can still be used."""
        after: dict[str, str] = {}
        while True:
            page = await self._ask(client, "GET", params={"limit": 100, **after})
            for job in page["data"]:
                if job["metadata"].get(_MARK) == mark and job["status"] not in (
                    "failed",
                    "expired",
                    "cancelling",
                    "cancelled",
                ):
                    return dict(job)
            if not page["has_more"]:
                return None
            after = {"after": page["last_id"]}

    async def _send(
        self, client: httpx2.AsyncClient, name: str, data: bytes, options: JobOptions, mark: str
    ) -> dict[str, Any]:
        given = options.model_dump(mode="json", exclude_defaults=True)
        fields = {key: json.dumps(value) if isinstance(value, list) else str(value) for key, value in given.items()}
        fields["metadata"] = json.dumps({_MARK: mark})
        return await self._ask(client, "POST", files={"file": (name, data)}, data=fields)

    async def _follow(self, client: httpx2.AsyncClient, begun: dict[str, Any]) -> dict[str, Any]:
        """Show the progress of a job until it ends; return it. Raises CommandError if it failed."""
        job = begun
        seen, away = "0", 0.0
        while job["status"] not in _ENDED:
            try:
                async for number, news in self._events(client, str(job["id"]), seen):
                    job, seen, away = news, number, 0.0
                    self._bar.show(job["progress"], job["audio_seconds"], job["status"])
            except httpx2.TransportError as error:
                if away > _AWAY:
                    raise CommandError(f"the server is away: {error or type(error).__name__}") from None
            if job["status"] not in _ENDED:
                # The connection was lost, or the server starts anew: the job goes on with it.
                await asyncio.sleep(_AGAIN)
                away += _AGAIN
        from app.cli.book import described

        errors = (job["errors"] or {"data": []})["data"]
        for each in errors:
            print(f"nightingale: {described(each['line'], each['message'])}", file=sys.stderr)
        if job["status"] != "completed":
            raise CommandError(errors[0]["message"] if errors else f"the job is {job['status']}")
        return job

    async def _events(
        self, client: httpx2.AsyncClient, job: str, seen: str
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield the id and the job of each event."""
        headers = {"last-event-id": seen} if seen != "0" else {}
        timeout = httpx2.Timeout(_SILENCE)
        async with client.stream("GET", f"{self._url}/{job}/events", headers=headers, timeout=timeout) as reply:
            if reply.status_code >= 500:
                return  # it is stopping, or starting
            if reply.status_code != 200:
                raise CommandError(f"the job cannot be followed: status {reply.status_code}")
            number = seen
            async for line in reply.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    number = value
                elif field == "data":
                    yield number, json.loads(value)

    async def _fetch(self, client: httpx2.AsyncClient, job: dict[str, Any], output: Path) -> None:
        from app.cli.book import outputs

        urls = {
            file["name"]: f"{self._url}/{job['id']}/files/{file['url'].rpartition('/')[2]}" for file in job["files"]
        }
        for name, place in outputs(list(urls), output):
            partial = place.with_name(place.name + ".partial")
            async with client.stream("GET", urls[name]) as reply:
                if reply.status_code != 200:
                    raise CommandError(f"{urls[name]}: status {reply.status_code}")
                with partial.open("wb") as file:
                    async for piece in reply.aiter_bytes(_PIECE):
                        await asyncio.to_thread(file.write, piece)
            partial.replace(place)
