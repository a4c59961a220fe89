"""Protocol of speech-dispatcher's output modules: lines on standard input and output.

See "Communication Protocol for Output Modules" of its manual, release 0.11 or newer. Audio goes to the daemon as
events.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Iterator

from app.cli.command import CommandError

# Bytes of one line, and of one message.
_LINE = 1 << 20
MAX_MESSAGE = 1 << 20
# Bytes of audio in one event: the daemon can stop or pause between two.
_AUDIO = 9_600
# Escaping of HDLC: the escape itself first.
_ESCAPES = ((b"\x7d", b"\x7d\x5d"), (b"\n", b"\x7d\x2a"))

LOADED = "299-Nightingale\n299 OK LOADED SUCCESSFULLY"
NOT_INITIALIZED = "399-the first line is not INIT\n399 ERR CANT INIT MODULE"
RECEIVING = "202 OK RECEIVING MESSAGE"
SPEAKING = "200 OK SPEAKING"
CANT_SPEAK = "301 ERROR CANT SPEAK"
BAD_SYNTAX = "302 ERROR BAD SYNTAX"
BAD_VALUE = "303 ERROR INVALID PARAMETER OR VALUE"
CANT_LIST_VOICES = "304 CANT LIST VOICES"
UNKNOWN_COMMAND = "300 ERR UNKNOWN COMMAND"
QUIT = "210 OK QUIT"
BEGIN, END, STOPPED, PAUSED = "701 BEGIN", "702 END", "703 STOP", "704 PAUSE"


def mark(name: str) -> str:
    """Return the event of an index mark."""
    return f"700-{name}\n700 INDEX MARK"


def audio_events(pcm: bytes, sample_rate: int) -> Iterator[bytes]:
    """Yield the events that carry `pcm`, samples of 16 bits, little-endian, one channel."""
    for start in range(0, len(pcm), _AUDIO):
        part = pcm[start : start + _AUDIO]
        form = {"bits": 16, "num_channels": 1, "sample_rate": sample_rate}
        form |= {"num_samples": len(part) // 2, "big_endian": 0}
        head = "".join(f"705-{name}={value}\n" for name, value in form.items())
        for plain, escaped in _ESCAPES:
            part = part.replace(plain, escaped)
        yield head.encode() + b"705-AUDIO\0" + part + b"\n705 AUDIO\n"


class Channel:
    """Lines from the daemon, and answers and events to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read_line(self) -> str | None:
        """Return the next line without its end; None: the daemon has gone. A line that is too long is "?"."""
        try:
            line = await self._reader.readline()
        except ValueError:
            return "?"
        return line.decode("utf-8", errors="replace").rstrip("\r\n") if line.endswith(b"\n") else None

    async def read_block(self) -> list[str] | None:
        """Return the lines up to a dot, without the dots that protect dots. Raises EOFError.

        None: they are more than MAX_MESSAGE bytes, or not UTF-8.
        """
        lines: list[str] | None = []
        left = MAX_MESSAGE
        while True:
            try:
                raw = await self._reader.readline()
            except ValueError:
                lines = None
                continue
            if not raw.endswith(b"\n"):
                raise EOFError
            if raw in (b".\n", b".\r\n"):
                return lines
            left -= len(raw)
            if lines is not None and left >= 0:
                try:
                    lines.append(raw.removeprefix(b".").decode("utf-8").rstrip("\r\n"))
                    continue
                except UnicodeDecodeError:
                    pass
            lines = None

    def send(self, *lines: str) -> None:
        """Queue lines; each call is written as a whole."""
        self._writer.write("".join(f"{line}\n" for line in lines).encode())

    async def send_audio(self, pcm: bytes, sample_rate: int) -> None:
        """Send samples as the daemon takes them."""
        for event in audio_events(pcm, sample_rate):
            self._writer.write(event)
            await self._writer.drain()

    async def flush(self) -> None:
        """Wait until the daemon takes more. Raises ConnectionError when it has gone."""
        await self._writer.drain()


async def open_standard_channel() -> Channel:
    """Return the channel on standard input and output. Raises CommandError where these are no pipes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE)
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
            raise ValueError("asyncio would find out later")
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), sys.stdout
        )
    except (ValueError, OSError):
        raise CommandError(
            "speech-dispatcher starts this command with pipes as standard input and output; --install makes it do so"
        ) from None
    return Channel(reader, asyncio.StreamWriter(transport, protocol, None, loop))
