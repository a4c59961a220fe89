"""Events of a transcription session about its utterances, each of which is an item of the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from app.recognition.events import (
    LiveEvent,
    LiveHypothesis,
    LiveUtterance,
    SpeechStarted,
    SpeechStopped,
    UtteranceFailed,
)
from app.recognition.transcript import Transcript, logprob_entries
from app.server.error_responses import note_error
from app.server.openai.realtime.conversation_item import make_message
from app.server.openai.realtime.events import new_id, write_event

_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"


@dataclass(slots=True)
class _Item:
    id: str
    # Text that was sent.
    sent: str = ""


class ItemEvents:
    """Writer of the events of one stream of audio.

    `since`: seconds of the session before its first sample. `old`: the client speaks the older protocol, which has
    another event for a new item.
    """

    def __init__(self, since: float, *, logprobs: bool, old: bool) -> None:
        # Id of the item before the next one.
        self.previous: str | None = None
        self._since, self._logprobs, self._old = since, logprobs, old
        self._items: dict[int, _Item] = {}

    def item_id(self, event: LiveEvent) -> str:
        """Return the id of the item of an event that is not written yet."""
        return self._items.setdefault(event.item, _Item(new_id("item"))).id

    def write(self, event: LiveEvent) -> Iterator[str]:
        """Yield the events of the protocol that tell `event`."""
        item = self._items.setdefault(event.item, _Item(new_id("item")))
        match event:
            case SpeechStarted(start=start):
                yield write_event(
                    "input_audio_buffer.speech_started", audio_start_ms=self._milliseconds(start), item_id=item.id
                )
            case SpeechStopped():
                yield from self._stopped(item, event)
            case LiveHypothesis(committed=text):
                yield from self._delta(item, text)
            case LiveUtterance():
                yield from self._completed(item, event)
                del self._items[event.item]
            case UtteranceFailed(error=error):
                note_error(error.code, error.status)
                body = {key: value for key, value in error.body().items() if key != "request_id"}
                yield write_event(f"{_TRANSCRIPTION}.failed", item_id=item.id, content_index=0, error=body)
                del self._items[event.item]

    def _stopped(self, item: _Item, event: SpeechStopped) -> Iterator[str]:
        if not event.committed:
            yield write_event(
                "input_audio_buffer.speech_stopped", audio_end_ms=self._milliseconds(event.end), item_id=item.id
            )
        places: dict[str, Any] = {"previous_item_id": self.previous}
        yield write_event("input_audio_buffer.committed", item_id=item.id, **places)
        yield from self.added(item.id, places)
        self.previous = item.id

    def added(self, item_id: str, places: dict[str, Any]) -> Iterator[str]:
        """Yield the events of the new item of an utterance, whose text follows."""
        message = make_message(item_id, "user", [{"type": "input_audio", "transcript": None}])
        for kind in ("created",) if self._old else ("added", "done"):
            yield write_event(f"conversation.item.{kind}", item=message, **places)

    def _delta(self, item: _Item, text: str) -> Iterator[str]:
        added = text[len(item.sent) :]
        if added:
            item.sent = text
            yield write_event(f"{_TRANSCRIPTION}.delta", item_id=item.id, content_index=0, delta=added)

    def _completed(self, item: _Item, event: LiveUtterance) -> Iterator[str]:
        yield from self._delta(item, event.text)
        seconds = event.end - event.start
        found = Transcript("transcribe", event.language, seconds, event.segments)
        fields: dict[str, Any] = {
            "item_id": item.id,
            "content_index": 0,
            "transcript": event.text,
            "usage": found.reply().usage.model_dump(),
            "languages": [{"code": event.language}] if event.language else [],
        }
        if event.warning is not None:
            fields["warning"] = event.warning
        if self._logprobs:
            tokens = [token for segment in event.segments for token in segment.tokens]
            fields["logprobs"] = [entry.model_dump() for entry in logprob_entries(tokens)]
        yield write_event(f"{_TRANSCRIPTION}.completed", **fields)

    def _milliseconds(self, seconds: float) -> int:
        return round((self._since + seconds) * 1_000)
