"""From tokens to text: reasoning, calls of tools and stop strings are told apart, and characters are whole."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from models.backend import mx
from models.contract import FinishReason, GeneratedText, GenerationRequest, TokenLogprob, ToolCall
from models.llm.batch import GeneratedToken
from models.llm.library import import_module

log = logging.getLogger(__name__)


class Writer:
    """Text of one sequence."""

    def __init__(self, tokenizer: Any, request: GenerationRequest, cached: int) -> None:
        generate = import_module("generate")
        self._tokenizer, self._request = tokenizer, request
        self._machine = generate.TextStateMachine
        self._detokenizer = tokenizer.detokenizer
        # A prompt may end inside of reasoning, which the model then ends before it answers.
        read = list(request.prompt)
        reasons = tokenizer.has_thinking and tokenizer.rfind_think_start(read) > tokenizer.rfind_think_end(read)
        initial = "reasoning" if reasons else "normal"
        self._state = generate.make_text_state_machine(tokenizer).make_state(initial)
        stops = {"normal": [(text, None) for text in request.stop]} if request.stop else None
        self._stops = self._machine(stops).make_state()
        self._tool: str | None = None  # text of a call that is being written
        self._calls: list[ToolCall] = []
        self._tokens, self._cached = 0, cached
        self._logprobs: list[TokenLogprob] = []

    def write(self, token: GeneratedToken) -> Iterator[GeneratedText]:
        """Yield what can be read now that `token` is written: the last item of a sequence has a `finish_reason`."""
        self._tokens += 1
        if token.finish_reason != "stop":  # else it is the model's sign that its turn ends
            self._detokenizer.add_token(token.id)
            if token.logprobs is not None:
                self._logprobs.append(self._logprob(token.id, token.logprobs))
        text = self._detokenizer.last_segment
        if token.finish_reason is not None:
            self._detokenizer.finalize()
            text += self._detokenizer.last_segment
        self._state, segments = self._machine.split(self._state, text)
        if token.finish_reason == "length":
            self._state, rest, name = self._machine.flush(self._state)
            segments.append((name, rest))
        written, stopped = self._told_apart(segments, last=token.finish_reason is not None)
        reason: FinishReason | None = None
        if token.finish_reason is not None or stopped:
            reason = "length" if token.finish_reason == "length" and not stopped else "stop"
            reason = "tool_calls" if self._calls else reason
        yield from (self._item(part, kind) for kind, part in written if part and kind == "reasoning")
        answer = "".join(part for kind, part in written if kind == "text")
        if answer or reason is not None:
            yield self._item(answer, "text", reason)

    def _told_apart(self, segments: list[tuple[str, str]], *, last: bool) -> tuple[list[tuple[str, str]], bool]:
        """Return the parts of `segments` that are reasoning and text, and whether a stop string ended the text."""
        written: list[tuple[str, str]] = []
        for number, (name, part) in enumerate(segments):
            if name == "tool":
                self._tool = (self._tool or "") + part
                if number < len(segments) - 1 or last:
                    written.append(("text", self._call()))
            elif name == "reasoning":
                written.append((name, part))
            else:
                self._stops, seen = self._machine.split(self._stops, part)
                written.append(("text", "".join(text for _, text in seen)))
                if self._stops[0] is None:
                    return written, True
        if last:  # the beginning of a stop string that never came
            written.append(("text", self._machine.flush(self._stops)[1]))
        return written, False

    def _call(self) -> str:
        """Keep the call of a tool that is whole; return its text where it cannot be read."""
        text, self._tool = self._tool or "", None
        try:
            calls = self._tokenizer.tool_parser(text, list(self._request.tools))
            for call in calls if isinstance(calls, list) else [calls]:
                arguments = call.get("arguments") or {}
                as_text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
                self._calls.append(ToolCall(str(call["name"]), as_text))
        except Exception as error:  # whatever a parser of mlx-lm raises for what a model wrote
            log.warning("a call of a tool cannot be read: %s", type(error).__name__)
            return f"{self._tokenizer.tool_call_start or ''}{text}{self._tokenizer.tool_call_end or ''}"
        return ""

    def _item(self, text: str, kind: Any, reason: FinishReason | None = None) -> GeneratedText:
        item = GeneratedText(
            text,
            kind,
            tokens=self._tokens,
            cached_tokens=self._cached,
            logprobs=tuple(self._logprobs),
            tool_calls=tuple(self._calls) if reason is not None else (),
            finish_reason=reason,
        )
        self._tokens = self._cached = 0
        self._logprobs = []
        return item

    def _logprob(self, token: int, logprobs: mx.array) -> TokenLogprob:
        count = min(self._request.logprobs or 0, logprobs.size)
        ids: Any = mx.argsort(-logprobs)[:count].tolist() if count else []
        likeliest = tuple(TokenLogprob(self._bytes(each), float(logprobs[each])) for each in ids)
        return TokenLogprob(self._bytes(token), float(logprobs[token]), likeliest)

    def _bytes(self, token: int) -> bytes:
        return str(self._tokenizer.decode([token])).encode()
