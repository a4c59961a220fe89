"""ElevenLabs' JSON types and names, as its SDK (elevenlabs 2.78) writes and reads them.

Unknown fields are ignored, as ElevenLabs does, because new releases of its SDKs send new ones. This server's own
surfaces refuse them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictBool, ValidationError

from app.audio.encoders import Format, check_bit_rate, check_rate
from app.errors import ProtocolError, UnsupportedFormatError
from app.server.exception_handlers import explain
from app.server.exchange import first_error
from app.server.schemas import Seed, Speed, UnicodeText
from app.server.streaming.events import read_json

DEFAULT_OUTPUT = "mp3_44100_128"
# Beginning of the names of ElevenLabs' models. They stand for the default model.
MODEL_PREFIX = "eleven_"
# Format of each of ElevenLabs' names of a codec.
_CODECS: dict[str, Format] = {
    "mp3": "mp3",
    "pcm": "pcm",
    "wav": "wav",
    "opus": "opus",
    "ulaw": "mulaw",
    "alaw": "alaw",
}
_SHAPES = "mp3_RATE_KBPS, opus_RATE_KBPS, pcm_RATE, wav_RATE, ulaw_8000 or alaw_8000"

OutputName = Annotated[str, Field(max_length=40)]


@dataclass(frozen=True, slots=True)
class ElevenLabsOutput:
    """An `output_format`: encoding, sample rate in Hz, and bit rate in bit/s; None: the encoder's default."""

    format: Format
    rate: int
    bit_rate: int | None = None


def parse_output(name: str) -> ElevenLabsOutput:
    """Read a name such as `mp3_44100_128`: codec, Hz, and for MP3 and Opus the bit rate in kbit/s.

    Raises UnsupportedFormatError, whose message names the accepted forms.
    """
    codec, *numbers = name.split("_")
    known = _CODECS.get(codec)
    most = 2 if known in ("mp3", "opus") else 1
    plain = all(number.isascii() and number.isdecimal() and len(number) <= 6 for number in numbers)
    if known is None or not plain or not 1 <= len(numbers) <= most:
        raise UnsupportedFormatError(f"Unknown output_format '{name[:40]}'; it is {_SHAPES}.", param="output_format")
    try:
        rate = check_rate(known, int(numbers[0]))
        return ElevenLabsOutput(known, rate, check_bit_rate(known, rate, int(numbers[1])) if len(numbers) > 1 else None)
    except UnsupportedFormatError as error:
        raise UnsupportedFormatError(error.message, param="output_format") from None


def model_name(model_id: str | None) -> str | None:
    """Return a name for the catalog; None, the default model, for ElevenLabs' own names."""
    return None if model_id is None or model_id.startswith(MODEL_PREFIX) else model_id


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class VoiceSettings(_Lenient):
    """Settings of a voice. `stability`, `similarity_boost`, `style` and `use_speaker_boost` are accepted and not used:
    these models have no counterpart."""

    speed: Annotated[Speed | None, Field(description="0.25 to 4; 1 is normal")] = None


class DictionaryLocator(_Lenient):
    """Pronunciation dictionary to use. Dictionaries here have one version."""

    pronunciation_dictionary_id: UnicodeText
    version_id: UnicodeText | None = None


Locators = Annotated[list[DictionaryLocator], Field(max_length=8)]


class _SpeechBody(_Lenient):
    """Fields of speech and of dialogues."""

    model_id: Annotated[
        UnicodeText | None, Field(description="a name of GET /v1/models; eleven_... means the default")
    ] = None
    language_code: Annotated[UnicodeText | None, Field(description="BCP-47 tag; default: the voice's language")] = None
    seed: Seed | None = None
    pronunciation_dictionary_locators: Locators | None = None

    def options(self, output: ElevenLabsOutput) -> dict[str, Any]:
        """Return the fields of `/v1/audio/speech` for these, and for an output."""
        return {
            "model": model_name(self.model_id),
            "response_format": output.format,
            "sample_rate": output.rate,
            "lang": self.language_code,
            "seed": self.seed or 0,
            "lexicons": tuple(
                each.pronunciation_dictionary_id for each in self.pronunciation_dictionary_locators or ()
            ),
        }


class TextToSpeechBody(_SpeechBody):
    """Body of `POST /v1/text-to-speech/{voice_id}` and the three paths below it. Other fields are accepted and not
    used: `previous_text`, `next_text`, request ids, `apply_text_normalization`, `audio_effects`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Hello, how are you today?"}]})

    text: Annotated[UnicodeText, Field(description="the text; `[word](/ipa/)` and `[pause:0.5s]` are understood")]
    voice_settings: VoiceSettings | None = None


def speed_of(settings: VoiceSettings | None) -> float:
    """Return the speed of `settings`; 1 where there is none."""
    return 1.0 if settings is None or settings.speed is None else settings.speed


class CharacterAlignment(BaseModel):
    """Times of each character, in seconds from the start of the audio."""

    characters: list[str]
    character_start_times_seconds: list[float]
    character_end_times_seconds: list[float]


class TimedAudio(BaseModel):
    """Audio in base64, and the characters spoken in it. `normalized_alignment` is the same: no text changes."""

    audio_base64: str
    alignment: CharacterAlignment | None
    normalized_alignment: CharacterAlignment | None


class DialogueInput(_Lenient):
    """Line of one speaker."""

    text: UnicodeText
    voice_id: UnicodeText


class TextToDialogueBody(_SpeechBody):
    """Body of `POST /v1/text-to-dialogue` and the three paths below it. `settings` and other fields are accepted, and
    not used: these models have no counterpart."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"inputs": [{"text": "Shall we go?", "voice_id": "am_michael"}]}]}
    )

    inputs: Annotated[
        list[DialogueInput], Field(fail_fast=True, min_length=1, max_length=1_000, description="the lines in order")
    ]


