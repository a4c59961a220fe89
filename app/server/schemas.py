"""JSON types of the HTTP surfaces, and the fields that the messages of WebSockets share with them."""

from __future__ import annotations

import json
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from app.audio.encoders import FORMATS
from app.audio.subtitles import SUBTITLE_FORMATS
from app.config import PauseKind
from models.contract import MAX_SPEED, MIN_SPEED, SAMPLING_RANGES, ModelKind, Sampling


class OptionalFields(BaseModel):
    """Fields of which one that is null counts as not given, unless null is one of its values.

    Many clients write all the fields that they know.
    """

    @model_validator(mode="before")
    @classmethod
    def _drop_null(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        fields = cls.model_fields
        return {
            name: value
            for name, value in given.items()
            if value is not None or name not in fields or NoneType in get_args(fields[name].annotation)
        }

    def unknown_fields(self) -> tuple[str, ...]:
        """Return fields that were given and are none of these, as `x-ignored` names them: at most MAX_UNKNOWN."""
        return tuple(f"parameter {name[:40]}" for name in [*(self.model_extra or {})][:MAX_UNKNOWN])


MAX_UNKNOWN: Final = 20
"""Most unknown fields of a body that its answer names."""

Seed = Annotated[int, Field(strict=True, ge=0, lt=1 << 32)]
Speed = Annotated[float, Field(strict=True, ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)]


def _encodable(text: str) -> str:
    # JSON can carry half of a surrogate pair; UTF-8, and so espeak and every log, cannot.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it holds half of a UTF-16 surrogate pair")
    return text


UnicodeText = Annotated[StrictStr, AfterValidator(_encodable)]


def _encodable_json(value: Any) -> Any:
    _encodable(json.dumps(value, ensure_ascii=False))
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_encodable_json)]
"""Object of any fields, whose texts are Unicode."""


def _ranged(name: str, description: str) -> Any:
    low, high = SAMPLING_RANGES[name]
    return Field(
        None, strict=True, ge=low, le=high, allow_inf_nan=False, description=f"{description}; default: the model's"
    )


class SamplingFields(BaseModel):
    """Sampling of a model that draws its speech at random. A model refuses the parameters that it does not have."""

    exaggeration: float | None = _ranged("exaggeration", "of the emotion")
    cfg_weight: float | None = _ranged("cfg_weight", "of classifier-free guidance; 0: none, and half the work")
    temperature: float | None = _ranged("temperature", "of the drawing; 0: the likeliest token always")
    min_p: float | None = _ranged("min_p", "tokens with less than this part of the likeliest one's chance are left out")
    top_p: float | None = _ranged("top_p", "sample from the likeliest tokens whose probabilities add up to this")
    repetition_penalty: float | None = _ranged("repetition_penalty", "divides the chances of what was said already")

    @property
    def sampling(self) -> Sampling:
        """Parameters that were given."""
        return Sampling(**{name: getattr(self, name) for name in SAMPLING_RANGES})


InputType = Annotated[
    Literal["auto", "text", "llm", "ssml"],
    Field(
        description="`ssml`: `input` is a document of SSML; `llm`: Markdown of a language model; `text`: all of it is "
        "read; `auto`: SSML if its root is `<speak>`, else text without a model's thoughts, calls of tools and code"
    ),
]

# A format that no encoder has is refused later, with the list of formats: this schema lists them for readers.
ResponseFormat = Annotated[
    UnicodeText | None,
    Field(
        description="encoding of the audio; `srt` and `vtt` are subtitles in its place; default: what `Accept` names, "
        "else the setting `default_format`",
        json_schema_extra={"enum": [*FORMATS, *SUBTITLE_FORMATS, None]},
    ),
]


