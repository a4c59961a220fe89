"""Sessions of OpenAI's realtime protocol: what their fields mean."""

from __future__ import annotations

import pytest

from app.errors import InvalidRequestError
from app.server.openai.realtime.config import TranscriptionConfig, from_old
from app.server.openai.realtime.conversation_config import ConversationConfig


@pytest.mark.parametrize(
    ("turns", "silence", "pauses"),
    [
        ({"type": "server_vad", "silence_duration_ms": 700, "threshold": 0.7}, 0.7, False),
        ({"type": "semantic_vad", "eagerness": "low"}, 8.0, True),
        ({"type": "semantic_vad", "eagerness": "high"}, 2.0, True),
    ],
)
def test_turns(turns: dict[str, object], silence: float, pauses: bool) -> None:
    old = {"turn_detection": turns, "include": ["item.input_audio_transcription.logprobs"]}
    session = TranscriptionConfig.model_validate({"type": "transcription", **from_old(old)})
    options = session.options
    assert options.detection is not None and session.logprobs
    assert options.detection.min_silence == silence
    assert (options.sentence_pause is not None) is pauses


def test_a_session_that_is_wrong_in_many_ways_is_refused_by_a_number() -> None:
    with pytest.raises(InvalidRequestError, match="2000 param"):
        TranscriptionConfig().changed({str(number): number for number in range(2_000)})


@pytest.mark.parametrize("name", ["tracing", "reasoning", "truncation"])
def test_an_object_of_any_fields_does_not_grow_with_each_update(name: str) -> None:
    config = ConversationConfig().changed({name: {"a": "x"}}).changed({name: {"b": "y"}})
    assert getattr(config, name) == {"b": "y"}


@pytest.mark.parametrize("name", ["tracing", "reasoning", "truncation", "tools"])
def test_half_of_a_surrogate_pair_is_refused_wherever_it_is(name: str) -> None:
    half = {"a": ["\ud800"]}
    fields = [{"type": "function", "name": "f", "parameters": half}] if name == "tools" else half
    with pytest.raises(InvalidRequestError, match=name):
        ConversationConfig().changed({name: fields})
