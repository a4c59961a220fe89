"""Recognition over Wyoming on a real socket, with a recognizer that hears seconds."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import numpy as np
import pytest

from tests.app.audio.recordings import written
from tests.app.server.wyoming.clients import Client, connected, error_of

FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
SECOND = b"\x10\x27\xf0\xd8" * 8_000
TEXT = "en second 0. en second 1. en second 2."


def say(client: Client, audio: bytes = SECOND * 3, size: int = 2_048, **form: int) -> None:
    form = FORMAT | form
    client.send("audio-start", **form)
    for start in range(0, len(audio), size):
        client.send("audio-chunk", audio[start : start + size], **form)
    client.send("audio-stop")


def test_a_recording_is_written_down_as_it_is_recognized(hearing: Any) -> None:
    with connected(hearing.wyoming_port) as client:
        client.send("transcribe", language="de")
        say(client, SECOND * 3)
        events = client.until("transcript-stop")
        kinds = ["transcript-start", *["transcript-chunk"] * 3, "transcript", "transcript-stop"]
        assert [event.type for event in events] == kinds
        assert events[0].data == {"language": "de"}
        german = TEXT.replace("en ", "de ")
        assert events[-2].data == {"text": german, "language": "de"}
        assert "".join(event.data["text"] for event in events[1:-2]) == german
        # The next one on the same connection: its language is detected.
        say(client, SECOND)
        assert client.until("transcript")[-1].data == {"text": "en second 0.", "language": "en"}
        client.send("ping")
        assert client.until("pong")
    metrics = hearing.metrics()
    assert 'nightingale_requests_total{model="ear",outcome="ok",streaming="true",surface="wyoming"}' in metrics
    assert 'nightingale_recognized_seconds_total{model="ear",streaming="true",surface="wyoming"}' in metrics


def test_the_options_reach_the_model(hearing: Any) -> None:
    with connected(hearing.wyoming_port) as client:
        unknown = {"context": {"anything": 1}, "vad_sensitivity": "relaxed"}
        terms = {"transcript_names": ["Nightingale"], "transcript_terms": ["MLX"]}
        client.send("transcribe", name="ear", language="French", **unknown, **terms)
        say(client)
        client.until("transcript-stop")
    (request,) = hearing.ear.requests
    assert (request.language, request.prompt) == ("fr", "Nightingale, MLX.")


@pytest.mark.parametrize("audio", [b"", b"\x00"])
def test_no_audio_has_no_text(hearing: Any, audio: bytes) -> None:
    with connected(hearing.wyoming_port) as client:
        client.send("transcribe", language="en")
        say(client, audio)
        events = client.until("transcript-stop")
        assert [event.type for event in events] == ["transcript-start", "transcript", "transcript-stop"]
        assert events[1].data == {"text": "", "language": "en"}
    assert hearing.ear.requests == []


def test_silence_has_no_text(start_server: Any) -> None:
    server = start_server(wyoming_port=0, recognizer="ear")
    with connected(server.wyoming_port) as client:
        say(client, bytes(64_000))
        assert client.until("transcript")[-1].data == {"text": ""}
    assert server.ear.requests == []


def test_chunks_name_their_format(hearing: Any) -> None:
    with connected(hearing.wyoming_port) as client:
        client.send("audio-chunk", SECOND, **FORMAT)
        client.send("audio-stop")
        assert client.until("transcript")[-1].data["text"] == "en second 0."


def test_info_names_the_recognizers_that_are_loaded(hearing: Any) -> None:
    with connected(hearing.wyoming_port) as client:
        client.send("describe")
        (program,) = client.until("info")[-1].data["asr"]
    assert [model["name"] for model in program["models"]] == ["ear"]
    assert program["models"][0]["languages"] == ["en", "fr", "de", "jw", "zh"]
    assert program["supports_transcript_streaming"] is True


def test_a_recording_that_never_stops_is_refused(start_server: Any) -> None:
    port = start_server(wyoming_port=0, recognizer="ear", recognition_seconds=2.0).wyoming_port
    with connected(port) as client:
        client.send("audio-start", **FORMAT)
        for _ in range(3):
            client.send("audio-chunk", SECOND, **FORMAT)
        data = error_of(client)
        assert (data["code"], "at most 2 seconds" in data["text"]) == ("unusable_recording", True)
    port = start_server(wyoming_port=0, recognizer="ear", max_recording_bytes=64_000).wyoming_port
    with connected(port) as client:
        client.send("audio-start", **FORMAT)
        for _ in range(3):
            client.send("audio-chunk", SECOND, **FORMAT)
        assert error_of(client)["code"] == "body_too_large"


def test_recordings_that_stop_coming_hold_up_no_upload(start_server: Any) -> None:
    size = 1 << 20
    server = start_server(wyoming_port=0, recognizer="ear", recognition_gate=False, max_recording_bytes=size)
    with ExitStack() as held:
        clients = [held.enter_context(connected(server.wyoming_port)) for _ in range(8)]
        for client in clients:
            client.send("audio-chunk", bytes(size // 2), **FORMAT)
            client.send("audio-chunk", bytes(size // 2), **FORMAT)
            client.send("ping")
            client.until("pong")
        # They have half of the room together; so the first ones lost theirs.
        assert [error_of(client)["code"] for client in clients[:4]] == ["overloaded"] * 4
        recording = written(np.zeros(size // 2 - 4_096, np.float32), 16_000)
        with ThreadPoolExecutor(4) as pool:
            url, form = f"{server.url}/v1/audio/transcriptions", {"model": "ear"}
            asked = [pool.submit(httpx.post, url, data=form, files={"file": recording}, timeout=60) for _ in range(4)]
            assert [each.result().status_code for each in asked] == [200] * 4


def test_tiny_chunks_are_read_slowly_and_not_lost(start_server: Any) -> None:
    server = start_server(wyoming_port=0, recognizer="ear", recognition_gate=False, messages_per_second=200)
    with connected(server.wyoming_port) as client:
        # More than ten seconds' worth of events.
        say(client, SECOND[: 2 * 2_150], size=2)
        client.until("transcript-stop")
    assert server.ear.requests[0].pcm.size == 2_150


def test_a_client_that_sends_nothing_more_hears_the_rest(hearing: Any) -> None:
    with connected(hearing.wyoming_port) as client:
        say(client)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest()[-1] == "transcript-stop"
    with connected(hearing.wyoming_port) as client:
        client.send("audio-start", **FORMAT)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest() == []
