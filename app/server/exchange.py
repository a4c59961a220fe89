"""One HTTP request that uses a model: its JSON body, its slot, its outcome, and its end with its client."""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import anyio
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect, WebSocketDisconnected

from app.engine.model_loader import ModelState, Progress
from app.errors import DrainingError, InvalidRequestError, ServiceError
from app.observability import metrics
from app.request_context import wait_preference
from app.server.error_responses import error_response, header_text, sse_error
from app.server.json_values import LARGE
from app.server.schemas import LoadingEvent
from app.server.state import Services
from models.contract import Cancelled
from models.timeline import Timeline

log = logging.getLogger(__name__)

# Errors of a message that are described: each takes memory and time.
MAX_ERRORS: Final = 1_000
# Characters of a name or a value of a client that an error quotes.
QUOTED: Final = 200

T = TypeVar("T")
Waiting = Coroutine[Any, Any, object]


class JsonRoute(APIRoute):
    """Call the endpoint with the request and its body, an instance of the pydantic model that the endpoint names.

    The OpenAPI description and the errors are those of FastAPI's own route.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that reads the body and calls the endpoint."""
        model, endpoint = body_model(self), self.endpoint
        if model is None:
            raise TypeError(f"the endpoint of {self.path} takes no pydantic model")

        async def handle(request: Request) -> Response:
            response: Response = await endpoint(request, read_json(request, await request.body(), model))
            return response

        return handle


def body_model(route: APIRoute) -> type[BaseModel] | None:
    """Return the pydantic model of the body that `route` takes, or None."""
    model = route.body_field.field_info.annotation if route.body_field else None
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def is_json(headers: Headers) -> bool:
    """Whether the headers say that the body is JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def read_json(request: Request, body: bytes, model: type[BaseModel]) -> BaseModel:
    """Return `body` as a `model`.

    Raises InvalidRequestError for a body that is not JSON, or wrong in many ways, RequestValidationError for one that
    does not fit the model.
    """
    if not body or not is_json(request.headers):
        raise InvalidRequestError("The body must be a JSON object sent with 'Content-Type: application/json'.")
    try:
        result = json.loads(body)
    except json.JSONDecodeError as error:
        raise InvalidRequestError(f"The body is not valid JSON: {error.msg}.") from None
    except (ValueError, RecursionError):
        raise InvalidRequestError("There was an error parsing the body.") from None
    try:
        return model.model_validate(result)
    except ValidationError as error:
        raise RequestValidationError([first_error(error)]) from None


async def check_large_body(connection: HTTPConnection) -> None:
    """Refuse a large JSON body by its first error: FastAPI's own routes describe all errors of a body.

    A dependency of every route. Raises as `read_json` does.
    """
    route = connection.scope.get("route")
    if isinstance(connection, Request) and isinstance(route, APIRoute):
        model = body_model(route)
        if model is not None and is_json(connection.headers):
            body = await connection.body()
            if len(body) > LARGE:
                read_json(connection, body, model)


def first_error(error: ValidationError) -> ErrorDetails:
    """Return the first thing that is wrong with a message, `quoted` in short.

    Raises InvalidRequestError for more than MAX_ERRORS: pydantic describes all of them or none.
    """
    if error.error_count() > MAX_ERRORS:
        raise InvalidRequestError(f"There are {error.error_count()} parameters or values that are not accepted.")
    return quoted(error.errors(include_url=False, include_input=False)[0])


def quoted(first: T) -> T:
    """Return what pydantic says of an error with at most some QUOTED characters of what the client sent."""
    details = cast("dict[str, Any]", first)
    names = tuple(part[:QUOTED] if isinstance(part, str) else part for part in details["loc"])
    text = details["msg"]
    text = text if len(text) <= 2 * QUOTED else f"{text[:QUOTED]}… {text[-QUOTED:]}"
    return cast("T", {**details, "loc": names, "msg": text})


class ClientGoneError(Exception):
    """Raised when the client closed its connection."""


async def until_gone(receive: Receive, aborted: Waiting, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, and cancel it when the client disconnects or `aborted` ends.

    Work that is done in the same moment counts as done.
    Raises ClientGoneError when the client disconnects, DrainingError when `aborted` ends.
    """

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return await run_until(disconnected(), aborted, work)


