"""Admission: slots for requests, quotas of keys, and room on the model thread for one more stream.

The surfaces ask one `Admission` for a slot before they serve a request, and watch it to learn that the server drains.

A stream that is played in real time needs a share of the model thread: the real-time factor of its model. That factor
is measured on streams that were spoken to their end: seconds of the thread per second of audio, the newest counting
most. The predicted load is the sum over the streams that speak now. Above `max_load` a further stream is refused
before it makes all of them stutter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from app.errors import DrainingError, OverloadedError, QuotaExceededError
from app.observability import metrics

# Share of the older measurements that stays when a new one is added.
DECAY = 0.9
# Seconds after which a client whose streams are all in use may find one free.
STREAM_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class Client:
    """Name of a request's key, and its limits: characters a minute, streams at once, voices; 0: any number.

    Cloned voices belong to the `name` that made them. An `admin` may load and unload models.
    """

    name: str
    characters_per_minute: int = 0
    streams: int = 0
    voices: int = 0
    admin: bool = False


# The client of the request that is being served; None where no key is needed. Set where a request enters.
client: ContextVar[Client | None] = ContextVar("client", default=None)


def key_name() -> str | None:
    """Return the name of the request's key; None where no key is needed."""
    who = client.get()
    return None if who is None else who.name


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Bucket with `level` of at most `size`, which grows by `rate` a second since `at`.

    An amount above the size is taken from a full bucket, and the level falls below zero. So nothing is too large to
    be let in at some time, and the average rate still holds.
    """

    rate: float
    size: float
    level: float
    at: float

    @classmethod
    def full(cls, rate: float, size: float, now: float) -> TokenBucket:
        """Return a bucket from which nothing was taken."""
        return cls(rate, size, size, now)

    def resized(self, rate: float, size: float) -> TokenBucket:
        """Return the same bucket under another limit."""
        return replace(self, rate=rate, size=size, level=min(self.level, size))

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until `take` may take `amount`; 0: now."""
        return max(0.0, (min(amount, self.size) - self._level(now)) / self.rate)

    def take(self, amount: float, now: float) -> TokenBucket:
        """Return the bucket without `amount`."""
        return replace(self, level=self._level(now) - amount, at=max(self.at, now))

    def _level(self, now: float) -> float:
        return min(self.size, self.level + self.rate * max(0.0, now - self.at))


