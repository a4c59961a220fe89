"""One pass of a recognizer over a piece of audio, as a job of the model thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from app import errors
from app.engine.jobs import CancelToken, Priority, RecognitionJob, Results
from app.engine.service_errors import service_error
from app.engine.worker import ModelWorker
from models.contract import ModelRequestError, RecognitionRequest, RecognizedSegment, Recognizer, UnknownLanguageError
from models.timeline import Timeline

# Confidence below which a recognizer does not know the voice. Of the ear in the box (models/ear/README.md): sentences
# of the house voices lie above it, and of people what it hears mostly right.
MIN_CONFIDENCE: Final = -0.28


@dataclass(slots=True, eq=False)
class Passes:
    """Passes of one model for one client, one at a time. `languages`: codes that may be spoken; empty: any.

    `unsure`: text of the last pass was left out, as the model was not sure that it knows the voice.
    """

    worker: ModelWorker
    model: str
    recognizer: Recognizer
    languages: Sequence[str]
    unsure: bool = False
    _results: Results[RecognizedSegment] | None = None

    @property
    def continues(self) -> bool:
        """Whether the model goes on from a text, and tells to what it listens."""
        return bool(getattr(self.recognizer, "takes_prefix", False))

    def close(self) -> None:
        """Give up on the pass under way, if any."""
        if self._results is not None:
            self._results.close()

    async def segments(
        self, request: RecognitionRequest, cancelled: CancelToken, priority: Priority, timeline: Timeline
    ) -> AsyncGenerator[RecognizedSegment]:
        """Yield the segments of `request`, in a language of `languages`. Close it to give up on the rest.

        Raises ServiceError, and Cancelled once `cancelled` is set.
        """
        detects = request.language is None
        async with aclosing(self._segments(request, cancelled, priority, timeline)) as found:
            async for segment in found:
                if detects and self.languages and segment.language not in self.languages:
                    break
                detects = False
                yield segment
            else:
                return
        # It cannot be the language that was detected: the first of those expected is taken.
        expected = replace(request, language=self.languages[0])
        async with aclosing(self._segments(expected, cancelled, Priority.CONTINUATION, timeline)) as found:
            async for segment in found:
                yield segment

    async def _segments(
        self, request: RecognitionRequest, cancelled: CancelToken, priority: Priority, timeline: Timeline
    ) -> AsyncGenerator[RecognizedSegment]:
        job = RecognitionJob(self.model, self.recognizer, request, timeline, cancelled, priority)
        self._results = results = self.worker.submit(job)
        self.unsure = False
        try:
            async for segment in results:
                if segment.confidence is None or segment.confidence >= MIN_CONFIDENCE:
                    yield segment
                else:
                    self.unsure = True
        except ModelRequestError as error:
            raise request_error(error) from error
        finally:
            results.close()


def request_error(error: ModelRequestError) -> errors.ServiceError:
    """Return the service's error for an error that a recognizer raised."""
    if isinstance(error, UnknownLanguageError):
        return errors.UnsupportedLanguageError(str(error), param="language")
    return service_error(error, text_param="prompt")
