"""Parts of a recording that are recognized at once: each as if it were alone, in their order. Random weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.contract import Cancelled, RecognitionRequest, RecognizedSegment
from models.timeline import Timeline
from models.whisper import pipeline, steps
from models.whisper.batch import Batch
from models.whisper.decoding import Decoded, DecodingOptions, decode
from models.whisper.pipeline import WhisperRecognizer
from tests.models.whisper.builder import config, network, recognizer, sound, tokenizer
from tests.models.whisper.test_pipeline import run

RATE = 16_000
PCM = sound(12)
# Windows have two seconds: the third part is of several.
PARTS = tuple(
    (round(start * RATE), round(end * RATE)) for start, end in ((0.5, 2), (2, 3.2), (4, 7.3), (8, 10), (10.5, 12))
)
REQUEST = RecognitionRequest(PCM, "en", temperature=0.0, parts=PARTS)


@pytest.fixture(scope="module")
def model() -> WhisperRecognizer:
    return recognizer(seed=5)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of windows of each search."""
    found: list[int] = []

    def counted(steps: Any, tokenizer_: Any, memory: Any, *rest: Any) -> Any:
        found.append(memory[0].shape[0])
        return decode(steps, tokenizer_, memory, *rest)

    monkeypatch.setattr(pipeline, "decode", counted)
    return found


def alone(model: WhisperRecognizer, request: RecognitionRequest) -> list[RecognizedSegment]:
    """Segments of parts that are recognized one by one."""
    parts = [(start, replace(request, pcm=PCM[start:end], parts=())) for start, end in request.parts]
    return [segment.moved(start / RATE) for start, part in parts for segment in run(model, part)]


def assert_equal(found: list[RecognizedSegment], wanted: list[RecognizedSegment]) -> None:
    assert [[token.id for token in one.tokens] for one in found] == [
        [token.id for token in one.tokens] for one in wanted
    ]
    for one, other in zip(found, wanted, strict=True):
        assert (one.text, one.start, one.end, one.seek) == (other.text, other.start, other.end, other.seek)
        assert (one.temperature, one.language) == (other.temperature, other.language)
        assert one.mean_logprob == pytest.approx(other.mean_logprob, abs=1e-4)
        assert one.no_speech == pytest.approx(other.no_speech, abs=1e-5)
        assert [(word.text, word.start, word.end) for word in one.words] == [
            (word.text, word.start, word.end) for word in other.words
        ]


@pytest.mark.parametrize("change", [{}, {"word_times": True}, {"beams": 3}, {"prompt": "Ann", "task": "translate"}])
def test_each_part_has_the_text_that_it_has_alone(
    model: WhisperRecognizer, sizes: list[int], change: dict[str, Any]
) -> None:
    request = replace(REQUEST, **change)
    found = run(model, request)
    assert sizes[0] == 1
    assert 4 in sizes
    assert {int(one.start * RATE) >= PARTS[2][0] for one in found} == {True, False}
    assert_equal(found, alone(model, request))


def test_a_gpu_encodes_all_windows_in_one_pass(
    model: WhisperRecognizer, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments stay the same; a part of several windows has its later ones alone."""
    encoded: list[int] = []
    embed = model.network.encoder.embed

    def counted(mel: mx.array) -> mx.array:
        encoded.append(mel.shape[0])
        return embed(mel)

    monkeypatch.setattr(model.network.encoder, "embed", counted)
    wanted = run(model, REQUEST)
    assert set(encoded) == {1}
    passes = len(encoded)
    encoded.clear()
    monkeypatch.setattr(steps, "on_cpu", lambda: False)
    assert_equal(run(model, REQUEST), wanted)
    assert encoded[:2] == [1, 4]
    assert sum(encoded) == passes > len(encoded)
    assert sizes[: len(sizes) // 2] == sizes[len(sizes) // 2 :]


@pytest.mark.slow
def test_higher_temperatures_draw_what_they_draw_alone(model: WhisperRecognizer, sizes: list[int]) -> None:
    request = replace(REQUEST, temperature=None, parts=((0, 8000), (8000, 16_000), (16_000, 24_000)), seed=3)
    found = run(model, request)
    assert max(sizes) == 2
    assert all(one.temperature > 0 for one in found)
    assert_equal(found, alone(model, request))


def test_the_first_text_tells_the_language_of_all(model: WhisperRecognizer) -> None:
    pcm = np.concatenate([np.zeros(RATE, np.float32), PCM])
    found = run(model, RecognitionRequest(pcm, temperature=0.0, parts=((0, RATE), (RATE, 2 * RATE), (40_000, 60_000))))
    language, probability = found[0].language, found[0].language_probability
    assert found[0].start >= 1
    assert 0 < probability < 1
    assert {one.language for one in found} == {language}
    assert found[-1].language_probability == 1


def test_a_batch_is_bounded(sizes: list[int]) -> None:
    """By number, and by the bytes that its decoder reads; models with drafts have none."""
    small = recognizer(seed=5)
    small.max_batch = 2
    assert_equal(run(small, REQUEST), alone(small, REQUEST))
    assert max(sizes) == 2
    assert recognizer().max_batch == pipeline.MAX_BATCH
    # Seven windows of this model would be 560 MB.
    wide = replace(config(n_text_layer=4, n_text_state=1024), n_audio_ctx=2441)
    made = WhisperRecognizer(wide, network(config()), tokenizer(), ())
    assert made.max_batch == (6 if on_cpu() else pipeline.MAX_BATCH)


def test_cancelled_in_a_batch(model: WhisperRecognizer, sizes: list[int]) -> None:
    with pytest.raises(Cancelled):
        for _ in model.recognize(REQUEST, Timeline(), lambda: 4 in sizes):
            pass
    assert sizes[-1] == 4


def test_turns_and_order() -> None:
    """Runs that wait are encoded, and decoded by their options, together; items come in the order of the runs."""
    calls: list[tuple[str, int]] = []

    def encode_windows(mels: Any) -> Any:
        yield
        calls.append(("encoder", len(mels)))
        return [[mx.zeros((1, 2))] for _ in mels]

    def decode_windows(memory: Any, options: DecodingOptions) -> Any:
        yield
        rows = memory[0].shape[0]
        calls.append((options.language, rows))
        return [Decoded((number,), (), "", 0, 0, 0, 1) for number in range(rows)]

    batch = Batch(encode_windows, decode_windows)

    def part(name: str, *languages: str) -> Iterator[str | None]:
        for number, language in enumerate(languages):
            yield None
            memory = yield from batch.encode(np.zeros((4, 2), np.float32))
            found = yield from batch.decode(memory, DecodingOptions(language=language))
            yield f"{name}{number}{found.tokens[0]}"

    items = list(batch.together([part("a", "en", "en"), part("b", "en"), part("c"), part("d", "fr", "en")]))
    assert calls == [("encoder", 3), ("en", 2), ("fr", 1), ("encoder", 2), ("en", 2)]
    assert [item for item in items if item is not None] == ["a00", "a10", "b01", "d00", "d11"]
    # Each paused before it waited, and so did each pass of the encoder and each search.
    assert items.count(None) >= 5 + 2 + 3
