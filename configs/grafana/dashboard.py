"""The Grafana dashboard as code: `python configs/grafana/dashboard.py` writes dashboards/nightingale.json.

Panels are laid out left to right in a grid of 24 columns. Every query keeps to the model and surface that were chosen
above, where its metric has these labels.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent / "dashboards" / "nightingale.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

HERE = 'instance=~"$instance"'
CHOSEN = f'{HERE}, model=~"$model", surface=~"$surface"'
OF_MODEL = f'{HERE}, model=~"$model"'
PERCENTILES = (50, 95, 99)


def percentile(number: int, metric: str, labels: str = CHOSEN, by: str = "model, surface") -> str:
    """A percentile of a histogram over Grafana's own window."""
    group = f"{by}, le" if by else "le"
    return (
        f"histogram_quantile({number / 100:g}, sum by ({group}) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))"
    )


def rate(metric: str, labels: str = CHOSEN, by: str = "") -> str:
    """A counter's increase a second."""
    total = f"rate({metric}{{{labels}}}[$__rate_interval])"
    return f"sum by ({by}) ({total})" if by else f"sum({total})"


class Board:
    """Panels in their places."""

    def __init__(self) -> None:
        self.panels: list[dict[str, Any]] = []
        self._x = self._y = self._height = 0

    def row(self, title: str) -> None:
        """Begin a row."""
        self._y += self._height
        self._x = self._height = 0
        self._add({"type": "row", "title": title, "collapsed": False, "panels": []}, 24, 1)
        self._y += 1
        self._x = self._height = 0

    def graph(
        self,
        title: str,
        queries: dict[str, str],
        *,
        unit: str = "s",
        width: int = 12,
        about: str = "",
        stack: bool = False,
        exemplars: bool = False,
        signed: bool = False,
        **defaults: Any,
    ) -> None:
        """Lines over time; `queries` maps a legend to its expression."""
        custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 30 if stack else 6, "showPoints": "never"}
        least = {} if signed else {"min": 0}
        custom["stacking"] = {"mode": "normal" if stack else "none", "group": "A"}
        self._add(
            {
                "type": "timeseries",
                "title": title,
                "description": about,
                "targets": _targets(queries, exemplars=exemplars),
                "fieldConfig": {"defaults": {"unit": unit, "custom": custom} | least | defaults, "overrides": []},
                "options": {
                    "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
                    "tooltip": {"mode": "multi", "sort": "desc"},
                },
            },
            width,
            8,
        )

    def stat(self, title: str, query: str, *, unit: str = "short", about: str = "", **defaults: Any) -> None:
        """One number."""
        self._add(
            {
                "type": "stat",
                "title": title,
                "description": about,
                "targets": _targets({"": query}),
                "fieldConfig": {"defaults": {"unit": unit} | defaults, "overrides": []},
                "options": {
                    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                    "colorMode": "value",
                    "graphMode": "area",
                },
            },
            4,
            4,
        )

    def heatmap(self, title: str, metric: str, *, about: str = "") -> None:
        """Where a histogram's mass lies over time."""
        query = f"sum by (le) (increase({metric}_bucket{{{CHOSEN}}}[$__rate_interval]))"
        target = _targets({"{{le}}": query})[0] | {"format": "heatmap"}
        self._add(
            {
                "type": "heatmap",
                "title": title,
                "description": about,
                "targets": [target],
                "options": {
                    "calculate": False,
                    "cellGap": 1,
                    "color": {"mode": "scheme", "scheme": "Turbo", "steps": 64},
                    "yAxis": {"unit": "s"},
                    "tooltip": {"show": True, "yHistogram": True},
                },
                "fieldConfig": {"defaults": {}, "overrides": []},
            },
            12,
            8,
        )

    def _add(self, panel: dict[str, Any], width: int, height: int) -> None:
        if self._x + width > 24:
            self._y += self._height
            self._x = self._height = 0
        place = {"x": self._x, "y": self._y, "w": width, "h": height}
        own = {} if panel["type"] == "row" else {"datasource": SOURCE}
        self.panels.append({"id": len(self.panels) + 1, "gridPos": place} | panel | own)
        self._x += width
        self._height = max(self._height, height)


def _targets(queries: dict[str, str], *, exemplars: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend or "__auto",
            "exemplar": exemplars,
        }
        for number, (legend, query) in enumerate(queries.items())
    ]


def _percentiles(metric: str, legend: str = "{{model}} {{surface}}", **chosen: str) -> dict[str, str]:
    return {f"{legend} p{number}".strip(): percentile(number, metric, **chosen) for number in PERCENTILES}


def _steps(*values: tuple[str, float | None]) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in values]}


