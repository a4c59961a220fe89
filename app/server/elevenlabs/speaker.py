"""Speech of ElevenLabs' contexts: their sets as messages of audio and times, and the messages that end them."""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise

from pydantic import BaseModel

from app.audio.encoders import make_encoder
from app.audio.pcm import frames
from app.errors import NothingToSpeakError, ServiceError
from app.server.audio_response import encode_chunk
from app.server.elevenlabs.alignment import Alignment
from app.server.elevenlabs.context import Context, TextSet
from app.server.elevenlabs.routes import as_eleven
from app.server.elevenlabs.schemas import ElevenLabsOutput, SocketAlignment, SocketError, SocketOutput
from app.server.error_responses import note_error
from app.server.exchange import recorded
from app.speech.stream import SpeechStream
from models.contract import Cancelled

# Bytes of audio in one message. In base64 they are well below the mebibyte at which many clients refuse a message.
CHUNK_BYTES = 98_304


class ContextSpeaker:
    """Speaker of a socket's contexts, which writes each message with `send`.

    `multi`: messages name their context, and an error ends its context alone.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]], output: ElevenLabsOutput, *, multi: bool) -> None:
        self._send = send
        self._output = output
        self._multi = multi

    async def speak(self, context: Context) -> None:
        """Speak the sets of `context` in turn, then send its end. Raises the ServiceError that ends the socket."""
        try:
            while (text_set := await context.sets.get()) is not None:
                context.spoken = text_set
                if not text_set.dropped:
                    await self._speak_set(context, text_set)
                context.spoken = None
                context.end(text_set)
        except ServiceError as error:
            if not self._multi:
                raise
            await self.send_error(error, context.name)
        await self.send_final(context)

    async def _speak_set(self, context: Context, text_set: TextSet) -> None:
        stream = text_set.start()
        try:
            async with recorded(stream, stream.begun):
                await self._send_speech(context, text_set, stream)
        except (Cancelled, NothingToSpeakError):
            # A language model may write a line of dashes, or an emoji.
            return

    async def _send_speech(self, context: Context, text_set: TextSet, stream: SpeechStream) -> None:
        own = stream.speech.synthesizer.sample_rate
        encoder = make_encoder(self._output.format, own, self._output.rate, bit_rate=self._output.bit_rate)
        waiting, since = Alignment("", (), 0.0), 0.0
        async for chunk in stream:
            data = await encode_chunk(encoder, stream, chunk)
            if not waiting.text:
                since = chunk.start
            waiting += text_set.aligner.push(chunk)
            stream.delivered(chunk, sent=bool(data))
            # A codec may hold back all of a short piece. The times of its characters then wait for its audio.
            if data:
                await self._send_audio(context, data, waiting, since)
                waiting = Alignment("", (), 0.0)
        data = await encode_chunk(encoder, stream, None)
        waiting += text_set.aligner.finish()
        if data or waiting.text:
            await self._send_audio(context, data, waiting, waiting.starts[0] if waiting.text else since)

    async def _send_audio(self, context: Context, data: bytes, alignment: Alignment, since: float) -> None:
        times = _in_milliseconds(alignment, since) if alignment.text else None
        for piece in list(frames(data, CHUNK_BYTES)) or [b""]:
            audio = base64.b64encode(piece).decode("ascii")
            await self._send_message(
                SocketOutput(audio=audio, alignment=times, normalizedAlignment=times, contextId=context.name)
            )
            times = None
        context.active_at = time.monotonic()

    async def send_final(self, context: Context) -> None:
        """Send the end of `context`."""
        await self._send_message(SocketOutput(isFinal=True, contextId=context.name))

    async def send_refusal(self, context: Context, error: ServiceError) -> None:
        """Send the error that ends `context`, and its end."""
        await self.send_error(error, context.name)
        await self.send_final(context)

    async def send_error(self, error: ServiceError, name: str | None) -> None:
        """Send an error of the context of that name; None: of the socket."""
        known = as_eleven(error)
        note_error(known.code, known.status)
        message = str(known.body()["message"])
        await self._send_message(SocketError(message=message, error=known.code, code=known.close_code, contextId=name))

    async def _send_message(self, message: BaseModel) -> None:
        without = None if self._multi else {"contextId"}
        await self._send(message.model_dump_json(exclude=without))


def _in_milliseconds(alignment: Alignment, since: float) -> SocketAlignment:
    """Return the times relative to second `since`. The durations add up to the whole: the first has silence before."""
    marks = [0, *(max(0, round((second - since) * 1e3)) for second in (*alignment.starts[1:], alignment.end))]
    durations = [later - earlier for earlier, later in pairwise(marks)]
    return SocketAlignment(chars=list(alignment.text), charStartTimesMs=marks[:-1], charDurationsMs=durations)
