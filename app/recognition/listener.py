"""Recognition of speech that this server has made itself, sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable

import soxr

from app.engine.jobs import CancelToken, Priority, RecognitionJob
from app.engine.worker import ModelWorker
from app.threads import REQUESTS
from models.contract import Pcm, RecognitionRequest, Recognizer
from models.timeline import Timeline


class StreamRecognizer:
    """Recognizer of one language for the speech of one stream."""

    def __init__(
        self, worker: ModelWorker, model: str, recognizer: Recognizer, language: str, judges: Callable[[str], bool]
    ) -> None:
        """Take the recognizer `model`; `judges` says of which models' voices it knows enough to blame them."""
        self.model = model
        self.judges = judges
        self._worker, self._recognizer, self._language = worker, recognizer, language

    async def hear(self, pcm: Pcm, rate: int, expected: str, cancelled: CancelToken) -> tuple[str, float | None]:
        """Return the words of float32 [samples] at `rate` Hz, and the score of `expected` beside them.

        `expected` is a draft, which changes no word. The score is None where the model tells none. Raises ServiceError,
        and ModelRequestError for a recording that the model refuses.
        """
        resample: Callable[..., Pcm] = soxr.resample
        heard = await REQUESTS.run(resample, pcm, rate, self._recognizer.sample_rate)
        draft = self._recognizer.encode_text(expected)
        request = RecognitionRequest(heard, self._language, temperature=0.0, draft=draft)
        job = RecognitionJob(self.model, self._recognizer, request, Timeline(), cancelled, Priority.CONTINUATION)
        results = self._worker.submit(job)
        try:
            result = [segment async for segment in results]
            return "".join(segment.text for segment in result).strip(), result[0].draft_score if result else None
        finally:
            results.close()
