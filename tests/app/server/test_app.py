"""A server process of its own: signals, draining, refusals at start."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

ROOT = Path(__file__).parents[3]


@dataclass
class Process:
    """A running `serve` with the tone model."""

    popen: subprocess.Popen[str]
    url: str
    log: Path


@contextmanager
def process(folder: Path, **environ: str) -> Iterator[Process]:
    log = folder / "log"
    with log.open("w") as output:
        popen = subprocess.Popen(
            [sys.executable, str(Path(__file__).parents[1] / "conftest.py")],
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "PORT": "0", "PYTHONPATH": str(ROOT), **environ},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        deadline = time.monotonic() + 180
        url = ""
        while time.monotonic() < deadline and popen.poll() is None:
            found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
            if found:
                url = found.group()
                if httpx.get(url + "/readyz").status_code == 200:
                    break
            time.sleep(0.02)
        else:
            pytest.fail(log.read_text())
        yield Process(popen, url, log)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(60)


def taken(server: Process, client: ClientConnection) -> None:
    """Wait until the server has taken what was sent: it reads a socket before it answers its ping."""
    assert client.ping().wait(60)
    turns(server)


def turns(server: Process) -> None:
    """Let the event loop of the server take some turns."""
    for _ in range(5):
        assert httpx.get(server.url + "/livez").status_code == 200


def test_sigterm_finishes_streams_and_refuses_new_ones(tmp_path: Path) -> None:
    text = "This is the first sentence. Here comes the second one."
    body = {"input": text, "response_format": "pcm"}
    with process(tmp_path, NIGHTINGALE_DRAIN_SECONDS="60") as server:
        expected = len(httpx.post(server.url + "/v1/audio/speech", json=body).content)
        received: list[int] = []

        def listen() -> None:
            response = httpx.post(server.url + "/v1/audio/speech", json=body | {"voice": "gated"}, timeout=60)
            received.append(len(response.content))

        listener = threading.Thread(target=listen)
        with connect(server.url.replace("http", "ws", 1) + "/v1/audio/stream") as socket:
            socket.send(json.dumps({"type": "start"}))
            assert json.loads(socket.recv(timeout=60))["type"] == "ready"
            listener.start()
            while "nightingale_active_streams 2.0" not in httpx.get(server.url + "/metrics").text:
                time.sleep(0.01)
            server.popen.send_signal(signal.SIGTERM)
            # An idle socket is told and closed.
            assert json.loads(socket.recv(timeout=60))["error"]["code"] == "draining"
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=60)
            assert socket.close_code == 1012
        ready = httpx.get(server.url + "/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert httpx.get(server.url + "/livez").status_code == 200
        refused = httpx.post(server.url + "/v1/audio/speech", json=body)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "draining"
        assert refused.headers["retry-after"]
        server.popen.send_signal(signal.SIGUSR1)
        listener.join(60)
        assert received == [expected]
        assert server.popen.wait(60) == 0
        assert "Traceback" not in server.log.read_text()


def test_draining_ends_in_time_even_when_streams_do_not(tmp_path: Path) -> None:
    with process(tmp_path, NIGHTINGALE_DRAIN_SECONDS="0.5") as server:
        outcomes: list[str] = []

        first = threading.Event()

        def listen(voice: str) -> None:
            body = {"input": "This is the first sentence. Here comes the second one.", "voice": voice}
            try:
                with httpx.stream("POST", server.url + "/v1/audio/speech", json=body) as response:
                    if response.status_code == 503:
                        outcomes.append(json.loads(response.read())["error"]["code"])
                        return
                    for _ in response.iter_raw():
                        first.set()
            except httpx.TransportError:
                outcomes.append("broken")

        begun = threading.Thread(target=listen, args=("gated_second",))
        begun.start()
        assert first.wait(60)
        waiting = threading.Thread(target=listen, args=("gated",))
        waiting.start()
        while "nightingale_active_streams 2.0" not in httpx.get(server.url + "/metrics").text:
            time.sleep(0.01)
        with connect(server.url.replace("http", "ws", 1) + "/v1/audio/stream") as socket:
            for message in ({"type": "start", "voice": "gated"}, {"type": "text", "text": "Hi."}, {"type": "flush"}):
                socket.send(json.dumps(message))
            assert json.loads(socket.recv(timeout=60))["type"] == "ready"
            server.popen.send_signal(signal.SIGTERM)
            assert json.loads(socket.recv(timeout=60))["error"]["code"] == "draining"
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=60)
            assert socket.close_code == 1012
        # The gate stays shut: without an end to draining this would never come.
        assert server.popen.wait(60) == 0
        for thread in (begun, waiting):
            thread.join(60)
        # What had begun is broken off; what had not is told.
        assert sorted(outcomes) == ["broken", "draining"]


def test_an_idle_server_ends_at_once(tmp_path: Path) -> None:
    with process(tmp_path, NIGHTINGALE_DRAIN_SECONDS="600") as server:
        server.popen.send_signal(signal.SIGINT)
        assert server.popen.wait(60) == 0


def test_sigterm_answers_clients_that_still_send_their_bodies(tmp_path: Path) -> None:
    with process(tmp_path) as server, ExitStack() as stack:
        host, port = server.url.removeprefix("http://").split(":")
        clients = []
        for path, kind in (("speech", "application/json"), ("voices", "multipart/form-data; boundary=x")):
            clients.append(stack.enter_context(socket.create_connection((host, int(port)), 20)))
            head = f"POST /v1/audio/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
            clients[-1].sendall(f"{head}Content-Length: 9999\r\n\r\n--x".encode())
        # Answered after the others were read: the server takes its turns in order.
        turns(server)
        server.popen.send_signal(signal.SIGTERM)
        for client in clients:
            answer = client.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b'"code":"draining"' in answer
        assert server.popen.wait(60) == 0
        assert "Traceback" not in server.log.read_text()


def test_sigterm_ends_the_process_whatever_a_thread_does(tmp_path: Path) -> None:
    with process(tmp_path, NIGHTINGALE_DRAIN_SECONDS="0.5") as server:
        server.popen.send_signal(signal.SIGUSR2)
        server.popen.send_signal(signal.SIGTERM)
        # Five seconds and a half: it would wait for its thread for ever.
        assert server.popen.wait(60) == 0
        log = server.log.read_text()
        assert "without waiting for its threads" in log
        assert "stuck" in log


def test_a_second_signal_ends_the_process_whatever_a_thread_does(tmp_path: Path) -> None:
    with (
        process(tmp_path, NIGHTINGALE_DRAIN_SECONDS="600") as server,
        connect(server.url.replace("http", "ws", 1) + "/v1/audio/stream") as socket,
    ):
        for message in ({"type": "start", "voice": "gated"}, {"type": "text", "text": "Hi."}, {"type": "flush"}):
            socket.send(json.dumps(message))
        assert json.loads(socket.recv(timeout=60))["type"] == "ready"
        taken(server, socket)
        server.popen.send_signal(signal.SIGUSR2)
        server.popen.send_signal(signal.SIGINT)
        while httpx.get(server.url + "/readyz").status_code == 200:
            time.sleep(0.01)
        server.popen.send_signal(signal.SIGINT)
        # 1 where a stream was still open when the time was up.
        assert server.popen.wait(60) in (0, 1)


def test_the_last_resort_needs_no_python(tmp_path: Path) -> None:
    # A regular expression holds the interpreter's lock for years.
    arm = "import re; from app.server.exit import LastResort; LastResort(lambda: 0).arm(0.5)"
    program = f"{arm}; re.match('(a+)+$', 'a' * 60 + 'b')"
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert completed.returncode == 1
    assert "re" in completed.stderr


def test_an_unknown_default_model_is_refused_at_start(tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "app.cli", "serve"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PORT": "0", "NIGHTINGALE_DEFAULT_MODEL": "hal"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert completed.returncode != 0
    assert "hal" in completed.stderr
    assert "Traceback" not in completed.stderr


def test_a_port_in_use_is_an_error_not_a_hang(tmp_path: Path) -> None:
    with process(tmp_path) as server:
        port = server.url.rsplit(":", 1)[1]
        completed = subprocess.run(
            [sys.executable, str(Path(__file__).parents[1] / "conftest.py")],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PORT": port, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    assert completed.returncode != 0
    assert "address already in use" in completed.stderr
