"""`WS /v1/audio/interpret`: speech in one language in, text and speech in another out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

from fastapi import APIRouter, WebSocket
from pydantic_core import to_json

from app import request_context
from app.audio.encoders import check_format, choose_rate
from app.audio.pcm import frames
from app.audio.samples import SampleCoding
from app.engine.model_loader import ModelState
from app.errors import BodyTooLargeError, ProtocolError, ServiceError
from app.interpretation.events import Event, Sentence, SentenceDone, SpeechPart, TranslatedPart, VoiceCloned
from app.interpretation.options import DETECTION, InterpretationOptions, PreparedInterpretation
from app.interpretation.session import Interpretation
from app.observability import metrics
from app.recognition.events import LiveHypothesis, LiveUtterance, SpeechStarted, SpeechStopped
from app.server.error_responses import note_error
from app.server.native.interpret import events as messages
from app.server.state import services
from app.server.streaming.adapter import FRAME
from app.server.streaming.events import Cancel, End, ErrorDetail, Flush, Loading, Message, WordTiming, read_message
from app.server.streaming.interpretation_socket import InterpretationSocket
from app.speech.options import SpeechOptions
from app.translation.text import codes

router = APIRouter()

# What the client is told of an event without audio: the `type` of the message, and the fields that it takes over.
_EVENTS: Final[dict[type[Event], tuple[str, ...]]] = {
    SpeechStarted: ("speech_started", "item", "start"),
    SpeechStopped: ("speech_stopped", "item", "end"),
    LiveHypothesis: ("partial", "item", "start", "end", "committed", "pending"),
    LiveUtterance: ("utterance", "item", "start", "end", "text", "language", "warning"),
    Sentence: ("sentence", "number", "item", "text", "start", "end"),
    TranslatedPart: ("translation", "number", "source_text", "text"),
    VoiceCloned: ("voice_cloned", "model", "seconds"),
}


@router.websocket("/v1/audio/interpret")
async def interpret(socket: WebSocket) -> None:
    """Serve one socket."""
    await socket.accept()
    await InterpretSocket(socket, services(socket)).serve()


class InterpretSocket(InterpretationSocket):
    """Socket of one client."""

    surface: metrics.SurfaceName = "interpret"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._partials = True
        self._timestamps = False
        self._sequence = 0
        self._sentences = 0
        self._audio_seconds = 0.0

    # Messages of the client.

    async def receive(self, frame: str | bytes) -> None:
        """Carry out a message, or take audio."""
        if isinstance(frame, bytes):
            limit = self.app.settings.max_audio_frame_bytes
            if len(frame) > limit:
                raise BodyTooLargeError(f"A message of {len(frame)} bytes; at most {limit} of audio are accepted.")
            await self.push(frame)
            return
        with self.throttle.measure():
            limit = self.app.settings.max_frame_bytes
            message: Message = read_message(frame, limit, messages.INCOMING, messages.Incoming)
        if isinstance(message, messages.InterpretationStart):
            await self._start(message)
            return
        interpretation = self.opened()
        if self._ending and not isinstance(message, Cancel | messages.Mute):
            raise ProtocolError("After 'end' only 'cancel' and 'mute' are accepted.")
        match message:
            case messages.Update():
                await self._update(message, interpretation)
            case Flush():
                await self.unless_over(interpretation.commit())
            case messages.Mute(muted=muted):
                await self.unless_over(interpretation.mute(muted))
            case Cancel():
                await self.unless_over(interpretation.drop())
            case End():
                await self.finish()
        await self.throttle.wait()

    async def _start(self, start: messages.InterpretationStart) -> None:
        if self.interpretation is not None:
            raise ProtocolError("The session has started already; 'start' comes once, first.")
        try:
            self.format = check_format(start.format)
            prepared = await self.prepare_interpretation(_options(start))
            self.rate = choose_rate(self.format, prepared.speech.synthesizer.sample_rate, start.sample_rate)
            coding: SampleCoding = "pcm16" if start.input_format == "pcm" else start.input_format
            opened = await self.open(prepared, start.input_rate, coding)
        except ServiceError:
            self.note_rejected()
            raise
        opened.muted = start.muted
        self._partials, self._timestamps = start.partials, start.timestamps
        given = {"input_format": start.input_format, "input_rate": start.input_rate}
        await self._send_options("ready", opened, **given, request_id=request_context.request_id.get())
        self.begin_sending(opened)

    async def _update(self, update: messages.Update, interpretation: Interpretation) -> None:
        try:
            prepared = await self.prepare_interpretation(_updated(interpretation.prepared, update))
        except ServiceError as error:
            await self._tell_error(error, fatal=False)
            return
        interpretation.retarget(prepared)
        await self._send_options("updated", interpretation)

    async def _send_options(self, kind: str, interpretation: Interpretation, **more: object) -> None:
        """Write the options in use."""
        prepared = interpretation.prepared
        route, speech = prepared.route, prepared.speech
        await self._send(
            kind,
            target=codes.tag(route.target),
            source=None if route.source is None else codes.tag(route.source),
            recognition_model=interpretation.recognizer,
            translate_model=route.model,
            model=speech.model,
            voice=speech.voice,
            lang=speech.language,
            format=self.format,
            sample_rate=self.rate,
            channels=1,
            watermark=speech.watermark,
            **more,
        )

    # Messages of the server.

    async def send_event(self, event: Event) -> None:
        """Write an event, and the audio that belongs to it."""
        error = getattr(event, "error", None)
        match event:
            case SpeechPart():
                await self._tell_speech(event)
            case SentenceDone():
                await self._tell_done(event)
            case LiveHypothesis() if not self._partials:
                pass
            case _ if error is not None:
                await self._tell_error(error, fatal=False, item=getattr(event, "item", None))
            case _:
                kind, *names = _EVENTS[type(event)]
                await self._send(kind, **{name: getattr(event, name) for name in names})

    async def _tell_speech(self, part: SpeechPart) -> None:
        chunk = part.chunk
        data = await self.encode(part)
        moved = part.start - chunk.start
        sequence, self._sequence = self._sequence, self._sequence + 1
        self._audio_seconds += chunk.duration
        await self._send(
            "chunk",
            sequence=sequence,
            number=part.number,
            text=chunk.text,
            start=part.start,
            duration=chunk.duration,
            speed=part.speed,
            words=[WordTiming.of(word, 6, moved) for word in chunk.words] if self._timestamps else None,
        )
        self.opened().delivered(part, sent=bool(data))
        for frame in frames(data, FRAME):
            await self.send(frame)

    async def _tell_done(self, event: SentenceDone) -> None:
        self._sentences += 1
        for frame in frames(await self.encode_end(event.number), FRAME):
            await self.send(frame)
        error, timeline = event.error, event.timeline
        if error is not None:
            note_error(error.code, error.status)
        await self._send(
            "sentence_done",
            number=event.number,
            ending=event.ending,
            latency=event.latency,
            delay=event.delay,
            audio_duration=timeline.audio_seconds,
            stages={stage.value: seconds for stage, seconds in timeline.stages.items()},
            error=None if error is None else ErrorDetail.of(error),
        )

    async def send_end(self) -> None:
        """Write that everything is interpreted."""
        heard, spoken = self.opened().clock.position, self._audio_seconds
        await self._send("done", sentences=self._sentences, input_duration=heard, audio_duration=spoken)

    async def send_error(self, error: ServiceError) -> None:
        """Write the error that ends the socket."""
        await self._tell_error(error, fatal=True)

    async def _tell_error(self, error: ServiceError, *, fatal: bool, item: int | None = None) -> None:
        note_error(error.code, error.status)
        await self._send("error", error=ErrorDetail.of(error), fatal=fatal, item=item)

    async def send_loading(self, state: ModelState) -> None:
        """Write the progress of a model that is being loaded."""
        await self.send(Loading.of(state).model_dump_json())

    async def _send(self, kind: str, **fields: object) -> None:
        await self.send(to_json({"type": kind, **_rounded(fields)}).decode())


def _rounded(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a message with its times in whole microseconds."""
    result = dict(fields)
    for name, value in fields.items():
        if isinstance(value, float):
            result[name] = round(value, 6)
        elif isinstance(value, dict):
            result[name] = _rounded(value)
    return result


def _options(start: messages.InterpretationStart) -> InterpretationOptions:
    same = {field.name for field in fields(InterpretationOptions)} & start.__class__.model_fields.keys()
    return InterpretationOptions(
        speech=SpeechOptions.of(start, translate_to=start.target),
        detection=None if start.pause is None else replace(DETECTION, min_silence=start.pause),
        **start.model_dump(include=same),
    )


def _updated(prepared: PreparedInterpretation, update: messages.Update) -> InterpretationOptions:
    """Return the options with those that `update` names. A new target or model has its own voice, if none is named."""
    given = {name: value for name, value in update.model_dump(exclude={"type"}).items() if value is not None}
    if "voice" not in given and given.keys() & {"target", "model"}:
        given["voice"] = None
    if "target" in given:
        given["translate_to"] = given.pop("target")
    return replace(prepared.options, speech=replace(prepared.options.speech, **given))