def panels() -> list[dict[str, Any]]:
    """Every panel, row by row."""
    board = Board()

    board.row("Now")
    ready = [{"type": "value", "options": {"0": {"text": "not ready"}, "1": {"text": "ready"}}}]
    red_green = _steps(("red", None), ("green", 1))
    board.stat("Readiness", f"min(nightingale_ready{{{HERE}}})", mappings=ready, thresholds=red_green)
    board.stat(
        "First audio, p95", percentile(95, "nightingale_ttfa_seconds", by=""), unit="s", about="Arrival to first byte."
    )
    continuity = f'sum(rate(nightingale_underrun_seconds_bucket{{{CHOSEN}, le="0.05"}}[$__rate_interval]))'
    continuity += f" / sum(rate(nightingale_underrun_seconds_count{{{CHOSEN}}}[$__rate_interval]))"
    board.stat(
        "Continuity",
        continuity,
        unit="percentunit",
        about="Streams whose listener waited no more than 50 ms after the first byte.",
        thresholds=_steps(("red", None), ("orange", 0.95), ("green", 0.99)),
    )
    board.stat(
        "Real-time factor, p95",
        percentile(95, "nightingale_rtf", by=""),
        thresholds=_steps(("green", None), ("red", 1)),
    )
    board.stat("Active streams", f"sum(nightingale_active_streams{{{HERE}}})")
    board.stat("Waiting", f"sum(nightingale_queue_depth{{{HERE}}})", about="Utterances that wait for the model thread.")

    board.row("First audio")
    board.graph("First byte", _percentiles("nightingale_ttfa_seconds"), exemplars=True)
    board.graph(
        "First sound",
        _percentiles("nightingale_ttfa_audible_seconds"),
        about="When a player that starts at the first byte reaches a sample above the threshold of silence.",
        exemplars=True,
    )
    board.heatmap("First byte, all requests", "nightingale_ttfa_seconds")
    board.graph("Whole request", _percentiles("nightingale_request_duration_seconds"), about="Arrival to last byte.")

    board.row("Stages")
    for number in PERCENTILES:
        by_stage = percentile(number, "nightingale_stage_duration_seconds", by="stage")
        board.graph(f"Stages, p{number}", {"{{stage}}": by_stage}, width=8)
    mean = (
        f"{rate('nightingale_stage_duration_seconds_sum', by='stage')} / scalar({rate('nightingale_requests_total')})"
    )
    board.graph("Where a request's time goes", {"{{stage}}": mean}, stack=True, about="Mean seconds per request.")
    board.graph(
        "Stages by model and surface, p95",
        {
            "{{model}} {{surface}} {{stage}}": percentile(
                95, "nightingale_stage_duration_seconds", by="model, surface, stage"
            )
        },
    )

    board.row("Queue and thread")
    queued = f'{CHOSEN}, stage="queue"'
    board.graph("Wait for the model thread", _percentiles("nightingale_stage_duration_seconds", labels=queued))
    depth = {"{{priority}}": f"sum by (priority) (nightingale_queue_depth{{{HERE}}})"}
    board.graph("Waiting utterances", depth, unit="short", width=6)
    streams = {"{{instance}}": f"nightingale_active_streams{{{HERE}}}"}
    board.graph("Active streams", streams, unit="short", width=6)
    beat = {"{{instance}}": f"nightingale_worker_heartbeat_age_seconds{{{HERE}}}"}
    board.graph("Age of the heartbeat", beat, width=8, about="Seconds since the model thread showed progress.")
    lag = _percentiles("nightingale_event_loop_lag_seconds", "", labels=HERE, by="")
    board.graph("Lag of the event loop", lag, width=8)
    board.graph(
        "Cancellation",
        _percentiles("nightingale_cancel_latency_seconds", "{{model}}", labels=OF_MODEL, by="model"),
        width=8,
        about="From a client's going to the model thread's being free of its work.",
    )
    turn = {"{{model}}": f"max by (model) (nightingale_longest_turn_seconds{{{OF_MODEL}}})"}
    board.graph("Longest turn of a model", turn, width=8, about="What another model's first audio may wait for.")
    spoken = _percentiles("nightingale_batch_size", "{{model}}", labels=OF_MODEL, by="model")
    board.graph("Utterances in a turn", spoken, unit="short", width=8, about="Above 1 only with speech_batch.")
    load = {"{{instance}}": f"nightingale_predicted_load{{{HERE}}}"}
    about = "Of the model thread, by the streams that are speaking."
    board.graph("Predicted load", load, unit="short", width=8, about=about)

    board.row("Continuity")
    per_surface = (
        f'sum by (model, surface) (rate(nightingale_underrun_seconds_bucket{{{CHOSEN}, le="0.05"}}[$__rate_interval]))'
        f" / sum by (model, surface) (rate(nightingale_underrun_seconds_count{{{CHOSEN}}}[$__rate_interval]))"
    )
    board.graph("Streams without a gap", {"{{model}} {{surface}}": per_surface}, unit="percentunit", width=8, max=1)
    board.graph("Silence inserted", _percentiles("nightingale_underrun_seconds"), width=8)
    board.graph("Between two pieces of audio", _percentiles("nightingale_chunk_gap_seconds"), width=8)
    board.graph(
        "Real-time factor", _percentiles("nightingale_rtf"), unit="short", about="Above 1, listeners must starve."
    )
    board.graph(
        "Seconds of audio a second",
        {
            "{{model}} {{surface}}": rate("nightingale_audio_seconds_total", by="model, surface"),
            "{{model}} wasted": rate("nightingale_wasted_audio_seconds_total", OF_MODEL, "model"),
        },
        unit="short",
        about="Delivered, and computed for clients that had gone.",
    )

    board.row("Outcomes")
    board.graph("Requests", {"{{outcome}}": rate("nightingale_requests_total", by="outcome")}, unit="reqps", stack=True)
    shares = {
        outcome: f"({rate('nightingale_requests_total', f'{HERE}, outcome={json.dumps(outcome)}')} or vector(0))"
        f" / {rate('nightingale_requests_total', HERE)}"
        for outcome in ("rejected", "failed", "cancelled")
    }
    board.graph("Shares", shares, unit="percentunit")

    codes = {"{{code}}": rate("nightingale_errors_total", HERE, "code")}
    board.graph("Errors by code", codes, unit="reqps", width=24, about="What clients were told.")

    sent = {
        "{{source}}": rate("nightingale_cache_hits_total", OF_MODEL, "source"),
        "spoken anew": rate("nightingale_cache_misses_total", OF_MODEL),
    }
    about = "Sentences from the cache of speech, by where they lay; none where it is off."
    board.graph("Cache of spoken sentences", sent, unit="short", width=24, about=about)

    board.row("Translation")
    board.graph("First translated sentence", _percentiles("nightingale_translation_first_sentence_seconds"), width=8)
    tokens = {"{{model}} {{direction}}": rate("nightingale_translation_tokens_total", by="model, direction")}
    board.graph("Tokens a second", tokens, unit="short", width=8)
    batches = _percentiles("nightingale_translation_batch_size", "{{model}}", labels=OF_MODEL, by="model")
    board.graph("Sentences together", batches, unit="short", width=8)

    board.row("Language models")
    kinds = {"{{model}} {{kind}}": rate("nightingale_generation_tokens_total", by="model, kind")}
    about = "Tokens read of prompts, without those that were known from before, and tokens written."
    board.graph("Tokens of language models a second", kinds, unit="short", width=24, about=about)

    board.row("Speech recognition")
    heard = {
        "{{model}} {{surface}}": rate("nightingale_recognized_seconds_total", by="model, surface"),
        "skipped": f"({rate('nightingale_skipped_audio_seconds_total')} or vector(0))",
    }
    about = "Recordings that were recognized to their end, and live speech that was skipped as it came too fast."
    board.graph("Seconds of recordings a second", heard, unit="short", width=8, about=about)
    about = "From the end of an utterance to its text."
    board.graph("Text of live speech", _percentiles("nightingale_utterance_delay_seconds"), width=8, about=about)
    verified = {
        "{{verdict}}": rate("nightingale_verified_sentences_total", OF_MODEL, "verdict"),
        "spoken again": rate("nightingale_verification_retries_total", OF_MODEL),
    }
    about = "Sentences that a recognizer heard after they were spoken."
    board.graph("Verified sentences a second", verified, unit="short", width=8, about=about)

    board.row("Interpretation")
    of_surface = f'{HERE}, surface=~"$surface"'
    points = _percentiles("nightingale_interpretation_latency_seconds", "{{until}}", labels=of_surface, by="until")
    about = "From the end of a spoken sentence to its text, translation and first audio, and to that audio in a player."
    board.graph("End of a sentence to", points, width=16, about=about)
    endings = {"{{ending}}": rate("nightingale_interpretation_sentences_total", of_surface, "ending")}
    board.graph("Interpreted sentences a second", endings, unit="short", width=8)

    board.row("Jobs")
    kept = {"{{status}}": f"sum by (status) (nightingale_jobs{{{HERE}}})"}
    board.graph("Jobs kept", kept, unit="short", width=6, stack=True)
    ended = {"{{status}}": f"sum by (status) (increase(nightingale_jobs_finished_total{{{HERE}}}[1h]))"}
    board.graph("Jobs ended in an hour", ended, unit="short", width=6)
    passages = {"{{outcome}}": rate("nightingale_job_passages_total", HERE, "outcome")}
    board.graph("Passages a second", passages, unit="short", width=6, about="Paragraphs, titles of chapters and cues.")
    held = {"{{instance}}": f"nightingale_job_storage_bytes{{{HERE}}}"}
    board.graph("Disk for jobs", held, unit="bytes", width=6)

    board.row("Speech tokens and cloned voices")
    board.graph(
        "Speech tokens a second", {"{{model}}": rate("nightingale_t3_tokens_total", by="model")}, unit="short", width=8
    )
    accepted = f'{CHOSEN}, outcome="accepted"'
    kept = rate("nightingale_t3_draft_tokens_total", accepted, "model")
    drafts = {"{{model}}": f"{kept} / {rate('nightingale_t3_draft_tokens_total', by='model')}"}
    board.graph("Guessed tokens that stood", drafts, unit="percentunit", width=8)
    made = {"{{source}}": rate("nightingale_voice_conditionings_total", HERE, "source")}
    board.graph("Cloned voices made ready", made, unit="short", width=8, about="From memory, from disk, or computed.")
    computing = _percentiles("nightingale_voice_conditioning_seconds", "{{model}}", labels=OF_MODEL, by="model")
    board.graph("Making a voice", computing, width=8)
    board.graph("Voices kept", {"{{instance}}": f"nightingale_voices_stored{{{HERE}}}"}, unit="short", width=8)
    board.graph("Voices in memory", {"{{instance}}": f"nightingale_voice_cache_bytes{{{HERE}}}"}, unit="bytes", width=8)

    board.row("Memory and process")
    memory = {
        "arrays": f"sum(nightingale_mlx_active_memory_bytes{{{HERE}}})",
        "kept for reuse": f"sum(nightingale_mlx_cache_memory_bytes{{{HERE}}})",
        "arrays, most": f"sum(nightingale_mlx_peak_memory_bytes{{{HERE}}})",
        "resident": f"sum(process_resident_memory_bytes{{{HERE}}})",
    }
    board.graph("Memory", memory, unit="bytes", about="Resident memory is known on Linux only.")
    slope = {"resident": f"3600 * deriv(process_resident_memory_bytes{{{HERE}}}[1h])"}
    slope["arrays"] = f"3600 * deriv(nightingale_mlx_active_memory_bytes{{{HERE}}}[1h])"
    board.graph("Growth an hour", slope, unit="bytes", signed=True)
    board.graph(
        "Processors",
        {"{{instance}}": f"rate(process_cpu_seconds_total{{{HERE}}}[$__rate_interval])"},
        unit="short",
        width=8,
    )
    board.graph("Open files", {"{{instance}}": f"process_open_fds{{{HERE}}}"}, unit="short", width=8)
    board.graph("Warm-up", {"{{model}}": f"nightingale_warmup_seconds{{{OF_MODEL}}}"}, width=8)
    arrays = {"{{model}}": f"nightingale_model_memory_bytes{{{OF_MODEL}}}"}
    board.graph("Models in memory", arrays, unit="bytes", width=24, about="Growth of the arrays while it was loaded.")
    loads = _percentiles("nightingale_model_load_seconds", "{{model}}", labels=OF_MODEL, by="model")
    board.graph("Loading a model", loads, width=8)
    unloads = {"{{model}} {{reason}}": f"sum by (model, reason) (nightingale_model_unloads_total{{{OF_MODEL}}})"}
    about = "After idle time, for the memory budget, or because somebody asked for it."
    board.graph("Models unloaded", unloads, unit="short", width=8, about=about)
    waits = {
        "models loaded": f"sum(nightingale_models_loaded{{{HERE}}})",
        "requests that wait for one": f"sum(nightingale_model_load_waits{{{HERE}}})",
    }
    board.graph("Models and waits", waits, unit="short", width=8)
    return board.panels


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def dashboard() -> dict[str, Any]:
    """The whole document, as Grafana imports it."""
    return {
        "uid": "nightingale",
        "title": "Nightingale",
        "description": "Latency of speech and translation, stage by stage.",
        "tags": ["nightingale", "text-to-speech"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("instance", "Server", "label_values(nightingale_build_info, instance)"),
                _variable("model", "Model", "label_values(nightingale_requests_total, model)"),
                _variable("surface", "Surface", "label_values(nightingale_requests_total, surface)"),
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Alerts",
                    "datasource": SOURCE,
                    "enable": True,
                    "iconColor": "red",
                    "expr": 'ALERTS{alertname=~"Nightingale.*", alertstate="firing"}',
                    "titleFormat": "{{alertname}}",
                }
            ]
        },
        "panels": panels(),
    }


def render() -> str:
    """The file's text."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(render(), encoding="utf-8")
    print(f"{OUTPUT}: {sum(panel['type'] != 'row' for panel in panels())} panels")
