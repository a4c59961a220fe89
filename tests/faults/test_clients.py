"""Clients that leave at every point, send rubbish, or are slow: the others hear what they would have heard."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.wire import CLOSE, CONTINUATION, PING, Wire, frame, upgrade

LONG = "The garden behind the house is small. In spring the old apple tree is full of flowers. " * 8
START = {"type": "start", "format": "pcm", "seed": 3}


def sent(wire: Wire, *pieces: bytes) -> Iterator[None]:
    """Send these: after each the client may be gone."""
    for piece in pieces:
        wire.send(piece)
        yield


def socket_steps(wire: Wire) -> Iterator[None]:
    """A session on the WebSocket, step by step: between any two the client may be gone."""
    yield
    request = upgrade(wire.socket.getpeername())
    # Half a handshake, then one that is not read.
    yield from sent(wire, request[:40], request[40:])
    wire.read_until(b"\r\n\r\n")
    yield
    start = frame(json.dumps(START).encode())
    # Half a header, half a payload, then a start that is not answered.
    yield from sent(wire, start[:1], start[1:20], start[20:])
    wire.until("ready")
    yield
    text = json.dumps({"type": "text", "text": LONG}).encode()
    yield from sent(wire, frame(text[:50], fin=False), frame(text[50:], CONTINUATION))
    wire.say({"type": "flush"})
    yield
    for kind in ("chunk", "audio"):
        wire.until(kind)
        yield
    wire.socket.recv(10)
    yield
    wire.say({"type": "cancel"})
    yield
    wire.say({"type": "text", "text": "Hello world."})
    wire.say({"type": "end"})
    yield
    yield from sent(wire, frame(struct.pack(">H", 1000), CLOSE))  # its answer is not read


def http_steps(path: str, body: bytes, kind: str = "application/json") -> Callable[[Wire], Iterator[None]]:
    """A POST, step by step."""

    def steps(wire: Wire) -> Iterator[None]:
        yield
        half, head = len(body) // 2, f"TP/1.1\r\nHost: {wire.host}\r\nContent-Type: {kind}\r\nContent-Le"
        # Half a request line, half a header, no body, half of it, then all.
        yield from sent(wire, f"POST {path} HT".encode(), head.encode(), b"ngth: %d\r\n\r\n" % len(body))
        yield from sent(wire, body[:half], body[half:])
        wire.read_until(b"\r\n\r\n")
        yield
        wire.socket.recv(1000)
        yield

    return steps


def other_steps(path: str, *messages: dict[str, Any]) -> Callable[[Wire], Iterator[None]]:
    """A session on another's WebSocket, whose messages are answered by at least two frames."""

    def steps(wire: Wire) -> Iterator[None]:
        yield
        yield from sent(wire, upgrade(wire.socket.getpeername(), path))
        assert b" 101 " in wire.read_until(b"\r\n\r\n")
        yield
        yield from sent(wire, *(frame(json.dumps(message).encode()) for message in messages))
        for _ in range(2):
            wire.frame()
            yield
        wire.socket.recv(10)
        yield
        yield from sent(wire, frame(struct.pack(">H", 1000), CLOSE))  # its answer is not read

    return steps


def wyoming_steps(wire: Wire) -> Iterator[None]:
    """A stream of text over Wyoming's TCP."""
    yield
    chunk = json.dumps({"type": "synthesize-chunk", "data": {"text": LONG}}).encode() + b"\n"
    yield from sent(wire, b'{"type": "synthesize', b'-start"}\n', chunk, b'{"type": "synthesize-stop"}\n')
    wire.read_until(b"\n")
    yield
    wire.socket.recv(1000)
    yield


def speech(**more: object) -> bytes:
    return json.dumps({"input": LONG, "seed": 3, **more}).encode()


UPLOAD = (
    b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nAda\r\n--x\r\nContent-Disposition: form-data; '
    b'name="audio_sample"; filename="a.wav"\r\n\r\n' + bytes(200_000) + b"\r\n--x--\r\n"
)
PROTOCOLS: dict[str, Callable[[Wire], Iterator[None]]] = {
    "websocket": socket_steps,
    "speech": http_steps("/v1/audio/speech", speech(response_format="wav")),
    "opus": http_steps("/v1/audio/speech", speech(response_format="opus")),
    "sse": http_steps("/v1/audio/speech", speech(stream_format="sse", response_format="pcm")),
    "translate": http_steps("/v1/translate", b'{"text": "Hello world.", "target": "fr", "model": "phrasebook"}'),
    "deepgram": other_steps(
        "/v1/speak?encoding=linear16",
        {"type": "Speak", "text": LONG},
        {"type": "Flush"},
        {"type": "Speak", "text": LONG},
    ),
    "elevenlabs": other_steps(
        "/v1/text-to-speech/af_heart/stream-input?output_format=pcm_24000", {"text": " "}, {"text": LONG, "flush": True}
    ),
    "elevenlabs-multi": other_steps(
        "/v1/text-to-speech/af_heart/multi-stream-input?output_format=pcm_24000",
        {"text": LONG, "context_id": "a", "flush": True},
        {"text": LONG, "context_id": "b", "flush": True},
        {"context_id": "b", "close_context": True},
    ),
    "wyoming": wyoming_steps,
    "upload": http_steps("/v1/audio/voices", UPLOAD, "multipart/form-data; boundary=x"),
}


