"""OpenAI's surface: speech and models (platform.openai.com, "Audio" and "Models").

Audio leaves sentence by sentence. A reply that is one piece has its exact length, in its head and in its own; a longer
one is chunked, and a WAV then says 0xFFFFFFFF where its sizes belong. A failure after the first byte breaks the
connection: it never looks like a complete reply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.audio import subtitles
from app.audio.encoders import INFO, Format, check_format, choose_rate
from app.audio.subtitles import SUBTITLE_FORMATS, SubtitleFormat
from app.engine.scheduler import ModelState, ModelStatus
from app.errors import (
    DrainingError,
    EmptyInputError,
    InvalidRequestError,
    ServiceError,
    TextTooLongError,
    UnknownModelError,
    UnsupportedFormatError,
)
from app.observability import metrics
from app.server.accept import negotiate
from app.server.audio_response import Reply, Shape
from app.server.disconnect import ClientGoneError, until_gone
from app.server.error_responses import error_response
from app.server.json_route import JsonRoute
from app.server.schemas import ModelEntry, ModelList, SpeechBody
from app.server.state import Services, services
from app.speech.service import SpeechOptions
from app.speech.stream import SpeechStream, SpokenChunk
from app.translation.text import codes
from models.contract import SAMPLING_RANGES, Translator
from models.timeline import Timeline

log = logging.getLogger(__name__)

router = APIRouter()


PATH = "/v1/audio/speech"


_ANSWERS = [*(info.media_type for info in INFO.values()), *subtitles.MEDIA_TYPES.values(), "text/event-stream"]


async def speech(request: Request, body: SpeechBody) -> Response:
    """Speak `input`."""
    return SpeechResponse(services(request), body)


router.add_api_route(
    PATH,
    speech,
    methods=["POST"],
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in _ANSWERS}}},
    route_class_override=JsonRoute,
)


@router.get("/v1/models")
@router.get("/v1/audio/models")
async def models(request: Request) -> ModelList:
    """Every model of the catalog."""
    entries = _models(services(request))
    return ModelList(models=entries, data=entries)


@router.get("/v1/models/{name}")
async def model(request: Request, name: str) -> ModelEntry:
    """One model."""
    app = services(request)
    canonical = app.speech.model_name(name)
    for entry in _models(app):
        if entry.id == canonical:
            return entry
    raise UnknownModelError(f"There is no model '{name[:100]}'.")


def _models(app: Services) -> list[ModelEntry]:
    defaults = (app.speech.default_model, app.catalog.default_translator())
    entries = []
    for info in app.catalog.models():
        held = app.worker.state(info.name)
        state = held.status
        absent = info.status == "absent"
        status = {
            ModelStatus.IDLE: "absent" if absent else "available",
            ModelStatus.WARMING: "loading",
        }.get(state, state.value)
        entries.append(
            ModelEntry(
                id=info.name,
                name=info.name,
                status=status,
                kind=info.kind,
                default=info.name in defaults,
                description=info.description,
                license=info.license,
                aliases=list(info.aliases),
                cloning=info.cloning,
                preloaded=info.name in app.preload,
                memory_bytes=held.memory,
                parameters=_parameters(held),
                install_command=info.install_command if absent else None,
                install_hint=info.install_hint if absent else None,
                languages=_languages(held),
            )
        )
    return entries


def _parameters(state: ModelState) -> list[str] | None:
    """The sampling parameters of a loaded model that speaks."""
    if state.status is not ModelStatus.READY or state.model is None or isinstance(state.model, Translator):
        return None
    taken = state.model.parameters
    return [name for name in SAMPLING_RANGES if name in taken]


def _languages(state: ModelState) -> list[str] | None:
    """The BCP-47 tags of what a loaded model speaks, or translates from or to."""
    if state.status is not ModelStatus.READY or state.model is None:
        return None
    if isinstance(state.model, Translator):
        return [codes.tag(code) for code in state.model.languages]
    return list(state.model.languages)


def check_text(text: str, limit: int, field: str = "input") -> None:
    """Raise EmptyInputError or TextTooLongError unless `text`, the client's `field`, has 1 to `limit` characters."""
    if not text.strip():
        raise EmptyInputError(f"'{field}' is empty; send the text to speak.", param=field)
    if len(text) > limit:
        raise TextTooLongError(f"'{field}' has {len(text)} characters; at most {limit} are accepted.", param=field)


