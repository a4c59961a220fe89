"""Configuration of a conversation: OpenAI's session of the type `realtime`, and what it means here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from app.audio.samples import SampleCoding
from app.errors import InvalidRequestError
from app.recognition.events import LiveOptions
from app.server.openai.realtime.config import (
    LOGPROBS,
    AudioFormat,
    ConfigPart,
    InputTranscription,
    NoiseReduction,
    Pcm,
    SemanticVad,
    ServerVad,
    TurnDetection,
    coding_of,
    detection_of,
    explain,
    merged,
)
from app.server.schemas import JsonObject, UnicodeText
from app.speech.options import SpeechOptions

DEFAULT_MAX_TOKENS = 1_024


class ConversationInput(ConfigPart):
    """Input of a conversation. `transcription` null: its text is not told, but the model reads it."""

    format: AudioFormat = Pcm()
    transcription: InputTranscription | None = None
    noise_reduction: NoiseReduction | None = None
    turn_detection: TurnDetection | None = ServerVad()


class VoiceObject(ConfigPart):
    """Voice as an object."""

    id: UnicodeText


class ConversationOutput(ConfigPart):
    """Voice of the answers."""

    format: AudioFormat = Pcm()
    voice: UnicodeText | VoiceObject | None = None
    speed: Annotated[float, Field(ge=0.25, le=1.5, allow_inf_nan=False)] = 1.0


class ConversationAudio(ConfigPart):
    """Audio of a conversation."""

    input: ConversationInput = ConversationInput()
    output: ConversationOutput = ConversationOutput()


class FunctionTool(ConfigPart):
    """Function that the model may call; the client runs it."""

    type: Literal["function"]
    name: Annotated[UnicodeText, Field(pattern=r"^[\w.-]{1,64}$")]
    description: UnicodeText | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None

    def as_chat(self) -> dict[str, Any]:
        """Return the tool as a model's template reads it."""
        parameters = self.parameters or {"type": "object", "properties": {}}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description or "", "parameters": parameters},
        }


class AnswerConfig(ConfigPart):
    """What the session says of its answers, and what one answer may have of its own. None: as the session says."""

    instructions: UnicodeText | None = None
    output_modalities: Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=1)] | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=128)] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=4_096)] | Literal["inf"] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: JsonObject | None = None


class ConversationConfig(AnswerConfig):
    """Configuration of a conversation, in the shape of `session.update`."""

    type: Literal["realtime"] = "realtime"
    model: UnicodeText | None = None
    audio: ConversationAudio = ConversationAudio()
    include: Annotated[list[UnicodeText], Field(max_length=100)] | None = None
    # Accepted, as clients send it; it changes nothing here.
    tracing: Literal["auto"] | JsonObject | None = None
    # "disabled": a conversation that is longer than the model's context fails; else its oldest messages are left out.
    truncation: Literal["auto", "disabled"] | JsonObject | None = None

    def changed(self, fields: dict[str, Any]) -> ConversationConfig:
        """Return the configuration with the fields that `fields` name. Raises InvalidRequestError."""
        if fields.get("type", "realtime") != "realtime":
            raise InvalidRequestError("The type of a session cannot change.", param="session.type")
        if fields.get("prompt") is not None:
            raise InvalidRequestError("Prompts by id are OpenAI's; send 'instructions'.", param="session.prompt")
        # Clients repeat the model of the address, by OpenAI's name. Objects of any fields would grow with each update.
        given = {name: value for name, value in fields.items() if name not in ("model", "prompt", "type")}
        free = {name: given[name] for name in ("tracing", "reasoning", "truncation") if name in given}
        result = merged(self.model_dump(exclude_unset=True), given) | free | {"type": "realtime", "model": self.model}
        try:
            return ConversationConfig.model_validate(result)
        except ValidationError as error:
            raise explain(error) from None

    @property
    def voice(self) -> str | None:
        """Name of the voice."""
        voice = self.audio.output.voice
        return voice.id if isinstance(voice, VoiceObject) else voice

    @property
    def turns(self) -> ServerVad | SemanticVad | None:
        """How turns are found; None: the client ends them."""
        return self.audio.input.turn_detection

    @property
    def answers_turns(self) -> bool:
        """Whether the end of a turn begins an answer."""
        return self.turns is not None and self.turns.create_response is not False

    @property
    def interrupts(self) -> bool:
        """Whether a voice ends the answer that is being given."""
        return self.turns is not None and self.turns.interrupt_response is not False

    @property
    def idle_timeout_ms(self) -> int | None:
        """Milliseconds of silence after an answer was played that are a turn; None: none are."""
        return self.turns.idle_timeout_ms if isinstance(self.turns, ServerVad) and self.answers_turns else None

    @property
    def logprobs(self) -> bool:
        """Whether events have the log-probabilities of the recognizer's tokens."""
        return LOGPROBS in (self.include or ())

    @property
    def coding(self) -> tuple[SampleCoding, int]:
        """Coding of the samples that come, and their rate in Hz."""
        return coding_of(self.audio.input.format)

    @property
    def options(self) -> LiveOptions:
        """Options of the recognition."""
        given = self.audio.input.transcription or InputTranscription()
        detection, pause = detection_of(self.turns)
        return LiveOptions(
            model=given.model,
            language=given.language,
            languages=tuple(given.languages or ()),
            prompt=given.prompt or "",
            keywords=tuple(given.keywords or ()),
            detection=detection,
            sentence_pause=pause,
        )

    @property
    def speaking(self) -> SpeechOptions:
        """Options of the voice."""
        return SpeechOptions(voice=self.voice, speed=self.audio.output.speed)

    def shown(self, model: str) -> dict[str, Any]:
        """Return the whole configuration that is in effect, as `session.updated` has it."""
        given, output = self.audio.input, self.audio.output
        turns = None if self.turns is None else self.turns.model_dump(exclude_none=True)
        if turns is not None:
            turns |= {"create_response": self.answers_turns, "interrupt_response": self.interrupts}
            if turns["type"] == "server_vad":
                turns.setdefault("idle_timeout_ms", None)
        transcription = given.transcription
        return {
            "type": "realtime",
            "model": model,
            "instructions": self.instructions or "",
            "output_modalities": self.output_modalities or ["audio"],
            "tools": [tool.model_dump(exclude_none=True) for tool in self.tools or ()],
            "tool_choice": self.tool_choice or "auto",
            "max_output_tokens": self.max_output_tokens or "inf",
            "tracing": None,
            "truncation": self.truncation or "auto",
            "include": self.include,
            "audio": {
                "input": {
                    "format": given.format.model_dump(exclude_none=True),
                    "transcription": None if transcription is None else transcription.model_dump(exclude_none=True),
                    "noise_reduction": given.noise_reduction and given.noise_reduction.model_dump(exclude_none=True),
                    "turn_detection": turns,
                },
                "output": {
                    "format": output.format.model_dump(exclude_none=True),
                    "voice": self.voice,
                    "speed": output.speed,
                },
            },
        }