def leave_everywhere(victim: Any, protocol: str, *, reset: bool) -> int:
    """Walk the protocol as far as each of its points, and leave there; returns the number of points."""
    points = 0
    while True:
        wire = Wire(victim.wyoming if protocol == "wyoming" else victim.address)
        reached = 0
        # The server may end its side first, after an error: that is a point, too.
        with contextlib.suppress(EOFError, ConnectionError):
            for _ in PROTOCOLS[protocol](wire):
                reached += 1
                if reached > points:
                    break
        wire.leave(reset=reset)
        if reached <= points:
            return points
        points = reached


POINTS = dict.fromkeys(PROTOCOLS, 8) | {
    "websocket": 17, "deepgram": 10, "elevenlabs": 9, "elevenlabs-multi": 10, "wyoming": 7,
}  # fmt: skip


def test_clients_killed_at_every_point(victim: Any, undisturbed: Any) -> None:
    # Those that end in other codes of the server; the long form has them all.
    protocols = ("websocket", "speech", "upload")
    with undisturbed():
        points = {protocol: leave_everywhere(victim, protocol, reset=True) for protocol in protocols}
    assert points == {protocol: POINTS[protocol] for protocol in protocols}


@pytest.mark.nightly
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_leaving_at_every_point_again_and_again(victim: Any, undisturbed: Any, protocol: str, reset: bool) -> None:
    with undisturbed():
        for _ in range(5):
            assert leave_everywhere(victim, protocol, reset=reset) == POINTS[protocol]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_a_crowd_leaves_at_random(victim: Any, undisturbed: Any, seed: int) -> None:
    def one(number: int) -> None:
        rng = random.Random(seed * 1_000 + number)
        protocol = rng.choice(list(PROTOCOLS))
        wire = Wire(victim.wyoming if protocol == "wyoming" else victim.address)
        with contextlib.suppress(EOFError, ConnectionError):
            steps = PROTOCOLS[protocol](wire)
            for _ in range(rng.randrange(1, 18)):
                next(steps, None)
                time.sleep(rng.random() * 0.05)
        wire.leave(reset=rng.random() < 0.5)

    with undisturbed(), ThreadPoolExecutor(12) as crowd:
        list(crowd.map(one, range(200)))


HEAD = json.dumps(START).encode()
# What a frame must not be, and the close codes that say so; None: the server may just hang up.
GARBAGE: dict[str, tuple[bytes, set[int | None]]] = {
    "not masked": (frame(HEAD, masked=False), {1002, None}),
    "reserved bits": (frame(HEAD, reserved=4), {1002, None}),
    "reserved opcode": (frame(HEAD, 5), {1002, None}),
    "reserved control opcode": (frame(b"", 11), {1002, None}),
    "not UTF-8": (frame(b'{"type": "\xff\xfe"}'), {1007, None}),
    "continuation of nothing": (frame(HEAD, CONTINUATION), {1002, None}),
    "two beginnings": (frame(HEAD[:9], fin=False) + frame(HEAD), {1002, None}),
    "long ping": (frame(bytes(126), PING), {1002, None}),
    "ping in pieces": (frame(b"", PING, fin=False), {1002, None}),
    "close of one byte": (frame(b"\x03", CLOSE), {1002, None}),
    "close with a code that is not one": (frame(struct.pack(">H", 999), CLOSE), {1002, None}),
    "longer than memory": (b"\x81\xff" + struct.pack(">Q", 1 << 62) + b"1234", {1009, 1002, None}),
    "negative length": (b"\x81\xff" + struct.pack(">Q", 1 << 63) + b"1234", {1009, 1002, None}),
    "random bytes": (random.Random(5).randbytes(4_000), {1002, 1007, 1008, 1009, None}),
    "another HTTP request": (b"GET / HTTP/1.1\r\n\r\n" * 3, {1002, None}),
}


