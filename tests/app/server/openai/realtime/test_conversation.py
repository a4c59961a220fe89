"""Conversation: whatever a client and its answers do, each response ends once, and nothing of it follows."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import OverloadedError
from app.generation.options import TokenCounts
from app.server.openai.realtime.conversation import (
    MAX_ITEMS,
    BeginReply,
    Conversation,
    Effect,
    SendEvent,
    StopReply,
)
from app.server.openai.realtime.conversation_config import ConversationConfig
from app.server.openai.realtime.conversation_item import ConversationError, text_before
from app.server.openai.realtime.events import new_id
from app.speech.sentence import Word
from models.contract import ToolCall
from tests.app.server.openai.realtime.sessions import EVENT

IDLE = {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5_000}}}}
TEXT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello?"}]}

LONG = TEXT | {"content": [{"type": "input_text", "text": "x" * 100_000}] * 6}


def talk(**fields: Any) -> Conversation:
    return Conversation(ConversationConfig().changed(fields))


def sent(effects: list[Effect]) -> list[str]:
    return [effect.kind for effect in effects if isinstance(effect, SendEvent)]


def begun(effects: list[Effect]) -> Any:
    (begin,) = [effect for effect in effects if isinstance(effect, BeginReply)]
    return begin.response


def fields(effects: list[Effect], kind: str) -> dict[str, Any]:
    (found,) = [effect for effect in effects if isinstance(effect, SendEvent) and effect.kind == kind]
    return found.fields


def words(text: str) -> tuple[Word, ...]:
    return tuple(Word(word, at * 0.5, at * 0.5 + 0.4, 0, 0) for at, word in enumerate(text.split()))


def answer(session: Conversation, text: str, now: float, seconds: float = 2.0, *, ends: bool = True) -> Any:
    """Begin a response, in which `text` is written and spoken at `now` and takes so long; return it."""
    response = begun(session.create_response(None))
    session.write(response.id, text, now)
    session.speak(response.id, b"\0\0", seconds, words(text), now)
    if ends:
        session.end(response.id, "stop", (), TokenCounts(1))
    return response


def check(effects: list[Effect]) -> None:
    """Every event has the fields that OpenAI's SDK requires."""
    for effect in effects:
        if isinstance(effect, SendEvent):
            EVENT.validate_python({"type": effect.kind, "event_id": new_id("event"), **effect.fields})


def test_a_text_is_answered_in_order() -> None:
    session = talk(instructions="Be brief.")
    assert sent(session.create_item(TEXT, None)) == ["conversation.item.added", "conversation.item.done"]
    effects = session.create_response({"metadata": {"topic": "greeting"}})
    response = begun(effects)
    assert response.messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"})
    effects += session.write(response.id, "Good day. ", 1.0)
    effects += session.speak(response.id, b"\0\0", 1.5, words("Good day."), 1.0)
    effects += session.end(response.id, "stop", (), TokenCounts(9, 2, 4))
    check(effects)
    assert sent(effects) == [
        "response.created", "response.output_item.added", "conversation.item.added", "response.content_part.added",
        "response.output_audio_transcript.delta", "response.output_audio.delta", "response.output_audio.done",
        "response.output_audio_transcript.done", "response.content_part.done", "conversation.item.done",
        "response.output_item.done", "response.done",
    ]  # fmt: skip
    done = fields(effects, "response.done")["response"]
    assert (done["status"], done["metadata"], done["usage"]["total_tokens"]) == ("completed", {"topic": "greeting"}, 13)
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": "Good day. "}]
    # The model reads the answer in the next turn.
    assert begun(session.create_response(None)).messages[-1] == {"role": "assistant", "content": "Good day. "}


