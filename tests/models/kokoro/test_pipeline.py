"""The synthesizer on the house model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from models.backend import bucket, mx
from models.contract import (
    AudioChunk,
    Cancelled,
    InputTooLongError,
    ModelRequestError,
    SpeechRequest,
    UnknownVoiceError,
)
from models.kokoro.pipeline import FRAME_BUCKETS, TOKEN_BUCKETS, BatchRow, KokoroSynthesizer, _keys, round_durations
from models.timeline import Stage, Timeline
from tests.models.kokoro.house import UTTERANCES, distance, house, padded_house, style_row, tokens

HELLO = SpeechRequest("Hello.", UTTERANCES["hello"], "rms")
# From one phoneme to several sentences, on both sides of token and frame buckets.
LENGTHS = (1, 2, 5, 14, 15, 30, 63, 120)


def never() -> bool:
    return False


def speak(request: SpeechRequest, model: KokoroSynthesizer | None = None) -> AudioChunk:
    """The only chunk of an utterance."""
    (chunk,) = (model or house()).stream(request, Timeline(), never)
    return chunk


def phonemes(count: int) -> str:
    """Speech-like text of `count` phonemes."""
    sentence = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, ænd ðˈɛn ɪt ɹˈɛsts. "
    return (sentence * (count // len(sentence) + 1))[:count]


def test_the_reply() -> None:
    chunk = speak(HELLO)
    assert chunk.last
    assert chunk.pcm.dtype == np.float32
    assert chunk.pcm.ndim == 1
    assert np.isfinite(chunk.pcm).all()
    assert 0.1 < np.abs(chunk.pcm).max() <= 1
    assert abs(chunk.pcm.mean()) < 1e-3


def test_a_seed_gives_the_same_bits() -> None:
    first, again, other = (speak(replace(HELLO, seed=seed)).pcm for seed in (7, 7, 8))
    assert first.tobytes() == again.tobytes()
    assert first.shape == other.shape
    assert first.tobytes() != other.tobytes()


def test_a_seed_gives_the_same_bits_in_buckets() -> None:
    first, again = (speak(replace(HELLO, seed=7), padded_house()).pcm for _ in range(2))
    assert first.tobytes() == again.tobytes()


class Captured:
    """Calls of the prosody predictor's curves, with what they returned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[mx.array, mx.array]] = []
        kind = type(house().network.predictor)
        original = kind.curves

        def curves(predictor: object, *arguments: object) -> tuple[mx.array, mx.array]:
            self.seen.append(original(predictor, *arguments))
            return self.seen[-1]

        monkeypatch.setattr(kind, "curves", curves)