@pytest.mark.parametrize(
    "started", [pytest.param(False, id="new"), pytest.param(True, id="speaking", marks=pytest.mark.nightly)]
)
def test_garbage_frames_end_their_own_connection(victim: Any, undisturbed: Any, started: bool) -> None:
    with undisturbed():
        for name, (rubbish, codes) in GARBAGE.items():
            wire = Wire(victim.address)
            wire.handshake()
            if started:
                wire.say(START)
                wire.say({"type": "text", "text": LONG})
                wire.until("audio")
            # A server that hung up in the middle of it has answered, too.
            with contextlib.suppress(ConnectionError):
                wire.send(rubbish)
            assert wire.closed_with() in codes, name
            wire.leave()


def test_slow_readers_and_writers(victim: Any, undisturbed: Any) -> None:
    done = threading.Event()

    def drip(data: bytes) -> None:
        wire = Wire(victim.address)
        with contextlib.suppress(OSError):
            for index in range(len(data)):
                if done.wait(0.02):
                    break
                wire.send(data[index : index + 1])
        wire.leave(reset=True)

    def sip(request: bytes) -> None:
        wire = Wire(victim.address, small=True)
        wire.send(request)
        with contextlib.suppress(OSError):
            while not done.wait(0.05) and wire.socket.recv(16):
                pass
        wire.leave(reset=True)

    def post(body: bytes) -> bytes:
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def unread_socket() -> None:
        wire = Wire(victim.address, small=True)
        wire.handshake()
        wire.say(START)
        for _ in range(4):
            wire.say({"type": "text", "text": LONG})
            wire.say({"type": "flush"})
        done.wait()
        wire.leave(reset=True)

    sipped = ({"response_format": "wav"}, {"response_format": "pcm", "stream_format": "sse"})
    with undisturbed(), ThreadPoolExecutor(5) as pool:
        slow = [pool.submit(drip, data) for data in (post(speech()), upgrade(victim.address))]
        slow += [pool.submit(sip, post(speech(**form))) for form in sipped]
        slow.append(pool.submit(unread_socket))
        # They are there for as long as the listeners are, and longer than the server lets a write wait.
        done.wait(4)
        done.set()
        for client in slow:
            client.result()


def bad_request(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    """A method, a path and what goes with them, of which something is wrong."""
    speech_path, headers = "/v1/audio/speech", {"content-type": "application/json"}
    wrong: list[Any] = [None, True, -1, 1e308, [], {}, "\x00", "x" * 300, "🦜" * 50, ["a"], {"id": 5}]
    field = rng.choice(["voice", "model", "speed", "seed", "response_format", "stream_format", "lang", "nonsense"])
    value = rng.choice(wrong[1:]) if field != "nonsense" else 1
    nested = "[" * rng.randrange(1, 50_000)
    nowhere = "/x" + "".join(rng.choice("abc/%.~") for _ in range(rng.randrange(1, 60))) + "%00zz"
    name = rng.choice(["..%2f..%2fetc%2fpasswd", "voice_0", "%00", "a" * 500, "%ff"])
    said = {"text": rng.choice(wrong), "target": rng.choice(wrong), "model": "phrasebook"}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", speech_path, {"content": rng.randbytes(rng.randrange(200)), "headers": headers}),
        ("POST", speech_path, {"json": {"input": rng.choice([*wrong[:6], " ", "\n"]), "voice": "af_heart"}}),
        ("POST", speech_path, {"json": {"input": "Hello.", field: value, "sample_rate": -1}}),
        ("POST", rng.choice([speech_path, "/v1/translate"]), {"content": nested, "headers": headers}),
        (rng.choice(["PUT", "DELETE", "PATCH", "GET"]), speech_path, {}),
        ("GET", nowhere, {}),
        (rng.choice(["GET", "DELETE"]), f"/v1/audio/voices/{name}", {}),
        ("POST", "/v1/translate", {"json": said}),
    ]
    return rng.choice(requests)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_bad_requests(victim: Any, undisturbed: Any, count: int) -> None:
    def some(seed: int) -> None:
        rng = random.Random(seed)
        with httpx.Client(base_url=victim.url, timeout=180) as client:
            for _ in range(count // 4):
                method, path, more = bad_request(rng)
                reply = client.request(method, path, **more)
                assert 400 <= reply.status_code < 500, (method, path, more, reply.status_code, reply.text[:300])
                assert reply.json(), (method, path)

    with undisturbed(), ThreadPoolExecutor(4) as senders:
        list(senders.map(some, range(4)))
