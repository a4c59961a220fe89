"""`POST /v1/chat/completions` by OpenAI's SDK, with a language model that answers in capitals."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import httpx
import openai
import pytest

CHAT = "/v1/chat/completions"


@pytest.fixture
def client(server: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def said(text: str, role: str = "user") -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def post(server: Any, **body: object) -> httpx.Response:
    return httpx.post(server.url + CHAT, json={"messages": said("hello there")} | body, timeout=60)


def streaming(server: Any, text: str) -> AbstractContextManager[httpx.Response]:
    return httpx.stream("POST", server.url + CHAT, json={"messages": said(text), "stream": True}, timeout=60)


def test_a_message_is_answered(server: Any, client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="scribe", messages=said("good morning to you"), max_tokens=3)
    assert (reply.object, reply.model) == ("chat.completion", "scribe")
    (choice,) = reply.choices
    message, usage = choice.message, reply.usage
    assert (message.role, message.content, message.tool_calls) == ("assistant", "GOOD MORNING TO ", None)
    assert choice.finish_reason == "length"
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (19, 3, 22)
    assert usage.prompt_tokens_details.cached_tokens == 2


def test_a_message_is_answered_as_it_is_written(server: Any, client: openai.OpenAI) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    events = list(client.chat.completions.create(model="gpt-4o", messages=said("good day"), **options))
    choices = [event.choices[0] for event in events[:-1]]
    told = [(choice.delta.content, choice.finish_reason) for choice in choices]
    assert (choices[0].delta.role, told) == ("assistant", [("", None), ("GOOD ", None), ("DAY ", "stop")])
    assert (events[-1].choices, events[-1].usage.completion_tokens) == ([], 2)
    assert len({event.id for event in events}) == 1
    assert post(server, stream=True).text.endswith("data: [DONE]\n\n")


def test_the_model_reads_the_conversation(server: Any, client: openai.OpenAI) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": '{"city": "Bern"}'}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "time?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
    ]
    client.chat.completions.create(model="scribe", messages=messages)
    read = call | {"function": {"name": "clock", "arguments": {"city": "Bern"}}}
    assert server.scribe.conversations[-1] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What time?"},
        {"role": "assistant", "content": "", "tool_calls": [read]},
        {"role": "tool", "content": "noon", "tool_call_id": "c1"},
    ]


def test_options_reach_the_model(server: Any) -> None:
    tool = {"type": "function", "function": {"name": "clock", "description": "tells the time"}}
    same = {"temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": -1}
    others = {"stop": "x", "logit_bias": {"5": 2}, "logprobs": True, "top_logprobs": 4, "tools": [tool]}
    response = post(server, max_completion_tokens=7, seed=3, user="me", **same, **others)
    assert response.status_code == 200, response.text
    (request,) = server.scribe.requests
    assert {name: getattr(request, name) for name in same} == same
    assert (request.max_tokens, request.stop, request.logit_bias, request.logprobs) == (7, ("x",), {5: 2}, 4)
    (given,) = request.tools
    assert given["function"]["name"] == "clock"
    assert response.headers["x-ignored"] == "parameter user, parameter seed"
    post(server, tools=[tool], tool_choice="none")
    assert server.scribe.requests[-1].tools == ()


def test_calls_reasoning_and_probabilities_are_told(server: Any, client: openai.OpenAI) -> None:
    asked: Any = {"model": "scribe", "messages": said("now call"), "reasoning_effort": "low"}
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=1)
    (choice,) = whole.choices
    assert (choice.finish_reason, choice.message.reasoning_content) == ("tool_calls", "Well.")
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name, call.id[:5]) == ("function", "clock", "call_")
    assert json.loads(call.function.arguments) == {"city": "Zürich"}
    (token,) = choice.logprobs.content
    assert (token.token, token.logprob, token.bytes) == ("NOW", -0.5, [78, 79, 87])
    assert [each.bytes for each in token.top_logprobs] == [[78, 79, 87]]
    assert whole.usage.completion_tokens_details.reasoning_tokens == 1
    choices = [event.choices[0] for event in client.chat.completions.create(**asked, stream=True)]
    assert [getattr(each.delta, "reasoning_content", None) for each in choices] == [None, "Well.", None, None]
    (call,) = choices[-1].delta.tool_calls
    assert (call.index, call.function.name, choices[-1].finish_reason) == (0, "clock", "tool_calls")


@pytest.mark.parametrize(
    ("change", "status", "message", "param"),
    [
        ({"messages": []}, 400, "at least 1", "messages"),
        ({"messages": said("x", "stranger")}, 400, "'system', 'developer', 'user', 'assistant' or 'tool'", "messages"),
        ({"messages": said("x" * 3_000)}, 400, "3000 characters; at most 2000", "messages"),
        ({"messages": said("x" * 600)}, 400, "600 tokens; at most 499", "messages"),
        ({"messages": said("refused")}, 400, "roles must alternate", None),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, 400, "'text'", None),
        ({"model": "nobody"}, 404, "nobody", "model"),
        ({"model": "tone"}, 400, "asked for is one that writes text: scribe", "model"),
        ({"tool_choice": "required"}, 400, "'auto' or 'none'", "tool_choice"),
        ({"temperature": 3}, 400, "less than or equal to 2", "temperature"),
        ({"n": 2}, 400, "less than or equal to 1", "n"),
        ({"max_tokens": 0}, 400, "greater than or equal to 1", "max_tokens"),
        ({"response_format": {"type": "json_object"}}, 400, "'text'", "response_format"),
        ({"top_logprobs": 3}, 400, "only with 'logprobs'", "top_logprobs"),
    ],
)
def test_what_cannot_be_served_is_said(
    server: Any, change: dict[str, Any], status: int, message: str, param: str | None
) -> None:
    for stream in (False, True):
        response = post(server, stream=stream, **change)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert message in error["message"]
        assert param is None or error["param"] == param


def test_a_model_that_fails_is_told(server: Any) -> None:
    response = post(server, messages=said("broken"))
    assert (response.status_code, response.json()["error"]["code"]) == (500, "model_failed")
    lines: list[str] = []
    # The answer breaks off after the error.
    with pytest.raises(httpx.RemoteProtocolError), streaming(server, "one broken") as streamed:
        lines.extend(streamed.iter_lines())
    assert streamed.status_code == 200
    assert '"code": "model_failed"' in lines[-2]
    assert post(server).status_code == 200


def test_who_leaves_stops_the_model(server: Any, leave: Any, wait_until: Any) -> None:
    body = {"messages": said("one gated two"), "stream": True}
    leave(server.url + CHAT, body, lambda: server.scribe.requests)
    assert wait_until(lambda: server.scribe.closed)
    assert wait_until(server.idle)


def test_speech_goes_before_the_text_of_others(server: Any) -> None:
    """A sentence is spoken while a message is being written."""
    with streaming(server, "one gated two") as streamed:
        lines = streamed.iter_lines()
        assert "ONE" in next(line for line in lines if "ONE" in line)
        spoken = httpx.post(server.url + "/v1/audio/speech", json={"input": "Hello."}, timeout=60)
        assert spoken.status_code == 200
        server.scribe.gate.set()
        assert "TWO" in next(line for line in lines if "TWO" in line)


def test_without_a_language_model_the_way_to_one_is_told(start_server: Any) -> None:
    response = post(start_server(writer=None))
    assert (response.status_code, response.json()["error"]["code"]) == (503, "model_not_installed")
    assert "nightingale models import" in response.json()["error"]["message"]


def test_tokens_are_counted(server: Any) -> None:
    before = server.count("nightingale_generation_tokens_total")
    post(server, messages=said("one two three"))
    # Thirteen of the prompt, of which two were known, and three words.
    assert server.count("nightingale_generation_tokens_total") - before == 14