def _sampling_last(schema: dict[str, Any]) -> None:
    """Put the inherited fields after the own ones: pydantic describes a base class first."""
    properties = schema["properties"]
    for name in (*SpeechFields.model_fields, *LexiconFields.model_fields, *SAMPLING_RANGES):
        if name in properties:
            properties[name] = properties.pop(name)
    if "inputs" in properties:
        lines = [{"text": "Shall we go?", "voice": "am_michael"}, {"text": "Yes. It is fine.", "voice": "af_heart"}]
        schema["examples"] = [{"inputs": lines, "response_format": "mp3"}]
    else:
        schema["examples"] = [{"input": "Hello! How are you today?", "voice": "alloy", "response_format": "mp3"}]


class LexiconFields(OptionalFields):
    """Pronunciations of a request. Those of `lexicon` count first, then `lexicons` in order, then the server's own."""

    lexicons: Annotated[
        tuple[UnicodeText, ...], Field(max_length=8, description="ids of GET /v1/lexicons, the first to be asked first")
    ] = ()
    lexicon: Annotated[
        dict[UnicodeText, UnicodeText],
        Field(max_length=1_000, description="word or phrase to `/phonemes/` in IPA, or to the words to speak for it"),
    ] = Field(default_factory=dict)


class VoiceReference(BaseModel):
    """OpenAI's object form of a voice."""

    model_config = ConfigDict(extra="forbid")
    id: UnicodeText


Pauses = Annotated[
    dict[PauseKind, Annotated[float, Field(strict=True, ge=0, le=10, allow_inf_nan=False)]],
    Field(
        description="seconds of silence between two sentences (`sentence`) and paragraphs (`paragraph`) at speed 1; "
        "default: the setting `pauses`"
    ),
]
VoiceMarks = Annotated[StrictBool, Field(description="`[voice:NAME]` changes the voice, if there is one of that name")]


class OptionFields(LexiconFields, SamplingFields):
    """Options of speech that bodies and messages have under the same names: those of SpeechOptions, and its form."""

    model: Annotated[
        UnicodeText | None, Field(description="a name of GET /v1/models; tts-1 and its like mean the default")
    ] = None
    speed: Annotated[Speed, Field(description="1 is normal")] = 1.0
    lang: Annotated[UnicodeText | None, Field(description="BCP-47 tag; default: the voice's language")] = None
    any_language: Annotated[
        StrictBool, Field(description="speak `lang`, or `translate_to`, though the model was not made for it")
    ] = False
    seed: Seed = 0
    sample_rate: Annotated[StrictInt | None, Field(description="Hz, 8000 to 48000; default: the model's")] = None
    cache: Annotated[
        StrictBool, Field(description="take sentences from the speech cache, and put them there, if the server has one")
    ] = True
    verify: Annotated[
        Literal["off", "report", "retry"],
        Field(description="have a recognizer hear each sentence; `retry`: speak it again where words are wrong"),
    ] = "off"
    pauses: Pauses = Field(default_factory=dict)
    translate_to: Annotated[UnicodeText | None, Field(description="translate first, into this language")] = None
    source: Annotated[UnicodeText | None, Field(description="the language of `input`; absent or auto: detected")] = None
    translate_model: Annotated[UnicodeText | None, Field(description="a translation model of GET /v1/models")] = None


class SpeechFields(OptionFields):
    """Manner and form of the speech in a request, whatever is said."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_sampling_last)

    response_format: ResponseFormat = None
    stream_format: Annotated[
        Literal["audio", "sse"], Field(description="`sse`: server-sent events with the audio in base64")
    ] = "audio"


class SpeechBody(SpeechFields):
    """`POST /v1/audio/speech`: OpenAI's request, with `lang`, `seed`, `sample_rate` and others added.

    Other clients of OpenAI's API have parameters of their own: unknown ones change nothing, and `x-ignored` names them.
    """

    model_config = ConfigDict(extra="allow")

    input: Annotated[
        UnicodeText,
        Field(
            description="the text, in which `[word](/ipa/)`, `[pause:0.5s]` and `[voice:NAME]` are understood; or SSML"
        ),
    ]
    input_type: InputType = "auto"
    voice: Annotated[
        UnicodeText | VoiceReference | None,
        Field(description="an id of GET /v1/audio/voices, or one of OpenAI's names; default: the model's"),
    ] = None
    voice_marks: VoiceMarks = True

    @property
    def voice_name(self) -> str | None:
        """Name of the voice, given as a string or as an object."""
        return self.voice.id if isinstance(self.voice, VoiceReference) else self.voice


class DialogueLine(BaseModel):
    """Line of one speaker."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[UnicodeText, Field(description="the words; SSML if the root is `<speak>`")]
    voice: Annotated[
        UnicodeText | VoiceReference,
        Field(description="an id of GET /v1/audio/voices, one of OpenAI's names, or `MODEL/VOICE`"),
    ]


