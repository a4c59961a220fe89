"""Stream of recognized segments: find the parts of a recording in which somebody speaks, and send it to the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from app.audio.vad import SAMPLE_RATE, SPEECH, VoiceSpan, padded, voices
from app.engine.jobs import CancelToken, Priority
from app.observability import metrics
from app.recognition.passes import Passes
from app.recognition.service import PreparedRecognition, RecognitionService
from app.recognition.transcript import Transcript
from models.contract import RecognitionRequest, RecognizedSegment
from models.timeline import Stage, Timeline

# Most seconds of a part that is made of several spans of speech: the window of usual models.
PART_SECONDS: Final = 30.0


class RecognitionStream:
    """Segments of one recording in their order (`async for`), then the whole transcript. `close` it in the end."""

    def __init__(
        self,
        service: RecognitionService,
        prepared: PreparedRecognition,
        timeline: Timeline,
        labels: metrics.Labels,
    ) -> None:
        """Open a stream of a request that `service` prepared; call on the event loop."""
        self.timeline = timeline
        self.labels = labels
        self.cancelled = CancelToken()
        self._service = service
        self._prepared = prepared
        self._segments: list[RecognizedSegment] = []
        self._language = prepared.request.language
        self._passes = Passes(service.worker, prepared.model, prepared.recognizer, prepared.languages)
        self._recorded = False
        self._recognized = self._run()

    def __aiter__(self) -> AsyncIterator[RecognizedSegment]:
        return self._recognized

    @property
    def warning(self) -> str | None:
        """Why text was left out so far; None: none was."""
        return self._service.advice(self._prepared.model) if self._passes.unsure else None

    async def transcript(self) -> Transcript:
        """Return everything. Recognizes what was not iterated over yet."""
        async for _ in self._recognized:
            pass
        return Transcript(
            self._prepared.request.task,
            self._language,
            self._prepared.seconds,
            tuple(self._segments),
            self._prepared.prompt_tokens,
            self.warning,
        )

    def close(self, outcome: metrics.Outcome) -> None:
        """Stop what still works for this stream and record it. Later calls change nothing."""
        if self._recorded:
            return
        self._recorded = True
        if outcome != "ok":
            self.cancelled.cancel()
        self._passes.close()
        self._service.release(self._prepared)
        done = self._segments[-1].end if self._segments else 0.0
        seconds = self._prepared.seconds if outcome == "ok" else done
        metrics.record_recognition(self.timeline, self.labels, outcome, seconds)

    async def _run(self) -> AsyncIterator[RecognizedSegment]:
        request = await self._request()
        if request is None:
            return
        async with aclosing(
            self._passes.segments(request, self.cancelled, Priority.FIRST_AUDIO, self.timeline)
        ) as found:
            async for segment in found:
                self._language = segment.language
                self._segments.append(segment)
                yield segment

    async def _request(self) -> RecognitionRequest | None:
        """Return the request with the voices in it, and the parts to recognize; None: nobody speaks."""
        request, chunks = self._prepared.request, self._prepared.chunks
        if not request.pcm.size:
            return None
        options = chunks or SPEECH
        with self.timeline.measure(Stage.VAD):
            if chunks is None and not self._service.settings.recognition_gate:
                return request
            result = await self._service.thread.run_steps(voices(request.pcm, replace(options, padding=0.0)))
        if not result:
            return None
        parts = joined(padded(result, options.padding, request.pcm.size)) if chunks is not None else ()
        return replace(request, voices=_pairs(result), parts=_pairs(parts))


def _pairs(spans: Sequence[VoiceSpan]) -> tuple[tuple[int, int], ...]:
    return tuple((span.start, span.end) for span in spans)


def joined(spans: Sequence[VoiceSpan]) -> list[VoiceSpan]:
    """Return the spans, neighbors joined where both fit into PART_SECONDS: each part costs a model a whole window."""
    parts: list[VoiceSpan] = []
    for span in spans:
        if parts and span.end - parts[-1].start <= PART_SECONDS * SAMPLE_RATE:
            parts[-1] = VoiceSpan(parts[-1].start, span.end)
        else:
            parts.append(span)
    return parts
