"""Items of a conversation: as clients send them, and as a model reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from app.errors import InvalidRequestError
from app.server.openai.realtime.events import new_id
from app.speech.sentence import Word

MAX_ITEM_CHARACTERS: Final = 100_000


class ConversationError(InvalidRequestError):
    """Raised for an event of the client that cannot be carried out. `code` is OpenAI's."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self._code = code

    def body(self) -> dict[str, str | None]:
        """Return the error's body with its code."""
        return super().body() | {"code": self._code}


@dataclass(slots=True)
class Item:
    """Item of the conversation. `body` is its object as clients see it.

    `words` are those of an assistant's speech, with their seconds, and `text` is what the model reads of it.
    `heard_seconds`: how much of the speech the listener heard; None: all of it.
    """

    body: dict[str, Any]
    text: str = ""
    words: list[Word] = field(default_factory=list)
    heard_seconds: float | None = None

    @property
    def id(self) -> str:
        """Id of the item."""
        return str(self.body["id"])

    @property
    def characters(self) -> int:
        """Characters that a model reads of it."""
        return len(self.text) + sum(len(self.body.get(name, "")) for name in ("name", "arguments", "output"))

    def as_message(self) -> dict[str, Any] | None:
        """Return the message that a model reads; None: there is nothing to read."""
        kind = self.body["type"]
        if kind == "function_call":
            call = {"name": self.body["name"], "arguments": self.body["arguments"]}
            tool = {"id": self.body["call_id"], "type": "function", "function": call}
            return {"role": "assistant", "content": "", "tool_calls": [tool]}
        if kind == "function_call_output":
            return {"role": "tool", "content": self.body["output"], "tool_call_id": self.body["call_id"]}
        text = self.text if self.heard_seconds is None else text_before(self.text, self.words, self.heard_seconds)
        return {"role": self.body["role"], "content": text} if text.strip() else None


def text_before(text: str, words: list[Word], seconds: float) -> str:
    """Return the part of a spoken text whose words began within so many seconds."""
    position = 0
    for word in words:
        if word.start >= seconds:
            break
        found = text.find(word.text, position)
        if found >= 0:
            position = found + len(word.text)
    return text[:position]


def read_item(given: Any) -> Item:
    """Return an item that a client made. Raises ConversationError."""
    if not isinstance(given, dict):
        raise ConversationError("invalid_value", "'item' must be a JSON object.", "item")
    item_id = given.get("id") or new_id("item")
    if not isinstance(item_id, str) or len(item_id) > 64:
        raise ConversationError("invalid_value", "'item.id' takes up to 64 characters.", "item.id")
    kind = given.get("type", "message")
    if kind in ("function_call", "function_call_output"):
        names = ("name", "arguments", "call_id") if kind == "function_call" else ("call_id", "output")
        values = {name: _text(given.get(name), f"item.{name}") for name in names}
        return Item({"id": item_id, "object": "realtime.item", "type": kind, "status": "completed", **values})
    role = given.get("role")
    if kind != "message" or role not in ("user", "assistant", "system"):
        raise ConversationError(
            "invalid_value",
            "An item is a message of 'user', 'assistant' or 'system', a 'function_call' or a 'function_call_output'.",
            "item.type" if kind != "message" else "item.role",
        )
    content = given.get("content")
    if not isinstance(content, list) or len(content) > 64:
        message = "'item.content' must be a list of parts."
        raise ConversationError("missing_required_parameter", message, "item.content")
    parts = [_part(each, role) for each in content]
    return Item(
        make_message(item_id, role, parts), "".join(part.get("text") or part.get("transcript") or "" for part in parts)
    )


def _part(given: Any, role: str) -> dict[str, Any]:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind in ("input_text", "output_text", "text"):
        text = _text(given.get("text"), "item.content.text")
        return {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    if kind in ("input_audio", "output_audio", "audio") and isinstance(given.get("transcript"), str):
        return {"type": kind, "transcript": _text(given["transcript"], "item.content.transcript")}
    raise ConversationError(
        "invalid_value",
        "A part of a message is 'input_text', 'output_text', or audio with its 'transcript'; images and recordings are "
        "not read here: append recordings to the input audio buffer.",
        "item.content.type",
    )


def _text(given: Any, param: str) -> str:
    if not isinstance(given, str) or len(given) > MAX_ITEM_CHARACTERS:
        raise ConversationError(
            "invalid_value", f"'{param}' must be a string of up to {MAX_ITEM_CHARACTERS} characters.", param
        )
    return given.encode("utf-8", "replace").decode()


def make_message(item_id: str, role: str, content: list[dict[str, Any]], status: str = "completed") -> dict[str, Any]:
    """Return the object of a message, as clients see it."""
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": status,
        "role": role,
        "content": content,
    }
