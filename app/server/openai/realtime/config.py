"""Configuration of a transcription session: OpenAI's two shapes, what changes in it, and what it means here."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.audio.samples import SampleCoding
from app.audio.vad import SPEECH, VoiceOptions
from app.errors import InvalidRequestError
from app.recognition.events import LiveOptions
from app.server.exchange import first_error
from app.server.schemas import UnicodeText

_MAX_MILLISECONDS: Final = 30_000
# Seconds of silence that end an utterance at the latest, and where its text ends with a sentence.
_EAGERNESS: Final = {"low": 8.0, "medium": 4.0, "auto": 4.0, "high": 2.0}
_SENTENCE_PAUSE: Final = 0.5
LOGPROBS: Final = "item.input_audio_transcription.logprobs"


class ConfigPart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Pcm(ConfigPart):
    """Samples of 16 bits at 24 kHz."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Literal[24_000] = 24_000


class Telephone(ConfigPart):
    """G.711 at 8 kHz."""

    type: Literal["audio/pcmu", "audio/pcma"]
    # Some clients send the rate here, too.
    rate: Literal[8_000] | None = None


AudioFormat = Annotated[Pcm | Telephone, Field(discriminator="type")]


class NoiseReduction(ConfigPart):
    """Accepted; the recognizers need none."""

    type: Literal["near_field", "far_field"] | None = None
    strength: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


class InputTranscription(ConfigPart):
    """Model and hints. `delay` is accepted, and changes nothing."""

    model: UnicodeText | None = None
    language: UnicodeText | None = None
    languages: Annotated[list[UnicodeText], Field(max_length=100)] | None = None
    prompt: UnicodeText | None = None
    keywords: Annotated[list[UnicodeText], Field(max_length=100)] | None = None
    delay: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None


class _Turns(ConfigPart):
    # Parameters of answers, which a transcription session does not give.
    create_response: bool | None = None
    interrupt_response: bool | None = None


class ServerVad(_Turns):
    """A pause ends an utterance."""

    type: Literal["server_vad"] = "server_vad"
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    prefix_padding_ms: Annotated[int, Field(ge=0, le=_MAX_MILLISECONDS)] = 300
    silence_duration_ms: Annotated[int, Field(ge=32, le=_MAX_MILLISECONDS)] = 500
    # It belongs to answers, too. The bounds are OpenAI's.
    idle_timeout_ms: Annotated[int, Field(ge=5_000, le=30_000)] | None = None


class SemanticVad(_Turns):
    """A short pause ends an utterance after a whole sentence, a long one anywhere."""

    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"


TurnDetection = Annotated[ServerVad | SemanticVad, Field(discriminator="type")]


class AudioInput(ConfigPart):
    """Input of a session."""

    format: AudioFormat = Pcm()
    transcription: InputTranscription = InputTranscription()
    noise_reduction: NoiseReduction | None = None
    turn_detection: TurnDetection | None = ServerVad()


class Audio(ConfigPart):
    """Audio of a session: it has no output."""

    input: AudioInput = AudioInput()


