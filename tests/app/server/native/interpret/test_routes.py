"""`WS /v1/audio/interpret`, with models that hear what a test says, translate into capitals, and hum."""

from __future__ import annotations

import itertools
import json
import socket as sockets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from models.contract import UnusableReferenceError
from tests.app.server.surfaces import reset

PATIENCE = 60
RATE = 16_000
# The stand-in recognizer hears what it is told to, whatever the sound is.
SECOND = (np.sin(np.arange(RATE) / 10) * 8_000).astype("<i2").tobytes()
START = {
    "type": "start",
    "target": "fr",
    "source": "en",
    "recognition_model": "ear",
    "translate_model": "shout",
    # Each flush is an utterance, and each utterance one question to the recognizer.
    "pause": None,
    "partials": False,
    "anticipate": False,
    "any_language": True,
}


@dataclass
class Client:
    """One socket; `events` are the messages that came, each with its audio as `bytes`."""

    socket: ClientConnection
    events: list[dict[str, Any]] = field(default_factory=list)
    ready: dict[str, Any] = field(default_factory=dict)

    def send(self, message: dict[str, Any] | bytes) -> None:
        self.socket.send(message if isinstance(message, bytes) else json.dumps(message))

    def say(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.send(SECOND)
        self.send({"type": "flush"})

    def spoken(self) -> str:
        """Say a sentence, and return how it ended."""
        self.say()
        return str(self.until("sentence_done")["ending"])

    def next(self) -> dict[str, Any]:
        frame = self.socket.recv(timeout=PATIENCE)
        while isinstance(frame, bytes):
            self.events[-1]["bytes"] = self.events[-1].get("bytes", b"") + frame
            frame = self.socket.recv(timeout=PATIENCE)
        self.events.append(json.loads(frame))
        return self.events[-1]

    def until(self, kind: str, **fields: object) -> dict[str, Any]:
        while True:
            event = self.next()
            if event["type"] == kind and fields.items() <= event.items():
                return event
            assert event["type"] != "error" or kind == "error", event

    def rest(self) -> list[dict[str, Any]]:
        """Read until the server closes."""
        with pytest.raises(ConnectionClosed):
            while True:
                self.next()
        return self.events

    def end(self) -> None:
        self.send({"type": "end"})
        self.rest()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]


Interpreting = Callable[..., Any]


@pytest.fixture(scope="module")
def interpreter(shared_hearing_server: Any) -> Any:
    """The hearing server, whose models are loaded by now."""
    with opened(shared_hearing_server) as client:
        client.send({"type": "end"})
        client.until("done")
    return shared_hearing_server


@contextmanager
def opened(running: Any, **fields: object) -> Iterator[Client]:
    """Open a session."""
    with connect(running.url.replace("http", "ws", 1) + "/v1/audio/interpret", max_size=None) as socket:
        client = Client(socket)
        client.send({**START, **fields})
        yield client


@pytest.fixture
def session(hearing: Any, interpreter: Any) -> Callable[..., Any]:
    """`session(says, **fields)`: open a session whose recognizer hears `says`, one a flush; it is ready."""

    @contextmanager
    def begin(*says: str, **fields: object) -> Iterator[Client]:
        hearing.ear.says[:] = says
        hearing.parrot.hold.set()
        with opened(hearing, **fields) as client:
            client.ready = client.until("ready")
            yield client

    return begin


@pytest.fixture
def interpreted(session: Any) -> Callable[..., Client]:
    """`interpreted(*says, seconds=1, **fields)`: say all in a session, each for so many seconds, and end it."""

    def run(*says: str, seconds: int = 1, **fields: object) -> Client:
        with session(*says, **fields) as client:
            for _ in says:
                client.say(seconds)
            client.end()
        return client

    return run


