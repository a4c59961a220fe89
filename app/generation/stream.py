"""One message of a language model, as it is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeAlias

from app.engine.jobs import CancelToken, GenerationJob, Priority
from app.engine.service_errors import service_error
from app.generation.options import GenerationOptions, PreparedGeneration, TokenCounts
from app.generation.service import GenerationService
from app.observability import metrics
from models.contract import GeneratedText, ModelRequestError
from models.timeline import Timeline

if TYPE_CHECKING:
    from app.generation.remote import RemoteStream


class GenerationStream:
    """Text of one message (`async for`). `close` it in the end."""

    def __init__(
        self, service: GenerationService, prepared: PreparedGeneration, timeline: Timeline, labels: metrics.Labels
    ) -> None:
        """Begin a message that `service` prepared; call on the event loop. Raises OverloadedError."""
        self.timeline = timeline
        self.labels = labels
        self.cancelled = CancelToken()
        self.usage = TokenCounts(len(prepared.request.prompt))
        job = GenerationJob(
            prepared.model, prepared.language_model, prepared.request, timeline, self.cancelled, Priority.FIRST_AUDIO
        )
        self._results = service.worker.submit(job)
        self._recorded = False

    async def __aiter__(self) -> AsyncIterator[GeneratedText]:
        """Yield the text as it is written. Raises ServiceError."""
        try:
            async for item in self._results:
                self.usage.cached += item.cached_tokens
                self.usage.written += item.tokens
                if item.kind == "reasoning":
                    self.usage.reasoning += item.tokens
                yield item
        except ModelRequestError as error:
            raise service_error(error, text_param="messages") from error

    def close(self, outcome: metrics.Outcome) -> None:
        """Stop the model's work for this message, and record it. Later calls change nothing."""
        if self._recorded:
            return
        self._recorded = True
        if outcome != "ok":
            self.cancelled.cancel()
        self._results.close()
        usage = self.usage
        metrics.record_generation(self.timeline, self.labels, outcome, usage.prompt - usage.cached, usage.written)


MessageStream: TypeAlias = "GenerationStream | RemoteStream"


async def begin_message(
    service: GenerationService, options: GenerationOptions, surface: metrics.SurfaceName
) -> MessageStream:
    """Begin the next message of a conversation: here, or at the server of the setting `llm`. Raises ServiceError."""
    if service.remote is not None:
        from app.generation.remote import RemoteStream

        return RemoteStream(service.remote, service.remote_model, options, Timeline(), surface)
    prepared = await service.prepare(options)
    return GenerationStream(service, prepared, Timeline(), metrics.Labels(prepared.model, surface, True))
