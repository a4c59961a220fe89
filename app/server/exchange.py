"""Base of the responses that use a model: one request from its admission to its last byte."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.errors import DrainingError, ServiceError
from app.observability import metrics
from app.server.disconnect import ClientGoneError, until_gone
from app.server.error_responses import error_response
from app.server.state import Services
from models.timeline import Timeline

log = logging.getLogger(__name__)


class Exchange(Response, ABC):
    """Response that checks its request, takes a slot, and is cancelled when its client leaves.

    `characters`: length of a text that is paid for when the slot is taken.
    """

    def __init__(self, app: Services, characters: int = 0) -> None:
        super().__init__()
        self.app = app
        self.timeline = Timeline()
        # Whether the client was sent the head of the answer.
        self.started = False
        self._characters = characters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        admission = self.app.admission
        try:
            self.check(Headers(scope=scope))
            admission.admit(self._characters)
        except ServiceError as error:
            await self.reject(error)
            return
        try:
            await until_gone(receive, admission.aborted(), self.serve())
        except ClientGoneError:
            return
        except DrainingError as error:
            if not self.started:
                await self.respond(self.refusal(error))
        finally:
            admission.release()

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
        await self.respond(self.refusal(error))

    async def respond(self, response: Response) -> None:
        """Send a whole response."""
        await response(self._scope, self._receive, self.send)

    async def respond_in_time(self, response: Response) -> None:
        """Send a whole response. Raises TimeoutError when the client reads nothing."""
        async with asyncio.timeout(self.app.settings.stall_seconds):
            await self.respond(response)

    async def send(self, message: Message) -> None:
        """Send one message, and note the head of the answer."""
        self.started = self.started or message["type"] == "http.response.start"
        await self._send(message)


class Closable(Protocol):
    """Computation that is told how its request ended."""

    def close(self, outcome: metrics.Outcome) -> None:
        """End it and record the request."""


S = TypeVar("S", bound=Closable)


class StreamExchange(Exchange, Generic[S]):
    """Exchange whose answer is computed by a stream, which records the outcome of the request."""

    @abstractmethod
    async def prepare(self) -> S:
        """Return the stream that computes the answer. Raises ServiceError for a request that cannot be served."""

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
        outcome: metrics.Outcome = "cancelled"
        try:
            await self.answer(stream)
            outcome = "ok"
            # The last bytes leave when this task pauses: the client need not wait for the records.
            await asyncio.sleep(0)
        except TimeoutError:
            log.info("a client read nothing for %g seconds and was dropped", self.app.settings.stall_seconds)
        except ServiceError as error:
            outcome = "rejected" if error.status < 500 and not self.started else "failed"
            if not self.started:
                await self.respond(self.refusal(error))
                return
            # Returning without the last message makes the server break the connection.
            log.error("an answer broke off after %.2f s: %s", self.timeline.total_seconds, error)
        except Exception:
            outcome = "failed"
            raise
        finally:
            stream.close(outcome)
