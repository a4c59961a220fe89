"""`WS /v1/realtime`: events in their order, configurations, errors that keep the session open, and ends."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from websockets.exceptions import ConnectionClosed, InvalidStatus

from app.audio.resample import Resampler
from app.audio.samples import SampleCoding, SampleReader, decode
from app.server.openai.realtime.config import TranscriptionConfig
from app.server.openai.realtime.transcription import TranscriptionSocket
from tests.app.server.openai.realtime import sessions

GOLDEN = Path(__file__).parents[4] / "golden"
KEY = "a-key-of-the-tests"


class Session(sessions.Session):
    def update(self, **given: Any) -> None:
        self.send("session.update", session={"type": "transcription", "audio": {"input": given}})

    def commit(self, data: bytes) -> None:
        self.append(data)
        self.send("input_audio_buffer.commit")


@contextmanager
def session(running: Any, query: str = "?intent=transcription", **options: Any) -> Iterator[Session]:
    with sessions.opened(running, query, **options) as socket:
        yield Session(socket)


COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("conversation.item.").removeprefix("input_audio_buffer.") for event in events]


def pcm(seconds: float, rate: int = 24_000) -> bytes:
    wave = 0.3 * np.sin(2 * np.pi * 300 * np.arange(round(seconds * rate)) / rate)
    return (wave * 32_767).astype("<i2").tobytes()


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """5.6 seconds of speech with silence around it, at 24 kHz."""
    samples, rate = soundfile.read(GOLDEN / "spoken.ogg", dtype="float32")
    return Resampler(rate, 24_000).push(np.pad(samples, rate), last=True)


def test_a_session_tells_its_configuration_first(hearing: Any) -> None:
    with session(hearing) as one:
        created = one.next()
        assert created["type"] == "session.created"
        given = created["session"]
        turns = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
        assert (given["type"], given["object"]) == ("transcription", "realtime.transcription_session")
        assert given["id"].startswith("sess_")
        assert given["expires_at"] > time.time()
        assert given["audio"]["input"] == {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "transcription": {"model": "ear"},
            "noise_reduction": None,
            "turn_detection": turns,
        }
        one.update(transcription={"language": "fr"}, turn_detection={"type": "server_vad", "threshold": 0.7})
        found = one.next()["session"]["audio"]["input"]
        assert found["transcription"] == {"model": "ear", "language": "fr"}
        assert found["turn_detection"] == turns | {"threshold": 0.7}
        # Only what is present changes; null is a value.
        one.update(turn_detection=None)
        found = one.next()["session"]["audio"]["input"]
        assert found["turn_detection"] is None
        assert found["transcription"]["language"] == "fr"


def test_a_client_commits(hearing: Any) -> None:
    with session(hearing) as one:
        one.update(turn_detection=None)
        one.until("session.updated")
        for _ in range(2):
            one.commit(pcm(1.5))
        events = one.until(COMPLETED, 2)
        committed = [event for event in events if event["type"] == "input_audio_buffer.committed"]
        first, second = (event["item_id"] for event in committed)
        assert [event["previous_item_id"] for event in committed] == [None, first]
        done = [event for event in events if event["type"] == COMPLETED]
        assert [event["item_id"] for event in done] == [first, second]
        assert done[0]["transcript"] == "en second 0. en second 1."
        assert done[0]["usage"]["type"] == "tokens"
        assert done[0]["usage"]["input_token_details"]["audio_tokens"] == 15
        for event in done:
            deltas = [each["delta"] for each in events if each["type"] == DELTA and each["item_id"] == event["item_id"]]
            assert "".join(deltas) == event["transcript"]
        added = next(event for event in events if event["type"] == "conversation.item.added")
        assert added["item"]["id"] == first
        assert (added["item"]["role"], added["item"]["content"][0]["type"]) == ("user", "input_audio")
        assert not [event for event in events if "logprobs" in event]


def test_voices_end_utterances(hearing: Any, speech: np.ndarray) -> None:
    data = (np.tile(speech, 2) * 32_767).astype("<i2").tobytes()
    with session(hearing) as one:
        one.update(transcription={"language": "en"})
        for start in range(0, len(data), 4_801):  # samples are cut, too
            one.append(data[start : start + 4_801])
        events = one.until(COMPLETED, 2)
    names = [name for name in kinds(events) if "delta" not in name]
    one_item = ["speech_started", "speech_stopped", "committed", "added", "done", "input_audio_transcription.completed"]
    assert sorted(names[2:]) == sorted(one_item * 2)
    starts = [event["audio_start_ms"] for event in events if "audio_start_ms" in event]
    ends = [event["audio_end_ms"] for event in events if "audio_end_ms" in event]
    length = speech.size / 24
    assert 500 < starts[0] < 1_200
    assert starts[1] - starts[0] == pytest.approx(length, abs=100)
    assert ends[1] - ends[0] == pytest.approx(length, abs=100)
    ids = {event["item_id"] for event in events if "item_id" in event}
    assert len(ids) == 2


def test_g711_is_that_of_ffmpeg() -> None:
    import av

    codings: tuple[SampleCoding, ...] = ("mulaw", "alaw")
    for coding in codings:
        codec: Any = av.CodecContext.create(f"pcm_{coding}", "r")
        codec.sample_rate, codec.layout = 8_000, "mono"
        packet = av.Packet(bytes(range(256)))
        wanted = np.concatenate([frame.to_ndarray().ravel() for frame in codec.decode(packet)])
        assert np.array_equal(decode(bytes(range(256)), coding) * 32_768, wanted)


def test_samples_cut_anywhere_are_the_same() -> None:
    data = pcm(1.0)
    whole = SampleReader("pcm16", 24_000, 16_000).push(data)
    reader, chance = SampleReader("pcm16", 24_000, 16_000), random.Random(0)
    found, place = [], 0
    while place < len(data):
        size = chance.randint(0, 999)
        found.append(reader.push(data[place : place + size]))
        place += size
    assert np.allclose(np.concatenate(found)[: whole.size - 2_000], whole[: whole.size - 2_000], atol=1e-6)
    bad = decode(np.array([np.nan, np.inf, 3, -3, 0.5], "<f4").tobytes(), "float32")
    assert bad.tolist() == [0, 0, 1, -1, 0.5]


def test_the_older_protocol(hearing: Any) -> None:
    with session(hearing) as one:
        older = {"input_audio_format": "g711_ulaw", "turn_detection": None}
        older["input_audio_transcription"] = {"model": "whisper-1", "language": "en"}
        one.send("transcription_session.update", session=older)
        updated = one.until("transcription_session.updated")[-1]["session"]
        assert updated["input_audio_format"] == "g711_ulaw"
        assert updated["turn_detection"] is None
        one.commit(b"\x00" * 8_000)
        assert "conversation.item.created" in [event["type"] for event in one.until(COMPLETED)]


def update(**given: Any) -> str:
    return json.dumps({"type": "session.update", "session": {"audio": {"input": given}}})


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ("{}", "type"),
        ('{"type": 3}', "type"),
        ('{"type": "response.create"}', None),
        ('{"type": "session.update"}', "session"),
        ('{"type": "session.update", "session": {"type": "realtime"}}', "session.type"),
        ('{"type": "session.update", "session": {"audio": 3}}', "session.audio"),
        ('{"type": "session.update", "session": {"voice": "alloy"}}', "session.voice"),
        (update(format={"type": "audio/pcm", "rate": 8_000}), "session.audio.input.format.audio/pcm.rate"),
        (update(transcription={"language": "xx"}), "language"),
        (update(transcription={"model": "nothing"}), "model"),
        ('{"type": "input_audio_buffer.append"}', "audio"),
        ('{"type": "input_audio_buffer.append", "audio": "A"}', "audio"),
        ('{"type": "input_audio_buffer.append", "audio": "\\ud800"}', "audio"),
        ('{"type": "input_audio_buffer.commit"}', None),
    ],
)
def test_an_error_keeps_the_session_open(hearing: Any, sent: str, param: str | None) -> None:
    with session(hearing) as one:
        one.until("session.created")
        one.socket.send(sent)
        error = one.until("error")[-1]["error"]
        assert error["message"]
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        one.send("input_audio_buffer.commit", event_id="mine")
        error = one.until("error")[-1]["error"]
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "mine")
        one.send("input_audio_buffer.clear")
        assert one.until("input_audio_buffer.cleared")


def test_clear_drops_the_audio(hearing: Any) -> None:
    with session(hearing) as one:
        one.update(turn_detection=None)
        one.append(pcm(2))
        one.send("input_audio_buffer.clear")
        one.until("input_audio_buffer.cleared")
        one.commit(pcm(0.5))
        assert one.until(COMPLETED)[-1]["transcript"] == "en second 0."


def test_a_change_between_two_streams_of_audio(hearing: Any) -> None:
    with session(hearing) as one:
        one.update(turn_detection=None, transcription={"language": "en"})
        one.commit(pcm(1))
        one.update(transcription={"language": "fr"})
        one.commit(pcm(1))
        texts = [event["transcript"] for event in one.until(COMPLETED, 2) if event["type"] == COMPLETED]
    assert texts == ["en second 0.", "fr second 0."]


def test_a_failure_concerns_one_item(hearing: Any) -> None:
    with session(hearing) as one:
        one.update(turn_detection=None, transcription={"prompt": "broken"})
        one.commit(pcm(2))
        failed = one.until("conversation.item.input_audio_transcription.failed")[-1]
        assert failed["error"]["code"] == "model_failed"
        one.commit(pcm(1))
        assert one.until(COMPLETED)[-1]["transcript"]


@pytest.mark.parametrize("query", ["?model=gpt-4o-transcribe", "?intent=transcription&model=gpt-realtime"])
def test_names_of_models(hearing: Any, query: str) -> None:
    with session(hearing, query) as one:
        given = one.next()["session"]["audio"]["input"]["transcription"]["model"]
    assert given == ("gpt-4o-transcribe" if "4o" in query else "ear")


def test_a_frame_that_is_too_large_is_told(start_server: Any) -> None:
    running = start_server(recognizer="ear", max_frame_bytes=6_250)
    with session(running) as one:
        one.until("session.created")
        one.append(bytes(90_000))
        error = one.until("error")[-1]["error"]
        assert error["code"] == "body_too_large"
        with pytest.raises(ConnectionClosed) as closed:
            one.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_a_client_that_reads_nothing_is_dropped(
    start_server: Any, wait_until: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where its audio waits for the model, and the model for nobody."""
    monkeypatch.setattr("app.recognition.live.BUFFER", 16.0)
    running = start_server(recognizer="ear", recognition_gate=False, stall_seconds=0.3)

    class Deaf:
        def __init__(self) -> None:
            turns = {"session": {"audio": {"input": {"turn_detection": None, "transcription": {"prompt": "gated"}}}}}
            audio = base64.b64encode(pcm(10)).decode()
            events = [{"type": "session.update"} | turns]
            for _ in range(9):
                events += [{"type": "input_audio_buffer.append", "audio": audio}, {"type": "input_audio_buffer.commit"}]
            self.events = iter(events)
            self.sent = 0

        async def receive(self) -> dict[str, Any]:
            event = next(self.events, None)
            if event is None:
                await asyncio.sleep(60)
            return {"type": "websocket.receive", "text": json.dumps(event)}

        async def send_text(self, data: str) -> None:
            self.sent += 1
            if self.sent > 2:
                await asyncio.sleep(60)

        async def send_bytes(self, data: bytes) -> None:
            raise AssertionError

        async def close(self, code: int = 1000, reason: str | None = None) -> None: ...

    tasks: list[asyncio.Task[None]] = []

    def serve() -> None:
        socket = TranscriptionSocket(Deaf(), running.services, TranscriptionConfig())
        tasks.append(asyncio.get_running_loop().create_task(socket.serve()))

    running.call(serve)
    assert wait_until(tasks[0].done, 10)
    assert tasks[0].exception() is None
    assert wait_until(lambda: running.services.admission.active == 0)