def test_a_sentence_is_heard_translated_and_spoken(interpreted: Any) -> None:
    client = interpreted("hello there.", seconds=2)
    chosen = {"target": "fr", "source": "en", "recognition_model": "ear", "translate_model": "shout", "model": "tone"}
    assert chosen.items() <= client.ready.items()
    assert client.ready["request_id"]
    kinds = [event["type"] for event in client.events if event["type"] != "chunk"]
    assert kinds == ["ready", "speech_stopped", "utterance", "sentence", "translation", "sentence_done", "done"]
    assert client.of("utterance")[0]["language"] == "en"
    sentence = client.of("sentence")[0]
    assert (sentence["text"], sentence["start"], sentence["end"]) == ("hello there.", 0.0, 2.0)
    translation = client.of("translation")[0]
    assert (translation["source_text"], translation["text"]) == ("hello there.", "HELLO THERE.")
    chunks = client.of("chunk")
    assert "".join(chunk["text"] for chunk in chunks) == "HELLO THERE."
    assert all(len(chunk["bytes"]) == round(2 * chunk["duration"] * client.ready["sample_rate"]) for chunk in chunks)
    done = client.of("sentence_done")[0]
    assert done["ending"] == "spoken"
    assert 0 <= done["latency"]["recognized"] <= done["latency"]["translated"] <= done["latency"]["spoken"]
    assert done["audio_duration"] == pytest.approx(sum(chunk["duration"] for chunk in chunks), abs=1e-4)
    assert {"translate_decode", "decoder"} <= done["stages"].keys()
    lengths = {"input_duration": 2.0, "audio_duration": done["audio_duration"]}
    assert client.of("done")[0] == {"type": "done", "sentences": 1, **lengths}
    assert client.socket.close_code == 1000


def test_speech_never_overlaps_and_keeps_its_order(interpreted: Any) -> None:
    says = [f"this is the sentence with the number {number}." for number in range(6)]
    client = interpreted(*says, timestamps=True)
    chunks = client.of("chunk")
    assert [event["text"] for event in client.of("sentence")] == says
    assert [chunk["number"] for chunk in chunks] == sorted(chunk["number"] for chunk in chunks)
    for before, after in itertools.pairwise(chunks):
        assert after["start"] >= before["start"] + before["duration"] - 1e-5
    for chunk in chunks:
        assert all(chunk["start"] - 1e-4 <= word["start"] <= word["end"] for word in chunk["words"])
    assert client.of("done")[0]["sentences"] == len(says)


def test_two_sentences_of_one_utterance_are_two(interpreted: Any) -> None:
    client = interpreted("one is here. two is there.", seconds=4)
    first, second = client.of("sentence")
    assert (first["text"], second["text"]) == ("one is here.", "two is there.")
    assert first["end"] == second["start"]
    assert 1.0 < first["end"] < 3.0
    assert second["end"] == 4.0


def test_a_sentence_that_cannot_be_translated_does_not_end_the_session(interpreted: Any) -> None:
    client = interpreted("a quark.", "a dog.")
    first, second = client.of("sentence_done")
    assert (first["ending"], first["error"]["code"]) == ("failed", "outside_coverage")
    assert (second["ending"], second["error"]) == ("spoken", None)


def test_silence_and_a_flush_without_audio_say_nothing(session: Any) -> None:
    with session("") as client:
        client.say()
        client.send({"type": "flush"})
        client.end()
    assert client.of("sentence") == client.of("error") == []
    assert client.of("done")[0]["sentences"] == 0


def test_muted_sentences_are_written_and_not_spoken(session: Any) -> None:
    with session("one.", "two.", "three.", muted=True) as client:
        assert client.spoken() == "muted"
        client.send({"type": "mute", "muted": False})
        assert client.spoken() == "spoken"
        client.send({"type": "mute"})
        assert client.spoken() == "muted"
    assert [event["text"] for event in client.of("translation")] == ["ONE.", "TWO.", "THREE."]
    assert {chunk["number"] for chunk in client.of("chunk")} == {1}


def test_a_speaker_of_the_target_language_is_not_repeated(session: Any) -> None:
    with session("good evening to all of you.", target="en") as client:
        assert client.spoken() == "unchanged"
    assert client.of("translation")[0]["text"] == "good evening to all of you."
    assert client.of("chunk") == []


def test_cancel_drops_what_is_not_spoken(session: Any, hearing: Any) -> None:
    with session("one is here. two is there. three is where.", "four.", model="parrot") as client:
        hearing.parrot.hold.clear()
        client.say()
        client.until("sentence", number=2)
        client.send({"type": "cancel"})
        endings = [client.until("sentence_done") for _ in range(3)]
        assert [(event["number"], event["ending"]) for event in endings] == [(n, "cancelled") for n in range(3)]
        hearing.parrot.hold.set()
        assert client.spoken() == "spoken"
        client.end()
    assert {chunk["number"] for chunk in client.of("chunk")} <= {0, 3}


