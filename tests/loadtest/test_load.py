"""The load script against a real server, and what it refuses."""

from __future__ import annotations

import json
import math
import signal
import socket
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as websocket_server

from loadtest import load, own_time, plot, report
from loadtest.arrivals import LONG_TEXTS, TEXTS, Knee, arrivals, find_knee, mix
from loadtest.clients import server_timing
from loadtest.playback import Piece, Trace, play
from tests import processes
from tests.processes import metric, serve_stand_ins, wait_until


def parse(drawing: str) -> ET.Element:
    return ET.fromstring(drawing)  # noqa: S314  (our own)


@pytest.fixture
def run(capsys):
    """`run(*arguments)`: the script in this process."""

    def run_main(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        try:
            status = load.main(arguments)
        except SystemExit as end:
            status = end.code
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return run_main


def steps(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The steps of a report that was asked for as JSON."""
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["steps"]


def test_all_surfaces_are_measured(run, server, tmp_path):
    options = ["--clients", "2", "--requests", "6", "--surface", "all", "--save", str(tmp_path)]
    done = run("--url", server, *options, "--json")
    (step,) = steps(done)
    assert json.loads(done.stdout) == (saved := json.loads((tmp_path / "report.json").read_text()))
    assert saved["machine"]["cpus"] >= 1
    assert [group["surface"] for group in step["surfaces"]] == ["http", "sse", "websocket"]
    for group in step["surfaces"]:
        assert (group["served"], group["refused"], group["errors"]) == (2, 0, {})
        assert 0 < group["first"]["50"] <= group["total"]["50"] <= group["total"]["99"] < step["seconds"] * 1.01
        assert 1.5 < group["audio"] < 40
        assert group["rtf"]["50"] > 0
    # The same texts and seeds in the same voice: all surfaces count the same sound.
    http, sse, websocket = (group["audio"] for group in step["surfaces"])
    assert http == pytest.approx(sse, abs=0.01) == websocket
    assert step["server"].keys() == {"http and sse", "websocket"}
    # What the server says of a reply is part of what its client waited.
    assert all(group["outside"]["50"] >= 0 for group in step["surfaces"] if group["outside"])
    assert "p99" in (tmp_path / "report.txt").read_text()
    parse((tmp_path / "report.svg").read_text())


def test_the_server_s_own_time_is_told_apart(server, capsys):
    assert own_time.main(["--url", server, "--requests", "3"]) == 0
    heads, *lines = capsys.readouterr().out.splitlines()[1:]
    assert heads.split("  ")[-1].strip() == "p95"
    for name, row, stages in zip(("http", "websocket"), lines[::2], lines[1::2], strict=True):
        label, *figures = row.split()
        client, told, model, on_top, low, high = map(float, figures)
        assert label == name
        assert 0 < model < told < client
        assert low <= on_top <= high and on_top < client
        own = dict(part.split() for part in stages.strip().split(", "))
        assert set(own) == {"queue", "g2p", "audio_encode", "elsewhere"}
        assert all(float(milliseconds) >= 0 for milliseconds in own.values())


def test_own_time_outlasts_a_ping():
    def answer(socket: ServerConnection) -> None:
        for message in socket:
            kind = json.loads(message)["type"]
            if kind == "flush":
                socket.ping()
                socket.send(b"\0\0" * 240)
                socket.send(json.dumps({"type": "done", "first_audio": 0.002, "stages": {"decoder": 0.001}}))
            elif kind == "start":
                socket.send(json.dumps({"type": "ready"}))

    with websocket_server(answer, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host, port = server.socket.getsockname()
            waits = own_time.over_websocket(f"http://{host}:{port}", {"input": "Hello."}, 2)
        finally:
            server.shutdown()
            thread.join()
    assert waits.server == [0.002, 0.002]


def test_own_time_says_what_was_refused(server, capsys):
    assert own_time.main(["--url", server, "--requests", "2", "--voice", "nobody"]) == 1
    assert "400" in capsys.readouterr().err
    assert own_time.main(["--url", "http://127.0.0.1:9", "--requests", "2"]) == 1


def test_an_open_loop_does_not_wait_for_answers(run, tmp_path):
    """Its server answers none of six requests before all of them came."""
    options = ["--rate", "60", "--arrivals", "burst", "--burst", "3", "--requests", "6", "--voice", "gated"]
    with serve_stand_ins(tmp_path) as server:

        def open_the_gate() -> None:
            wait_until(lambda: metric(server.url, "nightingale_active_streams") == 6)
            server.popen.send_signal(signal.SIGUSR1)

        with ThreadPoolExecutor(1) as pool:
            opened = pool.submit(open_the_gate)
            done = run("--url", server.url, "--surface", "http", *options, "--json")
            opened.result()
    (step,) = steps(done)
    assert (step["unit"], step["all"]["served"]) == ("requests/s", 6)
    assert step["all"]["late"]["99"] >= 0


def test_live_streams_take_as_long_as_they_sound(run, server, tmp_path):
    texts = tmp_path / "texts"
    texts.write_text("Hello world.\n")
    (step,) = steps(run("--url", server, "--streams", "1", "--requests", "3", "--texts", str(texts), "--json"))
    assert step["seconds"] >= step["all"]["audio"] > 2


def test_requests_of_each_client_and_a_coarse_knee(run, server, tmp_path):
    texts = tmp_path / "texts"
    texts.write_text("One. Two. Three.\n")
    options = ["--clients", "2", "--each", "2", "--find-knee", "--precision", "0.9", "--surface", "websocket"]
    done = run("--url", server, *options, "--texts", str(texts), "--requests", "1", "--json")
    found = steps(done)
    assert [step["requests"] for step in found] == [2 * step["level"] for step in found]
    # What was found so far stands on standard error, a line a level.
    lines = [line for line in done.stderr.splitlines() if "clients: continuity" in line]
    assert len(lines) == len(found)
    assert all("served, p50 " in line for line in lines)


def test_errors_are_counted_and_fail_the_run(run, server):
    done = run("--url", server, "--clients", "2", "--requests", "4", "--voice", "nobody", "--long")
    assert done.returncode == 1
    assert "http: 2 x HTTP 400" in done.stdout
    assert "websocket: 2 x unknown_voice" in done.stdout


def test_other_machines_are_refused():
    """By the script itself, and its exit status."""
    done = processes.run(sys.executable, load.__file__, "--url", "http://192.0.2.1:8000")
    assert done.returncode == 2
    assert "--allow-remote" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--clients", "0"],
        ["--clients", "1.5"],
        ["--rate", "nan"],
        ["--rate", "1", "--streams", "1"],
        ["--requests", "0"],
        ["--clients", "2", "--each", "-1"],
        ["--rate", "1", "--each", "2"],
        ["--streams", "2", "--find-knee", "--precision", "1"],
        ["--texts", "/nowhere"],
        ["--url", "ftp://127.0.0.1"],
    ],
)
def test_wrong_usage(run, arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_server(run):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        done = run("--url", f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no ready server" in done.stderr


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("127.8.8.8", True), ("192.0.2.1", False), ("8.8.8.8", False)],
)
def test_loopback(host, local):
    assert load.is_loopback(host) is local


def trace(*pieces: tuple[float, float], **more: object) -> Trace:
    """Pieces of a sentence each, (at, seconds)."""
    found = [Piece(at, seconds, index) for index, (at, seconds) in enumerate(pieces)]
    end = found[-1].at if found else 0.0
    return Trace("websocket", **{"pieces": found, "sentences": True, "end": end, **more})


def test_a_player_that_never_waits():
    heard = play(trace((1.2, 2.0), (1.3, 2.0), (5.2, 1.0), due=1.0))
    assert heard.continuous
    assert heard.underrun == 0
    assert heard.gaps == 2
    assert heard.lags == pytest.approx((0.2, 0, 0))


def test_silence_is_counted_where_a_sentence_is_late():
    # Played from 0.5 to 1.5, then nothing till 2.0, till 3.0; the last is just in time.
    heard = play(trace((0.5, 1.0), (2.0, 1.0), (3.0, 1.0)))
    assert heard.silences == pytest.approx((0.5,))
    assert heard.lags == pytest.approx((0.5, 0.5, 0))
    assert not heard.continuous


def test_a_sentence_that_was_not_asked_for_is_not_late():
    # The second text is sent 4 s after the first was played out; its sound comes 0.1 s later.
    heard = play(trace((0.5, 1.0), (5.6, 1.0), asked=(0.0, 5.5)))
    assert heard.silences == pytest.approx((0.1,))
    assert heard.lags == pytest.approx((0.5, 0.1))


def test_pieces_of_one_sentence_have_one_lag_and_still_can_starve():
    pieces = [Piece(0.5, 0.2, 0), Piece(1.0, 0.5, 0), Piece(1.1, 1.0, 1)]
    heard = play(Trace("websocket", pieces=pieces, sentences=True))
    assert heard.lags == pytest.approx((0.5, 0.0))
    assert heard.silences == pytest.approx((0.3,))


def test_plain_http_has_no_sentences():
    assert play(trace((0.5, 1.0), (2.0, 1.0), sentences=False)).lags == pytest.approx((0.5,))


def test_percentiles_leave_errors_out():
    traces = [trace((0.1 * n, 1.0), end=0.2 * n) for n in range(1, 101)]
    traces += [trace(error="HTTP 503", refused=True)] * 7 + [trace(error="ReadError")]
    summary = report.summarize("websocket", traces, 10.0, limit=5.0)
    assert (summary.served, summary.refused) == (100, 7)
    assert summary.errors == {"HTTP 503": 7, "ReadError": 1}
    assert summary.first[50] == pytest.approx(5.05)
    assert summary.total[99] == pytest.approx(19.802)
    assert summary.rtf[95] == pytest.approx(19.01)
    # Half were heard within the limit.
    assert summary.goodput == pytest.approx(5.0)
    assert report.summarize("http", [], 1.0).first == {}


def test_continuity_counts_only_what_could_starve():
    smooth, starved = trace((0, 1), (0.5, 1)), trace((0, 1), (1.5, 1))
    broken = trace((0, 1), (0.5, 1), error="ReadError")
    single, never = trace((0, 1)), trace(error="HTTP 503", refused=True)

    def share(*traces: Trace) -> float | None:
        return report.summarize("all", traces, 1.0).continuity

    assert share(smooth, smooth, smooth, starved) == 0.75
    assert share(smooth, broken) == 0.5
    assert share(smooth, single, never) == 1.0
    assert share(single, never) is None


def test_a_level_is_kept_up_only_if_its_streams_were_measured_and_served():
    smooth, starved = trace((0, 1), (0.5, 1)), trace((0, 1), (1.5, 1))
    refused = trace(error="overloaded", refused=True)

    def good(*traces: Trace) -> bool:
        return report.step(1, "requests/s", traces, 1.0, 1.0).good

    assert good(*[smooth] * 99, starved)
    assert not good(*[smooth] * 98, starved, starved)
    assert not good(*[smooth] * 98, refused, refused)
    assert not good(trace((0, 1)))


def test_what_the_model_did_not_compute():
    stages = {"queue": 0.01, "g2p": 0.02, "bert": 0.1, "decoder": 0.3, "audio_encode": 0.01, "total": 0.5}
    one = trace((1.5, 1.0), due=0.5, sent=0.9, text_sent=1.0, stages=stages, server_first=0.45)
    assert one.on_top == pytest.approx(0.1)
    assert one.outside == pytest.approx(0.05)
    assert one.first == pytest.approx(1.0)
    # Stages are sums: of two sentences nobody knows what came before the first sound.
    assert trace((1.5, 1.0), (1.6, 1.0), stages=stages).on_top is None
    assert server_timing("g2p;dur=1.50, total;dur=20") == {"g2p": 0.0015, "total": 0.02}


@pytest.mark.parametrize("pattern", ["poisson", "burst", "even"])
def test_arrivals_keep_their_rate(pattern):
    times = arrivals(pattern, 5.0, 4_000, np.random.default_rng(1), burst=4)
    assert len(times) == 4_000
    assert times == sorted(times)
    assert times[-1] == pytest.approx(800, rel=0.1)
    gaps = np.diff(times)
    if pattern == "even":
        assert np.allclose(gaps, 0.2)
    elif pattern == "burst":
        assert np.count_nonzero(gaps == 0) == 3_000
    else:
        # Exponential: the deviation is the mean.
        assert np.std(gaps) == pytest.approx(0.2, rel=0.1)


def test_the_mix_is_the_same_for_every_surface_and_seed():
    def draw(seed: int) -> list:
        return mix([0.0] * 300, ("http", "websocket"), TEXTS, (None, "house"), np.random.default_rng(seed))

    requests = draw(3)
    assert requests == draw(3) != draw(4)
    for http, websocket in zip(requests[::2], requests[1::2], strict=True):
        assert (http.surface, websocket.surface) == ("http", "websocket")
        assert (http.text, http.model, http.seed) == (websocket.text, websocket.model, websocket.seed)
    assert {request.text for request in requests} == set(TEXTS)
    assert {request.model for request in requests} == {None, "house"}
    assert all(text.count(". ") >= 2 for text in LONG_TEXTS)


@pytest.mark.parametrize("capacity", [0.3, 1.0, 3.7, 90.0])
@pytest.mark.parametrize("start", [0.5, 2.0, 8.0])
def test_the_knee_is_found(capacity, start):
    tried = []
    knee = find_knee(lambda level: tried.append(level) or level <= capacity, start)
    assert knee.holds <= capacity < knee.breaks
    assert knee.breaks - knee.holds <= 0.1 * knee.holds
    assert len(tried) < 25


@pytest.mark.parametrize("capacity", [1, 2, 7, 8, 41])
def test_the_knee_in_whole_streams_is_exact(capacity):
    assert find_knee(lambda level: level <= capacity, 4, whole=True) == Knee(capacity, capacity + 1)


def test_the_knee_in_whole_streams_may_be_coarse():
    tried = []
    knee = find_knee(lambda level: tried.append(level) or level <= 200, 64, whole=True, precision=0.1)
    assert knee.holds <= 200 < knee.breaks <= 1.1 * knee.holds
    assert len(tried) == 6
    # Never less than a stream.
    assert find_knee(lambda level: level <= 3, 1, whole=True, precision=0.1) == Knee(3, 4)


def test_a_knee_that_is_not_there():
    assert find_knee(lambda _: False, 4, whole=True).holds is None
    assert find_knee(lambda _: False, 4).holds is None
    assert find_knee(lambda _: True, 4, most=100).breaks is None


def test_the_server_s_histogram_between_two_scrapes():
    def text(*counts: int) -> str:
        edges = ("0.1", "0.2", "+Inf")
        lines = ["# TYPE nightingale_ttfa_seconds histogram"]
        for edge, count in zip(edges, counts, strict=True):
            labels = f'model="house",surface="websocket",streaming="true",le="{edge}"'
            lines.append(f"nightingale_ttfa_seconds_bucket{{{labels}}} {count}")
        return "\n".join(lines) + "\n"

    before, after = report.buckets(text(5, 5, 5)), report.buckets(text(55, 105, 105))
    found = report.between(before, after)["websocket"]
    assert found[50] == pytest.approx(0.1)
    assert found[95] == pytest.approx(0.19)
    assert report.between(after, after) == {}
    # Beyond the last edge nothing is known but that.
    assert report.between({}, report.buckets(text(0, 0, 9)))["websocket"][50] == pytest.approx(0.2)


def test_charts_are_well_formed_and_to_scale():
    steps = [
        report.step(level, "live streams", [trace((0.1 * level, 1), (0.2, 1))] * 3, 2.0, 1.0) for level in (1, 2, 4)
    ]
    drawing = plot.svg(plot.curve(steps), "A <title> & more")
    root = parse(drawing)
    lines = root.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 + 3 + 2 + 1
    places = [tuple(map(float, point.split(","))) for point in lines[0].get("points").split()]
    assert places == sorted(places)
    # More milliseconds are higher up; a decade logarithmic: twice as much is the same step.
    (_, a), (_, b), (_, c) = places
    assert a - b == pytest.approx(b - c, abs=0.2)
    assert "nothing to show" in "".join(parse(plot.svg(plot.distribution([]), "nothing")).itertext())
    assert len(parse(plot.svg([plot.Panel("flat", "x", "y", {"zero": [(1, 0)]})], "flat"))) == 4


def test_ticks_cover_what_they_are_for():
    for low, high in ((0, 0), (0, 0.7), (0, 8), (0, 1234)):
        marks = plot.ticks(low, high)
        assert marks[0] <= low
        assert marks[-1] >= high
        assert 2 <= len(marks) <= 8
    marks = plot.decades(3, 700)
    assert marks[0] == pytest.approx(2)
    assert marks[-1] == pytest.approx(1000)
    assert all(math.isfinite(mark) for mark in marks)
