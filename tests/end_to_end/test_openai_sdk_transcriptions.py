"""OpenAI's own SDK asks a server process for transcriptions; its recognizer hears a segment a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

# The SDK calls its translations deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
TEXT = "en second 0. en second 1. en second 2. en second 3. en second 4. en second 5."


@pytest.fixture
def client(listening: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=listening + "/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("name", ["text", "srt", "vtt"])
def test_raw_forms_are_strings(client: openai.OpenAI, speech: bytes, name: Any) -> None:
    found = client.audio.transcriptions.create(model="whisper-1", file=("a.ogg", speech), response_format=name)
    assert isinstance(found, str)
    assert "en second 0." in found
    translated = client.audio.translations.create(model="whisper-1", file=("a.ogg", speech), response_format=name)
    assert translated == found


def test_verbose_json_with_words_and_segments(client: openai.OpenAI, speech: bytes) -> None:
    found = client.audio.transcriptions.create(
        model="whisper-1",
        file=("a.ogg", speech),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        language="en",
        prompt="A test.",
        temperature=0.2,
    )
    assert (found.language, found.duration, found.text) == ("english", 5.63, TEXT)
    assert found.usage.seconds == 6
    assert [segment.id for segment in found.segments] == list(range(6))
    assert found.segments[0].temperature == 0.2
    assert [word.word for word in found.words[:3]] == ["en", "second", "0."]
    translated = client.audio.translations.create(
        model="whisper-1", file=("a.ogg", speech), response_format="verbose_json"
    )
    assert (translated.language, len(translated.segments)) == ("english", 6)


def test_events(client: openai.OpenAI, speech: bytes) -> None:
    with client.audio.transcriptions.create(
        model="gpt-4o-transcribe", file=("a.ogg", speech), stream=True, include=["logprobs"], response_format="json"
    ) as stream:
        *deltas, done = stream
    assert "".join(event.delta for event in deltas) == done.text == TEXT
    assert {event.type for event in deltas} == {"transcript.text.delta"}
    assert [token.token for token in deltas[0].logprobs] == [" en", " second", " 0."]
    assert (done.type, len(done.logprobs), done.usage.output_tokens) == ("transcript.text.done", 18, 18)


def test_logprobs_lists_and_objects(client: openai.OpenAI, speech: bytes) -> None:
    found = client.audio.transcriptions.create(
        model="gpt-transcribe",
        file=("a.ogg", speech),
        include=["logprobs"],
        keywords=["window", "door"],
        languages=["de", "en"],
        chunking_strategy={"type": "server_vad", "threshold": 0.4, "prefix_padding_ms": 200},
    )
    assert bytes(map(int, found.logprobs[0].bytes)) == b" en"
    auto = client.audio.transcriptions.create(model="whisper-1", file=("a.ogg", speech), chunking_strategy="auto")
    assert auto.text.startswith("en second 0.")


def test_errors_are_the_sdk_s_own(client: openai.OpenAI, speech: bytes) -> None:
    create = client.audio.transcriptions.create
    with pytest.raises(openai.BadRequestError, match="Speakers are not told apart") as bad:
        create(model="whisper-1", file=("a.ogg", speech), response_format="diarized_json")
    assert (bad.value.code, bad.value.param) == ("unsupported_format", "response_format")
    with pytest.raises(openai.BadRequestError) as damaged:
        create(model="whisper-1", file=("a.ogg", b"not audio"))
    assert (damaged.value.code, damaged.value.param) == ("unusable_recording", "file")
    with pytest.raises(openai.NotFoundError):
        create(model="hal", file=("a.ogg", speech))
    with pytest.raises(openai.APIError, match="failed"):
        list(create(model="whisper-1", file=("a.ogg", speech), prompt="broken", stream=True))