class TranscriptionConfig(ConfigPart):
    """Configuration of a transcription session, in the shape of `session.update`."""

    type: Literal["transcription"] = "transcription"
    audio: Audio = Audio()
    include: Annotated[list[Literal["item.input_audio_transcription.logprobs"]], Field(max_length=100)] | None = None

    def changed(self, fields: dict[str, Any]) -> TranscriptionConfig:
        """Return the configuration with the fields that `fields` name. Raises InvalidRequestError."""
        result = merged(self.model_dump(exclude_unset=True), fields)
        result["type"] = fields.get("type", "transcription")
        try:
            return TranscriptionConfig.model_validate(result)
        except ValidationError as error:
            raise explain(error) from None

    def shown(self, model: str | None, *, old: bool = False) -> dict[str, Any]:
        """Return the fields of a session whose model is `model`, with `old` in the shape of the older protocol."""
        given = self.audio.input
        transcription = given.transcription.model_dump(exclude_none=True) | {"model": model}
        reduction = given.noise_reduction and given.noise_reduction.model_dump(exclude_none=True)
        turns = given.turn_detection and given.turn_detection.model_dump(exclude_none=True)
        if old:
            names = {new: old_name for old_name, new in _OLD_FORMATS.items()}
            return {
                "input_audio_format": names[given.format.type],
                "input_audio_transcription": transcription,
                "input_audio_noise_reduction": reduction,
                "turn_detection": turns,
                "include": self.include,
            }
        audio = {
            "format": given.format.model_dump(exclude_none=True),
            "transcription": transcription,
            "noise_reduction": reduction,
            "turn_detection": turns,
        }
        return {"type": "transcription", "audio": {"input": audio}, "include": self.include}

    @property
    def logprobs(self) -> bool:
        """Whether events have the log-probabilities of tokens."""
        return LOGPROBS in (self.include or ())

    @property
    def coding(self) -> tuple[SampleCoding, int]:
        """Coding of the samples, and their rate in Hz."""
        return coding_of(self.audio.input.format)

    @property
    def options(self) -> LiveOptions:
        """Options of the recognition."""
        given = self.audio.input.transcription
        detection, pause = detection_of(self.audio.input.turn_detection)
        return LiveOptions(
            model=given.model,
            language=given.language,
            languages=tuple(given.languages or ()),
            prompt=given.prompt or "",
            keywords=tuple(given.keywords or ()),
            detection=detection,
            sentence_pause=pause,
        )


def coding_of(form: AudioFormat) -> tuple[SampleCoding, int]:
    """Return the coding of the samples of a format, and their rate in Hz."""
    match form:
        case Pcm(rate=rate):
            return "pcm16", rate
        case Telephone(type="audio/pcmu"):
            return "mulaw", 8_000
        case _:
            return "alaw", 8_000


def detection_of(turns: ServerVad | SemanticVad | None) -> tuple[VoiceOptions | None, float | None]:
    """Return how utterances are found, and the pause that ends one after a whole sentence."""
    match turns:
        case ServerVad():
            padding, silence = turns.prefix_padding_ms / 1_000, turns.silence_duration_ms / 1_000
            return VoiceOptions(turns.threshold, SPEECH.min_speech, silence, padding), None
        case SemanticVad():
            silence = _EAGERNESS[turns.eagerness]
            return VoiceOptions(SPEECH.threshold, SPEECH.min_speech, silence, SPEECH.padding), _SENTENCE_PAUSE
    return None, None


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return `old` with the fields of `new`, object by object. One of another `type` replaces the whole object."""
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        same = isinstance(before, dict) and isinstance(value, dict) and value.get("type") in (None, before.get("type"))
        result[key] = merged(before, value) if same and isinstance(before, dict) else value
    return result


_OLD_FORMATS: Final = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_OLD_FIELDS: Final = {
    "input_audio_transcription": "transcription",
    "input_audio_noise_reduction": "noise_reduction",
    "turn_detection": "turn_detection",
}


def from_old(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `transcription_session.update` in the shape of `session.update`."""
    given = {new: fields[old] for old, new in _OLD_FIELDS.items() if old in fields}
    if "input_audio_format" in fields:
        name = fields["input_audio_format"]
        given["format"] = {"type": _OLD_FORMATS.get(name, name) if isinstance(name, str) else name}
    turns = given.get("turn_detection")
    if isinstance(turns, dict):
        given["turn_detection"] = {"type": "server_vad"} | turns
    result: dict[str, Any] = {"audio": {"input": given}} if given else {}
    if "include" in fields:
        result["include"] = fields["include"]
    return result


def explain(error: ValidationError) -> InvalidRequestError:
    first = first_error(error)
    param = ".".join(["session", *(str(part) for part in first["loc"])])[:200]
    return InvalidRequestError(f"'{param}': {first['msg']}.", param=param)