def test_a_spoken_turn_is_answered_once_its_text_is_there() -> None:
    session = talk()
    assert session.begin_turn(0.0) == []
    assert sent(session.end_turn("item_1")) == ["conversation.item.added", "conversation.item.done"]
    response = begun(session.read_turn("item_1", "What time is it?", 0.0))
    assert response.messages == ({"role": "user", "content": "What time is it?"},)
    # Noise is no turn, and a session that answers itself does not either.
    session.end(response.id, "stop", (), TokenCounts(1))
    session.end_turn("item_2")
    assert session.read_turn("item_2", " ", 0.0) == []
    quiet = talk(audio={"input": {"turn_detection": {"type": "server_vad", "create_response": False}}})
    quiet.end_turn("item_1")
    assert quiet.read_turn("item_1", "Hello.", 0.0) == []


def test_an_answer_that_is_asked_for_early_waits_for_the_text() -> None:
    session = talk(audio={"input": {"turn_detection": None}})
    session.end_turn("item_1")
    effects = session.create_response(None)
    assert sent(effects) == ["response.created"]
    assert not [effect for effect in effects if isinstance(effect, BeginReply)]
    assert begun(session.read_turn("item_1", "Now.", 0.0)).messages == ({"role": "user", "content": "Now."},)


def test_words_end_an_answer_where_a_voice_does_not() -> None:
    session = Conversation(ConversationConfig(), words_interrupt=True)
    session.create_item(TEXT, None)
    answer(session, "The tallest mountain is Everest, in Nepal. ", 10.0, 3.5, ends=False)
    for number, heard in enumerate(("", "Mm-hmm.", "mountain is ever rest")):
        assert session.begin_turn(11.0) == []
        assert session.hear("mountain is", 11.3) == []
        session.end_turn(f"turn_{number}")
        assert sent(session.read_turn(f"turn_{number}", heard, 11.6)) == ["conversation.item.deleted"]
    session.begin_turn(11.8)
    effects = session.hear("no wait", 12.1)
    check(effects)
    assert isinstance(effects[0], StopReply)
    assert fields(effects, "conversation.item.truncated")["audio_end_ms"] == 2_100
    session.end_turn("turn_9")
    messages = begun(session.read_turn("turn_9", "No, wait.", 12.6)).messages
    assert messages[1:] == (
        {"role": "assistant", "content": "The tallest mountain is Everest,"},
        {"role": "user", "content": "No, wait."},
    )


def test_a_voice_ends_the_answer_and_it_is_cut_to_what_was_heard() -> None:
    session = talk()
    session.create_item(TEXT, None)
    response = answer(session, "One two three four. ", 10.0, ends=False)
    effects = session.begin_turn(10.8)
    check(effects)
    assert isinstance(effects[0], StopReply)
    done = fields(effects, "response.done")["response"]
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert fields(effects, "response.output_item.done")["item"]["status"] == "incomplete"
    assert session.write(response.id, "five", 11.0) == []
    assert session.end(response.id, "stop", (), TokenCounts(1)) == []
    messages = begun(session.create_response(None)).messages
    assert messages[-1] == {"role": "assistant", "content": "One two"}