def test_cancel_after_the_end_still_ends(session: Any, hearing: Any) -> None:
    with session("one.", model="parrot") as client:
        hearing.parrot.hold.clear()
        client.say()
        client.until("translation")
        client.send({"type": "end"})
        client.send({"type": "cancel"})
        client.rest()
    assert [event["type"] for event in client.events[-2:]] == ["sentence_done", "done"]


def test_an_update_changes_the_sentences_that_follow(session: Any) -> None:
    with session("one.", "two.", voice="steady") as client:
        client.spoken()
        client.send({"type": "update", "target": "es", "voice": "silky", "speed": 2.0})
        updated = client.until("updated")
        assert (updated["target"], updated["voice"]) == ("es", "silky")
        assert client.spoken() == "spoken"
    assert {chunk["speed"] for chunk in client.of("chunk") if chunk["number"] == 1} == {2.0}


def test_an_update_that_cannot_be_is_refused_and_nothing_changes(session: Any) -> None:
    with session("one.") as client:
        client.send({"type": "update", "voice": "nobody"})
        error = client.until("error")
        assert (error["fatal"], error["error"]["code"]) == (False, "unknown_voice")
        assert client.spoken() == "spoken"


def test_speech_that_is_behind_is_faster_and_then_left_out(session: Any) -> None:
    long = "word " * 100 + "end."  # some nine seconds of sound
    with session(long, "two.", "three.", max_speed=1.5, max_delay=600.0) as client:
        for _ in range(2):
            client.spoken()
        assert {chunk["speed"] for chunk in client.of("chunk") if chunk["number"] == 0} == {1.0}
        assert {chunk["speed"] for chunk in client.of("chunk") if chunk["number"] == 1} == {1.5}
    with session(long, "two.", max_delay=5.0) as client:
        client.spoken()
        assert client.spoken() == "late"
    assert [event["text"] for event in client.of("translation")][1] == "TWO."


def test_a_model_of_one_speed_is_not_hurried(session: Any) -> None:
    long = "word " * 100 + "end."
    with session(long, "two.", "three.", model="parrot", max_delay=600.0) as client:
        for _ in range(2):
            client.spoken()
        client.send({"type": "update", "speed": 1.2})
        assert client.until("error")["error"]["param"] == "speed"
        client.spoken()
    assert [event["ending"] for event in client.of("sentence_done")] == ["spoken"] * 3
    assert {chunk["speed"] for chunk in client.of("chunk")} == {1.0}


def test_every_sentence_is_one_stream_of_its_format(interpreted: Any) -> None:
    client = interpreted("one.", "two.", format="wav", sample_rate=16_000)
    assert (client.ready["format"], client.ready["sample_rate"]) == ("wav", 16_000)
    for number in range(2):
        audio = b"".join(chunk.get("bytes", b"") for chunk in client.of("chunk") if chunk["number"] == number)
        assert audio.startswith(b"RIFF")
        assert audio.count(b"RIFF") == 1


@pytest.mark.parametrize(
    ("message", "code", "part"),
    [
        ({"type": "flush"}, "protocol_error", "not started"),
        (b"\0\0", "protocol_error", "not started"),
        ({"type": "sing"}, "protocol_error", "start, update, flush"),
        ({**START, "translate_model": "ear"}, "wrong_model_kind", "ear"),
        ({**START, "model": "shout"}, "wrong_model_kind", "shout"),
        ({**START, "translate_model": "absent-translator"}, "model_not_installed", "absent-translator"),
        ({**START, "input_rate": 7_999}, "protocol_error", "input_rate"),
        ({**START, "pause": 0.0}, "protocol_error", "pause"),
        ({**START, "max_speed": 0.5}, "protocol_error", "max_speed"),
        ({**START, "keywords": ["a"] * 101}, "protocol_error", "keywords"),
        ({**START, "colour": "red"}, "protocol_error", "has no 'colour'; accepted are anticipate, any_language"),
        ({key: value for key, value in START.items() if key != "target"}, "protocol_error", "target"),
        ({**START, "target": "\ud800"}, "protocol_error", "target"),
    ],
)
def test_what_is_wrong_is_said_before_the_socket_closes(
    hearing: Any, interpreter: Any, message: Any, code: str, part: str
) -> None:
    with connect(hearing.url.replace("http", "ws", 1) + "/v1/audio/interpret") as socket:
        client = Client(socket)
        client.send(message)
        events = client.rest()
    assert events[-1]["type"] == "error"
    assert (events[-1]["fatal"], events[-1]["error"]["code"]) == (True, code)
    assert part in events[-1]["error"]["message"]
    assert socket.close_code != 1000


