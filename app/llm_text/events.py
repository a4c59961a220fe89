"""Reader of the lines in which a language model's program or API streams its answer.

The reader detects the format of each line, so formats may be mixed:

- Claude Code's `--output-format stream-json`, with and without `--include-partial-messages`,
- Anthropic's Messages API and OpenAI's Chat Completions and Responses APIs: the events as JSON lines, or as
  server-sent events (`event:` and `data:` lines).

Only the text for the user comes out: no thinking, no tool calls and their results, no sub-agents. Events of unknown
types are skipped, as the APIs ask their clients to do.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from typing import Any, BinaryIO, Final

MAX_LINE: Final = 1_000_000
"""Longest line in bytes. A longer one is skipped."""

_CHUNK: Final = 65_536
# Messages whose partial text is kept, to recognize it when the whole message arrives.
_REMEMBERED: Final = 16
_SSE_FIELDS: Final = ("event:", "id:", "retry:", ":")


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Next fragment of the answer, of any length."""

    text: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """End of a message, or of a part of it: the text so far is complete."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Line `line` (from 1) was skipped because of `reason`."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Line `line` reports that the model or its service failed."""

    line: int
    message: str


Event = TextDelta | Boundary | Broken | Failed


class _Malformed(Exception):  # noqa: N818  (becomes a Broken)
    """A known event lacks a part."""


@dataclass(slots=True)
class _Message:
    """Message whose text arrives in parts: its text blocks by index, and how many were repeated whole."""

    id: str | None
    blocks: dict[int, list[str]] = field(default_factory=dict)
    repeated: int = 0


def read_lines(file: BinaryIO | FileIO) -> Iterator[bytes]:
    """Yield the lines of `file` as they arrive. A line longer than MAX_LINE is cut to a little more than that."""
    # Not `readline`: on a raw file it reads byte by byte, on a buffered one it cannot be interrupted.
    read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
    held = b""
    passing = False  # the rest of a line that was too long
    while chunk := read(_CHUNK):
        *lines, held = (held + chunk).split(b"\n")
        for line in lines:
            if not passing:
                yield line
            passing = False
        if passing:
            held = b""
        elif len(held) > MAX_LINE + 1:  # one may be the carriage return
            yield held[: MAX_LINE + 2]
            held, passing = b"", True
    if held:
        yield held


def read_events(lines: Iterable[bytes | str]) -> Iterator[Event]:
    """Yield the events of a stream's lines as the lines arrive. The last event is a Boundary if there was text."""
    reader = EventReader()
    for line in lines:
        yield from reader.feed(line)
    yield from reader.close()