@pytest.mark.parametrize("count", LENGTHS)
def test_buckets_equal_the_unpadded(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Durations the same, F0 and energy within 1e-4. (The decoder given equal F0: test_network.)"""
    captured, row, ids = Captured(monkeypatch), style_row("slt"), tokens(phonemes(count))
    models = house(), KokoroSynthesizer(house().config, house().network, house()._packs, padded=True)
    (pcm, frames), (other, padded) = (model.synthesize(ids, row, 1.0, 0, Timeline(), never) for model in models)
    total = int(frames.sum())
    assert padded.tolist() == frames.tolist()
    assert pcm.shape == other.shape == (600 * total,)
    for exact, found in zip(*captured.seen, strict=True):
        assert exact.shape == (1, 2 * total)
        assert found.shape == (1, 2 * bucket(total, FRAME_BUCKETS))
        assert distance(found[:, : 2 * total], exact) < 1e-4


@pytest.mark.parametrize("padded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_speed_leaves_the_boundary_tokens(padded: bool) -> None:
    """Durations of the phonemes scale by 1 / speed, those of the silence around them do not."""
    model, ids = padded_house() if padded else house(), tokens(UTTERANCES["numbers"])

    def frames(speed: float) -> np.ndarray:
        pcm, found = model.synthesize(ids, style_row("rms"), speed, 0, Timeline(), never)
        assert len(pcm) == 600 * found.sum()
        return found

    normal = frames(1.0)
    for speed in (0.25, 0.5, 2.0, 4.0):
        scaled = frames(speed)
        assert (scaled[0], scaled[-1]) == (normal[0], normal[-1])
        # Rounding moves each duration by half a frame on both sides, before and after scaling.
        assert np.abs(scaled[1:-1] - np.maximum(normal[1:-1] / speed, 1)).max() <= 0.5 / speed + 0.5 + 1e-3
        assert scaled.min() >= 1


def test_durations_round_half_to_even_and_are_at_least_one() -> None:
    """As torch.round does."""
    expected = np.array([0.2, 0.5, 1.5, 2.5, 3.49, 0.1], dtype=np.float32)
    assert round_durations(expected, 1.0).tolist() == [1, 1, 2, 2, 3, 1]
    assert round_durations(expected, 0.5).tolist() == [1, 1, 3, 5, 7, 1]


@pytest.mark.parametrize("speed", [0.0, -1.0, 0.2499, 4.0001, math.inf, math.nan])
def test_speed_out_of_range(speed: float) -> None:
    with pytest.raises(ModelRequestError, match=r"speed must be between 0\.25 and 4\.0, not"):
        speak(replace(HELLO, speed=speed))


def test_phoneme_ends() -> None:
    """One for each character, ascending, the last within the closing silence of the audio's end."""
    text = UTTERANCES["numbers"]
    chunk = speak(replace(HELLO, phonemes=text))
    frames = house().synthesize(tokens(text), style_row("rms"), 1.0, 0, Timeline(), never)[1]
    ends = chunk.phoneme_ends
    assert len(ends) == len(text)
    assert ends == pytest.approx((np.cumsum(frames) * 0.025)[1:-1])
    assert all(b > a for a, b in zip((0, *ends), ends, strict=False))
    assert ends[-1] == pytest.approx(len(chunk.pcm) / 24_000 - frames[-1] * 0.025)


def test_unknown_phonemes_are_dropped_and_still_counted() -> None:
    plain, odd = (speak(replace(HELLO, phonemes=text)) for text in ("həlˈO.", "☃həl☃☃ˈO.☃"))
    assert odd.pcm.tobytes() == plain.pcm.tobytes()
    assert len(odd.phoneme_ends) == len("☃həl☃☃ˈO.☃")
    assert odd.phoneme_ends[1:4] == plain.phoneme_ends[:3]
    assert odd.phoneme_ends[4] == odd.phoneme_ends[5] == plain.phoneme_ends[2]


def test_the_longest_utterance_and_one_more() -> None:
    with pytest.raises(InputTooLongError, match="511 phonemes in one utterance; at most 510"):
        speak(replace(HELLO, phonemes=phonemes(511)))
    assert house().max_phonemes == 510
    ids = tokens(phonemes(510))
    pcm, frames = house().synthesize(ids, style_row("rms"), 4.0, 0, Timeline(), never)
    assert len(frames) == 512
    assert len(pcm) == 600 * frames.sum()
    assert np.isfinite(pcm).all()


@pytest.mark.parametrize("text", ["", "☃☃"])
def test_nothing_to_speak(text: str) -> None:
    with pytest.raises(ModelRequestError, match="nothing to speak"):
        speak(replace(HELLO, phonemes=text))


@pytest.mark.parametrize("voice", ["nobody", "rms(", "rms+nobody", ""])
def test_unknown_voice(voice: str) -> None:
    with pytest.raises(UnknownVoiceError):
        house().check_voice(voice)
    with pytest.raises(UnknownVoiceError):
        speak(replace(HELLO, voice=voice))


def test_errors_come_before_the_first_chunk() -> None:
    """And not before the stream is read: it is a generator."""
    stream = house().stream(replace(HELLO, voice="nobody"), Timeline(), never)
    assert isinstance(stream, Iterator)
    with pytest.raises(UnknownVoiceError):
        next(stream)


def test_blends() -> None:
    """A blend with itself is the voice; of two it is neither, and follows the weights."""
    one, same, both, other = (speak(replace(HELLO, voice=v)).pcm for v in ("rms", "rms+rms", "rms(2)+slt(1)", "slt"))
    assert one.tobytes() == same.tobytes()
    assert both.tobytes() not in (one.tobytes(), other.tobytes())
    house().check_voice("rms(2)+slt(1)")
    row = (2 * style_row("rms") + style_row("slt")) / 3
    mixed = house().synthesize(tokens(HELLO.phonemes), row.astype(np.float32), 1.0, 0, Timeline(), never)[0]
    assert mixed.shape == both.shape
    assert distance(both, mixed) < 0.05


def test_voices() -> None:
    assert [voice.id for voice in house().voices] == ["rms", "slt"]
    assert house().default_voice == "rms"
    assert house().sample_rate == 24_000


@pytest.mark.parametrize("padded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cancelled_between_any_two_stages(padded: bool) -> None:
    """Whenever `cancelled` turns true, Cancelled is raised there and nothing after it is computed."""
    model, asked = padded_house() if padded else house(), 0
    whole = Timeline()

    def count() -> bool:
        nonlocal asked
        asked += 1
        return False

    list(model.stream(HELLO, whole, count))
    assert asked >= 10
    for turn in range(1, asked + 1):
        left, timeline = turn, Timeline()

        def cancelled() -> bool:
            nonlocal left
            left -= 1
            assert left >= 0, "asked again after it was cancelled"
            return left == 0

        with pytest.raises(Cancelled):
            list(model.stream(HELLO, timeline, cancelled))
        assert len(timeline.spans) < len(whole.spans)
    assert len(speak(HELLO, model).pcm) > 0


@pytest.mark.parametrize("padded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sentences_that_take_turns_sound_as_if_alone(padded: bool) -> None:
    """A later sentence gives way after every piece of its work; what is computed in between changes no sample."""
    model = padded_house() if padded else house()
    requests = [replace(HELLO, phonemes=phonemes(count), first=False) for count in (9, 40, 90)]
    alone = [speak(replace(request, first=True), model).pcm for request in requests]
    under_way = {at: model.stream(request, Timeline(), never) for at, request in enumerate(requests)}
    found: dict[int, AudioChunk] = {}
    turns = 0
    while under_way:
        for at, items in list(under_way.items()):
            turns += 1
            if (item := next(items)) is not None:
                found[at] = item
                del under_way[at]
    assert turns >= 10 * len(requests)
    for at, pcm in enumerate(alone):
        assert found[at].pcm.tobytes() == pcm.tobytes()


def test_a_sentence_that_is_dropped_half_done_leaves_nothing() -> None:
    items = house().stream(replace(HELLO, first=False), Timeline(), never)
    assert [next(items) for _ in range(4)] == [None] * 4
    items.close()  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        next(items)


def test_stages_are_timed_when_profiling() -> None:
    model = KokoroSynthesizer(house().config, house().network, house()._packs, profile=True)
    timeline = Timeline()
    list(model.stream(HELLO, timeline, never))
    assert set(timeline.stages) == {Stage.VOICE, Stage.BERT, Stage.TEXT_ENCODER, Stage.PREDICTOR, Stage.DECODER}
    assert all(seconds > 0 for seconds in timeline.stages.values())
    assert sum(timeline.stages.values()) <= timeline.total_seconds


def test_profiling_changes_no_sample() -> None:
    model = KokoroSynthesizer(house().config, house().network, house()._packs, profile=True)
    assert speak(HELLO, model).pcm.tobytes() == speak(HELLO).pcm.tobytes()


def test_token_buckets_hold_every_utterance() -> None:
    assert FRAME_BUCKETS == (50, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1200, 1600)
    assert bucket(house().max_phonemes + 2, TOKEN_BUCKETS) == TOKEN_BUCKETS[-1] == 512


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**40 + 5])
def test_the_noise_has_mlx_key_of_its_seed(seed: int) -> None:
    row = BatchRow([0, 0], np.zeros((1, 2), np.float32), 1.0, seed, Timeline(), lambda: False)
    assert np.array_equal(_keys([row, row]), np.array([mx.random.key(seed)] * 2))
