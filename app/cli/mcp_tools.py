"""Tools of `nightingale mcp`: speak, translate, list_voices and transcribe, each a request to the server.

Files are read and written only in the folders that the user named. A failure is an error of the tool, for the
assistant to read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

import numpy as np
from mcp.server.mcpserver import Audio, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from app import __version__
from app.cli.playback import PlaybackError, open_player
from app.cli.server_client import ServerClient, ServerError
from models.contract import MAX_SPEED, MIN_SPEED, Pcm
from models.files import open_file

P = ParamSpec("P")
T = TypeVar("T")

AudioFormat = Literal["wav", "mp3", "flac", "opus", "aac"]
_MEDIA_TYPES = {"wav": "wav", "mp3": "mpeg", "flac": "flac", "opus": "ogg", "aac": "aac"}
# Bytes of audio in an answer, which becomes a third longer in base64; and bytes of a file.
MAX_INLINE = 8 << 20
MAX_FILE = 256 << 20
_NAME = 200
_INSTRUCTIONS = (
    "Speech, translation and speech recognition by a Nightingale server on the user's own machine or network. "
    "`list_voices` tells the voices that `speak` takes."
)

Text = Annotated[str, Field(min_length=1, description="the text; the server bounds its length")]
Language = Annotated[str | None, Field(description="BCP-47 tag, such as en-us; default: the voice's language")]


class VoiceResult(BaseModel):
    """Voice of the server."""

    id: str
    name: str
    language: str | None = None
    gender: str | None = None
    model: str | None = None


class Voices(BaseModel):
    """List of voices."""

    voices: list[VoiceResult]


class TranslationResult(BaseModel):
    """Translation of a text. `source` is null where no language was needed."""

    text: str
    source: str | None
    target: str
    model: str


class TranscriptResult(BaseModel):
    """Text of a recording."""

    text: str


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders that the tools may use; None: no file may be written, or read."""

    output: Path | None
    input: Path | None

    def new(self, name: str) -> Path:
        """Return the path of a new file in the folder of the output. Raises ToolError."""
        if self.output is None:
            raise ToolError("files cannot be written: the user has to start this server with --output FOLDER")
        if not name or name != Path(name).name or name.startswith(".") or len(name) > _NAME or not name.isprintable():
            raise ToolError(f"'{name[:_NAME]}' is not the plain name of a file: no folders, no dot at the beginning")
        path = self.output / name
        if os.path.lexists(path):
            raise _exists(path)
        return path

    def read(self, name: str, limit: int) -> bytes:
        """Return the bytes of a file in the folder of the input. Raises ToolError."""
        if self.input is None:
            raise ToolError("files cannot be read: the user has to start this server with --input FOLDER")
        try:
            root = self.input.resolve()
            path = (root / name).resolve(strict=True)
            if not path.is_relative_to(root):
                raise ToolError(f"'{name[:_NAME]}' lies outside the folder of the recordings")
            # No link that has appeared since.
            with open_file(path, flags=os.O_NOFOLLOW) as file:
                data = file.read(limit + 1)
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or "no such file"
            raise ToolError(f"'{name[:_NAME]}' cannot be read: {reason}") from None
        return checked(data, limit)


def _exists(path: Path) -> ToolError:
    return ToolError(f"'{path.name}' exists; give another name")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def checked(data: bytes, limit: int) -> bytes:
    """Return a recording. Raises ToolError where it is empty or too large."""
    if not data:
        raise ToolError("the recording is empty")
    if len(data) > limit:
        raise ToolError(f"the recording is too large; at most {limit} bytes are read (max_recording_bytes)")
    return data


