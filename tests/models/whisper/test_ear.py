"""A small recognizer with a CTC head: its files, its windows, its times, and drafts that change nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

from models.contract import ModelSpec, RecognitionRequest, RecognizedSegment
from models.timeline import Timeline
from models.whisper import features
from models.whisper.ctc import best_tokens, draft_score, token_spans
from models.whisper.decoding import DecodingOptions, decode
from models.whisper.drafts import resynchronized
from models.whisper.pipeline import WhisperRecognizer, load
from tests.models.whisper.builder import drain
from tests.models.whisper.ear import ear


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory: pytest.TempPathFactory) -> WhisperRecognizer:
    return ear(tmp_path_factory.mktemp("ear"))


def noise(seconds: float, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(round(seconds * 16_000)) * 0.1).astype(np.float32)


def segments(recognizer: WhisperRecognizer, request: RecognitionRequest) -> list[RecognizedSegment]:
    return [one for one in recognizer.recognize(request, Timeline(), lambda: False) if one is not None]


def test_its_tokens_are_found_by_their_names(recognizer: WhisperRecognizer) -> None:
    one = recognizer.tokenizer
    assert (one.end, one.start, one.languages, one.timed, one.official) == (256, 257, ["en"], False, False)
    start = one.start_sequence("en", "transcribe", timestamps=False)
    assert start == [257, one.specials["en"], one.specials["transcribe"], one.specials["notimestamps"]]
    assert one.blank == one.not_speech == []
    assert one.decode(one.encode(" It's so.")) == " It's so."


def test_a_window_is_as_long_as_its_audio(recognizer: WhisperRecognizer) -> None:
    mel = drain(features.recording(noise(0.7), 80, 200))
    assert features.short_window(mel, 0, 70).shape == (100, 80)
    assert np.array_equal(features.short_window(mel, 0, 70)[:70], mel[:70])
    assert (features.short_window(mel, 0, 70)[70:] == mel.min()).all()
    assert features.short_window(mel, 0, 50).shape == (50, 80)


@pytest.mark.parametrize("seconds", [0.05, 0.7, 2.0, 5.3])
def test_a_recording_of_any_length_ends(recognizer: WhisperRecognizer, seconds: float) -> None:
    found = segments(recognizer, RecognitionRequest(noise(seconds), word_times=True))
    for one in found:
        assert 0 <= one.start <= one.end <= seconds + 0.02
        letters = "".join(word.text for word in one.words)  # bytes of half a character are other marks in a word
        assert letters.replace("\ufffd", "").strip() == one.text.replace("\ufffd", "").strip()
        assert all(a.end <= b.start + 0.021 for a, b in zip(one.words, one.words[1:], strict=False))
    assert [one.start for one in found] == sorted(one.start for one in found)


def test_silence_has_no_text(recognizer: WhisperRecognizer) -> None:
    assert segments(recognizer, RecognitionRequest(np.zeros(16_000, np.float32))) == []


def plain(recognizer: WhisperRecognizer, memory: list, draft: Sequence[int] = (), limit: int = 40):  # type: ignore[no-untyped-def,type-arg]
    options = DecodingOptions(timestamps=False, draft=tuple(draft), limit=limit)
    return drain(decode(recognizer.steps, recognizer.tokenizer, memory, options, lambda: False))[0]


@pytest.fixture(scope="module", params=range(8))
def window(request: pytest.FixtureRequest, recognizer: WhisperRecognizer) -> list:  # type: ignore[type-arg]
    mel = drain(features.recording(noise(1.5, request.param), 80, 200))
    memory: list = drain(recognizer.steps.encode(features.short_window(mel, 0, 150)[None]))  # type: ignore[type-arg]
    return memory


def drafts(right: list[int]) -> Iterator[tuple[str, list[int]]]:
    rng = np.random.default_rng(len(right))
    wrong = [(token + 1) % 256 for token in right]
    half = len(right) // 2
    yield "right", right
    yield "too long", [*right, 1, 2, 3]
    yield "beginning", right[:half]
    yield "wrong", wrong
    yield "one wrong", [*right[:half], wrong[half] if right else 1, *right[half + 1 :]]
    yield "one missing", right[:half] + right[half + 1 :]
    yield "one more", [*right[:half], 7, *right[half:]]
    yield "much too long", right * 30 + [5] * 200
    yield "drawn", rng.integers(0, 256, 30).tolist()


def test_a_draft_changes_nothing(recognizer: WhisperRecognizer, window: list) -> None:  # type: ignore[type-arg]
    wanted = plain(recognizer, window)
    for name, draft in drafts(list(wanted.tokens)):
        found = plain(recognizer, window, draft)
        assert found.tokens == wanted.tokens, name
        assert found.average_logprob == pytest.approx(wanted.average_logprob, abs=1e-3), name
        assert found.no_speech == pytest.approx(wanted.no_speech, abs=1e-3), name
        assert found.accepted <= len(wanted.tokens)
    assert plain(recognizer, window, wanted.tokens).accepted == len(wanted.tokens)


def test_a_right_draft_costs_one_pass(
    recognizer: WhisperRecognizer, window: list, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[type-arg]
    wanted = plain(recognizer, window)
    passes, decoder = [], type(recognizer.network.decoder)
    call = decoder.__call__
    monkeypatch.setattr(decoder, "__call__", lambda self, *given: passes.append(1) or call(self, *given))
    monkeypatch.setattr(recognizer.steps, "margin", 0.0)
    plain(recognizer, window, wanted.tokens)
    assert len(passes) <= 2  # the second where the limit ends the draft


def test_where_the_draft_is_taken_up_again() -> None:
    draft = [1, 2, 3, 4, 5, 6, 7]
    assert resynchronized([1, 9, 3], draft, 1) == 3  # one token was another
    assert resynchronized([1, 2, 8, 9, 5, 6], draft, 2) == 6
    assert resynchronized([8, 9], draft, 0) is None
    assert resynchronized([], draft, 0) is None


def test_the_result_tells_what_was_accepted(recognizer: WhisperRecognizer) -> None:
    pcm = noise(1.5)
    plain_text = segments(recognizer, RecognitionRequest(pcm))
    tokens = tuple(token.id for one in plain_text for token in one.tokens)
    assert tokens
    again = segments(recognizer, RecognitionRequest(pcm, draft=tokens))
    assert [one.text for one in again] == [one.text for one in plain_text]
    assert sum(one.accepted for one in again) == len(tokens)


def test_best_path_and_times() -> None:
    best = [4, 1, 1, 4, 1, 2, 4, 4]
    scores = np.log(np.full((8, 5), 0.02, np.float32))
    scores[np.arange(8), best] = np.log(0.92)
    assert best_tokens(scores) == [1, 1, 2]
    spans = token_spans(scores, [1, 1, 2])
    assert spans.tolist() == [[1, 3], [4, 5], [5, 6]]
    assert token_spans(scores[:2], [1, 1]) is None
    assert best_tokens(scores[:0]) == []


def test_times_are_those_of_the_likeliest_path() -> None:
    """The path found is as likely as the best of all paths, counted one by one."""
    rng = np.random.default_rng(4)
    for tokens in ([0], [0, 1], [0, 0], [1, 0, 1]):
        scores = np.log(rng.dirichlet(np.ones(3), 6)).astype(np.float32)
        paths = [path for path in itertools.product(range(3), repeat=6) if said(path, 2) == tokens]
        best = max(paths, key=lambda path: sum(scores[at, label] for at, label in enumerate(path)))
        at = 0
        for (start, stop), token in zip(token_spans(scores, tokens).tolist(), tokens, strict=True):
            while best[at] == 2:
                at += 1
            first = at
            while at < 6 and best[at] == token:
                at += 1
            assert (start, stop) == (first, at)


def said(path: Sequence[int], blank: int) -> list[int]:
    """The tokens of a path: one for each run of equal labels, but for the blank."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def all_paths(scores: np.ndarray, tokens: Sequence[int]) -> float:
    """Sum of the probabilities of every path that says `tokens`."""
    blank, total = scores.shape[1] - 1, 0.0
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        if said(path, blank) == list(tokens):
            total += float(np.exp(sum(scores[at, one] for at, one in enumerate(path))))
    return total


