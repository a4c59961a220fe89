"""Handlers that answer the exceptions of every route, and the description of these answers in OpenAPI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.websockets import WebSocket

from app import request_context
from app.errors import BodyTooLargeError, InvalidRequestError, MethodNotAllowedError, NotFoundError, ServiceError
from app.server import deepgram
from app.server.error_responses import error_response, header_text
from app.server.exchange import body_model, quoted


def install(app: FastAPI) -> None:
    """Give every route of `app` these handlers, and describe their answers."""
    app.exception_handler(ServiceError)(_on_service_error)
    app.exception_handler(RequestValidationError)(_on_validation_error)
    app.exception_handler(HTTPException)(_on_http_exception)
    app.exception_handler(Exception)(_on_crash)
    _describe_errors(app)


async def _on_service_error(request: Request | WebSocket, error: ServiceError) -> Response:
    """Return the answer to a request, or to a handshake, that fails."""
    path, headers = request.url.path, {}
    if isinstance(error, BodyTooLargeError):
        # The rest of such a body is not read, so the connection cannot be used again.
        headers["connection"] = "close"
    elif isinstance(request, WebSocket) and deepgram.SURFACE.has(path):
        headers["dg-error"] = header_text(error.message)
    return error_response(error, headers, path=path)


async def _on_validation_error(request: Request, error: RequestValidationError) -> Response:
    route = request.scope.get("route")
    model = body_model(route) if isinstance(route, APIRoute) else None
    accepted = [] if model is None else sorted(model.model_fields)
    return error_response(explain(quoted(error.errors()[0]), accepted), path=request.url.path)


async def _on_http_exception(request: Request, error: HTTPException) -> Response:
    if error.status_code >= 500:
        return await _on_crash(request, error)
    headers = dict(error.headers or {})
    refusal: InvalidRequestError
    if error.status_code == 404:
        refusal = _no_such_path(request)
    elif error.status_code == 405:
        refusal = _wrong_method(request, headers)
    else:
        refusal = InvalidRequestError(f"{error.detail.rstrip('.')}.")
    return error_response(refusal, headers, path=request.url.path)


async def _on_crash(request: Request, error: Exception) -> Response:
    # ServerErrorMiddleware raises the error again afterwards, so the server's log has it in full.
    refusal = ServiceError("An internal error occurred; the server's log has its cause.")
    # This response is made outside of the middleware RequestId.
    request_id = request_context.request_id.get()
    headers = None if request_id is None else {"x-request-id": request_id}
    return error_response(refusal, headers, path=request.url.path)


def explain(first: Mapping[str, Any], accepted: Iterable[str] = ()) -> InvalidRequestError:
    """Return an error that says in one sentence what is wrong with a request: its `first` error, as pydantic tells it.

    `accepted`: names of the body's fields, which are listed where one is unknown.
    """
    # Of a choice between types pydantic names the one that it tried.
    parts = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    where = [
        part for index, part in enumerate(parts) if not (index and part.startswith(("literal[", "function-after[")))
    ]
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


def _shown(request: Request) -> str:
    return f"{request.method} {request.url.path[:200]}"


def _no_such_path(request: Request) -> NotFoundError:
    as_socket = {**request.scope, "type": "websocket"}
    is_socket = any(route.matches(as_socket)[0] is Match.FULL for route in request.app.routes)
    hint = " It is a WebSocket: connect to it with ws://." if is_socket else ""
    return NotFoundError(f"No such path: {_shown(request)}.{hint}")


def _wrong_method(request: Request, headers: dict[str, str]) -> MethodNotAllowedError:
    """Return the error for status 405, and add HEAD to the header `Allow` of `headers` where GET is allowed."""
    allowed = headers.pop("Allow", None) or headers.pop("allow", "")
    if "GET" in allowed and "HEAD" not in allowed:
        allowed += ", HEAD"
    headers["allow"] = allowed
    return MethodNotAllowedError(f"{_shown(request)} is not allowed; accepted: {allowed}.")


def _describe_errors(app: FastAPI) -> None:
    """Describe the errors in OpenAPI. FastAPI's own 422 is never sent."""
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
