"""A server process of its own: signals, draining, refusals at start."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from app.config import Settings, SettingsError, is_loopback
from app.server_process import serve
from tests.processes import ROOT, STAND_INS, Process, clean_environment, metric, start_stand_ins, wait_until

TEXT = "This is the first sentence. Here comes the second one."


def turns(server: Process) -> None:
    """Let the event loop of the server take some turns."""
    for _ in range(5):
        assert httpx.get(server.url + "/livez").status_code == 200


def begin(server: Process, socket: ClientConnection) -> None:
    """Have a sentence spoken that waits at its gate."""
    for message in ({"type": "start", "voice": "gated"}, {"type": "text", "text": "Hi."}, {"type": "flush"}):
        socket.send(json.dumps(message))
    assert json.loads(socket.recv(timeout=60))["type"] == "ready"
    # The server reads a socket before it answers its ping.
    assert socket.ping().wait(60)
    turns(server)


def test_sigterm_finishes_streams_and_refuses_new_ones(tmp_path: Path) -> None:
    body = {"input": TEXT, "response_format": "pcm"}
    with start_stand_ins(tmp_path, NIGHTINGALE_DRAIN_SECONDS="60") as server:
        expected = len(httpx.post(server.url + "/v1/audio/speech", json=body).content)
        received: list[int] = []

        def listen() -> None:
            response = httpx.post(server.url + "/v1/audio/speech", json=body | {"voice": "gated"}, timeout=60)
            received.append(len(response.content))

        listener = threading.Thread(target=listen)
        listener.start()
        wait_until(lambda: metric(server.url, "nightingale_active_streams") == 1)
        server.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(server.url + "/readyz").status_code == 503)
        assert httpx.get(server.url + "/readyz").json()["status"] == "draining"
        assert httpx.get(server.url + "/livez").status_code == 200
        refused = httpx.post(server.url + "/v1/audio/speech", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert refused.headers["retry-after"]
        server.popen.send_signal(signal.SIGUSR1)
        listener.join(60)
        assert received == [expected]
        assert server.popen.wait(60) == 0
        assert "Traceback" not in server.log.read_text()


def test_draining_ends_in_time_even_when_streams_do_not(tmp_path: Path) -> None:
    body = {"input": TEXT, "voice": "gated_second", "response_format": "pcm"}
    with (
        start_stand_ins(tmp_path, NIGHTINGALE_DRAIN_SECONDS="0.5") as server,
        httpx.stream("POST", server.url + "/v1/audio/speech", json=body, timeout=60) as response,
    ):
        pieces = response.iter_raw()
        assert next(pieces)
        server.popen.send_signal(signal.SIGTERM)
        # The gate stays shut: without an end to draining this would never come.
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
        assert server.popen.wait(60) == 0


def test_an_idle_server_ends_at_once(tmp_path: Path) -> None:
    with start_stand_ins(tmp_path, NIGHTINGALE_DRAIN_SECONDS="600") as server:
        server.popen.send_signal(signal.SIGINT)
        assert server.popen.wait(60) == 0


def test_sigterm_answers_clients_that_still_send_their_bodies(tmp_path: Path) -> None:
    with start_stand_ins(tmp_path) as server, ExitStack() as stack:
        clients = []
        for path, kind in (("speech", "application/json"), ("voices", "multipart/form-data; boundary=x")):
            clients.append(stack.enter_context(socket.create_connection(server.address, 20)))
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
    with start_stand_ins(tmp_path, NIGHTINGALE_DRAIN_SECONDS="0.5") as server:
        server.popen.send_signal(signal.SIGUSR2)
        server.popen.send_signal(signal.SIGTERM)
        # Five seconds and a half: it would wait for its thread for ever.
        assert server.popen.wait(60) == 0
        log = server.log.read_text()
        assert "without waiting for its threads" in log
        assert "stuck" in log


def test_a_second_signal_ends_the_process_whatever_a_thread_does(tmp_path: Path) -> None:
    with start_stand_ins(tmp_path, NIGHTINGALE_DRAIN_SECONDS="600") as server, connect(server.socket_url) as socket:
        begin(server, socket)
        server.popen.send_signal(signal.SIGUSR2)
        server.popen.send_signal(signal.SIGINT)
        while httpx.get(server.url + "/readyz").status_code == 200:
            time.sleep(0.01)
        server.popen.send_signal(signal.SIGINT)
        # 1 where a stream was still open when the time was up.
        assert server.popen.wait(60) in (0, 1)


def test_a_second_signal_breaks_streams_off_in_one_line_of_the_log(tmp_path: Path) -> None:
    body = {"input": TEXT, "voice": "gated_second", "response_format": "pcm"}
    with (
        start_stand_ins(tmp_path, NIGHTINGALE_DRAIN_SECONDS="600") as server,
        httpx.stream("POST", server.url + "/v1/audio/speech", json=body, timeout=60) as response,
    ):
        assert next(response.iter_raw())
        server.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(server.url + "/readyz").status_code == 503)
        before = server.log.read_text()
        server.popen.send_signal(signal.SIGTERM)
        assert server.popen.wait(60) == 1
        (line,) = server.log.read_text().removeprefix(before).splitlines()
        assert "ends with 1 streams open" in line


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=clean_environment() | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_the_last_resort_needs_no_python() -> None:
    # A regular expression holds the interpreter's lock for years.
    arm = "import re; from app.server.exit import LastResort; LastResort(lambda: 0).arm(0.5)"
    completed = run("-c", f"{arm}; re.match('(a+)+$', 'a' * 60 + 'b')")
    assert completed.returncode == 1
    assert "re" in completed.stderr


def test_an_unknown_default_model_is_refused_at_start(tmp_path: Path) -> None:
    completed = run("-m", "app", "serve", HOME=str(tmp_path), PORT="0", NIGHTINGALE_DEFAULT_MODEL="hal")
    assert completed.returncode != 0
    assert "hal" in completed.stderr
    assert "Traceback" not in completed.stderr


def test_a_port_in_use_is_an_error_not_a_hang(tmp_path: Path) -> None:
    with start_stand_ins(tmp_path) as server:
        completed = run(str(STAND_INS), HOME=str(tmp_path), PORT=str(server.address[1]), PYTHONPATH=str(ROOT))
    assert completed.returncode != 0
    assert "address already in use" in completed.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "localhost.example.com"])  # noqa: S104
def test_a_public_address_needs_keys_or_leave(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SettingsError, match="allow_public"):
        serve(Settings(host=host))