class DialogueBody(SpeechFields):
    """`POST /v1/audio/dialogue`: lines that several voices speak in turn. Unknown parameters are refused."""

    inputs: Annotated[
        list[DialogueLine], Field(fail_fast=True, min_length=1, max_length=1_000, description="the lines in order")
    ]


class PhonemesBody(LexiconFields):
    """`POST /v1/phonemes`. Unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"input": "Dr. Lee paid $5 on Dec 3."}]})

    input: Annotated[
        UnicodeText,
        Field(description="the text, in which `[word](/ipa/)` and `[pause:0.5s]` are understood; or SSML"),
    ]
    input_type: InputType = "auto"
    lang: Annotated[UnicodeText | None, Field(description="BCP-47 tag; default: the voice's language")] = None
    model: Annotated[UnicodeText | None, Field(description="a model of GET /v1/models that reads phonemes")] = None
    voice: Annotated[UnicodeText | None, Field(description="its language is used where `lang` is absent")] = None
    voice_marks: VoiceMarks = True
    any_language: Annotated[StrictBool, Field(description="read `lang` though the model was not made for it")] = False


class TokenEntry(BaseModel):
    """Characters of the text, the words that speak them, and their phonemes.

    `source` names the origin of the reading: a rule that rewrites text (`money`, `abbreviation`, `rewritten`, ...),
    `lexicon`, `dictionary`, `espeak`, `letters` (spelled), `markup` (given in the text), or `punctuation`.
    """

    text: Annotated[str, Field(description="characters of `input`")]
    spoken: Annotated[str, Field(description="the words that speak them")]
    phonemes: Annotated[str, Field(description="their phonemes, as the model reads them")]
    source: Annotated[str, Field(description="origin of the reading: a rule such as `money`, `lexicon`, `espeak`, ...")]


class PhonemesReply(BaseModel):
    """Answer to `POST /v1/phonemes`: all words, all phonemes, and both token by token."""

    spoken: Annotated[str, Field(description="all words")]
    phonemes: Annotated[str, Field(description="all phonemes")]
    tokens: list[TokenEntry]


class VoiceEntry(BaseModel):
    """Voice: a model's own (`builtin`), or one made from a recording (`cloned`).

    `language` of a cloned voice is null if its upload names none. `model` is one that speaks in it, null if the request
    names none; `languages` are all that this model was made for, the usual one first. Cloned voices have `created_at`,
    in seconds since 1970, and `duration`, in seconds of the recording.
    """

    id: str
    name: str
    language: str | None
    gender: str | None
    model: str | None
    languages: list[str] | None = None
    object: Literal["voice", "audio.voice"] = "voice"
    kind: Literal["builtin", "cloned"] = "builtin"
    created_at: int | None = None
    duration: float | None = None
    type: Literal["audio_sample"] | None = None


class VoiceUpload(BaseModel):
    """`POST /v1/audio/voices`, as multipart/form-data."""

    name: Annotated[str, Field(min_length=1, max_length=100, description="a label; several voices may bear it")]
    audio_sample: Annotated[
        bytes,
        Field(
            description="the recording; also accepted as `audio` or `file`",
            json_schema_extra={"type": "string", "format": "binary"},
        ),
    ]
    consent: Annotated[Literal["true"], Field(description="the speaker agrees to being cloned")]
    language: Annotated[str | None, Field(description="BCP-47 tag of what the speaker speaks")] = None
    gender: Literal["female", "male"] | None = None


class VoiceDeleted(BaseModel):
    """Answer to `DELETE /v1/audio/voices/{voice_id}`."""

    id: str
    object: Literal["audio.voice"] = "audio.voice"
    deleted: Literal[True] = True


class VoiceList(BaseModel):
    """List of voices, twice: Open WebUI reads `voices`, OpenAI's clients `data`."""

    object: Literal["list"] = "list"
    voices: list[VoiceEntry]
    data: list[VoiceEntry]


