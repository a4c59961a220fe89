"""Two replicas: each has its own streams, and loses only those; what is too much is told so, and nothing hangs."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import queue
import signal
import threading
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.frames import Close, Frame, Opcode
from websockets.sync.client import connect

from tests.cluster.conftest import Stream, launch
from tests.processes import wait_until

pytestmark = pytest.mark.timeout(600)

SENTENCES = (
    "The last bus was late again. We walked along the river instead. Nobody minded, because the night was warm. "
    "The office closes at six. She counted the boats, and then the lamps on the bridge. "
)
# Each client its own text and seed: whoever is given another's audio is found out.
CLIENTS = [("websocket", 1), ("http", 2), ("websocket", 3), ("http", 4), ("websocket", 5), ("http", 6)]
TIMEOUT = 60


def text_of(seed: int) -> str:
    return f"Number {seed} begins. " + SENTENCES * 3


def speak_all(cluster):
    """Every client, each begun when the one before was given a replica."""
    streams = []
    for surface, seed in CLIENTS:
        streams.append(Stream(cluster, surface, seed, text_of(seed)))
        streams[-1].wait_for_replica()
    return streams


def requests_served(port: int, **labels: str) -> float:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT).text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "nightingale_requests_total" and labels.items() <= sample.labels.items()
    )


@pytest.fixture(scope="module")
def undisturbed(cluster) -> dict[int, bytes]:
    """Audio of each client when nothing is wrong."""
    done = [each.wait() for each in speak_all(cluster)]
    assert [each.ended for each in done] == ["whole"] * len(CLIENTS)
    assert {each.replica for each in done} == set(cluster.replicas())
    assert min(len(each.audio) for each in done) > 20 * 24_000 * 2
    return {each.seed: bytes(each.audio) for each in done}


def test_each_replica_has_metrics_of_its_own(cluster, undisturbed):
    ports = cluster.replicas().values()
    assert len(ports) == 2
    assert all(requests_served(port) >= 2 for port in ports)
    for port in ports:
        own = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{own}/livez", timeout=TIMEOUT).status_code == 200
        assert httpx.get(f"{own}/dashboard", timeout=TIMEOUT).status_code == 200
        # Requests go to the address of all, where they are shared out and refused in time.
        assert httpx.post(f"{own}/v1/audio/speech", json={"input": "No."}, timeout=TIMEOUT).status_code == 404
    refused = httpx.get(f"{cluster.url}/metrics", timeout=TIMEOUT)
    assert refused.status_code == 404
    assert "replica_port" in refused.json()["error"]["message"]


def test_an_answer_has_one_request_id(cluster):
    answer = httpx.get(f"{cluster.url}/v1/models", headers={"x-request-id": "mine-1"}, timeout=TIMEOUT)
    assert answer.headers.get_list("x-request-id") == ["mine-1"]
    assert answer.headers["x-replica"] in cluster.replicas()


def test_sockets_are_the_ones_that_a_single_process_has(cluster):
    with connect(cluster.socket_url, open_timeout=TIMEOUT, compression="deflate") as socket:
        # Speech does not deflate, and trying takes longer than the model.
        assert socket.protocol.extensions == []
        socket.send(json.dumps({"type": "start", "format": "pcm"}))
        assert json.loads(socket.recv(TIMEOUT))["type"] == "ready"
        # A close between the fragments of a message, RFC 6455, section 5.4.
        fragment = Frame(Opcode.TEXT, b'{"type": "te', fin=False)
        close = Frame(Opcode.CLOSE, Close(1000, "").serialize())
        socket.socket.sendall(fragment.serialize(mask=True) + close.serialize(mask=True))
        with pytest.raises(ConnectionClosed):
            socket.recv(TIMEOUT)
        assert socket.close_code == 1000
    with connect(cluster.socket_url, open_timeout=TIMEOUT) as socket:
        socket.socket.sendall(Frame(Opcode.TEXT, b"\xff", fin=False).serialize(mask=True))
        with pytest.raises(ConnectionClosed):
            socket.recv(TIMEOUT)
        assert socket.close_code == 1007


def test_each_replica_takes_a_client_secret_of_another(cluster, undisturbed):
    session = {"type": "transcription", "audio": {"input": {"transcription": {"language": "en"}}}}
    made = httpx.post(f"{cluster.url}/v1/realtime/client_secrets", json={"session": session}, timeout=TIMEOUT)
    assert made.status_code == 200, made.text
    headers = {"authorization": f"Bearer {made.json()['value']}"}
    address = cluster.url.replace("http", "ws", 1) + "/v1/realtime?intent=transcription"
    with connect(address, open_timeout=TIMEOUT) as socket:
        assert "en" not in json.loads(socket.recv(TIMEOUT))["session"]["audio"]["input"]["transcription"].values()
    seen = set()
    with contextlib.ExitStack() as stack:  # open at the same time, so that they are shared out
        for _ in range(4):
            socket = stack.enter_context(connect(address, additional_headers=headers, open_timeout=TIMEOUT))
            seen.add(socket.response.headers["x-replica"])
            created = json.loads(socket.recv(TIMEOUT))
            assert created["session"]["audio"]["input"]["transcription"]["language"] == "en"
    assert seen == set(cluster.replicas())


def given_up(cluster) -> float:
    return sum(requests_served(port, outcome="cancelled") for port in cluster.replicas().values())


def test_a_replica_stops_for_a_client_that_goes(cluster):
    before = given_up(cluster)
    body = {"input": text_of(9), "response_format": "pcm"}
    with httpx.stream("POST", f"{cluster.url}/v1/audio/speech", json=body, timeout=TIMEOUT) as answer:
        assert next(answer.iter_bytes())
    wait_until(lambda: given_up(cluster) == before + 1, lambda: "a reply goes on for a client that is gone")
    with connect(cluster.socket_url, open_timeout=TIMEOUT) as socket:
        socket.send(json.dumps({"type": "start", "format": "pcm"}))
        socket.send(json.dumps({"type": "text", "text": text_of(9)}))
        while isinstance(socket.recv(TIMEOUT), str):
            pass
    wait_until(lambda: given_up(cluster) == before + 2, lambda: "a socket goes on for a client that is gone")


def test_a_client_that_reads_nothing_is_dropped(cluster):
    before = given_up(cluster)
    # More than the system's buffers take.
    body = {"input": SENTENCES * 90, "response_format": "pcm", "sample_rate": 48_000}
    with httpx.stream("POST", f"{cluster.url}/v1/audio/speech", json=body, timeout=TIMEOUT) as answer:
        assert answer.status_code == 200
        parts = answer.iter_bytes()
        assert next(parts)
        wait_until(
            lambda: given_up(cluster) == before + 1, lambda: "a reply goes on for a client that does not read it"
        )
        # The end is missing, or a reset takes what was sent before it, too.
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            for part in parts:
                assert part


def test_nothing_listens_but_on_loopback(cluster):
    import psutil

    addresses = {
        connection.laddr.ip
        for process in cluster.processes()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses
    for address in addresses:
        found = ipaddress.ip_address(address)
        mapped = getattr(found, "ipv4_mapped", None)
        assert (mapped or found).is_loopback, addresses


def test_nothing_is_left_in_the_home_of_the_user(cluster):
    # What mlx, or a library, keeps there is not of Ray.
    assert not (cluster.log.parent / ".ray").exists()


def test_a_replica_that_dies_takes_only_its_own_streams_with_it(cluster, undisturbed):
    before = cluster.replicas()
    streams = speak_all(cluster)
    wait_until(lambda: all(each.audio for each in streams), lambda: str([each.ended for each in streams]))
    victim = streams[0].replica
    doomed = [each for each in streams if each.replica == victim]
    others = [each for each in streams if each.replica != victim]
    assert {each.surface for each in doomed} | {each.surface for each in others} == {"http", "websocket"}
    assert doomed and others
    assert not any(each.ended for each in streams)

    os.kill(cluster.pid(before[victim]), signal.SIGKILL)

    for each in streams:
        each.wait()
    for each in others:
        assert each.ended == "whole"
        assert bytes(each.audio) == undisturbed[each.seed]
    for each in doomed:
        # Told, and not left with a part that looks whole.
        how = "ConnectionClosedError: received 1012" if each.surface == "websocket" else "RemoteProtocolError: "
        assert each.ended.startswith(how), each.ended
        assert undisturbed[each.seed].startswith(bytes(each.audio))
        assert len(each.audio) < len(undisturbed[each.seed])

    wait_until(lambda: len(cluster.replicas()) == 2, cluster.log.read_text, 2 * TIMEOUT)
    after = cluster.replicas()
    assert victim not in after
    # Both serve, the new one too, and say what they said before.
    again = [each.wait() for each in speak_all(cluster)]
    assert {each.replica for each in again} == set(after)
    assert {each.seed: bytes(each.audio) for each in again} == undisturbed


def test_what_is_too_much_gets_429_in_the_shape_of_each_surface(cluster):
    answers: queue.Queue[httpx.Response] = queue.Queue()

    def ask(path: str, body: dict[str, object]) -> None:
        answers.put(httpx.post(f"{cluster.url}{path}", json=body, timeout=2 * TIMEOUT))

    def refused(path: str, body: dict[str, object]) -> httpx.Response:
        threading.Thread(target=ask, args=(path, body), daemon=True).start()
        answer = answers.get(timeout=TIMEOUT)
        assert answer.status_code == 429, answer.text
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["retry-after-ms"] == "1000"
        assert answer.headers["x-request-id"]
        return answer

    speech = {"input": "One more.", "response_format": "pcm"}
    with contextlib.ExitStack() as sockets:
        # A socket has its replica for as long as it is open.
        for _ in range(8):
            socket = sockets.enter_context(connect(cluster.socket_url, open_timeout=TIMEOUT))
            socket.send(json.dumps({"type": "start"}))
            assert json.loads(socket.recv(TIMEOUT))["type"] == "ready"
        waiting = 0
        while answers.empty():
            threading.Thread(target=ask, args=("/v1/audio/speech", speech), daemon=True).start()
            waiting += 1
            with contextlib.suppress(AssertionError):
                wait_until(lambda: not answers.empty(), lambda: "", 2)
        first = answers.get()
        assert first.status_code == 429
        assert waiting - 1 - answers.qsize() == 2

        error = refused("/v1/audio/speech", speech).json()["error"]
        assert (error["code"], error["type"]) == ("saturated", "rate_limit_error")
        assert refused("/v1/text-to-speech/af_heart", {"text": "No."}).json()["detail"]["status"] == "saturated"
        assert refused("/v1/speak", {"text": "No."}).json()["err_code"] == "SATURATED"
        assert isinstance(refused("/translate", {"q": "No.", "target": "fr"}).json()["error"], str)
        with pytest.raises(InvalidStatus) as handshake, connect(cluster.socket_url, open_timeout=TIMEOUT):
            pass
        assert handshake.value.response.status_code == 429
        assert json.loads(handshake.value.response.body)["error"]["code"] == "saturated"
    # There is room again: who waited is served.
    for _ in range(2):
        served = answers.get(timeout=TIMEOUT)
        assert served.status_code == 200
        assert len(served.content) > 24_000


def test_one_replica_becomes_two_under_load_and_a_stream_outlasts_the_stop(tmp_path: Path):
    arguments = ("--replicas", "1", "--max-replicas", "2")
    with launch(tmp_path, *arguments, NIGHTINGALE_TARGET_STREAMS="1") as cluster:
        assert len(cluster.replicas()) == 1
        with contextlib.ExitStack() as sockets:
            for _ in range(3):
                socket = sockets.enter_context(connect(cluster.socket_url, open_timeout=TIMEOUT))
                socket.send(json.dumps({"type": "start"}))
                assert json.loads(socket.recv(TIMEOUT))["type"] == "ready"
            wait_until(lambda: len(cluster.replicas()) == 2, cluster.log.read_text, 2 * TIMEOUT)
            last = Stream(cluster, "http", 1, text_of(1))
            last.wait_for_replica()
            cluster.stop()
            # It waits for a socket's next text no longer; for a stream that speaks it does.
            with pytest.raises(ConnectionClosedError) as closed:
                while True:
                    socket.recv(TIMEOUT)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
            assert not last.ended
            assert last.wait().ended == "whole"
