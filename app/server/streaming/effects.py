"""Effects of a StreamSession: what a socket must carry out for it, in order."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import ServiceError
from app.server.streaming import events
from app.text.types import Script


@dataclass(frozen=True, slots=True)
class Send:
    """Send an event."""

    message: events.Outgoing


@dataclass(frozen=True, slots=True)
class Prepare:
    """Check the options, then call `ready` or `fail`."""

    start: events.Start


@dataclass(frozen=True, slots=True)
class Speak:
    """Speak `text`, which begins at character `offset` of the set's text.

    `source` is the text that the client sent for it, where that differs. `waited` is the number of seconds that the
    beginning of the text waited for its end. A `script` maps the text to that of the set itself.
    """

    set_id: int
    text: str
    offset: int
    source: str | None = None
    waited: float = 0.0
    script: Script | None = None


@dataclass(frozen=True, slots=True)
class Anticipate:
    """Expect that the next text of the set begins with `text`."""

    set_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Speak nothing more of the set; `error` is the reason."""

    set_id: int
    error: ServiceError


@dataclass(frozen=True, slots=True)
class Finish:
    """End the text of the set."""

    set_id: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop speaking every set, before the next effect is carried out."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket."""

    code: int
    reason: str


Effect = Send | Prepare | Speak | Anticipate | Refuse | Finish | Drop | Close
