"""Preferences of HTTP requests (RFC 7240): `Prefer: wait` waits for a model that is not loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import request_context
from app.request_context import WaitPreference

# A preference without its parameters: `wait`, `wait=30` or `wait="30"`. Longer numbers are no waits.
_WAIT = re.compile(r'wait(?:\s*=\s*(?:(\d{1,9})|"(\d{1,9})"|""))?', re.IGNORECASE | re.ASCII)


def wait_preference(values: Iterable[str]) -> WaitPreference:
    """Return the preference `wait` of the headers `Prefer`: the first that can be read, as RFC 7240 section 2 says."""
    for preference in ",".join(values).split(","):
        match = _WAIT.fullmatch(preference.partition(";")[0].strip())
        if match is not None:
            number = match.group(1) or match.group(2)
            return WaitPreference(asked=True, seconds=None if number is None else int(number))
    return WaitPreference()


class Preferences:
    """Read `Prefer` of every request, and answer `Preference-Applied` where the request asked for a model."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        preference = wait_preference(Headers(scope=scope).getlist("prefer"))
        # Never reset: each request has a task of its own.
        request_context.wait_preference.set(preference)
        if not preference.asked:
            await self._app(scope, receive, send)
            return

        async def send_applied(message: Message) -> None:
            if message["type"] == "http.response.start" and preference.applied is not None:
                message = {**message, "headers": list(message.get("headers", ()))}
                MutableHeaders(scope=message)["preference-applied"] = f"wait={int(preference.applied)}"
            await send(message)

        await self._app(scope, receive, send_applied)
