"""`POST /v1/translate`: texts from one language to another, whole, or sentence by sentence as server-sent events."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.errors import DrainingError, ServiceError
from app.observability import metrics
from app.server.disconnect import ClientGoneError, until_gone
from app.server.error_responses import error_response, sse_error
from app.server.schemas import (
    AlternativeEntry,
    Detected,
    DoneEvent,
    SentenceEvent,
    TranslateBody,
    TranslationEntry,
    TranslationReply,
    TranslationUsage,
)
from app.server.state import Services, services
from app.translation.plan import Alternative, Plan, TranslatedSentence, TranslatedText, TranslationOptions
from app.translation.stream import TranslationStream
from app.translation.text import codes
from models.timeline import Timeline

log = logging.getLogger(__name__)

router = APIRouter()


@router.post("/v1/translate", response_model=TranslationReply)
async def translate(request: Request, body: TranslateBody) -> Response:
    """Translate `text`."""
    options = TranslationOptions(
        target=body.target,
        source=body.source,
        model=body.model,
        beams=body.num_beams,
        alternatives=body.alternatives,
        glossary=body.glossary,
        format=body.format,
    )
    kind = Streamed if body.stream else Whole
    return kind(services(request), body.texts, options)


class TranslationExchange(Response, ABC):
    """The whole life of one request: check, translate, answer; cancelled as soon as the client goes."""

    surface: metrics.Surface = "translate"
    streaming = False

    def __init__(self, app: Services, texts: Sequence[str], options: TranslationOptions) -> None:
        super().__init__()
        self.app = app
        self.timeline = Timeline()
        self.started = False
        self._texts = texts
        self._options = options
        self._labels = metrics.Labels(model="none", surface=self.surface, streaming=self.streaming)

    @abstractmethod
    async def answer(self, plan: Plan, stream: TranslationStream, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the translations of `stream`. Sets `started` with the first byte."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self.app.admission.admit(sum(len(text) for text in self._texts))
        except ServiceError as error:
            await self._reject(error, scope, receive, send)
            return
        try:
            await until_gone(receive, self.app.admission.aborted(), self._serve(scope, receive, send))
        except ClientGoneError:
            return
        except DrainingError as error:
            if not self.started:
                await error_response(error, path=scope["path"])(scope, receive, send)
        finally:
            self.app.admission.release()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            plan = await self.app.translation.prepare(self._texts, self._options, self.timeline)
        except ServiceError as error:
            await self._reject(error, scope, receive, send)
            return
        labels = replace(self._labels, model=plan.route.model)
        stream = self.app.translation.stream(plan, self.timeline, labels, in_order=self.streaming)
        outcome: metrics.Outcome = "cancelled"
        try:
            await self.answer(plan, stream, scope, receive, send)
            outcome = "ok"
        except TimeoutError:
            log.info("a client read nothing for %g seconds and was dropped", self.app.settings.stall_seconds)
        except ServiceError as error:
            outcome = "rejected" if error.status < 500 and not self.started else "failed"
            if self.started:
                # Returning without the last message makes the server break the connection.
                log.error("a translation broke off: %s", error)
                return
            await error_response(error, path=scope["path"])(scope, receive, send)
        except Exception:
            outcome = "failed"
            raise
        finally:
            stream.close(outcome)

    async def _reject(self, error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
        metrics.record_translation(self.timeline, self._labels, "rejected", metrics.Volume())
        await error_response(error, path=scope["path"])(scope, receive, send)

    async def send_json(self, body: object, scope: Scope, receive: Receive, send: Send) -> None:
        """One JSON document, with the stages in its header."""
        headers = {"server-timing": self.timeline.server_timing(), "cache-control": "no-store"}
        self.started = True
        async with asyncio.timeout(self.app.settings.stall_seconds):
            await JSONResponse(body, headers=headers)(scope, receive, send)


class Whole(TranslationExchange):
    """One JSON document."""

    async def answer(self, plan: Plan, stream: TranslationStream, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything at once."""
        texts = await stream.texts()
        reply = TranslationReply(model=plan.route.model, translations=entries(plan, texts), usage=usage(stream.volume))
        await self.send_json(reply.model_dump(), scope, receive, send)


class Streamed(TranslationExchange):
    """Server-sent events: a sentence as soon as it and those before it are translated, and the texts in the end."""

    streaming = True

    async def answer(self, plan: Plan, stream: TranslationStream, scope: Scope, receive: Receive, send: Send) -> None:
        """Send each sentence as it comes. Raises what stopped it, after telling a client that can be told."""
        try:
            async for sentence in stream:
                await self._event(sentence_event(sentence), send)
            texts = await stream.texts()
        except ServiceError as error:
            if self.started:
                await self._send({"type": "http.response.body", "body": sse_error(error), "more_body": True}, send)
            raise
        self.timeline.finish()
        done = DoneEvent(
            model=plan.route.model,
            translations=entries(plan, texts),
            usage=usage(stream.volume),
            stages={stage.value: seconds for stage, seconds in self.timeline.stages.items()},
            total=self.timeline.total_seconds,
        )
        await self._event(done, send)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False}, send)

    async def _event(self, event: SentenceEvent | DoneEvent, send: Send) -> None:
        if not self.started:
            self.started = True
            headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-store"),
                (b"server-timing", self.timeline.server_timing().encode("latin-1")),
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers}, send)
        data = b"data: " + event.model_dump_json().encode() + b"\n\n"
        await self._send({"type": "http.response.body", "body": data, "more_body": True}, send)

    async def _send(self, message: dict[str, object], send: Send) -> None:
        """Wait for a write, but not for ever: a client that reads nothing must not hold its slot."""
        sending: Awaitable[None] = send(message)
        async with asyncio.timeout(self.app.settings.stall_seconds):
            await sending


def entries(plan: Plan, texts: Sequence[TranslatedText]) -> list[TranslationEntry]:
    """The texts as they go over the wire."""
    target = codes.tag(plan.route.target)
    return [
        TranslationEntry(
            text=text.text,
            source=None if text.source is None else codes.tag(text.source),
            target=target,
            detected=_detected(text),
            alternatives=_alternatives(text.alternatives),
        )
        for text in texts
    ]


def _detected(text: TranslatedText) -> Detected | None:
    if text.confidence is None or text.source is None:
        return None
    return Detected(language=codes.tag(text.source), code=text.source, confidence=round(text.confidence, 3))


def _alternatives(found: Sequence[Alternative]) -> list[AlternativeEntry]:
    return [AlternativeEntry(text=each.text, score=each.score) for each in found]


def sentence_event(sentence: TranslatedSentence) -> SentenceEvent:
    """A sentence as it goes over the wire."""
    return SentenceEvent(
        text=sentence.text_index,
        sentence=sentence.index,
        source_text=sentence.source,
        translated_text=sentence.translation.text,
        alternatives=_alternatives(sentence.alternatives),
        seconds=round(sentence.seconds, 6),
    )


def usage(volume: metrics.Volume) -> TranslationUsage:
    """What the request amounted to."""
    return TranslationUsage(
        source_tokens=volume.source_tokens,
        target_tokens=volume.target_tokens,
        total_tokens=volume.source_tokens + volume.target_tokens,
        characters=volume.characters,
    )
