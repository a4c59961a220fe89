"""Settings of a deployment: parsed once, passed in, never read elsewhere.

Precedence, lowest first: the defaults below, a TOML file, environment variables (`NIGHTINGALE_<FIELD>`, and the
usual `HOST` and `PORT`). Numbers of an architecture are not here: they belong to checkpoints.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from models.private import home

PREFIX = "NIGHTINGALE_"
SETTINGS_FILE = PREFIX + "SETTINGS"
# Fields whose variables are lists with commas.
_LISTS = ("preload", "cors_origins", "allowed_hosts")
# A scheme, a host and perhaps a port (RFC 6454 section 6.2).
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s,]*")
_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([KMGT])(i)?)?B?", re.IGNORECASE | re.ASCII)
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+|\*")


PauseKind = Literal["sentence", "paragraph"]
"""What silence lies between."""
_PAUSES: dict[PauseKind, float] = {"sentence": 0.5, "paragraph": 0.9}


class SettingsError(ValueError):
    """Raised for a settings file or variable that cannot be used. One line: the key, and what is accepted."""


class ChatterboxSettings(BaseModel):
    """Options of Chatterbox."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bits: int = Field(
        default=0,
        ge=0,
        le=8,
        multiple_of=4,
        description="4 or 8 quantize the weights of the token model; 0: as they are",
    )
    cache_bits: int = Field(
        default=0, ge=0, le=8, multiple_of=4, description="4 or 8 quantize its keys and values; 0: as they are"
    )
    steps: int = Field(default=0, ge=0, le=100, description="steps of the flow-matching decoder; 0: the model's own")
    draft: str = Field(
        default="",
        max_length=1_000,
        description="what guesses the speech tokens ahead: lookup, or a folder with a smaller T3; empty: nothing",
    )


