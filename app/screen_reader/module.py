"""Output module: the daemon's commands, and speech by the server as audio events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection

from app.cli.server_client import ServerClient, ServerError
from app.screen_reader import message, protocol
from app.screen_reader.parameters import Parameters, Speaker, speakers
from app.screen_reader.protocol import Channel
from app.screen_reader.speech import open_socket, speak

log = logging.getLogger(__name__)

# Marks of the daemon, between sentences: it continues a paused message after one of them.
_PAUSE_MARK = "__spd_"
# Seconds to wait for the list of voices.
_LIST = 2.0
# Errors of the server that mean silence, and errors of the markup: the words are then spoken without it.
_SILENT = frozenset({"nothing_to_speak", "empty_input"})
_MARKUP = frozenset({"invalid_markup", "unsupported_language", "unknown_voice", "invalid_request"})


class OutputModule:
    """One module process, between the daemon's `channel` and the server at `url`, which may need the API key `key`.

    `voice`: name of the user's usual voice.
    """

    def __init__(self, channel: Channel, url: str, key: str | None, voice: str | None) -> None:
        self._channel = channel
        self._url, self._key = url, key
        self._voice = voice
        self._voices: list[Speaker] = []
        self._parameters = Parameters()
        self._speech: asyncio.Task[None] | None = None
        self._socket: ClientConnection | None = None
        self._begun = self._pausing = False
        self._messages: dict[str, Callable[[str, str], str]] = {
            "SPEAK": self._text,
            "CHAR": lambda text, language: message.character_message(
                text, capitals=self._parameters.capitals, language=language
            ),
            "KEY": lambda text, language: message.key_message(
                text, capitals=self._parameters.capitals, language=language
            ),
            "SOUND_ICON": lambda text, language: message.icon_message(text),
        }
        self._commands: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "STOP": self._stop,
            "PAUSE": self._pause,
            "SET": lambda: self._take_settings("203", "", self._parameters.set, "203 OK SETTINGS RECEIVED"),
            # The audio may go to the daemon, which then plays it itself.
            "AUDIO": lambda: self._take_settings(
                "207", "AUDIO ", lambda *given: given == ("audio_output_method", "server"), "203 OK AUDIO INITIALIZED"
            ),
            "LOGLEVEL": lambda: self._take_settings("207", "LOGLEVEL ", lambda *_: True, "203 OK LOGLEVEL SET"),
        }

    async def run(self) -> None:
        """Serve the daemon until it says QUIT or goes."""
        if await self._channel.read_line() != "INIT":
            self._channel.send(protocol.NOT_INITIALIZED)
            return
        # A server that is not up yet is no failure: the daemon would not try this module again.
        self._channel.send(protocol.LOADED)
        try:
            while (line := await self._channel.read_line()) is not None:
                if line == "QUIT":
                    self._channel.send(protocol.QUIT)
                    return
                await self._command(line)
        except (EOFError, ConnectionError):
            return
        finally:
            await self._cancel()

    async def _command(self, line: str) -> None:
        if line in self._messages:
            await self._take_message(line)
        elif line in self._commands:
            await self._commands[line]()
        elif line.split(" ")[:2] == ["LIST", "VOICES"]:
            await self._list_voices(*line.split()[2:4])
        elif line.split(" ", maxsplit=1)[0] == "DEBUG":
            self._debug(line.split(" ", 2)[1:])
        else:
            self._channel.send(protocol.UNKNOWN_COMMAND)

    async def _take_message(self, kind: str) -> None:
        self._channel.send(protocol.RECEIVING)
        lines = await self._channel.read_block()
        text = "\n".join(lines or ())
        if not text or (self._speech is not None and not self._speech.done()):
            self._channel.send(protocol.CANT_SPEAK)
            return
        try:
            if not self._voices:
                await self._find_voices()
            self._socket = await open_socket(self._url, self._key)
        except ServerError as error:
            log.error("%s", error)
            self._channel.send(protocol.CANT_SPEAK)
            return
        speaker = self._parameters.speaker(self._voices, self._voice)
        ssml = self._messages[kind](text, self._parameters.language(speaker))
        self._channel.send(protocol.SPEAKING)
        self._begun = self._pausing = False
        self._speech = asyncio.create_task(self._speak(self._socket, speaker, ssml))

    def _text(self, text: str, language: str) -> str:
        chosen = self._parameters
        return message.text_message(
            text,
            spelling=chosen.spelling,
            punctuation=chosen.punctuation,
            capitals=chosen.capitals,
            language=language,
        )

    async def _speak(self, socket: ClientConnection, speaker: Speaker | None, ssml: str) -> None:
        start = self._parameters.start(speaker)
        ending = protocol.STOPPED
        try:
            for number, part in enumerate(message.parts(ssml)):
                if number:
                    socket = self._socket = await open_socket(self._url, self._key)
                if await self._speak_part(socket, start, part):
                    ending = protocol.PAUSED
                    break
            else:
                ending = protocol.END
        except ServerError as error:
            log.error("%s", error)
        except Exception:
            # The daemon waits for the end of this message, whatever happens.
            log.exception("the message cannot be spoken")
        self._begin()
        self._channel.send(ending)

    async def _speak_part(self, socket: ClientConnection, start: dict[str, Any], ssml: str) -> bool:
        """Speak a document; return whether a pause ended it. Raises ServerError."""
        try:
            return await self._play(speak(socket, start, ssml))
        except ServerError as error:
            if error.code in _SILENT:
                return self._silence(ssml)
            if error.code not in _MARKUP:
                raise
            log.warning("%s; the words are spoken without markup", error)
        try:
            socket = await open_socket(self._url, self._key)
            return await self._play(speak(socket, {**start, "input": "text"}, message.plain_text(ssml)))
        except ServerError as error:
            if error.code not in _SILENT:
                raise
            return self._silence(ssml)

    async def _play(self, items: AsyncGenerator[tuple[bytes, int] | str, None]) -> bool:
        """Send audio and marks; return whether a pause ended them."""
        gain = self._parameters.gain
        async with aclosing(items) as ordered:
            async for item in ordered:
                self._begin()
                if not isinstance(item, str):
                    pcm, rate = item
                    if gain != 1:
                        pcm = (np.frombuffer(pcm, "<i2") * gain).astype("<i2").tobytes()
                    await self._channel.send_audio(pcm, self._parameters.play_rate(rate))
                    continue
                self._channel.send(protocol.mark(item))
                if self._pausing and item.startswith(_PAUSE_MARK):
                    return True
        return False

    def _silence(self, ssml: str) -> bool:
        """Pass the marks of a text without words; return False, as no pause ended it."""
        self._begin()
        for name in message.marks_of(ssml):
            self._channel.send(protocol.mark(name))
        return False

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._channel.send(protocol.BEGIN)

    async def _stop(self) -> None:
        if await self._cancel():
            self._begin()
            self._channel.send(protocol.STOPPED)

    async def _pause(self) -> None:
        # It ends at the daemon's next mark, where the daemon can continue it.
        self._pausing = True

    async def _cancel(self) -> bool:
        """End the speech under way; return whether there was one."""
        speech = self._speech
        if speech is None or speech.done():
            return False
        speech.cancel()
        await asyncio.gather(speech, return_exceptions=True)
        if self._socket is not None:
            self._socket.transport.abort()  # a task that was cancelled before it began has not closed it
        return speech.cancelled()

    async def _take_settings(self, code: str, what: str, take: Callable[[str, str], bool], accepted: str) -> None:
        self._channel.send(f"{code} OK RECEIVING {what}SETTINGS")
        lines = await self._channel.read_block()
        fault = "" if lines is not None else protocol.BAD_SYNTAX
        for line in lines or ():
            name, equals, value = line.partition("=")
            if not equals:
                fault = protocol.BAD_SYNTAX
            elif not take(name, value):
                fault = protocol.BAD_VALUE
        self._channel.send(fault or accepted)

    async def _list_voices(self, language: str = "", gender: str = "") -> None:
        try:
            await self._find_voices()
        except ServerError as error:
            log.error("%s", error)
        language, gender = language.lower().replace("_", "-"), gender.lower()
        found = [
            f"200-{each.line}"
            for each in self._voices
            if (not language or each.speaks(language)) and gender in ("", "none", each.gender)
        ]
        self._channel.send(*([*found, "200 OK VOICE LIST SENT"] if found else [protocol.CANT_LIST_VOICES]))

    async def _find_voices(self) -> None:
        try:
            async with asyncio.timeout(_LIST), ServerClient(self._url, self._key) as client:
                reply = await client.ask("GET", "/v1/audio/voices")
        except TimeoutError:
            raise ServerError(f"{self._url} did not list its voices in {_LIST:g} seconds") from None
        self._voices = speakers(reply["voices"])

    def _debug(self, words: list[str]) -> None:
        root = logging.getLogger("app.screen_reader")
        match [word.strip() for word in words]:
            case ["OFF"]:
                for handler in root.handlers[:]:
                    root.removeHandler(handler)
                    handler.close()
            case ["ON", path] if path:
                try:
                    root.addHandler(logging.FileHandler(path))
                except OSError:
                    self._channel.send("303 CANT OPEN CUSTOM DEBUG FILE")
                    return
                root.setLevel(logging.DEBUG)
            case _:
                self._channel.send(protocol.BAD_SYNTAX)
                return
        self._channel.send(f"200 OK DEBUGGING {words[0].strip()}")