def test_what_still_plays_when_somebody_speaks_is_cut_too() -> None:
    session = talk()
    answer(session, "One two three four.", 10.0)
    assert session.begin_turn(10.3) == []
    assert begun(session.create_response(None)).messages[-1]["content"] == "One"
    stays = talk(audio={"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}})
    response = begun(stays.create_response(None))
    assert stays.begin_turn(0.0) == []
    assert stays.active is response


def test_silence_after_an_answer_was_played_is_a_turn() -> None:
    session = talk(**IDLE)
    answer(session, "Are you there?", 10.0)
    assert session.timeout_at == 17.0
    assert [session.plays(now) for now in (9.9, 11.9, 12.0)] == [True, True, False]
    assert session.time_out(16.9, 1_000) == []
    effects = session.time_out(17.0, 9_000)
    check(effects)
    assert sent(effects)[:2] == ["input_audio_buffer.timeout_triggered", "input_audio_buffer.committed"]
    assert fields(effects, "input_audio_buffer.timeout_triggered")["audio_start_ms"] == 4_000
    assert begun(effects).messages[-1] == {"role": "user", "content": "…"}
    # A voice ends the wait, and no answer in text or to a call begins one at once.
    session.end(begun(effects).id, "stop", (), TokenCounts(1))
    assert session.timeout_at == math.inf
    session.write(begun(session.create_response(None)).id, "Well?", 30.0)
    assert session.begin_turn(31.0)
    assert session.time_out(99.0, 0) == []


def test_a_long_session_forgets_its_oldest_items() -> None:
    session = talk()
    for number in range(MAX_ITEMS + 10):
        check(session.end_turn(f"turn_{number}")[-1:])
        session.read_turn(f"turn_{number}", "", 0.0)
    assert len(session._order) == len(session._items) == MAX_ITEMS
    with pytest.raises(ConversationError, match="delete some"):
        session.create_item(TEXT, None)
    with pytest.raises(ConversationError, match="no item"):
        session.retrieve_item("turn_9")


def test_truncate_cuts_by_words() -> None:
    session = talk()
    item_id = answer(session, "One two three.", 0.0, 1.5).output[0].id
    effects = session.truncate_item(item_id, 600)
    check(effects)
    assert sent(effects) == ["conversation.item.truncated"]
    shown = fields(session.retrieve_item(item_id), "conversation.item.retrieved")["item"]
    assert shown["content"][0]["transcript"] == "One two"
    assert text_before("One two three.", list(words("One two three.")), 0.0) == ""
    assert sent(session.truncate_item(item_id, 10_000_000)) == ["conversation.item.truncated"]


def test_calls_of_tools_are_items_that_the_client_answers() -> None:
    tool = {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}}
    session = talk(tools=[tool])
    response = begun(session.create_response(None))
    effects = session.write(response.id, "Let me see. ", 0.0)
    effects += session.end(response.id, "tool_calls", (ToolCall("clock", '{"a": 1}'),), TokenCounts(1))
    check(effects)
    added = [e.fields["item"] for e in effects if isinstance(e, SendEvent) and e.kind == "response.output_item.added"]
    assert [item["type"] for item in added] == ["message", "function_call"]
    assert {item["status"] for item in added} == {"in_progress"}
    call = fields(effects, "response.function_call_arguments.done")
    assert (call["name"], call["arguments"]) == ("clock", '{"a": 1}')
    called = call["call_id"]
    session.create_item({"type": "function_call_output", "call_id": called, "output": "noon"}, None)
    read = {"id": called, "type": "function", "function": {"name": "clock", "arguments": '{"a": 1}'}}
    assert begun(session.create_response(None)).messages[-2:] == (
        {"role": "assistant", "content": "", "tool_calls": [read]},
        {"role": "tool", "content": "noon", "tool_call_id": called},
    )


def test_a_response_beside_the_conversation_adds_nothing_to_it() -> None:
    session = talk()
    session.create_item(TEXT, None)
    main = begun(session.create_response(None))
    asked = {"conversation": "none", "output_modalities": ["text"], "input": [TEXT], "instructions": "Sort it."}
    side = begun(session.create_response(asked))
    effects = session.write(side.id, "greeting", 0.0) + session.end(side.id, "stop", (), TokenCounts(1))
    check(effects)
    assert not [kind for kind in sent(effects) if kind.startswith("conversation.")]
    assert fields(effects, "response.done")["response"]["conversation_id"] is None
    assert session.active is main
    with pytest.raises(ConversationError, match="already has an active response"):
        session.create_response(None)


@pytest.mark.parametrize(
    ("do", "code"),
    [
        (lambda s: s.cancel_response(None), "response_cancel_not_active"),
        (lambda s: s.delete_item("nobody"), "item_delete_invalid_item_id"),
        (lambda s: s.retrieve_item(5), "item_retrieve_invalid_item_id"),
        (lambda s: s.truncate_item("nobody", 0), "item_truncate_invalid_item_id"),
        (lambda s: s.create_item(TEXT, "nobody"), "invalid_value"),
        (lambda s: s.create_item([], None), "invalid_value"),
        (lambda s: s.create_item({"type": "message", "role": "user"}, None), "missing_required_parameter"),
        (lambda s: s.create_item(TEXT | {"content": [{"type": "input_image"}]}, None), "invalid_value"),
        (lambda s: s.create_item(TEXT | {"content": [{"type": "input_text", "text": 1}]}, None), "invalid_value"),
        (lambda s: s.create_item({"type": "function_call_output"}, None), "invalid_value"),
        (lambda s: [s.create_item(TEXT | {"id": "a"}, None), s.create_item(TEXT | {"id": "a"}, None)],
         "item_create_duplicate_item_id"),
        (lambda s: s.create_item(TEXT, ["a"]), "invalid_value"),
        (lambda s: [s.create_item(LONG, None), s.create_item(LONG, None)], "invalid_value"),
        (lambda s: [s.create_item(TEXT | {"id": "a", "role": "assistant"}, None), s.truncate_item("a", 10**400)],
         "invalid_value"),
        (lambda s: s.create_response({"colour": "red"}), "unknown_parameter"),
        (lambda s: s.create_response({"metadata": {"a": 1}}), "invalid_value"),
        (lambda s: s.create_response("now"), "invalid_value"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_has_openai_s_code(do: Any, code: str) -> None:
    with pytest.raises(ConversationError) as refused:
        do(talk())
    assert refused.value.body()["code"] == code


ACTIONS = ("create", "side", "cancel", "turn", "stop", "read", "write", "speak", "end", "call", "fail", "truncate",
           "delete", "silence", "hear", "drop")  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3)), max_size=40), st.booleans())
