"""The JSON types of the HTTP surfaces."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from app.messages import Seed, Speed, UnicodeText
from models.contract import Kind


class VoiceReference(BaseModel):
    """OpenAI's object form of a voice."""

    model_config = ConfigDict(extra="forbid")
    id: UnicodeText


class SpeechBody(BaseModel):
    """`POST /v1/audio/speech`: OpenAI's request, with `lang`, `seed` and `sample_rate` added.

    Unknown parameters are refused: a misspelt one would otherwise be ignored in silence.
    """

    model_config = ConfigDict(extra="forbid")

    input: Annotated[UnicodeText, Field(description="the text; `[word](/ipa/)` and `[pause:0.5s]` are understood")]
    model: Annotated[
        UnicodeText | None, Field(description="a name of GET /v1/models; tts-1 and its like mean the default")
    ] = None
    voice: UnicodeText | VoiceReference | None = None
    instructions: Annotated[UnicodeText | None, Field(description="accepted and not used: these models take none")] = (
        None
    )
    response_format: UnicodeText = "wav"
    speed: Speed = 1.0
    stream_format: Literal["audio", "sse"] = "audio"
    lang: Annotated[UnicodeText | None, Field(description="BCP-47 tag; default: the voice's language")] = None
    seed: Seed = 0
    sample_rate: Annotated[StrictInt | None, Field(description="Hz, 8000 to 48000; default: the model's")] = None

    @property
    def voice_name(self) -> str | None:
        """The voice, whichever way it was given."""
        return self.voice.id if isinstance(self.voice, VoiceReference) else self.voice


class VoiceEntry(BaseModel):
    """One voice of a model."""

    id: str
    name: str
    language: str
    gender: str | None
    model: str
    object: Literal["voice"] = "voice"


class VoiceList(BaseModel):
    """The same list twice: Open WebUI reads `voices`, OpenAI's clients `data`."""

    object: Literal["list"] = "list"
    voices: list[VoiceEntry]
    data: list[VoiceEntry]


class ModelEntry(BaseModel):
    """One model of the catalogue. `status`: ready, loading, available (on disk, not loaded), absent or failed.

    `default` models answer requests that name none: one speaks, one translates.
    """

    id: str
    name: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "nightingale"
    kind: Kind
    status: str
    default: bool
    description: str
    license: str
    aliases: list[str]


class ModelList(BaseModel):
    """The same list twice, as in VoiceList."""

    object: Literal["list"] = "list"
    models: list[ModelEntry]
    data: list[ModelEntry]


class Readiness(BaseModel):
    """`GET /readyz`: progress of each model to be served, and of the lexicons."""

    status: Literal["ready", "starting", "draining", "failed"]
    models: list[dict[str, Any]]
    text: Literal["loading", "ready", "failed"]
