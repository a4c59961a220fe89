"""Models that write text: conversations, requests, what they write, and their methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from models.contract.calls import IsCancelled, Progress
from models.timeline import Timeline

ChatMessage = Mapping[str, Any]
"""A message as Chat Completions has it: `role`, `content` as a string, and `tool_calls` or `tool_call_id`, if any."""
Tool = Mapping[str, Any]
"""A tool as Chat Completions has it: {"type": "function", "function": {"name", "description", "parameters"}}."""
GeneratedKind = Literal["text", "reasoning"]
FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSampling:
    """How tokens are drawn where a request does not say: as the model's maker recommends."""

    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """Tokens to go on from, and how.

    `prompt` is what `LanguageModel.prompt` returned. At most `max_tokens` are written, up to the model's end of a turn
    or a string of `stop`, which is left out. `temperature` 0 takes the likeliest token; `top_p` in (0, 1], `top_k`
    (0: all) and `min_p` in [0, 1] bound what is drawn otherwise. `repetition_penalty` 1, `presence_penalty` 0 and
    `frequency_penalty` 0 change nothing. `logit_bias` adds to the logits of tokens. `logprobs` is the number of
    likeliest tokens to return with each token; None: no probabilities. `tools` are those that the prompt names. What a
    model remembers of a prompt is for requests of the same `owner` alone.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    tools: tuple[Tool, ...] = ()
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token: its text, which may be a part of a character, and its log-probability, with those of the likeliest."""

    text: bytes
    logprob: float
    likeliest: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Call of a tool that the model wants; `arguments` is a JSON object, as text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """Some text, in order. The last item has a `finish_reason`, and perhaps calls of tools.

    `kind` "reasoning" is what a model writes to itself before it answers. `tokens` counts those of this item, and of
    text that was held back or left out since the one before. `cached_tokens`, on the first item, counts those of the
    prompt that were known from before.
    """

    text: str
    kind: GeneratedKind = "text"
    tokens: int = 0
    cached_tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason | None = None


@runtime_checkable
class LanguageModel(Protocol):
    """A loaded language model."""

    @property
    def context(self) -> int:
        """Most tokens of a prompt and what is written after it."""

    @property
    def sampling(self) -> TokenSampling:
        """How its tokens are drawn where a request does not say."""

    @property
    def takes_tools(self) -> bool:
        """Whether its template knows tools."""

    def prompt(
        self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = (), *, reasoning: bool = False
    ) -> tuple[int, ...]:
        """Return the tokens of a conversation, up to where the model's next message begins.

        `reasoning`: a model that can may write to itself first. Raises ModelRequestError for messages that the model's
        template refuses. Safe on any thread; touches no array.
        """

    def check(self, request: GenerationRequest) -> None:
        """Raise ModelRequestError for a request that it cannot serve. Safe on any thread; touches no array."""

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""

    def generate(
        self, request: GenerationRequest, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[GeneratedText | None]:
        """Write the next message; yield its text as it is written.

        Several iterators of one model advance together: a step of one writes a token of each. Yields None after a step
        without text of its own, where the thread may turn to other work. Raises ModelRequestError before the first
        item, Cancelled between steps.
        """
