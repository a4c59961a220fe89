"""Every Prometheus metric of the service, and `record`, which feeds them from one Timeline.

Labels are model, surface and streaming; never a voice, never text. Buckets come from each quantity's own budget.
The default registry is used: there is one process per device.
"""

from __future__ import annotations

import asyncio
import platform
import time
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from app import __version__, request_context
from app.observability import logs
from models.timeline import Stage, Timeline

# A `_created` series beside every other one repeats the server's log.
disable_created_metrics()

SurfaceName = Literal[
    "openai",
    "websocket",
    "elevenlabs",
    "deepgram",
    "wyoming",
    "translate",
    "libretranslate",
    "realtime",
    "interpret",
    "jobs",
    "verification",
]
Outcome = Literal["ok", "cancelled", "rejected", "failed"]

_LABELS = ("model", "surface", "streaming")

# Each stage has a budget in seconds; its buckets lie around it. One Prometheus family has one set of buckets, so the
# family carries the union: fine for the short stages, coarse for the decoder alone.
STAGE_BUDGETS: dict[Stage, float] = {
    Stage.QUEUE: 0.002,
    Stage.AUDIO_DECODE: 0.05,
    Stage.VAD: 0.05,
    Stage.BOUNDARY: 0.1,
    Stage.DETECT: 0.002,
    Stage.MEL: 0.02,
    Stage.ENCODE: 0.5,
    Stage.DECODE: 0.5,
    Stage.ALIGN: 0.1,
    Stage.TRANSLATE_ENCODE: 0.01,
    Stage.TRANSLATE_DECODE: 0.1,
    Stage.LLM_PREFILL: 0.2,
    Stage.LLM_DECODE: 0.5,
    Stage.G2P: 0.002,
    Stage.VOICE: 0.001,
    Stage.BERT: 0.02,
    Stage.TEXT_ENCODER: 0.02,
    Stage.PREDICTOR: 0.03,
    Stage.DECODER: 0.1,
    Stage.CONDITION: 0.5,
    Stage.T3_PREFILL: 0.05,
    Stage.T3_DECODE: 0.5,
    Stage.S3GEN_ENCODE: 0.05,
    Stage.S3GEN_FLOW: 0.25,
    Stage.VOCODER: 0.05,
    Stage.WATERMARK: 0.05,
    Stage.AUDIO_ENCODE: 0.005,
}


def _around(budget: float) -> list[float]:
    """Return bucket edges from a quarter of a budget to ten times it."""
    return [float(f"{budget * factor:.3g}") for factor in (0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 10)]


_STAGE_EDGES = sorted({edge for budget in STAGE_BUDGETS.values() for edge in _around(budget)} | {2.5, 5.0, 10.0})
_TTFA_EDGES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10)

