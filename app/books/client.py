"""A book made by a server: send the document, follow the job, fetch its files. A lost connection is made again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2

from app.cli.command import CommandError
from app.cli.interrupt import shielded
from app.cli.lexicon import LexiconFile
from app.cli.server_client import ServerClient, ServerError

if TYPE_CHECKING:
    from app.books.command import Bar
    from app.books.types import JobOptions

_JOBS: Final = "/v1/jobs"
_LEXICONS: Final = "/v1/lexicons"
# Name of the metadata by which a job is found again.
_MARK: Final = "nightingale_book"
# Seconds without a byte after which a connection counts as lost; the server sends something more often.
_SILENCE: Final = 30.0
# Seconds between two attempts, and for which a server that is away is tried.
_AGAIN: Final = 2.0
_AWAY: Final = 600.0
_ENDED: Final = ("completed", "failed", "expired", "cancelled")
_CHUNK_BYTES: Final = 1 << 16


class BookClient:
    """Client of one server for one book."""

    def __init__(self, client: ServerClient, bar: Bar, lexicons: Sequence[str | LexiconFile] = ()) -> None:
        self._client = client
        self._bar = bar
        self._lexicons = lexicons

    async def make(self, name: str, data: bytes, options: JobOptions, output: Path) -> None:
        """Write the book to `output`. Interrupted, it cancels the job. Raises CommandError and OSError.

        Args:
            name: name of the document.
            data: the document.
            options: options of the job.
            output: place of the book.
        """
        from app.books.command import fingerprint

        try:
            async with self._client:
                options = options.model_copy(update={"lexicons": await self._keep_lexicons()})
                mark = fingerprint(name, data, options)  # by which a job that an earlier command left is found
                job = await self._find(mark) or await self._send(name, data, options, mark)
                try:
                    job = await self._follow(job)
                except asyncio.CancelledError:
                    await shielded(self._ask("POST", f"/{job['id']}/cancel"))
                    print("\nnightingale: the job is cancelled", file=sys.stderr)
                    raise
                await self._fetch(job, output)
                await self._ask("DELETE", f"/{job['id']}")
        except ServerError as error:
            raise CommandError(str(error)) from None
        finally:
            self._bar.close()

    async def _ask(self, method: str, path: str = "", **sent: Any) -> dict[str, Any]:
        return await self._client.ask(method, _JOBS + path, **sent)

    async def _find(self, mark: str) -> dict[str, Any] | None:
        """Return the newest job of the same command that can still be used."""
        after: dict[str, str] = {}
        while True:
            page = await self._ask("GET", params={"limit": 100, **after})
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

    async def _keep_lexicons(self) -> tuple[str, ...]:
        """Return the ids of the lexicons. A file that the server does not have yet is uploaded."""
        if not self._lexicons:
            return ()
        listed = await self._client.ask("GET", _LEXICONS)
        known = {each["name"]: each["id"] for each in listed["data"]}
        for each in self._lexicons:
            if isinstance(each, LexiconFile) and each.name not in known:
                files = {"file": (each.path.name, each.data)}
                made = await self._client.ask("POST", _LEXICONS, files=files, data={"name": each.name})
                known[each.name] = made["id"]
        return tuple(known[each.name] if isinstance(each, LexiconFile) else each for each in self._lexicons)

    async def _send(self, name: str, data: bytes, options: JobOptions, mark: str) -> dict[str, Any]:
        given = options.model_dump(mode="json", exclude_defaults=True)
        fields = {key: json.dumps(value) if isinstance(value, list) else str(value) for key, value in given.items()}
        fields["metadata"] = json.dumps({_MARK: mark})
        return await self._ask("POST", files={"file": (name, data)}, data=fields)

    async def _follow(self, begun: dict[str, Any]) -> dict[str, Any]:
        """Show the progress of a job until it ends; return it. Raises CommandError if it failed."""
        job = begun
        seen, away = "0", 0.0
        while job["status"] not in _ENDED:
            try:
                async for number, news in self._events(str(job["id"]), seen):
                    job, seen, away = news, number, 0.0
                    self._bar.show(job["progress"], job["audio_seconds"], job["status"])
            except ServerError as error:
                # A server that stops or starts answers 503, or not at all.
                if away > _AWAY or (error.status is not None and error.status < 500):
                    raise
            if job["status"] not in _ENDED:
                # The connection was lost, or the server starts anew: the job goes on with it.
                await asyncio.sleep(_AGAIN)
                away += _AGAIN
        from app.books.command import described

        for warning in job.get("warnings", []):
            print(f"nightingale: {warning}", file=sys.stderr)
        errors = (job["errors"] or {"data": []})["data"]
        for each in errors:
            print(f"nightingale: {described(each['line'], each['message'])}", file=sys.stderr)
        if job["status"] != "completed":
            raise CommandError(errors[0]["message"] if errors else f"the job is {job['status']}")
        return job

    async def _events(self, job: str, seen: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield the id and the job of each event. Raises ServerError."""
        headers = {"last-event-id": seen} if seen != "0" else {}
        asked = self._client.stream("GET", f"{_JOBS}/{job}/events", headers=headers, timeout=httpx2.Timeout(_SILENCE))
        async with asked as reply:
            number = seen
            async for line in reply.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    number = value
                elif field == "data":
                    yield number, json.loads(value)

    async def _fetch(self, job: dict[str, Any], output: Path) -> None:
        from app.books.command import outputs

        paths = {file["name"]: f"{_JOBS}/{job['id']}/files/{file['url'].rpartition('/')[2]}" for file in job["files"]}
        for name, place in outputs(list(paths), output):
            partial = place.with_name(place.name + ".partial")
            async with self._client.stream("GET", paths[name]) as reply:
                with partial.open("wb") as file:
                    async for piece in reply.aiter_bytes(_CHUNK_BYTES):
                        await asyncio.to_thread(file.write, piece)
            partial.replace(place)
