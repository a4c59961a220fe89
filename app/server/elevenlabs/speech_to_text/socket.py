"""ElevenLabs' `WS /v1/speech-to-text/realtime`: audio in as it is spoken, text out.

The query is the configuration. Parameters that have no counterpart, such as `no_verbatim` and
`filter_background_audio`, are accepted and not used. What asks for something that is not made here is refused.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import QueryParams

from app import request_context
from app.audio.samples import SampleCoding, SampleReader
from app.audio.vad import SAMPLE_RATE, SPEECH, VoiceOptions
from app.errors import InvalidRequestError, ProtocolError, ServiceError
from app.observability import metrics
from app.recognition.events import LiveEvent, LiveHypothesis, LiveOptions, LiveUtterance, UtteranceFailed
from app.server.elevenlabs import SPEECH_TO_TEXT_PATH
from app.server.elevenlabs.speech_to_text.routes import MODEL_PREFIX, word_entries
from app.server.error_responses import note_error
from app.server.exception_handlers import explain
from app.server.exchange import first_error
from app.server.openai.realtime.events import read_audio
from app.server.schemas import UnicodeText
from app.server.state import Services, services
from app.server.streaming.events import read_json
from app.server.streaming.live_socket import LiveSocket
from app.server.streaming.socket import Socket

router = APIRouter()

PATH: Final = SPEECH_TO_TEXT_PATH + "/realtime"
# Seconds of audio that the client does not commit, after which they are committed for it.
MAX_UNCOMMITTED_SECONDS: Final = 90.0
_LISTS: Final = frozenset({"keyterms", "secondary_languages"})
_REFUSED: Final = {
    "entity_detection": "entities are not detected",
    "entity_redaction": "nothing is left out of a text",
    "transcript_edit": "texts are not edited",
    "token": "this server gives no single-use tokens; send a key as 'xi-api-key'",
}
_KINDS: Final = {
    "body_too_large": "chunk_size_exceeded",
    "quota_exceeded": "quota_exceeded",
    "rate_limit_exceeded": "rate_limited",
    "overloaded": "resource_exhausted",
    "draining": "resource_exhausted",
    "idle_timeout": "session_time_limit_exceeded",
    "invalid_api_key": "auth_error",
}

Format = Literal["pcm_8000", "pcm_16000", "pcm_22050", "pcm_24000", "pcm_44100", "pcm_48000", "ulaw_8000"]


class RealtimeQuery(BaseModel):
    """Configuration of a socket, with ElevenLabs' defaults."""

    model_config = ConfigDict(extra="ignore")

    model_id: UnicodeText
    audio_format: Format = "pcm_16000"
    language_code: UnicodeText | None = None
    secondary_languages: Annotated[list[UnicodeText], Field(max_length=100)] = Field(default_factory=list)
    commit_strategy: Literal["manual", "vad"] = "manual"
    vad_silence_threshold_secs: Annotated[float, Field(ge=0.3, le=3.0)] = 1.5
    vad_threshold: Annotated[float, Field(ge=0.1, le=0.9)] = 0.4
    min_speech_duration_ms: Annotated[int, Field(ge=50, le=2_000)] = 100
    min_silence_duration_ms: Annotated[int, Field(ge=50, le=2_000)] = 100
    include_timestamps: bool = False
    include_language_detection: bool = False
    keyterms: Annotated[list[UnicodeText], Field(max_length=50)] = Field(default_factory=list)

    @property
    def form(self) -> tuple[SampleCoding, int]:
        """Return the coding of the audio, and its rate in Hz."""
        name, rate = self.audio_format.split("_")
        return "mulaw" if name == "ulaw" else "pcm16", int(rate)

    def options(self, previous: str = "") -> LiveOptions:
        """Return the options of the recognition, after the text `previous`."""
        languages = (self.language_code, *self.secondary_languages) if self.secondary_languages else ()
        detection = VoiceOptions(
            threshold=self.vad_threshold,
            min_speech=self.min_speech_duration_ms / 1_000,
            min_silence=max(self.vad_silence_threshold_secs, self.min_silence_duration_ms / 1_000),
            padding=SPEECH.padding,
        )
        return LiveOptions(
            model=None if self.model_id.startswith(MODEL_PREFIX) else self.model_id,
            language=None if languages else self.language_code,
            languages=tuple(filter(None, languages)),
            prompt=previous,
            keywords=tuple(self.keyterms),
            detection=detection if self.commit_strategy == "vad" else None,
            word_times=self.include_timestamps,
        )

    def config(self, model: str) -> dict[str, Any]:
        """Return what the first message says of the configuration."""
        fields = self.model_dump(exclude={"commit_strategy", "secondary_languages", "keyterms"}, exclude_none=True)
        own = {"model_id": model, "sample_rate": self.form[1], "vad_commit_strategy": self.commit_strategy == "vad"}
        return fields | own


