"""Options of a message to be written, as a client gives them and as they were checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from models.contract import ChatMessage, GenerationRequest, LanguageModel, Tool

DEFAULT_MAX_TOKENS: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions:
    """Options of one message. None means the default.

    `messages` are the conversation, `tools` what the model may call. `temperature` in [0, 2] and `top_p` in (0, 1] are
    by default what the model's maker recommends; `min_p` is in [0, 1]. `stop` holds the texts before which the message
    ends. `reasoning`: the model may write to itself first. `logprobs`: see GenerationRequest. `truncate`: the oldest
    messages of a conversation that is longer than the model's context are left out.
    """

    messages: tuple[ChatMessage, ...]
    model: str | None = None
    tools: tuple[Tool, ...] = ()
    max_tokens: int = DEFAULT_MAX_TOKENS
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    reasoning: bool = False
    truncate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedGeneration:
    """Options that were checked against a loaded model."""

    model: str
    language_model: LanguageModel
    request: GenerationRequest


@dataclass(slots=True)
class TokenCounts:
    """Tokens of a message: those of its prompt, of them those that were known from before, and those written."""

    prompt: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0


def characters(messages: Iterable[ChatMessage]) -> int:
    """Return the characters of messages, with the arguments of the calls in them."""
    return sum(
        len(message["content"]) + sum(len(str(call["function"]["arguments"])) for call in message.get("tool_calls", ()))
        for message in messages
    )
