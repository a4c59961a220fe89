"""Deepgram's surface over real sockets: its messages, its errors, and what stops when."""

import io
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import av
import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

TWO = "Hello there, everybody. This is the second sentence."
LONG = " ".join(f"This is sentence number {n} of a long text." for n in range(12))


@contextmanager
def speaking(server: Any, **query: object) -> Iterator[ClientConnection]:
    """A socket whose `Metadata` was received."""
    url = server.url.replace("http", "ws", 1) + "/v1/speak"
    with connect(str(httpx.URL(url, params={key: str(value) for key, value in query.items()}))) as socket:
        metadata = json.loads(socket.recv(timeout=10))
        assert metadata["type"] == "Metadata", metadata
        assert metadata["model_name"] == "tone"
        assert metadata["request_id"]
        yield socket


def send(socket: ClientConnection, kind: str, **fields: object) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def until(socket: ClientConnection, kind: str) -> tuple[bytes, list[dict[str, Any]]]:
    """Audio, and the messages up to one of that kind."""
    audio, told = b"", []
    while True:
        message = socket.recv(timeout=10)
        if isinstance(message, bytes):
            audio += message
            continue
        told.append(json.loads(message))
        if told[-1]["type"] == kind:
            return audio, told


def close_code(socket: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        while True:
            socket.recv(timeout=10)
    return socket.close_code


def reference(server: Any, text: str, **options: object) -> bytes:
    body = {"input": text, "response_format": "pcm", **options}
    return httpx.post(server.url + "/v1/audio/speech", json=body).raise_for_status().content


def test_text_in_pieces_comes_back_as_audio_and_flushed(server: Any) -> None:
    with speaking(server, model="aura-2-thalia-en", encoding="linear16", sample_rate=24000) as socket:
        for start in range(0, len(TWO), 7):
            send(socket, "Speak", text=TWO[start : start + 7])
        send(socket, "Flush")
        audio, told = until(socket, "Flushed")
        assert told == [{"type": "Flushed", "sequence_id": 0}]
        assert audio == reference(server, TWO)
        send(socket, "Speak", text="And again.")
        send(socket, "Flush")
        audio, told = until(socket, "Flushed")
        assert told == [{"type": "Flushed", "sequence_id": 1}]
        assert audio == reference(server, "And again.")
        send(socket, "Close")
        assert close_code(socket) == 1000


def test_close_speaks_what_is_left(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "Speak", text="No full stop here")
        send(socket, "Close")
        audio, _ = until(socket, "Flushed")
        assert audio == reference(server, "No full stop here")
        assert close_code(socket) == 1000
    with speaking(server) as socket:
        send(socket, "Close")
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)


@pytest.mark.parametrize(
    ("query", "rate", "width"),
    [
        ({"encoding": "mulaw"}, 8_000, 1),
        ({"encoding": "alaw", "sample_rate": 16_000}, 16_000, 1),
        ({"encoding": "linear16", "sample_rate": 8_000}, 8_000, 2),
        ({"encoding": "linear16", "sample_rate": 48_000}, 48_000, 2),
        ({"sample_rate": 44_100, "speed": 2}, 44_100, 2),
        ({}, 24_000, 2),
    ],
)
def test_encodings_and_rates(server: Any, query: dict[str, object], rate: int, width: int) -> None:
    seconds = len(reference(server, TWO)) / 48_000 / float(str(query.get("speed", 1)))
    with speaking(server, **query) as socket:
        send(socket, "Speak", text=TWO)
        send(socket, "Flush")
        audio, _ = until(socket, "Flushed")
    assert len(audio) == pytest.approx(seconds * rate * width, abs=16)


def test_every_flush_is_answered_in_its_turn(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "Flush")
        audio, told = until(socket, "Flushed")
        assert (audio, told) == (b"", [{"type": "Flushed", "sequence_id": 0}])
        for text in ("First of all.", None, "Then this."):
            if text is not None:
                send(socket, "Speak", text=text)
            send(socket, "Flush")
        heard = [until(socket, "Flushed") for _ in range(3)]
        assert [audio for audio, _ in heard] == [
            reference(server, "First of all."),
            b"",
            reference(server, "Then this."),
        ]
        assert [told[-1]["sequence_id"] for _, told in heard] == [1, 2, 3]


def test_what_cannot_be_spoken_is_warned_of_and_flushed(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "Speak", text="?!")
        send(socket, "Flush")
        audio, told = until(socket, "Flushed")
        assert audio == b""
        warning = told[0]
        assert warning["type"] == "Warning"
        assert warning["warn_code"] == warning["code"] == "NOTHING_TO_SPEAK"
        assert warning["warn_msg"] == warning["description"]
        send(socket, "Speak", text="But this can.")
        send(socket, "Flush")
        assert until(socket, "Flushed")[0] == reference(server, "But this can.")


