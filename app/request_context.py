"""Identity of the request that is served. It is set once, where the request enters, and seen by all its work."""

from contextvars import ContextVar

# None outside of a request.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
# The W3C trace context that the client sent, as received.
traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)