class SpeechResponse(Response):
    """The whole life of one request: check, speak, encode, send; cancelled as soon as the client goes.

    Other surfaces derive theirs: what they call the text, their errors and the form of their replies.
    """

    text_field = "input"

    def __init__(self, app: Services, body: SpeechBody, surface: metrics.Surface = "openai") -> None:
        super().__init__()
        self._app = app
        self._body = body
        self._sse = body.stream_format == "sse"
        self._timeline = Timeline()
        self._reply: Reply | None = None
        self._labels = metrics.Labels(model="none", surface=surface, streaming=self._sse)

    @property
    def _started(self) -> bool:
        return self._reply is not None and self._reply.started

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            name, subtitle = self._format(Headers(scope=scope))
            self._check_input()
            self._app.admission.admit()
        except ServiceError as error:
            await self._reject(error, scope, receive, send)
            return
        try:
            await until_gone(receive, self._app.admission.aborted(), self._serve(name, subtitle, scope, receive, send))
        except ClientGoneError:
            return
        except DrainingError as error:
            if not self._started:
                await self._refusal(error)(scope, receive, send)
        finally:
            self._app.admission.release()

    def _format(self, headers: Headers) -> tuple[Format, SubtitleFormat | None]:
        """The encoding of the audio, and what is sent in its place, if anything is."""
        if self._body.response_format is None:
            default = check_format(self._app.settings.default_format)
            return negotiate(", ".join(headers.getlist("accept")), default), None
        for kind in SUBTITLE_FORMATS:
            if kind == self._body.response_format:
                if self._sse:
                    raise UnsupportedFormatError(f"'{kind}' is sent whole; it has no 'stream_format' sse.")
                return "pcm", kind
        try:
            return check_format(self._body.response_format), None
        except UnsupportedFormatError as error:
            raise UnsupportedFormatError(f"{error.message[:-1]}, and {' or '.join(SUBTITLE_FORMATS)}.") from None

    async def _serve(
        self, name: Format, subtitle: SubtitleFormat | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            speaker = await self._app.speech.prepare(
                SpeechOptions(
                    model=self._body.model,
                    voice=self._body.voice_name,
                    lang=self._body.lang,
                    any_language=self._body.any_language,
                    speed=self._body.speed,
                    seed=self._body.seed,
                    sampling=self._body.sampling,
                    translate_to=self._body.translate_to,
                    source=self._body.source,
                    translate_model=self._body.translate_model,
                ),
                self._timeline,
            )
            rate = choose_rate(name, speaker.synthesizer.sample_rate, self._body.sample_rate)
        except ServiceError as error:
            await self._reject(error, scope, receive, send)
            return
        self._labels = replace(self._labels, model=speaker.model)
        stream = self._app.speech.stream(speaker, self._timeline, self._labels)
        stream.feed(self._body.input)
        stream.finish()
        outcome: metrics.Outcome = "cancelled"
        try:
            chunks = aiter(stream)
            # While the model computes: once it has, everything is waited for.
            shape = Shape(name, rate, self._sse, len(self._body.input), self._app.settings.stall_seconds)
            reply = self._reply = self._make_reply(stream, send, shape)
            try:
                first = await anext(chunks)
            except ServiceError as error:
                outcome = "rejected" if error.status < 500 else "failed"
                await self._refusal(error)(scope, receive, send)
                return
            if subtitle is not None:
                pieces = [first, *[chunk async for chunk in chunks]]
                await self._send_subtitles(subtitle, stream, pieces, (scope, receive, send))
                outcome = "ok"
                return
            if await stream.is_whole():
                await reply.whole(first)
            else:
                await reply.streamed(first, chunks)
            outcome = "ok"
            # What was written leaves when this task pauses; its client need not wait for the books.
            await asyncio.sleep(0)
        except TimeoutError:
            log.info("a client read nothing for %g seconds and was dropped", self._app.settings.stall_seconds)
        except Exception as error:
            outcome = "failed"
            if not self._started:
                if not isinstance(error, ServiceError):
                    raise
                await self._refusal(error)(scope, receive, send)
                return
            # Returning without the last message makes the server break the connection.
            log.error("a reply broke off after %.2f s of audio: %s", self._timeline.audio_seconds, error)
        finally:
            stream.close(outcome)

    async def _send_subtitles(
        self,
        kind: SubtitleFormat,
        stream: SpeechStream,
        chunks: Sequence[SpokenChunk],
        exchange: tuple[Scope, Receive, Send],
    ) -> None:
        for chunk in chunks:
            stream.delivered(chunk, sent=False)
        headers = {"server-timing": self._timeline.server_timing(), "cache-control": "no-store"}
        text = subtitles.render(subtitles.cues(chunks), kind)
        async with asyncio.timeout(self._app.settings.stall_seconds):
            await Response(text, headers=headers, media_type=subtitles.MEDIA_TYPES[kind])(*exchange)

    def _check_input(self) -> None:
        check_text(self._body.input, self._app.settings.max_input_characters, self.text_field)
        if self._body.sample_rate is not None and self._body.sample_rate <= 0:
            raise InvalidRequestError("'sample_rate' must be positive.", param="sample_rate")

    def _refusal(self, error: ServiceError) -> Response:
        """The answer to a request that fails before its first byte."""
        return error_response(error)

    def _make_reply(self, stream: SpeechStream, send: Send, shape: Shape) -> Reply:
        """What writes the bytes of the answer."""
        return Reply(stream, send, shape)

    async def _reject(self, error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
        metrics.record(self._timeline, self._labels, "rejected", metrics.Playback())
        await self._refusal(error)(scope, receive, send)