def test_clear_stops_at_once(server: Any, wait_until: Any) -> None:
    with speaking(server, model="slow") as socket:
        send(socket, "Speak", text=LONG)
        send(socket, "Flush")
        first = socket.recv(timeout=10)
        assert isinstance(first, bytes)
        send(socket, "Clear")
        audio, told = until(socket, "Cleared")
        assert told == [{"type": "Cleared", "sequence_id": 0}]
        assert len(audio) < len(first)
        computed = len(server.tone.computed)
        assert computed < 6
        # Nothing of it comes later, and the socket goes on.
        send(socket, "Speak", text="Something else.")
        send(socket, "Flush")
        audio, told = until(socket, "Flushed")
        assert audio == reference(server, "Something else.")
        assert [event["type"] for event in told] == ["Flushed"]
        assert told[0]["sequence_id"] == 1
    assert not any("number 9" in text for text in server.tone.computed)


def test_clear_with_nothing_to_drop_is_answered(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "Clear")
        assert until(socket, "Cleared") == (b"", [{"type": "Cleared", "sequence_id": 0}])


def test_a_client_that_leaves_stops_its_own_work(server: Any, wait_until: Any) -> None:
    with speaking(server, model="tone/gated") as socket:
        send(socket, "Speak", text=LONG)
        assert wait_until(lambda: server.tone.begun)
    assert wait_until(lambda: "nightingale_active_streams 0.0" in server.metrics())
    server.tone.gate.set()
    time.sleep(0.1)
    assert len(server.tone.computed) <= 1


def test_keep_alive_says_nothing(server: Any) -> None:
    with speaking(server) as socket:
        send(socket, "KeepAlive")
        send(socket, "Clear")
        assert until(socket, "Cleared")[1][0]["type"] == "Cleared"


@pytest.mark.parametrize(
    ("frame", "code", "closed"),
    [
        ("{", "PROTOCOL_ERROR", 1008),
        ("[]", "PROTOCOL_ERROR", 1008),
        ('{"type": "Sing"}', "PROTOCOL_ERROR", 1008),
        ('{"type": "Speak"}', "PROTOCOL_ERROR", 1008),
        ('{"type": "Speak", "text": 5}', "PROTOCOL_ERROR", 1008),
        ('{"type": "Speak", "text": "\\ud800"}', "PROTOCOL_ERROR", 1008),
        (b"\x00\x01", "PROTOCOL_ERROR", 1008),
        (json.dumps({"type": "Speak", "text": "a" * 2_001}), "TEXT_TOO_LONG", 1008),
        (json.dumps({"type": "Speak", "text": "a" * 70_000}), "BODY_TOO_LARGE", 1009),
    ],
)
def test_bad_frames_are_answered_and_closed(server: Any, frame: str | bytes, code: str, closed: int) -> None:
    with speaking(server) as socket:
        socket.send(frame)
        error = json.loads(socket.recv(timeout=10))
        assert error["type"] == "Error"
        assert error["err_code"] == code
        assert error["err_msg"] == error["description"]
        assert error["request_id"]
        assert close_code(socket) == closed


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"encoding": "mp3"}, 400, "UNSUPPORTED_FORMAT"),
        ({"sample_rate": 96_000}, 400, "UNSUPPORTED_FORMAT"),
        ({"sample_rate": "fast"}, 400, "INVALID_REQUEST"),
        ({"sample_rate": "0"}, 400, "INVALID_REQUEST"),
        ({"speed": 9}, 400, "INVALID_REQUEST"),
        ({"speed": "nan"}, 400, "INVALID_REQUEST"),
        ({"model": "nobody"}, 400, "UNKNOWN_VOICE"),
        ({"model": "nobody/steady"}, 404, "MODEL_NOT_FOUND"),
        ({"model": "absent"}, 503, "MODEL_NOT_INSTALLED"),
        ({"model": "shout"}, 400, "WRONG_MODEL_KIND"),
        ({"model": "aura-2-none-xx"}, 400, "UNSUPPORTED_LANGUAGE"),
    ],
)
def test_a_handshake_that_cannot_be_served_says_why(
    server: Any, query: dict[str, object], status: int, code: str
) -> None:
    with pytest.raises(InvalidStatus) as caught, speaking(server, **query):
        pass
    response = caught.value.response
    assert response.status_code == status
    assert response.body is not None
    told = json.loads(response.body)
    assert told["err_code"] == code
    assert told["err_msg"]
    assert told["request_id"]
    assert response.headers["dg-error"] == told["err_msg"]


def post(server: Any, text: object = TWO, **query: object) -> httpx.Response:
    params = {key: str(value) for key, value in query.items()}
    return httpx.post(server.url + "/v1/speak", params=params, json={"text": text}, timeout=20)


