"""Conversation: a session of the type `realtime` as a value.

Events of the client, of its speech and of the answers go in, effects come out. There is no I/O and no clock. It owns
the items and the responses: a response ends exactly once, and nothing of it is sent after that.

    response:  IN_PROGRESS --> completed | cancelled | incomplete | failed
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import ValidationError

from app.conversation.overlap import is_interruption
from app.errors import ServiceError
from app.generation.options import TokenCounts
from app.server.openai.realtime.config import explain, merged
from app.server.openai.realtime.conversation_config import AnswerConfig, ConversationConfig
from app.server.openai.realtime.conversation_item import ConversationError, Item, make_message, read_item, text_before
from app.server.openai.realtime.events import new_id
from app.speech.sentence import Word
from models.contract import FinishReason, ToolCall

MAX_ITEMS: Final = 2_048
MAX_CHARACTERS: Final = 1_000_000  # of the items that a client made: more than any context holds
MAX_MS: Final = 1 << 40
MAX_METADATA: Final = 16
MAX_SIDE_RESPONSES: Final = 4  # out of the conversation, at once
# What the model reads of a turn in which nobody spoke.
SILENCE: Final = "…"
# Seconds before a voice began in which the words of an answer may be its echo: the way to the listener and back.
ECHO_SECONDS: Final = 2.0
Status = Literal["in_progress", "completed", "cancelled", "incomplete", "failed"]


@dataclass(slots=True)
class Response:
    """Answer that is being given, under the configuration that it began with.

    `messages` are what the model reads; None: the text of a turn is waited for. `first_audio`: time of its first audio;
    `seconds` of audio were sent. `item`: the message that is being written, `written_at`: when it last grew.
    """

    id: str
    config: ConversationConfig
    side: bool
    metadata: dict[str, str] | None
    messages: tuple[Mapping[str, Any], ...] | None
    output: list[Item] = field(default_factory=list)
    item: Item | None = None
    first_audio: float | None = None
    seconds: float = 0.0
    written_at: float = 0.0

    @property
    def speaks(self) -> bool:
        """Whether the answer is audio."""
        return (self.config.output_modalities or ["audio"]) == ["audio"]

    @property
    def played_at(self) -> float:
        """Time at which the client has played what was sent."""
        return max(self.written_at, (self.first_audio or 0.0) + self.seconds)


@dataclass(frozen=True, slots=True)
class SendEvent:
    """Order to write an event."""

    kind: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BeginReply:
    """Order to have a response computed, and reported by `write`, `speak`, `end` and `fail`."""

    response: Response


@dataclass(frozen=True, slots=True)
class StopReply:
    """Order to stop what computes a response, and to drop what it computed."""

    response_id: str


Effect = SendEvent | BeginReply | StopReply


class Conversation:
    """Items, responses and configuration of one session."""

    def __init__(self, config: ConversationConfig, *, words_interrupt: bool = False) -> None:
        """Begin without items. `words_interrupt`: an answer that plays is not ended by a voice, but by its words."""
        self.config = config
        self._words_interrupt = words_interrupt
        # Time at which a voice began over an answer that plays, until its words tell whether they end the answer.
        self._overlap: float | None = None
        self._items: dict[str, Item] = {}
        self._order: list[str] = []
        # The one of the conversation, and those beside it, by id.
        self.active: Response | None = None
        self._side: dict[str, Response] = {}
        self._last: Response | None = None
        # Turns that ended and have no text yet: the answer waits for it.
        self._unread: set[str] = set()
        self._answer_due = False
        # Time at which silence becomes a turn.
        self.timeout_at = math.inf

    # Events of the client.

    def create_item(self, given: Any, previous: Any) -> list[Effect]:
        """Add an item that the client made. Raises ConversationError."""
        if len(self._order) >= MAX_ITEMS:
            raise ConversationError("invalid_value", f"The conversation has {MAX_ITEMS} items; delete some.", "item")
        item = read_item(given)
        if sum(each.characters for each in (item, *self._items.values())) > MAX_CHARACTERS:
            message = f"The conversation would have more than {MAX_CHARACTERS} characters; delete items."
            raise ConversationError("invalid_value", message, "item")
        if item.id in self._items:
            raise ConversationError(
                "item_create_duplicate_item_id", f"There is an item '{item.id}' already.", "item.id"
            )
        if previous is None:
            at = len(self._order)
        elif previous == "root":
            at = 0
        elif isinstance(previous, str) and previous in self._items:
            at = self._order.index(previous) + 1
        else:
            raise ConversationError("invalid_value", f"There is no item '{str(previous)[:60]}'.", "previous_item_id")
        self._items[item.id] = item
        self._order.insert(at, item.id)
        return [self._item_event(kind, item) for kind in ("added", "done")]

    def delete_item(self, item_id: Any) -> list[Effect]:
        """Forget an item. Raises ConversationError."""
        item = self._item(item_id, "item_delete_invalid_item_id")
        if self.active is not None and item in self.active.output:
            raise ConversationError("invalid_value", "The item is being written; cancel its response.", "item_id")
        del self._items[item.id]
        self._order.remove(item.id)
        self._unread.discard(item.id)
        return [SendEvent("conversation.item.deleted", {"item_id": item.id})]

    def retrieve_item(self, item_id: Any) -> list[Effect]:
        """Tell an item. Raises ConversationError."""
        item = self._item(item_id, "item_retrieve_invalid_item_id")
        return [SendEvent("conversation.item.retrieved", {"item": item.body})]

    def truncate_item(self, item_id: Any, audio_end_ms: Any) -> list[Effect]:
        """Cut an assistant's speech to what was heard. Raises ConversationError."""
        item = self._item(item_id, "item_truncate_invalid_item_id")
        if item.body.get("role") != "assistant":
            raise ConversationError("invalid_value", "Only an assistant's audio can be cut.", "item_id")
        if isinstance(audio_end_ms, bool) or not isinstance(audio_end_ms, int) or not 0 <= audio_end_ms < MAX_MS:
            raise ConversationError("invalid_value", "'audio_end_ms' must be milliseconds, 0 or more.", "audio_end_ms")
        # Never an error for one that is too long: some clients end their session on it.
        self._cut(item, audio_end_ms / 1_000)
        return [_truncated(item, audio_end_ms)]

    def create_response(self, given: Any) -> list[Effect]:
        """Begin a response. Raises ConversationError."""
        fields = {} if given is None else given
        if not isinstance(fields, dict):
            raise ConversationError("invalid_value", "'response' must be a JSON object.", "response")
        side = fields.get("conversation", "auto") == "none"
        if not side and self.active is not None:
            raise ConversationError(
                "conversation_already_has_active_response",
                f"Conversation already has an active response in progress: {self.active.id}.",
            )
        if side and len(self._side) >= MAX_SIDE_RESPONSES:
            raise ConversationError("invalid_value", f"{MAX_SIDE_RESPONSES} responses are being given.", "response")
        config = self._answer_config(fields)
        metadata = fields.get("metadata")
        if metadata is not None and not _is_metadata(metadata):
            raise ConversationError("invalid_value", f"'metadata' takes {MAX_METADATA} strings.", "response.metadata")
        given = fields.get("input")
        waits = bool(self._unread) and given is None
        messages = None if waits else self._messages(config.instructions, given)
        return self._begin(config, messages, side=side, metadata=metadata)

    def cancel_response(self, response_id: Any) -> list[Effect]:
        """End a response. Raises ConversationError."""
        response = self.active if response_id is None else self._live(str(response_id))
        if response is None:
            raise ConversationError("response_cancel_not_active", "Cancellation failed: no active response found")
        return self._finish(response, "cancelled", {"type": "cancelled", "reason": "client_cancelled"})

    # Speech of the client.

    def begin_turn(self, now: float) -> list[Effect]:
        """Note that somebody speaks. An answer that is being given ends, if the session says so."""
        self._answer_due = False
        self.timeout_at = math.inf
        if self._words_interrupt and self.config.interrupts and self.plays(now):
            self._overlap = now
            return []
        return self._interrupt(now) if self.config.interrupts else []

    def hear(self, text: str, now: float) -> list[Effect]:
        """Take a hypothesis of what is being said. Over an answer it may be an interruption."""
        return self._interrupt(now) if self._overlap is not None and self._is_interruption(text) else []

    def _is_interruption(self, text: str) -> bool:
        last = self._last
        if last is None or last.item is None or last.first_audio is None or self._overlap is None:
            return bool(text.strip())
        since = self._overlap - last.first_audio - ECHO_SECONDS
        return is_interruption(text, [word.text for word in last.item.words if word.end > since])

    def _interrupt(self, now: float) -> list[Effect]:
        """End the answer that is being given, and cut what was sent to what was heard of it."""
        self._overlap = None
        effects: list[Effect] = []
        if self.active is not None:
            effects = self._finish(self.active, "cancelled", {"type": "cancelled", "reason": "turn_detected"})
        # What was sent may still be playing, also of an answer that is whole.
        last, self._last = self._last, None
        if last is not None and last.item is not None and last.first_audio is not None:
            played = max(0.0, now - last.first_audio)
            if played < last.seconds:
                self._cut(last.item, played)
                # Clients stop playing where a voice begins, and cannot know that it was an interruption.
                if self._words_interrupt and not last.side:
                    effects.append(_truncated(last.item, round(played * 1_000)))
        return effects

    def plays(self, now: float) -> bool:
        """Return whether the client may be playing an answer."""
        return self._last is not None and self._last.first_audio is not None and now < self._last.played_at

    def end_turn(self, item_id: str) -> list[Effect]:
        """Add the item of a turn, whose text follows."""
        body = make_message(item_id, "user", [{"type": "input_audio", "transcript": None}])
        previous = self._order[-1] if self._order else None
        self._append(Item(body))
        self._unread.add(item_id)
        self._answer_due = self.config.answers_turns
        item = self._items[item_id]
        return [self._item_event(kind, item, previous) for kind in ("added", "done")]

    def time_out(self, now: float, audio_ms: int) -> list[Effect]:
        """Take silence as a turn, if it lasts since the last answer was played for as long as the session says.

        `audio_ms`: milliseconds of audio that came from the client.
        """
        if now < self.timeout_at:
            return []
        self.timeout_at = math.inf
        item_id = new_id("item")
        begin = max(0, audio_ms - (self.config.idle_timeout_ms or 0))
        spans = {"audio_start_ms": begin, "audio_end_ms": audio_ms, "item_id": item_id}
        places = {"item_id": item_id, "previous_item_id": self._order[-1] if self._order else None}
        effects: list[Effect] = [SendEvent("input_audio_buffer.timeout_triggered", spans)]
        effects.append(SendEvent("input_audio_buffer.committed", places))
        return effects + self.end_turn(item_id) + self.read_turn(item_id, SILENCE, now)

    def read_turn(self, item_id: str, text: str, now: float) -> list[Effect]:
        """Take the text of a turn. The answer begins, unless nothing was said or one is being given.

        A turn over an answer that plays is forgotten if it is its echo, or a sign of listening.
        """
        item = self._items.get(item_id)
        self._unread.discard(item_id)
        if item is None:
            return []
        item.text = text
        item.body["content"][0]["transcript"] = text
        effects: list[Effect] = []
        if self._overlap is not None:
            if not self._is_interruption(text):
                self._overlap, self._answer_due = None, False
                effects = self.delete_item(item_id)
                text = ""
            else:
                effects = self._interrupt(now)
        if self._unread:
            return effects
        begun = len(effects)
        for response in (self.active, *self._side.values()):
            if response is not None and response.messages is None:
                response.messages = self._messages(response.config.instructions, None)
                effects.append(BeginReply(response))
        if len(effects) > begun or not text.strip() or not self._answer_due:
            return effects
        self._answer_due = False
        if self.active is not None:
            return effects
        messages = self._messages(self.config.instructions, None)
        return effects + self._begin(self.config, messages, side=False, metadata=None)

    # Answers.

    def write(self, response_id: str, text: str, now: float, start: float | None = None) -> list[Effect]:
        """Add text to an answer; `start`: the second of its audio at which it begins."""
        response = self._live(response_id)
        if response is None or not text:
            return []
        effects, item = self._message_of(response)
        response.written_at = now
        item.text += text
        kind = "output_audio_transcript" if response.speaks else "output_text"
        timed = {} if start is None else {"start_time": round(start, 3)}
        return [*effects, SendEvent(f"response.{kind}.delta", self._place(response, item) | {"delta": text, **timed})]

    def speak(self, response_id: str, data: bytes, seconds: float, words: tuple[Word, ...], now: float) -> list[Effect]:
        """Add encoded audio of so many seconds to an answer."""
        response = self._live(response_id)
        if response is None:
            return []
        effects, item = self._message_of(response)
        item.words += words
        response.seconds += seconds
        if not data:
            return effects
        response.first_audio = now if response.first_audio is None else response.first_audio
        delta = base64.b64encode(data).decode("ascii")
        return [*effects, SendEvent("response.output_audio.delta", self._place(response, item) | {"delta": delta})]

    def end(
        self, response_id: str, reason: FinishReason, calls: tuple[ToolCall, ...], usage: TokenCounts
    ) -> list[Effect]:
        """End an answer that is whole, or as long as it may be."""
        response = self._live(response_id)
        if response is None:
            return []
        effects: list[Effect] = []
        for call in calls:
            effects += self._call(response, call)
        if reason == "length":
            return effects + self._finish(
                response, "incomplete", {"type": "incomplete", "reason": "max_output_tokens"}, usage, stop=False
            )
        return effects + self._finish(response, "completed", None, usage, stop=False)

    def fail(self, response_id: str, error: ServiceError) -> list[Effect]:
        """End an answer that cannot be given."""
        response = self._live(response_id)
        if response is None:
            return []
        body = error.body()
        details = {"type": "failed", "error": {"type": body["type"], "code": body["code"], "message": body["message"]}}
        return self._finish(response, "failed", details, stop=False)

    def drop(self) -> list[Effect]:
        """End every response, as the session ends."""
        live = [*self._side.values(), *([] if self.active is None else [self.active])]
        cancelled = {"type": "cancelled", "reason": "client_cancelled"}
        return [effect for response in live for effect in self._finish(response, "cancelled", cancelled)]

    # Parts of these.

    def _begin(
        self,
        config: ConversationConfig,
        messages: tuple[Mapping[str, Any], ...] | None,
        *,
        side: bool,
        metadata: dict[str, str] | None,
    ) -> list[Effect]:
        response = Response(new_id("resp"), config, side, metadata, messages)
        if side:
            self._side[response.id] = response
        else:
            self.active = self._last = response
            self.timeout_at = math.inf
        created = SendEvent("response.created", {"response": self._response_body(response, "in_progress", None, None)})
        return [created] if messages is None else [created, BeginReply(response)]

    def _message_of(self, response: Response) -> tuple[list[Effect], Item]:
        """Return the message of an answer, and the events that open it before its first text or audio."""
        if response.item is not None:
            return [], response.item
        item = Item(make_message(new_id("item"), "assistant", [], "in_progress"))
        effects = self._open(response, item)
        response.item = item
        part = {"type": "audio", "transcript": ""} if response.speaks else {"type": "text", "text": ""}
        return [*effects, SendEvent("response.content_part.added", self._place(response, item) | {"part": part})], item

    def _open(self, response: Response, item: Item) -> list[Effect]:
        """Add an item to a response, and to the conversation if it is one of it."""
        index = len(response.output)
        response.output.append(item)
        fields = {"response_id": response.id, "output_index": index, "item": dict(item.body)}
        effects: list[Effect] = [SendEvent("response.output_item.added", fields)]
        if not response.side:
            previous = self._order[-1] if self._order else None
            self._append(item)
            effects.append(self._item_event("added", item, previous))
        return effects

    def _append(self, item: Item) -> None:
        """Add an item at the end. Turns and answers are never refused: the oldest item is forgotten instead."""
        if len(self._order) >= MAX_ITEMS:
            oldest = self._order.pop(0)
            del self._items[oldest]
            self._unread.discard(oldest)
        self._items[item.id] = item
        self._order.append(item.id)

    def _call(self, response: Response, call: ToolCall) -> list[Effect]:
        """Tell a call of a tool: an item, its arguments in one piece, and its end."""
        body = {
            "id": new_id("item"),
            "object": "realtime.item",
            "type": "function_call",
            "status": "in_progress",
            "name": call.name,
            "call_id": new_id("call"),
            "arguments": "",
        }
        item = Item(body)
        effects = self._close_message(response, "completed") + self._open(response, item)
        place = {"response_id": response.id, "item_id": item.id, "output_index": len(response.output) - 1}
        place["call_id"] = body["call_id"]
        effects.append(SendEvent("response.function_call_arguments.delta", place | {"delta": call.arguments}))
        done = place | {"name": call.name, "arguments": call.arguments}
        effects.append(SendEvent("response.function_call_arguments.done", done))
        body |= {"arguments": call.arguments, "status": "completed"}
        return effects + self._close_item(response, item)

    def _close_message(self, response: Response, status: Literal["completed", "incomplete"]) -> list[Effect]:
        """Tell the end of the message that is being written, if there is one."""
        item = response.item
        if item is None or item.body["status"] != "in_progress":
            return []
        place = self._place(response, item)
        effects: list[Effect] = []
        if response.speaks:
            effects.append(SendEvent("response.output_audio.done", place))
            effects.append(SendEvent("response.output_audio_transcript.done", place | {"transcript": item.text}))
            part = {"type": "audio", "transcript": item.text}
            content = {"type": "output_audio", "transcript": item.text}
        else:
            effects.append(SendEvent("response.output_text.done", place | {"text": item.text}))
            part = {"type": "text", "text": item.text}
            content = {"type": "output_text", "text": item.text}
        effects.append(SendEvent("response.content_part.done", place | {"part": part}))
        item.body["status"], item.body["content"] = status, [content]
        return effects + self._close_item(response, item)

    def _close_item(self, response: Response, item: Item) -> list[Effect]:
        index = response.output.index(item)
        fields = {"response_id": response.id, "output_index": index, "item": dict(item.body)}
        done: list[Effect] = [] if response.side else [self._item_event("done", item)]
        return [*done, SendEvent("response.output_item.done", fields)]

    def _finish(
        self,
        response: Response,
        status: Status,
        details: dict[str, Any] | None,
        usage: TokenCounts | None = None,
        *,
        stop: bool = True,
    ) -> list[Effect]:
        """End a response: the only place where one ends."""
        if self.active is response:
            self.active = None
            idle = self.config.idle_timeout_ms
            if idle is not None and response.item is not None and status == "completed":
                self.timeout_at = response.played_at + idle / 1_000
        self._side.pop(response.id, None)
        effects: list[Effect] = [StopReply(response.id)] if stop else []
        effects += self._close_message(response, "completed" if status == "completed" else "incomplete")
        return [
            *effects,
            SendEvent("response.done", {"response": self._response_body(response, status, details, usage)}),
        ]

    def _cut(self, item: Item, seconds: float) -> None:
        item.heard_seconds = seconds
        for content in item.body["content"]:
            if "transcript" in content:
                content["transcript"] = text_before(item.text, item.words, seconds)

    def _live(self, response_id: str) -> Response | None:
        if self.active is not None and self.active.id == response_id:
            return self.active
        return self._side.get(response_id)

    def _item(self, item_id: Any, code: str) -> Item:
        item = self._items.get(item_id) if isinstance(item_id, str) else None
        if item is None:
            raise ConversationError(code, f"There is no item '{str(item_id)[:60]}'.", "item_id")
        return item

    def _item_event(self, kind: str, item: Item, previous: str | None = None) -> SendEvent:
        if previous is None and item.id in self._items:  # a full conversation may have forgotten it
            at = self._order.index(item.id)
            previous = self._order[at - 1] if at else None
        fields = {"item": dict(item.body), "previous_item_id": previous}
        return SendEvent(f"conversation.item.{kind}", fields)

    @staticmethod
    def _place(response: Response, item: Item) -> dict[str, Any]:
        index = response.output.index(item)
        return {"response_id": response.id, "item_id": item.id, "output_index": index, "content_index": 0}

    def _answer_config(self, fields: dict[str, Any]) -> ConversationConfig:
        """Return the configuration of one answer: the session's, with what `response.create` names."""
        own = {name: value for name, value in fields.items() if name in AnswerConfig.model_fields}
        unknown = set(fields) - set(own) - {"conversation", "metadata", "input", "audio", "prompt"}
        if unknown or fields.get("prompt") is not None:
            name = next(iter(unknown), "prompt")
            raise ConversationError(
                "unknown_parameter", f"Unknown parameter: 'response.{name[:60]}'.", f"response.{name}"
            )
        if "audio" in fields:
            own["audio"] = fields["audio"]
        result = merged(self.config.model_dump(exclude_unset=True), own)
        try:
            return ConversationConfig.model_validate(result)
        except ValidationError as error:
            raise explain(error) from None

    def _messages(self, instructions: str | None, given: Any) -> tuple[Mapping[str, Any], ...]:
        """Return what the model reads: the instructions, then the conversation, or the items that `given` has."""
        if given is None:
            items = [self._items[item_id] for item_id in self._order]
        elif isinstance(given, list) and len(given) <= MAX_ITEMS:
            items = [self._referred(each) for each in given]
        else:
            raise ConversationError("invalid_value", f"'input' takes up to {MAX_ITEMS} items.", "response.input")
        messages = [message for item in items if (message := item.as_message()) is not None]
        head = [{"role": "system", "content": instructions}] if instructions else []
        return (*head, *messages)

    def _referred(self, given: Any) -> Item:
        if isinstance(given, dict) and given.get("type") == "item_reference":
            return self._item(given.get("id"), "invalid_value")
        return read_item(given)

    def _response_body(
        self, response: Response, status: Status, details: dict[str, Any] | None, usage: TokenCounts | None
    ) -> dict[str, Any]:
        form = response.config.audio.output.format.model_dump(exclude_none=True)
        return {
            "id": response.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": [dict(item.body) for item in response.output],
            "conversation_id": None if response.side else "conv_default",
            "output_modalities": response.config.output_modalities or ["audio"],
            "max_output_tokens": response.config.max_output_tokens or "inf",
            "audio": {"output": {"format": form, "voice": response.config.voice}},
            "metadata": response.metadata,
            "usage": None if status == "in_progress" else _usage(usage or TokenCounts(0)),
        }


def _truncated(item: Item, audio_end_ms: int) -> SendEvent:
    fields = {"item_id": item.id, "content_index": 0, "audio_end_ms": audio_end_ms}
    return SendEvent("conversation.item.truncated", fields)


def _is_metadata(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and len(given) <= MAX_METADATA
        and all(isinstance(each, str) and len(each) <= 512 for pair in given.items() for each in pair)
    )


def _usage(usage: TokenCounts) -> dict[str, Any]:
    cached = {"text_tokens": usage.cached, "audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": usage.prompt + usage.written,
        "input_tokens": usage.prompt,
        "output_tokens": usage.written,
        "input_token_details": {
            "text_tokens": usage.prompt,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": usage.cached,
            "cached_tokens_details": cached,
        },
        "output_token_details": {"text_tokens": usage.written, "audio_tokens": 0},
    }