class LoadProgress(BaseModel):
    """Progress of a load: `step` is load (files to arrays) or warm (`done` of `total` shapes, `name` the last one).

    `seconds` are those since the load began; 0: it waits for its turn.
    """

    step: Literal["load", "warm"]
    name: str | None = None
    done: int = 0
    total: int | None = None
    seconds: float


class LoadingEvent(BaseModel):
    """Server-sent event of a request that waits for a model: `done` of `total` shapes are warm."""

    type: Literal["model.loading"] = "model.loading"
    model: str
    done: int
    total: int | None


class ModelEntry(BaseModel):
    """Model of the catalog. `status`: ready, loading, available (on disk, not loaded), unloading, absent or failed.

    `progress` is that of a load, `error` the reason why it failed. `requests` counts the requests and sockets that use
    the model. It is unloaded after `idle_unload_seconds` without them; 0: never. A model that was loaded has
    `memory_bytes`, measured while it was loaded; `parameters` that it takes besides voice, speed and
    seed; and `languages` that it was made for: to speak, to translate from or to, or to recognize. A `cloning` model
    speaks in the voice of a recording. `preloaded` models are loaded at start. `default` models answer requests that
    name none: one speaks, one translates, one recognizes speech. `install_hint` of an absent model says how to install
    it; `install_command` is the command, null if there is none.
    """

    id: str
    name: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "nightingale"
    kind: ModelKind
    status: str
    default: bool
    description: str
    license: str
    commercial_use: bool
    aliases: list[str]
    cloning: bool = False
    preloaded: bool = False
    memory_bytes: int | None = None
    progress: LoadProgress | None = None
    error: str | None = None
    requests: int = 0
    idle_unload_seconds: float = 0.0
    parameters: list[str] | None = None
    install_command: str | None = None
    install_hint: str | None = None
    languages: list[str] | None = None


class ModelList(BaseModel):
    """List of models, twice, as in VoiceList.

    `device` names the processor or GPU. `kernels` has the instructions and threads of the native kernels, such as
    "avx512, 2 threads"; "mlx" where MLX computes alone. Both are null until a model is loaded. `memory_used` are the
    bytes of the models that are loaded; `memory_budget` is the setting, null: any.
    """

    object: Literal["list"] = "list"
    models: list[ModelEntry]
    data: list[ModelEntry]
    device: str | None = None
    kernels: str | None = None
    memory_used: int = 0
    memory_budget: int | None = None


class LexiconItem(BaseModel):
    """Entry of a lexicon: `phonemes` of the models, or an `alias` that is read in its place."""

    grapheme: str
    phonemes: str = ""
    alias: str = ""


class LexiconSummary(BaseModel):
    """Uploaded lexicon. `created_at` in seconds since 1970; `language` null: it holds for every language."""

    id: str
    object: Literal["lexicon"] = "lexicon"
    name: str
    created_at: int
    language: str | None
    count: int


class LexiconDetail(LexiconSummary):
    """Uploaded lexicon with its entries."""

    entries: list[LexiconItem]


class LexiconList(BaseModel):
    """List of uploaded lexicons."""

    object: Literal["list"] = "list"
    data: list[LexiconSummary]


