"""Each surface of the server as a small client, for the contract that all of them keep: see test_contract.py.

A surface asks for work whose model behaves in a manner: `steady`, `held` (it waits at its gate), `half` (it waits after
the first piece of the answer), `fails` or `half fails`. A new surface is one more row of `SURFACES`.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket as sockets
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import httpx
import soundfile
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.app.audio.recordings import tone, written
from tests.app.server.wyoming.clients import Client, connected

PATIENCE = 60.0
RATE = 16_000
# The first sentence is spoken while the second one waits.
TEXT = "This is the first sentence. Here comes the second one."
# Two seconds and a half: three segments of the stand-in recognizer.
RECORDING = written(tone(2.5, RATE), RATE)
# 5.6 seconds of speech with a pause in the middle: where voices are detected, a tone is not heard.
SPOKEN, _ = soundfile.read(Path(__file__).parents[2] / "golden" / "spoken.ogg", dtype="float32")
PCM = (SPOKEN * 32_767).astype("<i2").tobytes()

Manner = Literal["steady", "held", "half", "fails", "half fails"]
Kind = Literal["speech", "translation", "recognition", "interpretation"]
# The voice of the stand-in synthesizer, the text for the translator, and the prompt for the recognizer.
VOICES = {
    "steady": "steady", "held": "gated", "half": "gated_second", "fails": "broken", "half fails": "breaks_second",
}  # fmt: skip
TEXTS = {
    # More than a batch.
    "held": "A gated one. " + " ".join(f"Number {n}." for n in range(40)),
    "steady": "First one. Second one.",
    "half": "First one. Second gated one.",
    "fails": "A broken one.",
    "half fails": "First one. A broken one.",
}
PROMPTS = {"steady": "", "held": "gated", "half": "gated", "fails": "broken", "half fails": "broken"}


class RefusedError(Exception):
    """The answer is an error: its code in small letters, its words, the parameter, and the HTTP status."""

    status = 0
    # Code of the close that follows, where the message tells it.
    close: int | None = None

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(f"{code}: {message}")
        assert message
        self.code, self.message, self.param = code.lower(), message, param


class BrokenOffError(Exception):
    """The connection ended in the middle of an answer."""


def openai_error(body: dict[str, Any]) -> RefusedError:
    assert set(body["error"]) == {"message", "type", "param", "code", "request_id"}, body
    assert body["error"]["request_id"]
    return RefusedError(body["error"]["code"], body["error"]["message"], body["error"]["param"])


def elevenlabs_error(body: dict[str, Any]) -> RefusedError:
    detail = body["detail"]
    assert {"status", "message", "param", "request_id"} <= set(detail)
    return RefusedError(detail["status"], detail["message"])


def deepgram_error(body: dict[str, Any]) -> RefusedError:
    assert set(body) == {"err_code", "err_msg", "request_id"}
    assert body["request_id"]
    return RefusedError(body["err_code"], body["err_msg"])


def libretranslate_error(body: dict[str, Any]) -> RefusedError:
    assert set(body) == {"error"} and isinstance(body["error"], str)
    return RefusedError("", body["error"])


class Conversation:
    """One request under way, or one that was refused before it began."""

    def __init__(self, refused: RefusedError | None = None) -> None:
        self._refused = refused

    def first(self) -> None:
        """Wait for the first piece of the answer."""
        self._check()

    def answer(self) -> bytes:
        """Return the whole answer. Raises RefusedError, and BrokenOffError."""
        self._check()
        return b""

    def end(self) -> int:
        """Return the code with which the server closes the connection of a socket."""
        raise NotImplementedError

    def break_off(self) -> None:
        """End the connection without a word."""

    def _check(self) -> None:
        if self._refused is not None:
            raise self._refused


def reset(connection: Any) -> None:
    connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(sockets.SHUT_RDWR)


@dataclass(frozen=True)
class Surface:
    """One surface. `label` is that of its metrics; `options` are its names of what may be chosen."""

    name: str
    kind: Kind
    label: str
    path: str
    options: dict[str, str] = field(default_factory=dict)
    # Whether it is a connection that stays open, and whether it stays open after an error.
    socket: ClassVar[bool] = False
    stays: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def model(self) -> str:
        return {"translation": "shout", "recognition": "ear"}.get(self.kind, "tone")

    def begun(self, server: Any) -> bool:
        """Whether the model works for the first request."""
        found = {"translation": server.shout.batches, "recognition": server.ear.requests}
        return bool(found.get(self.kind, server.tone.begun))

    def prepare(self, server: Any, manner: Manner) -> None:
        """Tell the recognizer what it will hear, where the work depends on it."""
        if self.kind == "interpretation":
            server.ear.says[:] = ["one is here. two is there." if "half" in manner else "one is here."]

    def chosen(self, manner: Manner, choice: dict[str, object]) -> dict[str, object]:
        """Return the options in this surface's names, with those that make the model behave in this manner."""
        defaults: dict[str, object] = {
            "speech": {"voice": VOICES[manner], "text": TEXT},
            "translation": {"text": TEXTS[manner]},
            "recognition": {"prompt": PROMPTS[manner]},
            "interpretation": {"voice": VOICES[manner]},
        }[self.kind]
        return {self.options.get(name, name): value for name, value in (defaults | choice).items()}

    @contextmanager
    def ask(self, server: Any, manner: Manner = "steady", **choice: object) -> Iterator[Conversation]:
        """Begin a request of a client that reads little at a time, and leaves at the end of the block."""
        raise NotImplementedError
        yield

    def opened(self, server: Any) -> Any:
        """Return a context with a connection on which nothing was sent; sockets only."""
        raise NotImplementedError