class EventReader:
    """Turns lines into events, one line at a time."""

    def __init__(self) -> None:
        self._line = 0
        self._open = False  # text was given since the last boundary
        self._answered = False  # text was given since the last result
        self._messages: deque[_Message] = deque(maxlen=_REMEMBERED)
        self._message: _Message | None = None
        self._items: deque[tuple[object, object]] = deque(maxlen=_REMEMBERED)

    def feed(self, line: bytes | str) -> list[Event]:
        """Return the events of the next line. Never raises for its content."""
        self._line += 1
        try:
            text = _text(line)
            if text.startswith(_SSE_FIELDS):
                return []
            text = text.removeprefix("data:").strip()
            if not text:
                return []
            if text == "[DONE]":
                return self._boundary()
            return self._event(_parse(text))
        except _Malformed as error:
            return [Broken(self._line, str(error))]

    def close(self) -> list[Event]:
        """Return the events at the end of the lines."""
        return self._boundary()

    # Events of one line

    def _event(self, event: dict[str, Any]) -> list[Event]:
        kind = event.get("type")
        if event.get("parent_tool_use_id") is not None:
            return []
        if "choices" in event:
            return self._chat(event)
        if kind is None and "error" in event:
            return self._failed(event["error"])
        if not isinstance(kind, str):
            raise _Malformed("no event of Claude Code, Anthropic or OpenAI: it has neither 'type' nor 'choices'")
        if kind == "stream_event":
            return self._anthropic(_dict(event, "event"))
        if kind == "assistant":
            return self._assistant(_dict(event, "message"))
        if kind == "message" and event.get("role") == "assistant":
            return self._assistant(event)
        if kind == "result":
            return self._result(event)
        if kind.startswith("response."):
            return self._response(kind, event)
        return self._anthropic(event)

    def _anthropic(self, event: dict[str, Any]) -> list[Event]:
        kind = event.get("type")
        if kind == "message_start":
            self._message = self._begin(_dict(event, "message").get("id"))
        elif kind == "content_block_start":
            block = _dict(event, "content_block")
            if block.get("type") != "text":
                return self._boundary()
            return self._partial(event, _string(block, "text"))
        elif kind == "content_block_delta":
            delta = _dict(event, "delta")
            if delta.get("type") == "text_delta":
                return self._partial(event, _string(delta, "text"))
        elif kind == "message_stop":
            self._message = None
            return self._boundary()
        elif kind == "error":
            return self._failed(event.get("error"))
        return []

    def _begin(self, identifier: object) -> _Message:
        message = _Message(identifier if isinstance(identifier, str) else None)
        self._messages.append(message)
        return message

    def _partial(self, event: dict[str, Any], text: str) -> list[Event]:
        if self._message is None:  # its first line was lost
            self._message = self._begin(None)
        index = event.get("index")
        self._message.blocks.setdefault(index if isinstance(index, int) else 0, []).append(text)
        return self._say(text)

    def _assistant(self, message: dict[str, Any]) -> list[Event]:
        """Return the events of a whole message, or one block of it, without the text that came before."""
        events: list[Event] = []
        for text in _texts(message.get("content")):
            events += self._say(self._unsaid(message.get("id"), text))
        # Its end is not known while parts still arrive.
        return events if self._message is not None else events + self._boundary()

    def _unsaid(self, identifier: object, text: str) -> str:
        for message in reversed(self._messages):
            if identifier is not None and message.id not in (None, identifier):
                continue
            blocks = ["".join(parts) for _, parts in sorted(message.blocks.items())]
            if message.repeated >= len(blocks):
                continue
            said = blocks[message.repeated]
            message.repeated += 1
            # If a part was lost, the beginnings differ. A gap is better than a repetition.
            return text[len(said) :] if text.startswith(said) else ""
        return text

    def _result(self, event: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        text = event.get("result")
        if event.get("is_error"):
            events += self._failed(text or event.get("errors") or event.get("subtype"))
        elif not self._answered and isinstance(text, str):
            events += self._say(text)
        events += self._boundary()
        self._answered, self._message = False, None
        return events

    def _chat(self, event: dict[str, Any]) -> list[Event]:
        choices = event["choices"]
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise _Malformed("'choices' is not a list of objects")
        if event.get("error"):
            return self._failed(event["error"])
        events: list[Event] = []
        for choice in choices:
            if choice.get("index", 0) != 0:
                continue
            said = choice.get("delta") or choice.get("message") or {}
            if not isinstance(said, dict):
                raise _Malformed("'delta' is not an object")
            for name in ("content", "refusal"):
                events += self._say("".join(_texts(said.get(name))))
            if choice.get("finish_reason") is not None:
                events += self._boundary()
        return events

    def _response(self, kind: str, event: dict[str, Any]) -> list[Event]:
        item = (event.get("item_id"), event.get("content_index"))
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._items.append(item)
            return self._say(_string(event, "delta"))
        if kind in ("response.output_text.done", "response.refusal.done") and item not in self._items:
            return self._say(_string(event, "text" if "text" in event else "refusal"))
        if kind in ("response.output_item.added", "response.output_item.done"):
            return self._boundary() if _dict(event, "item").get("type") != "message" else []
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            response = _dict(event, "response")
            events: list[Event] = []
            if kind == "response.failed":
                events = self._failed(response.get("error"))
            elif not self._answered:
                output = response.get("output")
                messages = [each for each in output if isinstance(each, dict)] if isinstance(output, list) else []
                for message in messages:
                    events += self._say("".join(_texts(message.get("content"))))
            events += self._boundary()
            self._answered = False
            return events
        return []

    # State of the answer

    def _say(self, text: str) -> list[Event]:
        if not text:
            return []
        self._open = self._answered = True
        return [TextDelta(text)]

    def _boundary(self) -> list[Event]:
        given, self._open = self._open, False
        return [Boundary()] if given else []

    def _failed(self, error: object) -> list[Event]:
        if isinstance(error, dict):
            parts = (error.get("type") or error.get("code"), error.get("message"))
            error = ": ".join(str(part) for part in parts if part)
        message = " ".join(str(error or "no reason given").split())[:500]
        return [*self._boundary(), Failed(self._line, message)]


def _text(line: bytes | str) -> str:
    if len(line.rstrip(b"\r\n") if isinstance(line, bytes) else line.rstrip("\r\n")) > MAX_LINE:
        raise _Malformed(f"longer than {MAX_LINE:,} bytes")
    if isinstance(line, bytes):
        try:
            line = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _Malformed(f"not UTF-8 (byte {error.start})") from None
    return line.removeprefix("\ufeff").strip()


def _parse(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _Malformed(f"not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # numbers too long, brackets too deep
        raise _Malformed(f"not JSON that can be read: {error}") from None
    if not isinstance(value, dict):
        raise _Malformed("not a JSON object")
    return value


def _dict(event: dict[str, Any], name: str) -> dict[str, Any]:
    value = event.get(name)
    if not isinstance(value, dict):
        raise _Malformed(f"'{name}' of '{event.get('type')}' is not an object")
    return value


def _string(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str):
        raise _Malformed(f"'{name}' of '{event.get('type')}' is not text")
    return value


def _texts(content: object) -> list[str]:
    """Return the texts of a message's content, which is text or a list of blocks."""
    if content is None or isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        raise _Malformed("'content' is neither text nor a list")
    blocks = [block for block in content if isinstance(block, dict)]
    return [_string(block, "text") for block in blocks if block.get("type") in ("text", "output_text")]