@pytest.mark.parametrize("tokens", [[], [0], [1, 0], [0, 0], [1, 1, 0], [0, 1, 0, 1, 0]])
def test_the_score_of_a_draft_is_that_of_all_its_paths_beside_the_best_one(tokens: list[int]) -> None:
    logits = np.random.default_rng(7).standard_normal((5, 3)).astype(np.float32) * 2
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    best = float(np.exp(scores.max(axis=1).sum()))
    assert np.exp(draft_score(scores, tokens)) == pytest.approx(all_paths(scores, tokens) / best, rel=1e-5)
    assert draft_score(scores, [0, 0, 0, 0]) == -np.inf  # needs seven positions
    assert draft_score(scores[:0], []) == 0.0


SPOKEN = "Please open the window and close the door. She has been in the city for twenty years."
FOLDER = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundled() -> WhisperRecognizer:
    files = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
    return load(ModelSpec("ear", "whisper", {role: str(FOLDER / "models/ear" / name) for role, name in files.items()}))


@pytest.fixture(scope="module")
def spoken() -> np.ndarray:
    """Two sentences of the house voice `am_michael` (tests/golden/make_spoken.py)."""
    pcm, rate = soundfile.read(FOLDER / "tests/golden/spoken.ogg", dtype="float32")
    assert rate == 16_000
    return pcm


@pytest.mark.parametrize("beams", [1, 5])
def test_the_ear_in_the_box_hears_what_was_spoken(bundled: WhisperRecognizer, spoken: np.ndarray, beams: int) -> None:
    assert bundled.beams == 5
    heard = segments(bundled, RecognitionRequest(spoken, "en", beams=beams))
    words = [word.strip(".,").lower() for word in "".join(one.text for one in heard).split()]
    expected = [word.strip(".,").lower() for word in SPOKEN.split()]
    assert len(set(expected) - set(words)) <= 2  # tolerance: the model card tells one word in ten
    assert abs(len(words) - len(expected)) <= 2


def test_it_tells_what_was_spoken_from_what_was_not(bundled: WhisperRecognizer, spoken: np.ndarray) -> None:
    def score(text: str, pcm: np.ndarray) -> float:
        request = RecognitionRequest(pcm, "en", temperature=0.0, draft=bundled.encode_text(text))
        return segments(bundled, request)[0].draft_score

    third = len(spoken) // 3
    assert score(SPOKEN, spoken) > -20
    assert score(SPOKEN, np.concatenate([spoken[:third], spoken[2 * third :]])) < -50
    assert score(SPOKEN, np.concatenate([spoken[: 2 * third], spoken[third:]])) < -40
    assert score("Nobody was at home when the storm began to blow over the hills.", spoken) < -100


def test_only_a_draft_of_one_window_has_a_score(bundled: WhisperRecognizer, spoken: np.ndarray) -> None:
    assert segments(bundled, RecognitionRequest(spoken, "en"))[0].draft_score is None
    long = np.concatenate([spoken] * 4)
    assert len(long) > 15 * 16_000
    draft = bundled.encode_text(SPOKEN)
    assert segments(bundled, RecognitionRequest(long, "en", temperature=0.0, draft=draft))[0].draft_score is None