def parse_query(query: QueryParams) -> RealtimeQuery:
    """Return the checked query. Raises InvalidRequestError."""
    fields: dict[str, Any] = {}
    for name in query:
        values = [value for value in query.getlist(name) if value]
        if not values:
            continue
        if name in _REFUSED:
            raise InvalidRequestError(f"'{name}' is not supported: {_REFUSED[name]}.", param=name)
        fields[name] = values if name in _LISTS else values[-1]
    try:
        return RealtimeQuery.model_validate(fields)
    except ValidationError as error:
        raise explain(first_error(error)) from None


def parse_chunk(frame: str | bytes, most: int, rate: int) -> tuple[bytes, str, bool]:
    """Return audio at `rate` Hz, the text before the first audio, and whether the segment ends with it.

    The message has at most `most` bytes. Raises BodyTooLargeError, ProtocolError.
    """
    message = read_json(frame, most)
    if not isinstance(message, dict) or message.get("message_type") != "input_audio_chunk":
        raise ProtocolError("The message must be a JSON object with the 'message_type' 'input_audio_chunk'.")
    given, commit = message.get("sample_rate") or rate, message.get("commit") or False
    if given != rate:
        raise ProtocolError(f"'sample_rate' is not {rate}, which 'audio_format' says.", param="sample_rate")
    previous = message.get("previous_text") or ""
    if not isinstance(commit, bool) or not isinstance(previous, str):
        raise ProtocolError("'commit' must be true or false, and 'previous_text' a text.")
    return read_audio(message, "audio_base_64"), previous, commit


@router.websocket(PATH)
async def listen(socket: WebSocket) -> None:
    """Serve one socket, or answer its handshake with an error."""
    app = services(socket)
    query = parse_query(socket.query_params)
    await app.recognition.check_live(query.options())
    await socket.accept()
    await SpeechToTextSocket(socket, app, query).serve()


class SpeechToTextSocket(LiveSocket):
    """Socket of one client that is listened to. The first audio begins the recognition."""

    def __init__(self, socket: Socket, app: Services, query: RealtimeQuery) -> None:
        coding, self._rate = query.form
        super().__init__(socket, app, SampleReader(coding, self._rate, SAMPLE_RATE))
        self._query = query
        self._model = app.recognition.model_name(query.options().model)
        self._manual = query.commit_strategy == "manual"
        self._frame = 1 if coding == "mulaw" else 2
        # Bytes since the last commit.
        self._bytes = 0

    # The loop.

    async def begin(self) -> None:
        """Tell the configuration."""
        session = request_context.request_id.get() or ""
        await self._send("session_started", session_id=session, config=self._query.config(self._model))

    async def receive(self, frame: str | bytes) -> None:
        """Take audio, and end the segment where the client says so. Raises ServiceError."""
        with self.throttle.measure():
            audio, previous, commit = parse_chunk(frame, self.app.settings.max_audio_frame_bytes, self._rate)
        if self.finishing:
            return
        if audio:
            if self.live is None:
                labels = metrics.Labels(self._model, "elevenlabs", streaming=True)
                options = self._query.options(previous)
                self.listen_by(await self.unless_gone(self.app.recognition.live(options, labels=labels)))
            self._bytes += len(audio)
            await self.take(audio)
        if commit or (self._manual and self._bytes / self._frame / self._rate > MAX_UNCOMMITTED_SECONDS):
            self._bytes = 0
            if self.live is None or not await self.unless_gone(self.live.commit()):
                message = "There is no audio to commit; send some before."
                await self._send("insufficient_audio_activity", error=message)

    async def send_event(self, event: LiveEvent) -> None:
        """Tell an event."""
        match event:
            case LiveHypothesis():
                text = (event.committed + event.pending).strip()
                if text:
                    await self._send("partial_transcript", text=text)
            case UtteranceFailed():
                raise event.error
            case LiveUtterance():
                await self._tell_segment(event)
            case _:  # ElevenLabs does not tell where voices begin and end.
                pass

    async def send_error(self, error: ServiceError) -> None:
        """Tell an error, and count it."""
        note_error(error.code, error.status)
        other = "transcriber_error" if error.status >= 500 else "input_error"
        await self._send(_KINDS.get(error.code, other), error=error.message)

    async def _tell_segment(self, event: LiveUtterance) -> None:
        text = event.text.strip()
        warning = {} if event.warning is None else {"warning": event.warning}
        if not text and not self._manual and not warning:
            return
        # A client that commits waits for its answer, also where nobody spoke.
        await self._send("committed_transcript", text=text, **warning)
        if self._query.include_timestamps:
            words = [entry.model_dump(exclude_none=True) for entry in word_entries(event.segments)]
            await self._send(
                "committed_transcript_with_timestamps", text=text, language_code=event.language or "", words=words
            )
        if self._query.include_language_detection:
            await self._send("final_transcript", text=text, language_code=event.language or "")

    async def _send(self, kind: str, **fields: Any) -> None:
        await self.send(json.dumps({"message_type": kind, **fields}))