def test_client_secrets(tmp_path: Path, start_server: Any) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text(f'someone = "{KEY}"\n')
    running = start_server(recognizer="ear", keys_file=keys)
    path = running.url + "/v1/realtime/client_secrets"
    wanted = {"type": "transcription", "audio": {"input": {"transcription": {"language": "de"}}}}
    assert httpx.post(path, json={"session": wanted}).status_code == 401
    headers = {"authorization": f"Bearer {KEY}"}
    found = httpx.post(path, json={"session": wanted, "expires_after": {"seconds": 60}}, headers=headers)
    assert found.status_code == 200, found.text
    body = found.json()
    assert body["value"].startswith("ek_")
    assert 0 < body["expires_at"] - time.time() <= 61
    assert body["session"]["audio"]["input"]["transcription"]["language"] == "de"
    secret = {"authorization": f"Bearer {body['value']}"}
    with session(running, "", additional_headers=secret) as one:
        assert one.next()["session"]["audio"]["input"]["transcription"]["language"] == "de"
    protocols: Any = ["realtime", f"openai-insecure-api-key.{body['value']}"]
    with session(running, "", subprotocols=protocols) as one:
        assert one.socket.subprotocol == "realtime"
        assert one.next()["type"] == "session.created"
    # It opens these sockets alone.
    assert httpx.get(running.url + "/v1/models", headers=secret).status_code == 401
    assert httpx.post(path, json={}, headers=secret).status_code == 401
    for broken in (body["value"][:-40] + "A" * 40, "ek_", "ek_" + "A" * 60, body["value"].swapcase()):
        bearer = {"authorization": f"Bearer {broken}"}
        with pytest.raises(InvalidStatus), session(running, "", additional_headers=bearer):
            pass
    # The older protocol's, which tells its errors alike.
    path_of_sessions = running.url + "/v1/realtime/transcription_sessions"
    older = httpx.post(path_of_sessions, json={"input_audio_format": "g711_ulaw"}, headers=headers).json()
    assert (older["object"], older["input_audio_format"]) == ("realtime.transcription_session", "g711_ulaw")
    assert 0 < older["client_secret"]["expires_at"] - time.time() <= 61
    secret = {"authorization": f"Bearer {older['client_secret']['value']}"}
    with session(running, "", additional_headers=secret) as one:
        assert one.next()["session"]["audio"]["input"]["format"]["type"] == "audio/pcmu"
    for unknown in ({"input_audio_format": "mp3"}, {"turn_detection": 3}, {"client_secret": {"expires_at": 3}}):
        assert httpx.post(path_of_sessions, json=unknown, headers=headers).status_code == 400
    for wrong in ({"session": {"type": "speech"}}, {"expires_after": {"seconds": 5}}, {"session": 3}):
        assert httpx.post(path, json=wrong, headers=headers).status_code == 400
    long = {"audio": {"input": {"transcription": {"prompt": random.Random(0).randbytes(4_000).hex()}}}}
    assert httpx.post(path, json={"session": long}, headers=headers).status_code == 400
