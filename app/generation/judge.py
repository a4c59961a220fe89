"""A language model as the second judge of a verification: do two texts say the same?"""

from __future__ import annotations

import logging
import math
from typing import Final

from app.errors import ServiceError
from app.generation.options import GenerationOptions
from app.generation.service import GenerationService
from app.generation.stream import GenerationStream
from app.observability import metrics
from models.contract import ModelError
from models.timeline import Timeline

log = logging.getLogger(__name__)

_QUESTION: Final = (
    "Do these two texts say the same words, though numbers, names and punctuation may be written in another way? "
    "Answer with one word, same or different.\n\nFirst text: {expected}\nSecond text: {transcript}"
)
_LABELS: Final = ("same", "different")
_LIKELIEST: Final = 20


async def says_the_same(service: GenerationService, model: str, expected: str, transcript: str) -> bool:
    """Return whether `model` finds "same" likelier than "different" as the first token of its answer.

    False where it finds neither among the likeliest tokens, or fails.
    """
    question = _QUESTION.format(expected=expected, transcript=transcript)
    message = {"role": "user", "content": question}
    options = GenerationOptions(messages=(message,), model=model, max_tokens=1, temperature=0.0, logprobs=_LIKELIEST)
    stream: GenerationStream | None = None
    outcome: metrics.Outcome = "failed"
    try:
        prepared = await service.prepare(options)
        stream = GenerationStream(service, prepared, Timeline(), metrics.Labels(prepared.model, "verification", False))
        likelihood = dict.fromkeys(_LABELS, 0.0)
        async for item in stream:
            for token in (each for written in item.logprobs[:1] for each in written.likeliest):
                word = "".join(filter(str.isalpha, token.text.decode("utf-8", "replace").lower()))
                for label in _LABELS:
                    if word and label.startswith(word):
                        likelihood[label] += math.exp(token.logprob)
        outcome = "ok"
        return likelihood["same"] > likelihood["different"]
    except (ServiceError, ModelError) as error:
        log.warning("a verification could not be judged: %s", error)
        return False
    finally:
        if stream is not None:
            stream.close(outcome)