def _reported(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return `tool` with the failures that may come as errors of the tool."""

    @wraps(tool)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except (ServerError, PlaybackError) as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(error.strerror or str(error)) from error

    return wrapper


class Tools:
    """The four tools. `play`: speech is played on this machine's loudspeaker."""

    def __init__(self, client: ServerClient, folders: Folders, *, play: bool, max_recording_bytes: int) -> None:
        self._client = client
        self._folders = folders
        self._play = play
        self._max_recording_bytes = max_recording_bytes
        self._loudspeaker = asyncio.Lock()

    def server(self) -> MCPServer[Any]:
        """Return an MCP server with the tools."""
        server: MCPServer[Any] = MCPServer(
            "nightingale",
            title="Nightingale",
            version=__version__,
            instructions=_INSTRUCTIONS,
            log_level="ERROR",
        )
        reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        # It makes sound or a new file, and changes nothing that exists.
        adds = ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
        )
        server.add_tool(_reported(self.speak), annotations=adds, structured_output=False)
        server.add_tool(_reported(self.translate), annotations=reads)
        server.add_tool(_reported(self.list_voices), annotations=reads)
        server.add_tool(_reported(self.transcribe), annotations=reads)
        return server

    async def speak(
        self,
        text: Text,
        voice: Annotated[str | None, Field(description="an id of list_voices; default: the server's")] = None,
        language: Language = None,
        speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED, description="1 is normal")] = 1.0,
        file: Annotated[
            str | None, Field(description="plain name of a new file in the user's folder, instead of audio here")
        ] = None,
        format: Annotated[AudioFormat, Field(description="format of the audio or file")] = "mp3",  # noqa: A002
    ) -> Any:
        """Speak a text.

        Plays it on the user's loudspeaker if the user allowed that, else returns it as audio. With `file` it writes a
        new file in the folder that the user named. The text may hold `[pause:0.5s]`, `[word](/ipa/)`, or be SSML.
        """
        body = {"input": text, "voice": voice, "lang": language, "speed": speed}
        if file is not None:
            return await self._write({**body, "response_format": format}, self._folders.new(file))
        if self._play:
            return await self._say({**body, "response_format": "pcm"})
        audio = bytearray()
        async with self._client.stream("POST", "/v1/audio/speech", json={**body, "response_format": format}) as reply:
            async for piece in reply.aiter_bytes():
                audio += piece
                if len(audio) > MAX_INLINE:
                    raise ToolError(f"the audio has more than {MAX_INLINE} bytes; give a shorter text, or a `file`")
        return Audio(data=bytes(audio), format=_MEDIA_TYPES[format])

    async def translate(
        self,
        text: Text,
        target: Annotated[str, Field(min_length=1, description="language of the translation: fr, fra_Latn, French")],
        source: Annotated[str | None, Field(description="language of the text; default: detected")] = None,
        model: Annotated[str | None, Field(description="translation model; default: the server's")] = None,
    ) -> TranslationResult:
        """Translate a text into another language."""
        body = {"text": text, "target": target, "source": source, "model": model}
        reply = await self._client.ask("POST", "/v1/translate", json=body)
        return TranslationResult(**reply["translations"][0], model=reply["model"])

    async def list_voices(
        self,
        language: Annotated[str | None, Field(description="only voices of it, such as en or en-gb")] = None,
        gender: Annotated[Literal["female", "male"] | None, Field(description="only voices of it")] = None,
    ) -> Voices:
        """List the voices that `speak` takes, with their language, gender and model."""
        reply = await self._client.ask("GET", "/v1/audio/voices")
        voices = [VoiceResult.model_validate(each) for each in reply["voices"]]
        if language is not None:
            tag = language.lower().replace("_", "-")
            voices = [each for each in voices if f"{each.language or ''}-".lower().startswith(f"{tag}-")]
        if gender is not None:
            voices = [each for each in voices if each.gender == gender]
        return Voices(voices=voices)

    async def transcribe(
        self,
        file: Annotated[str | None, Field(description="a recording in the folder that the user named")] = None,
        audio: Annotated[str | None, Field(description="or the recording itself, in base64")] = None,
        language: Annotated[str | None, Field(description="language that is spoken; default: detected")] = None,
    ) -> TranscriptResult:
        """Write down what is spoken in a recording: WAV, FLAC, MP3, Ogg, MP4 and others."""
        if (file is None) == (audio is None):
            raise ToolError("give either `file` or `audio`")
        if audio is not None:
            data = decode(audio, self._max_recording_bytes)
        else:
            data = await asyncio.to_thread(self._folders.read, file or "", self._max_recording_bytes)
        form = {"model": "whisper-1", "response_format": "json", **({} if language is None else {"language": language})}
        files = {"file": ("recording", data)}
        reply = await self._client.ask("POST", "/v1/audio/transcriptions", data=form, files=files)
        return TranscriptResult(text=reply["text"])

    async def _write(self, body: dict[str, Any], path: Path) -> str:
        async with self._client.stream("POST", "/v1/audio/speech", json=body) as reply:
            # Only now: a refused request leaves no file.
            try:
                # O_EXCL: neither a file that has appeared since nor a link is written to.
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                raise _exists(path) from None
            except OSError as error:
                raise ToolError(f"'{path.name}' cannot be written: {error.strerror}") from None
            with os.fdopen(descriptor, "wb") as file:
                try:
                    size = 0
                    async for piece in reply.aiter_bytes():
                        size += len(piece)
                        if size > MAX_FILE:
                            raise ToolError(f"the audio has more than {MAX_FILE} bytes; give a shorter text")
                        await asyncio.to_thread(file.write, piece)
                except BaseException:
                    _remove(path)
                    raise
        return f"{path.name} has been written, {size} bytes"

    async def _say(self, body: dict[str, Any]) -> str:
        # One voice at a time comes out of the loudspeaker.
        async with self._loudspeaker, self._client.stream("POST", "/v1/audio/speech", json=body) as reply:
            rate = int(reply.headers["x-sample-rate"])
            out = await asyncio.to_thread(open_player, rate)
            samples = 0
            try:
                async for pcm in _samples(reply.aiter_bytes()):
                    await asyncio.to_thread(out.write, pcm)
                    samples += pcm.size
                await asyncio.to_thread(out.close)
            except BaseException:
                out.abandon()
                raise
        return f"spoken, {samples / rate:.1f} seconds"


async def _samples(pieces: AsyncIterator[bytes]) -> AsyncIterator[Pcm]:
    """Yield 16-bit samples of bytes that are cut anywhere, as float32 in [-1, 1)."""
    rest = b""
    async for piece in pieces:
        whole = rest + piece
        even = len(whole) // 2 * 2
        rest = whole[even:]
        if even:
            yield np.divide(np.frombuffer(whole[:even], "<i2"), 32_768, dtype=np.float32)


def decode(audio: str, limit: int) -> bytes:
    """Return the recording that `audio` holds in base64. Raises ToolError."""
    if len(audio) > limit * 4 // 3 + 4:
        raise ToolError(f"the recording is too large; at most {limit} bytes are read (max_recording_bytes)")
    try:
        return checked(base64.b64decode(audio, validate=True), limit)
    except (binascii.Error, ValueError):
        raise ToolError("`audio` is not base64") from None