# HTTP.


class HttpConversation(Conversation):
    """One request on a connection of its own, which is as slow as its reader."""

    def __init__(
        self, request: httpx.Request, error: Callable[[dict[str, Any]], RefusedError], *, events: bool
    ) -> None:
        super().__init__()
        self._error, self._events = error, events
        self.connection = sockets.socket()
        self.connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4_096)
        self.connection.settimeout(PATIENCE)
        self.connection.connect((request.url.host, request.url.port))
        head = f"{request.method} {request.url.raw_path.decode()} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        self.connection.sendall(f"{head}\r\n".encode() + request.read())
        self.response = http.client.HTTPResponse(self.connection, method=request.method)
        self._begun, self._received = False, b""

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        self.response.begin()
        if self.response.status >= 400:
            refused = self._error(json.loads(self.response.read()))
            refused.status = self.response.status
            raise refused

    def first(self) -> None:
        self._begin()
        while len(self._received) <= 44:  # more than the header of a WAV file
            self._received += self.response.read1(1_000)

    def answer(self) -> bytes:
        self._begin()
        try:
            self._received += self.response.read()
        except http.client.IncompleteRead as error:
            self._received += error.partial
            assert self._received
            if self._events:
                raise self._last_event() from error
            raise BrokenOffError from error
        return self._received

    def _last_event(self) -> RefusedError:
        """Return the error that the last event of a broken stream tells."""
        # A comment may follow the error, as it tells the client at intervals that the connection lives.
        events = [each for each in self._received.decode().strip().split("\n\n") if each.startswith("data: ")]
        event = json.loads(events[-1].removeprefix("data: "))
        return openai_error({"error": event["error"] | {"request_id": "none"}})

    def break_off(self) -> None:
        reset(self.connection)


@dataclass(frozen=True)
class Http(Surface):
    """A request with an answer. `body` writes it from the options; `query` are the options of the address."""

    error: Callable[[dict[str, Any]], RefusedError] = openai_error
    body: Callable[[dict[str, Any]], dict[str, Any]] = lambda options: {"json": options}
    query: tuple[str, ...] = ()
    events: bool = False

    @contextmanager
    def ask(self, server: Any, manner: Manner = "steady", **choice: object) -> Iterator[Conversation]:
        options = self.chosen(manner, choice)
        path = self.path.format(voice=options.pop("voice", "steady") if "{voice}" in self.path else "")
        params = {name: options.pop(name) for name in self.query if name in options}
        body = self.body(options)
        if "content" in choice:
            body = {"content": choice["content"], "headers": {"content-type": "application/json"}}
        request = httpx.Request("POST", server.url + path, params=params, **body)
        conversation = HttpConversation(request, self.error, events=self.events)
        with conversation.connection, closing(conversation.response):
            yield conversation


