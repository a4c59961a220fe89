"""Marks by the tune of the speech: pitch, clause ends, forced scores, and words that never change."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from models.contract import RecognitionRequest
from models.layers.mel import Floats
from models.timeline import Timeline
from models.whisper import features
from models.whisper.alignment import AlignedWord
from models.whisper.decoding import Decoded, DecodingOptions, prompt_tokens
from models.whisper.pipeline import WhisperRecognizer, _Window
from models.whisper.prosody import FEATURES, MARKS, clause_end, mark_model, tune
from models.whisper.punctuation import MarkScorer, mark_places, rescore
from models.whisper.rules import log_sum_exp
from models.whisper.steps import Memory
from tests.models.whisper.builder import drain
from tests.models.whisper.builder import recognizer as official
from tests.models.whisper.ear import ear


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory: pytest.TempPathFactory) -> WhisperRecognizer:
    return ear(tmp_path_factory.mktemp("ear"))


def glide(first: float, last: float, seconds: float) -> np.ndarray:
    """A buzz of ten harmonics whose pitch moves evenly in semitones."""
    count = round(seconds * 16_000)
    hertz = first * (last / first) ** (np.arange(count) / count)
    phase = 2 * np.pi * np.cumsum(hertz) / 16_000
    sound: np.ndarray = sum(np.sin(k * phase) / k for k in range(1, 11)) * 0.1  # type: ignore[assignment]
    return sound.astype(np.float32)


@pytest.mark.parametrize("hertz", [70.0, 110.0, 220.0, 380.0])
def test_the_pitch_of_a_steady_voice_is_level_and_in_its_octave(hertz: float) -> None:
    low = tune(np.concatenate([glide(hertz, hertz, 1.0), np.zeros(800, np.float32), glide(100, 100, 2.0)]))
    voiced = low.pitch[5:90]
    assert np.abs(voiced - 12 * np.log2(hertz / 100)).max() < 0.3


def test_noise_and_silence_have_no_pitch() -> None:
    rng = np.random.default_rng(5)
    assert np.isnan(tune((rng.standard_normal(16_000) * 0.1).astype(np.float32)).pitch).mean() > 0.95
    silent = tune(np.zeros(16_000, np.float32))
    assert np.isnan(silent.pitch).all()
    assert clause_end(silent, 0, 0, None) is None
    assert tune(np.zeros(0, np.float32)).pitch.shape == (0,)


@pytest.mark.parametrize(("first", "last"), [(120.0, 170.0), (170.0, 120.0)])
def test_a_slope_is_in_semitones_a_second(first: float, last: float) -> None:
    found = clause_end(tune(glide(first, last, 1.0)), 0, 0, None)
    assert found.features[FEATURES.index("pitch_slope")] == pytest.approx(12 * np.log2(last / first), rel=0.1)


def test_a_pause_ends_the_clause() -> None:
    sound = np.concatenate([glide(120, 150, 1.0), np.zeros(4800, np.float32), glide(150, 90, 1.0)])
    found = clause_end(tune(sound), 0.0, 0.5, 1.4)
    assert found.pause == pytest.approx(0.3, abs=0.05)
    assert found.features[FEATURES.index("pitch_slope")] > 2


def timed(text: str, gap: float = 0.5) -> list[AlignedWord]:
    """Words of a token a letter, marks apart."""
    parts = "".join(f"\n{one}" if one in ' .,?!"' else one for one in text).split("\n")
    return [
        AlignedWord(part, list(part.encode()), gap * at, gap * at + 0.2, 1.0)
        for at, part in enumerate(filter(None, parts))
    ]


def test_places_behind_words() -> None:
    text = ' So it is. Yes, no" go'
    found = list(mark_places(timed(text), list(text.encode()), 256))
    kinds = [(text[: place.token].rsplit(maxsplit=1)[-1], place.mark) for place in found]
    assert kinds == [("So", ""), ("it", ""), ("is", "."), ("Yes", ","), ("go", "")]
    assert [place.start for place in found] == [0.0, 0.0, 0.0, 2.0, 4.0]
    assert found[-1].end is None
    assert found[2].end == 2.0


def test_places_among_timestamps() -> None:
    tokens = [300, *b" So it", 310, 311, *b" is.", 320]
    found = list(mark_places(timed(" So it is."), tokens, 256))
    assert [place.token for place in found] == [4, 7, 12]
    assert tokens[found[-1].token] == ord(".")


def decoded(recognizer: WhisperRecognizer, text: str) -> Decoded:
    tokens = tuple(recognizer.tokenizer.encode(text))
    return Decoded(tokens, (-0.5,) * len(tokens), text.strip(), -0.5, 0.0, 0.0, 1.0)


@pytest.fixture(scope="module")
def memory(recognizer: WhisperRecognizer) -> Memory:
    mel: Floats = drain(features.recording(glide(120, 180, 1.5), 80, 200))
    found: Memory = drain(recognizer.steps.encode(features.short_window(mel, 0, 150)[None]))
    return found


def scorer_of(recognizer: WhisperRecognizer, memory: Memory, tokens: Sequence[int]) -> MarkScorer:
    options = DecodingOptions(timestamps=False)
    return MarkScorer(recognizer.steps, recognizer.tokenizer, memory, options, tokens)


def forced(recognizer: WhisperRecognizer, memory: Memory, prompt: Sequence[int], text: Sequence[int]) -> np.ndarray:
    """Log-probability of each token of a text, decoded as a whole."""
    ids = [*prompt, *text]
    _, logits, _ = recognizer.steps.begin_draft(ids, memory, 64, 0)
    logprobs = logits - log_sum_exp(logits)
    found: np.ndarray = logprobs[np.arange(len(prompt) - 1, len(ids) - 1), ids[len(prompt) :]]
    return found


def test_scores_are_those_of_the_texts_with_each_mark(recognizer: WhisperRecognizer, memory: Memory) -> None:
    options = DecodingOptions(timestamps=False)
    text, encode = " So it is. Yes no", recognizer.tokenizer.encode
    scorer = MarkScorer(recognizer.steps, recognizer.tokenizer, memory, options, encode(text))
    prompt, _ = prompt_tokens(recognizer.tokenizer, options, 64)
    places = {
        text[: one.token].rsplit(maxsplit=1)[-1]: one for one in mark_places(timed(text), list(text.encode()), 256)
    }
    for name in ("is", "Yes", "no"):
        at = text.index(name) + len(name)
        rest = text[at + len(places[name].mark) :]
        found = scorer.score(places[name])
        for mark, value in zip(MARKS, found, strict=True):
            ids = [*encode(text[:at] + mark + rest), recognizer.tokenizer.end]
            each = forced(recognizer, memory, prompt, ids)[at : at + len(mark) + 4]
            assert value == pytest.approx(each.sum(), abs=1e-3)


def test_a_text_that_fills_the_decoder_is_left_alone(recognizer: WhisperRecognizer, memory: Memory) -> None:
    with pytest.raises(ValueError, match="too many"):
        scorer_of(recognizer, memory, [65] * 60)


def test_a_mark_changes_by_a_clear_lead_alone() -> None:
    text = np.log([0.01, 0.02, 0.6, 0.3, 0.07])
    features, none = np.zeros(len(FEATURES)), np.zeros((len(MARKS), 2 * len(FEATURES)))
    for share, scale, wanted in ((0.5, 1.0, "."), (0.95, 1.0, "?"), (0.95, 0.0, ".")):  # 0.15 to 0.12 is no clear lead
        bias = np.log(np.where(np.array(MARKS) == "?", share, (1 - share) / 4))
        bias[MARKS.index(".")] += np.log(1.6) if share == 0.5 else 0.0
        model = replace(mark_model(), weights=none, bias=bias, scale=scale, margin=1.0)
        assert model.choose(".", text, features) == wanted


def test_marks_change_and_words_do_not(recognizer: WhisperRecognizer, memory: Memory) -> None:
    text = " So it is. Yes, no"
    words = timed(text, 0.25)
    sound = glide(120, 180, 1.7)
    for wanted in MARKS:
        bias = np.where(np.array(MARKS) == wanted, 50.0, 0.0)
        model = replace(mark_model(), weights=np.zeros((5, 2 * len(FEATURES))), bias=bias, scale=1.0, margin=0.0)
        before = decoded(recognizer, text)
        scorer = scorer_of(recognizer, memory, before.tokens)
        found: Decoded = drain(rescore(scorer, recognizer.tokenizer, before, words, sound, model))
        if wanted:
            assert found.text == f"So it is{wanted} Yes{wanted} no{wanted}"
        else:
            assert all(mark in MARKS[1:] for mark in (found.text[8], found.text[13]))
            assert not found.text.endswith(MARKS[1:])
        assert recognizer.tokenizer.decode(found.tokens).strip() == found.text
        assert len(found.logprobs) == len(found.tokens)


def test_without_a_voice_nothing_changes(recognizer: WhisperRecognizer, memory: Memory) -> None:
    model = replace(mark_model(), scale=100.0, margin=0.0)
    before = decoded(recognizer, " So it is. Yes, no")
    scorer = scorer_of(recognizer, memory, before.tokens)
    silence = np.zeros(24_000, np.float32)
    assert drain(rescore(scorer, recognizer.tokenizer, before, timed(before.text), silence, model)) is before


@pytest.mark.parametrize("beams", [1, 3])
def test_a_request_asks_for_it(recognizer: WhisperRecognizer, beams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bias = np.where(np.array(MARKS) == "!", 500.0, 0.0)
    monkeypatch.setattr(recognizer, "marks", replace(mark_model(), bias=bias, scale=1.0, margin=0.0))
    marks = {recognizer.tokenizer.encode(mark)[0] for mark in MARKS[1:]}
    found: list[tuple[Decoded, Decoded]] = []
    weigh = _Window.punctuate

    def spy(window: _Window, before: Decoded, *rest: object) -> Generator[None, None, Decoded]:
        after = yield from weigh(window, before, *rest)  # type: ignore[arg-type]
        found.append((before, after))
        return after

    monkeypatch.setattr(_Window, "punctuate", spy)
    request = RecognitionRequest(glide(120, 160, 1.2), "en", temperature=0.0, beams=beams)
    drain(recognizer.recognize(request, Timeline(), lambda: False))
    assert not found
    for hertz in range(100, 220, 20):
        asked = replace(request, pcm=glide(hertz, 160, 1.2), prosody=True)
        drain(recognizer.recognize(asked, Timeline(), lambda: False))
    assert len(found) == 6
    for before, after in found:
        assert [one for one in before.tokens if one not in marks] == [one for one in after.tokens if one not in marks]
        assert (before.average_logprob, before.no_speech) == (after.average_logprob, after.no_speech)
    assert any(before.tokens != after.tokens for before, after in found)


def test_a_model_with_timestamps_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = official(seed=5)
    bias = np.where(np.array(MARKS) == "!", 500.0, 0.0)
    monkeypatch.setattr(model, "marks", replace(mark_model(), bias=bias, scale=1.0, margin=0.0))
    for language, changes in (("en", True), ("de", False)):
        changed = 0
        for hertz in range(90, 250, 20):
            request = RecognitionRequest(glide(hertz, 180, 1.9), language, temperature=0.0)
            texts = []
            for prosody in (False, True):
                items = model.recognize(replace(request, prosody=prosody), Timeline(), lambda: False)
                texts.append("".join(one.text for one in items if one is not None))
            changed += texts[0] != texts[1]
        assert (changed > 0) == changes