class LexiconDeleted(BaseModel):
    """Answer to `DELETE /v1/lexicons/{lexicon_id}`."""

    id: str
    object: Literal["lexicon"] = "lexicon"
    deleted: Literal[True] = True


class LexiconUpload(BaseModel):
    """`POST /v1/lexicons`, as multipart/form-data."""

    file: Annotated[
        bytes,
        Field(description="PLS, or lines of two columns", json_schema_extra={"type": "string", "format": "binary"}),
    ]
    name: Annotated[str | None, Field(max_length=100, description="a label; default: the file's name")] = None
    language: Annotated[str | None, Field(description="BCP-47 tag, where the file names none")] = None


class TranslateBody(OptionalFields):
    """`POST /v1/translate`. Unknown parameters are refused."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "Where is the train station?", "target": "fr"}]}
    )

    text: Annotated[
        UnicodeText | Annotated[list[UnicodeText], Field(fail_fast=True)], Field(description="one text, or several")
    ]
    target: Annotated[UnicodeText, Field(description="FLORES-200 code, ISO 639 code, BCP-47 tag or English name")]
    source: Annotated[UnicodeText | None, Field(description="likewise; absent or 'auto': detected")] = None
    model: Annotated[UnicodeText | None, Field(description="a translation model of GET /v1/models")] = None
    num_beams: Annotated[StrictInt, Field(ge=1, le=8, description="hypotheses that the search keeps")] = 1
    alternatives: Annotated[StrictInt, Field(ge=0, le=7, description="further translations to return")] = 0
    glossary: Annotated[dict[UnicodeText, UnicodeText], Field(description="source term to what must stand for it")] = (
        Field(default_factory=dict)
    )
    format: Annotated[Literal["text", "markdown", "html"], Field(description="markup to keep as it is")] = "text"
    stream: Annotated[StrictBool, Field(description="server-sent events, sentence by sentence")] = False

    @property
    def texts(self) -> list[str]:
        """List of the texts, given as one string or as several."""
        return [self.text] if isinstance(self.text, str) else self.text


class AlternativeEntry(BaseModel):
    """Another translation; `score` is its mean log-probability per token, null where it was not computed."""

    text: str
    score: float | None


class Detected(BaseModel):
    """Detected language of a text; `confidence` in [0, 1]."""

    language: str
    code: str
    confidence: float


class TranslationEntry(BaseModel):
    """Translation of one text. `source` and `target` are BCP-47 tags; `source` is null where no language was needed."""

    text: str
    source: str | None
    target: str
    detected: Detected | None = None
    alternatives: list[AlternativeEntry] = Field(default_factory=list)


class TranslationUsage(BaseModel):
    """Tokens read and written, and characters of the texts sent."""

    source_tokens: int
    target_tokens: int
    total_tokens: int
    characters: int


class TranslationReply(BaseModel):
    """Answer to `POST /v1/translate`: the texts in the order in which they were sent."""

    object: Literal["translation"] = "translation"
    model: str
    translations: list[TranslationEntry]
    usage: TranslationUsage


class SentenceEvent(BaseModel):
    """Sentence `sentence` of text `text`, translated `seconds` after the request arrived."""

    type: Literal["translation.sentence"] = "translation.sentence"
    text: int
    sentence: int
    source_text: str
    translated_text: str
    alternatives: list[AlternativeEntry]
    seconds: float


class TranslationDoneEvent(BaseModel):
    """End of a stream: the fields of TranslationReply, and the seconds of each stage."""

    type: Literal["translation.done"] = "translation.done"
    model: str
    translations: list[TranslationEntry]
    usage: TranslationUsage
    stages: dict[str, float]
    total: float


class Readiness(BaseModel):
    """`GET /readyz`: progress of each model to be served, and of the lexicons."""

    status: Literal["ready", "starting", "draining", "failed"]
    models: list[dict[str, Any]]
    text: Literal["loading", "ready", "failed"]