async def run_until(gone: Waiting, aborted: Waiting, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, and cancel it when `gone` or `aborted` ends.

    `work` runs in the task of the caller. If it is done in the same moment, its result counts.
    Raises ClientGoneError when `gone` ends, DrainingError when `aborted` ends.
    """
    ended: list[Waiting] = []
    failure: Exception | None = None

    async def watch(waiting: Waiting) -> None:
        # A connection that cannot be read is gone.
        with suppress(Exception):
            await waiting
        ended.append(waiting)
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for waiting in (gone, aborted):
                group.start_soon(watch, waiting)
            try:
                return await work
            except Exception as error:
                # Raised below: the group would put it into an ExceptionGroup.
                failure = error
            finally:
                group.cancel_scope.cancel()
        if failure is not None:
            try:
                raise failure
            finally:
                failure = None  # the error has this frame
        raise DrainingError("The server is shutting down.") if ended[0] is aborted else ClientGoneError
    finally:
        for waiting in (gone, aborted):
            # One that never began to wait would warn.
            waiting.close()


class Closable(Protocol):
    """Computation that is told how its request ended."""

    def close(self, outcome: metrics.Outcome) -> None:
        """End it and record the request."""


# Errors of a client that left, or reads nothing. WebSocketDisconnected: the write of another task noticed it first.
GONE = (ClientGoneError, WebSocketDisconnect, WebSocketDisconnected, OSError)


@asynccontextmanager
async def recorded(stream: Closable, started: Callable[[], bool]) -> AsyncIterator[None]:
    """Close `stream` at the end of the block, with the outcome of the block. Errors pass through.

    A client that left cancelled the request. A request that is at fault is rejected, unless its answer was `started`.
    """
    outcome: metrics.Outcome = "failed"
    try:
        yield
    except (asyncio.CancelledError, Cancelled, *GONE):
        outcome = "cancelled"
        raise
    except ServiceError as error:
        if error.status < 500 and not started():
            outcome = "rejected"
        raise
    else:
        outcome = "ok"
        # The last bytes leave when this task pauses: the client need not wait for the records.
        await asyncio.sleep(0)
    finally:
        stream.close(outcome)


class Exchange(Response, ABC):
    """Response that checks its request, takes a slot, and is cancelled when its client leaves.

    `characters`: length of a text that is paid for when the slot is taken.
    """

    streams_events = False  # whether the answer is a stream of server-sent events

    def __init__(self, app: Services, characters: int = 0) -> None:
        super().__init__()
        self.app = app
        self.timeline = Timeline()
        # Whether the client was sent the head of the answer.
        self.started = False
        # Parts of the request that change nothing, for the header `x-ignored`.
        self.ignored: tuple[str, ...] = ()
        self._characters = characters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        admission = self.app.admission
        try:
            self.check(Headers(scope=scope))
            slot = admission.admit(self._characters)
        except ServiceError as error:
            await self.reject(error)
            return
        with slot:
            try:
                await until_gone(receive, admission.aborted(), self.serve())
            except ClientGoneError:
                pass
            except DrainingError as error:
                with suppress(TimeoutError):
                    async with asyncio.timeout(FAREWELL_SECONDS):
                        await self.send_error(error)

    def check(self, headers: Headers) -> None:
        """Raise ServiceError for a request that is refused before it takes a slot."""

    @abstractmethod
    async def serve(self) -> None:
        """Compute and send the answer, or tell the error that stopped it."""

    def refusal(self, error: ServiceError) -> Response:
        """Return the answer to a request that fails before its first byte."""
        return error_response(error, path=self._scope["path"])

    def note_rejected(self) -> None:
        """Count a request that is refused before anything is computed."""

    async def reject(self, error: ServiceError) -> None:
        """Refuse the request before anything is computed."""
        self.note_rejected()
        await self.send_error(error)

    async def send_error(self, error: ServiceError) -> None:
        """Send the error that ends the request. Audio that has begun only breaks off, without its last message."""
        if not self.started:
            await self.respond(self.refusal(error))
        elif self.streams_events:
            with suppress(TimeoutError):  # the client reads nothing
                await self.send_part(sse_error(error))

    async def respond(self, response: Response) -> None:
        """Send a whole response."""
        await response(self._scope, self._receive, self.send)

    async def respond_in_time(self, response: Response) -> None:
        """Send a whole response. Raises TimeoutError when the client reads nothing."""
        async with asyncio.timeout(self.app.settings.stall_seconds):
            await self.respond(response)

    async def send(self, message: Message) -> None:
        """Send one message. The head of the answer names what is ignored."""
        if message["type"] == "http.response.start":
            self.started = True
            if self.ignored:
                ignored = header_text(", ".join(self.ignored)).encode()
                message = {**message, "headers": [*message["headers"], (b"x-ignored", ignored)]}
        await self._send(message)

    async def send_part(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of a body whose head was sent; not `more`: the last."""
        await self._send_in_time({"type": "http.response.body", "body": data, "more_body": more})

    async def _send_in_time(self, message: Message) -> None:
        """Send one message. Raises TimeoutError when the client reads nothing: it must not hold its slot."""
        async with asyncio.timeout(self.app.settings.stall_seconds):
            await self.send(message)


S = TypeVar("S", bound=Closable)
# Seconds in which a client is told that the server breaks off. Soon after, the server cancels what still writes.
FAREWELL_SECONDS: Final = 0.5
# Seconds without an event after which a comment is sent: some clients wait for 5 seconds.
COMMENT_SECONDS: Final = 2.0


_END: Final = object()  # end of an iteration


class StreamExchange(Exchange, Generic[S]):
    """Exchange whose answer is computed by a stream, which records the outcome of the request."""

    @abstractmethod
    async def prepare(self) -> S:
        """Return the stream that computes the answer. Raises ServiceError for a request that cannot be served."""

    def progress(self) -> Progress | None:
        """Return the function that tells the client how far a load is; None: the request did not ask to wait for it."""
        preference = wait_preference.get()
        return self._send_loading if self.streams_events and preference is not None and preference.asked else None

    async def _send_loading(self, state: ModelState) -> None:
        done, total = (0, None) if state.step is None else (state.step.done, state.step.total)
        await self.send_event(LoadingEvent(model=state.name, done=done, total=total).model_dump_json())

    async def send(self, message: Message) -> None:
        """Send one message. The head of the answer went with the first event, if the client was told of a load."""
        if not (self.started and message["type"] == "http.response.start"):
            await super().send(message)

    async def send_event(self, data: str) -> None:
        """Send one server-sent event, and the head of the answer before the first."""
        await self._send_event_bytes(b"data: " + data.encode() + b"\n\n")

    async def with_comments(self, items: AsyncIterable[T]) -> AsyncGenerator[T]:
        """Yield `items`. While one is computed, send comments between events: some clients take silence for an end."""
        iterator = aiter(items)
        waiting = asyncio.ensure_future(anext(iterator, _END))
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=COMMENT_SECONDS)
                if not done:
                    await self._send_event_bytes(b": \n\n")
                    continue
                item = waiting.result()
                if item is _END:
                    return
                yield cast("T", item)
                waiting = asyncio.ensure_future(anext(iterator, _END))
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})

    async def _send_event_bytes(self, event: bytes) -> None:
        if not self.started:
            headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-store"),
                (b"server-timing", self.timeline.server_timing().encode("latin-1")),
            ]
            await self._send_in_time({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send_part(event)

    @abstractmethod
    async def answer(self, stream: S) -> None:
        """Send what `stream` computes. Raises what stops it, ServiceError or TimeoutError."""

    async def serve(self) -> None:
        """Prepare the stream, send its answer, and record the outcome."""
        try:
            stream = await self.prepare()
        except ServiceError as error:
            await self.reject(error)
            return
        except TimeoutError:
            log.info("a client read nothing for %g seconds and was dropped", self.app.settings.stall_seconds)
            return
        try:
            async with recorded(stream, lambda: self.started):
                await self.answer(stream)
        except TimeoutError:
            log.info("a client read nothing for %g seconds and was dropped", self.app.settings.stall_seconds)
        except ServiceError as error:
            if self.started:
                log.error("an answer broke off after %.2f s: %s", self.timeline.total_seconds, error)
            await self.send_error(error)
