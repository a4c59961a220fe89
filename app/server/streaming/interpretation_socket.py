"""InterpretationSocket: the loop of a client who speaks and hears a translation, whatever the protocol."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from app.audio.encoders import Format, StreamEncoder, make_encoder
from app.audio.samples import SampleCoding, SampleReader
from app.audio.vad import SAMPLE_RATE
from app.engine.model_loader import ModelState
from app.errors import DrainingError, ProtocolError
from app.interpretation.events import Event, SpeechPart
from app.interpretation.options import InterpretationOptions, PreparedInterpretation
from app.interpretation.session import Interpretation
from app.server.audio_response import encode_chunk
from app.server.exchange import recorded
from app.server.state import Services
from app.server.streaming.inbox import SocketClosedError
from app.server.streaming.socket import Socket, SocketLoop
from app.speech.stream import SpeechStream

T = TypeVar("T")


@dataclass(slots=True)
class _Voice:
    """Encoder of the sentence that is being sent."""

    number: int
    stream: SpeechStream
    encoder: StreamEncoder


class InterpretationSocket(SocketLoop):
    """Socket of one client. A subclass reads its frames, and writes events; it calls `open` first."""

    def __init__(self, socket: Socket, app: Services) -> None:
        super().__init__(socket, app)
        self.interpretation: Interpretation | None = None
        self.format: Format = "pcm"
        # Hz of the audio that goes.
        self.rate = 0
        self._reader = SampleReader("pcm16", SAMPLE_RATE, SAMPLE_RATE)
        self._voice: _Voice | None = None
        self._ending = False
        self._drained = False

    # The protocol.

    @abstractmethod
    async def send_event(self, event: Event) -> None:
        """Write an event of the interpretation."""

    @abstractmethod
    async def send_end(self) -> None:
        """Write that everything is interpreted."""

    async def send_loading(self, state: ModelState) -> None:
        """Write that a model is being loaded."""

    # Parts of every protocol.

    async def prepare_interpretation(self, options: InterpretationOptions) -> PreparedInterpretation:
        """Return the checked options. Raises what `InterpretationService.prepare` raises, and OverloadedError."""
        prepared = await self.unless_gone(self.app.interpretation.prepare(options, self.send_loading))
        self.app.admission.check(prepared.speech.model)
        return prepared

    async def open(
        self, prepared: PreparedInterpretation, input_rate: int, coding: SampleCoding = "pcm16"
    ) -> Interpretation:
        """Open the session of audio at `input_rate` Hz; its events are written once `begin_sending` is called."""
        opened = await self.unless_gone(self.app.interpretation.open(prepared, self.surface, self.send_loading))
        self.interpretation = opened
        self._reader = SampleReader(coding, input_rate, SAMPLE_RATE)
        return opened

    def begin_sending(self, interpretation: Interpretation) -> None:
        """Write the events from now on."""
        self.speak(partial(self._send_events, interpretation))

    async def push(self, data: bytes) -> None:
        """Take bytes of samples. Waits while enough of them are not recognized yet.

        Raises ProtocolError before the session is open, and after its end was asked for.
        """
        interpretation = self.opened()
        if self._ending:
            raise ProtocolError("No audio is accepted after the end of the session was asked for.")
        with self.throttle.measure():
            pcm = self._reader.push(data)
        if pcm.size:
            await self.unless_over(interpretation.push(pcm))
        await self.throttle.wait()

    def opened(self) -> Interpretation:
        """Return the session. Raises ProtocolError before it is open."""
        if self.interpretation is None:
            raise ProtocolError("The session has not started yet.")
        return self.interpretation

    async def finish(self) -> None:
        """End the audio: the rest is interpreted, then `send_end` is called and the socket is closed."""
        interpretation = self.opened()
        if not self._ending:
            self._ending = True
            tail = self._reader.push(b"", last=True)
            if tail.size:
                await self.unless_over(interpretation.push(tail))
            await self.unless_over(interpretation.finish())

    async def unless_over(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, unless the client leaves or the session ends first.

        Raises the error that ends it, or ClientGoneError.
        """
        working = asyncio.ensure_future(self.unless_gone(work))
        try:
            await asyncio.wait({working, *self.speaking()}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await self.settle()
                raise SocketClosedError
            return working.result()
        finally:
            working.cancel()

    async def _send_events(self, interpretation: Interpretation) -> None:
        begun = False
        async with recorded(interpretation, lambda: begun):
            async for event in interpretation:
                await self.send_event(event)
                begun = True
        if self._drained:
            await self.fail(DrainingError("The server is shutting down."))
        await self.send_end()
        await self.close()

    # Audio out: each sentence is one stream of the format.

    async def encode(self, part: SpeechPart) -> bytes:
        """Return the bytes of a part that are ready; they may be empty while a codec holds them."""
        voice = self._voice
        if voice is None or voice.number != part.number:
            own = part.stream.speech.synthesizer.sample_rate
            voice = self._voice = _Voice(part.number, part.stream, make_encoder(self.format, own, self.rate))
        return await encode_chunk(voice.encoder, part.stream, part.chunk)

    async def encode_end(self, number: int) -> bytes:
        """Return the rest of a sentence's bytes."""
        voice, self._voice = self._voice, None
        if voice is None or voice.number != number:
            return b""
        return await encode_chunk(voice.encoder, voice.stream, None)

    # The loop.

    @property
    def busy(self) -> bool:
        """Whether the rest is being interpreted."""
        return self._ending

    async def drain(self) -> None:
        """Interpret what was said, then close."""
        self._drained = True
        if self.interpretation is None:
            raise DrainingError("The server is shutting down.")
        await self.finish()

    async def stop(self) -> None:
        """Drop everything. When this returns, nothing more is written."""
        if self.interpretation is not None:
            self.interpretation.close("cancelled")
        await super().stop()
