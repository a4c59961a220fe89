"""LiveSocket: a SocketLoop whose client sends audio, and is told what is said in it."""

from __future__ import annotations

from abc import abstractmethod

from app.audio.pcm import frames
from app.audio.samples import SampleReader
from app.errors import DrainingError, ServiceError
from app.observability import metrics
from app.recognition.events import LiveEvent
from app.recognition.live import LiveRecognition
from app.server.state import Services
from app.server.streaming.adapter import FRAME
from app.server.streaming.socket import Socket, SocketLoop


class LiveSocket(SocketLoop):
    """Loop of one client that is listened to. A subclass reads the messages, and writes the events.

    `outcome` is how it ended so far, and `live` the recognition; None: there was no audio yet.
    """

    def __init__(self, socket: Socket, app: Services, reader: SampleReader) -> None:
        super().__init__(socket, app)
        self.outcome: metrics.Outcome = "cancelled"
        self.live: LiveRecognition | None = None
        self.finishing = False
        self._reader = reader
        self._draining: DrainingError | None = None

    # The protocol.

    @abstractmethod
    async def send_event(self, event: LiveEvent) -> None:
        """Write what an event says. Raises ServiceError where it ends the socket."""

    async def end(self) -> None:
        """Write what comes after the last event."""

    # The loop.

    @property
    def busy(self) -> bool:
        """Whether the client waits for its last results."""
        return self.finishing

    async def settle(self) -> None:
        """Close once all is told. Raises the error that stopped it."""
        told = self._task is not None or self.finishing
        await super().settle()
        if self._task is not None or not told:
            return
        await self.end()
        self.outcome = "ok"
        if self._draining is not None:
            await self.send_error(self._draining)
            await self.close(self._draining.close_code, self._draining.message)
        await self.close()

    async def drain(self) -> None:
        """Recognize what came, then close."""
        self._draining = DrainingError("The server is shutting down.")
        await self.finish()

    async def fail(self, error: ServiceError) -> None:
        """Tell the client of `error` and close."""
        self.outcome = "failed" if error.status >= 500 else "rejected"
        await super().fail(error)

    async def stop(self) -> None:
        """Tell nothing more, and end the recognition."""
        await super().stop()
        if self.live is not None:
            self.live.close(self.outcome)

    # Audio.

    def listen_by(self, live: LiveRecognition) -> None:
        """Begin to tell the events of a recognition, which `stop` ends."""

        async def tell() -> None:
            async for event in live:
                await self.send_event(event)

        self.live = live
        self.speak(tell)

    async def take(self, data: bytes) -> None:
        """Recognize audio; `listen_by` comes before. Waits while the model is behind, and so does the client."""
        live = self.live
        if live is None:
            raise RuntimeError("there is no recognition yet")
        for piece in frames(data, FRAME):
            with self.throttle.measure():
                samples = self._reader.push(piece)
            await self.unless_gone(live.push(samples))
            await self.throttle.wait()

    async def finish(self) -> None:
        """End the audio: what came is recognized, then the socket closes."""
        self.finishing = True
        if self.live is not None:
            await self.live.finish()
