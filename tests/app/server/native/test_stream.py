"""`WS /v1/audio/stream` over a real socket, with the websockets client."""

import io
import itertools
import json
import time
from typing import Any

import av
import httpx
import pytest
from websockets.sync.client import connect

from tests.app.server.streams import close_code, receive, say, send, session, until_answer

TWO = "Hello there, everybody. This is the second sentence."
# Seconds: longer than a busy machine takes from one message of a client to the next.
IDLE = 2.5
LONG = " ".join(f"This is sentence number {n} of a long text." for n in range(12))


@pytest.mark.parametrize("text", [TWO, "Some pe\u00adople he\u200bre, well. This is the sec\u00adond sentence."])
def test_text_in_fragments_comes_back_as_audio_with_words(server: Any, text: str) -> None:
    with session(server, timestamps=True) as socket:
        for start in range(0, len(text), 7):
            send(socket, "text", text=text[start : start + 7])
        send(socket, "end")
        chunks, audio, done = until_answer(socket)
        assert close_code(socket) == 1000
    assert [chunk["sequence"] for chunk in chunks] == [0, 1]
    assert " ".join(chunk["text"].strip() for chunk in chunks) == text
    assert chunks[0]["start"] == 0
    assert chunks[1]["start"] == pytest.approx(chunks[0]["duration"], abs=1e-4)
    words = [word for chunk in chunks for word in chunk["words"]]
    assert [word["text"].strip(".,") for word in words] == text.replace(",", "").replace(".", "").split()
    for word in words:
        assert text[word["char_start"] : word["char_end"]] == word["text"]
        assert word["start"] < word["end"] <= done["audio_duration"] + 1e-6
    assert all(one["end"] <= two["start"] + 1e-6 for one, two in itertools.pairwise(words))
    assert done["type"] == "done"
    assert not done["cancelled"]
    assert done["chunks"] == 2
    assert len(audio) == round(done["audio_duration"] * 24_000) * 2
    assert {"queue", "g2p", "decoder", "audio_encode"} <= set(done["stages"])
    assert 0 < done["first_audio"] <= done["total"]
    assert done["real_time_factor"] == pytest.approx(done["total"] / done["audio_duration"], rel=1e-3)


def test_a_sentence_is_spoken_before_the_text_goes_on(server: Any) -> None:
    with session(server) as socket:
        send(socket, "text", text="Hello there, everybody. And then")
        assert receive(socket)["text"].strip() == "Hello there, everybody."
        assert isinstance(socket.recv(timeout=60), bytes)
        chunks, _, done = say(socket, " some more.")
        assert [chunk["text"] for chunk in chunks] == ["And then some more."]
        assert done["chunks"] == 2


@pytest.mark.parametrize(("name", "rate"), [("wav", 16_000), ("mp3", 24_000), ("opus", 48_000), ("flac", 8_000)])
def test_every_set_is_one_file_of_the_format(server: Any, name: str, rate: int) -> None:
    with session(server, format=name, sample_rate=rate) as socket:
        for _ in range(2):
            _, audio, done = say(socket, TWO)
            with av.open(io.BytesIO(audio)) as container:
                assert container.streams.audio[0].rate == rate
                decoded = sum(frame.samples for frame in container.decode(audio=0)) / rate
            assert done["audio_duration"] - 0.01 <= decoded <= done["audio_duration"] + 0.3


def test_ready_says_what_will_be_used(server: Any) -> None:
    with connect(server.websocket_url) as socket:
        send(socket, "start", model="tts-1", voice="nova", sample_rate=16_000, lang="en")
        ready = receive(socket)
    chosen = {"model": "tone", "voice": "silky", "lang": "en-us", "translate_to": None, "watermark": "none"}
    form = {"format": "pcm", "sample_rate": 16_000, "channels": 1}
    assert ready == {"type": "ready", "request_id": socket.response.headers["x-request-id"], **chosen, **form}


