"""Deepgram's `WS /v1/listen` over real sockets: its messages, its errors, and the end of its work."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.app.server.streams import int16, rest

RATE = 16_000
FORM = {"encoding": "linear16", "sample_rate": RATE}


@pytest.fixture
def speech(voice: np.ndarray) -> bytes:
    """The same as bytes, with a second of silence before and after."""
    return int16(np.pad(voice, RATE))


@contextmanager
def listening(server: Any, **query: Any) -> Iterator[ClientConnection]:
    url = server.url.replace("http", "ws", 1) + "/v1/listen"
    with connect(str(httpx.URL(url, params=FORM | query))) as socket:
        assert socket.response is not None
        assert socket.response.headers["dg-request-id"]
        yield socket


def say(socket: ClientConnection, audio: bytes, size: int = 8_000) -> None:
    for start in range(0, len(audio), size):
        socket.send(audio[start : start + size])


def send(socket: ClientConnection, kind: str, **fields: object) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def finish(socket: ClientConnection, audio: bytes, size: int = 8_000) -> list[dict[str, Any]]:
    """Say this and no more; return the messages up to the end of the socket."""
    say(socket, audio, size)
    send(socket, "CloseStream")
    return rest(socket)


def until(socket: ClientConnection, kind: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    while not told or told[-1]["type"] != kind:
        message = socket.recv(timeout=60)
        assert isinstance(message, str)
        told.append(json.loads(message))
        assert told[-1]["type"] != "Error" or kind == "Error", told[-1]
    return told


def results(told: list[dict[str, Any]], **having: object) -> list[dict[str, Any]]:
    found = [message for message in told if message["type"] == "Results"]
    return [each for each in found if all(each[key] == value for key, value in having.items())]


def text(result: dict[str, Any]) -> str:
    found: str = result["channel"]["alternatives"][0]["transcript"]
    return found


def test_utterances_have_results_and_the_end_has_metadata(hearing: Any, speech: bytes) -> None:
    with listening(hearing, model="nova-3", language="en-US", endpointing=1_000, punctuate="true") as socket:
        told = finish(socket, speech)
        assert socket.close_code == 1000
    *others, metadata = told
    (result,) = results(others)
    assert {kind["type"] for kind in others} == {"Results"}
    assert (result["is_final"], result["speech_final"], result["from_finalize"]) == (True, True, False)
    assert result["channel_index"] == [0, 1]
    assert 0.5 < result["start"] < 1.2
    assert 5 < result["duration"] < 6.5
    (alternative,) = result["channel"]["alternatives"]
    assert alternative["transcript"].startswith("en second 0. en second 1.")
    assert "languages" not in alternative
    assert alternative["confidence"] == 0.9
    first = alternative["words"][0]
    assert set(first) == {"word", "start", "end", "confidence", "punctuated_word"}
    assert first["start"] == pytest.approx(result["start"], abs=0.01)
    assert set(result["metadata"]) == {"request_id", "model_uuid", "model_info"}
    assert set(result["metadata"]["model_info"]) == {"name", "version", "arch"}
    assert metadata["type"] == "Metadata"
    assert metadata["sha256"] == hashlib.sha256(speech).hexdigest()
    assert metadata["duration"] == pytest.approx(len(speech) / 2 / RATE, abs=1e-3)
    assert metadata["request_id"] == result["metadata"]["request_id"]
    assert 'outcome="ok",streaming="true",surface="deepgram"' in hearing.metrics()


def test_interim_results_grow_until_they_are_final(hearing: Any, voice: np.ndarray, wait_until: Any) -> None:
    with listening(hearing, interim_results="true", vad_events="true", endpointing=2_000) as socket:
        told: list[dict[str, Any]] = []
        for piece in np.array_split(np.pad(voice, (0, RATE // 4)), 3):
            say(socket, int16(piece))
            told += until(socket, "Results")
        send(socket, "CloseStream")
        told += rest(socket)
    assert told[0]["type"] == "SpeechStarted"
    assert told[0]["channel"] == [0]
    assert 0 <= told[0]["timestamp"] < 0.5
    interim, final = results(told, is_final=False), results(told, is_final=True)
    assert len(final) == 1
    assert len(interim) >= 2
    assert {each["speech_final"] for each in interim} == {False}
    assert {each["start"] for each in told if each["type"] == "Results"} == {final[0]["start"]}
    lengths = [each["duration"] for each in interim]
    assert lengths == sorted(lengths)
    assert text(interim[-1])[:20] == text(final[0])[:20]
    assert interim[-1]["channel"]["alternatives"][0]["words"]


def test_without_interim_results_there_are_none(hearing: Any, speech: bytes) -> None:
    with listening(hearing, endpointing="false") as socket:
        told = finish(socket, speech)
    assert results(told)
    assert results(told)[0]["channel"]["alternatives"][0]["languages"] == ["en"]
    assert all(each["is_final"] and not each["speech_final"] for each in results(told))
    assert {each["type"] for each in told} == {"Results", "Metadata"}


def test_finalize_is_answered_at_once(hearing: Any, voice: np.ndarray) -> None:
    with listening(hearing, endpointing=3_000) as socket:
        # Nothing came: an empty answer.
        send(socket, "Finalize")
        (empty,) = until(socket, "Results")
        assert (text(empty), empty["is_final"], empty["from_finalize"], empty["duration"]) == ("", True, True, 0)
        for count in (1, 2):
            say(socket, int16(voice[:RATE]))
            send(socket, "Finalize")
            (result,) = until(socket, "Results")
            assert (result["is_final"], result["speech_final"], result["from_finalize"]) == (True, True, True)
            assert text(result).startswith("en second 0.")
            assert result["start"] == pytest.approx(count - 1, abs=0.2)
        send(socket, "KeepAlive")
        send(socket, "Finalize")
        (again,) = until(socket, "Results")
        assert (text(again), again["from_finalize"]) == ("", True)
        send(socket, "CloseStream")
        assert [each["type"] for each in rest(socket)] == ["Metadata"]


def test_the_end_of_utterances_is_told_once(hearing: Any, voice: np.ndarray) -> None:
    with listening(
        hearing, interim_results="true", utterance_end_ms=1_000, endpointing=300, vad_events="true"
    ) as socket:
        say(socket, int16(np.pad(voice[: 2 * RATE], (0, 3 * RATE))))
        told = until(socket, "UtteranceEnd")
        last = results(told, is_final=True)[-1]
        assert told[-1]["channel"] == [0, 1]
        assert told[-1]["last_word_end"] == last["channel"]["alternatives"][0]["words"][-1]["end"]
        assert [each["type"] for each in finish(socket, bytes(2 * RATE * 2))] == ["Metadata"]


def test_silence_has_no_results(hearing: Any) -> None:
    with listening(hearing, interim_results="true", vad_events="true", utterance_end_ms=1_000) as socket:
        say(socket, bytes(3 * RATE * 2))
        # An empty message ends a stream, too.
        socket.send(b"")
        assert [each["type"] for each in rest(socket)] == ["Metadata"]
    assert not hearing.ear.requests


def test_configure_says_what_it_can_do(hearing: Any) -> None:
    with listening(hearing) as socket:
        send(socket, "Configure", features={"numerals": True})
        assert until(socket, "ConfigureSuccess")[0]["request_id"]
        send(socket, "Configure", keyterms=["Nightingale"])
        (failure,) = until(socket, "ConfigureFailure")
        assert failure["code"] == "CONFIGURE_KEYTERMS_NOT_SUPPORTED"
        assert failure["description"]


def test_a_client_that_sends_faster_than_it_is_heard_waits(hearing: Any, voice: np.ndarray) -> None:
    with listening(hearing) as socket:
        *told, metadata = finish(socket, int16(np.tile(voice, 20)), 1 << 20)
    assert metadata["duration"] == pytest.approx(20 * voice.size / RATE, abs=0.01)
    assert sum(text(result).count("second") for result in results(told)) >= 100
