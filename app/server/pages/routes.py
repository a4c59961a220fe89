"""Pages: a playground at `/`, transcription, an interpreter, conversations, a dashboard, the API's description, data.

They are static files without a build step. They load nothing from another server, and the policy in their headers
enforces that.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import TypeAdapter
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.observability import logs
from app.server.state import services
from app.server.streaming.events import INCOMING, Outgoing
from app.text.languages import LANGUAGES
from models.contract import SAMPLING_RANGES

STATIC = Path(__file__).with_name("static")

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'; "
        # Attributes of elements only: no style sheet and no script comes from a page's text.
        "style-src 'self'; style-src-attr 'unsafe-inline'; media-src 'self' blob:"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Revalidated each time by the ETag: pages and server have one version.
    "cache-control": "no-cache",
}

router = APIRouter(include_in_schema=False)


_PAGES = {
    "/": "index.html",
    "/transcribe": "transcribe.html",
    "/interpret": "interpret.html",
    "/talk": "talk.html",
    "/dashboard": "dashboard.html",
    "/docs": "docs.html",
}


def _page(name: str) -> Callable[[], Coroutine[Any, Any, Response]]:
    async def page() -> Response:
        return FileResponse(STATIC / name, media_type="text/html", headers=HEADERS)

    return page


for _path, _name in _PAGES.items():
    router.get(_path)(_page(_name))


@router.get("/dashboard/requests")
async def requests() -> JSONResponse:
    """Return the last requests, newest first, each with the times of its stages. No text, no voice."""
    entries = [{**asdict(entry), "rtf": entry.rtf} for entry in reversed(logs.recent)]
    for entry in entries:
        del entry["traceparent"]
    return JSONResponse({"requests": entries}, headers={"cache-control": "no-store"})


@router.get("/playground/settings")
async def settings(request: Request) -> JSONResponse:
    """Return the properties of this server that the playground needs."""
    own = services(request).settings
    return JSONResponse(
        {
            "languages": [{"tag": language.tag, "name": language.name} for language in LANGUAGES],
            "sampling": SAMPLING_RANGES,
            "max_input_characters": own.max_input_characters,
            "jobs": own.jobs,
            "interruption": own.interruption,
            "llm": own.llm.get("model"),
        }
    )


@router.get("/docs/messages")
async def docs_messages() -> JSONResponse:
    """Describe the messages of `WS /v1/audio/stream` as JSON schemas: OpenAPI has no WebSockets."""
    return JSONResponse({"client": INCOMING.json_schema(), "server": TypeAdapter(Outgoing).json_schema()})


class _Files(StaticFiles):
    def file_response(self, *arguments: object, **named: object) -> Response:
        response = super().file_response(*arguments, **named)  # type: ignore[arg-type]
        response.headers.update(HEADERS)
        return response

    async def get_response(self, path: str, scope: Scope) -> Response:
        # Pages have addresses of their own.
        return await super().get_response("nothing" if path.endswith(".html") else path, scope)


def install(app: FastAPI) -> None:
    """Add the pages to `app`."""
    # Some systems map .js to plain text, which browsers do not run.
    mimetypes.add_type("text/javascript", ".js")
    app.include_router(router)
    app.mount("/web", _Files(directory=STATIC), name="web")
