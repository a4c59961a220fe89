"""From tokens to text: characters are whole, reasoning and calls are told apart, and stop texts end a message."""

from __future__ import annotations

from typing import Any

import pytest

from models.contract import GeneratedText, GenerationRequest, ToolCall
from models.llm.batch import GeneratedToken
from models.llm.library import import_module
from models.llm.text import Writer
from tests.models.llm.tiny import write_model


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_model(tmp_path_factory.mktemp("llm") / "tiny")
    return import_module("utils").load_tokenizer(folder, {"trust_remote_code": False})


def written(tokenizer: Any, text: str, *, end: str = "stop", prompt: str = "x", **options: Any) -> list[GeneratedText]:
    """The items for a text that a model writes, a token each time."""
    read = tokenizer.encode(prompt, add_special_tokens=False)
    request = GenerationRequest(**{"prompt": tuple(read), "max_tokens": 1_000} | options)
    writer = Writer(tokenizer, request, 0)
    ids = tokenizer.encode(text, add_special_tokens=False)
    tokens = [GeneratedToken(number, None, None) for number in ids]
    if end == "stop":
        tokens.append(GeneratedToken(256, None, "stop"))
    else:
        tokens[-1].finish_reason = "length"
    found: list[GeneratedText] = []
    for token in tokens:
        found += writer.write(token)
        if found and found[-1].finish_reason is not None:
            break
    return found


def parts(found: list[GeneratedText]) -> tuple[str, str]:
    return tuple("".join(item.text for item in found if item.kind == kind) for kind in ("reasoning", "text"))


def test_characters_are_whole(tokenizer: Any) -> None:
    found = written(tokenizer, "Zürich: 日本 🎧!")
    assert parts(found) == ("", "Zürich: 日本 🎧!")
    assert not any("\ufffd" in item.text for item in found)
    assert found[-1].finish_reason == "stop"
    assert sum(item.tokens for item in found) == len("Zürich: 日本 🎧!".encode()) + 1


def test_reasoning_is_no_text(tokenizer: Any) -> None:
    assert parts(written(tokenizer, "<think>Well.</think>Yes.")) == ("Well.", "Yes.")
    assert parts(written(tokenizer, "Well.</think>Yes.", prompt="<|turn|>assistant\n<think>")) == ("Well.", "Yes.")
    assert parts(written(tokenizer, "Yes.", prompt="<|turn|>assistant\n<think></think>")) == ("", "Yes.")


def test_calls_of_tools_are_no_text(tokenizer: Any) -> None:
    call = '<tool_call>{"name": "clock", "arguments": {"city": "Zürich"}}</tool_call>'
    found = written(tokenizer, f"Let me see. {call}{call}")
    assert (*parts(found), found[-1].finish_reason) == ("", "Let me see. ", "tool_calls")
    assert found[-1].tool_calls == (ToolCall("clock", '{"city": "Zürich"}'),) * 2


def test_a_call_that_cannot_be_read_is_text(tokenizer: Any) -> None:
    found = written(tokenizer, "<tool_call>{'name': </tool_call>")
    assert (*parts(found), found[-1].finish_reason) == ("", "<tool_call>{'name': </tool_call>", "stop")


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (("three",), "One two "),
        (("e",), "On"),
        (("four", "two"), "One "),
        (("threes",), "One two three"),
        ((), "One two three"),
    ],
)
def test_a_stop_text_ends_the_message(tokenizer: Any, stop: tuple[str, ...], expected: str) -> None:
    for end in ("stop", "length"):
        found = written(tokenizer, "One two three", end=end, stop=stop)
        assert parts(found) == ("", expected)
        assert found[-1].finish_reason == ("stop" if expected != "One two three" else end)
        assert [item.finish_reason for item in found[:-1]] == [None] * (len(found) - 1)


def test_what_may_be_the_beginning_of_a_sign_is_held_back(tokenizer: Any) -> None:
    assert parts(written(tokenizer, "a < b", end="length", stop=("< c",))) == ("", "a < b")
