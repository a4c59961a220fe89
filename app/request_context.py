"""Identity of the request that is served. It is set once, where the request enters, and seen by all its work."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class WaitPreference:
    """Wish of an HTTP request for a model that is not loaded (RFC 7240, preference `wait`).

    `asked`: it wants to wait until the model is loaded, `seconds` at most (None: the server's limit). `applied` are the
    seconds that the server allows; None: no model was asked for.
    """

    asked: bool = False
    seconds: int | None = None
    applied: float | None = None


# None outside of a request.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
# The W3C trace context that the client sent, as received.
traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)
# None outside of a request over HTTP.
wait_preference: ContextVar[WaitPreference | None] = ContextVar("wait_preference", default=None)