@pytest.mark.parametrize(
    ("query", "media_type", "codec", "rate"),
    [
        ({}, "audio/mpeg", "mp3float", 24_000),
        ({"encoding": "linear16"}, "audio/wav", "pcm_s16le", 24_000),
        ({"encoding": "linear16", "container": "wav", "sample_rate": 8000}, "audio/wav", "pcm_s16le", 8_000),
        ({"encoding": "mulaw"}, "audio/wav", "pcm_mulaw", 8_000),
        ({"encoding": "alaw", "sample_rate": 16000}, "audio/wav", "pcm_alaw", 16_000),
        ({"encoding": "opus"}, "audio/ogg", "opus", 48_000),
        ({"encoding": "flac", "sample_rate": 22050}, "audio/flac", "flac", 22_050),
        ({"encoding": "aac"}, "audio/aac", "aac", 24_000),
    ],
)
@pytest.mark.parametrize("text", ["Hello world.", TWO])
def test_the_rest_call(
    server: Any, text: str, query: dict[str, object], media_type: str, codec: str, rate: int
) -> None:
    seconds = len(reference(server, text)) / 48_000
    response = post(server, text, model="aura-asteria-en", **query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == media_type
    assert response.headers["dg-model-name"] == "tone"
    assert response.headers["dg-char-count"] == str(len(text))
    assert response.headers["dg-request-id"] == response.headers["x-request-id"]
    with av.open(io.BytesIO(response.content)) as container:
        stream = container.streams.audio[0]
        assert stream.codec.name == codec
        assert stream.rate == rate
        decoded = np.concatenate([frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)])
    assert seconds - 0.01 <= decoded.size / rate <= seconds + 0.2


@pytest.mark.parametrize("bit_rate", [32_000, 48_000, "64000.0"])
def test_mp3_has_the_bit_rate_asked_for(server: Any, bit_rate: object) -> None:
    with av.open(io.BytesIO(post(server, bit_rate=bit_rate).content), format="mp3") as container:
        assert container.streams.audio[0].codec_context.bit_rate == float(str(bit_rate))


@pytest.mark.parametrize("encoding", ["opus", "aac"])
def test_a_higher_bit_rate_is_a_longer_file(server: Any, encoding: str) -> None:
    sizes = [len(post(server, encoding=encoding, bit_rate=kbits * 1000).content) for kbits in (16, 32, 64, 96)]
    assert sizes == sorted(set(sizes))


def test_a_refused_bit_rate_is_told_which_there_are(server: Any) -> None:
    for query, accepted in (
        ({"bit_rate": 50_000}, "32, 40, 48, 56"),
        ({"bit_rate": 5_000, "encoding": "opus"}, "6 to 256"),
        ({"bit_rate": 192_000, "encoding": "aac"}, "16 to 96"),
        ({"bit_rate": 192_000, "encoding": "flac"}, "these have: mp3, opus, aac"),
    ):
        assert accepted in post(server, **query).json()["err_msg"]


def test_without_a_container_there_are_only_samples(server: Any) -> None:
    assert post(server, encoding="linear16", container="none").content == reference(server, TWO)
    mulaw = reference(server, TWO, response_format="mulaw")
    assert post(server, encoding="mulaw", container="none").content == mulaw
    wrapped = post(server, encoding="mulaw").content
    assert wrapped[44:] == mulaw


@pytest.mark.parametrize(
    ("text", "query", "status", "code"),
    [
        ("", {}, 400, "EMPTY_INPUT"),
        ("?!", {}, 400, "NOTHING_TO_SPEAK"),
        (5, {}, 400, "INVALID_REQUEST"),
        ("a " * 1_500, {}, 400, "TEXT_TOO_LONG"),
        ("Hi", {"encoding": "midi"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"encoding": "mp3", "container": "wav"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"encoding": "opus", "sample_rate": 44_100}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"model": "nobody"}, 400, "UNKNOWN_VOICE"),
        ("Hi", {"model": "absent"}, 503, "MODEL_NOT_INSTALLED"),
        ("Hi", {"speed": 5}, 400, "INVALID_REQUEST"),
        ("Hi", {"bit_rate": 50_000}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": 256_000, "sample_rate": 48_000, "encoding": "aac"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": 650_000, "encoding": "opus"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": 48_000, "encoding": "linear16"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": "low"}, 400, "INVALID_REQUEST"),
        ("Hi", {"bit_rate": 500}, 400, "INVALID_REQUEST"),
        ("Hi", {"bit_rate": -32_000}, 400, "INVALID_REQUEST"),
        ("Hi", {"callback": "http://127.0.0.1/"}, 400, "INVALID_REQUEST"),
        ("Hi", {"model": "broken"}, 500, "MODEL_FAILED"),
    ],
)
def test_errors_have_deepgram_s_shape(
    server: Any, text: object, query: dict[str, object], status: int, code: str
) -> None:
    response = post(server, text, **query)
    assert response.status_code == status, response.text
    told = response.json()
    assert set(told) == {"err_code", "err_msg", "request_id"}
    assert told["err_code"] == code
    assert told["request_id"] == response.headers["x-request-id"]