class VoiceSegment(BaseModel):
    """Part of one input: its voice and times in seconds, and its characters in the `characters` beside it."""

    voice_id: str
    start_time_seconds: float
    end_time_seconds: float
    character_start_index: int
    character_end_index: int
    dialogue_input_index: int


class TimedDialogue(TimedAudio):
    """Audio of a dialogue in base64, its characters, and who speaks them."""

    voice_segments: list[VoiceSegment]


class ElevenVoice(BaseModel):
    """Voice as ElevenLabs lists it."""

    voice_id: str
    name: str
    category: Literal["premade", "cloned"]
    labels: dict[str, str]
    description: str | None = None
    preview_url: str | None = None
    settings: dict[str, Any] | None = None
    high_quality_base_model_ids: list[str] = Field(default_factory=list)
    available_for_tiers: list[str] = Field(default_factory=list)
    created_at_unix: int | None = None


class ElevenVoices(BaseModel):
    """Answer of `GET /v1/voices`."""

    voices: list[ElevenVoice]


class ElevenVoicePage(ElevenVoices):
    """Answer of `GET /v2/voices`: always one page."""

    has_more: Literal[False] = False
    total_count: int
    next_page_token: None = None


class DictionaryRule(_Lenient):
    """Rule of a pronunciation dictionary. `word_boundaries` is accepted: a rule always matches whole words."""

    string_to_replace: UnicodeText
    type: Literal["alias", "phoneme"]
    alias: UnicodeText = ""
    phoneme: UnicodeText = ""
    alphabet: UnicodeText = "ipa"
    case_sensitive: StrictBool = True


class DictionaryRules(_Lenient):
    """Body of `POST /v1/pronunciation-dictionaries/add-from-rules`."""

    name: UnicodeText
    rules: Annotated[list[DictionaryRule], Field(fail_fast=True, min_length=1, max_length=20_000)]


class ElevenDictionary(BaseModel):
    """Pronunciation dictionary as ElevenLabs lists it."""

    id: str
    name: str
    version_id: str
    latest_version_id: str
    version_rules_num: int
    latest_version_rules_num: int
    creation_time_unix: int
    created_by: str = ""
    permission_on_resource: Literal["admin"] = "admin"
    description: str | None = None
    archived_time_unix: int | None = None


class ElevenDictionaries(BaseModel):
    """Answer of `GET /v1/pronunciation-dictionaries`: always one page."""

    pronunciation_dictionaries: list[ElevenDictionary]
    next_cursor: str | None = None
    has_more: Literal[False] = False


class GenerationConfig(_Lenient):
    """Rules for the speech of an unfinished sentence; see `chunking`."""

    chunk_length_schedule: Annotated[
        list[Annotated[float, Field(ge=1, le=10_000, allow_inf_nan=False)]] | None, Field(max_length=100)
    ] = None


class SocketInput(_Lenient):
    """Message of a client, on both sockets. Each field is an order of its own."""

    text: UnicodeText | None = None
    flush: StrictBool | None = None
    try_trigger_generation: StrictBool | None = None
    voice_settings: VoiceSettings | None = None
    pronunciation_dictionary_locators: Locators | None = None
    generation_config: GenerationConfig | None = None
    context_id: Annotated[
        UnicodeText | None, Field(max_length=200, validation_alias=AliasChoices("context_id", "contextId"))
    ] = None
    close_context: StrictBool | None = None
    close_socket: StrictBool | None = None


def parse_input(frame: str | bytes, most: int) -> SocketInput:
    """Read a message of at most `most` bytes. Raises BodyTooLargeError, ProtocolError."""
    data = read_json(frame, most)
    if not isinstance(data, dict):
        raise ProtocolError("The message must be a JSON object.")
    try:
        return SocketInput.model_validate(data)
    except ValidationError as error:
        first = first_error(error)
        raise ProtocolError(f"'{'.'.join(map(str, first['loc']))}': {first['msg']}.") from None


class SocketOptions(_Lenient):
    """Query of both sockets."""

    model_id: UnicodeText | None = None
    language_code: UnicodeText | None = None
    output_format: OutputName = DEFAULT_OUTPUT
    auto_mode: bool = False
    inactivity_timeout: Annotated[float, Field(gt=0, le=180, allow_inf_nan=False)] = 20.0
    seed: Annotated[int | None, Field(ge=0, lt=1 << 32)] = None


def parse_options(query: dict[str, str]) -> SocketOptions:
    """Read the query of a socket's address. Raises InvalidRequestError."""
    try:
        return SocketOptions.model_validate(query)
    except ValidationError as error:
        raise explain(first_error(error)) from None


class SocketAlignment(BaseModel):
    """Times of each character, in milliseconds from the start of the message's audio."""

    chars: list[str]
    charStartTimesMs: list[int]  # noqa: N815  (as it stands on the wire)
    charDurationsMs: list[int]  # noqa: N815


class SocketOutput(BaseModel):
    """Audio, or with `isFinal` its end. The socket of one text leaves `contextId` out."""

    audio: str | None = None
    isFinal: bool = False  # noqa: N815
    alignment: SocketAlignment | None = None
    normalizedAlignment: SocketAlignment | None = None  # noqa: N815
    contextId: str | None = None  # noqa: N815


class SocketError(BaseModel):
    """Error. `code` is the close code of the socket, where the error closes it."""

    message: str
    error: str
    code: int
    contextId: str | None = None  # noqa: N815
