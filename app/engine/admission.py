"""Who is let in: quotas of keys, and the room that the model thread has for one stream more. Values; no I/O, no clock.

A stream that is played in real time needs as much of the model thread as its model's real-time factor says. That is
measured on what was spoken to its end: seconds of the thread per second of audio, the newest counting most. The
predicted load is the sum over the streams that are speaking; above `max_load` another one is refused before it makes
all of them stutter.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, replace

from app.errors import OverloadedError, QuotaExceededError

# Of the older measurements that much is kept with each new one.
DECAY = 0.9
# After so many seconds a client whose streams are all in use may find one free.
STREAM_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class Client:
    """Name of a request's key, and its limits: characters a minute, streams at once, voices; 0: any number.

    `name` also says whose the voices are.
    """

    name: str
    characters_per_minute: int = 0
    streams: int = 0
    voices: int = 0


# Of the request that is being served; None where no key is needed. Set where a request enters.
client: ContextVar[Client | None] = ContextVar("client", default=None)


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """`level` of at most `size`, growing by `rate` a second since `at`.

    What is more than the size is taken from a full bucket, whose level then lies below zero: nothing is too large to
    ever be let in, and the average holds all the same.
    """

    rate: float
    size: float
    level: float
    at: float

    @classmethod
    def full(cls, rate: float, size: float, now: float) -> TokenBucket:
        """A bucket nothing was taken from."""
        return cls(rate, size, size, now)

    def resized(self, rate: float, size: float) -> TokenBucket:
        """The same bucket under another limit."""
        return replace(self, rate=rate, size=size, level=min(self.level, size))

    def wait(self, amount: float, now: float) -> float:
        """Seconds until `take` may take `amount`; 0: now."""
        return max(0.0, (min(amount, self.size) - self._level(now)) / self.rate)

    def take(self, amount: float, now: float) -> TokenBucket:
        """The bucket without `amount`."""
        return replace(self, level=self._level(now) - amount, at=max(self.at, now))

    def _level(self, now: float) -> float:
        return min(self.size, self.level + self.rate * max(0.0, now - self.at))


class Paces:
    """Real-time factor of each model: seconds of the model thread per second of audio; 0 while nothing is measured."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, model: str, busy: float, audio: float) -> None:
        """A stream of `audio` seconds was spoken to its end and kept the thread `busy` for so many seconds."""
        if audio > 0:
            worked, spoken = self._sums.get(model, (0.0, 0.0))
            self._sums[model] = (DECAY * worked + busy, DECAY * spoken + audio)

    def of(self, model: str) -> float:
        """The real-time factor of `model`."""
        worked, spoken = self._sums.get(model, (0.0, 1.0))
        return worked / spoken


class Admission:
    """Counts what is let in. All methods on the event loop. `max_load` 0: streams are not bounded by their load."""

    def __init__(self, max_load: float = 0.0) -> None:
        self.paces = Paces()
        self._max_load = max_load
        self._speaking: dict[Ticket, str] = {}
        # By the names of keys: what their clients have open, and what they may still say.
        self._streams: dict[str, int] = {}
        self._characters: dict[str, TokenBucket] = {}

    @property
    def load(self) -> float:
        """Share of the model thread that the streams that are speaking need."""
        return sum(self.paces.of(model) for model in self._speaking.values())

    def enter(self, who: Client | None) -> None:
        """A request or a socket of `who` begins; `leave` ends it. Raises QuotaExceededError."""
        if who is None:
            return
        open_ = self._streams.get(who.name, 0)
        if who.streams and open_ >= who.streams:
            raise QuotaExceededError(
                f"This key has {open_} streams open already; it may have {who.streams} at once.",
                retry_after=STREAM_RETRY,
            )
        self._streams[who.name] = open_ + 1

    def leave(self, who: Client | None) -> None:
        """The counterpart of `enter`."""
        if who is not None:
            self._streams[who.name] -= 1
            if not self._streams[who.name]:
                del self._streams[who.name]

    def charge(self, who: Client | None, characters: int, now: float | None = None) -> None:
        """Take `characters` from the quota of `who` at `now` (monotonic), or raise QuotaExceededError."""
        if who is None or not who.characters_per_minute or not characters:
            return
        now = time.monotonic() if now is None else now
        size = float(who.characters_per_minute)
        bucket = self._characters.get(who.name) or TokenBucket.full(size / 60, size, now)
        bucket = bucket.resized(size / 60, size)
        wait = bucket.wait(characters, now)
        if wait > 0:
            raise QuotaExceededError(
                f"This key may have {who.characters_per_minute} characters a minute spoken or translated; "
                f"try again in {wait:.1f} seconds.",
                retry_after=wait,
            )
        self._characters[who.name] = bucket.take(characters, now)

    def check(self, model: str) -> None:
        """Raise OverloadedError if one stream more of `model` is too much.

        The first one never is: a model that is slower than real time would not speak at all.
        """
        load, needed = self.load, self.paces.of(model)
        if self._max_load and self._speaking and load + needed > self._max_load:
            raise OverloadedError(
                f"The streams being spoken need {load:.2f} of the time there is, and this one {needed:.2f} more, which "
                f"together is more than {self._max_load:g}; try again shortly."
            )

    def open(self, model: str, who: Client | None) -> Ticket:
        """A stream of `model` begins to speak for `who`. Its `charge` refuses where `check` would have."""
        try:
            self.check(model)
        except OverloadedError as error:
            return Ticket(self, who, error)
        ticket = Ticket(self, who)
        self._speaking[ticket] = model
        return ticket

    def end(self, ticket: Ticket, busy: float, audio: float, *, whole: bool) -> None:
        """A stream does not speak any more. What was not spoken to its end is no measurement."""
        model = self._speaking.pop(ticket, None)
        if model is not None and whole:
            self.paces.add(model, busy, audio)


class Ticket:
    """What one stream was let in with. `close` it in the end."""

    def __init__(self, admission: Admission, who: Client | None, refused: OverloadedError | None = None) -> None:
        self._admission = admission
        self._who = who
        self._refused = refused

    def charge(self, characters: int) -> None:
        """So many characters are to be spoken. Raises OverloadedError and QuotaExceededError."""
        if self._refused is not None:
            raise self._refused
        self._admission.charge(self._who, characters)

    def close(self, busy: float, audio: float, *, whole: bool) -> None:
        """The stream ended: it kept the model thread `busy` for so many seconds, for so many of `audio`.

        `whole`: it was spoken to its end. Later calls change nothing.
        """
        self._admission.end(self, busy, audio, whole=whole)
