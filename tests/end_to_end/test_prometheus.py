"""The Prometheus and Grafana files, held against Debian's promtool and a real Prometheus that scrapes a real server."""

from __future__ import annotations

import base64
import json
import re
import runpy
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
import soundfile
from websockets.sync.client import connect

from loadtest.fake_checkpoints import small, write
from tests.clients import SPOKEN, clone, converse, speak, websocket
from tests.models.llm.tiny import write_model
from tests.models.whisper.builder import files
from tests.processes import ROOT, START_SECONDS, STOP_SECONDS, run, serve, total, wait_until

CONFIGS = ROOT / "configs" / "prometheus"
DASHBOARD = ROOT / "configs" / "grafana" / "dashboards" / "nightingale.json"
pytestmark = pytest.mark.timeout(START_SECONDS + 900)

HEARS = "whisper-tiny"
CLONES = "chatterbox"  # the model of random numbers that clones voices
LEFT = 2  # of the requests of `traffic`, those whose client goes
LONG = "The last bus was late again. We walked along the river instead. Nobody minded, because the night was warm."


def promtool(program: Callable[[str], str], *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return run(program("promtool"), *arguments, **more)


def expressions() -> list[tuple[str, str, str]]:
    """(panel, legend, expression) of every query of the dashboard."""
    document = json.loads(DASHBOARD.read_text())
    return [
        (panel["title"], target["legendFormat"], target["expr"])
        for panel in document["panels"]
        for target in panel.get("targets", ())
    ]


def test_promtool_accepts_the_configuration(program):
    done = promtool(program, "check", "config", "--lint-fatal", str(CONFIGS / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_should(program):
    done = promtool(program, "test", "rules", "alerts_test.yml", cwd=CONFIGS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rule_tests_name_every_alert():
    alerts = re.findall(r"- alert: (\w+)", (CONFIGS / "alerts.yml").read_text())
    tests = (CONFIGS / "alerts_test.yml").read_text()
    assert len(alerts) == 11
    # Two mentions: once silent or in passing, once with what it says when it fires.
    firing = re.findall(r"- alertname: (\w+)\n\s+eval_time: \S+\n\s+exp_alerts:\n", tests)
    assert set(firing) == set(alerts)


def test_promtool_accepts_the_metrics(program, server):
    text = httpx.get(f"{server}/metrics").text
    done = promtool(program, "check", "metrics", input=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_dashboard_is_what_its_source_writes():
    source = runpy.run_path(str(ROOT / "configs" / "grafana" / "dashboard.py"))
    assert DASHBOARD.read_text(encoding="utf-8") == source["render"]()


def test_panels_do_not_overlap_and_fill_the_grid():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = Counter[tuple[int, int]]()
    for place in (panel["gridPos"] for panel in panels):
        taken.update((place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"]))
    assert [cell for cell, count in taken.items() if count > 1 or cell[0] >= 24] == []


def test_the_dashboard_asks_for_every_metric_of_the_service():
    source = (ROOT / "app" / "observability" / "metrics.py").read_text()
    asked = " ".join(expression for _, _, expression in expressions())
    shown = {name for name in re.findall(r"nightingale_[a-z0-9_]+", source) if name in asked}
    declared = set(re.findall(r'"(nightingale_[a-z0-9_]+)"', source))
    # The variables of the dashboard use the first; the others are said by tokens and sentences at once.
    unshown = {"nightingale_build_info", "nightingale_translation_sentences", "nightingale_translation_characters"}
    assert declared - shown == unshown


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """Base URL of a server that has something to say for every panel: it speaks, hears, translates, clones voices."""
    folder = tmp_path_factory.mktemp("server")
    model = folder / "data" / "models" / CLONES
    write(model, CLONES, small(CLONES))
    recognizer = folder / "data" / "models" / HEARS
    recognizer.mkdir()
    files(recognizer)
    write_model(folder / "data" / "models" / "tiny")
    # It guesses its own tokens ahead: what it would draw, so that guesses stand.
    settings = {"PRELOAD": f"phrasebook,{CLONES}", "CHATTERBOX": f"steps=2,draft={model}"}
    settings |= {"WARMUP": "none", "SPEECH_CACHE_BYTES": "10000000"}
    with serve(folder, **{f"NIGHTINGALE_{name}": value for name, value in settings.items()}) as process:
        yield process.url


@pytest.fixture(scope="module")
def prometheus(program: Callable[[str], str], server: str, tmp_path_factory) -> Iterator[str]:
    """Base URL of a Prometheus that runs this project's configuration, but scrapes `server`, and often."""
    folder = tmp_path_factory.mktemp("prometheus")
    for name in ("rules.yml", "alerts.yml"):
        shutil.copy(CONFIGS / name, folder)
    config = (CONFIGS / "prometheus.yml").read_text()
    for old, new in (
        ("127.0.0.1:8000", server.removeprefix("http://")),
        ("scrape_interval: 5s", "scrape_interval: 1s"),
        ("scrape_timeout: 4s", "scrape_timeout: 1s"),
        ("evaluation_interval: 15s", "evaluation_interval: 1s"),
    ):
        assert old in config
        config = config.replace(old, new)
    (folder / "prometheus.yml").write_text(config)
    log = folder / "prometheus.log"
    with log.open("w") as output:
        options = {"config.file": folder / "prometheus.yml", "storage.tsdb.path": folder / "data"}
        options |= {"web.listen-address": "127.0.0.1:0", "enable-feature": "exemplar-storage"}
        command = [program("prometheus"), *(f"--{name}={value}" for name, value in options.items())]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        url = ""

        def answers() -> bool:
            nonlocal url
            assert process.poll() is None, log.read_text()
            # It does not print the port that the system chose.
            url = url or _listening(process.pid)
            with suppress(httpx.TransportError):
                return bool(url) and httpx.get(f"{url}/-/ready").status_code == 200
            return False

        wait_until(answers, log.read_text)
        yield url
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _listening(pid: int) -> str:
    """The address a process of ours listens on, from Linux's own tables."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(entry.readlink()))
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            return f"http://127.0.0.1:{int(fields[1].split(':')[1], 16)}"
    return ""


def query(url: str, expression: str) -> list[float]:
    """The values that are numbers."""
    reply = httpx.post(f"{url}/api/v1/query", data={"query": expression}).json()
    assert reply["status"] == "success", (expression, reply)
    values = [float(series["value"][1]) for series in reply["data"]["result"]]
    return [value for value in values if value == value]  # noqa: PLR0124 (NaN is not equal to itself)


def traffic(url: str) -> None:
    """Every kind of request once: heard, verified, in a new cloned voice, translated, refused, left."""
    with httpx.Client(base_url=url, timeout=180) as client:
        for text in ("Hello world.", LONG):
            spoken = client.post("/v1/audio/speech", json={"input": text})
            assert spoken.status_code == 200
        # Random numbers hear other words.
        verified = client.post("/v1/audio/speech", json={"input": "Hello world.", "verify": "report"})
        assert verified.headers["x-verification"] == "failed"
        recording, fields = {"file": verified.content}, {"model": HEARS, "language": "en", "temperature": "0.2"}
        assert client.post("/v1/audio/transcriptions", data=fields, files=recording).status_code == 200
        voice = clone(url, spoken.content).raise_for_status().json()["id"]
        body = {"input": "Hello there, how are you?", "model": CLONES, "voice": voice, "response_format": "pcm"}
        # Random numbers hardly ever draw the end of speech: gone after the first piece, too.
        with client.stream("POST", "/v1/audio/speech", json=body) as cloned:
            assert cloned.status_code == 200, cloned.read()
            next(cloned.iter_raw())
        body = {"text": "Where is the train station?", "target": "fr", "model": "phrasebook"}
        wait = {"prefer": "wait"}
        assert client.post("/v1/translate", json=body, headers=wait).status_code == 200
        assert client.post("/v1/models/phrasebook/unload", headers=wait).status_code == 200
        assert client.post("/v1/translate", json=body, headers=wait).status_code == 200
        assert client.post("/v1/audio/speech", json={"input": ""}).status_code == 400
        chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4}
        assert client.post("/v1/chat/completions", json=chat, headers=wait).status_code == 200
        job = client.post("/v1/jobs", files={"file": ("a.txt", "Hello world.")}).raise_for_status().json()["id"]
        assert "job.completed" in client.get(f"/v1/jobs/{job}/events").text
    live = websocket(url, f"/v1/realtime?intent=transcription&model={HEARS}")
    with connect(live) as socket:
        turns = {"session": {"audio": {"input": {"turn_detection": None, "transcription": {"language": "en"}}}}}
        audio = base64.b64encode(verified.content[44 : 44 + 48_000]).decode()
        for message in (
            {"type": "session.update"} | turns,
            {"type": "input_audio_buffer.append", "audio": audio},
            {"type": "input_audio_buffer.commit"},
        ):
            socket.send(json.dumps(message))
        assert any(json.loads(message)["type"].endswith("transcription.completed") for message in socket)
    _, events = converse(websocket(url), {"type": "start"}, {"type": "text", "text": LONG}, {"type": "end"})
    assert events[-1]["type"] == "done"
    # Random numbers write what no phrase book has: the sentence fails.
    models = {"recognition_model": HEARS, "translate_model": "phrasebook", "any_language": True}
    start = {"type": "start", "target": "fr", "source": "en", "pause": None, "partials": False, "anticipate": False}
    pcm, rate = soundfile.read(SPOKEN, dtype="int16")
    pieces = [pcm[begin : begin + 1_600].tobytes() for begin in range(0, rate, 1_600)]
    _, events = converse(websocket(url, "/v1/audio/interpret"), start | models, *pieces, {"type": "end"})
    assert "sentence_done" in [event["type"] for event in events]
    # Gone after the first piece, while the next ones are computed.
    with connect(websocket(url)) as socket:
        for message in ({"type": "start", "cache": False}, {"type": "text", "text": LONG * 40}, {"type": "flush"}):
            socket.send(json.dumps(message))
        while not isinstance(socket.recv(), bytes):
            pass


def test_every_panel_s_query_returns_data(prometheus, server):
    def scraped(expression: str, least: float) -> Callable[[], bool]:
        return lambda: sum(query(prometheus, expression)) >= least

    # Two rounds: a series has a rate once it was seen twice.
    count = "nightingale_cancel_latency_seconds_count"
    start = total(server, count)
    for number in (1, 2):
        traffic(server)
        wait_until(scraped(f"sum({count})", start + LEFT * number))
    # Recording rules need their first turns, too.
    wait_until(scraped("nightingale:continuity:ratio", 0.01))
    window = {"$__rate_interval": "1m", "$instance": ".*", "$model": ".*", "$surface": ".*"}
    for panel, legend, template in expressions():
        expression = template
        for variable, value in window.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression
        # A scrape that a busy machine did not answer in time leaves a gauge without a value until the next.
        found = partial(query, prometheus, expression)
        wait_until(found, partial("no data for {} {}: {}".format, panel, legend, expression))
    for variable in ("instance", "model", "surface"):
        metric = "nightingale_build_info" if variable == "instance" else "nightingale_requests_total"
        labels = httpx.get(f"{prometheus}/api/v1/label/{variable}/values", params={"match[]": metric}).json()["data"]
        assert labels, variable


def test_a_slow_request_is_found_by_its_exemplar(prometheus, server):
    id_ = f"exemplar-{time.time_ns()}"
    speak(server, LONG, id_=id_).raise_for_status()

    def found() -> bool:
        given = {"query": "nightingale_ttfa_seconds_bucket", "start": time.time() - 300, "end": time.time() + 60}
        reply = httpx.get(f"{prometheus}/api/v1/query_exemplars", params=given).json()
        return id_ in str(reply["data"])

    wait_until(found)


def test_every_rule_is_evaluated(prometheus):
    def rules() -> list[dict[str, object]]:
        groups = httpx.get(f"{prometheus}/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] == "ok" for rule in rules()), lambda: str(rules()))
    assert {rule["type"] for rule in rules()} == {"alerting", "recording"}
    # A server that just works raises nothing that would wake somebody.
    firing = query(prometheus, 'ALERTS{alertstate="firing", severity="page"}')
    assert firing == []
