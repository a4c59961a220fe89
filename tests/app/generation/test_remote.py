"""A language model behind another server: this one's own Chat Completions, and servers that behave badly."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import LanguageServerError
from app.generation.options import GenerationOptions
from app.generation.remote import MAX_ANSWER_BYTES, MAX_LINE_BYTES, RemoteStream, make_client
from models.contract import GeneratedText
from models.timeline import Timeline
from tests.models.llm.tiny import write_model
from tests.processes import clean_environment, wait_until

TOOL = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}


async def write(url: str, text: str, model: str = "gpt-4o", **options: Any) -> tuple[list[GeneratedText], RemoteStream]:
    client = make_client(url, "secret")
    try:
        asked = GenerationOptions(messages=({"role": "user", "content": text},), **options)
        stream = RemoteStream(client, model, asked, Timeline(), "realtime")
        items = [item async for item in stream]
        stream.close("ok")
        return items, stream
    finally:
        await client.aclose()


def test_text_and_calls_of_tools_come_as_they_are_written(hearing: Any) -> None:
    items, stream = asyncio.run(write(f"{hearing.url}/v1", "how are you"))
    assert "".join(item.text for item in items) == "HOW ARE YOU "
    assert items[-1].finish_reason == "stop"
    assert (stream.usage.prompt, stream.usage.written) == (11, 3)
    tool = TOOL | {"half": "\ud800"}
    items, _ = asyncio.run(write(f"{hearing.url}/v1", "call", tools=(tool,)))
    assert items[-1].finish_reason == "tool_calls"
    (call,) = items[-1].tool_calls
    assert (call.name, json.loads(call.arguments)) == ("clock", {"city": "Zürich"})


@pytest.mark.parametrize(("text", "says"), [("refused", "answered 400: .*roles must alternate"), ("broken", "failed")])
def test_what_the_server_says_of_its_failure_is_in_the_error(hearing: Any, text: str, says: str) -> None:
    with pytest.raises(LanguageServerError, match=says):
        asyncio.run(write(f"{hearing.url}/v1", text))


async def test_who_stops_reading_stops_the_server(hearing: Any, wait_until: Callable[..., bool]) -> None:
    closed = hearing.scribe.closed
    hearing.scribe.requests.clear()
    hearing.scribe.gate.clear()
    task = asyncio.create_task(write(f"{hearing.url}/v1", "gated"))
    while not hearing.scribe.requests:  # noqa: ASYNC110  (another thread notes them)
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task})
    assert wait_until(lambda: hearing.scribe.closed > closed)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "broke off"),
        (b'data: {"choices": [{"delta": {"content": "Hel', "broke off"),
        (b"data: {]\n\n", "no JSON"),
        (b"data: 7\n\n", "failed: 7"),
        (b'data: {"error": {"message": "out of memory"}}\n\n', "out of memory"),
        (b"data: " + b"x" * (MAX_LINE_BYTES + 1), "longer than"),
        (b"data: [DONE]\n\n", "broke off"),
        (b'data: {"choices": [7, {"delta": null}], "usage": 3}\n\n', "broke off"),
        (b'data: {"choices": [{"delta": ["x"]}]}\n\n', "broke off"),
        (b'data: {"choices": [{"delta": {"tool_calls": [{"function": "x"}]}}]}\n\n', "broke off"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "no JSON"),
        (b'data: {"usage": {"prompt_tokens": ' + b"9" * 400 + b"}}\n\n", "broke off"),
        (b": nothing\n" * (MAX_ANSWER_BYTES // 10 + 1), "sent more than"),
    ],
)
async def test_a_server_that_sends_something_else_ends_the_answer(answer: bytes, says: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        with pytest.raises(LanguageServerError, match=says):
            await write(f"http://{host}:{port}/v1", "Hello.")


def test_mlx_lm_s_own_server_answers(tmp_path: Path) -> None:
    """Random weights write what they like, up to the length that is asked for."""
    folder = write_model(tmp_path / "tiny")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(folder), "--port", str(port)]
    environment = clean_environment() | {"HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: server.poll() is None and _answers(f"http://127.0.0.1:{port}/v1/models"))
            items, stream = asyncio.run(write(f"http://127.0.0.1:{port}/v1", "Hello.", str(folder), max_tokens=12))
        finally:
            server.kill()
    assert items[-1].finish_reason == "length"
    assert stream.usage.written == 12
    assert stream.usage.prompt > 6


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(url).status_code == 200
    return False


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(LanguageServerError, match="ConnectError"):
        asyncio.run(write("http://127.0.0.1:9/v1", "Hello."))
    assert time.monotonic() - begun < 5
