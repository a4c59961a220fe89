"""Language model behind another server: any that has OpenAI's Chat Completions, such as Ollama or llama.cpp."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from app.errors import LanguageServerError
from app.generation.options import GenerationOptions, TokenCounts
from app.observability import metrics
from models.contract import FinishReason, GeneratedText, ToolCall
from models.timeline import Stage, Timeline

CONNECT_SECONDS: Final = 5.0
# A model that is loaded for the request writes nothing meanwhile.
READ_SECONDS: Final = 120.0
MAX_LINE_BYTES: Final = 1_000_000
MAX_ERROR_CHARACTERS: Final = 300
MAX_TOOL_CALLS: Final = 128
MAX_ANSWER_BYTES: Final = 1 << 24


@dataclass(slots=True)
class _Call:
    name: str = ""
    arguments: str = ""


class RemoteStream:
    """Text of one message that another server writes (`async for`). `close` it in the end."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        model: str,
        options: GenerationOptions,
        timeline: Timeline,
        surface: metrics.SurfaceName,
    ) -> None:
        """Describe the message; iterating asks for it.

        Args:
            client: the connection to the server, with its address and key.
            model: name of the model there.
            options: the conversation, and how to go on with it.
            timeline: record of the request's time.
            surface: label of the metrics.
        """
        self.timeline = timeline
        self.labels = metrics.Labels("remote", surface, True)
        self.usage = TokenCounts(0)
        self._client, self._recorded = client, False
        self._body: dict[str, Any] = {
            "model": model,
            "messages": list(options.messages),
            "max_tokens": options.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if options.tools:
            self._body["tools"] = list(options.tools)

    async def __aiter__(self) -> AsyncIterator[GeneratedText]:
        """Yield the text as it comes; the last item has a `finish_reason`. Raises LanguageServerError."""
        calls: dict[int, _Call] = {}
        reason: FinishReason | None = None
        try:
            with self.timeline.measure(Stage.LLM_PREFILL):
                # Its schemas of tools may hold halves of surrogate pairs, which only ASCII can carry.
                body, headers = json.dumps(self._body), {"content-type": "application/json"}
                request = self._client.build_request("POST", "chat/completions", content=body, headers=headers)
                response = await self._client.send(request, stream=True)
            async with aclosing(response):
                await _check(response)
                async for chunk in _chunks(response):
                    self._count(chunk.get("usage"))
                    for choice in _list(chunk.get("choices"))[:1]:
                        delta = _dict(choice.get("delta"))
                        thought = delta.get("reasoning_content") or delta.get("reasoning")
                        if isinstance(thought, str) and thought:
                            yield GeneratedText(thought, "reasoning")
                        if isinstance(delta.get("content"), str) and delta["content"]:
                            yield GeneratedText(delta["content"])
                        _collect(calls, _list(delta.get("tool_calls")))
                        reason = _reason(choice.get("finish_reason")) or reason
        except httpx2.HTTPError as error:
            raise LanguageServerError(f"The language model's server failed: {type(error).__name__}: {error}") from error
        if reason is None:
            raise LanguageServerError("The language model's server broke off its answer.")
        found = tuple(ToolCall(call.name, call.arguments or "{}") for call in calls.values())
        yield GeneratedText("", tool_calls=found, finish_reason="tool_calls" if found else reason)

    def close(self, outcome: metrics.Outcome) -> None:
        """Record the message. Later calls change nothing. Who stops iterating has closed the connection."""
        if not self._recorded:
            self._recorded = True
            metrics.record_generation(self.timeline, self.labels, outcome, self.usage.prompt, self.usage.written)

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.usage.prompt = _number(usage.get("prompt_tokens"))
            self.usage.written = _number(usage.get("completion_tokens"))


def make_client(url: str, key: str | None) -> httpx2.AsyncClient:
    """Return the connections to a server; close them in the end. `url` ends with the version, as ".../v1"."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    # No proxy of the environment: conversations go to the address that the operator gave, and nowhere else.
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=False)


async def _check(response: httpx2.Response) -> None:
    """Raise LanguageServerError with the beginning of what the server says, if it refused."""
    if response.status_code == httpx2.codes.OK:
        return
    text = ""
    async for part in response.aiter_text():
        text += part
        if len(text) > MAX_ERROR_CHARACTERS:
            break
    message = " ".join(text[:MAX_ERROR_CHARACTERS].split())
    raise LanguageServerError(f"The language model's server answered {response.status_code}: {message}")


async def _chunks(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the objects of the server-sent events, up to "[DONE]". Raises LanguageServerError."""
    rest, size = b"", 0
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        size += len(data)
        if size > MAX_ANSWER_BYTES:
            raise LanguageServerError(f"The language model's server sent more than {MAX_ANSWER_BYTES} bytes.")
        if len(rest) > MAX_LINE_BYTES:
            raise LanguageServerError(f"A line of the language model's server is longer than {MAX_LINE_BYTES} bytes.")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            event = line[5:].strip()
            if event == b"[DONE]":
                return
            try:
                chunk = json.loads(event)
            except (ValueError, RecursionError) as error:
                raise LanguageServerError("The language model's server sent an event that is no JSON.") from error
            if not isinstance(chunk, dict) or chunk.get("error"):
                text = str(chunk)[:MAX_ERROR_CHARACTERS]
                raise LanguageServerError(f"The language model's server failed: {text}")
            yield chunk


def _collect(calls: dict[int, _Call], parts: list[dict[str, Any]]) -> None:
    """Add parts of calls of tools: the name comes once, the arguments in pieces."""
    for part in parts:
        function = _dict(part.get("function"))
        index = _number(part.get("index"))
        if index not in calls and len(calls) >= MAX_TOOL_CALLS:
            raise LanguageServerError(f"The language model called more than {MAX_TOOL_CALLS} tools at once.")
        call = calls.setdefault(index, _Call())
        call.name = str(function.get("name") or call.name)
        call.arguments += str(function.get("arguments") or "")


def _reason(given: Any) -> FinishReason | None:
    if given is None:
        return None
    return given if given in ("length", "tool_calls") else "stop"


def _list(given: Any) -> list[dict[str, Any]]:
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _dict(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


def _number(given: Any) -> int:
    return given if isinstance(given, int) and 0 <= given < 1 << 53 else 0