def test_cancel_stops_within_a_stage_and_the_session_goes_on(server: Any, wait_until: Any) -> None:
    with session(server, voice="gated_second") as socket:
        send(socket, "text", text=LONG)
        send(socket, "flush")
        assert receive(socket)["type"] == "chunk"
        assert wait_until(lambda: len(server.tone.begun) == 2)
        send(socket, "cancel")
        while True:
            message = socket.recv(timeout=60)
            if isinstance(message, str) and json.loads(message)["type"] == "done":
                break
        assert json.loads(message)["cancelled"]
        # The next sentence was being computed, which would have taken for ever.
        assert len(server.tone.computed) == 1
        server.tone.gate.set()
        # The model thread takes a sentence that is still queued before the second of two later sets.
        for _ in range(2):
            chunks, audio, done = say(socket, "After that.")
            assert (len(chunks), done["type"], done["cancelled"]) == (1, "done", False)
            assert len(audio) == round(chunks[0]["duration"] * 24_000) * 2
        assert len(server.tone.begun) == 2 + 2


def test_waiting_for_slow_audio_is_not_silence(start_server: Any, tone: Any) -> None:
    running = start_server(tone=tone, idle_seconds=IDLE)
    with session(running, voice="gated") as socket:
        send(socket, "text", text="Hello there.")
        send(socket, "flush")
        time.sleep(IDLE + 0.5)
        tone.gate.set()
        assert until_answer(socket)[2]["type"] == "done"


def test_a_model_that_speaks_in_pieces(server: Any) -> None:
    with session(server, voice="chunky", timestamps=True) as socket:
        chunks, audio, done = say(socket, TWO)
    assert done["chunks"] == len(chunks) == 10
    position = 0.0
    for chunk in chunks:
        assert chunk["start"] == pytest.approx(position, abs=1e-4)
        position += chunk["duration"]
    # The alignment comes with the last piece of each sentence, in the time of the whole stream.
    assert [bool(chunk["words"]) for chunk in chunks] == [False, False, False, False, True] * 2
    assert chunks[9]["words"][0]["start"] == pytest.approx(chunks[5]["start"] + 0.5, abs=1e-3)
    body = {"input": TWO, "response_format": "pcm"}
    whole = httpx.post(server.url + "/v1/audio/speech", json=body | {"voice": "chunky"}).content
    assert whole == audio == httpx.post(server.url + "/v1/audio/speech", json=body).content


def test_words_after_a_pause_are_later(server: Any) -> None:
    with session(server, timestamps=True) as socket:
        chunks, audio, done = say(socket, "Hello there. [pause:2s] Good bye now.")
    words = [word for chunk in chunks for word in chunk["words"]]
    good = next(word for word in words if word["text"] == "Good")
    there = next(word for word in words if word["text"].startswith("there"))
    assert good["start"] - there["end"] >= 2.0
    assert len(audio) == round(done["audio_duration"] * 24_000) * 2
    assert sum(chunk["duration"] for chunk in chunks if not chunk["text"]) == pytest.approx(2.0)


def test_pauses_between_two_fragments_last(server: Any) -> None:
    sizes = []
    for pauses in ("", "[pause:0.1s] " * 100):
        with session(server) as socket:
            sizes.append(len(say(socket, f"Hello there. {pauses}Good bye now.")[1]) / 48_000)
    assert sizes[1] - sizes[0] == pytest.approx(10 - 0.5, abs=0.5)


def test_what_cannot_be_spoken_does_not_hold_up_what_can(server: Any) -> None:
    # Without an end of a sentence it is cut into several passages, none of which has a word.
    nothing = "[" * 1_900
    with session(server) as socket:
        assert say(socket, nothing)[2]["error"]["code"] == "nothing_to_speak"
        _, audio, event = say(socket, nothing + "\n\nHello there.", "end")
        assert event["type"] == "done" and audio
        assert close_code(socket) == 1000