@pytest.mark.parametrize("again", [START, {"type": "update"}, b"\0\0"])
def test_after_the_end_nothing_is_accepted(session: Any, hearing: Any, again: Any) -> None:
    with session("one.", model="parrot") as client:
        hearing.parrot.hold.clear()
        client.say()
        client.until("translation")
        client.send({"type": "end"})
        client.send(again)
        assert client.rest()[-1]["error"]["code"] == "protocol_error"


def test_a_failure_inside_the_speaking_model_is_told_and_the_session_goes_on(session: Any) -> None:
    with session("one.", "two.", voice="broken") as client:
        client.say()
        first = client.until("sentence_done")
        assert (first["ending"], first["error"]["code"]) == ("failed", "model_failed")
        client.send({"type": "update", "voice": "steady"})
        assert client.spoken() == "spoken"


def test_the_metrics_tell_what_the_client_was_told(interpreted: Any, hearing: Any) -> None:
    names = [
        'nightingale_interpretation_sentences_total{ending="spoken",surface="interpret"}',
        'nightingale_interpretation_latency_seconds_count{surface="interpret",until="spoken"}',
        'nightingale_interpretation_latency_seconds_count{surface="interpret",until="heard"}',
        'nightingale_requests_total{model="tone",outcome="ok",streaming="true",surface="interpret"}',
    ]
    before = [hearing.count(name) for name in names]
    interpreted("one.")
    assert [hearing.count(name) for name in names] == [number + 1 for number in before]


def pitches(client: Client) -> list[int]:
    """Return the pitch of each sentence, in steps of 10 Hz."""
    found: dict[int, bytes] = {}
    for event in client.of("chunk"):
        found[event["number"]] = found.get(event["number"], b"") + event.get("bytes", b"")
    rate, pitches = client.ready["sample_rate"], []
    for number in sorted(found):
        pcm = np.frombuffer(found[number], "<i2").astype(np.float32)
        pitches.append(round(np.argmax(np.abs(np.fft.rfft(pcm))) * rate / pcm.size / 10) * 10)
    return pitches


CLONING = {"model": "parrot", "clone_voice": True, "consent": True}


def test_speech_goes_on_in_the_voice_of_who_speaks(session: Any, hearing: Any) -> None:
    """The parrot hums at 300 Hz, and as the speaker of SECOND at 255. It makes a voice of 5 seconds."""
    hearing.parrot.heard.clear()
    with session("one two three.", "", "four five six.", "seven eight nine.", **CLONING) as client:
        client.say(3)
        client.until("utterance", item=0)
        client.say(3)  # sounds that are no speech are no part of the voice
        client.until("utterance", item=1, text="")
        client.say(2)
        client.until("utterance", item=2)
        assert client.of("voice_cloned") == []
        assert client.until("voice_cloned") == {"type": "voice_cloned", "model": "parrot", "seconds": 5.0}
        client.say(2)
        client.end()
    assert hearing.parrot.heard == [5.0]
    assert [event["ending"] for event in client.of("sentence_done")] == ["spoken"] * 3
    heard = pitches(client)
    assert heard[0] == pytest.approx(300, abs=5)
    assert heard[-1] == pytest.approx(255, abs=5)
    # Nothing of it is left for other sessions.
    voices = httpx.get(hearing.url + "/v1/audio/voices", params={"model": "parrot"}).json()["voices"]
    assert [each["id"] for each in voices] == ["own"]
    with session("ten eleven.", model="parrot") as client:
        client.say(6)
        client.end()
    assert pitches(client)[0] == pytest.approx(300, abs=5)
    assert hearing.parrot.heard == [5.0]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"consent": False}, "consent_missing", "'consent' as true"),
        ({"model": "tone"}, "invalid_request", "accepted with 'clone_voice' are: parrot"),
        ({"clone_voice": "yes"}, "protocol_error", "clone_voice"),
    ],
)
def test_a_voice_that_may_not_be_cloned_is_refused(hearing: Any, fields: Any, code: str, words: str) -> None:
    with opened(hearing, **{**CLONING, **fields}) as client:
        error = client.until("error")
    assert error["fatal"]
    assert error["error"]["code"] == code
    assert words in error["error"]["message"]