class Settings(BaseModel):
    """Choices of a deployment. Frozen; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 lets the system choose")
    wyoming_host: str = Field("127.0.0.1", min_length=1, description="address to listen on for Wyoming's clients")
    wyoming_port: int | None = Field(
        None, ge=0, le=65535, description="TCP port for them, usually 10200; 0 lets the system choose; unset: none"
    )
    allow_public: bool = Field(False, description="listen on an address that others reach without asking for keys")
    keys_file: Path | None = Field(
        None, description="TOML file of the API keys that are accepted, read again when it changes; unset: none needed"
    )
    key_characters_per_minute: int = Field(
        0, ge=0, le=1_000_000_000, description="characters a minute for a key whose entry says nothing else; 0: any"
    )
    key_streams: int | None = Field(
        None,
        ge=0,
        le=10_000,
        description="streams at once for a key whose entry says nothing else; unset: half of max_streams where there "
        "are several keys; 0: any number",
    )
    key_voices: int = Field(
        100, ge=0, le=100_000, description="cloned voices of a key whose entry says nothing else; 0: any number"
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="further names under which a server without keys may be asked; * is any"
    )
    open_metrics: bool = Field(False, description="answer /metrics without a key")
    cors_origins: tuple[str, ...] = Field(
        (), description="origins whose pages may use this server from a browser; * is any"
    )
    log_level: Literal["critical", "error", "warning", "info", "debug"] = "info"
    log_format: Literal["text", "json"] = Field("text", description="lines for people, or a JSON object a line")
    otlp_endpoint: str | None = Field(
        None, pattern="^https?://", description="OpenTelemetry collector that gets traces (extra otel); unset: none"
    )

    data_dir: Path = Field(Path(), description="where pulled models live; empty is the platform's data directory")
    default_model: str | None = Field(None, description="model used when a request names none; unset: the catalog's")
    default_voice: str | None = Field(None, description="voice used when a request names none; unset: the model's")
    default_format: str = Field("wav", description="format of /v1/audio/speech when a request names none")
    preload: tuple[str, ...] = Field((), description="models loaded at start besides the default model")
    idle_unload_seconds: dict[str, Annotated[float, Field(ge=0, le=2_592_000)]] = Field(
        {"default": 0.0},
        description="seconds without use after which a model is unloaded, 0: never; or a table of them by model, where "
        "`default` stands for the others",
    )
    memory_budget: Annotated[int, Field(ge=0, le=1 << 50)] = Field(
        0,
        description="memory for models, in bytes or as '8 GB'; the least recently used idle model is unloaded for "
        "another; 0: any",
    )
    pauses: dict[PauseKind, Annotated[float, Field(ge=0, le=10)]] = Field(
        dict(_PAUSES),
        description="seconds of silence between sentences and between paragraphs, at speed 1; a paragraph's are at "
        "least a sentence's",
    )
    loudness: Annotated[float, Field(ge=-40, le=-10)] | None = Field(
        None,
        description="loudness in LUFS to which every voice is brought (EBU R 128), such as -19; the first sentence "
        "that a voice speaks then comes once it is whole; unset: as the model speaks",
    )
    emoji: Literal["silent", "named"] = Field("silent", description="say nothing for an emoji, or its name")
    warmup: Literal["full", "none"] = Field("full", description="run every shape before readiness, or load only")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="number format of models on a GPU, and of products on a CPU with AMX; auto: bfloat16 for "
        "recognizers and translators on a GPU, and for Kokoro and the house on such a CPU; else float32",
    )
    profile: bool = Field(True, description="time the stages inside a model (costs some tenths of a millisecond)")
    speech_batch: int = Field(
        1,
        ge=1,
        le=8,
        description="sentences of several clients that Kokoro's networks compute at once, if so many wait: for a GPU; "
        "the last bits of the audio then depend on what else is spoken",
    )

    translation_model: str | None = Field(
        None, description="model that translates when a request names none; unset: one that is installed"
    )
    translation_bits: Literal["auto"] | int = Field(
        "auto",
        description="4 or 8 quantize the weights of translation models; 0: as they are; auto: 8 on a CPU with native "
        "kernels, else 0",
    )
    translation_shortlist: int = Field(
        0, ge=0, le=256_000, description="tokens a translation may be made of, per target language; 0: all"
    )

    recognition_model: str | None = Field(
        None, description="model that recognizes speech when a request names none; unset: one that is installed"
    )
    recognition_bits: Literal["auto"] | int = Field(
        "auto",
        description="4 or 8 quantize the weights of recognizers; 0: as they are; auto: 8 for a Whisper on a CPU with "
        "native kernels, which writes no more words wrong, else 0",
    )
    recognition_seconds: Annotated[float, Field(ge=1, le=36_000)] = Field(
        3_600.0, description="longest recording that is recognized, in seconds"
    )
    max_recording_bytes: int = Field(
        100 << 20, ge=1024, le=1 << 30, description="largest upload of a recording to be recognized"
    )
    recognition_gate: bool = Field(
        True, description="give no text for a recording in which no voice is detected, without asking the model"
    )
    recognition_prosody: bool = Field(
        False, description="let the tune of English speech weigh the marks of recordings again; words never change"
    )

    verification_model: str | None = Field(
        None, description="language model that is asked about sentences which a verification lets fail; unset: none is"
    )
    chatterbox: ChatterboxSettings = Field(
        ChatterboxSettings(),
        description="how Chatterbox computes: a table with bits, cache_bits, steps and draft",
    )
    watermark: Literal["auto", "perth", "none"] = Field(
        "auto", description="mark what models that ask for it speak: auto where the extra `watermark` is installed"
    )

    max_voices: int = Field(1_000, ge=0, le=100_000, description="most cloned voices kept")
    max_lexicons: int = Field(1_000, ge=0, le=100_000, description="most uploaded lexicons kept")
    max_upload_bytes: int = Field(20 << 20, ge=1024, le=1 << 30, description="largest upload of a recording")
    voice_seconds: Annotated[float, Field(ge=1, le=600)] = Field(
        30.0, description="how much of a recording is decoded and kept, in seconds"
    )
    voice_cache_bytes: int = Field(256 << 20, ge=0, description="memory for cloned voices made ready for a model")

    jobs: bool = Field(True, description="take documents to be made into audiobooks in the background (/v1/jobs)")
    max_document_bytes: int = Field(64 << 20, ge=1024, le=1 << 30, description="largest upload of a document for a job")
    max_jobs: int = Field(1_000, ge=0, le=100_000, description="most jobs kept, whatever their status")
    jobs_bytes: int = Field(20 << 30, ge=0, le=1 << 44, description="disk for all jobs, in the data directory")
    key_jobs: int = Field(100, ge=0, le=100_000, description="most jobs kept for a key; 0: any number")
    key_jobs_bytes: int = Field(5 << 30, ge=0, le=1 << 44, description="disk for the jobs of a key; 0: any amount")
    jobs_seconds: Annotated[float, Field(ge=1, le=31_536_000)] = Field(
        604_800.0, description="how long the results of a job are kept, and after that its entry in the list"
    )

    speech_cache_bytes: int = Field(
        0, ge=0, le=1 << 40, description="memory for sentences that were spoken, to be sent again; 0: none is kept"
    )
    speech_cache_disk_bytes: int = Field(
        0, ge=0, le=1 << 44, description="disk for them, in the data directory, where a restart finds them; 0: none"
    )
    speech_cache_shared: bool = Field(False, description="a key may be sent what was spoken for another")
    speech_cache_phrases: Path | None = Field(
        None, description="file of sentences, one a line, that the default voice speaks at start, to be kept"
    )

    max_input_characters: int = Field(20_000, ge=1, le=1_000_000, description="longest text of one request")
    max_translate_characters: int = Field(
        500_000, ge=1, le=10_000_000, description="longest text of one translation request, all its texts together"
    )
    max_translate_texts: int = Field(10_000, ge=1, le=100_000, description="most texts of one translation request")
    max_body_bytes: int = Field(1_048_576, ge=1024, le=1 << 30, description="largest HTTP request body")
    max_frame_bytes: int = Field(
        65_536,
        ge=1024,
        le=1 << 24,
        description="largest WebSocket message accepted; one with audio to be recognized may be 16 times as large",
    )
    queue_size: int = Field(
        64, ge=1, le=10_000, description="requests of a key waiting for first audio, or a model, before refusal"
    )
    mlx_cache_bytes: int | None = Field(
        None,
        ge=0,
        description="memory that MLX keeps for reuse; unset: none on a Linux CPU, whose C library keeps it, else "
        "1 GiB, at most an eighth of the machine's",
    )
    max_streams: int = Field(128, ge=1, le=10_000, description="requests and sockets served at once before refusal")
    max_connections: int = Field(
        1_000,
        ge=1,
        le=60_000,
        description="connections at once, fewer where the system allows fewer open files; beyond, the one that waits "
        "longest for a request is closed, and where none waits, new ones may ask /livez, /readyz and /metrics alone",
    )
    max_load: Annotated[float, Field(ge=0, le=1_000)] = Field(
        0.0, description="sum of the measured real-time factors of live streams beyond which more are refused; 0: any"
    )
    queue_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        30.0, description="how long a request waits for a model to load, and then for its first turn on it"
    )
    messages_per_second: int = Field(
        200,
        ge=1,
        le=100_000,
        description="WebSocket messages a second that a client may send, ten seconds' worth at once; each fragment and "
        "each control frame counts as one",
    )
    llm: dict[Literal["url", "key", "model"], str] = Field(
        {},
        description="server with OpenAI's Chat Completions that answers in conversations instead of a model of this "
        "one: its `url`, such as http://127.0.0.1:11434/v1, the name of its `model`, and its `key`, if it asks for one",
    )
    interruption: Literal["voice", "words"] = Field(
        "voice",
        description="what ends an answer of a conversation that is playing: a voice, at once; or words that are not "
        "its own (an echo) and say more than 'mm-hm'",
    )
    session_seconds: Annotated[float, Field(gt=0, le=604_800)] = Field(
        14_400.0, description="how long a WebSocket may last"
    )
    idle_seconds: Annotated[float, Field(gt=0, le=86_400)] = Field(60.0, description="silence that closes a WebSocket")
    head_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        10.0, description="how long the head of a request may take from its first byte, or from the connection"
    )
    body_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        20.0, description="how long a body may take in all beyond what 4 KiB a second would have brought"
    )
    stall_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        30.0, description="how long a client may read nothing before its stream is dropped"
    )
    drain_seconds: Annotated[float, Field(ge=0, le=3_600)] = Field(
        20.0, description="how long SIGTERM waits for streams to finish"
    )
    liveness_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        120.0, description="age of the model thread's heartbeat at which /livez fails"
    )

    replicas: int = Field(
        0, ge=0, le=1_000, description="processes that serve, under Ray (extra cluster); 0: this one alone, without Ray"
    )
    max_replicas: int = Field(
        0, ge=0, le=1_000, description="how many they may become, as requests need them; 0: their number is fixed"
    )
    target_streams: Annotated[float, Field(gt=0, le=10_000)] = Field(
        4.0, description="requests under way for each replica at which their number is right"
    )
    max_waiting: int = Field(
        64, ge=0, le=100_000, description="requests that wait for a replica before more are answered with 429"
    )
    replica_cpus: Annotated[float, Field(gt=0, le=1_024)] = Field(
        1.0, description="CPUs that Ray sets aside for a replica, which computes with as many threads"
    )
    replica_gpus: Annotated[float, Field(ge=0, le=64)] = Field(
        0.0, description="GPUs that Ray sets aside for a replica; with 0 it sees none"
    )
    replica_port: int = Field(
        8100, ge=1, le=64_000, description="TCP port of the first replica's own /metrics; the others' follow it"
    )
    ray_address: str | None = Field(
        None, min_length=1, description="running Ray to serve on; unset: one of its own, on this machine"
    )

    @property
    def max_audio_frame_bytes(self) -> int:
        """Largest message of a socket with audio to be recognized."""
        return 16 * self.max_frame_bytes

    @field_validator("memory_budget", mode="before")
    @classmethod
    def _parse_bytes(cls, value: object) -> object:
        return parse_bytes(value) if isinstance(value, str) else value

    @field_validator("idle_unload_seconds", "pauses", "llm", "chatterbox", mode="before")
    @classmethod
    def _parse_table(cls, value: object) -> object:
        if not isinstance(value, str) or "=" not in value:
            return value if isinstance(value, dict | BaseModel) else {"default": value}
        pairs = [part.partition("=") for part in _split(value)]
        if not all(name.strip() and seconds.strip() for name, _, seconds in pairs):
            raise ValueError("Input should be names with values, such as house=0,whisper-base=600")
        return {name.strip(): seconds for name, _, seconds in pairs}

    @field_validator("idle_unload_seconds", "pauses")
    @classmethod
    def _complete(cls, value: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        missing: Mapping[Any, float] = _PAUSES if info.field_name == "pauses" else {"default": 0.0}
        return {**missing, **value}

    @field_validator("llm")
    @classmethod
    def _check_llm(cls, value: dict[str, str]) -> dict[str, str]:
        if value and not (value.get("model") and value.get("url", "").startswith(("http://", "https://"))):
            raise ValueError("Input should have a `url`, such as http://127.0.0.1:11434/v1, and the name of a `model`")
        return value

    @field_validator("translation_bits", "recognition_bits")
    @classmethod
    def _check_bits(cls, value: Literal["auto"] | int) -> Literal["auto"] | int:
        if value not in ("auto", 0, 4, 8):
            raise ValueError("Input should be 0, 4 or 8")
        return value

    @field_validator("data_dir", "keys_file", "speech_cache_phrases")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        try:
            return None if value is None else value.expanduser()
        except RuntimeError:
            raise ValueError("the home folder that ~ stands for is not known") from None

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _HOST_NAME.fullmatch(name):
                raise ValueError("Input should be names, such as tts.example.com, without a scheme and a port")
        return tuple(name.lower().removesuffix(".") for name in value)

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin not in ("*", "null") and not _ORIGIN.fullmatch(origin):
                raise ValueError("Input should be origins, such as https://example.com, without a path")
        return tuple(origin.lower() for origin in value)


def parse_bytes(text: str) -> int:
    """Return the bytes of a size such as `8 GB`, `512 MiB` or `1000000`. Raises ValueError."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise ValueError("Input should be bytes, or a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")
    number, prefix, binary = match.group(1), match.group(2) or "", match.group(3)
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " "))


