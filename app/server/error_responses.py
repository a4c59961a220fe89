"""Errors in the shape that each path's clients expect, request ids, and the limit on bodies."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import request_context
from app.errors import (
    BodyTooLargeError,
    DrainingError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    OverloadedError,
    ServiceError,
)
from app.observability import logs, metrics
from app.server.json_route import body_model

log = logging.getLogger("app.requests")

_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
# Not in the value of a header (RFC 9110 section 5.5).
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# Characters of a header that is made from a message.
MAX_HEADER_TEXT = 500
# So many bodies of the largest size may lie in memory at once.
MAX_BODIES = 64


# Paths of LibreTranslate's surface: its clients expect the message alone.
PLAIN_PATHS = frozenset({"/translate", "/detect", "/languages", "/frontend/settings"})
# Beginnings of the paths of ElevenLabs' surface: its clients expect an object named `detail`.
DETAIL_PATHS = ("/v1/text-to-speech/", "/v1/voices", "/v2/voices")

# Deepgram's surface.
SPEAK_PATH = "/v1/speak"


def note_error(code: str | None, status: int) -> None:
    """Count and log that a client is told of an error. Not what it is told: that quotes what it sent."""
    metrics.errors.labels(code or "none").inc()
    logs.event(log, logging.WARNING if status >= 500 else logging.INFO, "told of an error", code=code, status=status)


def header_text(text: str) -> str:
    """`text` as the value of a header: printable ASCII, everything else escaped, and not too long."""
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text[:MAX_HEADER_TEXT])


def error_response(
    error: ServiceError, headers: Mapping[str, str] | None = None, *, path: str | None = None
) -> JSONResponse:
    """Render `error` as OpenAI does, or as LibreTranslate, ElevenLabs and Deepgram do on their paths."""
    note_error(error.code, error.status)
    body = error.body()
    if path is not None and path.startswith(DETAIL_PATHS):
        detail = {"status": error.code, **body}
        return JSONResponse({"detail": detail}, error.status, headers={**error.headers(), **(headers or {})})
    if path == SPEAK_PATH:
        told = {"err_code": error.code.upper(), "err_msg": body["message"], "request_id": body.get("request_id")}
        return JSONResponse(told, error.status, headers={**error.headers(), **(headers or {})})
    shape = body["message"] if path in PLAIN_PATHS else body
    return JSONResponse({"error": shape}, error.status, headers={**error.headers(), **(headers or {})})


def explain(error: RequestValidationError, accepted: Iterable[str] = ()) -> InvalidRequestError:
    """Say in one sentence what is wrong with a request and what is accepted: the names of a body's fields."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    kind, message = first["type"], first["msg"]
    if kind == "json_invalid":
        return InvalidRequestError(f"The body is not valid JSON: {first.get('ctx', {}).get('error', message)}.")
    if kind == "string_unicode" and not where:
        return InvalidRequestError("The name of a parameter is not a valid string.")
    if not where:
        return InvalidRequestError("The body must be a JSON object sent with 'Content-Type: application/json'.")
    name = ".".join(where)
    if kind == "missing":
        return InvalidRequestError(f"Missing required parameter: '{name}'.", param=where[0])
    if kind == "extra_forbidden":
        names = ", ".join(accepted) if len(where) == 1 else ""
        return InvalidRequestError(
            f"Unknown parameter: '{name}'{'; accepted are ' if names else ''}{names}.", param=where[0]
        )
    return InvalidRequestError(f"Invalid '{name}': {message}.", param=where[0])


def _fields(request: Request) -> list[str]:
    """Names of the fields of the body that the path of `request` takes."""
    route = request.scope.get("route")
    model = body_model(route) if isinstance(route, APIRoute) else None
    return [] if model is None else sorted(model.model_fields)


