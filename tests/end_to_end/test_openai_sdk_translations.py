"""OpenAI's own SDK speaks to a server process and hears a translation; its models say what they are told to."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
import soxr
from openai.types.realtime import RealtimeTranslationServerEvent

from tests.clients import RATE
from tests.processes import serve_stand_ins

# The SDK's own way of connecting.
pytestmark = pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")
KEY = "a-key-of-the-tests"
SESSION = {"audio": {"input": {"transcription": {"model": "gpt-transcribe"}}, "output": {"language": "fr"}}}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a server process with the stand-ins, which wants a key."""
    folder = tmp_path_factory.mktemp("server")
    keys = folder / "keys.toml"
    keys.write_text(f'tests = "{KEY}"\n')
    keys.chmod(0o600)
    choices = {"NIGHTINGALE_RECOGNITION_MODEL": "ear", "NIGHTINGALE_KEYS_FILE": str(keys)}
    with serve_stand_ins(folder, **choices) as running:
        yield running.url


@pytest.fixture
def client(process: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=process + "/v1", api_key=KEY, max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def speech(spoken: np.ndarray) -> bytes:
    """Two spoken sentences and a pause, 16-bit samples at RATE."""
    pcm = np.pad(soxr.resample(spoken, 16_000, RATE), (0, RATE))
    return (pcm * 32_767).astype("<i2").tobytes()


def pieces(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events that append `data` in frames of 200 ms."""
    size = RATE // 5 * 2
    for start in range(0, len(data), size):
        audio = base64.b64encode(data[start : start + size]).decode()
        yield {"type": "session.input_audio_buffer.append", "audio": audio}


def check(events: list[RealtimeTranslationServerEvent]) -> None:
    """Check the events of one session that heard `speech`."""
    kinds = [event.type for event in events]
    assert kinds[:2] == ["session.created", "session.updated"]
    assert kinds[-1] == "session.closed"
    assert "error" not in kinds
    source = "".join(event.delta for event in events if event.type == "session.input_transcript.delta")
    target = "".join(event.delta for event in events if event.type == "session.output_transcript.delta")
    assert source.startswith("en second 0.")
    assert target == source.upper()
    audio = [event for event in events if event.type == "session.output_audio.delta"]
    assert {(event.sample_rate, event.channels, event.format) for event in audio} == {(RATE, 1, "pcm16")}
    samples = np.frombuffer(b"".join(base64.b64decode(event.delta) for event in audio), "<i2")
    assert samples.size > RATE and np.abs(samples).max() > 1_000
    for kind in ("input_transcript", "output_transcript", "output_audio"):
        times = [event.elapsed_ms for event in events if event.type == f"session.{kind}.delta"]
        assert times == sorted(times)
        assert all(time % 200 == 0 for time in times)
    assert len({event.event_id for event in events}) == len(events)


def interpreted(on: Any, speech: bytes, session: dict[str, Any]) -> list[Any]:
    """Return the events of a session that is configured, hears `speech` and is closed."""
    on.send({"type": "session.update", "session": session})
    events = closed(on, speech)
    check(events)
    return events


def closed(on: Any, speech: bytes) -> list[Any]:
    """Return the events up to the end of a session that hears `speech` and is closed."""
    for event in (*pieces(speech), {"type": "session.close"}):
        on.send(event)
    events = [on.recv()]
    while events[-1].type != "session.closed":
        events.append(on.recv())
    return events


def test_a_session_is_configured_translated_and_closed(client: openai.OpenAI, speech: bytes) -> None:
    with client.realtime.translations.connect(
        model="gpt-realtime-translate", extra_query={"translate_model": "shout"}
    ) as on:
        created, updated, *_ = interpreted(on, speech, SESSION)
    assert (created.session.type, created.session.model) == ("translation", "gpt-realtime-translate")
    assert created.session.id.startswith("sess_")
    assert created.session.expires_at > time.time()
    assert updated.session.audio.output.language == "fr"


def test_the_helper_of_the_sdk_closes_gracefully(process: str, speech: bytes) -> None:
    from openai.lib.realtime_translation import AsyncTranslationSession

    async def run() -> list[Any]:
        events = []
        async with openai.AsyncOpenAI(base_url=process + "/v1", api_key=KEY, max_retries=0) as client:
            session = AsyncTranslationSession(client.realtime.translations, model="shout")
            async with session as connection:
                await connection.send({"type": "session.update", "session": SESSION})
                for event in pieces(speech):
                    await connection.send(event)
                await connection.send({"type": "session.close"})
                while not events or events[-1].type != "session.closed":
                    events.append(await connection.recv())
                with pytest.raises(openai.OpenAIError):
                    await connection.send({"type": "session.input_audio_buffer.append", "audio": ""})
        return events

    check(asyncio.run(run()))


def test_a_client_secret_opens_a_session_of_its_configuration(
    client: openai.OpenAI, process: str, speech: bytes
) -> None:
    made = client.realtime.translations.client_secrets.create(
        session={"model": "shout", **SESSION}, expires_after={"anchor": "created_at", "seconds": 60}
    )
    assert made.value.startswith("ek_")
    assert 0 < made.expires_at - time.time() <= 61
    assert (made.session.type, made.session.model) == ("translation", "shout")
    page = openai.OpenAI(base_url=process + "/v1", api_key=made.value, max_retries=0)
    with page, page.realtime.translations.connect(model="shout") as on:
        created, updated, *_ = interpreted(on, speech, {"audio": {"output": {"language": "es"}}})
    assert created.session.audio.output.language == "fr"
    assert updated.session.audio.output.language == "es"
    assert updated.session.audio.input.transcription is not None


def test_a_secret_of_another_kind_opens_nothing(client: openai.OpenAI, process: str) -> None:
    other = client.realtime.client_secrets.create(session={"type": "transcription"})
    page = openai.OpenAI(base_url=process + "/v1", api_key=other.value, max_retries=0)
    with page, pytest.raises(Exception, match="403"), page.realtime.translations.connect(model="shout"):
        pass


def test_errors_keep_the_session_open(client: openai.OpenAI, speech: bytes) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"type": "response.create"}, "session.update, session.input_audio_buffer.append, session.close"),
        ({"type": "session.update", "session": {"audio": {"output": {"language": "Klingon"}}}}, "Klingon"),
        ({"type": "session.update", "session": {"audio": {"output": {"voice": "x"}}}}, "session.audio.output.voice"),
        ({"type": "session.update", "session": {"model": "other"}}, "cannot be changed"),
        ({"type": "session.input_audio_buffer.append", "audio": "***"}, "Base64"),
    ]
    with client.realtime.translations.connect(model="shout") as on:
        assert on.recv().type == "session.created"
        for number, (event, part) in enumerate(wrong):
            on.send({**event, "event_id": f"mine_{number}"})  # type: ignore[misc]
            error = on.recv()
            assert error.type == "error"
            assert part in error.error.message
            assert error.error.event_id == f"mine_{number}"
        on.send({"type": "session.close"})
        assert on.recv().type == "session.closed"


def test_a_session_without_transcription_has_no_source_text(client: openai.OpenAI, speech: bytes) -> None:
    with client.realtime.translations.connect(model="shout") as on:
        kinds = [event.type for event in closed(on, speech)]
    assert "session.input_transcript.delta" not in kinds
    # English is the default language, which is spoken already.
    assert "session.output_transcript.delta" in kinds


@pytest.mark.parametrize("query", [{"model": "nothing"}, {"model": "absent-translator"}])
def test_a_model_that_is_not_there_is_said(client: openai.OpenAI, query: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"404|told"), client.realtime.translations.connect(**query) as on:
        event = on.recv()
        assert event.type == "error"
        assert "absent-translator" in event.error.message
        raise AssertionError("told")