def load_settings(path: Path | str | None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read settings from `path` (or the file named by NIGHTINGALE_SETTINGS) and `environ`.

    Raises SettingsError, one line, when the file cannot be read or a value is not accepted.
    """
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    file = path if path is not None else environ.get(SETTINGS_FILE) or None
    if file is not None:
        values.update(_read_toml(Path(file)))
        origin.update(dict.fromkeys(values, str(file)))
    for key, variable, text in _variables(environ):
        values[key] = _split(text) if key in _LISTS else text
        origin[key] = f"environment variable {variable}"
    if not str(values.get("data_dir", "")).strip():
        values["data_dir"] = default_data_dir(environ)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(_one_line(error, origin)) from None


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that listens on `host`, an address or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def default_data_dir(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the platform's directory for an application's data: Application Support on macOS, XDG elsewhere."""
    user = home(environ)
    # The XDG specification has relative paths ignored.
    if platform != "darwin" and (base := Path(environ.get("XDG_DATA_HOME", ""))).is_absolute():
        return base / "nightingale"
    if user is None:
        raise SettingsError("this user has no home folder: set HOME or NIGHTINGALE_DATA_DIR to an absolute path")
    return user / ("Library/Application Support" if platform == "darwin" else ".local/share") / "nightingale"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read settings file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path} is not valid TOML: {error}") from None


def _variables(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return (field, variable, text) for each variable that is set and not empty; NIGHTINGALE_HOST beats HOST."""
    result = []
    for variable, key in (("HOST", "host"), ("PORT", "port")):
        if environ.get(variable):
            result.append((key, variable, environ[variable]))
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and variable != SETTINGS_FILE and text:
            result.append((variable.removeprefix(PREFIX).lower(), variable, text))
    return result


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _one_line(error: ValidationError, origin: Mapping[str, str]) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    where = origin.get(str(first["loc"][0]), "settings")
    if first["type"] == "extra_forbidden":
        table, _, name = key.partition("_")
        if name in ChatterboxSettings.model_fields and table == "chatterbox":
            return f"{where}: setting '{key}' is now '{name}' of the table 'chatterbox'"
        return f"{where}: unknown setting '{key}'; accepted are {', '.join(sorted(Settings.model_fields))}"
    return f"{where}: setting '{key}' is {first['input']!r}: {first['msg']}"
