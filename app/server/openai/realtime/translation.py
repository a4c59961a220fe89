"""OpenAI's `WS /v1/realtime/translations`: speech in as it is spoken, its translation out as text and speech.

Text only grows. Positions are milliseconds of the audio that came, in steps of a frame of 200. An error of the client
is an `error` event, and the session stays open. One that ends the session is followed by a close.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any, Final

from app.errors import InvalidRequestError, ProtocolError, ServiceError
from app.interpretation.events import Event, Sentence, SentenceDone, SpeechPart, TranslatedPart
from app.interpretation.options import InterpretationOptions, PreparedInterpretation
from app.interpretation.session import Interpretation
from app.observability import metrics
from app.recognition.events import LiveHypothesis, LiveUtterance, UtteranceFailed
from app.recognition.languages import spaces_sentences
from app.server.openai.realtime.dispatch import carry_out
from app.server.openai.realtime.events import new_id, read_audio, write_error, write_event
from app.server.openai.realtime.translation_config import TranslationConfig
from app.server.state import Services
from app.server.streaming.interpretation_socket import InterpretationSocket
from app.server.streaming.socket import Socket
from app.translation.text import codes

RATE: Final = 24_000
FRAME_MS: Final = 200


class TranslationSocket(InterpretationSocket):
    """Socket of one translation session. `choose` makes options of its configuration."""

    surface: metrics.SurfaceName = "realtime"

    def __init__(
        self,
        socket: Socket,
        app: Services,
        config: TranslationConfig,
        choose: Callable[[TranslationConfig], InterpretationOptions],
    ) -> None:
        super().__init__(socket, app)
        self.rate = RATE
        self._config = config
        self._choose = choose
        self._id = new_id("sess")
        self._expires_at = round(time.time() + app.settings.session_seconds)
        self._prepared: PreparedInterpretation | None = None
        # Text of the utterance that was sent, and whether an utterance or a sentence came before.
        self._sent = ""
        self._item = 0
        self._source_begun = self._target_begun = False
        # Ends of the sentences that are not translated to their end.
        self._ends: dict[int, float] = {}
        self._handlers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "session.update": self._update,
            "session.input_audio_buffer.append": self._append,
            "session.close": self._close,
        }

    # Events of the client.

    async def begin(self) -> None:
        """Check the configuration, and tell it. Raises ServiceError."""
        self._prepared = await self.prepare_interpretation(self._choose(self._config))
        # The models are loaded before the client is told to speak.
        await self.unless_gone(self.app.recognition.model(self._prepared.options.recognition_model))
        await self.send(write_event("session.created", session=self._session()))

    async def receive(self, frame: str | bytes) -> None:
        """Carry out an event. Raises ServiceError where it ends the session."""
        await carry_out(self, frame, self._handlers, "translation")

    async def _update(self, event: dict[str, Any]) -> None:
        fields = event.get("session")
        if not isinstance(fields, dict):
            raise ProtocolError("'session' must be a JSON object.", param="session")
        config = self._config.changed(fields)
        if config.audio.output != self._config.audio.output:
            self._prepared = await self.prepare_interpretation(self._choose(config))
            if self.interpretation is not None:
                self.interpretation.retarget(self._prepared)
        self._config = config
        await self.send(write_event("session.updated", session=self._session()))

    async def _append(self, event: dict[str, Any]) -> None:
        with self.throttle.measure():
            data = read_audio(event)
        await self._begun()
        await self.push(data)

    async def _close(self, event: dict[str, Any]) -> None:
        await self._begun()
        await self.finish()

    async def _begun(self) -> Interpretation:
        """Return the session. Its first audio opens it."""
        if self.interpretation is None:
            if self._prepared is None:
                raise InvalidRequestError("The session has not begun.")
            self.begin_sending(await self.open(self._prepared, RATE))
        return self.opened()

    def _session(self) -> dict[str, Any]:
        return {"id": self._id, "expires_at": self._expires_at, **self._config.shown()}

    # Events of the server.

    async def send_event(self, event: Event) -> None:
        """Write an event, if the protocol has one for it."""
        match event:
            case LiveHypothesis(item=item, committed=text, end=end):
                await self._tell_source(item, text, end, None)
            case LiveUtterance(item=item, text=text, end=end, language=language):
                await self._tell_source(item, text, end, language)
            case UtteranceFailed(error=error):
                await self.send(write_error(error))
            case Sentence(number=number, end=end):
                self._ends[number] = end
            case TranslatedPart(number=number, text=text):
                await self._tell_target(number, text)
            case SpeechPart():
                data = await self.encode(event)
                self.opened().delivered(event, sent=bool(data))
                await self._tell_audio(data, event.start)
            case SentenceDone(number=number, error=error):
                await self._tell_audio(await self.encode_end(number), self._ends.pop(number, 0.0))
                if error is not None:
                    await self.send(write_error(error))

    async def _tell_source(self, item: int, text: str, end: float, language: str | None) -> None:
        if item != self._item:
            self._item, self._sent = item, ""
        more, first = text[len(self._sent) :], not self._sent
        if not more or self._config.audio.input.transcription is None:
            return
        self._sent = text
        if first and self._source_begun and not more[0].isspace() and spaces_sentences(language):
            more = " " + more
        self._source_begun = True
        await self.send(write_event("session.input_transcript.delta", delta=more, elapsed_ms=_elapsed(end)))

    async def _tell_target(self, number: int, text: str) -> None:
        spaced = codes.spaces_sentences(self.opened().prepared.route.target)
        delta = " " + text if self._target_begun and spaced else text
        self._target_begun = True
        elapsed = _elapsed(self._ends.get(number, 0.0))
        await self.send(write_event("session.output_transcript.delta", delta=delta, elapsed_ms=elapsed))

    async def _tell_audio(self, data: bytes, start: float) -> None:
        if data:
            delta = base64.b64encode(data).decode("ascii")
            form = {"sample_rate": self.rate, "channels": 1, "format": "pcm16"}
            await self.send(write_event("session.output_audio.delta", delta=delta, elapsed_ms=_elapsed(start), **form))

    async def send_end(self) -> None:
        """Write that everything is translated."""
        await self.send(write_event("session.closed"))

    async def send_error(self, error: ServiceError) -> None:
        """Write an error."""
        if self.interpretation is None:
            self.note_rejected()
        await self.send(write_error(error))


def _elapsed(seconds: float) -> int:
    return int(seconds * 1000) // FRAME_MS * FRAME_MS
