"""The recognizer as the service sees it: requests, languages, silence, cancellation. Random weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.backend import on_cpu
from models.contract import ModelRequestError, ModelSpec, RecognitionRequest, RecognizedSegment, WeightsError
from models.layers.transformer.cuda import MAX_ROWS
from models.timeline import Timeline
from models.whisper import features, pipeline, steps
from models.whisper.decoding import DecodingOptions, decode
from models.whisper.pipeline import MAX_BEAMS, SAMPLES, WhisperRecognizer, _Window, load
from tests.models.whisper.builder import drain, files, recognizer, sound


@pytest.fixture(scope="module")
def model() -> WhisperRecognizer:
    return recognizer(seed=5)


def run(model: WhisperRecognizer, request: RecognitionRequest) -> list[RecognizedSegment]:
    items = model.recognize(request, Timeline(), lambda: False)
    return [item for item in items if item is not None]


PCM = sound(5)
REQUEST = RecognitionRequest(PCM, "en", temperature=0.0)


def test_segments(model: WhisperRecognizer) -> None:
    """Windows of two seconds; random weights write anything."""
    found = run(model, replace(REQUEST, word_times=True))
    assert found
    assert len({one.seek for one in found}) > 1
    for one in found:
        assert one.language == "en"
        assert b"".join(token.text for token in one.tokens).decode(errors="replace") == one.text
        assert all(token.logprob <= 0 for token in one.tokens)
        assert one.mean_logprob < 0
        assert 0 <= one.no_speech <= 1
    assert "".join(word.text for one in found for word in one.words).strip() != ""


@pytest.mark.parametrize("beams", [1, 3])
def test_beams_and_prompt(model: WhisperRecognizer, beams: int) -> None:
    plain = run(model, replace(REQUEST, beams=beams))
    prompted = run(model, replace(REQUEST, beams=beams, prompt="names: Ann, Bob"))
    assert [one.text for one in plain] != [one.text for one in prompted]


def test_segments_have_their_temperature(model: WhisperRecognizer) -> None:
    assert run(model, replace(REQUEST, pcm=sound(1), temperature=0.9))[0].temperature == 0.9


@pytest.mark.slow
def test_untrusted_text_is_tried_at_higher_temperatures(model: WhisperRecognizer) -> None:
    """Random weights write what is not likely."""
    assert all(one.temperature > 0 for one in run(model, RecognitionRequest(sound(0.5), "en")))


def test_the_language_is_detected(model: WhisperRecognizer) -> None:
    found = run(model, RecognitionRequest(PCM, temperature=0.0))
    assert len({one.language for one in found}) == 1
    assert found[0].language in model.languages
    assert 0 < found[0].language_probability < 1
    again = run(model, RecognitionRequest(PCM, found[0].language, temperature=0.0))
    assert again[0].language_probability == 1.0
    assert [one.text for one in again] == [one.text for one in found]


@pytest.mark.parametrize("pcm", [np.zeros(0), np.zeros(100), np.zeros(16_000), np.full(100, 0.5)])
def test_silence_says_nothing(model: WhisperRecognizer, pcm: np.ndarray) -> None:
    assert run(model, RecognitionRequest(pcm.astype(np.float32))) == []


def test_who_translates(model: WhisperRecognizer) -> None:
    assert run(model, replace(REQUEST, task="translate")) != run(model, REQUEST)
    pruned = WhisperRecognizer(replace(model.config, n_text_layer=1), model.network, model.tokenizer, ())
    for other in (recognizer(n_vocab=51864), pruned):
        with pytest.raises(ModelRequestError, match="translate"):
            other.check(replace(REQUEST, task="translate"))


def test_a_draft_changes_nothing(model: WhisperRecognizer) -> None:
    draft = model.encode_text("it is so")
    assert draft[0] == model.tokenizer.encode(" i")[0]
    assert [one.text for one in run(model, replace(REQUEST, draft=draft))] == [one.text for one in run(model, REQUEST)]


@pytest.mark.parametrize("bits", [0, 8])
def test_load(tmp_path: Path, bits: int) -> None:
    found = load(ModelSpec("tiny", "whisper", files(tmp_path), dtype="auto", bits=bits))
    assert run(found, REQUEST)
    found.warm(lambda _step: None)


def test_warming_hears_one_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder takes nearly all the time of warming on a CPU: it runs once for all searches."""
    found = load(ModelSpec("tiny", "whisper", files(tmp_path)))
    hear, heard = found.steps.hear, []
    monkeypatch.setattr(found.steps, "hear", lambda mel: heard.append(mel.shape) or hear(mel))
    found.warm(lambda _step: None)
    assert len(heard) == 1


