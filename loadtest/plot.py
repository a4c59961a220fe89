"""Line charts as SVG, for reports: no library is needed to draw a few of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from loadtest.playback import Trace, play
from loadtest.report import PERCENTILES, Step

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50
COLORS = ("#0b6e99", "#c2571a", "#8a2b52", "#3c7a3f", "#555555", "#9a7d0a")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: named lines over common axes, both from 0 or from the least value on a logarithmic one."""

    title: str
    x: str
    y: str
    lines: dict[str, Points]
    logarithmic: bool = False
    top: float | None = None


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return about `about` round numbers from at most `low` to at least `high`."""
    high = high if high > low else low + 1
    span = high - low
    magnitude = 10.0 ** math.floor(math.log10(span / about))
    width = next(magnitude * factor for factor in (1, 2, 5, 10) if span / (magnitude * factor) <= about)
    first, last = math.floor(low / width + 1e-9), math.ceil(high / width - 1e-9)
    return [round(number * width, 10) for number in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten, from at most `low` to at least `high`; both positive."""
    steps = [factor * 10.0**power for power in range(-6, 7) for factor in (1, 2, 5)]
    begin = max((step for step in steps if step <= low), default=steps[0])
    end = min((step for step in steps if step >= high), default=steps[-1])
    return [step for step in steps if begin <= step <= end] if end > begin else [begin, begin * 2]


def svg(panels: Sequence[Panel], title: str) -> str:
    """Return the panels as one SVG, one below the other."""
    height = HEIGHT * len(panels) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12"><title>{escape(title)}</title><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for index, panel in enumerate(panels):
        parts.append(f'<g transform="translate(0 {30 + HEIGHT * index})">{_panel(panel)}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel) -> str:
    xs = [x for points in panel.lines.values() for x, _ in points]
    ys = [y for points in panel.lines.values() for _, y in points]
    if panel.logarithmic:
        ys = [y for y in ys if y > 0]
    if not xs or not ys:
        return f'<text x="{LEFT}" y="{TOP}">{escape(panel.title)}: nothing to show</text>'
    across = ticks(0.0, max(xs))
    up = decades(min(ys), max(ys)) if panel.logarithmic else ticks(0.0, max(ys) if panel.top is None else panel.top)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place_x(x: float) -> float:
        return LEFT + (right - LEFT) * x / across[-1]

    def place_y(y: float) -> float:
        if panel.logarithmic:
            part = math.log(max(y, up[0]) / up[0]) / math.log(up[-1] / up[0])
        else:
            part = (y - up[0]) / (up[-1] - up[0])
        return bottom - (bottom - TOP) * part

    parts = [f'<text x="{LEFT}" y="{TOP - 12}" font-weight="bold">{escape(panel.title)}</text>']
    for y in up:
        parts.append(f'<path d="M{LEFT} {place_y(y):.1f}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{place_y(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in across:
        parts.append(f'<path d="M{place_x(x):.1f} {bottom}v5" stroke="#000"/>')
        parts.append(f'<text x="{place_x(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#000"/>')
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{bottom + 38}" text-anchor="middle">{escape(panel.x)}</text>')
    parts.append(
        f'<text transform="translate(16 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y)}</text>"
    )
    for number, (name, points) in enumerate(panel.lines.items()):
        color = COLORS[number % len(COLORS)]
        places = [(place_x(x), place_y(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        if len(points) <= 40:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places]
        parts.append(f'<text x="{right + 10}" y="{TOP + 14 + 18 * number}" fill="{color}">{escape(name)}</text>')
    return "\n".join(parts)


def curve(steps: Sequence[Step]) -> list[Panel]:
    """First audio, lag and continuity over the level of load."""
    ordered = sorted(steps, key=lambda step: step.level)
    unit = ordered[0].unit if ordered else "load"
    panels = []
    for title, name in (("First audio", "first"), ("Sentence lag", "lag")):
        lines: dict[str, Points] = {}
        for p in PERCENTILES:
            values = [(step.level, getattr(step.all, name)) for step in ordered]
            lines[f"p{p}"] = [(level, found[p] * 1e3) for level, found in values if found]
        panels.append(Panel(title, unit, "ms", lines, logarithmic=name == "first"))
    shares = [(step.level, step.all.continuity * 100) for step in ordered if step.all.continuity is not None]
    unserved = [(step.level, sum(step.all.errors.values()) / max(1, step.requests) * 100) for step in ordered]
    panels.append(Panel("Continuity", unit, "%", {"never starved": shares, "not served": unserved}, top=100.0))
    panels.append(
        Panel("Goodput", unit, "requests a second", {"good": [(step.level, step.all.goodput) for step in ordered]})
    )
    return panels


def distribution(traces: Sequence[Trace]) -> list[Panel]:
    """Draw the shares of requests with first audio, and of sentences with a lag, below each number of milliseconds."""
    first: dict[str, list[float]] = {}
    lags: dict[str, list[float]] = {}
    for trace in traces:
        if trace.error is None and trace.first is not None:
            first.setdefault(trace.surface, []).append(trace.first)
            lags.setdefault(trace.surface, []).extend(play(trace).lags)
    return [
        Panel(title, "ms", "% of them", {name: _cumulative(found) for name, found in sorted(values.items())}, top=100.0)
        for title, values in (("First audio within", first), ("Sentence lag within", lags))
    ]


def _cumulative(values: Sequence[float]) -> Points:
    ordered = sorted(values)
    return [(value * 1e3, (index + 1) / len(ordered) * 100) for index, value in enumerate(ordered)]