def test_a_voice_that_cannot_be_made_leaves_the_other(session: Any, hearing: Any, monkeypatch: Any) -> None:
    def fails(*arguments: Any) -> Any:
        raise UnusableReferenceError("it hums")
        yield None

    monkeypatch.setattr(hearing.parrot, "condition", fails)
    with session("one two three.", "four five six.", **CLONING) as client:
        client.say(6)
        error = client.until("error")
        client.send({"type": "update", "model": "tone"})  # it clones no voices: the choice stays
        refused = client.until("error")
        client.say(2)
        client.end()
    assert (error["fatal"], error["error"]["code"]) == (False, "unusable_recording")
    assert error["error"]["message"] == "Model 'parrot' cannot use the recording of who speaks: it hums"
    assert (refused["fatal"], refused["error"]["param"]) == (False, "model")
    assert pitches(client)[-1] == pytest.approx(300, abs=5)
    assert [event["ending"] for event in client.of("sentence_done")] == ["spoken"] * 2


def test_a_voice_for_a_client_that_left_is_given_up(session: Any, hearing: Any, wait_until: Any) -> None:
    before = hearing.parrot.given_up
    hearing.parrot.gate.clear()
    try:
        with session("one two three.", **CLONING) as client:
            client.say(6)
            client.until("sentence_done")
        assert wait_until(lambda: hearing.parrot.given_up > before)
    finally:
        hearing.parrot.gate.set()


# Clients that leave, do not read, or flood, and a server that stops.


def works(running: Any) -> None:
    """Check that the server still interprets."""
    running.parrot.hold.set()
    running.ear.says[:] = ["still here."]
    with opened(running) as client:
        client.until("ready")
        client.say()
        assert client.until("translation")["text"] == "STILL HERE."
        assert client.until("sentence_done")["ending"] == "spoken"


@pytest.mark.parametrize("moment", ["ready", "sentence", "translation", "chunk", "sentence_done"])
def test_a_client_may_break_off_at_any_moment(session: Any, hearing: Any, wait_until: Any, moment: str) -> None:
    with session(*["one is here. two is there. three is where."] * 3, model="parrot") as client:
        for _ in range(3):
            client.say()
        if moment != "ready":
            client.until(moment)
        reset(client.socket.socket)
    assert wait_until(hearing.idle)
    works(hearing)


def test_a_flood_of_tiny_messages_is_taken_and_nothing_is_lost(session: Any) -> None:
    with session("one is here.") as client:
        for start in range(0, 4_000, 10):
            client.send(SECOND[start : start + 10])
        client.send(b"")
        client.send({"type": "end"})
        assert client.until("done")["input_duration"] == pytest.approx(2_000 / RATE, abs=1e-4)


def test_a_client_that_does_not_read_is_dropped_and_holds_nobody_up(start_server: Any, wait_until: Any) -> None:
    running = start_server(recognizer="ear", translator="shout", recognition_gate=False, stall_seconds=1.0)
    running.ear.says[:] = ["word " * 90 + "end."] * 50
    with connect(running.url.replace("http", "ws", 1) + "/v1/audio/interpret", max_queue=1) as socket:
        socket.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4_096)
        client = Client(socket)
        client.send({**START, "max_delay": 600.0})
        client.until("ready")
        try:
            for _ in range(50):
                client.say()
        except (ConnectionClosed, TimeoutError):
            pass
        assert wait_until(running.idle)
    works(running)
