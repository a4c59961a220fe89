import asyncio
import time

import pytest
from prometheus_client import REGISTRY

from app.observability import metrics
from models.timeline import Stage, Timeline


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def labelled(model: str, surface: metrics.SurfaceName, *, streaming: bool) -> tuple[metrics.Labels, dict[str, str]]:
    """Return labels, and their names in samples."""
    named = {"model": model, "surface": surface, "streaming": str(streaming).lower()}
    return metrics.Labels(model, surface, streaming), named


def test_playback_counts_gaps_and_what_a_player_had_to_wait() -> None:
    playback = metrics.Playback()
    playback.delivered(1.0, now=10.0)
    playback.delivered(1.0, now=10.5)  # in time: plays until 12.0
    playback.delivered(1.0, now=12.25)  # a quarter of a second late: plays until 13.25
    playback.delivered(1.0, now=13.0)
    assert playback.gaps == pytest.approx([0.5, 1.75, 0.75])
    assert playback.underrun == pytest.approx(0.25)


def test_record_feeds_every_histogram_from_one_timeline() -> None:
    labels, named = labelled("test-model", "websocket", streaming=True)
    timeline = Timeline()
    timeline.add(Stage.BERT, 0.25)
    timeline.add(Stage.BERT, 0.25)
    timeline.audio_seconds = 2.0
    timeline.mark_first_audio()
    heard = timeline.started + 60.0
    timeline.mark_first_audible(heard)
    timeline.mark_first_audible(heard + 1.0)  # only the first counts
    playback = metrics.Playback()
    playback.delivered(2.0)
    metrics.record(timeline, labels, "ok", playback)
    assert timeline.finished is not None
    assert sample("nightingale_stage_duration_seconds_sum", stage="bert", **named) == 0.5
    assert sample("nightingale_ttfa_seconds_sum", **named) == timeline.ttfa_seconds
    assert sample("nightingale_ttfa_audible_seconds_sum", **named) == pytest.approx(60.0)
    assert sample("nightingale_rtf_sum", **named) == timeline.rtf
    assert sample("nightingale_request_duration_seconds_sum", **named) == timeline.total_seconds
    assert sample("nightingale_audio_seconds_total", **named) == 2.0
    assert sample("nightingale_requests_total", outcome="ok", **named) == 1


def test_a_recognition_feeds_its_seconds_and_the_common_ones() -> None:
    labels, named = labelled("test-ear", "openai", streaming=False)
    for outcome in ("ok", "rejected"):
        timeline = Timeline()
        timeline.add(Stage.MEL, 0.25)
        metrics.record_recognition(timeline, labels, outcome, 12.5)
    assert sample("nightingale_recognized_seconds_total", **named) == 12.5
    assert sample("nightingale_stage_duration_seconds_sum", stage="mel", **named) == 0.25
    assert sample("nightingale_requests_total", outcome="ok", **named) == 1
    assert sample("nightingale_requests_total", outcome="rejected", **named) == 1


def test_a_translation_feeds_its_own_counters_and_the_common_ones() -> None:
    labels, named = labelled("test-translator", "translate", streaming=False)
    timeline = Timeline()
    timeline.add(Stage.TRANSLATE_DECODE, 0.25)
    volume = metrics.Volume(100, 3, 20, 30, timeline.started + 0.5)
    metrics.record_translation(timeline, labels, "ok", volume)
    assert sample("nightingale_stage_duration_seconds_sum", stage="translate_decode", **named) == 0.25
    assert sample("nightingale_request_duration_seconds_sum", **named) == timeline.total_seconds
    assert sample("nightingale_requests_total", outcome="ok", **named) == 1
    assert sample("nightingale_translation_first_sentence_seconds_sum", **named) == pytest.approx(0.5)
    assert sample("nightingale_translation_characters_total", **named) == 100
    assert sample("nightingale_translation_sentences_total", **named) == 3
    assert sample("nightingale_translation_tokens_total", direction="source", **named) == 20
    assert sample("nightingale_translation_tokens_total", direction="target", **named) == 30
    assert sample("nightingale_audio_seconds_total", **named) == 0
    metrics.record_translation(Timeline(), labels, "rejected", metrics.Volume(7))
    assert sample("nightingale_translation_characters_total", **named) == 100
    assert sample("nightingale_requests_total", outcome="rejected", **named) == 1


def test_what_was_refused_is_counted_and_times_nothing() -> None:
    labels, named = labelled("refused-model", "openai", streaming=False)
    metrics.record(Timeline(), labels, "rejected", metrics.Playback())
    assert sample("nightingale_requests_total", outcome="rejected", **named) == 1
    assert sample("nightingale_request_duration_seconds_count", **named) == 0


def test_every_stage_has_a_budget_with_buckets_on_both_sides() -> None:
    edges = metrics.stage_duration._kwargs["buckets"]
    assert set(metrics.STAGE_BUDGETS) == set(Stage)
    for budget in metrics.STAGE_BUDGETS.values():
        assert sum(budget / 4 <= edge < budget for edge in edges) >= 2
        assert sum(budget < edge <= budget * 10 for edge in edges) >= 3


async def test_a_blocked_event_loop_is_seen() -> None:
    def late() -> float:
        # From one reading: servers of other tests live in this process, and their loops are observed meanwhile.
        (family,) = metrics.event_loop_lag.collect()
        found = {one.labels.get("le"): one.value for one in family.samples if one.name.endswith("_bucket")}
        return found["+Inf"] - found["1.0"]

    before = late()
    watching = asyncio.create_task(metrics.watch_event_loop(0.01))
    await asyncio.sleep(0.02)
    time.sleep(1.2)  # noqa: ASYNC251 - blocking is what is measured; no busy machine is so late by itself
    await asyncio.sleep(0.02)
    watching.cancel()
    assert late() >= before + 1


def test_memory_is_read_from_mlx() -> None:
    from models.backend import mx

    kept = mx.zeros((1 << 20,), dtype=mx.float32)
    mx.eval(kept)
    metrics.read_memory()
    assert sample("nightingale_mlx_active_memory_bytes") >= 4 << 20
    assert sample("nightingale_mlx_peak_memory_bytes") >= sample("nightingale_mlx_active_memory_bytes")