@pytest.mark.parametrize("changes", [{}, {"n_vocab": 51864}])
def test_a_gpu_runs_all_that_is_served_at_once(changes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = recognizer(seed=5, **changes)
    found.steps.ahead = True
    monkeypatch.setattr(pipeline, "on_cpu", lambda: False)
    monkeypatch.setattr(steps, "on_cpu", lambda: False)
    encoded: list[int] = []
    decoded: list[tuple[int, DecodingOptions]] = []
    hear = found.steps.hear

    def heard(mel: np.ndarray) -> Any:
        encoded.append(len(mel))
        return hear(mel)

    def counted(steps_: Any, tokenizer: Any, memory: Any, options: DecodingOptions, *rest: Any) -> Any:
        decoded.append((memory[0].shape[0], options))
        return decode(steps_, tokenizer, memory, options, *rest)

    monkeypatch.setattr(found.steps, "hear", heard)
    monkeypatch.setattr(pipeline, "decode", counted)
    progress: list[Any] = []
    found.warm(progress.append)
    count = len(decoded) + 1  # and the window
    assert [(step.done, step.total) for step in progress] == [(n, count) for n in range(1, count + 1)]
    greedy = {(windows, one.timestamps) for windows, one in decoded if one.beams == 1 and not one.temperature}
    every = range(1, found.max_batch + 1)
    assert greedy == {(1, False), *((windows, True) for windows in every)}
    assert set(encoded) == set(every) > {1}
    assert {one.beams for windows, one in decoded if windows == 1} == {*range(1, MAX_BEAMS + 1)}
    assert (found.max_batch, MAX_BEAMS) in {(windows, one.beams) for windows, one in decoded}
    assert SAMPLES in {one.best_of for _, one in decoded if one.temperature}
    assert max(len(one.prompt) for _, one in decoded) > MAX_ROWS


def test_load_refuses(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="4 or 8 bits"):
        load(ModelSpec("tiny", "whisper", files(tmp_path), bits=3))


@pytest.mark.skipif(not on_cpu(), reason="types of a GPU")
def test_the_cpu_computes_in_float32(tmp_path: Path) -> None:
    found = load(ModelSpec("tiny", "whisper", files(tmp_path), dtype="float16"))
    assert str(found.network.dtype) == "mlx.core.float32"


def test_a_text_goes_on_from_a_prefix(model: WhisperRecognizer) -> None:
    pcm = sound(0.9)
    prefix = model.encode_text("go on")
    (found,) = run(model, RecognitionRequest(pcm, "en", prefix=prefix))
    assert found.text.startswith(" go on")
    assert len(found.tokens) > len(prefix)
    assert [token.id for token in found.tokens[: len(prefix)]] == list(prefix)
    assert "".join(word.text for word in found.words) == found.text
    assert all(word.heard is not None and 0 <= word.heard <= 0.9 for word in found.words)
    # The rest is that of the search.
    window = _Window(model, drain(features.recording(pcm, model.config.n_mels, model.config.window)), Timeline())
    drain(window.hear(0, 90))
    options = DecodingOptions(language="en", prefix=prefix, timestamps=False, suppress_blank=False)
    wanted = [token for token in drain(window.decode(options)).tokens if token < model.tokenizer.end]
    assert [token.id for token in found.tokens[len(prefix) :]] == wanted
    (first,) = run(model, RecognitionRequest(pcm, "en", prefix=()))
    assert first.text