def with_json(**more: object) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda options: {"json": {**more, **options}}


def with_lines(voice: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A dialogue with a line for each sentence; its speaker is named by `voice`."""

    def body(options: dict[str, Any]) -> dict[str, Any]:
        texts, speaker = str(options.pop("text")).replace(". ", ".\n").split("\n"), options.pop("voice")
        return {"json": {"inputs": [{"text": text, voice: speaker} for text in texts], **options}}

    return body


def with_recording(**more: object) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def body(options: dict[str, Any]) -> dict[str, Any]:
        recording = options.pop("recording", RECORDING)
        return {"data": {**more, **options}, "files": {"file": ("a.wav", recording)}}

    return body


def with_bare_recording(options: dict[str, Any]) -> dict[str, Any]:
    return {"content": options.pop("recording", RECORDING), "headers": {"content-type": "audio/wav"}}


def pieces(options: dict[str, Any], size: int = 4_095) -> Iterator[bytes]:
    """Take the recording of a request apart, in the middle of samples, too."""
    data = options.pop("recording", PCM)
    yield from (data[start : start + size] for start in range(0, len(data), size))


# WebSockets.


class SocketConversation(Conversation):
    """One socket; `read` of its surface tells what a message means: a piece of the answer, its end, or an error."""

    def __init__(self, surface: WebSocket, socket: ClientConnection) -> None:
        super().__init__()
        self._surface, self.socket = surface, socket
        self.answered = b""

    def send(self, message: dict[str, Any] | bytes | str) -> None:
        with suppress(ConnectionClosed):  # after an error that answers an earlier message, or the address
            self.socket.send(json.dumps(message) if isinstance(message, dict) else message)

    def receive(self) -> Any:
        message = self.socket.recv(timeout=PATIENCE)
        return message if isinstance(message, bytes) else json.loads(message)

    def _next(self) -> str | None:
        message = self.receive()
        meaning = self._surface.read(message)
        if meaning == "piece":
            self.answered += self._surface.content(message)
        return meaning

    def first(self) -> None:
        while not self.answered:
            self._next()

    def answer(self) -> bytes:
        while self._next() != "end":
            pass
        return self.answered

    def end(self) -> int:
        try:
            while True:
                self.socket.recv(timeout=PATIENCE)
        except ConnectionClosed:
            return self.socket.close_code or 0

    def break_off(self) -> None:
        reset(self.socket.socket)


@dataclass(frozen=True)
class WebSocket(Surface):
    """A socket on which a whole request is sent at once."""

    query: tuple[str, ...] = ()
    error: Callable[[dict[str, Any]], RefusedError] = openai_error
    socket: ClassVar[bool] = True

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        raise NotImplementedError

    def read(self, message: Any) -> str | None:
        """Return `piece` or `end`, or None for a message that is neither. Raises RefusedError."""
        raise NotImplementedError

    def content(self, message: Any) -> bytes:
        """Return the audio or the text of a piece."""
        return message if isinstance(message, bytes) else json.dumps(message).encode()

    @contextmanager
    def _connected(
        self, server: Any, path: str, params: dict[str, object], most: int | None = 1
    ) -> Iterator[ClientConnection]:
        """Connect as a client that has so many messages unread at most."""
        url = httpx.URL(server.url.replace("http", "ws", 1) + path)
        url = url.copy_merge_params({key: value for key, value in params.items() if value != ""})
        with connect(str(url), compression=None, max_queue=most, max_size=None, ping_interval=None) as socket:
            yield socket

    @contextmanager
    def opened(self, server: Any) -> Iterator[SocketConversation]:
        with self._connected(server, self.path.format(voice="steady"), {}, None) as socket:
            yield SocketConversation(self, socket)

    def _params(self, options: dict[str, object]) -> dict[str, object]:
        return {name: options.pop(name) for name in self.query if name in options}

    @contextmanager
    def ask(self, server: Any, manner: Manner = "steady", **choice: object) -> Iterator[Conversation]:
        self.prepare(server, manner)
        options = self.chosen(manner, choice)
        path = self.path.format(voice=options.pop("voice", "steady") if "{voice}" in self.path else "")
        refused = None
        try:
            context = self._connected(server, path, self._params(options))
            socket = context.__enter__()
        except InvalidStatus as error:
            refused = self.error(json.loads(error.response.body or b""))
            refused.status = error.response.status_code
        if refused is not None:
            yield Conversation(refused)
            return
        try:
            conversation = SocketConversation(self, socket)
            self.send(conversation, options)
            yield conversation
        finally:
            context.__exit__(None, None, None)


class Native(WebSocket):
    """`WS /v1/audio/stream`."""

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        text = options.pop("text")
        conversation.send({"type": "start", **options})
        conversation.send({"type": "text", "text": text})
        conversation.send({"type": "flush"})

    def read(self, message: Any) -> str | None:
        if isinstance(message, bytes):
            return "piece"
        if message["type"] == "error":
            raise RefusedError(message["error"]["code"], message["error"]["message"])
        return "end" if message["type"] == "done" else None


class ElevenLabs(WebSocket):
    """ElevenLabs' sockets of speech: of one context, or of several."""

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        several = {"context_id": "a"} if "multi" in self.path else {}
        conversation.send({"text": options.pop("text"), "flush": True, **several, **options})
        conversation.send({"close_context": True, **several} if several else {"text": ""})

    def read(self, message: Any) -> str | None:
        if message.get("error"):
            refused = RefusedError(message["error"], message["message"])
            refused.close = message["code"]
            raise refused
        return "end" if message["isFinal"] else "piece"

    def content(self, message: Any) -> bytes:
        return base64.b64decode(message["audio"])


class DeepgramSpeech(WebSocket):
    """Deepgram's `WS /v1/speak`."""

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        conversation.send({"type": "Speak", "text": options.pop("text"), **options})
        conversation.send({"type": "Flush"})

    def read(self, message: Any) -> str | None:
        if isinstance(message, bytes):
            return "piece"
        if message["type"] == "Error":
            assert message["err_msg"] == message["description"]
            raise deepgram_error({name: message[name] for name in ("err_code", "err_msg", "request_id")})
        if message["type"] == "Warning":
            raise RefusedError(message["warn_code"], message["warn_msg"])
        return "end" if message["type"] == "Flushed" else None


class DeepgramListening(WebSocket):
    """Deepgram's `WS /v1/listen`."""

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        for piece in pieces(options):
            conversation.send(piece)
        conversation.send({"type": "CloseStream"})

    def read(self, message: Any) -> str | None:
        if message["type"] == "Error":
            assert (message["variant"], message["err_msg"]) == (message["err_code"], message["description"])
            raise RefusedError(message["err_code"], message["description"])
        return {"Results": "piece", "Metadata": "end"}.get(message["type"])


class ElevenLabsListening(WebSocket):
    """ElevenLabs' `WS /v1/speech-to-text/realtime`, whose errors are kinds of messages."""

    CODES: ClassVar[dict[str, str]] = {
        "input_error": "protocol_error",
        "session_time_limit_exceeded": "idle_timeout",
        "transcriber_error": "model_failed",
    }

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        for piece in (*pieces(options), b""):
            audio = base64.b64encode(piece).decode()
            conversation.send({"message_type": "input_audio_chunk", "audio_base_64": audio, "commit": not piece})

    def read(self, message: Any) -> str | None:
        kind = message["message_type"]
        if "error" in message:
            if kind == "resource_exhausted":
                kind = "draining" if "shutting down" in message["error"] else "overloaded"
            raise RefusedError(self.CODES.get(kind, kind), message["error"])
        return "end" if kind == "committed_transcript" else "piece" if kind == "partial_transcript" else None


class Realtime(WebSocket):
    """OpenAI's `WS /v1/realtime` for transcriptions."""

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        coding = {"format": options.pop("coding")} if "coding" in options else {}
        audio = [base64.b64encode(piece).decode() for piece in pieces(options)]
        chosen = {"turn_detection": None, "transcription": options, **coding}
        conversation.send({"type": "session.update", "session": {"type": "transcription", "audio": {"input": chosen}}})
        for piece in audio:
            conversation.send({"type": "input_audio_buffer.append", "audio": piece})
        conversation.send({"type": "input_audio_buffer.commit"})

    def read(self, message: Any) -> str | None:
        if message.get("error"):
            raise RefusedError(message["error"]["code"], message["error"]["message"])
        _, _, last = message["type"].rpartition("input_audio_transcription.")
        return {"delta": "piece", "completed": "end"}.get(last)


class Interpretation(WebSocket):
    """`WS /v1/audio/interpret`."""

    def send(self, conversation: SocketConversation, options: dict[str, Any]) -> None:
        start = {
            "type": "start", "target": "fr", "source": "en", "recognition_model": "ear", "translate_model": "shout",
            "pause": None, "partials": False, "anticipate": False,
        }  # fmt: skip
        audio = list(pieces(options))
        conversation.send(start | options)
        for piece in audio:
            conversation.send(piece)
        conversation.send({"type": "end"})

    def read(self, message: Any) -> str | None:
        if isinstance(message, bytes):
            return "piece"
        if message.get("error"):
            raise RefusedError(message["error"]["code"], message["error"]["message"])
        return "end" if message["type"] == "done" else None


# Wyoming.

FORM = {"rate": RATE, "width": 2, "channels": 1}


class WyomingConversation(Conversation):
    """One connection; it is closed after an error."""

    def __init__(self, client: Client, last: str) -> None:
        super().__init__()
        self.client, self._last = client, last

    def _next(self) -> Any:
        event = self.client.read()
        if event is None:
            raise BrokenOffError
        if event.type == "error":
            raise RefusedError(event.data["code"], event.data["text"])
        return event

    def first(self) -> None:
        while self._next().type not in ("audio-chunk", "transcript-chunk"):
            pass

    def answer(self) -> bytes:
        whole = b""
        while (event := self._next()).type != self._last:
            whole += event.payload or str(event.data.get("text", "")).encode()
        return whole

    def end(self) -> int:
        assert self.client.rest() == []
        return 0

    def break_off(self) -> None:
        reset(self.client.socket)


@dataclass(frozen=True)
class Wyoming(Surface):
    """Wyoming's events on a bare connection."""

    socket: ClassVar[bool] = True

    @contextmanager
    def opened(self, server: Any) -> Iterator[Conversation]:
        with connected(server.wyoming_port) as client:
            yield WyomingConversation(client, self.path)

    @contextmanager
    def ask(self, server: Any, manner: Manner = "steady", **choice: object) -> Iterator[Conversation]:
        options = self.chosen(manner, choice)
        with connected(server.wyoming_port) as client:
            if self.kind == "speech":
                voice = {"name": options["voice"]}
                if "model" in options:
                    voice = {"name": f"{options['model']}/{options['voice']}"}
                if "language" in options:
                    voice = {"language": options["language"]}
                client.send("synthesize", text=options["text"], voice=voice)
            else:
                audio = list(pieces(options, 12_288))  # whole samples
                form = {name: options.pop(name, usual) for name, usual in FORM.items()}
                client.send("transcribe", transcript_terms=[options.pop("prompt")], **options)
                client.send("audio-start", **form)
                for piece in audio:
                    client.send("audio-chunk", piece, **form)
                client.send("audio-stop")
            yield WyomingConversation(client, self.path)


OPENAI = {"text": "input", "format": "response_format", "language": "lang"}
ELEVENLABS = {"model": "model_id", "format": "output_format"}
DEEPGRAM = {"voice": "model", "format": "encoding"}
HEARING = {"model": "model_id", "language": "language_code", "prompt": "keyterms"}
SPEAK = ("model", "encoding", "speed", "sample_rate", "bit_rate", "container")
LISTEN = ("model", "keyterm", "language", "encoding", "sample_rate", "channels")
OUTPUT: dict[str, Any] = {"error": elevenlabs_error, "query": ("output_format",)}
TO_FRENCH = with_json(source="en", target="fr")

SURFACES: tuple[Surface, ...] = (
    Http("openai", "speech", "openai", "/v1/audio/speech", OPENAI),
    Http("openai events", "speech", "openai", "/v1/audio/speech", OPENAI,
         body=with_json(stream_format="sse"), events=True),
    Http("dialogue", "speech", "openai", "/v1/audio/dialogue", OPENAI | {"text": "text"}, body=with_lines("voice")),
    Native("stream", "speech", "websocket", "/v1/audio/stream", OPENAI | {"text": "text", "format": "format"}),
    Http("elevenlabs", "speech", "elevenlabs", "/v1/text-to-speech/{voice}", ELEVENLABS, **OUTPUT),
    Http("elevenlabs stream", "speech", "elevenlabs", "/v1/text-to-speech/{voice}/stream", ELEVENLABS, **OUTPUT),
    Http("elevenlabs times", "speech", "elevenlabs", "/v1/text-to-speech/{voice}/stream/with-timestamps", ELEVENLABS,
         **OUTPUT),
    Http("elevenlabs whole", "speech", "elevenlabs", "/v1/text-to-speech/{voice}/with-timestamps", ELEVENLABS,
         **OUTPUT),
    Http("elevenlabs dialogue", "speech", "elevenlabs", "/v1/text-to-dialogue/stream", ELEVENLABS,
         body=with_lines("voice_id"), **OUTPUT),
    ElevenLabs("elevenlabs socket", "speech", "elevenlabs", "/v1/text-to-speech/{voice}/stream-input", ELEVENLABS,
               query=("output_format", "model_id")),
    ElevenLabs("elevenlabs contexts", "speech", "elevenlabs", "/v1/text-to-speech/{voice}/multi-stream-input",
               ELEVENLABS, query=("output_format", "model_id")),
    Http("deepgram", "speech", "deepgram", "/v1/speak", DEEPGRAM, error=deepgram_error, query=SPEAK),
    DeepgramSpeech("deepgram socket", "speech", "deepgram", "/v1/speak", DEEPGRAM, error=deepgram_error, query=SPEAK),
    Wyoming("wyoming", "speech", "wyoming", "audio-stop"),
    Http("translate", "translation", "translate", "/v1/translate", body=TO_FRENCH),
    Http("translate events", "translation", "translate", "/v1/translate",
         body=with_json(source="en", target="fr", stream=True), events=True),
    Http("libretranslate", "translation", "libretranslate", "/translate", {"text": "q"},
         error=libretranslate_error, body=TO_FRENCH),
    Http("transcriptions", "recognition", "openai", "/v1/audio/transcriptions", body=with_recording()),
    Http("transcription events", "recognition", "openai", "/v1/audio/transcriptions",
         body=with_recording(stream="true"), events=True),
    Http("translations", "recognition", "openai", "/v1/audio/translations", body=with_recording()),
    Http("deepgram listening", "recognition", "deepgram", "/v1/listen", {"prompt": "keyterm"},
         error=deepgram_error, body=with_bare_recording, query=LISTEN),
    DeepgramListening("deepgram listening socket", "recognition", "deepgram",
                      f"/v1/listen?encoding=linear16&sample_rate={RATE}&endpointing=5000", {"prompt": "keyterm"},
                      error=deepgram_error, query=LISTEN),
    Http("elevenlabs listening", "recognition", "elevenlabs", "/v1/speech-to-text", HEARING,
         error=elevenlabs_error, body=with_recording(model_id="scribe_v1")),
    ElevenLabsListening("elevenlabs listening socket", "recognition", "elevenlabs",
                        "/v1/speech-to-text/realtime?model_id=scribe_v2_realtime", HEARING,
                        error=elevenlabs_error, query=("model_id", "keyterms", "language_code", "audio_format")),
    Realtime("realtime", "recognition", "openai", "/v1/realtime?intent=transcription", stays=True),
    Wyoming("wyoming listening", "recognition", "wyoming", "transcript", {"model": "name"}),
    Interpretation("interpret", "interpretation", "interpret", "/v1/audio/interpret"),
)  # fmt: skip