class RealTimeFactors:
    """Real-time factor of each model: seconds of the model thread per second of audio; 0 before a measurement."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, model: str, busy: float, audio: float) -> None:
        """Add a stream of `audio` seconds that was spoken to its end and kept the thread `busy` for so many seconds."""
        if audio > 0:
            worked, spoken = self._sums.get(model, (0.0, 0.0))
            self._sums[model] = (DECAY * worked + busy, DECAY * spoken + audio)

    def of(self, model: str) -> float:
        """Return the real-time factor of `model`."""
        worked, spoken = self._sums.get(model, (0.0, 1.0))
        return worked / spoken


class Admission:
    """Slots, quotas and predicted load of one server, and whether it drains. All methods run on the event loop.

    `max_load` 0: streams are not bounded by their load. `max_streams` 0: any number of slots.
    """

    def __init__(self, max_load: float = 0.0, max_streams: int = 0) -> None:
        self.factors = RealTimeFactors()
        self._max_load = max_load
        self._max_streams = max_streams
        self._speaking: dict[StreamAdmission, str] = {}
        self._slots = 0
        # Open streams, and the characters that are left, by the names of keys.
        self._streams: dict[str, int] = {}
        self._characters: dict[str, TokenBucket] = {}
        self._draining = asyncio.Event()
        self._aborted = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    # Slots: one for each request or socket.

    @property
    def active(self) -> int:
        """Slots in use."""
        return self._slots

    def admit(self, characters: int = 0) -> Slot:
        """Take a slot, a context whose end gives it back.

        `characters` are those of a text that is paid for at once. A stream pays for its text as it is fed.
        Raises DrainingError, OverloadedError beyond `max_streams`, or QuotaExceededError.
        """
        if self.draining:
            raise DrainingError("The server is shutting down; try again shortly.")
        if self._max_streams and self._slots >= self._max_streams:
            raise OverloadedError(f"{self._slots} streams are being served already; try again shortly.")
        who = client.get()
        self.enter(who)
        try:
            self.charge(who, characters)
        except QuotaExceededError:
            self.leave(who)
            raise
        self._slots += 1
        self._idle.clear()
        metrics.active_streams.set(self._slots)
        taken = Slot(self, who)
        # Never reset, as `client` is not: each request and each socket has a task of its own.
        slot.set(taken)
        return taken

    def release(self, who: Client | None) -> None:
        """Give the slot of `who` back."""
        self.leave(who)
        self._slots -= 1
        metrics.active_streams.set(self._slots)
        if self._slots == 0:
            self._idle.set()

    # The end of the server.

    @property
    def draining(self) -> bool:
        """Whether new work is refused because the server is going down."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Refuse new work from now on, and work that waits for a model to be loaded."""
        self._draining.set()

    async def drained(self) -> None:
        """Wait until new work is refused."""
        await self._draining.wait()

    def abort(self) -> None:
        """Break off every stream: draining took too long."""
        self._aborted.set()

    async def aborted(self) -> None:
        """Wait until streams are to be broken off."""
        await self._aborted.wait()

    async def idle(self) -> None:
        """Wait until no slot is in use."""
        await self._idle.wait()

    # Quotas of keys.

    def enter(self, who: Client | None) -> None:
        """Count a request or a socket of `who`; `leave` ends it. Raises QuotaExceededError."""
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
        """End what `enter` counted."""
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

    def charge_client(self, characters: int) -> None:
        """Take `characters` from the quota of the client that is being served. Raises QuotaExceededError."""
        self.charge(client.get(), characters)

    # Load of the model thread.

    @property
    def load(self) -> float:
        """Share of the model thread that the streams that speak now need."""
        return sum(self.factors.of(model) for model in self._speaking.values())

    def check(self, model: str) -> None:
        """Raise OverloadedError if one stream more of `model` is too much.

        The first one never is: a model that is slower than real time would not speak at all.
        """
        load, needed = self.load, self.factors.of(model)
        if self._max_load and self._speaking and load + needed > self._max_load:
            raise OverloadedError(
                f"The streams being spoken need {load:.2f} of the time there is, and this one {needed:.2f} more, which "
                f"together is more than {self._max_load:g}; try again shortly."
            )

    def open(self, model: str, who: Client | None) -> StreamAdmission:
        """Let one stream more of `model` speak, which `who` pays for. Raises OverloadedError as `check` does."""
        self.check(model)
        admitted = StreamAdmission(self, who)
        self._speaking[admitted] = model
        return admitted

    def open_background(self, who: Client | None) -> StreamAdmission:
        """Let a stream speak to which nobody listens yet, and which `who` pays for. It is no part of the load."""
        return StreamAdmission(self, who)

    @property
    def full(self) -> bool:
        """Whether the live streams need all of the load that is allowed."""
        return bool(self._max_load and self._speaking and self.load >= self._max_load)

    def end(self, admitted: StreamAdmission, busy: float, audio: float, *, whole: bool) -> None:
        """Count a stream no more. One that was not spoken to its end is no measurement."""
        model = self._speaking.pop(admitted, None)
        if model is not None and whole:
            self.factors.add(model, busy, audio)


class Slot:
    """Slot of one request or socket. Its end as a context gives it back, with the models that it holds.

    `ended`: the slot was given back. Work in the background has no `admission`: it only holds models.
    """

    def __init__(self, admission: Admission | None, who: Client | None) -> None:
        self.ended = False
        self._admission = admission
        self._who = who
        self._models: dict[str, Callable[[], None]] = {}

    def __enter__(self) -> None:
        """Hold the slot, which was taken."""

    def __exit__(self, *exception: object) -> None:
        self.ended = True
        models, self._models = self._models, {}
        for release in models.values():
            release()
        if self._admission is not None:
            self._admission.release(self._who)

    def holds(self, model: str) -> bool:
        """Whether the request holds `model`: it is not unloaded before the end of the slot."""
        return model in self._models

    def hold(self, model: str, release: Callable[[], None]) -> None:
        """Note that the request holds `model`; `release` is called at the end of the slot."""
        self._models[model] = release


# The slot of the request or socket that is being served; None where no slot was taken.
slot: ContextVar[Slot | None] = ContextVar("slot", default=None)


@contextmanager
def background() -> Iterator[None]:
    """Hold the models that the work within asks for, as the slot of a request does, but take no slot."""
    taken = Slot(None, None)
    token = slot.set(taken)
    try:
        with taken:
            yield
    finally:
        slot.reset(token)


class StreamAdmission:
    """Admission of one stream. `close` it in the end."""

    def __init__(self, admission: Admission, who: Client | None) -> None:
        self._admission = admission
        self._who = who

    def charge(self, characters: int) -> None:
        """Pay for `characters` to be spoken. Raises QuotaExceededError."""
        self._admission.charge(self._who, characters)

    def close(self, busy: float, audio: float, *, whole: bool) -> None:
        """End the stream, which kept the model thread `busy` for so many seconds, for so many of `audio`.

        `whole`: it was spoken to its end. Later calls change nothing.
        """
        self._admission.end(self, busy, audio, whole=whole)