def test_each_response_ends_once_and_nothing_follows(actions: list[tuple[str, int]], echo: bool) -> None:  # noqa: C901
    session, known, turns, log = Conversation(talk(**IDLE).config, words_interrupt=echo), [], 0, []

    def run(action: str, which: int) -> list[Effect]:
        nonlocal turns
        response = known[which % len(known)] if known else "resp_none"
        items = session._order
        item = items[which % len(items)] if items else "nobody"
        match action:
            case "create" | "side":
                return session.create_response({"conversation": "none"} if action == "side" else None)
            case "cancel":
                return session.cancel_response(response if which else None)
            case "turn" | "silence":
                now = float(len(log))
                return session.begin_turn(now) if action == "turn" else session.time_out(now + 10 * which, 0)
            case "hear":
                return session.hear(("mm", "Yes.", "some text", "")[which], float(len(log)))
            case "stop":
                turns += 1
                return session.end_turn(f"turn_{turns}")
            case "read":
                text = ("", "Yes.", "some text", "mm")[which]
                return session.read_turn(f"turn_{turns - which}", text, float(len(log)))
            case "write":
                return session.write(response, "Some text. ", 0.0)
            case "speak":
                return session.speak(response, b"\0\0", 0.5, words("Some text."), float(len(log)))
            case "end" | "call":
                calls = (ToolCall("f", "{}"),) if action == "call" else ()
                return session.end(response, "length" if which == 2 else "stop", calls, TokenCounts(1))
            case "fail":
                return session.fail(response, OverloadedError("busy"))
            case "truncate" | "delete":
                return session.delete_item(item) if action == "delete" else session.truncate_item(item, which * 300)
            case _:
                return session.drop()

    for action, which in actions:
        try:
            effects = run(action, which)
        except ConversationError:
            continue
        check(effects)
        log += effects
        if "response.created" in sent(effects):
            known.append(fields(effects, "response.created")["response"]["id"])
    log += session.drop()
    for response in known:
        of_it = [e for e in log if isinstance(e, SendEvent) and _response_of(e) == response]
        assert (of_it[0].kind, of_it[-1].kind) == ("response.created", "response.done")
        assert sent(of_it).count("response.done") == 1
        opened = [e.fields["item"]["id"] for e in of_it if e.kind == "response.output_item.added"]
        closed = [e.fields["item"]["id"] for e in of_it if e.kind == "response.output_item.done"]
        assert opened == closed


def _response_of(event: SendEvent) -> str | None:
    return event.fields.get("response_id") or event.fields.get("response", {}).get("id")