stage_duration = Histogram(
    "nightingale_stage_duration_seconds",
    "Seconds a request spent in each stage, summed over its sentences",
    (*_LABELS, "stage"),
    buckets=_STAGE_EDGES,
)
ttfa = Histogram("nightingale_ttfa_seconds", "Arrival to first byte of audio", _LABELS, buckets=_TTFA_EDGES)
ttfa_audible = Histogram(
    "nightingale_ttfa_audible_seconds",
    "Arrival to the moment a player that starts at the first byte reaches a sample above the silence threshold",
    _LABELS,
    buckets=_TTFA_EDGES,
)
chunk_gap = Histogram(
    "nightingale_chunk_gap_seconds",
    "Time between two pieces of audio handed to the transport",
    _LABELS,
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
underrun = Histogram(
    "nightingale_underrun_seconds",
    "Silence that a player which starts at the first byte had to insert, per request",
    _LABELS,
    buckets=(0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
rtf = Histogram(
    "nightingale_rtf",
    "Seconds of processing per second of audio",
    _LABELS,
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 5),
)
request_duration = Histogram(
    "nightingale_request_duration_seconds",
    "Arrival to last byte",
    _LABELS,
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
errors = Counter("nightingale_errors", "Errors that clients were told of, by code", ("code",))
requests = Counter(
    "nightingale_requests", "Requests by outcome: ok, cancelled, rejected, failed", (*_LABELS, "outcome")
)
audio_seconds = Counter("nightingale_audio_seconds", "Seconds of audio delivered", _LABELS)
recognized_seconds = Counter("nightingale_recognized_seconds", "Seconds of recordings that were recognized", _LABELS)
utterance_delay = Histogram(
    "nightingale_utterance_delay_seconds",
    "End of an utterance of a live recognition to its text",
    _LABELS,
    buckets=(0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2.5, 5, 10),
)
verified_sentences = Counter(
    "nightingale_verified_sentences", "Sentences that a recognizer heard", ("model", "verdict")
)
verification_retries = Counter("nightingale_verification_retries", "Times that sentences were spoken again", ("model",))
cache_hits = Counter("nightingale_cache_hits", "Sentences that were spoken before, and sent again", ("model", "source"))
cache_misses = Counter("nightingale_cache_misses", "Sentences that the cache did not have", ("model",))
skipped_audio = Counter(
    "nightingale_skipped_audio_seconds",
    "Seconds of live speech that came too fast to be recognized",
    _LABELS,
)
wasted_audio = Counter("nightingale_wasted_audio_seconds", "Seconds of audio computed and never delivered", ("model",))
translation_first = Histogram(
    "nightingale_translation_first_sentence_seconds",
    "Arrival to the first translated sentence",
    _LABELS,
    buckets=_TTFA_EDGES,
)
translation_sentences = Counter("nightingale_translation_sentences", "Sentences translated and delivered", _LABELS)
translation_tokens = Counter(
    "nightingale_translation_tokens", "Tokens read (source) and written (target)", (*_LABELS, "direction")
)
translation_characters = Counter(
    "nightingale_translation_characters", "Characters of the texts that were translated", _LABELS
)
generation_tokens = Counter(
    "nightingale_generation_tokens", "Tokens of language models: read of prompts, and written", (*_LABELS, "kind")
)
interpretation_latency = Histogram(
    "nightingale_interpretation_latency_seconds",
    "End of a spoken sentence to its text (recognized), its translation (translated), its first audio (spoken), and "
    "that audio in a player, which has to play what came before it (heard)",
    ("surface", "until"),
    buckets=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10, 20),
)
interpretation_sentences = Counter(
    "nightingale_interpretation_sentences", "Sentences that were interpreted, by how that ended", ("surface", "ending")
)
translation_batch = Histogram(
    "nightingale_translation_batch_size",
    "Sentences translated in one batch",
    ("model",),
    buckets=(1, 2, 4, 8, 16, 32, 64),
)
speech_batch = Histogram(
    "nightingale_batch_size",
    "Sentences spoken in one turn of the model thread",
    ("model",),
    buckets=(1, 2, 4, 8),
)
cancel_latency = Histogram(
    "nightingale_cancel_latency_seconds",
    "From the moment a client leaves to the moment the model thread is free of its work",
    ("model",),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)

longest_turn = Gauge(
    "nightingale_longest_turn_seconds",
    "Longest turn on the model thread: the longest wait of a new request",
    ("model",),
)
jobs = Gauge("nightingale_jobs", "Jobs that are kept, by status", ("status",))
jobs_finished = Counter("nightingale_jobs_finished", "Jobs that ended, by status", ("status",))
job_passages = Counter("nightingale_job_passages", "Passages of jobs that were spoken, or could not be", ("outcome",))
job_storage = Gauge("nightingale_job_storage_bytes", "Bytes of the files of jobs")
queue_depth = Gauge("nightingale_queue_depth", "Jobs waiting for the model thread", ("priority",))
active_streams = Gauge("nightingale_active_streams", "Requests and sockets being served")
predicted_load = Gauge("nightingale_predicted_load", "Share of the model thread's time that the live streams will need")
heartbeat_age = Gauge("nightingale_worker_heartbeat_age_seconds", "Seconds since the model thread last showed progress")
ready = Gauge("nightingale_ready", "1 when every model to be served is warm and the server is not draining")
warmup_seconds = Gauge("nightingale_warmup_seconds", "Seconds the warm-up of a model took", ("model",))
model_memory = Gauge(
    "nightingale_model_memory_bytes", "Bytes that MLX's arrays grew by while a model was loaded", ("model",)
)
models_loaded = Gauge("nightingale_models_loaded", "Models in memory")
model_load_seconds = Histogram(
    "nightingale_model_load_seconds",
    "From the files of a model to ready",
    ("model",),
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300),
)
model_unloads = Counter(
    "nightingale_model_unloads", "Models that were unloaded, by reason: idle, memory, request", ("model", "reason")
)
load_waits = Gauge("nightingale_model_load_waits", "Requests that wait for a model to be loaded")
speech_tokens = Counter("nightingale_t3_tokens", "Speech tokens that were drawn", _LABELS)
draft_tokens = Counter(
    "nightingale_t3_draft_tokens",
    "Speech tokens guessed ahead: accepted or rejected once verified",
    (*_LABELS, "outcome"),
)
voices_stored = Gauge("nightingale_voices_stored", "Cloned voices kept")
voice_cache = Gauge("nightingale_voice_cache_bytes", "Bytes of cloned voices that are ready in memory")
voice_conditionings = Counter(
    "nightingale_voice_conditionings",
    "Cloned voices made ready for a stream, by where from: memory, disk, computed",
    ("source",),
)
voice_conditioning_seconds = Histogram(
    "nightingale_voice_conditioning_seconds",
    "Time the model took to make a voice from a recording, its turns in the queue included",
    ("model",),
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
mlx_active = Gauge("nightingale_mlx_active_memory_bytes", "Bytes MLX arrays occupy")
mlx_cache = Gauge("nightingale_mlx_cache_memory_bytes", "Bytes MLX keeps for reuse")
mlx_peak = Gauge("nightingale_mlx_peak_memory_bytes", "Most bytes MLX arrays ever occupied")
event_loop_lag = Histogram(
    "nightingale_event_loop_lag_seconds",
    "How late the event loop ran a timer",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
)
build_info = Gauge(
    "nightingale_build_info", "Always 1; the labels say what is running", ("version", "python", "platform")
)
build_info.labels(__version__, platform.python_version(), platform.system().lower()).set(1)


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of a request's series."""

    model: str
    surface: SurfaceName
    streaming: bool

    def values(self) -> tuple[str, str, str]:
        """Return the values in the order of the metrics' label names."""
        return (self.model, self.surface, "true" if self.streaming else "false")


@dataclass(slots=True)
class Playback:
    """Experience of a player that starts at the first byte: gaps between pieces, and silence that it had to insert."""

    gaps: list[float] = field(default_factory=list)
    underrun: float = 0.0
    _last: float | None = None
    _until: float = 0.0

    def delivered(self, seconds: float, now: float | None = None) -> None:
        """Note that `seconds` of audio were handed to the transport at `now` (perf_counter)."""
        now = time.perf_counter() if now is None else now
        if self._last is None:
            self._until = now
        else:
            self.gaps.append(now - self._last)
            self.underrun += max(0.0, now - self._until)
        self._last = now
        self._until = max(self._until, now) + seconds


@dataclass(slots=True)
class Volume:
    """Volume of a translation so far. `first`: moment of its first sentence (perf_counter)."""

    characters: int = 0
    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    first: float | None = None


# An exemplar's name and value may have 128 characters together (OpenMetrics 1.0).
_EXEMPLAR = "request_id"


def _exemplar() -> dict[str, str] | None:
    """Return the exemplar that leads from a bucket to a request in it; None without an id."""
    result = request_context.request_id.get()
    return None if result is None or len(result) + len(_EXEMPLAR) > 128 else {_EXEMPLAR: result}


def _record_request(timeline: Timeline, labels: Labels, outcome: Outcome) -> bool:
    """Feed the metrics of every request. Return whether its other metrics count: not for a rejected one."""
    record_session(timeline, labels, outcome)
    if outcome == "rejected":
        return False
    _record_stages(timeline, labels)
    if outcome == "ok":
        request_duration.labels(*labels.values()).observe(timeline.total_seconds, _exemplar())
    return True


def _record_stages(timeline: Timeline, labels: Labels) -> None:
    for stage, seconds in timeline.stages.items():
        stage_duration.labels(*labels.values(), stage.value).observe(seconds, _exemplar())


def record_translation(timeline: Timeline, labels: Labels, outcome: Outcome, volume: Volume) -> None:
    """Feed one finished translation request, and what was translated, into the histograms. Call once per request."""
    if _record_request(timeline, labels, outcome):
        record_volume(timeline, labels, volume)


def record_volume(timeline: Timeline, labels: Labels, volume: Volume) -> None:
    """Feed the volume that was translated for a request, or for a part of one."""
    values = labels.values()
    if volume.first is not None:
        translation_first.labels(*values).observe(volume.first - timeline.started)
    translation_sentences.labels(*values).inc(volume.sentences)
    translation_characters.labels(*values).inc(volume.characters)
    translation_tokens.labels(*values, "source").inc(volume.source_tokens)
    translation_tokens.labels(*values, "target").inc(volume.target_tokens)


def record(timeline: Timeline, labels: Labels, outcome: Outcome, playback: Playback) -> None:
    """Feed one finished speech request into the histograms. Call once per request.

    `playback`: gaps and underruns of a player that starts at the first byte.
    """
    values = labels.values()
    if not _record_request(timeline, labels, outcome):
        return
    exemplar = _exemplar()
    if timeline.ttfa_seconds is not None:
        ttfa.labels(*values).observe(timeline.ttfa_seconds, exemplar)
    if timeline.first_audible is not None:
        ttfa_audible.labels(*values).observe(timeline.first_audible - timeline.started, exemplar)
    for gap in playback.gaps:
        chunk_gap.labels(*values).observe(gap)
    record_background(timeline, labels)
    if timeline.drafted:
        draft_tokens.labels(*values, "accepted").inc(timeline.accepted)
        draft_tokens.labels(*values, "rejected").inc(max(0, timeline.drafted - timeline.accepted))
    # A counter that begins with its first increase hides that increase from rate().
    wasted_audio.labels(labels.model)
    if outcome == "ok":
        underrun.labels(*values).observe(playback.underrun)
        if timeline.rtf is not None:
            rtf.labels(*values).observe(timeline.rtf)


def record_background(timeline: Timeline, labels: Labels) -> None:
    """Count the audio that was spoken. Of a part of a job that is all: nobody waited, so that it has no latency."""
    values = labels.values()
    audio_seconds.labels(*values).inc(timeline.audio_seconds)
    if timeline.tokens:
        speech_tokens.labels(*values).inc(timeline.tokens)


def record_recognition(timeline: Timeline, labels: Labels, outcome: Outcome, seconds: float) -> None:
    """Feed one finished recognition request into the histograms. Call once per request.

    `seconds`: length of the recordings that were recognized to their end.
    """
    if _record_request(timeline, labels, outcome):
        recognized_seconds.labels(*labels.values()).inc(seconds)


def record_generation(
    timeline: Timeline, labels: Labels, outcome: Outcome, prompt_tokens: int, written_tokens: int
) -> None:
    """Feed one finished message of a language model into the metrics. Call once per message.

    `prompt_tokens`: those of its prompt that were read for it.
    """
    if _record_request(timeline, labels, outcome):
        generation_tokens.labels(*labels.values(), "prompt").inc(prompt_tokens)
        generation_tokens.labels(*labels.values(), "written").inc(written_tokens)


def record_interpretation(surface: SurfaceName, ending: str, delay: float | None) -> None:
    """Count one sentence that was interpreted. `delay`: seconds until it is heard; None where it was not spoken."""
    interpretation_sentences.labels(surface, ending).inc()
    if delay is not None:
        interpretation_latency.labels(surface, "heard").observe(delay)


def record_utterance(timeline: Timeline, labels: Labels, seconds: float, waited: float) -> None:
    """Feed one utterance of a live recognition, of so many `seconds`, into the histograms.

    `waited`: seconds from its end to its text.
    """
    _record_stages(timeline, labels)
    utterance_delay.labels(*labels.values()).observe(waited, _exemplar())
    recognized_seconds.labels(*labels.values()).inc(seconds)


def record_session(timeline: Timeline, labels: Labels, outcome: Outcome) -> None:
    """Count one live recognition. Its length is no time that anybody waited, so that it has no duration."""
    timeline.finish()
    requests.labels(*labels.values(), outcome).inc()
    logs.note(timeline, labels.model, labels.surface, labels.streaming, outcome)


async def watch_event_loop(interval: float = 0.25) -> None:
    """Observe, until cancelled, how late timers fire."""
    while True:
        due = time.perf_counter() + interval
        await asyncio.sleep(interval)
        event_loop_lag.observe(max(0.0, time.perf_counter() - due))


def read_memory() -> None:
    """Set the memory gauges from MLX's own counters."""
    from models.backend import memory as measure

    use = measure()
    mlx_active.set(use.active)
    mlx_cache.set(use.cache)
    mlx_peak.set(use.peak)
