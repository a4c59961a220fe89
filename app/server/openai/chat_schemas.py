"""JSON types of `POST /v1/chat/completions`, as OpenAI's API has them (platform.openai.com, "Chat Completions")."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StrictBool, StrictInt, StrictStr, Tag

from app.server.schemas import JsonObject, OptionalFields, UnicodeText

MAX_MESSAGES: Final = 2_048
MAX_TOOLS: Final = 128
MAX_STOPS: Final = 16
ToolName = Annotated[UnicodeText, Field(pattern=r"^[\w.-]{1,64}$")]


class TextPart(BaseModel):
    """Part of a message's content. Other parts than text are refused."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["text", "input_text", "refusal"]
    text: UnicodeText = ""


def _form_of_content(content: object) -> str:
    return "parts" if isinstance(content, list) else "text"


Content = Annotated[
    Annotated[UnicodeText, Tag("text")] | Annotated[list[TextPart], Tag("parts")], Discriminator(_form_of_content)
]
"""Text, or parts of it. A union without a tag would name the type of Python in the message of an error."""


class CalledFunction(BaseModel):
    """Function that the model called; `arguments` is a JSON object, as text."""

    name: ToolName
    arguments: UnicodeText = ""


class CalledTool(BaseModel):
    """Call of a tool in an assistant's message."""

    model_config = ConfigDict(extra="ignore")
    id: UnicodeText
    type: Literal["function"] = "function"
    function: CalledFunction


class ChatMessageBody(OptionalFields):
    """Message of a conversation."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: UnicodeText | None = None
    tool_calls: Annotated[list[CalledTool], Field(max_length=MAX_TOOLS)] = Field(default_factory=list)
    tool_call_id: UnicodeText | None = None


class FunctionBody(BaseModel):
    """Function that the model may call. `parameters` is a JSON schema."""

    model_config = ConfigDict(extra="ignore")
    name: ToolName
    description: UnicodeText = ""
    parameters: JsonObject = Field(default_factory=lambda: {"type": "object", "properties": {}})


class ToolBody(BaseModel):
    """Tool that the model may call."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["function"]
    function: FunctionBody


class ResponseFormatBody(BaseModel):
    """Form of the answer."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["text"]


class ChatStreamOptions(BaseModel):
    """Options of a streamed answer. `include_usage`: a last event tells the tokens."""

    model_config = ConfigDict(extra="ignore")
    include_usage: StrictBool = False


class ChatBody(OptionalFields):
    """`POST /v1/chat/completions`. Unknown parameters change nothing; `x-ignored` names them."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "What is the tallest mountain?"}]}]},
    )

    messages: Annotated[list[ChatMessageBody], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    model: Annotated[
        UnicodeText | None, Field(description="a language model of GET /v1/models; a name of OpenAI's: the default")
    ] = None
    stream: Annotated[StrictBool, Field(description="server-sent events, a piece of text each")] = False
    stream_options: ChatStreamOptions | None = None
    max_completion_tokens: Annotated[StrictInt | None, Field(ge=1, description="most tokens; default: 1024")] = None
    max_tokens: Annotated[StrictInt | None, Field(ge=1, description="older name of `max_completion_tokens`")] = None
    temperature: Annotated[
        float | None,
        Field(ge=0, le=2, allow_inf_nan=False, description="0: the likeliest; default: as the model's maker says"),
    ] = None
    top_p: Annotated[float | None, Field(gt=0, le=1, allow_inf_nan=False, description="default: likewise")] = None
    min_p: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)] = 0.0
    logit_bias: dict[Annotated[int, Field(ge=0)], Annotated[float, Field(ge=-100, le=100)]] = Field(
        default_factory=dict, max_length=1_024
    )
    logprobs: StrictBool = False
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] = 0
    stop: UnicodeText | Annotated[list[UnicodeText], Field(max_length=MAX_STOPS)] = Field(default_factory=list)
    n: Annotated[StrictInt, Field(ge=1, le=1, description="one answer")] = 1
    tools: Annotated[list[ToolBody], Field(max_length=MAX_TOOLS)] = Field(default_factory=list)
    tool_choice: Annotated[
        Literal["auto", "none"], Field(description="a call cannot be enforced: `required` and names are refused")
    ] = "auto"
    parallel_tool_calls: StrictBool = True
    response_format: ResponseFormatBody | None = None
    reasoning_effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh"],
        Field(description="other than `none` and `minimal`: a model that can may write to itself before it answers"),
    ] = "none"
    seed: Annotated[StrictInt | None, Field(description="accepted and not used: sequences share one generator")] = None


class FunctionReply(BaseModel):
    """Function that the model calls."""

    name: str
    arguments: str


class ToolCallReply(BaseModel):
    """Call of a tool. `index` only in a stream."""

    index: int | None = None
    id: StrictStr
    type: Literal["function"] = "function"
    function: FunctionReply


class LogprobReply(BaseModel):
    """Token with its log-probability. `bytes`: its UTF-8 bytes."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[LogprobReply] = Field(default_factory=list)


class Logprobs(BaseModel):
    """Tokens of the content."""

    content: list[LogprobReply]


class MessageReply(BaseModel):
    """Message of the model, or a piece of it."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallReply] | None = None
    refusal: None = None


class Choice(BaseModel):
    """Answer; in a stream with `delta`, else with `message`."""

    index: int = 0
    message: MessageReply | None = None
    delta: MessageReply | None = None
    logprobs: Logprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls"] | None = None


class CachedTokens(BaseModel):
    """Tokens of the prompt that were known from an earlier request of the same key."""

    cached_tokens: int = 0


class ReasoningTokens(BaseModel):
    """Tokens that the model wrote to itself."""

    reasoning_tokens: int = 0


class ChatUsage(BaseModel):
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class ChatReply(BaseModel):
    """Answer, or an event of a streamed one."""

    id: str
    object: Literal["chat.completion", "chat.completion.chunk"]
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage | None = None
