"""`WS /v1/audio/interpret`: speech in one language in, text and speech in another out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, ValidationError

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
from app.server.streaming.events import Cancel, End, ErrorDetail, Flush, Loading, WordTiming, explain, read_json
from app.server.streaming.interpretation_socket import InterpretationSocket
from app.speech.options import SpeechOptions
from app.translation.text import codes
from models.timeline import Timeline

router = APIRouter()

C = TypeVar("C", bound=messages.Chosen)


@router.websocket("/v1/audio/interpret")
async def interpret(socket: WebSocket) -> None:
    """Serve one socket."""
    await socket.accept()
    await InterpretSocket(socket, services(socket)).serve()


class InterpretSocket(InterpretationSocket):
    """Socket of one client."""

    surface: ClassVar[metrics.SurfaceName] = "interpret"

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
            message = _parse(frame, self.app.settings.max_frame_bytes)
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
            labels = metrics.Labels("none", self.surface, True)
            metrics.record(Timeline(), labels, "rejected", metrics.Playback())
            raise
        opened.muted = start.muted
        self._partials, self._timestamps = start.partials, start.timestamps
        ready = self._chosen(
            messages.InterpretationReady,
            opened,
            input_format=start.input_format,
            input_rate=start.input_rate,
            request_id=request_context.request_id.get(),
        )
        await self.send(ready.model_dump_json())
        self.begin_sending(opened)

    async def _update(self, update: messages.Update, interpretation: Interpretation) -> None:
        try:
            prepared = await self.prepare_interpretation(_updated(interpretation.prepared, update))
        except ServiceError as error:
            await self.send_error(error, fatal=False)
            return
        interpretation.retarget(prepared)
        await self.send(self._chosen(messages.Updated, interpretation).model_dump_json())

    def _chosen(self, message: type[C], interpretation: Interpretation, **more: object) -> C:
        prepared = interpretation.prepared
        route, speech = prepared.route, prepared.speech
        return message.model_validate(
            {
                "target": codes.tag(route.target),
                "source": None if route.source is None else codes.tag(route.source),
                "recognition_model": interpretation.recognizer,
                "translate_model": route.model,
                "model": speech.model,
                "voice": speech.voice,
                "lang": speech.language,
                "format": self.format,
                "sample_rate": self.rate,
                "watermark": speech.watermark,
                **more,
            }
        )

    # Messages of the server.

    async def send_event(self, event: Event) -> None:
        """Write an event, and the audio that belongs to it."""
        match event:
            case SpeechPart():
                await self._tell_speech(event)
            case SentenceDone():
                self._sentences += 1
                for frame in frames(await self.encode_end(event.number), FRAME):
                    await self.send(frame)
                if event.error is not None:
                    note_error(event.error.code, event.error.status)
                await self.send(_done(event).model_dump_json())
            case _:
                for message in self._messages(event):
                    await self.send(message.model_dump_json())

    def _messages(self, event: Event) -> list[BaseModel]:
        """Return the messages for an event that has no audio: none, or one."""
        match event:
            case SpeechStarted(item, start):
                return [messages.SpeechStartedMessage(item=item, start=_round(start))]
            case SpeechStopped(item, end):
                return [messages.SpeechStoppedMessage(item=item, end=_round(end))]
            case LiveHypothesis(item, start, end, committed, pending) if self._partials:
                start, end = _round(start), _round(end)
                return [messages.Partial(item=item, start=start, end=end, committed=committed, pending=pending)]
            case LiveUtterance(item, start, end, text, language, warning=warning):
                start, end = _round(start), _round(end)
                result = messages.UtteranceMessage(
                    item=item, start=start, end=end, text=text, language=language, warning=warning
                )
                return [result]
            case Sentence(number, item, text, start, end):
                start, end = _round(start), _round(end)
                return [messages.SentenceMessage(number=number, item=item, text=text, start=start, end=end)]
            case TranslatedPart(number, source, text):
                return [messages.TranslationMessage(number=number, source_text=source, text=text)]
            case VoiceCloned(model, seconds, None):
                return [messages.VoiceClonedMessage(model=model, seconds=_round(seconds))]
        error = getattr(event, "error", None)
        return [] if error is None else [_error(error, fatal=False, item=getattr(event, "item", None))]

    async def _tell_speech(self, part: SpeechPart) -> None:
        chunk = part.chunk
        data = await self.encode(part)
        words = None
        if self._timestamps:
            moved = part.start - chunk.start
            words = tuple(
                WordTiming(
                    text=word.text,
                    start=_round(word.start + moved),
                    end=_round(word.end + moved),
                    char_start=word.char_start,
                    char_end=word.char_end,
                )
                for word in chunk.words
            )
        message = messages.InterpretationChunk(
            sequence=self._sequence,
            number=part.number,
            text=chunk.text,
            start=_round(part.start),
            duration=_round(chunk.duration),
            speed=_round(part.speed),
            words=words,
        )
        self._sequence += 1
        self._audio_seconds += chunk.duration
        await self.send(message.model_dump_json())
        self.opened().delivered(part, sent=bool(data))
        for frame in frames(data, FRAME):
            await self.send(frame)

    async def send_end(self) -> None:
        """Write that everything is interpreted."""
        heard = self.opened().clock.position
        done = messages.InterpretationDone(
            sentences=self._sentences, input_duration=_round(heard), audio_duration=_round(self._audio_seconds)
        )
        await self.send(done.model_dump_json())

    async def send_error(self, error: ServiceError, *, fatal: bool) -> None:
        """Write an error."""
        await self.send(_error(error, fatal=fatal).model_dump_json())

    async def send_loading(self, state: ModelState) -> None:
        """Write the progress of a model that is being loaded."""
        done, total = (0, None) if state.step is None else (state.step.done, state.step.total)
        await self.send(Loading(model=state.name, done=done, total=total).model_dump_json())


def _parse(frame: str | bytes, limit: int) -> BaseModel:
    try:
        message: BaseModel = messages.INCOMING.validate_python(read_json(frame, limit))
    except ValidationError as error:
        raise ProtocolError(explain(error, messages.Incoming)) from None
    return message


def _options(start: messages.InterpretationStart) -> InterpretationOptions:
    return InterpretationOptions(
        speech=SpeechOptions.of(start, translate_to=start.target),
        recognition_model=start.recognition_model,
        max_speed=start.max_speed,
        max_delay=start.max_delay,
        prompt=start.prompt,
        keywords=start.keywords,
        detection=None if start.pause is None else replace(DETECTION, min_silence=start.pause),
        partials=start.partials,
        clauses=start.clauses,
        anticipate=start.anticipate,
        clone_voice=start.clone_voice,
        consent=start.consent,
    )


def _updated(prepared: PreparedInterpretation, update: messages.Update) -> InterpretationOptions:
    """Return the options with those that `update` names. A new target or model has its own voice, if none is named."""
    given = {name: value for name, value in update.model_dump(exclude={"type"}).items() if value is not None}
    if "voice" not in given and given.keys() & {"target", "model"}:
        given["voice"] = None
    if "target" in given:
        given["translate_to"] = given.pop("target")
    return replace(prepared.options, speech=replace(prepared.options.speech, **given))


def _done(event: SentenceDone) -> messages.SentenceDoneMessage:
    timeline = event.timeline
    return messages.SentenceDoneMessage(
        number=event.number,
        ending=event.ending,
        latency={point: _round(seconds) for point, seconds in event.latency.items()},
        delay=None if event.delay is None else _round(event.delay),
        audio_duration=_round(timeline.audio_seconds),
        stages={stage.value: _round(seconds) for stage, seconds in timeline.stages.items()},
        error=None if event.error is None else ErrorDetail.model_validate(event.error.body()),
    )


def _error(error: ServiceError, *, fatal: bool, item: int | None = None) -> messages.InterpretationError:
    note_error(error.code, error.status)
    return messages.InterpretationError(error=ErrorDetail.model_validate(error.body()), fatal=fatal, item=item)


def _round(seconds: float) -> float:
    return round(seconds, 6)