def install(
    app: FastAPI,
    max_body_bytes: int,
    uploads: Mapping[str, int] | None = None,
    guards: Sequence[Middleware] = (),
) -> None:
    """Give every path of `app` these errors and limits. `uploads`: paths with limits of their own, in bytes.

    `guards`, the outermost first, look at a request that has its id and of whose body nothing was read.
    """

    async def on_service_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, ServiceError):
            return await on_crash(request, error)
        # The rest of such a body is not read, so the connection cannot be used again.
        headers = {"connection": "close"} if isinstance(error, BodyTooLargeError) else None
        return error_response(error, headers, path=request.url.path)

    async def on_validation_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            return await on_crash(request, error)
        return error_response(explain(error, _fields(request)), path=request.url.path)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            return await on_crash(request, error)
        path = f"{request.method} {request.url.path[:200]}"
        headers = dict(error.headers or {})
        if error.status_code == 404:
            as_socket = {**request.scope, "type": "websocket"}
            socket = any(route.matches(as_socket)[0] is Match.FULL for route in app.routes)
            hint = " It is a WebSocket: connect to it with ws://." if socket else ""
            return error_response(NotFoundError(f"No such path: {path}.{hint}"), headers, path=request.url.path)
        if error.status_code == 405:
            allowed = headers.pop("Allow", None) or headers.pop("allow", "")
            if "GET" in allowed and "HEAD" not in allowed:
                allowed += ", HEAD"
            headers["allow"] = allowed
            refusal = MethodNotAllowedError(f"{path} is not allowed; accepted: {allowed}.")
            return error_response(refusal, headers, path=request.url.path)
        if error.status_code < 500:
            return error_response(InvalidRequestError(f"{error.detail.rstrip('.')}."), headers, path=request.url.path)
        return await on_crash(request, error)

    async def on_crash(request: Request, error: Exception) -> Response:
        # ServerErrorMiddleware raises the error again afterwards, so the server's log has it in full.
        refusal = ServiceError("An internal error occurred; the server's log has its cause.")
        # This answer is made outside of RequestId.
        request_id = request_context.request_id.get()
        headers = None if request_id is None else {"x-request-id": request_id}
        return error_response(refusal, headers, path=request.url.path)

    _describe_errors(app)
    app.add_exception_handler(ServiceError, on_service_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(Exception, on_crash)
    app.add_middleware(BodyLimit, limit=max_body_bytes, uploads=uploads or {})
    app.user_middleware.append(Middleware(HeadAsGet))
    app.user_middleware[:0] = [Middleware(RequestId), *guards]


def _describe_errors(app: FastAPI) -> None:
    """Say in the OpenAPI description which errors there are: FastAPI's own 422 is never sent."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            for operations in generate()["paths"].values():
                for operation in operations.values():
                    answers = operation["responses"]
                    answers.pop("422", None)
                    for status, blame in (("4XX", "The request cannot be served as it is"), ("5XX", "Not now")):
                        described = {
                            "description": f"{blame}; `message` says why.",
                            "content": {"application/json": {}},
                        }
                        answers.setdefault(status, described)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


# Asked every few seconds by machines: their lines would bury the others.
QUIET_PATHS = frozenset({"/livez", "/readyz", "/metrics", "/dashboard/requests"})


# Also that of a handshake which is refused with a status of HTTP.
_ANSWERS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


def request_id_of(headers: Headers) -> str:
    """The client's own id of its request, when it is one, or a new one."""
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


class RequestId:
    """Answer every request, and every handshake, with `x-request-id`: the client's own, when it is one, or a new one.

    All that is done for the request sees the id, in `app.request_context`. When it ends, the log has its path and
    status.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope)
        request_id = request_id_of(sent)
        # Never taken back: each request runs in a task of its own, and what the server logs of it later is of it, too.
        request_context.request_id.set(request_id)
        request_context.traceparent.set(sent.get("traceparent"))
        start = time.perf_counter()
        status: int | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in _ANSWERS:
                # A handshake's message may come without headers.
                given = message.get("headers", ())
                # A value that was made from what a client sent must not break the answer.
                message["headers"] = [(name, _CONTROL.sub(b" ", value)) for name, value in given]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            status = message.get("status", message.get("code", status))
            await send(message)

        async def receive_noting() -> Message:
            nonlocal status
            message = await receive()
            if message["type"] == "websocket.disconnect" and status is None:
                status = message.get("code")
            return message

        try:
            await self._app(scope, receive_noting, send_with_id)
        except asyncio.CancelledError:
            # The server is shut down while a body still comes: nobody else cancels a request's own task.
            if scope["type"] != "http" or status is not None:
                raise
            refusal = error_response(DrainingError("The server is shutting down."), path=scope["path"])
            await refusal(scope, receive, send_with_id)
        except Exception:
            status = 500
            raise
        finally:
            logs.event(
                log,
                logging.DEBUG if scope["path"] in QUIET_PATHS else logging.INFO,
                "request",
                method=scope.get("method", "WEBSOCKET"),
                path=scope["path"][:200],
                status=status,
                seconds=round(time.perf_counter() - start, 6),
            )


class HeadAsGet:
    """Answer HEAD wherever there is GET (RFC 9110 section 9.3.2): the server keeps the body back."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


class BodyLimit:
    """Read bodies before the application does and refuse those above `limit` bytes with 413.

    All bodies together have a bound, too, above which one is refused with 503. To the paths of `uploads` they are
    handed on as they come, and BodyTooLargeError is raised where one is too long.
    """

    def __init__(self, app: ASGIApp, limit: int, uploads: Mapping[str, int]) -> None:
        self._app = app
        self._limit = limit
        self._uploads = uploads
        # Of bodies that are not whole, in bytes.
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        limit = self._uploads.get(scope["path"], self._limit)
        if declared.isdecimal() and int(declared) > limit:
            await self._refuse(_too_large(limit), scope, receive, send)
            return
        if scope["path"] in self._uploads:
            await self._app(scope, _counted(receive, limit), send)
            return
        body = bytearray()
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                part = message.get("body", b"")
                body += part
                self._held += len(part)
                if len(body) > limit:
                    await self._refuse(_too_large(limit), scope, receive, send)
                    return
                if self._held > limit * MAX_BODIES:
                    await self._refuse(_too_many(), scope, receive, send)
                    return
                if not message.get("more_body", False):
                    break
        finally:
            self._held -= len(body)
        whole: Message = {"type": "http.request", "body": bytes(body), "more_body": False}
        await self._app(scope, again(whole, receive), send)

    async def _refuse(self, error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
        # The rest of the body is not read, so the connection cannot be used again.
        await error_response(error, {"connection": "close"}, path=scope["path"])(scope, receive, send)


def _too_many() -> OverloadedError:
    return OverloadedError("Too many bodies are being received; try again shortly.")


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body is too large; at most {limit} bytes are accepted.")


def again(first: Message, receive: Receive) -> Receive:
    """`receive`, with `first`, which was taken from it, before the rest."""
    taken: Message | None = first

    async def receive_again() -> Message:
        nonlocal taken
        if taken is None:
            return await receive()
        message, taken = taken, None
        return message

    return receive_again


def _counted(receive: Receive, limit: int) -> Receive:
    """`receive`, until more than `limit` bytes of a body came."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise _too_large(limit)
        return message

    return receive_some


def sse_error(error: ServiceError) -> bytes:
    """The last event of a stream of server-sent events that failed."""
    note_error(error.code, error.status)
    return b"data: " + json.dumps({"type": "error", "error": error.body()}).encode() + b"\n\n"
