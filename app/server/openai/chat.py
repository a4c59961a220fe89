"""`POST /v1/chat/completions`: a language model goes on with a conversation, whole or as server-sent events."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response

from app.errors import InvalidRequestError, TextTooLongError
from app.generation.options import DEFAULT_MAX_TOKENS, GenerationOptions, characters
from app.generation.stream import GenerationStream
from app.observability import metrics
from app.server.exchange import JsonRoute, StreamExchange
from app.server.openai.chat_schemas import (
    CachedTokens,
    ChatBody,
    ChatMessageBody,
    ChatReply,
    ChatUsage,
    Choice,
    FunctionReply,
    LogprobReply,
    Logprobs,
    MessageReply,
    ReasoningTokens,
    ToolCallReply,
)
from app.server.state import Services, services
from models.contract import GeneratedText, TokenLogprob

router = APIRouter()

PATH = "/v1/chat/completions"
DONE = b"data: [DONE]\n\n"


async def complete(request: Request, body: ChatBody) -> Response:
    """Have a language model write the next message of a conversation."""
    return ChatResponse(services(request), body)


router.add_api_route(PATH, complete, methods=["POST"], response_model=ChatReply, route_class_override=JsonRoute)


class ChatResponse(StreamExchange[GenerationStream]):
    """Response to a request for the next message."""

    def __init__(self, app: Services, body: ChatBody) -> None:
        self._body = body
        self._messages = [_message(message) for message in body.messages]
        super().__init__(app, characters=characters(self._messages))
        self.streams_events = body.stream
        self.ignored = body.unknown_fields() + (("parameter seed",) if body.seed is not None else ())
        self._labels = metrics.Labels(model="none", surface="openai", streaming=body.stream)
        self._id, self._created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())

    def check(self, headers: Headers) -> None:
        """Check the length of the conversation. Raises TextTooLongError and InvalidRequestError."""
        limit = self.app.settings.max_input_characters
        longest = max((len(message["content"]) for message in self._messages), default=0)
        if longest > limit:
            raise TextTooLongError(
                f"A message has {longest} characters; at most {limit} are accepted.", param="messages"
            )
        if self._body.top_logprobs and not self._body.logprobs:
            raise InvalidRequestError("'top_logprobs' has a meaning only with 'logprobs'.", param="top_logprobs")

    async def prepare(self) -> GenerationStream:
        """Return a stream that writes the message. Raises what `GenerationService.prepare` raises."""
        body = self._body
        options = GenerationOptions(
            messages=tuple(self._messages),
            model=body.model,
            tools=tuple(tool.model_dump() for tool in body.tools) if body.tool_choice == "auto" else (),
            max_tokens=body.max_completion_tokens or body.max_tokens or DEFAULT_MAX_TOKENS,
            stop=tuple(filter(None, [body.stop] if isinstance(body.stop, str) else body.stop)),
            temperature=body.temperature,
            top_p=body.top_p,
            min_p=body.min_p,
            presence_penalty=body.presence_penalty,
            frequency_penalty=body.frequency_penalty,
            logit_bias=body.logit_bias,
            logprobs=body.top_logprobs if body.logprobs else None,
            reasoning=body.reasoning_effort not in ("none", "minimal"),
        )
        prepared = await self.app.generation.prepare(options, self.progress())
        self._labels = replace(self._labels, model=prepared.model)
        return GenerationStream(self.app.generation, prepared, self.timeline, self._labels)

    async def answer(self, stream: GenerationStream) -> None:
        """Send the message, at once or as it is written."""
        if not self.streams_events:
            await self._send_whole(stream)
            return
        await self._send_choice(Choice(delta=MessageReply(role="assistant", content="")))
        async for item in self.with_comments(stream):
            await self._send_choice(self._choice(item))
        if self._body.stream_options is not None and self._body.stream_options.include_usage:
            await self.send_event(self._reply([], _usage(stream)).model_dump_json(exclude_none=True))
        await self.send_part(DONE, more=False)

    async def _send_whole(self, stream: GenerationStream) -> None:
        items = [item async for item in stream]
        message = MessageReply(
            role="assistant",
            content="".join(item.text for item in items if item.kind == "text") or None,
            reasoning_content="".join(item.text for item in items if item.kind == "reasoning") or None,
            tool_calls=_calls(items[-1]) or None,
        )
        logprobs = [each for item in items if item.kind == "text" for each in item.logprobs]
        choice = Choice(message=message, finish_reason=items[-1].finish_reason, logprobs=self._logprobs(logprobs))
        reply = self._reply([choice], _usage(stream)).model_dump(exclude={"choices": {"__all__": {"delta"}}})
        headers = {"server-timing": self.timeline.server_timing(), "cache-control": "no-store"}
        body = json.dumps(reply, ensure_ascii=False)
        await self.respond_in_time(Response(body, headers=headers, media_type="application/json"))

    def _choice(self, item: GeneratedText) -> Choice:
        calls = _calls(item)
        delta = MessageReply(
            content=item.text if item.kind == "text" and item.text else None,
            reasoning_content=item.text if item.kind == "reasoning" else None,
            tool_calls=[call.model_copy(update={"index": index}) for index, call in enumerate(calls)] or None,
        )
        logprobs = self._logprobs(item.logprobs) if item.logprobs else None
        return Choice(delta=delta, logprobs=logprobs, finish_reason=item.finish_reason)

    async def _send_choice(self, choice: Choice) -> None:
        reply = self._reply([choice]).model_dump(exclude_none=True)
        reply["choices"][0].setdefault("finish_reason", None)
        await self.send_event(json.dumps(reply, ensure_ascii=False))

    def _reply(self, choices: list[Choice], usage: ChatUsage | None = None) -> ChatReply:
        return ChatReply(
            id=self._id,
            object="chat.completion.chunk" if self.streams_events else "chat.completion",
            created=self._created,
            model=self._labels.model,
            choices=choices,
            usage=usage,
        )

    def _logprobs(self, tokens: Sequence[TokenLogprob]) -> Logprobs | None:
        return Logprobs(content=[_logprob(token) for token in tokens]) if self._body.logprobs else None

    def note_rejected(self) -> None:
        """Count a request that is refused before anything is computed."""
        metrics.record_generation(self.timeline, self._labels, "rejected", 0, 0)


def _message(body: ChatMessageBody) -> dict[str, Any]:
    """Return a message as the templates of models read it: its content a string, its arguments objects."""
    content = body.content or ""
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    message: dict[str, Any] = {"role": "system" if body.role == "developer" else body.role, "content": text}
    if body.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": _arguments(call.function.arguments)},
            }
            for call in body.tool_calls
        ]
    return message | {name: value for name in ("name", "tool_call_id") if (value := getattr(body, name)) is not None}


def _arguments(text: str) -> Any:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _calls(item: GeneratedText) -> list[ToolCallReply]:
    return [
        ToolCallReply(id=f"call_{uuid.uuid4().hex}", function=FunctionReply(name=call.name, arguments=call.arguments))
        for call in item.tool_calls
    ]


def _logprob(token: TokenLogprob) -> LogprobReply:
    return LogprobReply(
        token=token.text.decode("utf-8", "replace"),
        logprob=token.logprob,
        bytes=list(token.text),
        top_logprobs=[_logprob(each) for each in token.likeliest],
    )


def _usage(stream: GenerationStream) -> ChatUsage:
    usage = stream.usage
    return ChatUsage(
        prompt_tokens=usage.prompt,
        completion_tokens=usage.written,
        total_tokens=usage.prompt + usage.written,
        prompt_tokens_details=CachedTokens(cached_tokens=usage.cached),
        completion_tokens_details=ReasoningTokens(reasoning_tokens=usage.reasoning),
    )
