"""Fields of a request for a transcription, without a server."""

from __future__ import annotations

import io

import pytest
from starlette.datastructures import FormData, UploadFile

from app.audio.vad import SPEECH, VoiceOptions
from app.errors import InvalidRequestError
from app.recognition.service import RecognitionOptions
from app.recognition.transcript import TranscriptOptions
from app.server.openai.transcription_form import TranslationForm, read_fields
from models.contract import RecognitionTask

Parts = list[tuple[str, str]]
VAD = ("chunking_strategy[type]", "server_vad")
STRATEGY = '{"type": "server_vad", "threshold": 0.25, "prefix_padding_ms": 0}'
WORDS = {"format": "verbose_json", "segments": False, "words": True}


def read(parts: Parts, task: RecognitionTask = "transcribe") -> TranslationForm:
    fields = read_fields(FormData([("file", UploadFile(io.BytesIO())), *parts]), task)
    fields.form()
    return fields


@pytest.mark.parametrize(
    ("parts", "options", "form"),
    [
        ([], {}, {}),
        ([("language", ""), ("temperature", "0")], {}, {}),
        ([("languages", "de"), ("languages[]", "en")], {"languages": ("de", "en")}, {}),
        ([("keywords[]", "a"), ("prompt", "b")], {"keywords": ("a",), "prompt": "b"}, {}),
        ([("temperature", "0.5"), ("model", "ear")], {"temperature": 0.5, "model": "ear"}, {}),
        ([("chunking_strategy", "auto")], {"chunks": SPEECH}, {}),
        ([VAD], {"chunks": SPEECH}, {}),
        ([VAD, ("chunking_strategy[silence_duration_ms]", "200")], {"chunks": VoiceOptions(0.5, 0.1, 0.2, 0.3)}, {}),
        ([("chunking_strategy", STRATEGY)], {"chunks": VoiceOptions(0.25, 0.1, 0.5, 0.0)}, {}),
        ([("include", "logprobs")], {}, {"logprobs": True}),
        ([("response_format", "verbose_json"), ("timestamp_granularities[]", "word")], {"word_times": True}, WORDS),
        ([("response_format", "srt")], {}, {"format": "srt"}),
    ],
)
def test_fields_become_options(parts: Parts, options: dict[str, object], form: dict[str, object]) -> None:
    fields = read(parts)
    assert fields.options() == RecognitionOptions(**options)
    assert fields.form() == TranscriptOptions(**form)


@pytest.mark.parametrize("value", ["true", "True", "1"])
def test_events_are_asked_for(value: str) -> None:
    assert read([("stream", value)]).streamed
    assert not read([]).streamed


def test_a_translation_has_fewer_fields() -> None:
    fields = read([("prompt", "a"), ("response_format", "vtt")], "translate")
    assert fields.options() == RecognitionOptions(task="translate", prompt="a")
    assert fields.form() == TranscriptOptions("vtt")
    assert read([("keywords[]", "a")], "translate").unknown_fields() == ("parameter keywords",)


@pytest.mark.parametrize(
    ("parts", "param", "says"),
    [
        ([("response_format", "diarized_json")], "response_format", "Speakers are not told apart"),
        ([("response_format", "xml")], "response_format", "Invalid 'response_format': Input should be 'json'"),
        ([("known_speaker_names[]", "Ann")], "known_speaker_names", "Speakers are not told apart"),
        ([("known_speaker_references[]", "data:")], "known_speaker_references", "Speakers"),
        ([("temperature", "warm")], "temperature", "number"),
        ([("temperature", "1.5")], "temperature", "1"),
        ([("temperature", "nan")], "temperature", "finite"),
        ([("stream", "perhaps")], "stream", "boolean"),
        ([("stream", "true"), ("response_format", "srt")], "stream", "json or text"),
        ([("include[]", "secrets")], "include", "logprobs"),
        ([("include[]", "logprobs"), ("response_format", "text")], "include", "json"),
        ([("timestamp_granularities[]", "word")], "timestamp_granularities", "verbose_json"),
        ([("timestamp_granularities[]", "letter")], "timestamp_granularities", "'word' or 'segment'"),
        ([("chunking_strategy", "never")], "chunking_strategy", "'auto' or 'server_vad'"),
        ([("chunking_strategy", "{")], "chunking_strategy", "JSON"),
        ([("chunking_strategy", '{"type": "server_vad", "threshold": 2}')], "chunking_strategy", "threshold"),
        ([VAD, ("chunking_strategy[speed]", "1")], "chunking_strategy", "speed"),
        ([("chunking_strategy[threshold]", "0.5")], "chunking_strategy", "type"),
        ([("prompt", "a"), ("prompt", "b")], "prompt", "twice"),
        ([("prompt[a]", "a")], "prompt", "string"),
        ([("file", "not a file")], "file", "file"),
        ([(f"keywords[{number}]", "a") for number in range(3)], "keywords", "list"),
        ([("keywords[]", "a")] * 101, "keywords", "100"),
    ],
)
def test_bad_fields_are_named(parts: Parts, param: str, says: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(parts)
    body = refused.value.body()
    assert body["param"] == param
    assert says in str(body["message"])
    assert len(refused.value.message) < 500


def test_the_recording_must_be_a_file() -> None:
    with pytest.raises(InvalidRequestError, match="Missing required parameter: 'file'"):
        read_fields(FormData([("model", "ear")]), "transcribe")
    with pytest.raises(InvalidRequestError, match="'prompt' must be text, not a file"):
        read_fields(FormData([("prompt", UploadFile(io.BytesIO()))]), "transcribe")
