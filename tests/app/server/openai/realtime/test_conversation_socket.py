"""`WS /v1/realtime`, type `realtime`: what a stand-in hears, a stand-in answers in capitals, and a tone speaks."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from websockets.exceptions import InvalidStatus

from tests.app.server.openai.realtime import sessions

NO_TURNS = {"audio": {"input": {"turn_detection": None}}}


class Session(sessions.Session):
    def say(self, text: str, **response: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        self.send("response.create", response=response)

    def next(self) -> dict[str, Any]:
        found = super().next()
        sessions.EVENT.validate_python(found)
        return found


@contextmanager
def session(running: Any, *, headers: dict[str, str] | None = None, **config: Any) -> Iterator[Session]:
    with sessions.opened(running, "?model=gpt-realtime", additional_headers=headers) as socket:
        talk = Session(socket)
        assert talk.until("session.created")[-1]["session"]["type"] == "realtime"
        if config:
            talk.send("session.update", session={"type": "realtime", **config})
            talk.until("session.updated")
        yield talk


def deltas(events: list[dict[str, Any]], kind: str) -> list[str]:
    return [event["delta"] for event in events if event["type"] == f"response.{kind}.delta"]


def test_a_text_is_answered_aloud(hearing: Any) -> None:
    with session(hearing, instructions="Be brief.") as talk:
        talk.say("good morning. and good night.")
        events = talk.until("response.done")
    assert "".join(deltas(events, "output_audio_transcript")).split() == ["GOOD", "MORNING.", "AND", "GOOD", "NIGHT."]
    audio = b"".join(map(base64.b64decode, deltas(events, "output_audio")))
    pcm = np.frombuffer(audio, "<i2")
    assert pcm.size > 12_000
    assert 10_000 < np.abs(pcm).max() < 20_000
    assert events[-1]["response"]["status"] == "completed"
    assert hearing.scribe.conversations[-1] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "good morning. and good night."},
    ]


def test_openai_s_sdk_holds_a_conversation_in_text(hearing: Any) -> None:
    async def talk() -> str:
        client = openai.AsyncOpenAI(base_url=f"{hearing.url}/v1", api_key="none")
        async with client.realtime.connect(model="gpt-realtime") as connection:
            await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
            content = [{"type": "input_text", "text": "how are you"}]
            await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
            await connection.response.create()
            async for event in connection:
                if event.type == "response.output_text.done":
                    return event.text
        raise AssertionError("there was no text")

    assert asyncio.run(talk()) == "HOW ARE YOU "


def test_speech_is_answered(hearing: Any, spoken: np.ndarray) -> None:
    """The stand-in hears three words in each second; the client ends the turn and asks at once."""
    with session(hearing, **NO_TURNS) as talk:
        talk.append(bytes(72_000))
        talk.send("input_audio_buffer.commit")
        talk.send("response.create", response={"output_modalities": ["text"]})
        events = talk.until("response.done")
    kinds = [event["type"] for event in events]
    assert kinds.index("input_audio_buffer.committed") < kinds.index("conversation.item.added")
    (heard,) = hearing.scribe.conversations[-1]
    assert heard == {"role": "user", "content": "en second 0. en second 1."}
    assert "".join(deltas(events, "output_text")) == "EN SECOND 0. EN SECOND 1. "
    # Nobody asked for the text of the turn.
    assert not [kind for kind in kinds if "input_audio_transcription" in kind]


def test_a_call_of_a_tool_goes_to_the_client(hearing: Any) -> None:
    tool = {"type": "function", "name": "clock", "description": "tells the time", "parameters": {"type": "object"}}
    with session(hearing, tools=[tool], output_modalities=["text"]) as talk:
        talk.say("please call")
        events = talk.until("response.done")
        call = next(event for event in events if event["type"] == "response.function_call_arguments.done")
        assert (call["name"], json.loads(call["arguments"])) == ("clock", {"city": "Zürich"})
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "it is noon"}
        talk.send("conversation.item.create", item=output)
        talk.send("response.create")
        assert "".join(deltas(talk.until("response.done"), "output_text")) == "IT IS NOON "
    assert hearing.scribe.requests[-1].tools[0]["function"]["name"] == "clock"


def test_who_cancels_gets_no_more(hearing: Any, wait_until: Any) -> None:
    with session(hearing) as talk:
        talk.say("one. gated two.")
        talk.until("response.created")
        assert wait_until(lambda: hearing.scribe.requests)
        talk.send("response.cancel")
        events = talk.until("response.done")
        assert events[-1]["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        assert wait_until(lambda: hearing.scribe.closed)
        talk.send("response.cancel")
        assert talk.next()["error"]["code"] == "response_cancel_not_active"
        talk.say("three", output_modalities=["text"])
        assert "".join(deltas(talk.until("response.done"), "output_text")) == "THREE "


def test_a_model_that_fails_ends_the_answer_and_not_the_session(hearing: Any) -> None:
    with session(hearing, output_modalities=["text"]) as talk:
        talk.say("broken")
        done = talk.until("response.done")[-1]["response"]
        assert (done["status"], done["status_details"]["error"]["code"]) == ("failed", "model_failed")
        talk.say("well", input=[])
        assert talk.until("response.done")[-1]["response"]["status"] == "failed"  # nothing to read
        talk.say("well")
        assert talk.until("response.done")[-1]["response"]["status"] == "completed"


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("session.update", {"session": {"type": "transcription"}}, "type of a session"),
        ("session.update", {"session": {"prompt": {"id": "p"}}}, "OpenAI's"),
        ("session.update", {"session": {"audio": {"output": {"voice": "nobody"}}}}, "nobody"),
        ("session.update", {"session": {"output_modalities": ["audio", "text"]}}, "at most 1"),
        ("session.update", {"session": {"tools": [{"type": "mcp", "server_label": "x"}]}}, "function"),
        ("input_audio_buffer.commit", {}, "no audio to commit"),
        ("output_audio_buffer.clear", {}, "no event of a realtime session"),
        ("conversation.item.delete", {"item_id": "x"}, "no item 'x'"),
    ],
)
def test_an_error_leaves_the_session_open(hearing: Any, kind: str, fields: dict[str, Any], message: str) -> None:
    with session(hearing) as talk:
        talk.send(kind, **fields, event_id="mine")
        told = talk.next()
        assert (told["type"], told["error"]["event_id"]) == ("error", "mine")
        assert message in told["error"]["message"]
        talk.send("session.update", session={"type": "realtime", "model": "gpt-realtime", "instructions": "x"})
        assert talk.next()["session"]["instructions"] == "x"


def test_what_a_model_reads_and_what_is_spoken_count_for_a_key(tmp_path: Path, start_server: Any) -> None:
    (tmp_path / "keys.toml").write_text(
        '[ann]\nkey = "0123456789abcdef0123456789abcdef"\ncharacters_per_minute = 100\n'
    )
    running = start_server(recognizer="ear", keys_file=str(tmp_path / "keys.toml"))
    with session(running, headers={"authorization": "Bearer 0123456789abcdef0123456789abcdef"}) as talk:
        talk.say("good night. " * 5)  # 60 read and some 40 spoken
        assert talk.until("response.done")[-1]["response"]["status"] in ("completed", "failed")
        talk.say("good night. " * 5)
        done = talk.until("response.done")[-1]["response"]
    assert done["status_details"]["error"]["code"] == "rate_limit_exceeded"


def test_a_secret_opens_the_session_that_it_is_for(hearing: Any) -> None:
    body = {"session": {"type": "realtime", "instructions": "Be kind.", "audio": {"output": {"voice": "silky"}}}}
    answer = httpx.post(f"{hearing.url}/v1/realtime/client_secrets", json=body).raise_for_status().json()
    assert answer["session"]["audio"]["output"]["voice"] == "silky"
    with sessions.opened(hearing, additional_headers={"Authorization": f"Bearer {answer['value']}"}) as socket:
        assert Session(socket).next()["session"]["instructions"] == "Be kind."


def test_without_a_language_model_the_handshake_says_how_to_get_one(hearing: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(hearing.catalog, "writer", None)
    with pytest.raises(InvalidStatus) as refused, session(hearing):
        pass
    assert refused.value.response.status_code == 503
    assert b"nightingale models import" in refused.value.response.body


def test_another_server_s_model_answers_and_may_fail(hearing: Any, start_server: Any) -> None:
    running = start_server(recognizer="ear", llm={"url": f"{hearing.url}/v1", "model": "gpt-4o"})
    with session(running) as talk:
        talk.say("broken")
        failed = talk.until("response.done")[-1]["response"]
        assert (failed["status"], failed["status_details"]["error"]["code"]) == ("failed", "language_server_error")
        talk.say("how are you")
        events = talk.until("response.done")
    assert "".join(deltas(events, "output_audio_transcript")).split() == ["HOW", "ARE", "YOU"]
    assert sum(map(len, deltas(events, "output_audio"))) > 10_000
