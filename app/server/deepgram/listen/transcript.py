"""Transcripts as Deepgram writes them: alternatives of one, with their words."""

from __future__ import annotations

import math
import unicodedata
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from app import request_context
from models.contract import RecognizedSegment, RecognizedWord

_DIGITS: Final = 3


def model_uuid(name: str) -> str:
    """Return the id of a model, always the same for its name."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def model_info(name: str) -> dict[str, Any]:
    """Return what is said of a model."""
    return {"name": name, "version": "1", "arch": name}


def metadata(model: str, digest: str, seconds: float) -> dict[str, Any]:
    """Return what is said of a recording of so many seconds, with its SHA-256, and of the model that heard it."""
    model_id = model_uuid(model)
    return {
        "transaction_key": "deprecated",
        "request_id": request_context.request_id.get() or "",
        "sha256": digest,
        "created": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "duration": round(seconds, 4),
        "channels": 1,
        "models": [model_id],
        "model_info": {model_id: model_info(model)},
    }


def all_words(segments: Iterable[RecognizedSegment]) -> tuple[RecognizedWord, ...]:
    """Return the words of all segments."""
    return tuple(word for segment in segments for word in segment.words)


def alternative(
    text: str, words: Sequence[RecognizedWord], segments: Sequence[RecognizedSegment] = ()
) -> dict[str, Any]:
    """Return the one alternative of a text."""
    known = round(confidence(words, segments), 4)
    return {"transcript": text, "confidence": known, "words": list(map(word_entry, words))}


def word_entry(word: RecognizedWord) -> dict[str, Any]:
    """Return a word: bare in lower case, and as it is written."""
    written = word.text.strip()
    return {
        "word": _bare(written) or written,
        "start": round(word.start, _DIGITS),
        "end": round(word.end, _DIGITS),
        "confidence": round(word.probability, 4),
        "punctuated_word": written,
    }


def confidence(words: Sequence[RecognizedWord], segments: Sequence[RecognizedSegment] = ()) -> float:
    """Return the mean probability of the words, or of the tokens where there are no words; 0 for no text."""
    if words:
        return sum(word.probability for word in words) / len(words)
    if segments:
        return math.exp(min(0.0, sum(segment.mean_logprob for segment in segments) / len(segments)))
    return 0.0


def utterances(words: Sequence[RecognizedWord], pause: float) -> list[dict[str, Any]]:
    """Return the words in groups, divided at silence of `pause` seconds and more."""
    groups: list[list[RecognizedWord]] = []
    for word in words:
        if groups and word.start - groups[-1][-1].end < pause:
            groups[-1].append(word)
        else:
            groups.append([word])
    return [
        {
            "start": round(group[0].start, _DIGITS),
            "end": round(group[-1].end, _DIGITS),
            "channel": 0,
            **alternative("".join(word.text for word in group).strip(), group),
            "id": str(uuid.uuid4()),
        }
        for group in groups
    ]


def _bare(word: str) -> str:
    """Return a word in lower case without the marks around it."""
    start, end = 0, len(word)
    while start < end and _is_mark(word[start]):
        start += 1
    while end > start and _is_mark(word[end - 1]):
        end -= 1
    return word[start:end].lower()


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "P" and character not in "%&#@*"
