"""The dashboard in a browser: its numbers are those of /metrics, its waterfall is that of the last requests."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.clients import speak
from tests.processes import total
from tests.web.pages import error_of, until


def evaluate(page, body: str, *arguments: object):
    """Run `body` with the functions of metrics.js and `given`."""
    script = f"""async (given) => {{
        const {{ parse, total, histograms, quantile, since, share }} = await import("/web/metrics.js");
        {body}
    }}"""
    return page.evaluate(script, list(arguments))


def test_the_last_requests_are_shown_with_their_stages(open_page, house_server):
    speak(house_server, id_="shown-1").raise_for_status()
    page = open_page("/dashboard")
    until(page, "document.body.textContent.includes('shown-1')")
    entry = page.locator("#requests li", has_text="shown-1")
    assert "house, openai" in entry.inner_text()
    stages = entry.locator(".bar rect").evaluate_all("(all) => all.map((each) => each.dataset.stage)")
    assert {"queue", "g2p", "decoder", "audio_encode"} <= set(stages)
    edges = entry.locator(".bar rect").evaluate_all(
        "(all) => all.map((each) => [parseFloat(each.getAttribute('x')), parseFloat(each.getAttribute('width'))])"
    )
    assert all(0 <= start <= start + width <= 101 for start, width in edges)
    assert entry.locator(".bar line").count() == 1
    # A new one appears by itself, before the others.
    speak(house_server, id_="shown-2").raise_for_status()
    until(page, "document.querySelector('#requests li .id')?.textContent === 'shown-2'")
    assert "decoder" in page.inner_text("#legend-stages")
    assert "decoder" in page.inner_text("#stages")


def test_a_failure_to_read_is_said_and_passes(opened):
    page = opened("/dashboard")
    page.expected.append("ERR_FAILED")
    page.route("**/metrics", lambda route: route.abort())
    assert "does not answer" in error_of(page)
    page.unroute("**/metrics")
    until(page, "document.querySelector('#error').hidden")


def test_figures_can_be_limited(open_page, house_server):
    speak(house_server, id_="limited-1").raise_for_status()
    page = open_page("/dashboard")
    until(page, "document.querySelectorAll('#models tr:not(.nothing)').length > 0")
    page.select_option("#surface", "openai")
    rows = page.locator("#models tr:not(.nothing)").all_inner_texts()
    assert len(rows) == 1
    assert rows[0].startswith("house, openai")
    count = total(house_server, 'nightingale_ttfa_seconds_count.*"openai"')
    # It reads every second.
    until(page, f"Number(document.querySelector('#models tr:not(.nothing)').innerText.split('\\t')[1]) === {count:.0f}")
    # Of the last minute there is what came since the page was opened.
    page.select_option("#window", "60")
    before = page.locator("#models tr:not(.nothing)").all_inner_texts()
    speak(house_server, id_="limited-2").raise_for_status()
    until(page, "document.body.textContent.includes('limited-2')")
    now = (int(before[0].split("\t")[1]) if before else 0) + 1
    until(page, f"Number(document.querySelector('#models tr:not(.nothing)')?.innerText.split('\\t')[1]) === {now}")


def test_a_pause_is_one(opened, house_server):
    page = opened("/dashboard")
    counts = {"request": 0, "requestfinished": 0}

    def count(kind: str) -> None:
        counts[kind] += 1

    for kind in counts:
        page.on(kind, lambda _, kind=kind: count(kind))
    page.click("#pause")
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    page.wait_for_timeout(300)
    # Those that were under way before are finished, too.
    until(page, lambda: counts["request"] <= counts["requestfinished"])
    speak(house_server, id_="paused-1").raise_for_status()
    page.wait_for_timeout(1500)
    assert "paused-1" not in page.inner_text("#requests")
    page.click("#pause")
    until(page, "document.body.textContent.includes('paused-1')")


def test_requests_carry_no_text_and_no_voice(house_server):
    speak(house_server, "Unmistakable words.", voice="af_heart", id_="private-1").raise_for_status()
    answer = httpx.get(f"{house_server}/dashboard/requests")
    (entry,) = (each for each in answer.json()["requests"] if each["request_id"] == "private-1")
    assert set(entry) == {
        "request_id", "started", "model", "surface", "streaming", "outcome", "first_audio", "total", "audio", "stages",
        "spans", "rtf",
    }  # fmt: skip
    assert "Unmistakable" not in answer.text
    assert "af_heart" not in json.dumps(entry)


def test_reading_the_text_format(open_page):
    page = open_page("/docs")
    text = r"""# HELP a help {x="1"} 5
a{x="q\"uote",y="back\\slash, comma} brace"} 1.5
a{x="line\nbreak"} +Inf
b 2e-05
c NaN
"""
    body = "return [...parse(given[0])].map(([k, v]) => [k, v.map((s) => [s.labels, String(s.value)])])"
    found = evaluate(page, body, text)
    assert found == [
        ["a", [[{"x": 'q"uote', "y": "back\\slash, comma} brace"}, "1.5"], [{"x": "line\nbreak"}, "Infinity"]]],
        ["b", [[{}, "0.00002"]]],
        ["c", [[{}, "NaN"]]],
    ]


def test_percentiles_are_those_of_prometheus(open_page):
    page = open_page("/docs")
    body = "return quantile(given[1], { edges: given[0].edges.map(Number), counts: given[0].counts });"
    # What Prometheus' histogram_quantile answers, by its rules.
    for edges, counts, q, expected in (
        ([1, 2, float("inf")], [0, 10, 10], 0.5, 1.5),
        ([1, 2, float("inf")], [10, 10, 10], 0.5, 0.5),
        ([1, 2, float("inf")], [0, 5, 10], 0.99, 2),
        ([0, 0.05, float("inf")], [7, 9, 10], 0.5, 0),
        ([0.1, 0.2, 0.4, float("inf")], [10, 20, 40, 40], 0.75, 0.3),
    ):
        given = {"edges": [str(edge).replace("inf", "Infinity") for edge in edges], "counts": counts}
        assert evaluate(page, body, given, q) == pytest.approx(expected), (edges, counts, q)


def test_a_restarted_server_counts_from_its_beginning(open_page):
    page = open_page("/docs")
    text = 'h_bucket{{le="1"}} {0}\nh_bucket{{le="+Inf"}} {0}\nh_sum {0}\nh_count {0}\n'
    body = """const [then, now, restarted] = given.map((text) => [...histograms(parse(text), "h").values()][0]);
        return [since(now, then).count, since(restarted, now).count, since(now, undefined).count];"""
    assert evaluate(page, body, text.format(3), text.format(8), text.format(2)) == [5, 2, 8]
