"""Timeline: one record of the time of a request, stage by stage. `StageTimer` writes those of a batch.

The same record feeds the Prometheus histograms, the `Server-Timing` header and the WebSocket `done` event, so the
three agree by construction. Times are seconds of `time.perf_counter`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """Timed stages, in the order in which a request passes them."""

    QUEUE = "queue"
    AUDIO_DECODE = "audio_decode"
    VAD = "vad"
    BOUNDARY = "boundary"
    DETECT = "detect"
    MEL = "mel"
    ENCODE = "encode"
    DECODE = "decode"
    ALIGN = "align"
    TRANSLATE_ENCODE = "translate_encode"
    TRANSLATE_DECODE = "translate_decode"
    LLM_PREFILL = "llm_prefill"
    LLM_DECODE = "llm_decode"
    G2P = "g2p"
    VOICE = "voice"
    BERT = "bert"
    TEXT_ENCODER = "text_encoder"
    PREDICTOR = "predictor"
    DECODER = "decoder"
    CONDITION = "condition"
    T3_PREFILL = "t3_prefill"
    T3_DECODE = "t3_decode"
    S3GEN_ENCODE = "s3gen_encode"
    S3GEN_FLOW = "s3gen_flow"
    VOCODER = "vocoder"
    WATERMARK = "watermark"
    AUDIO_ENCODE = "audio_encode"

    # Enum's own is a Python function, and every request looks its stages up many times.
    __hash__ = str.__hash__


# Spans that a timeline keeps: a long text has hundreds of sentences, and the sums of its stages are complete anyway.
MAX_SPANS = 256


@dataclass(slots=True, eq=False)
class Timeline:
    """Stage durations and marks of one request. Stages repeat (once per sentence); their seconds add up.

    One thread writes at a time: the request passes from the event loop to a G2P thread, to the model thread and
    back, and never runs on two of them at once for the same stage.
    """

    started: float = field(default_factory=lambda: time.perf_counter())  # noqa: PLW0108  (a test may set the clock)
    stages: dict[Stage, float] = field(default_factory=dict)
    # (stage, when it began, seconds), in the order in which they ended.
    spans: list[tuple[Stage, float, float]] = field(default_factory=list)
    first_audio: float | None = None
    first_audible: float | None = None
    finished: float | None = None
    audio_seconds: float = 0.0
    # Seconds that the model thread worked for this request, turns of others not counted.
    busy: float = 0.0
    # Time at which a listener who plays without pause has heard all computed audio; None before there is any.
    plays_until: float | None = None
    # Speech tokens that a model drew; those that were drafted, and the drafted ones that were right.
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0

    def add(self, stage: Stage, seconds: float) -> None:
        """Add `seconds`, which end now, to `stage`."""
        self.stages[stage] = self.stages.get(stage, 0.0) + seconds
        if len(self.spans) < MAX_SPANS:
            self.spans.append((stage, time.perf_counter() - seconds, seconds))

    @contextmanager
    def measure(self, stage: Stage) -> Iterator[None]:
        """Time the body as `stage`. The body must end in an evaluation if it builds MLX graphs."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(stage, time.perf_counter() - start)

    def computed(self, seconds: float) -> None:
        """Note that `seconds` more of audio can be played."""
        now = time.perf_counter()
        self.plays_until = max(now, self.plays_until or now) + seconds

    def mark_first_audio(self) -> None:
        """Note the first byte of audio handed to the transport. Later calls change nothing."""
        if self.first_audio is None:
            self.first_audio = time.perf_counter()

    def mark_first_audible(self, heard: float) -> None:
        """Note that the first audible sample is heard at `heard`, or now if that has passed.

        Later calls change nothing.
        """
        if self.first_audible is None:
            self.first_audible = max(heard, time.perf_counter())

    def finish(self) -> None:
        """Note the end of the request. Later calls change nothing."""
        if self.finished is None:
            self.finished = time.perf_counter()

    @property
    def ttfa_seconds(self) -> float | None:
        """Seconds from the request's arrival to its first byte of audio."""
        return None if self.first_audio is None else self.first_audio - self.started

    @property
    def total_seconds(self) -> float:
        """Seconds from arrival to the end, or to now."""
        return (self.finished if self.finished is not None else time.perf_counter()) - self.started

    @property
    def rtf(self) -> float | None:
        """Real-time factor: processing seconds per second of audio (below 1 is faster than real time)."""
        return self.total_seconds / self.audio_seconds if self.audio_seconds > 0 else None

    def server_timing(self) -> str:
        """Return the value of a `Server-Timing` header (milliseconds)."""
        parts = [f"{stage};dur={self.stages[stage] * 1e3:.2f}" for stage in Stage if stage in self.stages]
        parts.append(f"total;dur={self.total_seconds * 1e3:.2f}")
        return ", ".join(parts)


class StageTimer:
    """Clock of the stages of work that is done for several requests at once.

    Every request is charged the whole stage, for which it waited. Time between two stages counts for the second: a
    fifth of a millisecond a sentence on a CPU whose caches the network has filled.
    """

    def __init__(self, timelines: Iterable[Timeline]) -> None:
        self._timelines = list(dict.fromkeys(timelines))
        self._ended: float | None = None

    @contextmanager
    def measure(self, stage: Stage) -> Iterator[None]:
        """Time the body as `stage`; it must end in an evaluation."""
        start = time.perf_counter() if self._ended is None else self._ended
        try:
            yield
        finally:
            self._ended = time.perf_counter()
            for timeline in self._timelines:
                timeline.add(stage, self._ended - start)

    def left(self) -> float:
        """Return the time at which this batch pauses for other work."""
        return time.perf_counter()

    def resumed(self, left: float) -> None:
        """Continue after a pause since `left`, which counts for no stage."""
        if self._ended is not None:
            self._ended += time.perf_counter() - left
