"""`POST /v1/translate`: texts from one language to another, whole, or sentence by sentence as server-sent events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from app.observability import metrics
from app.server.exchange import StreamExchange
from app.server.schemas import (
    AlternativeEntry,
    Detected,
    SentenceEvent,
    TranslateBody,
    TranslationDoneEvent,
    TranslationEntry,
    TranslationReply,
    TranslationUsage,
)
from app.server.state import Services, services
from app.translation.plan import Alternative, Plan, TranslatedText, TranslationOptions
from app.translation.stream import TranslationStream
from app.translation.text import codes

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
    kind = StreamedTranslation if body.stream else WholeTranslation
    return kind(services(request), body.texts, options)


class TranslationExchange(StreamExchange[TranslationStream]):
    """Response to a request for translations. `plan`: the checked request, once it is prepared."""

    surface: metrics.SurfaceName = "translate"
    plan: Plan

    def __init__(self, app: Services, texts: Sequence[str], options: TranslationOptions) -> None:
        super().__init__(app, characters=sum(map(len, texts)))
        self._texts = texts
        self._options = options
        self._labels = metrics.Labels(model="none", surface=self.surface, streaming=self.streams_events)

    async def prepare(self) -> TranslationStream:
        """Return a stream that translates the texts. Raises what `TranslationService.prepare` raises."""
        self.plan = await self.app.translation.prepare(self._texts, self._options, self.timeline, self.progress())
        labels = replace(self._labels, model=self.plan.route.model)
        return TranslationStream(self.app.translation, self.plan, self.timeline, labels, in_order=self.streams_events)

    def note_rejected(self) -> None:
        """Count a request that is refused before anything is computed."""
        metrics.record_translation(self.timeline, self._labels, "rejected", metrics.Volume())

    async def send_json(self, body: object) -> None:
        """Send one JSON document, with the stages in its header."""
        headers = {"server-timing": self.timeline.server_timing(), "cache-control": "no-store"}
        await self.respond_in_time(JSONResponse(body, headers=headers))


class WholeTranslation(TranslationExchange):
    """Response of one JSON document."""

    async def answer(self, stream: TranslationStream) -> None:
        """Send everything at once."""
        translations = entries(self.plan, await stream.texts())
        reply = TranslationReply(model=self.plan.route.model, translations=translations, usage=usage(stream.volume))
        await self.send_json(reply.model_dump())


class StreamedTranslation(TranslationExchange):
    """Response of server-sent events: each sentence once it and those before it are translated, then the texts."""

    streams_events = True

    async def answer(self, stream: TranslationStream) -> None:
        """Send each sentence as it comes."""
        async for sentence in stream:
            event = SentenceEvent(
                text=sentence.text_index,
                sentence=sentence.index,
                source_text=sentence.source,
                translated_text=sentence.translation.text,
                alternatives=_alternatives(sentence.alternatives),
                seconds=round(sentence.seconds, 6),
            )
            await self.send_event(event.model_dump_json())
        texts = await stream.texts()
        self.timeline.finish()
        done = TranslationDoneEvent(
            model=self.plan.route.model,
            translations=entries(self.plan, texts),
            usage=usage(stream.volume),
            stages={stage.value: seconds for stage, seconds in self.timeline.stages.items()},
            total=self.timeline.total_seconds,
        )
        await self.send_event(done.model_dump_json())
        await self.send_part(b"", more=False)


def entries(plan: Plan, texts: Sequence[TranslatedText]) -> list[TranslationEntry]:
    """Return the texts as they go over the wire."""
    target = codes.tag(plan.route.target)
    result = []
    for text in texts:
        code, source = text.source, None if text.source is None else codes.tag(text.source)
        entry = TranslationEntry(
            text=text.text, source=source, target=target, alternatives=_alternatives(text.alternatives)
        )
        if code is not None and source is not None and text.confidence is not None:
            entry.detected = Detected(language=source, code=code, confidence=round(text.confidence, 3))
        result.append(entry)
    return result


def _alternatives(found: Sequence[Alternative]) -> list[AlternativeEntry]:
    return [AlternativeEntry(text=each.text, score=each.score) for each in found]


def usage(volume: metrics.Volume) -> TranslationUsage:
    """Return the volume of a request as it goes over the wire."""
    return TranslationUsage(
        source_tokens=volume.source_tokens,
        target_tokens=volume.target_tokens,
        total_tokens=volume.source_tokens + volume.target_tokens,
        characters=volume.characters,
    )
